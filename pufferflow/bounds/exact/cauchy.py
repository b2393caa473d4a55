"""Generalized Cauchy noise on R: poles one scale beside every atom, and tails that fall like a power."""

import math
from typing import final

import numpy as np

from pufferflow.bounds.exact.field import Atoms, UniformField
from pufferflow.errors import Refused
from pufferflow.noise import Floats, GeneralizedCauchy, Noise
from pufferflow.rounding import UNIT

_FAR = 1e13


@final
class CauchyField(UniformField):
    """Both densities: ζ(u + ω)/ζ(u) = (1 + η)^{−k/2} with η = (2uω + ω²)/(1 + u²), so G = (1 − |η|)^{−k/2}."""

    def __init__(self, atoms: Atoms, noise: Noise) -> None:
        super().__init__(atoms, noise)
        if self.dimension > 1:
            raise Refused(
                "The exact loss of generalized Cauchy noise for an answer of several coordinates.",
                allowed="answers of one coordinate",
                instead="bound=pf.DAGWM(), or Laplace or Gaussian noise",
            )
        self.k = noise.k if isinstance(noise, GeneralizedCauchy) else math.nan

    def cells(self, alpha: float) -> tuple[list[Floats], list[Floats], list[Floats], float]:
        """Return the hull and _FAR times as much on both sides; beyond, p/q < (1 + range/far)^k."""
        far = _FAR * max(self.range, 1.0) * max(alpha * self.k, 1.0)
        ends = np.array([[-math.inf, self.low[0] - far], [self.high[0] + far, math.inf]])
        beyond = float(self.p.mass(ends[:, 0], ends[:, 1]).sum())
        tail = (
            math.log(beyond * (1 + 1e-12)) + self.k * (alpha - 1) * math.log1p(self.range / far)
            if beyond
            else -math.inf
        )
        steps = 2.0 ** np.arange(math.ceil(math.log2(far)) + 1)  # edges that are exact near the atoms too
        ends = np.concatenate([self.low[0] - steps[::-1], [self.low[0], self.high[0]], self.high[0] + steps])
        widths = np.diff(ends)
        kept = widths > 0
        middles = (ends[:-1] + widths / 2)[kept]
        return [middles], [widths[kept] / 2], [widths[kept]], tail

    def horizon(self) -> tuple[float, float]:
        """Return a distance from the atoms, and what |log(p/q)| is at most beyond it."""
        far = _FAR * max(self.range, 1.0)
        return far, self.k * math.log1p(self.range / far)

    def log_growth(self, centres: Floats, sizes: Floats) -> Floats:
        """Return −(k/2)·log(1 − η), where (2u|ω| + |ω|²)/(1 + u²) is largest at u = 1 or at the nearest atom beyond."""
        knots = self.knots[0]
        at = np.clip(np.searchsorted(knots, centres[:, 0]), 1, max(len(knots) - 1, 1))
        near = np.abs(centres[:, 0] - knots[at - 1])
        near = np.minimum(near, np.abs(knots[np.minimum(at, len(knots) - 1)] - centres[:, 0]))
        turned = np.maximum(near, 1.0)
        size = sizes[:, 0]
        with np.errstate(over="ignore"):
            change = 2 * size / (turned + 1 / turned) + (size / np.hypot(1.0, near)) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(change < 1, -self.k / 2 * np.log1p(-np.minimum(change, 1.0)), math.inf)

    def ratio(self, centres: Floats, sizes: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the log ratio; its slope is a difference of two means of (log ζ)', whose slope is ≤ k/(1 + u²)."""
        log_ratio, change, _ = super().ratio(centres, sizes)
        size, at = sizes[:, 0], centres[:, 0]
        away = np.maximum(np.maximum(self.low[0] - at, at - self.high[0]) - size, 0.0)
        with np.errstate(over="ignore"):
            slope = self.k * np.minimum(1.0, self.range / (1 + away * away))
        change = np.minimum(change, size * slope)
        return log_ratio, change, change

    def blur(self, points: Floats) -> Floats:
        """Return what moving atoms by an ulp does: the slope of log ζ is at most k/2, and k/|u| far out."""
        return np.full(len(points), 4 * UNIT * self.k * (self.range + 2))
