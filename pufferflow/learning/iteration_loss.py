"""The loss of the last iterate of a noisy iteration about a secret, by the proofs that apply (M33, M34).

Any coupling of the laws of whole trajectories proves a loss. The loss of the worst pair is reduced by a search over the
pairs that may be used (bottleneck transport). The mean loss is reduced by transport at the price of each pair
(exponential transport).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np

from pufferflow.calibration.calibrate import read_kind
from pufferflow.calibration.transport_bounds import least, mean_of_shifts
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.validate import finite_number_at_least_zero, instance, set_fields
from pufferflow.distributions import emd
from pufferflow.distributions.finite_law import Law
from pufferflow.learning.dependent_rows import ChainRows, GaussianRows
from pufferflow.learning.displacements import Displacements, Marginals, Proofs, Trajectories
from pufferflow.learning.iteration import Iteration
from pufferflow.learning.shifts import (
    deviations,
    gaussian_promises,
    largest_displacement,
    likely_pairs,
)
from pufferflow.privacy.conversions import gaussian_deltas
from pufferflow.privacy.guarantee import (
    AnyGuaranteeFamily,
    Divergence,
    Guarantee,
    GuaranteeFamily,
    Pure,
)

_MOST_PAIRS = 40_000
_LARGEST = 1e300
_ORDERS = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0)


@final
@dataclass(frozen=True, eq=False, init=False)
class TrajectoryLaws(InNotebooks):
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
                law,
                Law,
                "A law of trajectories",
                allowed="pf.Law",
                instead="pf.Law([(0, 0), (1, 1)], [0.5, 0.5])",
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
                "The laws of trajectories need Gaussian noise and a coordinate for each step of the iteration.",
                allowed="an iteration with Gaussian noise, and as many coordinates as steps",
                instead="pf.learning.Trajectories, a coupling that is known",
            )
        shifts = self._shifts(iteration)
        found = {"worst pair": (least(gaussian_promises(self._bottleneck(shifts)), kind), 0)}
        if kind.example.divergence in (Divergence.HOCKEY_STICK, Divergence.RENYI):
            found["likely pairs"] = (
                min(self._mean(shifts, prices, kind) for prices in _prices(shifts, kind)),
                0,
            )
        return found

    def _shifts(self, iteration: Iteration) -> Floats:
        """Return the Gaussian shift of each pair of trajectories."""
        left, right = (
            np.asarray(law.values, np.float64).reshape(len(law), -1)
            for law in (self.left, self.right)
        )
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
        return mean_of_shifts(
            shifts[plan.rows, plan.columns], plan.masses / plan.masses.sum(), kind
        )


def _prices(shifts: Floats, kind: GuaranteeFamily) -> list[Floats]:
    """Return prices of pairs for which a coupling is to be cheap: any are sound, and the cheapest result counts."""
    alpha = kind.example.alpha
    orders = (alpha,) if alpha < np.inf else _ORDERS
    with np.errstate(over="ignore"):
        squares = [
            np.minimum(order * (order - 1) / 2 * shifts * shifts, _LARGEST) for order in orders
        ]
    prices = [np.exp(np.minimum(square - square.max(), 0.0)) for square in squares]
    if alpha == np.inf:
        flat = np.maximum(shifts, 1e-300).ravel()
        prices += [
            gaussian_deltas(flat, epsilon).reshape(shifts.shape)
            for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0)
        ]
    return prices


@final
@dataclass(frozen=True)
class IterationLoss(InNotebooks):
    """The loss of an iteration, its guarantee, the proof, and the pair of secrets that loses most.

    `losses` has the result of each proof that was tried; `value` is the least of them.
    """

    value: float
    promise: Guarantee
    proof: str
    secret: int
    losses: Mapping[str, float]


def iteration_loss(iteration: Iteration, moved: Any, kind: AnyGuaranteeFamily) -> IterationLoss:
    """Return the least loss for which the last iterate provably keeps a guarantee of a kind, rounded up.

    `moved` is the movement of the steps between two secrets, in one of these forms. If several proofs apply, the least
    loss counts.

    - an array of displacements, with a column per step and a row per pair of secrets, or `pf.learning.Displacements`
    - a coupling of whole trajectories: `pf.learning.Trajectories`, or a list with one per pair of secrets
    - `pf.learning.TrajectoryLaws`, `pf.learning.GaussianRows` or `pf.learning.ChainRows`
    - `pf.learning.Marginals`, of inputs that are independent given the secret

    `kind` is a guarantee without its loss, as for `pf.loss`. The first iterate and the noise are not published.

    >>> import pufferflow as pf
    >>> iteration = pf.learning.Iteration(steps=10, noise=pf.Gaussian(2.0))
    >>> last, first = [0] * 9 + [2], [2] + [0] * 9
    >>> pf.learning.iteration_loss(iteration, last, pf.Renyi.of(alpha=3)).value
    1.5000...
    >>> pf.learning.iteration_loss(iteration, first, pf.Renyi.of(alpha=3)).value
    0.15000...
    >>> pf.learning.iteration_loss(iteration, [last, first], pf.Approx.of(delta=1e-6)).promise
    Approx(epsilon=4.88..., delta=1e-06)
    """
    instance(
        iteration,
        Iteration,
        "The iteration",
        allowed="pf.learning.Iteration",
        instead="pf.learning.Iteration(steps=100, noise=pf.Gaussian(1.0))",
    )
    known = read_kind(kind)
    _check_kind(iteration, known)
    proofs = _proofs(iteration, moved, known)
    proof, (value, secret) = min(proofs.items(), key=lambda one: one[1][0])
    if value == math.inf:
        raise Refused(
            "No proof gives the iteration a finite loss of this kind.",
            allowed="finite displacements, and guarantees that the noise can keep",
            instead="pf.Approx.of(delta=1e-6), or a bound on how far inputs move a step",
        )
    return IterationLoss(
        value, known.at(value), proof, secret, {name: loss for name, (loss, _) in proofs.items()}
    )


def _check_kind(iteration: Iteration, kind: GuaranteeFamily) -> None:
    if isinstance(kind.example, Pure) and iteration.gaussian:
        raise Refused(
            "Gaussian noise cannot keep a pure guarantee.",
            allowed="guarantees with a delta, of Rényi orders, pf.Zcdp or pf.Gdp; or Laplace noise in one dimension",
            instead="pf.Approx.of(delta=1e-6)",
        )


def _proofs(iteration: Iteration, moved: Any, kind: GuaranteeFamily) -> Proofs:
    if isinstance(moved, Trajectories):
        return _of_couplings(iteration, [moved], kind)
    if isinstance(moved, list | tuple) and moved and isinstance(moved[0], Trajectories):
        return _of_couplings(iteration, cast(list[Trajectories], moved), kind)
    if isinstance(moved, ChainRows | GaussianRows | TrajectoryLaws):
        return moved.proofs(iteration, kind)
    if isinstance(moved, Marginals):
        return {
            "independent steps": largest_displacement(
                iteration, Displacements.of(moved.sizes, iteration.steps), kind
            )
        }
    read = moved if isinstance(moved, Displacements) else Displacements.of(moved, iteration.steps)
    if read.at.max(initial=0) >= iteration.steps:
        raise UsageError(
            f"A displacement of step {int(read.at.max()) + 1}, and the iteration has {iteration.steps}.",
            allowed="displacements of the iteration's steps",
            instead="descent.iteration, for displacements of the same descent",
        )
    return {"shifts": largest_displacement(iteration, read, kind)}


def _of_couplings(
    iteration: Iteration, couplings: list[Trajectories], kind: GuaranteeFamily
) -> Proofs:
    """Return the losses by the worst pair of trajectories, and by the mean over all pairs."""
    for coupling in couplings:
        instance(
            coupling,
            Trajectories,
            "A coupling",
            allowed="pf.learning.Trajectories",
            instead="Trajectories(…)",
        )
        if coupling.steps != iteration.steps:
            raise UsageError(
                f"The trajectories have {coupling.steps} steps, and the iteration has {iteration.steps}.",
                allowed="a size for each step",
                instead=f"pf.learning.Iteration(steps={coupling.steps}, …)",
            )
    worst = [
        largest_displacement(iteration, coupling.displacements, kind)[0] for coupling in couplings
    ]
    likely = [likely_pairs(iteration, coupling, kind) for coupling in couplings]
    return {"worst pair": _largest(worst), "likely pairs": _largest(likely)}


def _largest(losses: list[float]) -> tuple[float, int]:
    place = max(range(len(losses)), key=losses.__getitem__)
    return losses[place], place
