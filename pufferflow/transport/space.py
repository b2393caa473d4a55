"""Two finite laws on R^d: W_∞ and nearness, by searching the distances that occur for one that lets all mass through.

Whether all mass (or all but δ) can move within distance z is a flow problem in whole numbers. Cheap flows, with masses
rounded so that they can only allow too much, rule out most distances; the exact flow then confirms the first one left.
The value is the exact length of the longest step of the flow found, rounded up: an upper bound whatever went before.

Greatest flow from supplies to demands along allowed pairs, in whole numbers of any size.

SciPy's maximum flow counts in 32 bits (and returns 0, silently, past them), which would lose every mass below 1e−9. So
the numbers are cut into digits: the leading bits are solved first, and every further digit only improves on the flow
before, which by the cut found there lacks at most one unit per atom. The result is the exact greatest flow.

Which distance to try next, in the search for the least one that does.

Every trial says by how much it fails (or does not), and moves one of two ends: below `low` nothing does, `high` does.
While the sets that fail are simple, `low` itself is likely the answer and is tried, but not more than a few times in a
row without halving the range. While they are many, the excess is a smooth curve, and the next trial is where a parabola
through the last three trials says that it is 0.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pufferflow.arrays import Array, Indices
from pufferflow.errors import InternalError
from pufferflow.law import Law
from pufferflow.rounding import UNIT, upwards
from pufferflow.transport import masses
from pufferflow.transport.coupling import WITHIN_ROUNDING, Certainty, Coupling, Distance
from pufferflow.transport.matching import Matching

_BITS = 30


@dataclass(frozen=True, eq=False)
class Flow:
    """A flow: amounts[k] whole units along the pair (rows[k], columns[k]), and their sum."""

    rows: Indices
    columns: Indices
    amounts: Array
    value: int


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of a supply and a demand between which anything may flow, sorted by supply."""

    rows: Indices
    columns: Indices
    shape: tuple[int, int]

    @classmethod
    def where(cls, allowed: npt.NDArray[np.bool_]) -> "Pairs":
        """Return the pairs that a matrix of flags allows."""
        rows, columns = np.nonzero(allowed)
        return cls(rows, columns, (allowed.shape[0], allowed.shape[1]))


def greatest_flow(pairs: Pairs, supplies: Array, demands: Array) -> Flow:
    """Return the exact greatest flow that takes no more than each supply and brings no more than each demand.

    Supplies and demands are whole numbers ≥ 0 of any size.
    """
    left, right = _unbounded(supplies), _unbounded(demands)
    digit = _BITS - (len(left) + len(right)).bit_length()
    shift = max(0, int(max(left.sum(), right.sum())).bit_length() - _BITS)
    flow = _improved(pairs, _nothing(), left >> shift, right >> shift)
    while shift:
        step = min(digit, shift)
        shift -= step
        finer = Flow(flow.rows, flow.columns, flow.amounts << step, flow.value << step)
        flow = _improved(pairs, finer, left >> shift, right >> shift)
    return flow


def _improved(pairs: Pairs, flow: Flow, supplies: Array, demands: Array) -> Flow:
    """Return the greatest flow, by way of the greatest flow in what `flow` leaves: its rest, and its undoing."""
    from scipy.sparse import csr_array  # loaded where answers are vectors
    from scipy.sparse.csgraph import maximum_flow

    n, m = pairs.shape
    source, sink = n + m, n + m + 1
    spare_left, spare_right = supplies.copy(), demands.copy()
    np.subtract.at(spare_left, flow.rows, flow.amounts)
    np.subtract.at(spare_right, flow.columns, flow.amounts)
    lefts, rights = np.arange(n), n + np.arange(m)
    tails = np.concatenate([pairs.rows, n + flow.columns, np.full(n, source), rights])
    heads = np.concatenate([n + pairs.columns, flow.rows, lefts, np.full(m, sink)])
    room = [np.full(len(pairs.rows), 2**_BITS), *map(_clipped, (flow.amounts, spare_left, spare_right))]
    graph = csr_array((np.concatenate(room).astype(np.int32), (tails, heads)), shape=(n + m + 2, n + m + 2))
    change = maximum_flow(graph, source, sink).flow
    moved = np.flatnonzero(change.data)
    rows = np.searchsorted(change.indptr, moved, "right") - 1
    columns = change.indices[moved].astype(np.intp) - n
    inner = (rows < n) & (columns >= 0) & (columns < m)
    return together(flow, Flow(rows[inner], columns[inner], _unbounded(change.data[moved][inner]), 0), m)


