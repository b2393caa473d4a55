"""Gaussian noise: a field for finite laws, whose growth depends on the atoms near a point, and Gaussian laws.

Gaussian laws have closed forms (M15) in eigenvalues, each moved to its worse side by its computation error.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.calibration.exact.quadrature import LineField, Mixture, in_rows
from pufferflow.core.arrays import Floats, log_sum
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.gaussian_law import GaussianLaw
from pufferflow.noise.base import Noise
from pufferflow.noise.gaussian import Gaussian

_NEGLIGIBLE = 45.0
_END = 40.0


@final
class GaussianField(LineField):
    """Both densities, known around a point c by the atoms x weighted by w·ζ(c − x).

    E is the mean over atoms so weighted, and m = E x. Then p(c + ω) = p(c)·e^{−ω²/2 − ω·(c − m)}·E e^{ω·(x − m)}. The
    exponential before E is taken out of p^α q^{1−α} exactly. The last factor is between 2 − G and G in size, with G = E
    e^{|ω|·|x − m|}, and at least 1 for real ω.
    """

    def cells(self, alpha: float) -> tuple[list[Floats], list[Floats], list[Floats], float]:
        """Return a box outside of which f is negligible.

        By joint convexity f ≤ E ζ_x^α ζ_{x'}^{1−α} under the coupling that attains W_∞. That is a mixture of normal
        densities around αx − (α−1)x' = x + (α−1)(x − x'). Each has mass e^{α(α−1)|x − x'|²/2}.
        """
        mass = alpha * (alpha - 1) * self.reach**2 / 2
        width = math.sqrt(2 * (mass + _NEGLIGIBLE))
        low = self.p.atoms.min(axis=0) - (alpha - 1) * self.reach - width
        high = self.p.atoms.max(axis=0) + (alpha - 1) * self.reach + width
        halves = (high - low) / 2
        tail = math.log(2 * self.dimension) - _NEGLIGIBLE
        return (
            [np.array([x]) for x in low + halves],
            [np.array([x]) for x in halves],
            [np.array([x]) for x in 2 * halves],
            tail,
        )

    def horizon(self) -> tuple[float, float]:
        """Return a distance beyond which the mass is negligible; the ratio may be anything there."""
        return _END, math.inf

    def growth(self, centres: Floats, sizes: Floats, alpha: float) -> tuple[Floats, Floats, Floats]:
        log_p, mean_p, spread_p = _reweighted(self.p, centres, sizes)
        log_q, mean_q, spread_q = _reweighted(self.q, centres, sizes)
        pull = (np.abs(centres - alpha * mean_p + (alpha - 1) * mean_q) * sizes).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            shrink = np.where(
                spread_q < math.log(2),
                -np.log(np.maximum(2 - np.exp(np.minimum(spread_q, 1.0)), 0.0)),
                math.inf,
            )
        complex_gain = (sizes**2).sum(axis=1) / 2 + pull + alpha * spread_p + (alpha - 1) * shrink
        return alpha * log_p - (alpha - 1) * log_q, complex_gain, pull + alpha * spread_p

    def ratio(self, centres: Floats, sizes: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the log ratio: its slope is the difference of both means; Hoeffding bounds its curvature."""
        log_p, mean_p, spread_p = _reweighted(self.p, centres, sizes)
        log_q, mean_q, spread_q = _reweighted(self.q, centres, sizes)
        slope = (np.abs(mean_p - mean_q) * sizes).sum(axis=1)
        bend = (self.range * sizes[:, 0]) ** 2 / 8
        return log_p - log_q, slope + np.minimum(spread_q, bend), slope + np.minimum(spread_p, bend)

    def steepest(self, centres: Floats, sizes: Floats) -> Floats:
        """Return the farthest atom's distance times the step: the slope of log p is a mean of distances."""
        at, size = centres[:, 0], sizes[:, 0]
        return (np.maximum(np.abs(at - self.low[0]), np.abs(at - self.high[0])) + size) * size

    def blur(self, log_densities: Floats) -> Floats:
        """Return the effect of moving atoms by an ulp h: with L = −log p the change is at most h·√(2dL) + h²·d/2.

        For L moves no faster than the mean distance of the atoms so weighted. That distance's square has mean
        2L − d·log(2π) − 2·KL(reweighted ‖ weights) < 2L. So √L moves by no more than h·√(d/2).
        """
        ulp = 4 * UNIT * self.range
        far = np.sqrt(2 * self.dimension * np.maximum(-log_densities, 0.0))
        return ulp * far + ulp * ulp * self.dimension / 2


def _reweighted(mixture: Mixture, centres: Floats, sizes: Floats) -> tuple[Floats, Floats, Floats]:
    """Return log density, mean atom, and log E e^{Σ sizes·|x − mean|} over atoms weighted by w·ζ(centre − x)."""
    dimension = centres.shape[1]

    def block(rows: Floats) -> Floats:
        at, size = rows[:, :dimension], rows[:, dimension:]
        terms = mixture.log_terms(at)
        log = log_sum(terms)
        with np.errstate(under="ignore"):
            weights = np.exp(terms - log[:, None])
        mean = weights @ mixture.atoms
        under_model_error = np.abs(mixture.atoms[None, :, :] - mean[:, None, :]) * size[:, None, :]
        spread = (
            np.maximum(log_sum(terms - log[:, None] + under_model_error.sum(axis=-1)), 0.0) + 1e-13
        )
        return np.column_stack([log, mean, spread])

    columns = in_rows(np.column_stack([centres, sizes]), len(mixture.atoms) * dimension, block)
    return columns[:, 0], columns[:, 1 : 1 + dimension], columns[:, -1]


@final
@dataclass(frozen=True, eq=False)
class Spectrum:
    """A symmetric matrix, whose eigenvalues lie between `lower` and `upper`, computation errors included."""

    lower: Floats
    upper: Floats
    vectors: Floats

    def squared(self, move: Floats) -> float:
        """Return moveᵀ·matrix⁻¹·move, rounded up; ∞ where the matrix may not reach the move."""
        parts = np.abs(move @ self.vectors)
        parts = np.where(parts > 0, parts + 4 * len(move) * UNIT * float(np.linalg.norm(move)), 0.0)
        with np.errstate(divide="ignore", over="ignore"):
            terms = np.where(
                parts > 0,
                parts * parts / np.where(parts > 0, np.maximum(self.lower, 0.0), 1.0),
                0.0,
            )
        return float(terms.sum()) * (1 + 8 * len(move) * UNIT)

    def log_determinant(self) -> tuple[float, float]:
        """Return a lower and an upper bound on the log of the determinant."""
        with np.errstate(divide="ignore"):
            low, high = (
                float(np.log(np.maximum(side, 0.0)).sum()) for side in (self.lower, self.upper)
            )
        slack = (
            4
            * UNIT
            * (len(self.upper) + float(np.abs(np.log(np.maximum(self.upper, 1e-300))).sum()))
        )
        return low - slack, high + slack


def spectrum(matrix: Floats, size: float, floor: float = 0.0) -> Spectrum:
    """Return the eigenvalues of a matrix that is a sum of entries as large as `size`; none is below `floor`."""
    if np.array_equal(matrix, np.diag(np.diag(matrix))):
        values, vectors, error = (
            np.diag(matrix),
            np.eye(len(matrix)),
            4 * UNIT * np.abs(np.diag(matrix)),
        )
    else:
        values, vectors = np.linalg.eigh(matrix)
        error = np.full(
            len(values), 8 * len(matrix) * UNIT * max(size, float(np.abs(values).max()))
        )
    return Spectrum(np.maximum(values - error, floor), values + error, vectors)


def renyi(mu: GaussianLaw, nu: GaussianLaw, noise: Noise, alpha: float) -> float:
    """Return D_α of two Gaussian laws with Gaussian noise; ∞ unless αΣ_ν + (1−α)Σ_μ is surely positive definite."""
    move, first, second = _without_constants(mu, nu)
    variance = noise.scale**2
    if np.array_equal(first, second):
        return alpha / 2 * _spectrum_of(first, variance).squared(move) * (1 + 4 * UNIT)
    size = alpha * float(np.abs(second).max()) + (alpha - 1) * float(np.abs(first).max()) + variance
    mixed = spectrum(
        alpha * second + (1 - alpha) * first + variance * np.eye(len(move)), size * len(move)
    )
    if mixed.lower.min() <= 0:
        return math.inf
    least_mixed = mixed.log_determinant()[0]
    least, most = (
        _spectrum_of(first, variance).log_determinant()[0],
        _spectrum_of(second, variance).log_determinant()[1],
    )
    bent = (alpha * most - (alpha - 1) * least - least_mixed) / (2 * (alpha - 1))
    return max(alpha / 2 * mixed.squared(move) + bent, 0.0) * (1 + 8 * UNIT)


def hockey_stick(mu: GaussianLaw, nu: GaussianLaw, noise: Noise, epsilon: float) -> float:
    """Return δ(ε) of a translation, or of any two normal laws on R."""
    move, first, second = _without_constants(mu, nu)
    variance = noise.scale**2
    if np.array_equal(first, second):
        length = math.sqrt(_spectrum_of(first, variance).squared(move)) * (1 + UNIT)
        return Gaussian(1.0).delta(length, epsilon) if length < math.inf else 1.0
    return _of_normals(
        float(move[0]), float(first[0, 0]) + variance, float(second[0, 0]) + variance, epsilon
    )


def _without_constants(mu: GaussianLaw, nu: GaussianLaw) -> tuple[Floats, Floats, Floats]:
    """Return the move and both covariances without coordinates that are one constant under both laws."""
    move = mu.mean - nu.mean
    varying = (move != 0) | mu.covariance.any(axis=1) | nu.covariance.any(axis=1)
    varying[0] |= not varying.any()
    return (
        move[varying],
        mu.covariance[np.ix_(varying, varying)],
        nu.covariance[np.ix_(varying, varying)],
    )


def _spectrum_of(covariance: Floats, variance: float) -> Spectrum:
    """Return the spectrum of covariance + variance·1, which has no eigenvalue below the variance."""
    size = float(np.abs(covariance).max()) + variance
    return spectrum(covariance + variance * np.eye(len(covariance)), size, variance * (1 - UNIT))


def _of_normals(move: float, first: float, second: float, epsilon: float) -> float:
    """Return δ(ε) of N(move, first) and N(0, second), first ≠ second, rounded up.

    log(p/q) is a quadratic, so it is above ε between its two roots or outside of them. The set is taken for a slightly
    smaller ε, and its probabilities for one smaller still: then rounding of the roots can only add.
    """
    if min(first, second) == 0:
        return 1.0
    # in units of q: p = N(m, v), q = N(0, 1), and 2·log(p/q) = bend·y² + 2·lean·y − m²/v − log(v)
    m, v = move / math.sqrt(second), first / second
    hair = 256 * UNIT * (1 + epsilon + abs(math.log(v)) + (1 + abs(m)) ** 2 * (1 + 1 / v))
    bend, lean, rest = (
        (first - second) / first,
        m / v,
        m * m / v + math.log(v) + 2 * (epsilon - hair),
    )
    inner = lean * lean + bend * rest
    if inner <= 0:
        return (
            0.0 if bend < 0 else 1.0
        )  # the parabola stays on one side; above ε everywhere it cannot be
    turn = -(lean + math.copysign(math.sqrt(inner), lean))
    low, high = sorted((turn / bend, -rest / turn))
    spread, normal = math.sqrt(v), Gaussian(1.0)
    if bend < 0:
        p, q = _between((low - m) / spread, (high - m) / spread), _between(low, high)
    else:
        p = normal.tail((m - low) / spread) + normal.tail((high - m) / spread)
        q = normal.tail(-low) + normal.tail(high)
    error = 1e-13 * (p + math.exp(min(epsilon, 700.0)) * q)
    return min(max(p - math.exp(min(epsilon - 2 * hair, 700.0)) * q, 0.0) + error + 1e-300, 1.0)


def _between(low: float, high: float) -> float:
    """Return P(low < N(0,1) < high)."""
    if low < 0 < high:
        return (math.erf(-low / math.sqrt(2)) + math.erf(high / math.sqrt(2))) / 2
    normal = Gaussian(1.0)
    return abs(normal.tail(min(abs(low), abs(high))) - normal.tail(max(abs(low), abs(high))))
