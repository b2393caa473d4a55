"""Generalized Cauchy noise: heavy tails, for laws whose outliers lie far away (M11).

Its Rényi moment is E = exp((α−1)·D_α) at a shift of u scales; `log_moment` is never below its logarithm. Let m =
k(α−1)/2 and w = u². Then E = β_k ∫ (1 + w cos²t − 2√w sin t cos t)^m cos^{k−2}t dt over (−π/2, π/2). For whole m it is
a polynomial in w with positive coefficients.

For other m put τ = 2·asinh(u/2). Then the base is cosh τ + sinh τ·cos(2t + φ), and T = tan(t + φ/2) makes the integral

    E = β_k ∫ h(T)^m · |c + sT|^{k−2} · (1 + T²)^{−k/2} dT,    h(T) = (e^τ + e^{−τ}T²)/(1 + T²),

with c = (1 + e^{−τ})^{−1/2} and s = e^{−τ/2}·c. Its special points are T = 0, T = ∞ and T = −e^{τ/2}. Between each two
of them an exponential substitution gives an integrand that is analytic in the strip |Im| < π/2 for every u. So the
trapezoid rule converges geometrically, at a rate that does not depend on u. Its error is known. Let C =
cos(a)^{−m−k/2}·cos(a/2)^{−2m−k−4}. In the strip |Im| ≤ a the integrand is at most C times its value on the real line.
So the sum with step q is off by at most 2C/(e^{2πa/q} − 1) of the integral.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import scipy  # imports its parts when first used

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import SMALLEST, UNIT, lifted
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import number_above
from pufferflow.noise.base import Family, Noise, read_radius, read_scale

_REACH = 44.0
_LONGEST = 4000.0
_CELLS = 2_000_000
_ALMOST = 1e-13
_LARGEST_EXPONENT = 700.0
_FAR = 1e100
_MOST_TERMS = 1e6
_LEAST_DRAWN = 1.1


@final
@suggests_arguments
@dataclass(frozen=True)
class GeneralizedCauchy(Noise):
    """Generalized Cauchy noise with density ∝ (1 + (x/scale)²)^(−k/2), k > 1; Cauchy's own law for k = 2 (M11).

    It is scale/√(k−1) times Student's t with k − 1 degrees of freedom. Its pure loss, k·asinh(z/(2·scale)), grows only
    logarithmically with the shift, so with `pf.DAGWM` far but rare movements cost little. The price is its tail: there
    is no expected error for k ≤ 2 and no variance for k ≤ 3 (both are then infinite; use `interval` instead).

    >>> noise = GeneralizedCauchy(1.0, k=4)
    >>> round(noise.renyi(1.0, alpha=2), 6), round(noise.expected_error, 6), round(noise.variance, 6)
    (1.287854, 0.63662, 1.0)
    >>> GeneralizedCauchy(1.0).variance
    inf
    """

    norm: ClassVar[float] = 2.0

    scale: float
    k: float = 2.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", read_scale(self.scale))
        object.__setattr__(self, "k", number_above(self.k, "k", 1.0, "k=2"))

    @classmethod
    def of(cls, k: float) -> Family:
        """Return the family with this k, for `pf.calibrate`.

        >>> GeneralizedCauchy.of(k=4)(2.0)
        GeneralizedCauchy(scale=2.0, k=4.0)
        """
        return cls(0.0, k).at

    def renyi_within(self, radius: float, alpha: float, dimension: int = 1) -> float:
        """Return d·D_α(radius/√d): for even k and integer m the loss is concave in the squared shift (M11)."""
        radius = read_radius(radius)
        if dimension == 1:
            return self.renyi(radius, alpha)
        m = self.k * (alpha - 1) / 2
        if self.k % 2 or m % 1:
            raise Refused(
                f"Generalized Cauchy noise with k={self.k:g} and order {alpha:g} for an answer of {dimension} "
                "coordinates: the worst shift of given length is not known.",
                allowed="even k, and k·(alpha − 1)/2 a whole number",
                instead="bound=pf.DAGWM(), which works coordinate by coordinate, or k=2 with a whole alpha",
            )
        return (
            dimension
            * self.renyi(radius / math.sqrt(dimension) * (1 + 2 * UNIT), alpha)
            * (1 + UNIT)
        )

    def pure_within(self, radius: float, dimension: int = 1) -> float:
        """Return d·D_∞(radius/√d): asinh(√w/2) is concave in w, so equal movements cost most."""
        radius = read_radius(radius)
        if dimension == 1:
            return self.pure(radius)
        return dimension * self.pure(radius / math.sqrt(dimension) * (1 + 2 * UNIT)) * (1 + UNIT)

    def convex(self, alpha: float) -> bool:
        """Return whether k(α−1) ≥ 1: E grows like u^{k(α−1)} (M5)."""
        return self.k * (alpha - 1) >= 1

    def _renyi(self, units: Floats, alpha: float) -> Floats:
        """Return log E(u²)/(α−1), at most the pure loss."""
        m = self.k * (alpha - 1) / 2
        if m > _MOST_TERMS:
            return self._pure(units)
        logs = np.maximum(log_moment(units, self.k, m), SMALLEST)
        return np.minimum(lifted(logs / (alpha - 1), 2 * UNIT), self._pure(units))

    def check_drawable(self) -> None:
        """Refuse to draw where many draws would overflow: for k = 1.001 half of them do."""
        if self.k < _LEAST_DRAWN:
            raise Refused(
                f"Draws of generalized Cauchy noise with k={self.k:g} mostly lie beyond the largest float.",
                allowed=f"k >= {_LEAST_DRAWN}",
                instead="pf.GeneralizedCauchy(scale, k=2)",
            )

    def _pure(self, units: Floats) -> Floats:
        return lifted(self.k * np.arcsinh(units / 2), 4 * UNIT)

    def _delta(self, units: Floats, epsilon: float) -> Floats:
        """Return P(S) − e^ε Q(S) on the set S where the density ratio is above e^ε, an interval found by a quadratic.

        S is (1 + y²) ≥ c·(1 + (y−u)²) with c = e^{2ε/k}. For c = 1 that is the half line y ≥ u/2. Otherwise y lies
        between (cu ± √(cu² − (c−1)²))/(c−1). S is empty unless u ≥ 2·sinh(ε/k), which is M11's D_∞. The set is taken
        for a slightly smaller ε, and its probabilities for a smaller one still: then rounding of its ends can only add.
        """
        hair = 8 * UNIT * (1 + epsilon)
        loss, epsilon = epsilon, max(epsilon - hair, 0.0)
        rise = math.expm1(min(2 * epsilon / self.k, _LARGEST_EXPONENT))
        if 2 * epsilon / self.k > _LARGEST_EXPONENT:
            return np.where(self._pure(units) > loss, 1.0, 0.0)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if rise == 0:
                low, high = units / 2, np.full(units.shape, math.inf)
                low_p, high_p = -low, high
            else:
                # c·u² − rise² as a product, so that it does not cancel near the edge of S
                edge = rise / math.sqrt(1 + rise)
                root = np.sqrt((1 + rise) * np.maximum((units - edge) * (units + edge), 0.0))
                far = (1 + rise) * units + root
                low, high = (rise + (1 + rise) * units * units) / far, far / rise
                # the same ends around the other centre, without subtracting u
                low_p, high_p = -(units * units - rise) / (units + root), (units + root) / rise
        p, p_error = self._between(low_p, high_p)
        q, q_error = self._between(low, high)
        factor = math.exp(epsilon - hair)
        delta = np.maximum(p - factor * q, 0.0) + p_error + factor * q_error
        delta = np.where(units < _FAR, delta, 1.0)  # squares overflow
        return np.where(self._pure(units) > loss, delta, 0.0)

    def _between(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return P(low < noise < high) from the middle or from the tails, and its error."""
        above, below = self._tail(np.abs(low)), self._tail(np.abs(high))
        straddling = (low < 0) & (high > 0)
        between = np.where(
            straddling, self._core(np.abs(low)) + self._core(np.abs(high)), np.abs(above - below)
        )
        return between, _ALMOST * (between + np.where(straddling, 0.0, np.maximum(above, below)))

    def _core(self, units: Floats) -> Floats:
        """Return P(0 < noise < u), with full relative accuracy for small u."""
        square = np.minimum(units, 1.0) ** 2
        close = scipy.special.betainc(0.5, (self.k - 1) / 2, square / (1 + square)) / 2
        return np.where(units < 1, close, 0.5 - self._tail(units))

    def _logpdf(self, units: Floats) -> Floats:
        with np.errstate(over="ignore"):
            size = np.where(
                np.abs(units) < 1e100,
                np.log1p(units * units),
                2 * np.log(np.maximum(np.abs(units), 1.0)),
            )
        return -self.k / 2 * size + log_constant(self.k)

    def _tail(self, units: Floats) -> Floats:
        """Return half of the regularised incomplete beta function, from the end where it does not cancel."""
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            square = units * units
            out = scipy.special.betainc((self.k - 1) / 2, 0.5, 1 / (1 + square)) / 2
            close = scipy.special.betaincc(0.5, (self.k - 1) / 2, square / (1 + square)) / 2
            tails = np.where(square > 1, out, close)
            # squares that leave the floats: the tail is its leading term, (2/(k−1))·x^(1−k)·(β_k/2), to 1e−200
            leading = np.exp(log_constant(self.k) - (self.k - 1) * np.log(np.maximum(units, 1.0)))
        return np.where(units > 1e100, leading / (self.k - 1), tails)

    def _reach(self, tails: Floats) -> Floats:
        """Return the quantile of Student's t, or that of the tail's leading term far out."""
        with np.errstate(over="ignore", divide="ignore"):
            inside = -scipy.special.stdtrit(self.k - 1, np.maximum(tails, 1e-250)) / math.sqrt(
                self.k - 1
            )
            leading = np.exp(
                (log_constant(self.k) - math.log(self.k - 1) - np.log(tails)) / (self.k - 1)
            )
        return np.where((inside < 1e8) & np.isfinite(inside), np.maximum(inside, 0.0), leading)

    def steepness(self, units: float) -> float:
        return self.k / 2

    def precise_tail(self, units: Any, mp: Any) -> Any:
        half = mp.mpf(1) / 2
        power = (mp.mpf(self.k) - 1) / 2
        if units * units > 1:
            return mp.betainc(power, half, 0, 1 / (1 + units * units), regularized=True) / 2
        return (
            half
            - mp.betainc(half, power, 0, units * units / (1 + units * units), regularized=True) / 2
        )

    def _mean_size(self) -> float:
        return 2 * math.exp(log_constant(self.k)) / (self.k - 2) if self.k > 2 else math.inf

    def _mean_square(self) -> float:
        return 1 / (self.k - 3) if self.k > 3 else math.inf