def together(first: Flow, second: Flow, width: int) -> Flow:
    """Return the sum of two flows to `width` demands."""
    pairs = np.concatenate([flow.rows * width + flow.columns for flow in (first, second)])
    distinct, at = np.unique(pairs, return_inverse=True)
    total = np.zeros(len(distinct), dtype=object)
    np.add.at(total, at, np.concatenate([first.amounts, second.amounts]))
    used = total > 0
    distinct, total = distinct[used], total[used]
    return Flow(distinct // width, distinct % width, total, int(total.sum()))


def _nothing() -> Flow:
    return Flow(np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0, dtype=object), 0)


def _unbounded(numbers: Array) -> Array:
    """Return whole numbers as Python's, which do not overflow."""
    return np.array([int(x) for x in numbers.tolist()], dtype=object)


def _clipped(numbers: Array) -> Array:
    """Return numbers cut off where a digit's improvement cannot reach them anyway (it is below 2³⁰ in all)."""
    return np.minimum(numbers, 2**_BITS).astype(np.int64)


Costs = npt.NDArray[np.float64]
_METRICS: dict[float, Literal["cityblock", "chebyshev"]] = {1.0: "cityblock", math.inf: "chebyshev"}
_SMALL = 2.0**-480
_COARSE_TOTAL = 2**29
_MOST_EXACT_STEPS = 4096
_FIRST_STRIDES = 1024


def costs(mu: Law, nu: Law, norm: float) -> Costs:
    """Return the matrix of distances ‖x − y‖, each within a few units in the last place."""
    from scipy.spatial.distance import cdist  # loads half of SciPy

    left, right = (values.reshape(len(values), -1) for values in masses.values(mu, nu))
    if left.dtype == object:
        steps = [masses.floats_above(np.abs(x[:, None] - y[None, :])) for x, y in zip(left.T, right.T, strict=True)]
        return masses.norms(np.stack(steps), norm)
    with np.errstate(over="ignore", under="ignore"):
        if norm != 2:
            return cdist(left, right, metric=_METRICS[norm])
        _, exponent = math.frexp(max(np.abs(left).max(), np.abs(right).max()))
        scaled = cdist(np.ldexp(left, -exponent), np.ldexp(right, -exponent), metric="euclidean")
        rows, columns = np.nonzero(scaled < _SMALL)  # where squares may have underflowed
        steps = np.ldexp(scaled, exponent)
        steps[rows, columns] = masses.norms(np.abs(left[rows] - right[columns]).T, norm)
        return steps


def winf(mu: Law, nu: Law, norm: float, *, coupling: bool = False) -> Distance[Coupling]:
    """Return W_∞ on R^d (M3): exact for rational weights."""
    matrix = costs(mu, nu, norm)
    reachable = max(matrix.min(axis=1).max(), matrix.min(axis=0).max())  # every atom has to go somewhere
    exact = masses.rational(mu, nu) is not None
    tolerance = 0 if exact else 2 * (len(mu) + len(nu)) + 4  # of sums, and of their totals
    left, right, _ = masses.whole(mu, nu)
    least, most = _at_most(mu), _at_least(nu, tolerance)

    def ruled_out(pairs: Pairs) -> bool:
        return greatest_flow(pairs, least, most).value < int(least.sum())

    flow = _least(matrix, reachable, ruled_out, lambda pairs: _saturating(pairs, left, right, tolerance))
    value = _longest(mu, nu, flow, norm, matrix)
    return Distance(
        value,
        Certainty.UPPER_BOUND if tolerance or value == math.inf else Certainty.EXACT,
        rounding=tolerance * UNIT,
        note=WITHIN_ROUNDING if tolerance else "",
        coupling=_whole_coupling(mu, nu, flow, matrix) if coupling else None,
    )


