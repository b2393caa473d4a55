"""(z, δ)-nearness of a sum along a Markov chain, over all rows and pairs, for chains of any length (M4, M18).

By max-flow min-cut what cannot be matched is max_A μ(A) − ν(A^z), A^z being A widened by z on both sides. On a line A
is a union of intervals: point by point one decides to be inside or outside A, for all pairs side by side. A pair may be
split into parts that must not mix. Then the parts' surpluses add up, and mass that the parts of μ lack to a total of 1
counts as unmatched. Every number is within `error` of its true value, and is rounded towards more unmatched mass.

A short chain's laws are worked out for every row; a long chain is seen through windows. Let the window of row t reach
from row t − h to row t + h. Let S be the sum over its rows but the last one. Given X_{t−h} and X_{t+h} the rest of the
sum is independent of X_t and of S. Take the joint laws of (X_{t−h}, S, X_{t+h}) given X_t = a and given X_t = b.
Suppose they can be coupled, all but δ, with both ends equal and S within z. Continuing both by the same rest couples
the whole sums within z, all but δ: they are (z, δ)-near. The only loss of accuracy is the mass whose ends differ, which
falls geometrically in h for chains that mix. Where the window reaches beyond an end of the chain, that whole side is in
S and no state has to agree there.

Cheaper and coarser: given X_t the two halves of the window are independent. Let the earlier half with its end be (y,
δ/2)-near in this sense, and the later half (z, δ/2)-near. Both couplings side by side give (y + z, δ).

Rows with the same steps and values around them, and the same law at the start of their window, share their result.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import Any, final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.progress import in_time
from pufferflow.core.rounding import SMALLEST, UNIT, float_below
from pufferflow.core.validate import decimal_reading, probability_below_one
from pufferflow.distributions.lattice import Masses, disjoint_planes, shift, yardstick
from pufferflow.distributions.markov.sums import (
    Farthest,
    PastAndFuture,
    SumLattice,
    Sums,
    SumSecrets,
    lattice,
    read_secrets,
)
from pufferflow.distributions.markov.winf_of_sums import (
    FINE,
    Pair,
    conditional_laws,
    farthest,
    most_points,
    possible_states,
)

_CELLS = 3_000_000
_LARGEST_SHARE_FORGIVEN = 2.0**-20


@final
@dataclass(frozen=True)
class Tolerance:
    """The mass that may stay unmatched, and the largest error of computed masses.

    As for two single laws an allowance for rounding makes a computed .003 equal to a δ typed as .003. It is at most
    δ/2²⁰.
    """

    delta: float
    error: float

    @property
    def forgiving(self) -> float:
        """The largest computed mass that may stay unmatched."""
        return self.delta + min(2 * self.error, self.delta * _LARGEST_SHARE_FORGIVEN) - self.error


@final
@dataclass
class NearnessSearch:
    """The least z in steps within which all pairs so far are near; `failed` if there is none for some pair.

    `needed`: no smaller z suffices under any rounding. `enough`: z suffices under any rounding.
    """

    allowed: Tolerance
    steps: int = 0
    where: tuple[int, Pair] | None = None
    needed: bool = True
    enough: bool = True
    failed: bool = False
    _waiting: list[tuple[Floats, Floats, tuple[int, Pair]]] = field(default_factory=list[Any])
    _cells: int = 0

    def add(self, mu: Floats, nu: Floats, row: int, states: Pair) -> None:
        """Add a pair of laws, each in parts of shape (E, N), to the batch, and search the batch once it is full."""
        if self._waiting and len(self._waiting[0][0]) != len(mu):
            self.flush()
        self._waiting.append((mu, nu, (row, states)))
        self._cells += mu.size
        if self._cells > _CELLS:
            self.flush()

    def flush(self) -> None:
        if self._waiting and not self.failed:
            self._raise_distance(
                LawPairs.of([(mu, nu) for mu, nu, _ in self._waiting]),
                [label for _, _, label in self._waiting],
            )
        self._waiting.clear()
        self._cells = 0

    def _raise_distance(self, all_pairs: "LawPairs", labels: list[tuple[int, Pair]]) -> None:
        """Raise the distance until these pairs are near within it too."""
        pairs = all_pairs
        unmatched = pairs.unmatched(self.steps)
        self.where = self.where or labels[int(unmatched.argmax())]
        failing = np.flatnonzero(unmatched > self.allowed.forgiving)
        low, high, reach = self.steps, self.steps, 1
        before = unmatched[failing]
        while len(failing):
            low, high, reach = high, min(high + reach, pairs.size), 2 * reach
            pairs = pairs.subset(failing)
            labels = [labels[i] for i in failing.tolist()]
            unmatched = pairs.unmatched(high)
            failing = np.flatnonzero(unmatched > self.allowed.forgiving)
            if len(failing):
                before = unmatched[failing]
                self.failed = high == pairs.size
                if self.failed:
                    return
        self._bisect(pairs, labels, low, high, before)
        strict = self.allowed.delta - self.allowed.error
        self.enough = self.enough and bool((all_pairs.unmatched(self.steps) <= strict).all())

    def _bisect(
        self, pairs: "LawPairs", labels: list[tuple[int, Pair]], low: int, high: int, before: Floats
    ) -> None:
        """Bisect between a distance that is too small and one that suffices; both may be the current one."""
        if low == high:
            return
        worst = labels[int(before.argmax())]
        while high - low > 1:
            middle = (low + high) // 2
            unmatched = pairs.unmatched(middle)
            if (unmatched > self.allowed.forgiving).any():
                low, before, worst = middle, unmatched, labels[int(unmatched.argmax())]
            else:
                high = middle
        self.steps, self.where = high, worst
        self.needed = float(before.max()) > self.allowed.delta + self.allowed.error


@final
@dataclass(frozen=True, eq=False)
class LawPairs:
    """Pairs of laws in parts: `mu[i, pair, part]` is the mass of a part before point i, likewise `nu`."""

    mu: Floats
    nu: Floats

    @staticmethod
    def of(laws: list[tuple[Floats, Floats]]) -> "LawPairs":
        """Put laws of different lengths side by side."""
        size = max(len(law[0]) for pair in laws for law in pair)
        sides = np.zeros((2, size + 1, len(laws), len(laws[0][0])))
        for place, pair in enumerate(laws):
            for side, law in zip(sides, pair, strict=True):
                side[1 : law.shape[1] + 1, place] = law.T
        sides = np.cumsum(sides, axis=1)
        return LawPairs(sides[0], sides[1])

    @property
    def size(self) -> int:
        """The number of points; no distance is as large."""
        return len(self.mu) - 1

    def subset(self, which: Indices) -> "LawPairs":
        return LawPairs(self.mu[:, which], self.nu[:, which])

    def unmatched(self, steps: int) -> Floats:
        """Return for each pair the mass that cannot be matched within a number of steps."""
        points = np.arange(self.size)
        # entering A before a point gains ν below its reach and costs μ below it; leaving after a point the reverse
        enter = self.nu[np.maximum(points - steps, 0)] - self.mu[:-1]
        leave = self.mu[1:] - self.nu[np.minimum(points + steps + 1, self.size)]
        outside = np.zeros(self.mu.shape[1:])
        inside = np.full(self.mu.shape[1:], -np.inf)
        for gained, retained in zip(enter, leave, strict=True):
            np.maximum(inside, outside + gained, out=inside)
            np.maximum(outside, inside + retained, out=outside)
        return 1 - self.mu[-1].sum(axis=1) + outside.sum(axis=1)


ALIKE = 1e-14
"""Laws with logarithms in the same cells of this width count as one; `errors` of masses include it."""
ERRORS = 1000
_NEGLIGIBLE = 1e-150
_VISIBLE = 1e-250
_STEP_COST = 20_000
_TRIALS = 200
_SHORT = 200
_QUICK = 3
_FIRST_REACH = 8
_MOST_WORK = 4e10
_LITTLE_WORK = 1e8
_POINTS_PER_ROW = 64
_MOST_POINTS_PER_ROW = 1000


@final
class Windows:
    """Carries sums from one row to a later one, for each state at either end; each pattern of rows once."""

    def __init__(self, sums: Sums, lattice: SumLattice) -> None:
        self._sums, self._lattice = sums, lattice
        kinds = sums.kinds[:-1]
        self._code = np.unique(sums.chain.order * len(sums.values) + kinds, return_inverse=True)[
            1
        ].astype(np.intp)
        self._known: dict[int, tuple[Floats, Floats]] = {}
        self.reach = 0
        """The number of rows of a window on either side."""
        self.labels = self._code
        """The pattern of `reach` steps and values that starts at each row; equal patterns have equal labels."""

    def widen(self, reach: int) -> None:
        """Set the number of rows of a window on either side."""
        self._known.clear()
        self.reach, self.labels = reach, _patterns(self._code, reach)

    def carried(self, start: int) -> tuple[Floats, Floats]:
        """Return P(X_{start+h} = y, Σ of the values of rows start … start+h−1 = s | X_start = x), and its sum over s.

        Masses below 1e−150 are dropped; the sum over s has them all.
        """
        label = int(self.labels[start])
        if label not in self._known:
            self._known[label] = self._carry(start)
        return self._known[label]

    def past(self, row: int, law: Floats) -> Floats:
        """Return P(X_{row−h} = c, S = s | X_row = a) at [a, c, s], given the law of row − h."""
        masses, product = self.carried(row - self.reach)
        total = (law @ product)[:, None, None]
        joint = (law[:, None, None] * masses).transpose(1, 0, 2)
        # the mass left out here counts as unmatched later
        return np.where(total > _VISIBLE, joint / np.maximum(total, _VISIBLE), 0.0)

    def _carry(self, start: int) -> tuple[Floats, Floats]:
        states = self._sums.chain.states
        masses, product = np.eye(states)[:, :, None], np.eye(states)
        for row in range(start, start + self.reach):
            kernel = self._sums.chain.kernels[self._sums.chain.order[row]]
            moved = np.zeros((states, states, masses.shape[2] + int(self._lattice.spans[row])))
            for state, by in enumerate(self._lattice.points[self._sums.kinds[row]].tolist()):
                moved[:, state, by : by + masses.shape[2]] = masses[:, state]
            masses = kernel.T @ moved
            masses[masses < _NEGLIGIBLE] = 0.0
            product = product @ kernel
        return masses, product


def marginals(sums: Sums, initial: Floats) -> tuple[Floats, Flags]:
    """Return the law of each row, and its possible states; masses that underflow become the smallest float."""
    kernels = sums.chain.kernels
    links = kernels > 0
    laws = np.empty((sums.length, sums.chain.states))
    reached = np.empty(laws.shape, dtype=np.bool_)
    laws[0], reached[0] = initial, initial > 0
    for row, kernel in enumerate(sums.chain.order.tolist()):
        laws[row + 1] = laws[row] @ kernels[kernel]
        reached[row + 1] = reached[row] @ links[kernel]
    return np.where(reached, np.maximum(laws, SMALLEST), 0.0), reached


def law_labels(laws: Floats) -> Indices:
    """Return a label for each law: those with the same one are equal within `ALIKE`."""
    cells = np.rint(np.log(np.where(laws > 0, laws, 1.0)) / ALIKE)
    cells = np.where(laws > 0, cells, 1.0)
    labels = np.zeros(len(laws), dtype=np.intp)
    for column in cells.T:
        codes = np.unique(column, return_inverse=True)[1]
        labels = np.unique(labels * (int(codes.max()) + 1) + codes, return_inverse=True)[1].astype(
            np.intp
        )
    return labels


def _patterns(code: Indices, length: int) -> Indices:
    """Return a label for each run of a number of codes, by its start; equal runs have equal labels."""
    labels, done = code, 1
    while done < length:
        step = min(done, length - done)
        size = len(labels) - step
        pairs = labels[:size] * (int(labels.max(initial=0)) + 1) + labels[step : step + size]
        labels, done = np.unique(pairs, return_inverse=True)[1].astype(np.intp), done + step
    return labels


@final
@dataclass(frozen=True, eq=False)
class View:
    """The windows around all secret rows, for one initial law."""

    sums: Sums
    secrets: SumSecrets
    lattice: SumLattice
    windows: Windows
    initial: Floats

    def search_jointly(self, search: NearnessSearch) -> None:
        """Search by the joint law of the sum and both ends of the window of each row."""
        for row, before, after in in_time(self._rows()):
            pairs = self.secrets.possible(self._possible[row])
            joint = {  # of both ends and the sum, given a state: one part for each pair of ends
                a: np.array(
                    [np.convolve(past, future) for past in before[a] for future in after[a]]
                )
                for a in {a for pair in pairs for a in pair}
            }
            for a, b in pairs:
                search.add(joint[a], joint[b], row, (a, b))

    def search_sides(self, past: NearnessSearch, future: NearnessSearch) -> None:
        """Search by each half of the window separately, without any convolution."""
        seen = set[tuple[tuple[int, int, int], Pair]]()
        labels, reach, last = self.windows.labels, self.windows.reach, self.sums.length - 1
        for row, before, after in in_time(self._rows()):
            first = (
                (0, -1, row)
                if row <= reach
                else (0, int(labels[row - reach]), int(self._alike[row - reach]))
            )
            second = (1, -1, row) if row >= last - reach else (1, int(labels[row]), 0)
            for a, b in self.secrets.possible(self._possible[row]):
                for search, laws, key in ((past, before, first), (future, after, second)):
                    if (key, (a, b)) not in seen:
                        seen.add((key, (a, b)))
                        search.add(laws[a], laws[b], row, (a, b))

    def work(self, *, jointly: bool) -> float:
        """Estimate the operations of one search: a cut-off side has a shorter sum and no end to match."""
        states, reach = self.sums.chain.states, self.windows.reach
        points = reach * int(self.lattice.spans.max()) + 1
        inner = len(self._inner)
        ends = self.sums.length if 2 * reach >= self.sums.length else 2 * reach + 2
        carrying = len(np.unique(self.windows.labels)) * reach * (states**3 * points + _STEP_COST)
        trying = _TRIALS * points * len(self.secrets.pairs)
        if jointly:
            return carrying + states * (ends / 2 + inner * states) * (states * points**2 + trying)
        return carrying + (ends / 2 + inner * states) * trying

    @cached_property
    def _marginals(self) -> tuple[Floats, Flags]:
        return marginals(self.sums, self.initial)

    @property
    def _possible(self) -> Flags:
        return self._marginals[1]

    @cached_property
    def _alike(self) -> Indices:
        return law_labels(self._marginals[0])

    def _rows(self) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield rows with P(X_{row−h} = c, S = s | X_row = a) at [a, c, s], and the same for what comes after.

        There is a single c where the window extends beyond the end of the chain.
        """
        reach, last, wanted = self.windows.reach, self.sums.length - 1, self.secrets.rows
        sides, laws = PastAndFuture(self.sums, self.lattice), self._marginals[0]
        for row, law in enumerate(islice(sides.pasts(self.initial), reach + 1)):
            if wanted[row]:
                yield row, leading_masses(law), self.windows.carried(row)[0]
        for row in self._inner.tolist():
            yield row, self.windows.past(row, laws[row - reach]), self.windows.carried(row)[0]
        for back, law in enumerate(islice(sides.futures_back(), reach + 1)):
            row = last - back
            if wanted[row]:
                points = self.lattice.points[self.sums.kinds[row]]
                after = leading_masses(shift(law, points, int(self.lattice.spans[row])))
                yield row, self.windows.past(row, laws[row - reach]), after

    @property
    def _inner(self) -> Indices:
        """One secret row of each class of rows with equal windows and equal laws at their start."""
        reach, labels = self.windows.reach, self.windows.labels
        at = np.arange(reach + 1, self.sums.length - 1 - reach)
        at = at[self.secrets.rows[at]]
        code = np.zeros(len(at), dtype=np.intp)
        for label in (labels[at - reach], labels[at], self._alike[at - reach]):
            code = np.unique(code * (int(label.max(initial=0)) + 1) + label, return_inverse=True)[
                1
            ].astype(np.intp)
        return np.sort(at[np.unique(code, return_index=True)[1]])


