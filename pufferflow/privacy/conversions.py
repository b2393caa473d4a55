"""Conversions of bounds on one divergence to another (M29): pure, Rényi, concentrated, Gaussian, hockey stick.

All results are rounded up.
"""

import math
from fractions import Fraction

import numpy as np
import scipy  # imports its parts when first used

from pufferflow.core.arrays import Floats
from pufferflow.core.rounding import SMALLEST, UNIT, float_above, smallest

DEFAULT_ORDERS: tuple[float, ...] = (
    *(1.0 + n / 64 for n in range(1, 64)),
    *(2.0 + n / 4 for n in range(32)),
    *(float(n) for n in range(10, 64)),
    *(64.0 * 2 ** (n / 4) for n in range(25)),
)
"""The Rényi orders tried where none are named: 1 + 1/64 to 4096, densest where everyday guarantees convert best."""
_LEAST = 1e-300
_TOLERANCE = 1e-9


def spare_delta(delta: float, own: float) -> float | None:
    """Return δ' with own + (1−own)·δ' ≤ delta, rounded down; None if delta is below own."""
    if delta < own:
        return None
    return max(0.0, (delta - own) / (1 - own) * (1 - 2 * UNIT)) if own else delta


def _sum_above(terms: tuple[float, ...]) -> float:
    """Return the sum of terms that each err by a few units in the last place, not below the exact sum nor below 0."""
    return max(0.0, math.fsum(terms) + 4 * UNIT * sum(map(abs, terms)))


def two_point_epsilon(epsilon: float, delta: float) -> float:
    """Return the ε' at which randomised response of loss ε has hockey-stick divergence δ: log(e^ε − δ(1+e^ε))."""
    if delta == 0:
        return epsilon
    small = math.exp(-epsilon)
    if delta < 0.5:
        return min(epsilon, _sum_above((epsilon, math.log1p(-delta * (1 + small)))))
    kept = (
        (1 - delta) - delta * small + 4 * UNIT * (1 - delta + delta * small)
    )  # rounded up before the logarithm
    return min(epsilon, _sum_above((epsilon, math.log(kept)))) if kept > 0 else 0.0


def two_point_renyi(epsilon: float, alpha: float) -> float:
    """Return D_α of randomised response, log((e^{αε}+e^{(1−α)ε})/(1+e^ε))/(α−1), if rounding leaves it below M29's."""
    if epsilon == 0:
        return 0.0
    head, tail = math.log1p(math.exp((1 - 2 * alpha) * epsilon)), math.log1p(math.exp(-epsilon))
    tight = _sum_above((epsilon, head / (alpha - 1), -tail / (alpha - 1)))
    square = alpha * epsilon * epsilon / 2 * (1 + 4 * UNIT)
    return max(min(epsilon, square, tight), SMALLEST)


def renyi_to_approx(alpha: float, epsilon: float, delta: float) -> float:
    """Return the ε that follows from a Rényi divergence at δ: ε + log((α−1)/α) − (log δ + log α)/(α−1), at least 0."""
    if delta == 0:
        return math.inf
    reciprocal = 1 / (alpha - 1)
    shrinking = math.log(alpha - 1), -math.log(alpha)
    return _sum_above(
        (epsilon, *shrinking, -math.log(delta) * reciprocal, -math.log(alpha) * reciprocal)
    )


def two_point_delta(pure: float, epsilon: float) -> float:
    """Return the hockey stick of randomised response with a pure loss, (e^pure − e^ε)/(1 + e^pure), rounded up."""
    if pure <= epsilon:
        return 0.0
    return min(
        -math.expm1(epsilon - pure) / (1 + math.exp(-pure)) * (1 + 8 * UNIT) + UNIT * UNIT, 1.0
    )