def near(mu: Law, nu: Law, delta: Fraction, norm: float, *, coupling: bool = False) -> Distance[Coupling]:
    """Return the smallest z for which some coupling has P(‖X − Y‖ > z) ≤ δ (M4)."""
    allowed = masses.allowance(mu, nu, delta)
    if delta == 0 or allowed.hopeless:
        return winf(mu, nu, norm, coupling=coupling)
    matrix = costs(mu, nu, norm)
    needed = allowed.all - allowed.forgiving
    left, right = _at_least(mu, 0), _at_least(nu, 0)

    def ruled_out(pairs: Pairs) -> bool:
        return greatest_flow(pairs, left, right).value * allowed.unit < needed * _COARSE_TOTAL

    def matching(pairs: Pairs) -> Flow | None:
        flow = greatest_flow(pairs, allowed.left, allowed.right)
        return flow if flow.value >= needed else None

    flow = _least(matrix, 0.0, ruled_out, matching)
    certain = flow.value >= allowed.all - allowed.strict and allowed.precise
    value = _longest(mu, nu, flow, norm, matrix)
    return Distance(
        value,
        Certainty.EXACT if certain and value < math.inf else Certainty.UPPER_BOUND,
        rounding=allowed.rounding,
        note="" if certain else WITHIN_ROUNDING,
        coupling=_partial_coupling(mu, nu, flow, allowed.unit, matrix) if coupling else None,
    )


