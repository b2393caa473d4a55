"""Two Gaussian laws on R^d: closed forms.

With one covariance the laws are translates, and the translation is the best coupling for every W_p (Jensen) and W_∞.
With two, every coupling moves mass arbitrarily far: W_∞ = ∞.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from pufferflow.errors import Refused
from pufferflow.law import GaussianLaw
from pufferflow.rounding import UNIT, upwards
from pufferflow.transport.distance import AffineCoupling, Certainty, Distance

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
_ERROR = 64 * UNIT
"""Relative error of a closed form made of a few well-conditioned steps, times d."""
_REGULAR = 1e10
_FAR = 1e3
_WIDEST = 300.0
_BY_W2 = "a bound by the Euclidean W_2 coupling; only p=2 with norm=2 has a closed form for different covariances"


def winf(mu: GaussianLaw, nu: GaussianLaw, norm: float, *, coupling: bool = False) -> Distance:
    """Return ‖m₁ − m₂‖ if the covariances are equal, ∞ otherwise."""
    if not np.array_equal(mu.covariance, nu.covariance):
        apart = float(np.abs(mu.covariance - nu.covariance).max() / np.abs([mu.covariance, nu.covariance]).max())
        note = f"the covariances differ (by {apart:.1g} of the largest entry), so mass has to move arbitrarily far"
        return Distance(math.inf, Certainty.EXACT, note=note)
    return _translation(mu, nu, norm, coupling=coupling)


def wasserstein(mu: GaussianLaw, nu: GaussianLaw, p: float, norm: float, *, coupling: bool = False) -> Distance:
    """Return W_p: exact for equal covariances, on R, and for p=2 with the Euclidean norm; a bound elsewhere.

    The bound is by the Euclidean W_2 coupling, whose step X − Y is Gaussian.
    """
    if np.array_equal(mu.covariance, nu.covariance):
        return _translation(mu, nu, norm, coupling=coupling)
    found = _straightest(mu, nu) if coupling else None
    step, d = mu.mean - nu.mean, mu.dimension
    if d == 1:
        value = _absolute_moment(abs(float(step[0])), _deviation_on_a_line(mu, nu), p)
        return Distance(upwards(value, _ERROR * (1 + p)), Certainty.EXACT, coupling=found)
    if p <= 2 and norm == 2:
        root = _root(mu.covariance)
        cross = float(np.sqrt(np.maximum(np.linalg.eigvalsh(root @ nu.covariance @ root), 0.0)).sum())
        apart = float(np.trace(mu.covariance) + np.trace(nu.covariance))
        value = math.sqrt(float(step @ step) + max(apart - 2 * cross, 0.0) + _ERROR * d * apart)
        exact = p == 2
        note = "" if exact else "the Euclidean W_2, which no smaller p exceeds"
        return Distance(upwards(value, _ERROR * d), _certainty(exact=exact), note=note, coupling=found)
    radius = math.sqrt(2) * math.exp(float(special.gammaln((d + p) / 2) - special.gammaln(d / 2)) / p)
    value = float(np.linalg.norm(step, norm)) + _from_euclidean(d, norm) * _largest_deviation(mu, nu) * radius
    return Distance(upwards(value, _ERROR * (d + p)), Certainty.UPPER_BOUND, note=_BY_W2, coupling=found)


def near(mu: GaussianLaw, nu: GaussianLaw, delta: float, norm: float) -> Distance:
    """Return the smallest z with (z, δ)-nearness (M4).

    For equal covariances: move by u, ‖u‖ ≤ z, then couple maximally; N(0,C) and N(v,C) overlap in all but
    2Φ(‖v‖_C/2)−1, and half-spaces show that nothing does better. So z = min ‖u‖ with ‖m₁−m₂−u‖_C ≤ 2Φ⁻¹((1+δ)/2).
    For different covariances: a bound by the Euclidean W_2 coupling.
    """
    if delta == 0:
        return winf(mu, nu, norm)
    if not np.array_equal(mu.covariance, nu.covariance):
        reach = math.sqrt(float(special.chdtri(mu.dimension, delta))) * _largest_deviation(mu, nu)
        value = float(np.linalg.norm(mu.mean - nu.mean, norm)) + _from_euclidean(mu.dimension, norm) * reach
        return Distance(upwards(value, _ERROR * mu.dimension), Certainty.UPPER_BOUND, note=_BY_W2)
    step, covariance = mu.mean - nu.mean, mu.covariance
    reach = 2 * math.sqrt(2) * float(special.erfinv(delta)) * (1 - _ERROR)
    if norm == 2:
        return Distance(upwards(_shortest(step, covariance, reach), _ERROR * mu.dimension), Certainty.EXACT)
    variances, parts = _principal(step, covariance)
    lost = bool(parts[variances == 0].any())
    along = math.inf if lost else math.sqrt(float((parts**2 / np.where(variances > 0, variances, 1.0)).sum()))
    rest = max(0.0, 1 - reach / along) if along > 0 else 0.0
    value = upwards(rest * float(np.linalg.norm(step, norm)), _ERROR * mu.dimension)
    exact = mu.dimension == 1 or rest == 0
    note = "" if exact else "a bound by moving straight towards the other mean; norm=2 is exact"
    return Distance(value, _certainty(exact=exact), note=note)


def _translation(mu: GaussianLaw, nu: GaussianLaw, norm: float, *, coupling: bool) -> Distance:
    step = np.abs(mu.mean - nu.mean)
    value = float(np.linalg.norm(step, norm))
    rounded = (
        value if mu.dimension == 1 and bool((step == np.rint(step)).all()) else upwards(value, _ERROR * mu.dimension)
    )
    return Distance(
        rounded,
        Certainty.EXACT,
        coupling=AffineCoupling(mu, nu, np.eye(mu.dimension)) if coupling else None,
    )


def _straightest(mu: GaussianLaw, nu: GaussianLaw) -> AffineCoupling:
    """Return the Euclidean W_2 coupling, a linear map if the first covariance is regular."""
    root = _root(mu.covariance)
    if np.linalg.matrix_rank(root, hermitian=True) < mu.dimension:
        raise Refused(
            "The first covariance is singular, so the coupling is no map of X.",
            allowed="coupling=True where the first covariance is regular",
            instead="exchanging the two laws",
        )
    inverse = np.linalg.inv(root)
    return AffineCoupling(mu, nu, inverse @ _root(root @ nu.covariance @ root) @ inverse)


def _largest_deviation(mu: GaussianLaw, nu: GaussianLaw) -> float:
    """Return the largest standard deviation of the step X − Y in any direction, for a good coupling."""
    if mu.dimension == 1:
        return _deviation_on_a_line(mu, nu)
    variances = [float(np.linalg.eigvalsh(mu.covariance + nu.covariance)[-1])]  # independent X and Y
    for first, second in ((mu, nu), (nu, mu)):
        if np.linalg.cond(first.covariance) < _REGULAR:
            away = np.eye(mu.dimension) - _straightest(first, second).matrix
            variances.append(float(np.linalg.eigvalsh(away @ first.covariance @ away.T)[-1]))
    return upwards(math.sqrt(max(min(variances), 0.0)), _ERROR * mu.dimension * _REGULAR**0.5)


def _deviation_on_a_line(mu: GaussianLaw, nu: GaussianLaw) -> float:
    return abs(math.sqrt(mu.covariance[0, 0]) - math.sqrt(nu.covariance[0, 0]))


def _root(matrix: Matrix) -> Matrix:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def _from_euclidean(dimension: int, norm: float) -> float:
    """Return the largest ratio of a norm to the Euclidean one."""
    return math.sqrt(dimension) if norm == 1 else 1.0


def _absolute_moment(mean: float, deviation: float, p: float) -> float:
    """Return (E|N(mean, deviation²)|^p)^(1/p), by Kummer's function."""
    central = deviation * math.sqrt(2) * math.exp((float(special.gammaln((p + 1) / 2)) - math.log(math.pi) / 2) / p)
    if deviation == 0 or mean / deviation > _FAR:
        return mean + central  # Minkowski's inequality: above the moment, by less than the deviation
    kummer = float(special.hyp1f1(-p / 2, 0.5, -((mean / deviation) ** 2) / 2))
    return central * kummer ** (1 / p)


