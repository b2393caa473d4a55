"""Gaussian noise: densities whose growth depends on which atoms matter at a point; Gaussian laws in closed form."""

import math
from typing import final

import numpy as np

from pufferflow.bounds.exact.field import LineField, Mixture, in_rows, log_sum
from pufferflow.law import GaussianLaw
from pufferflow.noise import Floats, Gaussian, Noise
from pufferflow.rounding import UNIT, upwards

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

    def blur(self, points: Floats) -> Floats:
        """Return what moving atoms by an ulp does: the slope of log ζ is the distance."""
        distance = np.maximum(np.abs(points - self.low), np.abs(points - self.high)).sum(axis=1)
        return 4 * UNIT * self.range * distance


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


def renyi(mu: GaussianLaw, nu: GaussianLaw, noise: Noise, alpha: float) -> float:
    """Return D_α of two Gaussian laws with Gaussian noise (M15); ∞ where αΣ_ν + (1−α)Σ_μ is not positive definite."""
    first, second = _with_noise(mu, noise), _with_noise(nu, noise)
    move = mu.mean - nu.mean
    if (first == second).all():
        return upwards(alpha / 2 * _squared(move, first), 1e-12)
    mixed = alpha * second + (1 - alpha) * first
    if np.linalg.eigvalsh(mixed)[0] <= 0 or min(np.linalg.eigvalsh(first)[0], np.linalg.eigvalsh(second)[0]) <= 0:
        return math.inf
    logs = [float(np.linalg.slogdet(matrix)[1]) for matrix in (mixed, first, second)]
    bent = (logs[0] - (1 - alpha) * logs[1] - alpha * logs[2]) / (2 * (1 - alpha))
    rounding = 1e-13 * (sum(map(abs, logs)) * alpha / (alpha - 1) + 1) * len(move)
    return max(upwards(alpha / 2 * _squared(move, mixed), 1e-12) + bent, 0.0) + rounding


def hockey_stick(mu: GaussianLaw, nu: GaussianLaw, noise: Noise, epsilon: float) -> float | None:
    """Return δ(ε) where both laws have one covariance: it is that of a translation; None where they do not."""
    first, second = _with_noise(mu, noise), _with_noise(nu, noise)
    if not (first == second).all():
        return None
    length = math.sqrt(upwards(_squared(mu.mean - nu.mean, first), 1e-12))
    return Gaussian(1.0).delta(length, epsilon)


def _with_noise(law: GaussianLaw, noise: Noise) -> Floats:
    return law.covariance + noise.scale**2 * np.eye(law.dimension)


def _squared(move: Floats, covariance: Floats) -> float:
    """Return moveᵀ·covariance⁻¹·move; ∞ where the covariance does not reach the move."""
    if not move.any():
        return 0.0
    try:
        return float(move @ np.linalg.solve(covariance, move))
    except np.linalg.LinAlgError:
        return math.inf
