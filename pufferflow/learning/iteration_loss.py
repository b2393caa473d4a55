"""The loss of the last iterate of a noisy iteration about a secret, by the proofs that apply (M33, M34)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast, final

from pufferflow.calibration.calibrate import read_kind
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.validate import instance
from pufferflow.learning.dependent_rows import ChainRows, GaussianRows
from pufferflow.learning.displacements import Displacements, Marginals, Proofs, Trajectories
from pufferflow.learning.iteration import Iteration
from pufferflow.learning.losses import TrajectoryLaws, largest_displacement, likely_pairs
from pufferflow.privacy.guarantee import AnyGuaranteeFamily, Guarantee, GuaranteeFamily, Pure


@final
@dataclass(frozen=True)
class IterationLoss:
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

    `moved` is the movement of the steps between two secrets: an array of displacements with a column per step and a row
    per pair of secrets, `pf.learning.Displacements`, a coupling of whole trajectories (`pf.learning.Trajectories`, or a
    list with one per pair of secrets), `pf.learning.TrajectoryLaws`, `pf.learning.GaussianRows`,
    `pf.learning.ChainRows`, or `pf.learning.Marginals` of inputs that are independent given the secret. If several
    proofs apply, the least loss counts.
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
    return IterationLoss(value, known.at(value), proof, secret, {name: loss for name, (loss, _) in proofs.items()})


def _check_kind(iteration: Iteration, kind: GuaranteeFamily) -> None:
    if isinstance(kind.example, Pure) and iteration.gaussian:
        raise Refused(
            "A pure guarantee with Gaussian noise, which has no pure loss.",
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
            "independent steps": largest_displacement(iteration, Displacements.of(moved.sizes, iteration.steps), kind)
        }
    read = moved if isinstance(moved, Displacements) else Displacements.of(moved, iteration.steps)
    if read.at.max(initial=0) >= iteration.steps:
        raise UsageError(
            f"A displacement of step {int(read.at.max()) + 1}, and the iteration has {iteration.steps}.",
            allowed="displacements of the iteration's steps",
            instead="descent.iteration, for displacements of the same descent",
        )
    return {"shifts": largest_displacement(iteration, read, kind)}


def _of_couplings(iteration: Iteration, couplings: list[Trajectories], kind: GuaranteeFamily) -> Proofs:
    """Return the losses by the worst pair of trajectories, and by the mean over all pairs."""
    for coupling in couplings:
        instance(coupling, Trajectories, "A coupling", allowed="pf.learning.Trajectories", instead="Trajectories(…)")
        if coupling.steps != iteration.steps:
            raise UsageError(
                f"Trajectories of {coupling.steps} steps for an iteration of {iteration.steps}.",
                allowed="a size for each step",
                instead=f"pf.learning.Iteration(steps={coupling.steps}, …)",
            )
    worst = [largest_displacement(iteration, coupling.displacements, kind)[0] for coupling in couplings]
    likely = [likely_pairs(iteration, coupling, kind) for coupling in couplings]
    return {"worst pair": _largest(worst), "likely pairs": _largest(likely)}


def _largest(losses: list[float]) -> tuple[float, int]:
    place = max(range(len(losses)), key=losses.__getitem__)
    return losses[place], place
