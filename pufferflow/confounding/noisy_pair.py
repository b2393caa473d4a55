"""Two laws of outputs with continuous noise, from the masses of cells: losses that are never below the true ones.

In a cell the ratio of both densities lies within e^{±w} of the ratio ρ of both masses. Among all pairs of densities
with these masses the one with two points, where the ratio is ρe^w and ρe^{−w}, has the largest hockey stick at every ε:
a convex function of the ratio is at most its chord. So P of the cell splits in the shares 1/(1+e^{−w}) and 1/(1+e^w),
and Q the other way round. Without a limit, w = ∞, all of P is told apart from all of Q: the mass is added to δ.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.arrays import Floats
from pufferflow.confounding.law_pair import LawPair
from pufferflow.roots import largest
from pufferflow.rounding import UNIT, upwards
from pufferflow.transport import Certainty

_FAINT = 1e-270
"""Masses below it may have been rounded to any other: those of Q count as 0, and as much is added to P."""


@final
@dataclass(frozen=True, eq=False)
class NoisyPair(LawPair):
    """Masses of cells under both secrets, each within a relative error `off`, and the width of the log ratio in each.

    `sharp` says that the pure loss is that of the cells: where the noise is Laplace it is attained at an atom (M6).
    """

    p: Floats
    q: Floats
    width: Floats
    off: float
    sharp: bool

    @property
    def certainty(self) -> Certainty:
        return Certainty.UPPER_BOUND

    @property
    def pure_certainty(self) -> Certainty:
        return Certainty.EXACT if self.sharp else Certainty.UPPER_BOUND

    @cached_property
    def _split(self) -> tuple[Floats, Floats]:
        wide = self.width > 0
        with np.errstate(over="ignore"):
            low = 1 / (1 + np.exp(self.width[wide]))
        high, p, q = 1 - low, self.p[wide], self.q[wide]
        return (
            np.concatenate([self.p[~wide], p * high, p * low]),
            np.concatenate([self.q[~wide], q * low, q * high]),
        )

    @property
    def pure(self) -> float:
        return self._largest

    @cached_property
    def _largest(self) -> float:
        p, q = self._split
        there = p > 0
        if (q[there] == 0).any():
            return math.inf
        ratio = float(np.max(np.log(p[there]) - np.log(q[there]), initial=0.0))
        return upwards(max(ratio, 0.0) + 3 * self.off + 4096 * UNIT)

    def delta(self, epsilon: float) -> float:
        """Return Σ(P − e^ε·Q)_+ with every mass moved by its error: P up, Q down; and the rounding of the sum."""
        if epsilon >= self.pure:
            return 0.0
        p, q = self._split
        likelihood = math.exp(min(epsilon, 700.0)) * (1 - 4 * self.off - 16 * UNIT)
        total = float(np.maximum(p - likelihood * np.where(q < _FAINT, 0.0, q), 0.0).sum())
        return min(upwards(total + _FAINT, 4 * self.off + 64 * UNIT), 1.0)

    def epsilon(self, delta: float) -> float:
        if self.delta(0.0) <= delta:
            return 0.0
        if delta == 0:
            return self.pure
        if self.delta(700.0) > delta:
            return math.inf
        below = largest(lambda epsilon: self.delta(epsilon) > delta, 701.0) if self.delta(0.0) > delta else 0.0
        return math.nextafter(below, math.inf)

    def atoms(self) -> tuple[Floats, Floats, float]:
        p, q = self._split
        there = (p > 0) | (q > 0)
        return p[there], q[there], 4 * self.off + 64 * UNIT