def renyi_to_delta(alpha: float, loss: float, epsilon: float) -> float:
    """Return the δ at which a Rényi loss gives epsilon: M29 solved for δ, rounded up."""
    if loss == math.inf:
        return 1.0
    exponent = (alpha - 1) * (loss - epsilon + math.log1p(-1 / alpha)) - math.log(alpha)
    rounding = 8 * UNIT * ((alpha - 1) * (loss + epsilon + 1) + math.log(alpha))
    return min(math.exp(min(exponent + rounding, 0.0)) * (1 + 2 * UNIT), 1.0)


def pure_to_zcdp(epsilon: float) -> float:
    """Return the least ρ with D_α ≤ ρα for randomised response of loss ε, of all orders: ε·tanh(ε/2) (M29)."""
    if epsilon in (0.0, math.inf):
        return epsilon
    return max(
        min(epsilon * math.tanh(epsilon / 2), epsilon * epsilon / 2) * (1 + 4 * UNIT), SMALLEST
    )


def zcdp_to_approx(rho: float, delta: float) -> float:
    """Return the least ε that ρα gives at δ over all orders α > 1 (M29); 0 where the total variation is at most δ.

    The derivative of M29's ε in α has the sign of ρ(α−1)² + log(αδ), which rises: there is one best order.
    """
    if rho == 0 or delta >= zcdp_to_tv(rho):
        return 0.0
    if delta == 0:
        return math.inf
    low, high = (
        0.0,
        math.sqrt(-math.log(delta)) / math.sqrt(rho),
    )  # of α − 1; the end gives ρ + 2√(ρ·log 1/δ) or less
    orders = [_order_next_to(high)]
    for _ in range(80):
        middle = (low + high) / 2
        rises = rho * middle * middle + math.log1p(middle) + math.log(delta) > 0
        low, high = (low, middle) if rises else (middle, high)
    orders.append(_order_next_to(high))
    return min(renyi_to_approx(alpha, rho * alpha * (1 + UNIT), delta) for alpha in orders)


def _order_next_to(excess: float) -> float:
    """Return the order 1 + excess, but not so near to 1 or ∞ that the conversion would be lost in rounding."""
    return 1.0 + min(max(excess, 2.0**-20), 2.0**100)


def zcdp_to_tv(rho: float) -> float:
    """Return the total variation that ρ allows: D_1 ≤ ρ, so at most √(ρ/2), and at most √(1 − e^{−ρ}) (M29)."""
    return min(math.sqrt(rho / 2), math.sqrt(-math.expm1(-rho))) * (1 + 4 * UNIT)


def pure_to_gdp(epsilon: float) -> float:
    """Return the least μ with the trade-off curve of randomised response of loss ε above G_μ: 2Φ⁻¹(e^ε/(1+e^ε)) (M29).

    Φ(μ/2) − 1/2 = tanh(ε/2)/2, which has all its digits where ε is small.
    """
    if epsilon in (0.0, math.inf):
        return epsilon
    if epsilon <= 1:
        mu = 2 * math.sqrt(2) * float(scipy.special.erfinv(math.tanh(epsilon / 2)))
    else:
        mu = -2 * float(scipy.special.ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon))))
    return max(mu * (1 + 256 * UNIT), SMALLEST)


def gdp_to_zcdp(mu: float) -> float:
    """Return μ²/2, rounded up: the Rényi divergence of order α of two shifted normal laws is αμ²/2 (M10)."""
    return float_above(Fraction(mu) ** 2 / 2)


