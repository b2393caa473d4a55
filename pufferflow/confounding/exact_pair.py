"""Two laws of finitely many outputs in whole numbers: their losses exactly, rounded up at the end only (M31)."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import cast, final

import numpy as np

from pufferflow.confounding.law_pair import LawPair, likelihood_below
from pufferflow.core.arrays import Array, Floats
from pufferflow.core.rounding import UNIT, float_above, log_above
from pufferflow.distributions.coupling import Certainty


@final
@dataclass(frozen=True, eq=False)
class ExactPair(LawPair):
    """Masses of the outputs under both secrets, in whole numbers of which `total` make 1."""

    p: Array
    q: Array
    total: int

    @property
    def certainty(self) -> Certainty:
        return Certainty.EXACT

    @cached_property
    def largest_ratio(self) -> tuple[int, Fraction | None]:
        """The output with the largest P/Q, and that ratio; None where Q is 0."""
        possible = np.flatnonzero(self.p > 0)
        if not len(possible):
            return 0, Fraction(0)
        alone = possible[self.q[possible] == 0]
        if len(alone):
            return int(alone[np.argmax(self.p[alone])]), None
        logs = np.array([_log_ratio(p, q) for p, q in zip(self.p[possible], self.q[possible], strict=True)])
        near = possible[logs >= logs.max() - 1e-9]
        ratios = [Fraction(int(self.p[at]), int(self.q[at])) for at in cast(list[int], near.tolist())]
        best = max(range(len(near)), key=ratios.__getitem__)
        return int(near[best]), ratios[best]

    def _pure(self) -> float:
        ratio = self.largest_ratio[1]
        return math.inf if ratio is None else log_above(max(ratio, Fraction(1)))

    def delta(self, epsilon: float) -> float:
        return float_above(self.delta_at(likelihood_below(epsilon)))

    def delta_at(self, likelihood: Fraction) -> Fraction:
        """Return Σ(P − t·Q)_+ for a rational t, exactly."""
        over, under = likelihood.numerator, likelihood.denominator
        excess = self.p * under - self.q * over
        return Fraction(int(excess[excess > 0].sum()), self.total * under)

    def epsilon(self, delta: float) -> float:
        likelihood = self.least_likelihood(Fraction(delta))
        return math.inf if likelihood is None else log_above(likelihood)

    def least_likelihood(self, delta: Fraction) -> Fraction | None:
        """Return the least t ≥ 1 with Σ(P − t·Q)_+ ≤ δ; None if there is none.

        The sum is convex in t and linear between ratios, so Newton's steps from below end at t itself.
        """
        allowed, likelihood = delta * self.total, Fraction(1)
        while True:
            above = self.p * likelihood.denominator > self.q * likelihood.numerator
            more, less = int(self.p[above].sum()), int(self.q[above].sum())
            if more - likelihood * less <= allowed:
                return likelihood
            if less == 0:
                return None
            likelihood = (more - allowed) / less

    def atoms(self) -> tuple[Floats, Floats, float]:
        p, q = (np.array([one / self.total for one in masses.tolist()]) for masses in (self.p, self.q))
        there = (p > 0) | (q > 0)
        return p[there], q[there], 2 * UNIT


def _log_ratio(p: int, q: int) -> float:
    """Return the log of a quotient of whole numbers of any size."""
    return math.log(p) - math.log(q)
