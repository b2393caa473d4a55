"""Two laws of outputs with continuous noise, from the masses of cells: losses that are never below the true ones.

In a cell the log ratio of both densities moves by at most w, around the log of the ratio ρ of both masses. A hockey
stick is a convex function of the ratio, at most its chord: that of two points a factor e^w apart with mean ρ. The worst
position of them for e^ε within e^{±w} of ρ gives (√P − √(e^ε·Q)·e^{−w/2})²/(1 − e^{−w}); elsewhere the stick is that of
both masses. One pair of laws that is no better for any ε has the ratios ρe^w and ρe^{−w}: P splits in the shares
1/(1+e^{−w}) and 1/(1+e^w), and Q the other way round. If w = ∞ all of P is distinguished from all of Q.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.confounding.law_pair import LawPair
from pufferflow.core.arrays import Floats
from pufferflow.core.rounding import UNIT, upwards
from pufferflow.distributions.coupling import Certainty

_FAINT = 1e-270
"""Smaller masses may be rounded to any other: those of Q count as 0, and as much is added to P."""


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
    doubt: float = 0.0
    """The error of sums of masses beside that: each has been moved by its part of it, P up and Q down."""

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

    def _pure(self) -> float:
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
        likelihood = math.exp(min(epsilon, 700.0)) * (1 - 4 * self.off - 16 * UNIT)
        rest = likelihood * np.where(self.q < _FAINT, 0.0, self.q)
        sticks = np.maximum(self.p - rest, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            near = (self.width > 0) & (np.abs(np.log(self.p) - np.log(rest)) <= self.width)
        p, width = self.p[near], self.width[near]
        sticks[near] = (np.sqrt(p) - np.sqrt(rest[near]) * np.exp(-width / 2)) ** 2 / -np.expm1(-width)
        return min(upwards(float(sticks.sum()) + _FAINT + 16 * UNIT, 4 * self.off + 64 * UNIT), 1.0)

    def atoms(self) -> tuple[Floats, Floats, float]:
        p, q = self._split
        there = (p > 0) | (q > 0)
        return p[there], q[there], 4 * self.off + 64 * UNIT + self.doubt
