"""How far one release moves along one coupling of the data, and the trade-off that follows: its δ at every ε (M26)."""

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from pufferflow.accounting.rules.additive import CouplingRule, GranularityRule
from pufferflow.accounting.rules.base import UnitReleases
from pufferflow.core.arrays import Floats
from pufferflow.core.rounding import UNIT, largest
from pufferflow.noise.base import Noise
from pufferflow.noise.laplace import Laplace
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.privacy.tradeoff import TradeOff
from pufferflow.published.cost import Shape
from pufferflow.tradeoff.composed import Composed

MARGIN = 1e-6
"""The relative margin of movements, above the difference of calibrations of one batch for other rows."""
STEEPEST = 500.0
"""Of larger losses only a total variation of 1 follows in floats."""


@final
@dataclass(frozen=True)
class ReleaseMovement:
    """The movement of one release along one coupling of the data, in the norm of its noise, and its dimensions."""

    noise: Noise
    moved: float
    dimension: int
    row_by_row: bool = False
    """Whether the noise only represents the pure loss of a channel, of which no more is known."""

    @property
    def pure(self) -> float:
        """The pure loss."""
        return self.noise.pure_within(self.moved, self.dimension) if self.moved else 0.0

    @property
    def tv(self) -> float:
        """The total variation, an upper bound."""
        return float(self.deltas(np.zeros(1))[0])

    def deltas(self, epsilons: Floats) -> Floats:
        """Return δ at every ε, an upper bound."""
        if self.moved == 0:
            return np.zeros(len(epsilons))
        chord = self._chord(epsilons)
        if self.row_by_row:
            return chord
        known = [
            self.noise.delta_within(self.moved, float(epsilon), self.dimension)
            for epsilon in epsilons
        ]
        return np.array(
            [line if delta is None else delta for delta, line in zip(known, chord, strict=True)]
        )

    def with_margin(self) -> "ReleaseMovement":
        """Return the movement with the relative margin; not beyond a jump of the loss, as staircases have.

        >>> from pufferflow.noise.staircase import Staircase
        >>> step = ReleaseMovement(Staircase(1.0, 2.0), 1.0, 1)
        >>> step.with_margin().moved, ReleaseMovement(Laplace(1.0), 1.0, 1).with_margin().moved
        (1.0, 1.000001)
        """
        farther = replace(self, moved=self.moved * (1 + MARGIN))
        loss = self.pure
        if farther.pure <= loss * (1 + 2 * MARGIN):
            return farther
        return replace(
            self,
            moved=largest(lambda moved: replace(self, moved=moved).pure <= loss, farther.moved),
        )

    def _chord(self, epsilons: Floats) -> Floats:
        """Return the chord of the pure loss and the total variation.

        Of Laplace noise the total variation is at most 1 − Π(1 − tv_j) = 1 − e^{−u/2}, u the sum of all movements.
        """
        loss = self.pure
        spread = isinstance(self.noise, Laplace) and not self.row_by_row
        variation = -math.expm1(-loss / 2) if spread else math.tanh(loss / 2)
        return chord(loss, variation, epsilons)


def chord(loss: float, variation: float, epsilons: Floats) -> Floats:
    """Return δ on the line from the total variation at ε = 0 to 0 at the pure loss: δ is convex in e^ε; rounded up.

    >>> chord(1.0, 0.3, np.array([0.0, 0.5, 1.0])).round(4).tolist()
    [0.3, 0.1867, 0.0]
    """
    if not math.isfinite(loss) or loss > STEEPEST:
        return np.ones(len(epsilons))
    if loss == 0:
        return np.zeros(len(epsilons))
    line = (
        variation
        * np.exp(np.minimum(epsilons, loss))
        * np.expm1(loss - epsilons)
        / math.expm1(loss)
    )
    return np.where(epsilons < loss, line * (1 + 16 * UNIT), 0.0)


def movement_of(releases: UnitReleases, shape: Shape) -> ReleaseMovement:
    """Return the movement of a release along the coupling that moves it least; ∞ if none is known."""
    lengths = [rule.movement(releases, shape) for rule in (CouplingRule(), GranularityRule())]
    return ReleaseMovement(shape.noise, min(lengths), shape.dimension, shape.row_by_row)


def epsilon_within(together: Composed, guarantee: Guarantee) -> float:
    """Return the ε of a guarantee's kind that releases have together; ∞ where they pass its total variation."""
    allowed = guarantee.tv if isinstance(guarantee, TradeOff) else 1.0
    return together.epsilon(guarantee.delta) if together.tv <= allowed else math.inf
