"""Generalized Cauchy noise on R: poles one scale beside every atom, and tails that fall like a power."""

import math
from typing import final

import numpy as np

from pufferflow.calibration.exact.quadrature import (
    LineField,
    Mixture,
    PairAtoms,
    UniformField,
    in_rows,
)
from pufferflow.core.arrays import Floats, log_sum
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT
from pufferflow.noise.base import Noise
from pufferflow.noise.cauchy import GeneralizedCauchy

_FAR = 1e13


@final
class CauchyField(UniformField, LineField):
    """Both densities: ζ(u + ω)/ζ(u) = (1 + η)^{−k/2} with η = (2uω + ω²)/(1 + u²), so G = (1 − |η|)^{−k/2}."""

    def __init__(self, atoms: PairAtoms, noise: Noise) -> None:
        super().__init__(atoms, noise)
        if self.dimension > 1:
            raise Refused(
                "pf.Exact with generalized Cauchy noise needs an answer of one coordinate.",
                allowed="answers of one coordinate",
                instead="bound=pf.DAGWM(), or Laplace or Gaussian noise",
            )
        self.k = noise.k if isinstance(noise, GeneralizedCauchy) else math.nan

    def cells(self, alpha: float) -> tuple[list[Floats], list[Floats], list[Floats], float]:
        """Return the hull, widened by _FAR times its size on both sides; beyond, p/q < (1 + range/far)^k."""
        needed = _FAR * max(self.range, 1.0) * max(alpha * self.k, 1.0)
        steps = 2.0 ** np.arange(
            math.ceil(math.log2(needed)) + 1
        )  # edges that are exact near the atoms too
        far = float(steps[-1])
        ends = np.array([[-math.inf, self.low[0] - far], [self.high[0] + far, math.inf]])
        beyond = float(np.sum(self.p.mass(ends[:, 0], ends[:, 1])))
        tail = (
            math.log(beyond * (1 + 1e-12)) + self.k * (alpha - 1) * math.log1p(self.range / far)
            if beyond
            else -math.inf
        )
        ends = np.concatenate(
            [self.low[0] - steps[::-1], [self.low[0], self.high[0]], self.high[0] + steps]
        )
        widths = np.diff(ends)
        wide = widths > 0
        middles = (ends[:-1] + widths / 2)[wide]
        return [middles], [widths[wide] / 2], [widths[wide]], tail

    def horizon(self) -> tuple[float, float]:
        far = _FAR * max(self.range, 1.0)
        return far, self.k * math.log1p(self.range / far)

    def log_growth(self, centres: Floats, sizes: Floats) -> Floats:
        """Return −(k/2)·log(1 − η), where (2u|ω| + |ω|²)/(1 + u²) is largest at u = 1 or at the nearest atom beyond."""
        near = self._nearest(centres)
        turned = np.maximum(near, 1.0)
        size = sizes[:, 0]
        with np.errstate(over="ignore"):
            change = 2 * size / (turned + 1 / turned) + (size / np.hypot(1.0, near)) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(change < 1, -self.k / 2 * np.log1p(-np.minimum(change, 1.0)), math.inf)

    def steepest(self, centres: Floats, sizes: Floats) -> Floats:
        """Return k/2 times the step: |log ζ'| is at most k/2."""
        return self.k / 2 * sizes[:, 0]

    def _nearest(self, points: Floats) -> Floats:
        """Return the distance to the nearest atom of either law."""
        knots = self.knots[0]
        at = np.clip(np.searchsorted(knots, points[:, 0]), 1, max(len(knots) - 1, 1))
        left, right = knots[at - 1], knots[np.minimum(at, len(knots) - 1)]
        return np.minimum(np.abs(points[:, 0] - left), np.abs(right - points[:, 0]))

    def ratio(self, centres: Floats, sizes: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the log ratio, with bounds from its slope times the step and half its curvature.

        (log p)' is the mean of s = (log ζ)' over the atoms weighted by their densities. (log p)'' is the mean of s'
        plus the variance of s. With u the distance to the atoms and R their range, |s'| ≤ k/(1 + u²) and |s''| ≤ 6k/(1
        + u²)^1.5 bound the difference of both laws. Near the atoms |s| ≤ k/2 and −k ≤ s' ≤ k/8 do. Between atoms far
        apart, at least d from each, |s'| ≤ k/(1 + d²) and |s| ≤ k·d/(1 + d²) bound each law. The variance is at most
        s².
        """
        log_p, slope_p = self._with_slope(self.p, centres)
        log_q, slope_q = self._with_slope(self.q, centres)
        size, at = sizes[:, 0], centres[:, 0]
        away = np.maximum(np.maximum(self.low[0] - at, at - self.high[0]) - size, 0.0)
        near = np.maximum(self._nearest(centres) - size, 0.0)
        steep = self.k * np.where(near > 1, near / (1 + near * near), 0.5)
        with np.errstate(over="ignore", under="ignore"):
            fall = 1 / (1 + away * away)
            bend = np.minimum(9 / 8 * self.k, 6 * self.k * self.range * fall**1.5)
            bend += np.minimum(1.0, self.range * fall) ** 2 * self.k**2 / 4
            bend = np.minimum(bend, 2 * self.k / (1 + near * near) + steep * steep)
            change = size * (np.abs(slope_p - slope_q) + 1e-14 * steep) + bend * size * size / 2
        return log_p - log_q, change, change

    def _with_slope(self, mixture: Mixture, centres: Floats) -> tuple[Floats, Floats]:
        """Return the log density and its derivative."""

        def block(points: Floats) -> Floats:
            terms = mixture.log_terms(points)
            log = log_sum(terms)
            steps = points - mixture.atoms[:, 0]
            slopes = -self.k / (
                steps + np.where(steps == 0, math.inf, 1 / np.where(steps == 0, 1.0, steps))
            )
            with np.errstate(under="ignore"):
                return np.column_stack([log, (np.exp(terms - log[:, None]) * slopes).sum(axis=1)])

        columns = in_rows(centres, 2 * len(mixture.atoms), block)
        return columns[:, 0], columns[:, 1]

    def blur(self, log_densities: Floats) -> Floats:
        """Return what moving atoms by an ulp does: the slope of log ζ is at most k/2."""
        return np.full(len(log_densities), 4 * UNIT * self.k * (self.range + 2))
