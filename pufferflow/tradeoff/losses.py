"""The privacy loss of one release: log P/Q under P, for a pair of laws (P, Q) that dominates it (M26).

A pair dominates a release if the outputs under both secrets can be made from it by one randomised map: Blackwell's
order, which holds exactly if its hockey stick is nowhere below. Products of dominating pairs dominate, adaptively too.
A loss is given by its moments M(z) = E_P e^(zL) over finite L, and by what has no finite loss: the mass of P where Q is
0, which is revealed. Masses are right to a relative SLOP, losses to SLOP·(1 + |loss|); totals add that.
"""

import abc
import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.rounding import UNIT, lifted

SLOP = 16 * UNIT
"""The relative error of masses and losses."""
_MANY = 256
_LARGEST_EXPONENT = 600.0


class Loss(abc.ABC):
    """The privacy loss of a pair (P, Q)."""

    @property
    def finite(self) -> "Atoms | None":
        """The atoms, if there are finitely many; None for the closed forms."""
        return None

    @abc.abstractmethod
    def discretised(self) -> "Atoms":
        """Return finitely many atoms that dominate the pair."""

    @property
    def symmetric(self) -> bool:
        """Whether (Q, P) has the same loss."""
        return True

    def swapped(self) -> "Loss":
        """Return the loss of (Q, P)."""
        return self

    @property
    def revealed(self) -> float:
        """The mass of P that Q does not have."""
        return 0.0

    @property
    @abc.abstractmethod
    def largest(self) -> float:
        """The largest finite loss, ∞ if there is none."""


@final
@dataclass(frozen=True, eq=False)
class Atoms(Loss):
    """Finitely many losses in growing order, with their masses under P and Q, and what only one of both has."""

    losses: Floats
    first: Floats
    second: Floats
    first_alone: float = 0.0
    second_alone: float = 0.0

    @property
    def finite(self) -> "Atoms":
        return self

    def discretised(self) -> "Atoms":
        return self

    @property
    def revealed(self) -> float:
        return self.first_alone

    @property
    def largest(self) -> float:
        return float(self.losses[-1]) if len(self.losses) else 0.0

    @cached_property
    def reach(self) -> float:
        """The largest loss, of either sign."""
        return float(np.abs(self.losses).max()) if len(self.losses) else 0.0

    @cached_property
    def symmetric(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Whether the masses of a loss and of its negative are those of each other's law."""
        return (
            self.first_alone == self.second_alone
            and np.array_equal(self.losses, -self.losses[::-1])
            and np.array_equal(self.first, self.second[::-1])
        )

    def swapped(self) -> "Atoms":
        return Atoms(
            -self.losses[::-1],
            self.second[::-1],
            self.first[::-1],
            self.second_alone,
            self.first_alone,
        )

    def hockey_stick(self, epsilon: float) -> float:
        """Return Σ p(1 − e^(ε − ℓ))₊ and what is revealed, rounded up."""
        return float(self.hockey_sticks(np.array([epsilon]))[0])

    def hockey_sticks(self, epsilons: Floats) -> Floats:
        """Return the hockey stick at many ε, rounded up; each is summed by itself, or from running sums of many atoms.

        Running sums P(L > ε) − e^ε·Q(L > ε) err by what n additions may, which is added.
        """
        moved = epsilons - SLOP * (1 + self.reach)  # losses may be larger by this
        if len(self.losses) > _MANY and self.reach < _LARGEST_EXPONENT:
            start = np.searchsorted(self.losses, moved, side="right")
            above, below = (
                np.append(masses[::-1].cumsum()[::-1], 0.0)[start]
                for masses in (self.first, self.second)
            )
            doubt = UNIT * (2 * len(self.losses) + 16) * above
            found = np.maximum(above - np.exp(np.minimum(moved, self.reach)) * below, 0.0) + doubt
        else:
            with np.errstate(under="ignore"):
                parts = self.first * -np.expm1(np.minimum(moved[:, None] - self.losses, 0.0))
            found = np.array([math.fsum(row) for row in parts])
        return np.minimum(lifted(found + self.first_alone, 2 * SLOP), 1.0)

    @cached_property
    def key(self) -> tuple[bytes | float, ...]:
        """The key by which two of them are compared."""
        return self.losses.tobytes(), self.first.tobytes(), self.first_alone, self.second_alone

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atoms) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@final
@dataclass(frozen=True)
class ThreePoint(Loss):
    """The dominating pair of M26: loss ε, 0 or −ε, and ∞ with probability `revealed`.

    `share` is 1 − α, the probability of a loss that is not 0, given that not all is revealed.
    """

    epsilon: float
    share: float
    out: float = 0.0

    @property
    def revealed(self) -> float:
        return self.out

    @property
    def largest(self) -> float:
        return self.epsilon if self.share else 0.0

    @property
    def masses(self) -> tuple[float, float, float]:
        """The masses of P at −ε, 0 and ε."""
        rest, fall = 1 - self.out, math.exp(-self.epsilon)
        part = rest * self.share / (1 + fall)
        return part * fall, rest * (1 - self.share), part

    @property
    def finite(self) -> Atoms:
        low, middle, high = self.masses
        if self.epsilon == 0 or self.share == 0:
            whole = np.array([1 - self.out])
            return Atoms(np.zeros(1), whole, whole, self.out, self.out)
        first = np.array([low, middle, high])
        return Atoms(
            np.array([-self.epsilon, 0.0, self.epsilon]), first, first[::-1], self.out, self.out
        )

    def discretised(self) -> Atoms:
        return self.finite
