"""Losses of an iteration whose steps move by known amounts, or by those of pairs of trajectories (M33).

Under Gaussian noise a displacement amounts to one Gaussian shift: of μ = √Σ(a_t/σ_t)² deviations, for odds, orders and
trade-off curves alike. A pair of trajectories is one displacement; a coupling of them costs what its worst pair does,
and of one order or at one δ no more than their mean does (M1).
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from pufferflow.arrays import Floats, log_sum
from pufferflow.conversions import DEFAULT_ORDERS, gaussian_deltas, gdp_to_approx
from pufferflow.guarantees import Approx, Divergence, Gdp, Guarantee, Kind, Pure, Renyi, RenyiCurve, Zcdp
from pufferflow.learning.displacements import Displacements, Trajectories
from pufferflow.learning.iteration import Iteration
from pufferflow.learning.shifts import allocations, deviations
from pufferflow.noise import Noise
from pufferflow.roots import smallest
from pufferflow.rounding import UNIT, upwards

_TOLERANCE = 1e-9


def least(promises: Sequence[Guarantee], kind: Kind) -> float:
    """Return the least loss of a kind that follows from one of some promises; ∞ if none does."""
    return min((kind.loss_from(promise) for promise in promises), default=math.inf)


def largest_displacement(iteration: Iteration, moved: Displacements, kind: Kind) -> tuple[float, int]:
    """Return the largest loss of some displacements, and which of them has it."""
    if iteration.gaussian:
        shifts = deviations(iteration, moved)
        worst = int(shifts.argmax())
        return least(gaussian_promises(float(shifts[worst])), kind), worst
    losses = [least(_additive_promises(iteration, moved, place, kind), kind) for place in range(moved.count)]
    worst = int(np.argmax(losses))
    return losses[worst], worst


def gaussian_promises(shift: float) -> list[Guarantee]:
    """Return what one Gaussian shift of so many deviations keeps."""
    if shift == 0:
        return [Pure(0.0)]
    return [Gdp(shift)] if shift < math.inf else []


def likely_pairs(iteration: Iteration, moved: Trajectories, kind: Kind) -> float:
    """Return the mean loss of a coupling's pairs: of a Rényi order, or at a δ (M1); ∞ for other promises."""
    masses = moved.masses / moved.masses.sum()
    if iteration.gaussian:
        shifts = deviations(iteration, moved.displacements)
        return mean_of_shifts(shifts, masses, kind)
    pairs = range(moved.displacements.count)

    def of_order(alpha: float) -> float:
        renyi = Kind(Renyi(alpha, 0.0))
        losses = [least(_additive_promises(iteration, moved.displacements, k, renyi), renyi) for k in pairs]
        return mean_renyi(np.array(losses), masses, alpha)

    return least(_of_orders(of_order, kind), kind)


def mean_of_shifts(shifts: Floats, masses: Floats, kind: Kind) -> float:
    """Return the mean loss of Gaussian shifts that have these probabilities, of a Rényi order or at a δ (M1)."""
    if kind.example.divergence is Divergence.HOCKEY_STICK and kind.example.delta > 0:
        delta = kind.example.delta
        return kind.loss_from(Approx(mean_epsilon(shifts, masses, delta), delta))
    with np.errstate(over="ignore"):
        squares = shifts * shifts / 2 * (1 + 2 * UNIT)
    return least(_of_orders(lambda alpha: mean_renyi(alpha * squares, masses, alpha), kind), kind)


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


def _of_orders(loss: Callable[[float], float], kind: Kind) -> list[Guarantee]:
    """Return the Rényi promises that a kind follows from, as far as their losses are finite."""
    alpha = kind.example.alpha
    orders = DEFAULT_ORDERS if alpha == math.inf else (alpha,)
    losses = [(order, loss(order)) for order in orders]
    finite = [(order, value) for order, value in losses if value < math.inf]
    return [RenyiCurve(*map(tuple, zip(*finite, strict=True)))] if finite else []


def _additive_promises(iteration: Iteration, moved: Displacements, place: int, kind: Kind) -> list[Guarantee]:
    """Return what the iteration keeps with noise of any family: losses of the shifts that each step hides add up.

    Shifts are spread as Gaussian noise has it best, or hidden where they appear: each is sound.
    """
    at, sizes = moved.part(place)
    alone = Displacements.of_parts([(at, sizes)])
    at_once = np.zeros(iteration.steps)
    at_once[at] = sizes
    rounding = 1 + (iteration.steps + 64) * UNIT
    ways = [allocations(iteration, alone)[0] * rounding, at_once]
    dimension = iteration.dimension

    def total(measure: Callable[[Noise, float], float]) -> float:
        return min(_total(iteration, shares, measure) for shares in ways)

    def renyi(alpha: float) -> float:
        return total(lambda noise, shift: noise.renyi_within(shift, alpha, dimension))

    promises = _of_orders(renyi, kind) if kind.example.divergence.about_odds or kind.example.alpha < math.inf else []
    pure = total(lambda noise, shift: noise.pure_within(shift, dimension))
    rho = total(lambda noise, shift: noise.zcdp_within(shift, dimension))
    squares = total(lambda noise, shift: noise.gdp_within(shift, dimension) ** 2 * (1 + 2 * UNIT))
    promises += [Pure(pure)] if pure < math.inf else []
    promises += [Zcdp(rho)] if rho < math.inf else []
    return promises + ([Gdp(upwards(math.sqrt(squares)))] if squares < math.inf else [])


def _total(iteration: Iteration, shares: Floats, measure: Callable[[Noise, float], float]) -> float:
    """Return the sum over steps of what a shift costs under the step's noise, rounded up."""
    terms: list[float] = []
    for place, noise in enumerate(iteration.noises):
        shifts = shares if len(iteration.noises) == 1 else shares[iteration.noise_of == place]
        values, counts = np.unique(shifts[shifts > 0], return_counts=True)
        terms += [count * measure(noise, value) for value, count in zip(values.tolist(), counts.tolist(), strict=True)]
    return upwards(math.fsum(terms), 4 * UNIT) if terms else 0.0
