"""The privacy losses of Gaussian and Laplace noise: closed forms, and atoms that dominate them where those are needed.

The loss of N(μ, 1) against N(0, 1) is normal with mean μ²/2 and variance μ² (M10). Of Laplace noise moved by u scales
it is u with probability ½, −u with probability e^(−u)/2, and has density e^((ℓ−u)/2)/4 between (M9).
"""

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.tradeoff.hulls import of_deltas
from pufferflow.tradeoff.losses import Atoms, Loss

NODES: Final = 4097
"""At how many ε a curve that is no polygon is taken; chords between them lie above it."""
_FARTHEST: Final = 9.0
"""The number of standard deviations with atoms of their own; the rest, 10⁻¹⁹, counts as revealed."""


@final
@dataclass(frozen=True)
class GaussianLoss(Loss):
    """N(μ, 1) against N(0, 1)."""

    mu: float

    @property
    def finite(self) -> None:
        return None

    @property
    def largest(self) -> float:
        return math.inf if self.mu else 0.0

    def discretised(self) -> Atoms:
        if self.mu == 0:
            return of_deltas(np.zeros(1), np.zeros(1))
        epsilons = np.linspace(0.0, self.mu * self.mu / 2 + _FARTHEST * self.mu, NODES)
        return of_deltas(epsilons, Gaussian(1.0).delta(np.full(NODES, self.mu), epsilons))


@final
@dataclass(frozen=True)
class LaplaceLoss(Loss):
    """Laplace noise moved by `units` scales."""

    units: float

    @property
    def finite(self) -> None:
        return None

    @property
    def largest(self) -> float:
        return self.units

    def discretised(self) -> Atoms:
        epsilons = np.linspace(0.0, self.units, NODES) if self.units else np.zeros(1)
        return of_deltas(epsilons, Laplace(1.0).delta(np.full(len(epsilons), self.units), epsilons))
