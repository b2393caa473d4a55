"""What a bound on one divergence says of another (M29): pure, Rényi and hockey-stick losses, rounded up."""

import math

from pufferflow.rounding import SMALLEST, UNIT

DEFAULT_ORDERS: tuple[float, ...] = (
    *(1.0 + n / 64 for n in range(1, 64)),
    *(2.0 + n / 4 for n in range(32)),
    *(float(n) for n in range(10, 64)),
    *(64.0 * 2 ** (n / 4) for n in range(25)),
)
"""The Rényi orders tried where none are named: 1 + 1/64 to 4096, densest where everyday promises convert best."""


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
    kept = (1 - delta) - delta * small + 4 * UNIT * (1 - delta + delta * small)  # rounded up before the logarithm
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
    return _sum_above((epsilon, *shrinking, -math.log(delta) * reciprocal, -math.log(alpha) * reciprocal))


def two_point_delta(pure: float, epsilon: float) -> float:
    """Return the hockey stick of randomised response with a pure loss, (e^pure − e^ε)/(1 + e^pure), rounded up."""
    if pure <= epsilon:
        return 0.0
    return min(-math.expm1(epsilon - pure) / (1 + math.exp(-pure)) * (1 + 8 * UNIT) + UNIT * UNIT, 1.0)


def renyi_to_delta(alpha: float, loss: float, epsilon: float) -> float:
    """Return the δ at which a Rényi loss gives epsilon: M29 solved for δ, rounded up."""
    if loss == math.inf:
        return 1.0
    exponent = (alpha - 1) * (loss - epsilon + math.log1p(-1 / alpha)) - math.log(alpha)
    rounding = 8 * UNIT * ((alpha - 1) * (loss + epsilon + 1) + math.log(alpha))
    return min(math.exp(min(exponent + rounding, 0.0)) * (1 + 2 * UNIT), 1.0)
