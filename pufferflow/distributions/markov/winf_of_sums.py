"""W_∞ of a sum along a Markov chain, over all rows and pairs: exactly, or by the three-term bound (M18).

The law of the sum given X_t = a is past ∗ future, moved by the value of a. For most pairs a test suffices: they are
not farther apart than the farthest so far, or the three-term bound excludes it. That bound is W_∞(past) +
|v(a) − v(b)| + W_∞(future), past and future being independent given a row. For short chains the laws can also be
listed one by one, as `pf.Law`.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.progress import in_time
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.lattice import (
    BITS,
    SPAN,
    DistanceInterval,
    Levels,
    Masses,
    Precision,
    convolve,
    disjoint_planes,
    gap,
    levels,
    levels_within,
    normalise,
    rescale,
    winf_at_most,
    yardstick,
)
from pufferflow.distributions.markov.sums import (
    Farthest,
    PastAndFuture,
    SumLattice,
    Sums,
    SumSecrets,
    lattice,
    read_secrets,
)

Pair = tuple[int, int]
FINE = 4000
"""The number of points per row of a lattice to which values are rounded."""
_MOST_THREE_TERM_WORK = 1.2e11
_MOST_POINTS = 2_000_000
_PASSES = 15
_SAMPLE = 200
_UNKNOWN = DistanceInterval(0, 0, 1)
_MOST_WORK = 1e11
_SNAPPED = 4
_PATIENCE = 64
_NONE = DistanceInterval(-1, -1, -1)
_MOST_LISTED_POINTS = 100_000
_LEAST_MASS = 1e-290


def farthest(sums: Sums, pairs: Indices, rows: Flags | None = None) -> Farthest:
    """Return the largest W_∞ between the laws of the sum given two states of a row, over rows and pairs of states.

    `pairs` has shape (S, 2), `rows` flags the rows whose state is secret (all if None). A state that a row cannot have
    is no secret there; of several initial laws the worst counts. Where values have no common step the result is an
    upper bound. A chain too long for about a minute of work gets the three-term bound, or is refused.

    >>> import numpy as np
    >>> from pufferflow.distributions.markov.chain import Chain
    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(99, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> counts = Sums(chain, np.array([[0.0, 1.0]]), np.zeros(100, dtype=np.intp))
    >>> farthest(counts, np.array([[0, 1]])).length
    10.0
    """
    max_points, secrets = most_points(sums), read_secrets(sums, pairs, rows)
    grid = lattice(sums, max_points)
    if grid.size > max_points:
        return three_terms(sums, pairs, rows)
    if grid.error:
        snapped = _search_rows(
            sums, secrets, lattice(sums, min(max_points // _SNAPPED, FINE * sums.length))
        )
        bound = affordable_three_terms(sums, secrets)
        return bound if bound is not None and bound.length < snapped.length else snapped
    return _search_rows(sums, secrets, grid)


def most_points(sums: Sums) -> int:
    """Return the most points of laws that are convolved for every row and state."""
    return math.isqrt(int(6 * _MOST_WORK) // (sums.length * sums.chain.states))


def _search_rows(sums: Sums, secrets: SumSecrets, grid: SumLattice) -> Farthest:
    """Search all rows, from the first one on: early pasts are short, so the first distances are cheap."""
    precision = yardstick(sums.length, sums.chain.states, grid.size)
    best, sides = _FarthestSoFar(precision), PastAndFuture(sums, grid)
    pasts = [sides.pasts(initial) for initial in sums.chain.initial]
    searches = [_RowSearch(best, secrets, precision) for _ in pasts]
    for row, (future, *before) in enumerate(in_time(zip(sides.futures(), *pasts, strict=True))):
        if secrets.rows[row]:
            after = conditional_laws(future.planes)
            values = grid.points[sums.kinds[row]].tolist()
            for search, past in zip(searches, before, strict=True):
                search.search(row, past, after, values)
    if best.states is None:
        return secrets.nothing
    exact = best.gap.least == best.gap.most and not grid.error
    return Farthest(
        grid.length(best.gap.length),
        best.row,
        best.states,
        exact=exact,
        rounding=precision.rounding,
    )


@final
@dataclass
class _FarthestSoFar:
    """The largest W_∞ found so far, its row and its states."""

    precision: Precision
    gap: DistanceInterval = _NONE
    row: int = 0
    states: Pair | None = None

    def covers(self, bound: DistanceInterval) -> bool:
        """Return whether this bound cannot raise the maximum; record the uncertainty that remains."""
        if bound.length > self.gap.length or (bound.most > self.gap.length == self.gap.most):
            return False
        self._note(_NONE.least, bound.most)
        return True

    def bounds_pair(self, mu: Levels, nu: Levels) -> bool:
        """Return whether W_∞ of two laws is at most the maximum, up to ties already recorded."""
        if levels_within(mu, nu, self.gap.length, -self.precision.ties):
            return True
        ties = self.gap.most > self.gap.length and levels_within(
            mu, nu, self.gap.most, -self.precision.ties
        )
        return ties and winf_at_most(mu, nu, self.gap.length, self.precision)

    def measure(self, mu: Levels, nu: Levels, row: int, states: Pair) -> None:
        """Compute W_∞ of two laws that may exceed the maximum, or whose ties matter."""
        measured = gap(mu, nu, self.precision, _NONE)
        if measured.length > self.gap.length:
            self.gap, self.row, self.states = (
                DistanceInterval(self.gap.least, measured.length, self.gap.most),
                row,
                states,
            )
        self._note(measured.least, measured.most)

    def _note(self, least: int, most: int) -> None:
        self.gap = DistanceInterval(
            max(self.gap.least, least), self.gap.length, max(self.gap.most, most)
        )


@final
class _RowSearch:
    """The search over the rows for one initial law."""

    def __init__(self, best: _FarthestSoFar, secrets: SumSecrets, precision: Precision) -> None:
        self._best, self._secrets, self._precision = best, secrets, precision
        self._past, self._future = SideDistances(precision), SideDistances(precision)
        self._idle, self._wait = 0, 0

    def search(self, row: int, past: Masses, after: list[Floats], values: list[int]) -> None:
        """Search the pairs of one row, given its past, the law of the future for each state, and the states' values."""
        before = conditional_laws(past.planes)
        pairs = self._open(before, after, self._secrets.possible(possible_states(past)), values)
        laws: dict[int, Levels] = {}
        for a, b in pairs:
            for state in (a, b):
                if state not in laws:
                    laws[state] = levels(
                        convolve(disjoint_planes(before[state]), disjoint_planes(after[state])),
                        values[state],
                        self._precision,
                    )
            if not self._best.bounds_pair(laws[a], laws[b]):
                self._best.measure(laws[a], laws[b], row, (a, b))

    def _open(
        self, before: list[Floats], after: list[Floats], pairs: list[Pair], values: list[int]
    ) -> list[Pair]:
        """Return the pairs that the three-term bound does not decide; where it helps little it is tried less often."""
        if self._wait:
            self._wait -= 1
            return pairs
        bounds = add_three_terms(
            self._past.gaps(before, pairs), self._future.gaps(after, pairs), values
        )
        left = [pair for pair in pairs if not self._best.covers(bounds[pair])]
        self._idle = min(2 * self._idle + 1, _PATIENCE) if 2 * len(left) > len(pairs) else 0
        self._wait = self._idle
        return left


def three_terms(sums: Sums, pairs: Indices, rows: Flags | None = None) -> Farthest:
    """Return the largest three-term bound over rows and pairs: never below W_∞ of the sum, and cheaper.

    Refused if that would take more than about a minute.

    >>> from pufferflow.distributions.markov.chain import Chain
    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(99, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> counts = Sums(chain, np.array([[0.0, 1.0]]), np.zeros(100, dtype=np.intp))
    >>> three_terms(counts, np.array([[0, 1]])).length
    12.0
    """
    bound = affordable_three_terms(sums, read_secrets(sums, pairs, rows))
    if bound is None:
        raise Refused(
            f"The laws of a sum of {sums.length} rows have too many points, or too small masses, to be listed.",
            allowed="about 20,000 rows of two states, fewer of more",
            instead="nearest with a delta, or messages (M20)",
        )
    return bound


def affordable_three_terms(sums: Sums, secrets: SumSecrets) -> Farthest | None:
    """Return the largest three-term bound, on the exact lattice if there is one; None if that takes too long."""
    rows, states = sums.length, sums.chain.states
    passes = rows * states * (states + _PASSES)
    max_points = min(int(_MOST_THREE_TERM_WORK / passes), _MOST_POINTS)
    grid = lattice(sums, max_points)
    if grid.error:
        grid = lattice(sums, min(max_points, FINE * rows))
    if grid.size > max_points:
        return None
    # the average number of planes of laws, from the last rows alone
    tried = min(_SAMPLE, rows)
    law = rescale(next(islice(PastAndFuture(sums, grid).futures_back(), tried - 1, None)).planes)
    bits = BITS * (len(law.planes) - 1) - float(np.log2(law.least))
    planes = 1 + 2 / 3 * bits / tried * rows / BITS
    if passes * grid.size * planes > _MOST_THREE_TERM_WORK:
        return None
    return largest_three_term_bound(sums, secrets, grid)


def largest_three_term_bound(sums: Sums, secrets: SumSecrets, grid: SumLattice) -> Farthest:
    """Return the largest three-term bound on a lattice: all pasts by a forward pass, all futures by a backward one."""
    precision = yardstick(sums.length, sums.chain.states, grid.size)
    futures: list[dict[Pair, DistanceInterval]] = []
    side = SideDistances(precision)
    for row, law in in_time(
        zip(range(sums.length - 1, -1, -1), PastAndFuture(sums, grid).futures_back(), strict=True)
    ):
        futures.append(
            side.gaps(conditional_laws(law.planes), secrets.pairs) if secrets.rows[row] else {}
        )
    best, largest = -1, secrets.nothing
    for initial in sums.chain.initial:
        side = SideDistances(precision)
        for row, law in enumerate(in_time(PastAndFuture(sums, grid).pasts(initial))):
            if secrets.rows[row]:
                past = side.gaps(
                    conditional_laws(law.planes), secrets.possible(possible_states(law))
                )
                values = grid.points[sums.kinds[row]].tolist()
                for pair, total in add_three_terms(past, futures[-1 - row], values).items():
                    if total.length > best:
                        best = total.length
                        largest = Farthest(
                            grid.length(best), row, pair, exact=False, rounding=precision.rounding
                        )
    return largest


def add_three_terms(
    past: dict[Pair, DistanceInterval], future: dict[Pair, DistanceInterval], values: list[int]
) -> dict[Pair, DistanceInterval]:
    """Return the three-term bounds of the pairs of one row, given its values."""
    bounds: dict[Pair, DistanceInterval] = {}
    for (a, b), past_gap in past.items():
        future_gap, own_gap = future[a, b], abs(values[a] - values[b])
        bounds[a, b] = DistanceInterval(
            past_gap.least + future_gap.least + own_gap,
            past_gap.length + future_gap.length + own_gap,
            past_gap.most + future_gap.most + own_gap,
        )
    return bounds


@final
class SideDistances:
    """W_∞ of the laws on one side of a row, row by row: the distance at each row is the guess for the next."""

    def __init__(self, precision: Precision) -> None:
        self._precision = precision
        self._guesses: dict[Pair, DistanceInterval] = {}

    def gaps(self, laws: list[Floats], pairs: Iterable[Pair]) -> dict[Pair, DistanceInterval]:
        """Return W_∞ for the pairs of one row, given one law per state."""
        needed = list(pairs)
        ladders: dict[int, Levels] = {
            a: levels(laws[a], 0, self._precision) for a in {a for pair in needed for a in pair}
        }
        gaps = {
            (a, b): gap(
                ladders[a], ladders[b], self._precision, self._guesses.get((a, b), _UNKNOWN)
            )
            for a, b in needed
        }
        self._guesses.update(gaps)
        return gaps


def possible_states(law: Masses) -> Flags:
    """Return for each state whether it has any mass."""
    return np.asarray(law.planes.any(axis=(0, 2)))


def conditional_laws(planes: Floats) -> list[Floats]:
    """Return the law given each state, from joint or conditional ones; a state without mass has an empty one."""
    return [normalise(law) if law.any() else law for law in planes.transpose(1, 0, 2)]


def pair_of(sums: Sums, row: int, states: Pair, initial: int = 0) -> tuple[Law, Law]:
    """Return the laws of the sum given either of two states of a row, under one of the initial laws.

    Their masses are floats; refused if one is below 1e−290, or if the values have no common step.

    >>> from pufferflow.distributions.markov.chain import Chain
    >>> stay = np.array([[[0.75, 0.25], [0.25, 0.75]]])
    >>> chain = Chain(stay, np.zeros(1, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> pair_of(Sums(chain, np.array([[0.0, 1.0]]), np.zeros(2, dtype=np.intp)), 0, (0, 1))
    (Law([0, 1], [0.75, 0.25]), Law([1, 2], [0.25, 0.75]))
    """
    if not 0 <= row < sums.length or not 0 <= initial < len(sums.chain.initial):
        raise UsageError(
            f"There is no row {row} under an initial law {initial}.",
            allowed=f"{sums.length} rows and {len(sums.chain.initial)} initial laws, counted from 0",
            instead="row=0, initial=0",
        )
    read_secrets(sums, np.array(states), None)
    places = _PointNumbers(sums)
    past = next(islice(places.sides.pasts(sums.chain.initial[initial]), row, None))
    if not possible_states(past)[list(states)].all():
        raise Refused(
            f"Row {row} cannot have both states {states}.",
            allowed="states that have a probability above 0 there",
            instead="listed, which skips impossible states",
        )
    future = next(islice(places.sides.futures_back(), sums.length - 1 - row, None))
    before, after = conditional_laws(past.planes), conditional_laws(future.planes)
    mu, nu = (places.law(row, state, before[state], after[state]) for state in states)
    return mu, nu


def listed(
    sums: Sums, pairs: Indices, rows: Flags | None = None
) -> Iterator[tuple[int, Pair, Law, Law]]:
    """Yield every row, pair of states and the two laws, one order of each pair, for all initial laws in turn."""
    secrets, places = read_secrets(sums, pairs, rows), _PointNumbers(sums)
    for initial in sums.chain.initial:
        sides = zip(places.sides.pasts(initial), places.sides.futures(), strict=True)
        for row, (past, future) in enumerate(sides):
            open_pairs = secrets.possible(possible_states(past)) if secrets.rows[row] else []
            before, after = conditional_laws(past.planes), conditional_laws(future.planes)
            laws = {
                state: places.law(row, state, before[state], after[state])
                for state in {a for pair in open_pairs for a in pair}
            }
            for a, b in open_pairs:
                yield row, (a, b), laws[a], laws[b]


@final
class _PointNumbers:
    """The values of the points of the whole sum."""

    def __init__(self, sums: Sums) -> None:
        self._sums, self._lattice = sums, lattice(sums, _MOST_LISTED_POINTS)
        if self._lattice.error:
            raise Refused(
                f"The values of {sums.length} rows have no common step, or their sum has too many points.",
                allowed=f"whole multiples of one step, {_MOST_LISTED_POINTS} points of the sum",
                instead="rounding the values to a grid first, or farthest and nearest",
            )
        self.sides = PastAndFuture(sums, self._lattice)
        counts = np.bincount(sums.kinds, minlength=len(self._lattice.lows)).tolist()
        lowest = sum(
            (low * count for low, count in zip(self._lattice.lows, counts, strict=True)),
            Fraction(0),
        )
        numbers = [lowest + self._lattice.step * point for point in range(self._lattice.size)]
        exact = np.empty(len(numbers), dtype=object)
        exact[:] = numbers
        # floats where they represent all numbers exactly, Fractions otherwise
        self._numbers = (
            exact.astype(np.float64)
            if all(float(number) == number for number in numbers)
            else exact
        )

    def law(self, row: int, state: int, before: Floats, after: Floats) -> Law:
        """Return the law of the sum given a state of a row, from what comes before and after it."""
        planes = convolve(disjoint_planes(before), disjoint_planes(after))
        masses = sum(
            (plane / SPAN**depth for depth, plane in enumerate(planes[:2])),
            np.zeros(planes.shape[1]),
        )
        at = np.flatnonzero(planes.any(axis=0))
        if float(masses[at].min()) < _LEAST_MASS:
            raise Refused(
                "Some mass of the sum is below 1e-290, too small for floats.",
                allowed="chains short enough for floats to hold every mass",
                instead="farthest, which keeps masses of any size, or nearest with a delta",
            )
        start = int(self._lattice.points[self._sums.kinds[row], state])
        return Law(self._numbers[at + start], masses[at] / masses.sum())