def gaussian_deltas(deviations: Floats, epsilon: float) -> Floats:
    """Return the hockey stick Φ(u/2 − ε/u) − e^ε Φ(−u/2 − ε/u) of normal laws u > 0 standard deviations apart (M10).

    With a and b the two arguments, e^ε φ(b) = φ(a). So it is φ(a)·(m(−a) − m(−b)) with Mills' ratio m = Φ(−·)/φ, which
    neither over- nor underflows.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        a, b = deviations / 2 - epsilon / deviations, -deviations / 2 - epsilon / deviations
        height = np.exp(-a * a / 2)
        left, right = _mills(-a), _mills(-b)
        outside = a > 0  # there m(−a) grows like e^{a²/2}: take Φ(a) itself
        first = np.where(outside, scipy.special.ndtr(a), height * left / math.sqrt(2 * math.pi))
        second = height * right / math.sqrt(2 * math.pi)
        rounding = (8 + 4 * np.minimum(a * a, 1500.0)) * UNIT * (first + second)
        rounding += (
            4 * UNIT * (deviations / 2 + epsilon / deviations) * height
        )  # of a and b themselves
        delta = np.maximum(first - second, 0.0) + rounding
    return np.where(np.isfinite(delta), np.maximum(delta, _LEAST), 1.0)


def gdp_to_approx(mu: float, delta: float) -> float:
    """Return the ε at which two normal laws μ standard deviations apart are (ε, δ)-close (M10), rounded up.

    >>> round(gdp_to_approx(1.0, 1e-5), 3)
    4.377
    """
    apart = np.array([mu])

    def at(epsilon: float) -> float:
        return min(float(gaussian_deltas(apart, epsilon)[0]), 1.0)

    if mu == 0 or (mu < math.inf and at(0.0) <= delta):
        return 0.0
    if delta == 0 or mu == math.inf:
        return math.inf
    high = 1.0
    while at(high) > delta:
        high *= 2
        if high == math.inf:
            return math.inf
    return smallest(lambda epsilon: math.log(max(at(epsilon), SMALLEST) / delta), high, _TOLERANCE)


def _mills(x: Floats) -> Floats:
    """Return Φ(−x)/φ(x), times φ's constant."""
    return scipy.special.erfcx(x * math.sqrt(0.5)) * math.sqrt(math.pi / 2)


def tv_limit(epsilon: float, delta: float) -> float:
    """Return the largest total variation of an (ε, δ)-close pair, δ + (1−δ)·tanh(ε/2), rounded up (M26)."""
    return (
        min((delta + (1 - delta) * math.tanh(epsilon / 2)) * (1 + 4 * UNIT), 1.0)
        if epsilon
        else delta
    )


def three_point_epsilon(epsilon: float, delta: float, tv: float, wanted: float) -> float:
    """Return the ε' at which (ε, δ)-close laws of a total variation up to tv have hockey stick `wanted` (M26).

    δ falls from tv at ε' = 0 to δ at ε, linearly in e^{ε'}, as the dominating pair of three pieces has it.
    """
    if wanted < delta:
        return math.inf
    if wanted >= tv:
        return 0.0
    if wanted == delta:
        return epsilon
    share = (wanted - delta) / (tv - delta) * (1 - 4 * UNIT)
    fall = share * math.expm1(-epsilon)
    if fall > -0.5:
        return min(epsilon, _sum_above((epsilon, math.log1p(fall))))
    kept = (1 - share) + share * math.exp(-epsilon) + 4 * UNIT  # rounded up before the logarithm
    return min(epsilon, _sum_above((epsilon, math.log(kept))))


def three_point_renyi(epsilon: float, delta: float, tv: float, alpha: float) -> float:
    """Return D_α of the dominating pair of (ε, δ) and tv once δ is cut off both: randomised response, or nothing.

    Let w = (tv−δ)/((1−δ)·tanh(ε/2)) be the share of randomised response. Then it is log(1 + w·(e^{(α−1)D} − 1))/(α−1)
    (M26).
    """
    whole = two_point_renyi(epsilon, alpha)
    limit = (1 - delta) * math.tanh(epsilon / 2)
    if whole == 0 or tv - delta >= limit:
        return whole
    share, exponent = (
        max(tv - delta, 0.0) / limit * (1 + 8 * UNIT),
        (alpha - 1) * whole * (1 + UNIT),
    )
    if share == 0:
        return 0.0
    if exponent < 700:
        inner = math.log1p(share * math.expm1(exponent) * (1 + 8 * UNIT))
    else:
        height = exponent + math.log(share) + 4 * UNIT * exponent
        inner = max(height, 0.0) + math.log1p(math.exp(-abs(height)))
    return min(whole, max(inner / (alpha - 1) * (1 + 4 * UNIT), SMALLEST))
