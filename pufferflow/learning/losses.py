"""Losses of an iteration whose steps have known movements, or from laws of whole trajectories.

Under Gaussian noise a displacement is equivalent to one Gaussian shift of μ = √Σ(a_t/σ_t)² deviations, for odds, orders
and trade-off curves. A pair of trajectories is one displacement. A coupling of them costs at most what its worst pair
does, and of one order or at one δ at most the mean over pairs (M1).

The laws of whole trajectories under two secrets, and couplings of them with a small loss (M33).

Any coupling proves a loss. The loss of the worst pair is reduced by a search over the pairs that may be used
(bottleneck transport), the mean loss by transport at the price of each pair (exponential transport).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from pufferflow.calibration.transport_bounds import least, mean_of_shifts, mean_renyi, of_orders
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT, upwards
from pufferflow.core.validate import finite_number_at_least_zero, instance, set_fields
from pufferflow.distributions import emd
from pufferflow.distributions.finite_law import Law
from pufferflow.learning.displacements import Displacements, Proofs, Trajectories
from pufferflow.learning.iteration import Iteration
from pufferflow.learning.shifts import allocations, deviations
from pufferflow.noise.base import Noise
from pufferflow.privacy.conversions import gaussian_deltas
from pufferflow.privacy.guarantee import Divergence, Guarantee, GuaranteeFamily, Pure
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


_MOST_PAIRS = 40_000
_LARGEST = 1e300
_ORDERS = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0)


@final
@dataclass(frozen=True, eq=False, init=False)
class TrajectoryLaws:
    """The laws of all inputs together, one coordinate per step, under each of two secrets.

    Step t moves by at most `lipschitz` · |x_t − x′_t|. The best couplings found of whole trajectories count.

    >>> import pufferflow as pf
    >>> laws = TrajectoryLaws(pf.Law([(0, 0), (1, 1)], [0.5, 0.5]), pf.Law([(0, 1), (1, 0)], [0.5, 0.5]))
    >>> iteration = pf.learning.Iteration(2, pf.Gaussian(1.0))
    >>> pf.learning.iteration_loss(iteration, laws, pf.Renyi.of(alpha=2)).value
    0.5000...
    """

    left: Law
    right: Law
    lipschitz: float

    def __init__(self, left: Law, right: Law, lipschitz: float = 1.0) -> None:
        for law in (left, right):
            instance(
                law, Law, "A law of trajectories", allowed="pf.Law", instead="pf.Law([(0, 0), (1, 1)], [0.5, 0.5])"
            )
        if left.dimension != right.dimension or len(left) * len(right) > _MOST_PAIRS:
            raise UsageError(
                f"Laws of {len(left)} and {len(right)} trajectories of {left.dimension} and {right.dimension} steps.",
                allowed=f"as many steps, and at most {_MOST_PAIRS} pairs of trajectories",
                instead="pf.learning.Trajectories, a coupling that is known",
            )
        factor = finite_number_at_least_zero(lipschitz, "lipschitz")
        set_fields(self, left=left, right=right, lipschitz=factor)

    def proofs(self, iteration: Iteration, kind: GuaranteeFamily) -> Proofs:
        """Return the loss of the worst pair of a coupling, and of the mean over all pairs."""
        if not iteration.gaussian or self.left.dimension != iteration.steps:
            raise Refused(
                "Laws of trajectories whose steps, or whose noise, are not those of the iteration.",
                allowed="Gaussian noise, and a coordinate for each step",
                instead="pf.learning.Trajectories, a coupling that is known",
            )
        shifts = self._shifts(iteration)
        found = {"worst pair": (least(gaussian_promises(self._bottleneck(shifts)), kind), 0)}
        if kind.example.divergence in (Divergence.HOCKEY_STICK, Divergence.RENYI):
            found["likely pairs"] = min(self._mean(shifts, prices, kind) for prices in _prices(shifts, kind)), 0
        return found

    def _shifts(self, iteration: Iteration) -> Floats:
        """Return the Gaussian shift of each pair of trajectories."""
        left, right = (np.asarray(law.values, np.float64).reshape(len(law), -1) for law in (self.left, self.right))
        with np.errstate(over="ignore"):
            sizes = np.abs(left[:, None] - right[None]) * self.lipschitz * (1 + 2.0**-50)
        moved = Displacements.of(sizes.reshape(-1, iteration.steps), iteration.steps)
        return deviations(iteration, moved).reshape(len(left), len(right))

    def _bottleneck(self, shifts: Floats) -> float:
        """Return the largest shift of a coupling whose largest shift is small."""
        levels = np.unique(shifts)
        low, high = 0, len(levels) - 1
        best = float(levels[-1])
        while low < high:
            middle = (low + high) // 2
            plan = emd.cheapest(self.left, self.right, (shifts > levels[middle]).astype(np.float64))
            largest = float(shifts[plan.rows, plan.columns].max())
            best = min(best, largest)
            low, high = (low, middle) if largest <= levels[middle] else (middle + 1, high)
        return best

    def _mean(self, shifts: Floats, prices: Floats, kind: GuaranteeFamily) -> float:
        plan: Any = emd.cheapest(self.left, self.right, prices / max(float(prices.max()), 1e-300))
        return mean_of_shifts(shifts[plan.rows, plan.columns], plan.masses / plan.masses.sum(), kind)


def _prices(shifts: Floats, kind: GuaranteeFamily) -> list[Floats]:
    """Return prices of pairs for which a coupling is to be cheap: any are sound, and the cheapest result counts."""
    alpha = kind.example.alpha
    orders = (alpha,) if alpha < np.inf else _ORDERS
    with np.errstate(over="ignore"):
        squares = [np.minimum(order * (order - 1) / 2 * shifts * shifts, _LARGEST) for order in orders]
    prices = [np.exp(np.minimum(square - square.max(), 0.0)) for square in squares]
    if alpha == np.inf:
        flat = np.maximum(shifts, 1e-300).ravel()
        prices += [gaussian_deltas(flat, epsilon).reshape(shifts.shape) for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0)]
    return prices
