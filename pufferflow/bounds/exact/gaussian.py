"""Gaussian noise: densities whose growth depends on which atoms matter at a point."""

import math
from typing import final

import numpy as np

from pufferflow.bounds.exact.field import LineField, Mixture, in_rows, log_sum
from pufferflow.noise import Floats
from pufferflow.rounding import UNIT

_NOTHING = 45.0
_END = 40.0


@final
class GaussianField(LineField):
    """Both densities, known around a point by the atoms as seen from there.

    With E over atoms weighted by w·ζ(c − x), and m their mean, p(c + ω) = p(c)·e^{−ω²/2 − ω·(c − m)}·E e^{ω·(x − m)}.
    The exponential is taken out of p^α q^{1−α} exactly; E is between 2 − G and G in size, with G = E e^{|ω|·|x − m|},
    and at least 1 for real ω.
    """

    def cells(self, alpha: float) -> tuple[list[Floats], list[Floats], list[Floats], float]:
        """Return a box outside of which f is negligible.

        By joint convexity f ≤ E ζ_x^α ζ_{x'}^{1−α} under the coupling that attains W_∞, a mixture of normal densities
        around αx − (α−1)x' = x + (α−1)(x − x'), each of mass e^{α(α−1)|x − x'|²/2}.
        """
        mass = alpha * (alpha - 1) * self.reach**2 / 2
        width = math.sqrt(2 * (mass + _NOTHING))
        low = self.p.atoms.min(axis=0) - (alpha - 1) * self.reach - width
        high = self.p.atoms.max(axis=0) + (alpha - 1) * self.reach + width
        halves = (high - low) / 2
        tail = math.log(2 * self.dimension) - _NOTHING
        return (
            [np.array([x]) for x in low + halves],
            [np.array([x]) for x in halves],
            [np.array([x]) for x in 2 * halves],
            tail,
        )

    def horizon(self) -> tuple[float, float]:
        """Return a distance beyond which there is no mass to speak of; the ratio may be anything there."""
        return _END, math.inf

    def growth(self, centres: Floats, sizes: Floats, alpha: float) -> tuple[Floats, Floats, Floats]:
        """Return log f and its gains, from what both laws look like from the centres."""
        log_p, mean_p, spread_p = _seen(self.p, centres, sizes)
        log_q, mean_q, spread_q = _seen(self.q, centres, sizes)
        pull = (np.abs(centres - alpha * mean_p + (alpha - 1) * mean_q) * sizes).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            shrink = np.where(
                spread_q < math.log(2), -np.log(np.maximum(2 - np.exp(np.minimum(spread_q, 1.0)), 0.0)), math.inf
            )
        complex_gain = (sizes**2).sum(axis=1) / 2 + pull + alpha * spread_p + (alpha - 1) * shrink
        return alpha * log_p - (alpha - 1) * log_q, complex_gain, pull + alpha * spread_p

    def ratio(self, centres: Floats, sizes: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the log ratio: its slope is the difference of both means; Hoeffding bounds its bend."""
        log_p, mean_p, spread_p = _seen(self.p, centres, sizes)
        log_q, mean_q, spread_q = _seen(self.q, centres, sizes)
        slope = (np.abs(mean_p - mean_q) * sizes).sum(axis=1)
        bend = (self.range * sizes[:, 0]) ** 2 / 8
        return log_p - log_q, slope + np.minimum(spread_q, bend), slope + np.minimum(spread_p, bend)

    def steepest(self, centres: Floats, sizes: Floats) -> Floats:
        """Return the farthest atom's distance times the step: the slope of log p is a mean of distances."""
        at, size = centres[:, 0], sizes[:, 0]
        return (np.maximum(np.abs(at - self.low[0]), np.abs(at - self.high[0])) + size) * size

    def blur(self, log_densities: Floats) -> Floats:
        """Return what moving atoms by an ulp h does: with L = −log p the change is at most h·√(2dL) + h²·d/2.

        For L moves no faster than the mean distance of the atoms as seen from the point. That distance's square has
        mean 2L − d·log(2π) − 2·KL(as seen ‖ weights) < 2L. So √L moves by no more than h·√(d/2).
        """
        ulp = 4 * UNIT * self.range
        far = np.sqrt(2 * self.dimension * np.maximum(-log_densities, 0.0))
        return ulp * far + ulp * ulp * self.dimension / 2


def _seen(mixture: Mixture, centres: Floats, sizes: Floats) -> tuple[Floats, Floats, Floats]:
    """Return log density, mean atom, and log E e^{Σ sizes·|x − mean|}, as seen from each centre."""
    dimension = centres.shape[1]

    def some(rows: Floats) -> Floats:
        at, size = rows[:, :dimension], rows[:, dimension:]
        terms = mixture.log_terms(at)
        log = log_sum(terms)
        with np.errstate(under="ignore"):
            weights = np.exp(terms - log[:, None])
        mean = weights @ mixture.atoms
        stretched = np.abs(mixture.atoms[None, :, :] - mean[:, None, :]) * size[:, None, :]
        spread = np.maximum(log_sum(terms - log[:, None] + stretched.sum(axis=-1)), 0.0) + 1e-13
        return np.column_stack([log, mean, spread])

    seen = in_rows(np.column_stack([centres, sizes]), len(mixture.atoms) * dimension, some)
    return seen[:, 0], seen[:, 1 : 1 + dimension], seen[:, -1]