def _principal(step: Vector, covariance: Matrix) -> tuple[Vector, Vector]:
    """Return the principal variances and the step in their directions; variances that are rounding count as 0."""
    values, vectors = np.linalg.eigh(covariance)
    parts: Vector = vectors.T @ step
    negligible = 4 * len(step) * UNIT
    parts = np.where(np.abs(parts) <= negligible * np.linalg.norm(step), 0.0, parts)
    return np.where(values <= negligible * max(float(values[-1]), 0.0), 0.0, values), parts


def _shortest(step: Vector, covariance: Matrix, reach: float) -> float:
    """Return min ‖u‖₂ with ‖step − u‖_C ≤ reach: in principal directions u = step·κ/(λ + κ), for one multiplier κ."""
    variances, parts = _principal(step, covariance)
    fixed = variances == 0
    if reach == 0:
        return float(np.linalg.norm(step))
    if not (parts[~fixed] ** 2 / variances[~fixed]).sum() > reach**2:
        return float(np.linalg.norm(parts[fixed]))
    scale = float(variances[-1])

    def excess(log_kappa: float) -> float:
        kappa = scale * math.exp(log_kappa)
        return math.sqrt(float((parts**2 * variances / (variances + kappa) ** 2).sum())) - reach

    low = high = 0.0
    while excess(low) < 0 and low > -_WIDEST:
        low -= 4
    while excess(high) > 0 and high < _WIDEST:
        high += 4
    kappa = scale * math.exp(float(optimize.brentq(excess, low, high, xtol=1e-13)) + 1e-12)
    return float(np.linalg.norm(parts * kappa / (variances + kappa)))


def _certainty(*, exact: bool) -> Certainty:
    return Certainty.EXACT if exact else Certainty.UPPER_BOUND
