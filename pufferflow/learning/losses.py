"""Losses of an iteration whose steps have known movements, or those of pairs of trajectories (M33).

Under Gaussian noise a displacement is equivalent to one Gaussian shift of μ = √Σ(a_t/σ_t)² deviations, for odds, orders
and trade-off curves. A pair of trajectories is one displacement. A coupling of them costs at most what its worst pair
does, and of one order or at one δ at most the mean over pairs (M1).
"""

import math
from collections.abc import Callable

import numpy as np

from pufferflow.calibration.random_shifts import least, mean_of_shifts, mean_renyi, of_orders
from pufferflow.core.arrays import Floats
from pufferflow.core.rounding import UNIT, upwards
from pufferflow.learning.displacements import Displacements, Trajectories
from pufferflow.learning.iteration import Iteration
from pufferflow.learning.shifts import allocations, deviations
from pufferflow.noise.base import Noise
from pufferflow.privacy.guarantee import Guarantee, GuaranteeFamily, Pure
from pufferflow.privacy.renyi import Renyi, Zcdp
from pufferflow.privacy.tradeoff import Gdp


def largest_displacement(iteration: Iteration, moved: Displacements, kind: GuaranteeFamily) -> tuple[float, int]:
    """Return the largest loss of some displacements, and the displacement that has it."""
    if iteration.gaussian:
        shifts = deviations(iteration, moved)
        worst = int(shifts.argmax())
        return least(gaussian_promises(float(shifts[worst])), kind), worst
    losses = [least(_additive_promises(iteration, moved, place, kind), kind) for place in range(moved.count)]
    worst = int(np.argmax(losses))
    return losses[worst], worst


def gaussian_promises(shift: float) -> list[Guarantee]:
    """Return the guarantees of one Gaussian shift of this many deviations."""
    if shift == 0:
        return [Pure(0.0)]
    return [Gdp(shift)] if shift < math.inf else []


def likely_pairs(iteration: Iteration, moved: Trajectories, kind: GuaranteeFamily) -> float:
    """Return the mean loss of a coupling's pairs: of a Rényi order, or at a δ (M1); ∞ for other guarantees."""
    masses = moved.masses / moved.masses.sum()
    if iteration.gaussian:
        shifts = deviations(iteration, moved.displacements)
        return mean_of_shifts(shifts, masses, kind)
    pairs = range(moved.displacements.count)

    def of_order(alpha: float) -> float:
        renyi = GuaranteeFamily(Renyi(alpha, 0.0))
        losses = [least(_additive_promises(iteration, moved.displacements, k, renyi), renyi) for k in pairs]
        return mean_renyi(np.array(losses), masses, alpha)

    return least(of_orders(of_order, kind), kind)


def _additive_promises(
    iteration: Iteration, moved: Displacements, place: int, kind: GuaranteeFamily
) -> list[Guarantee]:
    """Return the guarantees of the iteration with noise of any family: losses of the shifts hidden at each step add.

    Shifts are distributed as is best for Gaussian noise, or hidden where they occur: each is sound.
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

    promises = of_orders(renyi, kind) if kind.example.divergence.about_odds or kind.example.alpha < math.inf else []
    pure = total(lambda noise, shift: noise.pure_within(shift, dimension))
    rho = total(lambda noise, shift: noise.zcdp_within(shift, dimension))
    squares = total(lambda noise, shift: noise.gdp_within(shift, dimension) ** 2 * (1 + 2 * UNIT))
    promises += [Pure(pure)] if pure < math.inf else []
    promises += [Zcdp(rho)] if rho < math.inf else []
    return promises + ([Gdp(upwards(math.sqrt(squares)))] if squares < math.inf else [])


def _total(iteration: Iteration, shares: Floats, measure: Callable[[Noise, float], float]) -> float:
    """Return the sum over steps of the cost of a shift under the step's noise, rounded up."""
    terms: list[float] = []
    for place, noise in enumerate(iteration.noises):
        shifts = shares if len(iteration.noises) == 1 else shares[iteration.noise_of == place]
        values, counts = np.unique(shifts[shifts > 0], return_counts=True)
        terms += [count * measure(noise, value) for value, count in zip(values.tolist(), counts.tolist(), strict=True)]
    return upwards(math.fsum(terms), 4 * UNIT) if terms else 0.0