def log_constant(k: float) -> float:
    """Return log β_k, β_k = Γ(k/2)/(√π·Γ((k−1)/2))."""
    return -float(scipy.special.betaln(0.5, (k - 1) / 2))


def log_moment(units: Floats, k: float, m: float) -> Floats:
    """Return log E at shifts u > 0, rounded up."""
    if m % 1 == 0:
        return _polynomial(units, k, round(m))
    # log E is convex in m, and 0 at 0: between whole m the chord is above it
    share = m % 1
    below = _polynomial(units, k, math.floor(m)) if m > 1 else np.zeros(units.shape)
    chord = (1 - share) * below + share * _polynomial(units, k, math.ceil(m))
    return np.minimum(lifted(chord, 4 * UNIT), _quadrature(units, k, m))


def _polynomial(units: Floats, k: float, m: int) -> Floats:
    """Return log Σ a_r u^{2r}, the sum of r = 1..m taken in logarithms and 1 added last."""
    r = np.arange(m, dtype=np.float64)
    steps = np.log((m - r) / (r + 1)) + np.log((m + k / 2 + r) / (k / 2 + 2 * r))
    steps += np.log(((k - 1) / 2 + r) / (k / 2 + 2 * r + 1))
    coefficients = np.cumsum(steps)
    rows = max(_CELLS // max(m, 1), 1)
    logs = np.empty(units.shape)
    for start in range(0, len(units), rows):
        size = 2 * np.log(units[start : start + rows, None])
        terms = coefficients + (r + 1) * size
        rounding = 8 * UNIT * (np.abs(steps).sum() + m * np.abs(size[:, 0]) + m + 4)
        logs[start : start + rows] = np.logaddexp(
            0.0, scipy.special.logsumexp(terms, axis=1) + rounding
        )
    return lifted(logs, 4 * UNIT)


def _quadrature(units: Floats, k: float, m: float) -> Floats:
    """Return log E by three trapezoid sums, with their errors added."""
    strip = min(math.pi / 3, math.sqrt(12 / (2 * m + k + 4)))
    growth = -(m + k / 2) * math.log(math.cos(strip)) - (2 * m + k + 4) * math.log(
        math.cos(strip / 2)
    )
    mantissa, exponent = math.frexp(2 * math.pi * strip / (growth + math.log(2) + _REACH - 6))
    step = math.ldexp(
        math.floor(mantissa * 1024), exponent - 10
    )  # shorter, and of so few bits that multiples are exact
    missed = 2 * math.exp(growth) / math.expm1(2 * math.pi * strip / step)
    slow = min(_REACH / min(k - 1, 1.0), _LONGEST)
    logs = np.empty(units.shape)
    widest = 2 * float(np.arcsinh(units.max() / 2))
    rows = max(int(_CELLS * step / (2 * slow + 2 * _REACH + widest)), 1)
    for start in range(0, len(units), rows):
        tau = 2 * np.arcsinh(units[start : start + rows, None] / 2)
        longest = float(tau.max())
        middle = _multiples(step, -_REACH, longest + _REACH)
        outer = _multiples(step, -slow, longest / 2 + _REACH)
        parts = [_segment(tau, middle, k, m), *_ends(tau, outer, k, m)]
        sums = scipy.special.logsumexp(np.concatenate(parts, axis=1), axis=1) + math.log(step)
        # beyond the ends the integrand falls geometrically, at a rate of min(1, k−1) or more
        edges = np.stack([part[:, i] for part in parts for i in (0, -1)], axis=1)
        tails = scipy.special.logsumexp(edges, axis=1) + math.log(2 / min(1.0, k - 1) + step)
        rounding = 16 * UNIT * (m * tau[:, 0] + m + k + 16)
        logs[start : start + rows] = (
            np.logaddexp(sums, tails) + log_constant(k) - math.log1p(-missed) + rounding
        )
    return np.maximum(logs, 0.0)


def _multiples(step: float, low: float, high: float) -> Floats:
    """Return the multiples of a step from below one number to above another."""
    return step * np.arange(
        math.floor(low / step) - 1, math.ceil(high / step) + 2, dtype=np.float64
    )


def _segment(tau: Floats, v: Floats, k: float, m: float) -> Floats:
    """Return the log integrand over T = e^v, between T = 0 and ∞."""
    gap = np.logaddexp(0.0, v - tau / 2) - np.log1p(np.exp(-tau)) / 2  # log(c + sT)
    return m * _log_base(tau, v) + (k - 2) * gap - k / 2 * np.logaddexp(0.0, 2 * v) + v


def _ends(tau: Floats, s: Floats, k: float, m: float) -> tuple[Floats, Floats]:
    """Return the log integrands over T = −e^v on both sides of v = τ/2, where c + sT vanishes."""
    soft = np.logaddexp(0.0, s)
    constant = -np.log1p(np.exp(-tau)) / 2
    inner, outer = tau / 2 - soft, tau / 2 + soft
    before = (k - 2) * constant + (k - 1) * (s - soft) + inner
    after = (k - 2) * constant + (k - 1) * s + tau / 2
    return (
        m * _log_base(tau, inner) - k / 2 * np.logaddexp(0.0, 2 * inner) + before,
        m * _log_base(tau, outer) - k / 2 * np.logaddexp(0.0, 2 * outer) + after,
    )


def _log_base(tau: Floats, v: Floats) -> Floats:
    """Return log h at T = ±e^v."""
    return np.logaddexp(tau, 2 * v - tau) - np.logaddexp(0.0, 2 * v)
