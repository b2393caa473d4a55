"""Two Gaussian laws on R^d: closed forms.

With one covariance the laws are translates, and the translation is the best coupling for every W_p (Jensen) and W_∞.
With two, every coupling moves mass arbitrarily far: W_∞ = ∞.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import scipy  # imports its parts when first used

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import SMALLEST, UNIT, upwards
from pufferflow.distributions import common_units
from pufferflow.distributions.coupling import AffineCoupling, Certainty, Distance
from pufferflow.distributions.gaussian_law import GaussianLaw

_ERROR = 64 * UNIT
"""Relative error of a closed form made of a few well-conditioned steps, times d."""
_MAPPABLE = 1e8
_FAR = 1e3
_HIGH = 1e4
_AGREEMENT = 1e-9
_WIDEST = 300.0
_NEARLY_SINGULAR = "an upper bound: a covariance is so close to singular that rounding decides"
_FAR_APART = "an upper bound by hypercontractivity; floats cannot hold the exact moment"
_BY_W2 = "an upper bound by the Euclidean W_2 coupling; only p=2, norm=2 has a closed form for different covariances"


def winf(
    mu: GaussianLaw, nu: GaussianLaw, norm: float, *, coupling: bool = False
) -> Distance[AffineCoupling]:
    """Return ‖m₁ − m₂‖ if the covariances are equal, ∞ otherwise."""
    if not np.array_equal(mu.covariance, nu.covariance):
        largest = float(max(np.abs(mu.covariance).max(), np.abs(nu.covariance).max()))
        difference = float(np.abs(mu.covariance / largest - nu.covariance / largest).max())
        note = f"the covariances differ (by {difference:.1g} of the largest entry), so mass has to move arbitrarily far"
        return Distance(math.inf, Certainty.EXACT, note=note)
    return _translation(mu, nu, norm, coupling=coupling)


def wasserstein(
    mu: GaussianLaw, nu: GaussianLaw, p: float, norm: float, *, coupling: bool = False
) -> Distance[AffineCoupling]:
    """Return W_p: exact for equal covariances, on R, and for p=2 with the Euclidean norm; a bound elsewhere.

    The bound is by the Euclidean W_2 coupling, whose step X − Y is Gaussian.
    """
    if np.array_equal(mu.covariance, nu.covariance):
        return _translation(mu, nu, norm, coupling=coupling)
    distance = _rescale(mu, nu, lambda a, b: _wasserstein(a, b, p, norm))
    if not coupling:
        return distance
    return Distance(
        float(distance),
        distance.certainty,
        note=distance.note,
        coupling=AffineCoupling(mu, nu, _monge_map(mu, nu)),
    )


def _wasserstein(
    mu: GaussianLaw, nu: GaussianLaw, p: float, norm: float
) -> Distance[AffineCoupling]:
    step, d = mu.mean - nu.mean, mu.dimension
    if d == 1:
        least, value = _absolute_moment(abs(float(step[0])), _deviation_on_a_line(mu, nu), p)
        return _from_bounds(least, upwards(value, _ERROR), _FAR_APART)
    if p <= 2 and norm == 2:
        least, value = _bures(mu, nu)
        if p == 2:
            return _from_bounds(least, value, _NEARLY_SINGULAR)
        return Distance(
            value,
            Certainty.UPPER_BOUND,
            note="an upper bound: W_2, which is at least W_p for smaller p",
        )
    radius = math.sqrt(2) * math.exp(
        float(scipy.special.gammaln((d + p) / 2) - scipy.special.gammaln(d / 2)) / p
    )
    value = length(step, norm) + _norm_ratio(d, norm) * _largest_deviation(mu, nu) * radius
    return Distance(upwards(value, _ERROR * d), Certainty.UPPER_BOUND, note=_BY_W2)


def _rescale(
    mu: GaussianLaw,
    nu: GaussianLaw,
    distance: Callable[[GaussianLaw, GaussianLaw], Distance[AffineCoupling]],
) -> Distance[AffineCoupling]:
    """Return a distance of laws of any size, computed between laws about 0 whose numbers are about 1."""
    with np.errstate(over="ignore", under="ignore"):
        step = mu.mean - nu.mean
        if not np.isfinite(step).all():
            return Distance(
                math.inf, Certainty.UPPER_BOUND, note="a movement is too long for a float"
            )
        widest = max(float(np.abs(law.covariance).max()) for law in (mu, nu))
        _, exponent = math.frexp(max(float(np.abs(step).max()), math.sqrt(widest)))
        scaled = [
            GaussianLaw(np.ldexp(mean, -exponent), np.ldexp(covariance, -2 * exponent))
            for mean, covariance in ((step, mu.covariance), (0 * step, nu.covariance))
        ]
        result = distance(*scaled)
        value = float(np.ldexp(upwards(float(result)), exponent)) + (SMALLEST if result else 0.0)
    return Distance(
        value, result.certainty if value < math.inf else Certainty.UPPER_BOUND, note=result.note
    )


def _from_bounds(least: float, most: float, note: str) -> Distance[AffineCoupling]:
    exact = most < math.inf and most <= least * (1 + _AGREEMENT)
    return Distance(most, _certainty(exact=exact), note="" if exact else note)


def near(mu: GaussianLaw, nu: GaussianLaw, delta: float, norm: float) -> Distance[AffineCoupling]:
    """Return the smallest z with (z, δ)-nearness (M4).

    For equal covariances: move by u, ‖u‖ ≤ z, then couple maximally. N(0,C) and N(v,C) overlap in all but
    2Φ(‖v‖_C/2)−1, and half-spaces show that no coupling does better. So z = min ‖u‖ with ‖m₁−m₂−u‖_C ≤ 2Φ⁻¹((1+δ)/2).
    For different covariances: a bound by the Euclidean W_2 coupling.
    """
    if delta == 0:
        return winf(mu, nu, norm)
    return _rescale(mu, nu, lambda a, b: _near(a, b, delta, norm))


def _near(mu: GaussianLaw, nu: GaussianLaw, delta: float, norm: float) -> Distance[AffineCoupling]:
    step, d = mu.mean - nu.mean, mu.dimension
    if not np.array_equal(mu.covariance, nu.covariance):
        reach = math.sqrt(float(scipy.special.chdtri(d, delta))) * _largest_deviation(mu, nu)
        value = length(step, norm) + _norm_ratio(d, norm) * reach
        note = "an upper bound by the Euclidean W_2 coupling; nearness has a closed form for equal covariances only"
        return Distance(upwards(value, _ERROR * d), Certainty.UPPER_BOUND, note=note)
    reach = 2 * math.sqrt(2) * float(scipy.special.erfinv(delta)) * (1 - _ERROR)
    bounds = [_nearness(step, mu.covariance, reach, norm, sign) for sign in (1, -1)]
    least, value = (upwards(bound, _ERROR * d) for bound in bounds)
    if norm != 2 and d > 1 and value > 0:
        note = "a bound by moving straight towards the other mean; norm=2 is exact"
        return Distance(value, Certainty.UPPER_BOUND, note=note)
    return _from_bounds(least, value, _NEARLY_SINGULAR)


def _nearness(step: Floats, covariance: Floats, reach: float, norm: float, sign: int) -> float:
    """Return the least move into reach, with every principal variance raised or lowered by its error."""
    values, vectors = np.linalg.eigh(covariance)
    diagonal = np.array_equal(covariance, np.diag(np.diag(covariance)))
    error = 0.0 if diagonal else _ERROR * len(step) * max(float(values[-1]), 0.0)
    variances, parts = np.maximum(values + sign * error, 0.0), vectors.T @ step
    if norm == 2:
        return _shortest(variances, parts, reach)
    spread = variances > 0
    along = (
        math.inf if parts[~spread].any() else length(parts[spread] / np.sqrt(variances[spread]), 2)
    )
    return max(0.0, 1 - reach / along) * length(step, norm) if along > 0 else 0.0


def length(step: Floats, norm: float) -> float:
    """Return the norm of one vector."""
    return float(common_units.norms(step, norm)) if len(step) else 0.0


def _translation(
    mu: GaussianLaw, nu: GaussianLaw, norm: float, *, coupling: bool
) -> Distance[AffineCoupling]:
    step = np.abs(common_units.difference(mu.mean, nu.mean))
    value = common_units.length_above([Fraction(x) for x in step.tolist()], norm)
    return Distance(
        value,
        _certainty(exact=value < math.inf),
        coupling=AffineCoupling(mu, nu, np.eye(mu.dimension)) if coupling else None,
    )


def _bures(mu: GaussianLaw, nu: GaussianLaw) -> tuple[float, float]:
    """Return bounds of the Euclidean W_2: √(‖step‖² + tr C₁ + tr C₂ − 2 tr (√C₁ C₂ √C₁)^½).

    The root of a rounding error is much larger than the error, so eigenvalues are used with their errors.
    """
    d = mu.dimension
    scale = max(float(np.abs(law.covariance).max()) for law in (mu, nu))
    first, second = mu.covariance / scale, nu.covariance / scale
    root = _root(first)
    eigenvalues = np.maximum(np.linalg.eigvalsh(root @ second @ root), 0.0)
    error = _ERROR * d * d
    traces = float(np.trace(first) + np.trace(second))
    bounds: list[float] = []
    for sign in (1, -1):
        cross = float(np.sqrt(np.maximum(eigenvalues + sign * error, 0.0)).sum())
        spread = math.sqrt(max(traces - 2 * cross - sign * error * traces, 0.0)) * math.sqrt(scale)
        bounds.append(length(np.array([length(mu.mean - nu.mean, 2), spread]), 2))
    return bounds[0], upwards(bounds[1], error)


def _monge_map(mu: GaussianLaw, nu: GaussianLaw) -> Floats:
    """Return the Euclidean W_2 coupling, a linear map if the first covariance is regular."""
    scale = max(float(np.abs(law.covariance).max()) for law in (mu, nu))
    first, second = mu.covariance / scale, nu.covariance / scale
    if not np.linalg.cond(first) < _MAPPABLE:
        raise Refused(
            "The first covariance is singular or nearly so, so floats cannot represent the coupling as a map of X.",
            allowed="coupling=True where the first covariance is regular",
            instead="exchanging the two laws",
        )
    root = _root(first)
    inverse = np.linalg.inv(root)
    return inverse @ _root(root @ second @ root) @ inverse


def _largest_deviation(mu: GaussianLaw, nu: GaussianLaw) -> float:
    """Return a bound of the standard deviation of the step X − Y in any direction, for a good coupling."""
    if mu.dimension == 1:
        return _deviation_on_a_line(mu, nu)
    centred = (GaussianLaw(np.zeros(mu.dimension), law.covariance) for law in (mu, nu))
    coupled = _bures(*centred)[1]  # no direction varies more than all together
    independent = math.sqrt(
        float(np.linalg.eigvalsh(mu.covariance + nu.covariance)[-1])
    )  # X and Y independent
    return upwards(min(coupled, independent), _ERROR * mu.dimension)


def _deviation_on_a_line(mu: GaussianLaw, nu: GaussianLaw) -> float:
    """Return |σ₁ − σ₂|, without cancellation."""
    first, second = float(mu.covariance[0, 0]), float(nu.covariance[0, 0])
    return abs(first - second) / ((math.sqrt(first) + math.sqrt(second)) or 1.0)


def _root(matrix: Floats) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def _norm_ratio(dimension: int, norm: float) -> float:
    """Return the largest ratio of a norm to the Euclidean one."""
    return math.sqrt(dimension) if norm == 1 else 1.0


def _absolute_moment(mean: float, deviation: float, p: float) -> tuple[float, float]:
    """Return bounds of (E|N(mean, deviation²)|^p)^(1/p), which meet where Kummer's function can be evaluated.

    Elsewhere the lower bound is the mean (and the moment of p=2 for p ≥ 2). The upper bound is Minkowski's and, for p ≥
    2, that of hypercontractivity: ‖m + sZ‖_p ≤ √(m² + (p−1)s²).
    """
    log_central = float(scipy.special.gammaln((p + 1) / 2)) - math.log(math.pi) / 2
    central = deviation * math.sqrt(2) * math.exp(min(log_central / p, 700.0))
    if 0 < mean <= _FAR * deviation and p <= _HIGH:
        kummer = float(scipy.special.hyp1f1(-p / 2, 0.5, -((mean / deviation) ** 2) / 2))
        if 1 <= kummer < math.inf:
            value = central * kummer ** (1 / p)
            return value, value * (1 + _ERROR)
    if mean == 0:
        return central, central * (1 + _ERROR)
    least = math.hypot(mean, deviation) if p >= 2 else mean
    most = math.hypot(mean, math.sqrt(max(p, 2) - 1) * deviation)
    return least, min(mean + central, most)


def _shortest(variances: Floats, parts: Floats, reach: float) -> float:
    """Return min ‖u‖₂ with ‖step − u‖_C ≤ reach: in principal directions u = step·κ/(λ + κ), for one multiplier κ."""
    fixed = variances == 0
    whole = length(parts, 2)
    if reach == 0 or whole == 0:
        return whole
    with np.errstate(over="ignore"):
        if length(parts[~fixed] / np.sqrt(variances[~fixed]), 2) <= reach:
            return length(parts[fixed], 2)
    scale = float(variances.max())

    def excess(log_kappa: float) -> float:
        shares = np.sqrt(variances / scale) / (variances / scale + math.exp(log_kappa))
        return length(parts / math.sqrt(scale) * shares, 2) - reach

    low = high = 0.0
    while excess(low) < 0 and low > -_WIDEST:
        low -= 4
    while excess(high) > 0 and high < _WIDEST:
        high += 4
    if excess(high) > 0:
        return whole  # κ is beyond floats: u is the whole step to the last digit
    kappa = math.exp(float(scipy.optimize.brentq(excess, low, high, xtol=1e-13)) + 1e-12)
    return length(parts * kappa / (variances / scale + kappa), 2)


def _certainty(*, exact: bool) -> Certainty:
    return Certainty.EXACT if exact else Certainty.UPPER_BOUND
