"""(z, δ)-nearness of a sum along a Markov chain: over all rows and pairs; for chains of any length (M4, M18)."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np

from pufferflow.reading import decimal_reading, probability_below_one
from pufferflow.rounding import UNIT, float_below
from pufferflow.sums.farthest import FINE, farthest, most_points
from pufferflow.sums.lattice import Lattice, lattice
from pufferflow.sums.levels import yardstick
from pufferflow.sums.nearness import Allowance, Search
from pufferflow.sums.sides import Sides
from pufferflow.sums.statistic import Asked, Farthest, Flags, Sums, Whole, asked
from pufferflow.sums.three import possible
from pufferflow.sums.views import View, visible
from pufferflow.sums.windows import ERRORS, Windows

_SHORT = 200
_QUICK = 3
_FIRST_REACH = 8
_MOST_WORK = 4e10
_LITTLE_WORK = 1e8
_POINTS_PER_ROW = 64
_MOST_POINTS_PER_ROW = 1000


def nearest(sums: Sums, pairs: Whole, delta: float | Fraction | Decimal, rows: Flags | None = None) -> Farthest:
    """Return the least z at which the laws given two states of a row are (z, δ)-near, for all rows and pairs.

    Exact while the laws of all rows are quickly worked out. A longer chain is seen through a window around each row: an
    upper bound, at any length, if rows repeat a pattern and forget each other. What is beyond that, or a δ finer than
    the rounding of masses, gets W_∞ as `farthest` finds it, or refuses it.

    >>> from pufferflow.messages import Chain
    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(99_999, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> counts = Sums(chain, np.array([[0.0, 1.0]]), np.zeros(100_000, dtype=np.intp))
    >>> nearest(counts, np.array([[0, 1]]), 1e-6).length
    10.0
    """
    probability_below_one(delta, "delta")
    share, secrets, most = float_below(decimal_reading(delta)), asked(sums, pairs, rows), most_points(sums)
    where = lattice(sums, most)
    if where.error:
        where = lattice(sums, min(most, FINE * sums.length))
    found = None
    if share and (sums.length <= _SHORT or where.size <= most // _QUICK):
        found = _exactly(sums, secrets, where, share)
    elif share:
        found = _through_windows(sums, secrets, share)
        if found is None and where.size <= most:
            found = _exactly(sums, secrets, where, share)
    return found or farthest(sums, pairs, rows)


def _exactly(sums: Sums, secrets: Asked, where: Lattice, share: float) -> Farthest | None:
    """Look at the laws of the whole sum for every row; None if δ is finer than their rounding."""
    by = yardstick(sums.length, sums.chain.states, where.size)
    search, sides = Search(_allowance(share, by.error + 8 * where.size)), Sides(sums, where)
    if search.allowed.forgiving <= 0:
        return None
    for initial in sums.chain.initial:
        for row, (past, future) in enumerate(zip(sides.pasts(initial), sides.futures(), strict=True)):
            found = secrets.possible(possible(past)) if secrets.rows[row] else []
            before, after = visible(past)[:, 0], visible(future)[:, 0]
            values = where.points[sums.kinds[row]].tolist()
            laws = {
                a: np.concatenate([np.zeros(values[a]), np.convolve(before[a], after[a])])[None]
                for a in {a for pair in found for a in pair}
            }
            for a, b in found:
                search.add(laws[a], laws[b], row, (a, b))
    return _found([search], secrets, where, exact=not where.error)


def _through_windows(sums: Sums, secrets: Asked, share: float) -> Farthest | None:
    """Widen the window until that no longer helps; None if no window that can be paid for does."""
    where = lattice(sums, sums.length * _MOST_POINTS_PER_ROW)
    if where.error:
        where = lattice(sums, sums.length * _POINTS_PER_ROW)
    windows = Windows(sums, where)
    views = [View(sums, secrets, where, windows, initial) for initial in sums.chain.initial]
    return _widened(views, lambda: _together(views, share), together=True) or _widened(
        views, lambda: _apart(views, share), together=False
    )


def _widened(views: list[View], look: Callable[[], Farthest | None], *, together: bool) -> Farthest | None:
    """Return the best of what is found at one reach after the other."""
    best: Farthest | None = None
    reach = _FIRST_REACH
    while 2 * reach < views[0].sums.length:
        views[0].windows.widen(reach)
        work = sum(view.work(together=together) for view in views)
        if work > _MOST_WORK:
            break
        found = look()
        if best is not None and (found is None or found.length >= best.length) and work > _LITTLE_WORK:
            break
        if found is not None and (best is None or found.length < best.length):
            best = found
        reach *= 2
    return best


def _together(views: list[View], share: float) -> Farthest | None:
    """Return what both sides of the window tell at once; None if some rows have not forgotten enough."""
    search = Search(_window_allowance(views[0], share))
    if search.allowed.forgiving > 0:
        for view in views:
            view.together(search)
        return _found([search], views[0].secrets, views[0].where, rows=2 * views[0].windows.reach + 1)
    return None


def _apart(views: list[View], share: float) -> Farthest | None:
    """Return what one side and then the other tell, each for half of δ."""
    past, future = (Search(_window_allowance(views[0], share / 2)) for _ in range(2))
    if past.allowed.forgiving > 0:
        for view in views:
            view.apart(past, future)
        return _found([future, past], views[0].secrets, views[0].where, rows=2 * views[0].windows.reach + 1)
    return None


def _window_allowance(view: View, share: float) -> Allowance:
    """Return what windows allow: the law at their start comes from as many steps as the chain has rows."""
    rows, states = 2 * view.windows.reach + 1, view.sums.chain.states
    points = rows * int(view.where.spans.max()) + 1
    start = 2 * view.sums.length * (states + 4)
    return _allowance(share, yardstick(rows, states, points).error + 8 * points + start + ERRORS)


def _allowance(share: float, units: int) -> Allowance:
    return Allowance(share, (units + 8) * UNIT / 2)


def _found(
    searches: list[Search], secrets: Asked, where: Lattice, *, exact: bool = False, rows: int | None = None
) -> Farthest | None:
    """Return what searches came to, one after the other; their distances add."""
    for search in searches:
        search.flush()
        if search.failed:
            return None
    first = searches[0]
    if first.where is None:
        return secrets.nothing
    row, states = first.where
    length = where.length(sum(search.steps for search in searches), rows)
    return Farthest(
        length, row, states, exact=exact and first.needed and first.enough, rounding=2 * first.allowed.error
    )
