"""The interface of two laws of all outputs together, under the two secrets of a pair, and their losses."""

import abc
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.roots import largest
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.coupling import Certainty

_SLACK = 8 * UNIT
_LARGEST = 700.0
"""The largest ε of a search; e^700 is near the largest float."""


class LawPair(abc.ABC):
    """Base of the pairs of laws P and Q: δ(ε) = Σ(P − e^ε·Q)_+ (M31), and numbers that follow from it, rounded up."""

    @property
    def certainty(self) -> Certainty:
        """Whether the numbers are exact, rounded up, or bounds."""
        return Certainty.UPPER_BOUND

    @property
    def pure_certainty(self) -> Certainty:
        """The same of the pure loss."""
        return self.certainty

    @cached_property
    def pure(self) -> float:
        """The largest log P/Q; ∞ if P gives mass where Q gives none."""
        return self._pure()

    @abc.abstractmethod
    def _pure(self) -> float:
        """Return the largest log P/Q."""

    @abc.abstractmethod
    def delta(self, epsilon: float) -> float:
        """Return the least δ at ε."""

    def epsilon(self, delta: float) -> float:
        """Return the least ε ≥ 0 at δ; ∞ if there is none."""
        if self.delta(0.0) <= delta:
            return 0.0
        if delta == 0:
            return self.pure
        if self.delta(_LARGEST) > delta:
            return math.inf
        return math.nextafter(largest(lambda epsilon: self.delta(epsilon) > delta, _LARGEST + 1), math.inf)

    @abc.abstractmethod
    def atoms(self) -> tuple[Floats, Floats, float]:
        """Return the masses of outcomes under P and Q, and the relative error of their sums."""

    @cached_property
    def attack(self) -> "Attack":
        """The best attack at every threshold: the test of P against Q by their ratio (Neyman and Pearson)."""
        return Attack.of(*self.atoms())


@final
@dataclass(frozen=True, eq=False)
class Attack:
    """The trade-off curve of the likelihood-ratio test, by its vertices: errors of the first and the second kind.

    The first kind takes P for Q. Both errors are at most those of the true laws: the true attack is no better.
    """

    first: Floats
    second: Floats

    @classmethod
    def of(cls, p: Floats, q: Floats, off: float) -> "Attack":
        """Return the attack on atoms."""
        with np.errstate(divide="ignore"):
            order = np.argsort(np.log(p) - np.log(q), kind="stable")
        first = np.concatenate([[0.0], np.cumsum(p[order])])
        second = np.concatenate([np.cumsum(q[order][::-1])[::-1], [0.0]])
        slack = off + (len(p) + 4) * UNIT
        return cls(np.maximum(first - slack, 0.0), np.maximum(second - slack, 0.0))

    def second_error(self, levels: Floats) -> Floats:
        """Return the least error of the second kind of tests with an error of the first kind of at most a level."""
        return np.interp(levels, self.first, self.second)

    @property
    def area_below(self) -> float:
        """The area below the curve, rounded down."""
        area = float(np.sum((self.second[1:] + self.second[:-1]) / 2 * np.diff(self.first)))
        return max(area - len(self.first) * UNIT, 0.0)


def likelihood_below(epsilon: float) -> Fraction:
    """Return a rational number not above e^ε, within 1e-14 of it, relatively; a smaller one makes δ larger."""
    if epsilon == 0:
        return Fraction(1)
    if epsilon > _LARGEST:  # e^700 ≤ e^ε
        return Fraction(math.exp(_LARGEST)) * (1 - Fraction(_SLACK))
    return Fraction(math.exp(epsilon)) * (1 - Fraction(_SLACK))