def leading_masses(law: Masses) -> Floats:
    """Return the law given each state, at [state, 0, s], without masses below 2^−200; they count as unmatched."""
    return np.stack([disjoint_planes(planes)[:1] for planes in conditional_laws(law.planes)])


def nearest(
    sums: Sums, pairs: Indices, delta: float | Fraction | Decimal, rows: Flags | None = None
) -> Farthest:
    """Return the least z at which the laws given two states of a row are (z, δ)-near, for all rows and pairs.

    Exact while the laws of all rows are quick to compute. A longer chain is treated by a window around each row: an
    upper bound, at any length, if rows repeat a pattern and the chain mixes. Otherwise, or for a δ finer than the
    rounding of masses, the result is W_∞ as `farthest` finds it, or a refusal.

    >>> from pufferflow.distributions.markov.chain import Chain
    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(99_999, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> counts = Sums(chain, np.array([[0.0, 1.0]]), np.zeros(100_000, dtype=np.intp))
    >>> nearest(counts, np.array([[0, 1]]), 1e-6).length
    10.0
    """
    probability_below_one(delta, "delta")
    share, secrets, max_points = (
        float_below(decimal_reading(delta)),
        read_secrets(sums, pairs, rows),
        most_points(sums),
    )
    grid = lattice(sums, max_points)
    if grid.error:
        grid = lattice(sums, min(max_points, FINE * sums.length))
    result = None
    if share and (sums.length <= _SHORT or grid.size <= max_points // _QUICK):
        result = _search_all_rows(sums, secrets, grid, share)
    elif share:
        result = _search_through_windows(sums, secrets, share)
        if result is None and grid.size <= max_points:
            result = _search_all_rows(sums, secrets, grid, share)
    return result or farthest(sums, pairs, rows)


def _search_all_rows(
    sums: Sums, secrets: SumSecrets, grid: SumLattice, share: float
) -> Farthest | None:
    """Search by the laws of the whole sum for every row; None if δ is finer than their rounding."""
    precision = yardstick(sums.length, sums.chain.states, grid.size)
    search, sides = (
        NearnessSearch(_tolerance(share, precision.error + 8 * grid.size)),
        PastAndFuture(sums, grid),
    )
    if search.allowed.forgiving <= 0:
        return None
    for initial in sums.chain.initial:
        for row, (past, future) in enumerate(
            in_time(zip(sides.pasts(initial), sides.futures(), strict=True))
        ):
            open_pairs = secrets.possible(possible_states(past)) if secrets.rows[row] else []
            before, after = leading_masses(past)[:, 0], leading_masses(future)[:, 0]
            values = grid.points[sums.kinds[row]].tolist()
            laws = {
                a: np.concatenate([np.zeros(values[a]), np.convolve(before[a], after[a])])[None]
                for a in {a for pair in open_pairs for a in pair}
            }
            for a, b in open_pairs:
                search.add(laws[a], laws[b], row, (a, b))
    return _result_of([search], secrets, grid, exact=not grid.error)


def _search_through_windows(sums: Sums, secrets: SumSecrets, share: float) -> Farthest | None:
    """Widen the window until that no longer helps; None if no window within the work limit suffices."""
    grid = lattice(sums, sums.length * _MOST_POINTS_PER_ROW)
    if grid.error:
        grid = lattice(sums, sums.length * _POINTS_PER_ROW)
    windows = Windows(sums, grid)
    views = [View(sums, secrets, grid, windows, initial) for initial in sums.chain.initial]
    return _widen_windows(views, share, jointly=True) or _widen_windows(views, share, jointly=False)


def _widen_windows(views: list[View], share: float, *, jointly: bool) -> Farthest | None:
    """Double the reach of the windows while that helps; return the least distance, by both sides jointly or each."""
    best: Farthest | None = None
    reach = _FIRST_REACH
    while 2 * reach < views[0].sums.length:
        views[0].windows.widen(reach)
        work = sum(view.work(jointly=jointly) for view in views)
        if work > _MOST_WORK:
            break
        result = _search_windows(views, share, jointly=jointly)
        if (
            best is not None
            and (result is None or result.length >= best.length)
            and work > _LITTLE_WORK
        ):
            break
        if result is not None and (best is None or result.length < best.length):
            best = result
        reach *= 2
    return best


def _search_windows(views: list[View], share: float, *, jointly: bool) -> Farthest | None:
    """Return the distance that windows prove: by both sides jointly, or by the sum of both sides, each for half of δ.

    None if some rows do not mix enough within the window.
    """
    tolerance = _window_tolerance(views[0], share if jointly else share / 2)
    if tolerance.forgiving <= 0:
        return None
    searches = [NearnessSearch(tolerance) for _ in range(1 if jointly else 2)]
    for view in views:
        (view.search_jointly if jointly else view.search_sides)(*searches)
    return _result_of(
        searches[::-1], views[0].secrets, views[0].lattice, rows=2 * views[0].windows.reach + 1
    )


def _window_tolerance(view: View, share: float) -> Tolerance:
    """Return the tolerance of windows: the law at their start comes from as many steps as the chain has rows."""
    rows, states = 2 * view.windows.reach + 1, view.sums.chain.states
    points = rows * int(view.lattice.spans.max()) + 1
    start = 2 * view.sums.length * (states + 4)
    return _tolerance(share, yardstick(rows, states, points).error + 8 * points + start + ERRORS)


def _tolerance(share: float, units: int) -> Tolerance:
    return Tolerance(share, (units + 8) * UNIT / 2)


def _result_of(
    searches: list[NearnessSearch],
    secrets: SumSecrets,
    grid: SumLattice,
    *,
    exact: bool = False,
    rows: int | None = None,
) -> Farthest | None:
    """Return the result of searches whose distances add; None if one failed."""
    for search in searches:
        search.flush()
        if search.failed:
            return None
    first = searches[0]
    if first.where is None:
        return secrets.nothing
    row, states = first.where
    length = grid.length(sum(search.steps for search in searches), rows)
    return Farthest(
        length,
        row,
        states,
        exact=exact and first.needed and first.enough,
        rounding=2 * first.allowed.error,
    )
