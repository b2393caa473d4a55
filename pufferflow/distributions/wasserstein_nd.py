"""Two finite laws on R^d: W_∞ and nearness, by a search of the occurring distances for the least that suffices.

Whether all mass (or all but δ) can move within distance z is a flow problem in whole numbers. Cheap flows, with masses
rounded so that they can only allow too much, rule out most distances. The exact flow then confirms the first one left.
The value is the exact length of the longest step of the flow found, rounded up: an upper bound in every case.

SciPy's maximum flow counts in 32 bits (and returns 0, silently, past them), which would lose every mass below 1e−9. So
`greatest_flow` cuts numbers into digits. The leading bits are solved first, and every further digit only improves on
the flow before. By the cut found there, that flow lacks at most one unit per atom. The result is the exact greatest
flow.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from pufferflow.core.arrays import Array, Flags, Floats, Indices
from pufferflow.core.errors import InternalError
from pufferflow.core.rounding import UNIT, upwards
from pufferflow.distributions import common_units
from pufferflow.distributions.coupling import (
    WITHIN_ROUNDING,
    Certainty,
    Coupling,
    Distance,
    Matching,
)
from pufferflow.distributions.finite_law import Law

_METRICS: dict[float, Literal["cityblock", "chebyshev"]] = {1.0: "cityblock", math.inf: "chebyshev"}
_SMALL = 2.0**-480
_COARSE_TOTAL = 2**29
_MOST_EXACT_STEPS = 4096
_FIRST_STRIDES = 1024
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
    """The pairs of a supply and a demand that may have a flow, sorted by supply."""

    rows: Indices
    columns: Indices
    shape: tuple[int, int]

    @classmethod
    def where(cls, allowed: Flags) -> "Pairs":
        """Return the pairs that a matrix of flags allows."""
        rows, columns = np.nonzero(allowed)
        return cls(rows, columns, (allowed.shape[0], allowed.shape[1]))


def greatest_flow(pairs: Pairs, supplies: Array, demands: Array) -> Flow:
    """Return the exact greatest flow that takes no more than each supply and brings no more than each demand.

    Supplies and demands are whole numbers ≥ 0 of any size.
    """
    left, right = _python_integers(supplies), _python_integers(demands)
    digit = _BITS - (len(left) + len(right)).bit_length()
    shift = max(0, int(max(left.sum(), right.sum())).bit_length() - _BITS)
    nothing = Flow(np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0, dtype=object), 0)
    flow = _improve(pairs, nothing, left >> shift, right >> shift)
    while shift:
        step = min(digit, shift)
        shift -= step
        finer = Flow(flow.rows, flow.columns, flow.amounts << step, flow.value << step)
        flow = _improve(pairs, finer, left >> shift, right >> shift)
    return flow


def _improve(pairs: Pairs, flow: Flow, supplies: Array, demands: Array) -> Flow:
    """Return the greatest flow, by the greatest flow in the residual network of `flow`."""
    from scipy.sparse import csr_array  # imported only where answers are vectors
    from scipy.sparse.csgraph import maximum_flow

    n, m = pairs.shape
    source, sink = n + m, n + m + 1
    spare_left, spare_right = supplies.copy(), demands.copy()
    np.subtract.at(spare_left, flow.rows, flow.amounts)
    np.subtract.at(spare_right, flow.columns, flow.amounts)
    lefts, rights = np.arange(n), n + np.arange(m)
    tails = np.concatenate([pairs.rows, n + flow.columns, np.full(n, source), rights])
    heads = np.concatenate([n + pairs.columns, flow.rows, lefts, np.full(m, sink)])
    # the improvement by a digit is below 2³⁰ in all
    room = [
        np.minimum(numbers, 2**_BITS).astype(np.int64)
        for numbers in (flow.amounts, spare_left, spare_right)
    ]
    room = np.concatenate([np.full(len(pairs.rows), 2**_BITS), *room]).astype(np.int32)
    graph = csr_array((room, (tails, heads)), shape=(n + m + 2, n + m + 2))
    change = maximum_flow(graph, source, sink).flow
    moved = np.flatnonzero(change.data)
    rows = np.searchsorted(change.indptr, moved, "right") - 1
    columns = change.indices[moved].astype(np.intp) - n
    inner = (rows < n) & (columns >= 0) & (columns < m)
    return add_flows(
        flow, Flow(rows[inner], columns[inner], _python_integers(change.data[moved][inner]), 0), m
    )


def add_flows(first: Flow, second: Flow, width: int) -> Flow:
    """Return the sum of two flows to `width` demands."""
    pairs = np.concatenate([flow.rows * width + flow.columns for flow in (first, second)])
    distinct, at = np.unique(pairs, return_inverse=True)
    total = np.zeros(len(distinct), dtype=object)
    np.add.at(total, at, np.concatenate([first.amounts, second.amounts]))
    used = total > 0
    distinct, total = distinct[used], total[used]
    return Flow(distinct // width, distinct % width, total, int(total.sum()))


def _python_integers(numbers: Array) -> Array:
    """Return whole numbers as Python integers, which do not overflow."""
    return np.array([int(x) for x in numbers.tolist()], dtype=object)


def costs(mu: Law, nu: Law, norm: float) -> Floats:
    """Return the matrix of distances ‖x − y‖, each within a few units in the last place."""
    from scipy.spatial.distance import cdist  # imports half of SciPy

    left, right = (values.reshape(len(values), -1) for values in common_units.values(mu, nu))
    if left.dtype == object:
        steps = [
            common_units.floats_above(np.abs(x[:, None] - y[None, :]))
            for x, y in zip(left.T, right.T, strict=True)
        ]
        return common_units.norms(np.stack(steps), norm)
    with np.errstate(over="ignore", under="ignore"):
        if norm != 2:
            return cdist(left, right, metric=_METRICS[norm])
        _, exponent = math.frexp(max(np.abs(left).max(), np.abs(right).max()))
        scaled = cdist(np.ldexp(left, -exponent), np.ldexp(right, -exponent), metric="euclidean")
        rows, columns = np.nonzero(scaled < _SMALL)  # where squares may have underflowed
        steps = np.ldexp(scaled, exponent)
        steps[rows, columns] = common_units.norms(np.abs(left[rows] - right[columns]).T, norm)
        return steps


def winf(mu: Law, nu: Law, norm: float, *, coupling: bool = False) -> Distance[Coupling]:
    """Return W_∞ on R^d (M3): exact for rational weights."""
    matrix = costs(mu, nu, norm)
    exact = common_units.rational(mu, nu) is not None
    tolerance = 0 if exact else 2 * (len(mu) + len(nu)) + 4  # of sums, and of their totals
    flow = _only_flow(mu, nu) if 1 in matrix.shape else _least_saturating(mu, nu, matrix, tolerance)
    value = _longest_step(mu, nu, flow, norm, matrix)
    return Distance(
        value,
        Certainty.UPPER_BOUND if tolerance or value == math.inf else Certainty.EXACT,
        rounding=tolerance * UNIT,
        note=WITHIN_ROUNDING if tolerance else "",
        coupling=_coupling_along(mu, nu, flow, matrix) if coupling else None,
    )


def _only_flow(mu: Law, nu: Law) -> Flow:
    """Return the only flow between two laws of which one is a point."""
    left, right, _ = common_units.whole(mu, nu)
    rows, columns = np.repeat(np.arange(len(mu)), len(nu)), np.tile(np.arange(len(nu)), len(mu))
    amounts = right if len(mu) == 1 else left
    return Flow(rows, columns, amounts, int(amounts.sum()))


def _least_saturating(mu: Law, nu: Law, matrix: Floats, tolerance: int) -> Flow:
    """Return a flow of all mass whose longest step is the shortest possible."""
    reachable = max(
        matrix.min(axis=1).max(), matrix.min(axis=0).max()
    )  # every atom has to move somewhere
    left, right, _ = common_units.whole(mu, nu)
    least = np.floor(mu.probabilities * (_COARSE_TOTAL * (1 - 4 * UNIT))).astype(
        np.int64
    )  # surely rounded down
    most = _rounded_up(nu, tolerance)

    def ruled_out(pairs: Pairs) -> bool:
        return greatest_flow(pairs, least, most).value < int(least.sum())

    return _flow_at_least_distance(
        matrix, reachable, ruled_out, lambda pairs: _saturating_flow(pairs, left, right, tolerance)
    )


def near(
    mu: Law, nu: Law, delta: Fraction, norm: float, *, coupling: bool = False
) -> Distance[Coupling]:
    """Return the smallest z for which some coupling has P(‖X − Y‖ > z) ≤ δ (M4)."""
    allowed = common_units.allowance(mu, nu, delta)
    if delta == 0 or allowed.hopeless:
        return winf(mu, nu, norm, coupling=coupling)
    matrix = costs(mu, nu, norm)
    needed = allowed.all - allowed.forgiving
    left, right = _rounded_up(mu, 0), _rounded_up(nu, 0)

    def ruled_out(pairs: Pairs) -> bool:
        return greatest_flow(pairs, left, right).value * allowed.unit < needed * _COARSE_TOTAL

    def matching(pairs: Pairs) -> Flow | None:
        flow = greatest_flow(pairs, allowed.left, allowed.right)
        return flow if flow.value >= needed else None

    flow = _flow_at_least_distance(matrix, 0.0, ruled_out, matching)
    certain = flow.value >= allowed.all - allowed.strict and allowed.precise
    value = _longest_step(mu, nu, flow, norm, matrix)
    return Distance(
        value,
        Certainty.EXACT if certain and value < math.inf else Certainty.UPPER_BOUND,
        rounding=allowed.rounding,
        note="" if certain else WITHIN_ROUNDING,
        coupling=_coupling_containing(mu, nu, flow, allowed.unit, matrix) if coupling else None,
    )


def _flow_at_least_distance(
    matrix: Floats,
    lowest: float,
    ruled_out: Callable[[Pairs], bool],
    proven: Callable[[Pairs], Flow | None],
) -> Flow:
    """Return the flow at the least occurring distance ≥ `lowest` that is proven to suffice.

    `ruled_out` is cheap, and right whenever it is true; `proven` is exact. Both are monotone in the distance.
    """
    distances = np.unique(matrix[matrix >= lowest])

    def pairs(at: int) -> Pairs:
        return Pairs.where(matrix <= distances[at])

    first = _first(
        lambda at: not ruled_out(pairs(at)),
        0,
        len(distances) - 1,
        len(distances) // _FIRST_STRIDES + 1,
    )
    flows: dict[int, Flow] = {}

    def suffices(at: int) -> bool:
        result = proven(pairs(at))
        if result is not None:
            flows[at] = result
        return result is not None

    at = _first(suffices, first, len(distances) - 1, 1)
    if at not in flows and not suffices(at):
        raise InternalError(
            "No distance lets all mass through.",
            instead="reporting the two laws to the maintainers",
        )
    return flows[at]


def _first(holds: Callable[[int], bool], start: int, end: int, stride: int) -> int:
    """Return the first index in [start, end] where a monotone statement holds; it has to hold at `end`."""
    low, high = start, start
    while high < end and not holds(high):
        low, high, stride = high + 1, min(end, high + stride), 2 * stride
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high


def _saturating_flow(pairs: Pairs, left: Array, right: Array, tolerance: int) -> Flow | None:
    """Return a flow of all mass, if there is one.

    Float weights may be exceeded by a relative `tolerance`·2⁻⁵²: on the right while all of the left flows, then the
    other way round. So an atom without a partner is refused, however small its mass. The sum of the two flows, which
    contains every atom, is returned. Rational weights have one total, and one flow is enough.
    """
    forth = greatest_flow(pairs, left, _widen(right, tolerance))
    if forth.value < left.sum() or not tolerance:
        return forth if forth.value == left.sum() else None
    back = greatest_flow(pairs, _widen(left, tolerance), right)
    return add_flows(forth, back, len(right)) if back.value == right.sum() else None


def _widen(whole: Array, tolerance: int) -> Array:
    return whole - ((-whole * tolerance) >> 52) if tolerance else whole


def _rounded_up(law: Law, tolerance: int) -> Array:
    """Return masses in coarse units, rounded up."""
    return np.ceil(law.probabilities * (_COARSE_TOTAL * (1 + (tolerance + 4) * UNIT))).astype(
        np.int64
    )


def _longest_step(mu: Law, nu: Law, flow: Flow, norm: float, matrix: Floats) -> float:
    """Return the length of the longest step of a flow, rounded up: in rationals, unless the ties are too many."""
    rounded = matrix[flow.rows, flow.columns]
    at = np.flatnonzero(rounded >= rounded.max() * (1 - 16 * mu.dimension * UNIT))
    left, right = common_units.values(mu, nu)
    steps = [
        tuple(step)
        for step in np.abs(common_units.difference(left[flow.rows[at]], right[flow.columns[at]]))
    ]
    distinct = set(steps)
    if len(distinct) > _MOST_EXACT_STEPS:
        return upwards(float(rounded.max()), 16 * mu.dimension * UNIT)
    return max(common_units.length_above([Fraction(x) for x in step], norm) for step in distinct)


def _coupling_along(mu: Law, nu: Law, flow: Flow, matrix: Floats) -> Coupling:
    """Return the coupling that uses only the pairs of a flow of all mass.

    The flow of float laws is the sum of two: it is scaled down, then used as far as the remaining masses allow.
    """
    matching = Matching(mu, nu)
    allowed = np.full(matrix.shape, np.inf)
    allowed[flow.rows, flow.columns] = matrix[flow.rows, flow.columns]
    for scale in (flow.value, 1):
        matching.take_flow(flow.rows, flow.columns, flow.amounts, scale)
    matching.match_slivers(lambda i: allowed[i], lambda j: allowed[:, j])
    return matching.coupling()


def _coupling_containing(mu: Law, nu: Law, flow: Flow, unit: int, matrix: Floats) -> Coupling:
    """Return a coupling that contains a flow of most mass; the remaining mass is matched in order."""
    matching = Matching(mu, nu)
    matching.take_flow(flow.rows, flow.columns, flow.amounts, unit)
    matching.match_in_order()
    matching.match_slivers(lambda i: matrix[i], lambda j: matrix[:, j])
    return matching.coupling()
