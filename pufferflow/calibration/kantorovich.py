"""Kantorovich's bound: a pure loss from one coupling, atom by atom (Ding 2022)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.calibration.bound import Bound, LossCurve, Worst
from pufferflow.calibration.dagwm import ball_of
from pufferflow.calibration.law_pairs import Pair, finite_laws
from pufferflow.calibration.laws import only_if_small
from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.distributions import wasserstein_1d as line
from pufferflow.distributions.coupling import Certainty, TransportPlan, plan_of_coupling
from pufferflow.distributions.distances import winf
from pufferflow.noise.base import Family, Noise
from pufferflow.privacy.guarantee import Guarantee, Pure


@final
@suggests_arguments
@dataclass(frozen=True)
class Kantorovich(Bound):
    """A pure loss between GWM's and the exact one: max over atoms x of −log E[e^{−D_∞(x−y)} | x] under one coupling.

    Proof: ν∗ζ = E ζ_y ≥ E_x ζ_x·E[e^{−D_∞(x−y)} | x] ≥ min_x E[…|x] · μ∗ζ, and the same from the other side. The
    coupling is the one that attains W_∞, so the loss is never above `pf.GWM`'s. It covers pure guarantees only.

    >>> import pufferflow as pf
    >>> pair = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1], [0.25, 0.75])
    >>> round(pf.loss([pair], pf.Laplace(1.0), pf.Pure, bound=pf.GWM()), 4)
    1.0
    >>> round(pf.loss([pair], pf.Laplace(1.0), pf.Pure, bound=Kantorovich()), 4)
    0.3799
    """

    name = "kantorovich"
    rank = 4
    for_constants = False

    @classmethod
    def automatic(cls, guarantee: Guarantee, noise: Noise) -> Sequence[Bound]:
        return [cls()] if isinstance(guarantee, Pure) else []

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[LossCurve]:
        only_if_small(pairs)
        return [CouplingLoss(pair, noise) for pair in pairs]


@final
class CouplingLoss(LossCurve):
    """One pair under the coupling that attains W_∞."""

    certainty = Certainty.UPPER_BOUND

    def __init__(self, pair: Pair, noise: Noise) -> None:
        mu, nu = finite_laws(pair)
        self.pair = pair
        self.ball = ball_of(pair, noise)
        self.sensitivity = self.ball.radius
        if mu.dimension == 1:
            self.plan = line.plan(mu, nu)
        else:
            self.plan = plan_of_coupling(winf(mu, nu, noise.norm, coupling=True).coupling)

    def renyi(self, noise: Noise, alpha: float) -> Worst:
        raise Refused(
            "pf.Kantorovich bounds pure losses only.",
            allowed="pf.Pure guarantees",
            instead="bound=pf.DAGWM() for Rényi and (epsilon, delta) guarantees",
        )

    def delta(self, noise: Noise, epsilon: float) -> Worst:
        return self.renyi(noise, 2.0)

    def zcdp(self, noise: Noise) -> Worst:
        """Return the ρ of the pure loss, or that of the ball if it is less: Gaussian noise has no pure loss."""
        return min(super().zcdp(noise), self.ball.zcdp(noise), key=lambda worst: worst.value)

    def gdp(self, noise: Noise) -> Worst:
        """Return the μ of the pure loss, or that of the ball, as for ρ."""
        return min(super().gdp(noise), self.ball.gdp(noise), key=lambda worst: worst.value)

    def enough(self, family: Family, guarantee: Guarantee) -> float:
        return self.ball.least_scale(family, guarantee)

    def pure(self, noise: Noise) -> Worst:
        """Return the larger loss of the worst atoms of both laws, at most the ball's loss."""
        ceiling = self.ball.pure(noise)
        if noise.scale == 0:
            return ceiling
        losses = noise.pure(self.plan.differences)
        factors = np.exp(-(losses if losses.ndim == 1 else losses.sum(axis=-1)))
        left = _worst_atom(self.plan, self.plan.rows, factors)
        right = _worst_atom(self.plan, self.plan.columns, factors)
        worst = Worst(left, self.pair) if left >= right else Worst(right, self.pair.swapped())
        return min(worst, ceiling, key=lambda worst: worst.value)


def _worst_atom(plan: TransportPlan, atoms: Indices, factors: Floats) -> float:
    """Return −log of the least conditional mean of the factors e^{−D_∞} given an atom, rounded up."""
    count = int(atoms.max()) + 1
    mass = np.bincount(atoms, weights=plan.masses, minlength=count)
    mean = np.bincount(atoms, weights=plan.masses * factors, minlength=count)
    least = np.full(count, math.inf)
    np.minimum.at(least, atoms, factors)
    known = mass > 0
    share = np.where(known, mean / np.where(known, mass, 1.0), least)
    if plan.doubts is not None:  # mass misplaced by rounding may be at the worst partner
        doubts = np.zeros(count)
        np.add.at(doubts, atoms[:-1], plan.doubts)
        np.add.at(doubts, atoms[1:], plan.doubts)
        wrong = np.minimum(doubts / np.where(known, mass, 1.0), 1.0)
        share = np.where(known, share - wrong * np.maximum(share - least, 0.0), least)
    with np.errstate(divide="ignore"):
        logs = np.log(share)
    loss = -logs + 8 * UNIT * (1 - logs) + 2 * UNIT * len(atoms)
    return max(float(loss.max()), 0.0)
