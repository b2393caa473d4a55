"""Losses of Gaussian noise with a random shift: the pairs of a coupling, weighted by their probabilities (M1).

A pair of data sets moves an answer by some standard deviations of the noise. For one Rényi order, or at one δ, the
loss is at most the mean over the pairs of a coupling, which may be far below that of the worst pair.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from pufferflow.core.arrays import Floats, log_sum
from pufferflow.core.roots import smallest
from pufferflow.core.rounding import UNIT, upwards
from pufferflow.privacy.conversions import DEFAULT_ORDERS, gaussian_deltas, gdp_to_approx
from pufferflow.privacy.guarantee import Approx, Divergence, Guarantee, GuaranteeFamily
from pufferflow.privacy.renyi import RenyiCurve

_TOLERANCE = 1e-9


def least(promises: Sequence[Guarantee], kind: GuaranteeFamily) -> float:
    """Return the least loss of a kind that follows from any of several guarantees; ∞ if none does."""
    return min((kind.loss_from(promise) for promise in promises), default=math.inf)


def mean_of_shifts(shifts: Floats, masses: Floats, kind: GuaranteeFamily) -> float:
    """Return the mean loss of Gaussian shifts with these probabilities, of a Rényi order or at a δ (M1)."""
    if kind.example.divergence is Divergence.HOCKEY_STICK and kind.example.delta > 0:
        epsilon = mean_epsilon(shifts, masses, kind.example.delta)
        return kind.loss_from(Approx(epsilon, kind.example.delta)) if epsilon < math.inf else math.inf
    with np.errstate(over="ignore"):
        squares = shifts * shifts / 2 * (1 + 2 * UNIT)
    return least(of_orders(lambda alpha: mean_renyi(alpha * squares, masses, alpha), kind), kind)


def mean_renyi(losses: Floats, masses: Floats, alpha: float) -> float:
    """Return log E exp((α−1)·loss)/(α−1), rounded up."""
    exponents = (alpha - 1) * losses * (1 + 2 * UNIT)
    largest = float(exponents.max())
    if largest == math.inf:
        return math.inf
    rounding = 1 + (len(masses) + 16) * UNIT
    if largest < 600:
        return upwards(math.log1p(math.fsum(masses * np.expm1(exponents)) * rounding) / (alpha - 1), 8 * UNIT)
    with np.errstate(divide="ignore"):
        total = float(log_sum(np.log(masses) + exponents))
    return upwards((total + len(masses) * 8 * UNIT) / (alpha - 1), 64 * UNIT)


def mean_epsilon(shifts: Floats, masses: Floats, delta: float) -> float:
    """Return the ε at which the mean hockey stick of Gaussian shifts is at most δ, rounded up."""
    largest = float(shifts.max())
    if largest == math.inf:
        return math.inf if masses[np.isinf(shifts)].sum() >= delta else _finite_mean_epsilon(shifts, masses, delta)
    return _finite_mean_epsilon(shifts, masses, delta)


def _finite_mean_epsilon(shifts: Floats, masses: Floats, delta: float) -> float:
    told = float(masses[np.isinf(shifts)].sum()) * (1 + len(masses) * UNIT)
    moving = np.isfinite(shifts) & (shifts > 0)
    shifts, masses = shifts[moving], masses[moving] * (1 + (len(masses) + 4) * UNIT)

    def excess(epsilon: float) -> float:
        hockey = told + math.fsum(masses * np.minimum(gaussian_deltas(shifts, epsilon), 1.0))
        return math.log(max(hockey, math.ulp(0.0)) / delta)

    if not len(shifts) or excess(0.0) <= 0:
        return 0.0
    high = gdp_to_approx(float(shifts.max()), delta)
    while excess(high) > 0 and high < math.inf:
        high *= 2
    return smallest(excess, high, _TOLERANCE) if high < math.inf else math.inf


def of_orders(loss: Callable[[float], float], kind: GuaranteeFamily) -> list[Guarantee]:
    """Return the Rényi guarantees with finite losses from which a kind follows."""
    alpha = kind.example.alpha
    orders = DEFAULT_ORDERS if alpha == math.inf else (alpha,)
    losses = [(order, loss(order)) for order in orders]
    finite = [(order, value) for order, value in losses if value < math.inf]
    return [RenyiCurve(*map(tuple, zip(*finite, strict=True)))] if finite else []