def _least(
    matrix: Costs,
    lowest: float,
    ruled_out: Callable[[Pairs], bool],
    proven: Callable[[Pairs], Flow | None],
) -> Flow:
    """Return the flow at the smallest distance that occurs, is not below `lowest`, and is proven to do.

    `ruled_out` is cheap and never wrong when it says yes; `proven` is exact. Both are monotone in the distance.
    """
    distances = np.unique(matrix[matrix >= lowest])

    def pairs(at: int) -> Pairs:
        return Pairs.where(matrix <= distances[at])

    first = _first(lambda at: not ruled_out(pairs(at)), 0, len(distances) - 1, len(distances) // _FIRST_STRIDES + 1)
    found: dict[int, Flow] = {}

    def does(at: int) -> bool:
        result = proven(pairs(at))
        if result is not None:
            found[at] = result
        return result is not None

    at = _first(does, first, len(distances) - 1, 1)
    if at not in found and not does(at):
        raise InternalError("No distance lets all mass through.", instead="reporting the two laws to the maintainers")
    return found[at]


def _first(holds: Callable[[int], bool], start: int, end: int, stride: int) -> int:
    """Return the first index in [start, end] where a monotone statement holds; `end` is not tried, it has to."""
    low, high = start, start
    while high < end and not holds(high):
        low, high, stride = high + 1, min(end, high + stride), 2 * stride
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high


def _saturating(pairs: Pairs, left: Array, right: Array, tolerance: int) -> Flow | None:
    """Return a flow of all mass, if there is one.

    Float weights may be exceeded by `tolerance`·2⁻⁵², relatively: on the right while all of the left flows, then the
    other way round. So an atom without a partner is refused however light it is. The sum of the two flows, which has
    every atom in it, is what is returned. Rational weights have one total, and one flow is enough.
    """
    forth = greatest_flow(pairs, left, _exceeded(right, tolerance))
    if forth.value < left.sum() or not tolerance:
        return forth if forth.value == left.sum() else None
    back = greatest_flow(pairs, _exceeded(left, tolerance), right)
    return together(forth, back, len(right)) if back.value == right.sum() else None


def _exceeded(whole: Array, tolerance: int) -> Array:
    return whole - ((-whole * tolerance) >> 52) if tolerance else whole


def _at_most(law: Law) -> Array:
    """Return masses in coarse units, surely rounded down."""
    return np.floor(law.probabilities * (_COARSE_TOTAL * (1 - 4 * UNIT))).astype(np.int64)


def _at_least(law: Law, tolerance: int) -> Array:
    """Return masses in coarse units, surely rounded up."""
    return np.ceil(law.probabilities * (_COARSE_TOTAL * (1 + (tolerance + 4) * UNIT))).astype(np.int64)


def _longest(mu: Law, nu: Law, flow: Flow, norm: float, matrix: Costs) -> float:
    """Return the length of the longest step of a flow, rounded up: in rationals, unless the ties are too many."""
    rounded = matrix[flow.rows, flow.columns]
    at = np.flatnonzero(rounded >= rounded.max() * (1 - 16 * mu.dimension * UNIT))
    left, right = masses.values(mu, nu)
    steps = [tuple(step) for step in np.abs(masses.difference(left[flow.rows[at]], right[flow.columns[at]]))]
    distinct = set(steps)
    if len(distinct) > _MOST_EXACT_STEPS:
        return upwards(float(rounded.max()), 16 * mu.dimension * UNIT)
    return max(masses.length_above([Fraction(x) for x in step], norm) for step in distinct)


def _whole_coupling(mu: Law, nu: Law, flow: Flow, matrix: Costs) -> Coupling:
    """Return the coupling that uses the pairs of a flow of all mass and no others.

    The flow of float laws is the sum of two: it is scaled down first, then followed as far as masses still allow.
    """
    matching = Matching(mu, nu)
    allowed = np.full(matrix.shape, np.inf)
    allowed[flow.rows, flow.columns] = matrix[flow.rows, flow.columns]
    for scale in (flow.value, 1):
        for i, j, amount in zip(flow.rows.tolist(), flow.columns.tolist(), flow.amounts.tolist(), strict=True):
            matching.take(i, j, amount * matching.unit // scale)
    matching.to_partners(lambda i: allowed[i], lambda j: allowed[:, j])
    return matching.coupling()


def _partial_coupling(mu: Law, nu: Law, flow: Flow, unit: int, matrix: Costs) -> Coupling:
    """Return a coupling that contains a flow of most mass; the rest is matched in order."""
    matching = Matching(mu, nu)
    for i, j, amount in zip(flow.rows.tolist(), flow.columns.tolist(), flow.amounts.tolist(), strict=True):
        matching.take(i, j, amount * matching.unit // unit)
    matching.in_order()
    matching.to_partners(lambda i: matrix[i], lambda j: matrix[:, j])
    return matching.coupling()


_PATIENCE = 6
"""Climbs before every other trial halves the range."""
_SUSPICIOUS = 3
"""Trials in a row that do, after which the range is halved; after as many again the lower end is tried."""


class Search:
    """The two ends, the next distance to try, and what the last trials said."""

    def __init__(self, low: Any, stride: Any, guess: Any) -> None:
        self.low, self.guess = low, guess
        self.high: Any = None
        self._stride = stride
        self._trials: list[tuple[Any, float]] = []
        self._climbs = self._streak = 0
        self._many = False

    def does(self, high: Any, excess: float) -> None:
        """Note that the trial does, and the largest distance that is not above it."""
        self._trials = [*self._trials[-2:], (self.guess, excess)]
        self.high = high
        self._streak += 1

    def fails(self, low: Any, excess: float, *, many: bool) -> None:
        """Note that the trial does not, a distance below which nothing does, and whether what fails is manifold."""
        self._trials = [*self._trials[-2:], (self.guess, excess)]
        self.low, self._many = low, many
        self._climbs += 1
        self._streak = 0

    def advance(self) -> None:
        """Choose the next distance to try, from `low` up to below `high`."""
        impatient = self._many or (self._climbs > _PATIENCE and self._climbs % 2 == 0)
        if self.high is None:
            self.guess = max(self.low, 4 * self.guess, self._stride) if impatient else self.low
        elif self._streak > 1 and self._trials[-1][1] == self._trials[-2][1]:
            self.guess = self.low  # nothing that matters lies between the last two; what does may be all at the end
        elif self._many and self._streak < _SUSPICIOUS:
            guess = self._on_the_curve()
            self.guess = guess if self.low <= guess < self.high else self._middle()
        elif impatient and self._streak < 2 * _SUSPICIOUS:
            self.guess = self._middle()
        else:
            self.guess = self.low

    def _on_the_curve(self) -> Any:
        """Return where the excess is 0 on the curve through the last trials, distance as a polynomial of excess."""
        if len({excess for _, excess in self._trials}) < len(self._trials):
            return self.high
        guess = 0.0
        for at, (distance, excess) in enumerate(self._trials):
            others = (other for _, other in itertools.chain(self._trials[:at], self._trials[at + 1 :]))
            guess += float(distance) * math.prod(other / (other - excess) for other in others)
        return Fraction(guess).limit_denominator(10**6) if isinstance(self.high, Fraction) else guess

    def _middle(self) -> Any:
        """Return the middle of the range, in orders of magnitude if it spans several."""
        if isinstance(self.high, Fraction) or isinstance(self.low, Fraction) or not 0 < 4 * self.low < self.high:
            middle = self.low + (self.high - self.low) / 2
            return middle if middle < self.high else self.low
        return math.sqrt(self.low) * math.sqrt(self.high)
