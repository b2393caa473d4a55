"""Two finite laws on R^d: W_∞ and nearness, by searching the distances that occur for one that lets all mass through.

Whether all mass (or all but δ) can move within distance z is a flow problem in whole numbers. Cheap flows, with masses
rounded so that they can only allow too much, rule out most distances; the exact flow then confirms the first one left.
The value is the exact length of the longest step of the flow found, rounded up: an upper bound whatever went before.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pufferflow.errors import InternalError
from pufferflow.law import Law
from pufferflow.rounding import UNIT, upwards
from pufferflow.transport import footing
from pufferflow.transport.distance import WITHIN_ROUNDING, Certainty, Coupling, Distance
from pufferflow.transport.flow import Flow, Pairs, greatest_flow, together
from pufferflow.transport.matching import Matching

Array = npt.NDArray[Any]
Costs = npt.NDArray[np.float64]
_METRICS: dict[float, Literal["cityblock", "chebyshev"]] = {1.0: "cityblock", math.inf: "chebyshev"}
_SMALL = 2.0**-480
_COARSE_TOTAL = 2**29
_MOST_EXACT_STEPS = 4096
_FIRST_STRIDES = 1024


def costs(mu: Law, nu: Law, norm: float) -> Costs:
    """Return the matrix of distances ‖x − y‖, each within a few units in the last place."""
    from scipy.spatial.distance import cdist  # loads half of SciPy

    left, right = (values.reshape(len(values), -1) for values in footing.values(mu, nu))
    if left.dtype == object:
        steps = [footing.floats_above(np.abs(x[:, None] - y[None, :])) for x, y in zip(left.T, right.T, strict=True)]
        return footing.norms(np.stack(steps), norm)
    with np.errstate(over="ignore", under="ignore"):
        if norm != 2:
            return cdist(left, right, metric=_METRICS[norm])
        _, exponent = math.frexp(max(np.abs(left).max(), np.abs(right).max()))
        scaled = cdist(np.ldexp(left, -exponent), np.ldexp(right, -exponent), metric="euclidean")
        rows, columns = np.nonzero(scaled < _SMALL)  # where squares may have underflowed
        steps = np.ldexp(scaled, exponent)
        steps[rows, columns] = footing.norms(np.abs(left[rows] - right[columns]).T, norm)
        return steps


def winf(mu: Law, nu: Law, norm: float, *, coupling: bool = False) -> Distance[Coupling]:
    """Return W_∞ on R^d (M3): exact for rational weights."""
    matrix = costs(mu, nu, norm)
    reachable = max(matrix.min(axis=1).max(), matrix.min(axis=0).max())  # every atom has to go somewhere
    exact = footing.rational(mu, nu) is not None
    tolerance = 0 if exact else 2 * (len(mu) + len(nu)) + 4  # of sums, and of their totals
    left, right, _ = footing.whole(mu, nu)
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
    allowed = footing.allowance(mu, nu, delta)
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
    left, right = footing.values(mu, nu)
    steps = [tuple(step) for step in np.abs(footing.difference(left[flow.rows[at]], right[flow.columns[at]]))]
    distinct = set(steps)
    if len(distinct) > _MOST_EXACT_STEPS:
        return upwards(float(rounded.max()), 16 * mu.dimension * UNIT)
    return max(footing.length_above([Fraction(x) for x in step], norm) for step in distinct)


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
