"""Generalized Cauchy noise: heavy tails, for laws whose outliers lie far away (M11)."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self, final

import numpy as np
from scipy import special

from pufferflow.errors import Refused
from pufferflow.noise import cauchy_moments
from pufferflow.noise.noise import Family, Floats, Noise, read_above, read_radius, read_scale
from pufferflow.rounding import SMALLEST, UNIT, lifted
from pufferflow.suggestions import explained

_ALMOST = 1e-13
_LARGEST_EXPONENT = 700.0
_FAR = 1e100
_MOST_TERMS = 1e6
_LEAST_DRAWN = 1.1


@final
@explained
@dataclass(frozen=True)
class GeneralizedCauchy(Noise):
    """Generalized Cauchy noise with density ∝ (1 + (x/scale)²)^(−k/2), k > 1; Cauchy's own law for k = 2 (M11).

    It is scale/√(k−1) times Student's t with k − 1 degrees of freedom. Its pure loss, k·asinh(z/(2·scale)), grows only
    logarithmically with the shift, so with `pf.DAGWM` far but rare movements cost little. The price is its tail: there
    is no expected error for k ≤ 2 and no variance for k ≤ 3 (both are then infinite; ask `interval` instead).

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
        object.__setattr__(self, "k", read_above(self.k, "k", 1.0, "k=2"))

    @classmethod
    def of(cls, k: float) -> Family:
        """Return the family with this k, for `pf.calibrate`.

        >>> GeneralizedCauchy.of(k=4)(2.0)
        GeneralizedCauchy(scale=2.0, k=4.0)
        """
        return cls(0.0, k).at

    def at(self, scale: float) -> Self:
        """Return the noise with this k and another scale."""
        return type(self)(scale, self.k)

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
                instead="bound=pf.DAGWM(), which goes coordinate by coordinate, or k=2 with a whole alpha",
            )
        return dimension * self.renyi(radius / math.sqrt(dimension) * (1 + 2 * UNIT), alpha) * (1 + UNIT)

    def pure_within(self, radius: float, dimension: int = 1) -> float:
        """Return d·D_∞(radius/√d): asinh(√w/2) is concave in w, so equal movements cost most."""
        radius = read_radius(radius)
        if dimension == 1:
            return self.pure(radius)
        return dimension * self.pure(radius / math.sqrt(dimension) * (1 + 2 * UNIT)) * (1 + UNIT)

    def convex(self, alpha: float) -> bool:
        """Say yes if k(α−1) ≥ 1: E grows like u^{k(α−1)} (M5)."""
        return self.k * (alpha - 1) >= 1

    def _renyi(self, units: Floats, alpha: float) -> Floats:
        """Return log E(u²)/(α−1), at most the pure loss."""
        m = self.k * (alpha - 1) / 2
        if m > _MOST_TERMS:
            return self._pure(units)
        logs = np.maximum(cauchy_moments.log_moment(units, self.k, m), SMALLEST)
        return np.minimum(lifted(logs / (alpha - 1), 2 * UNIT), self._pure(units))

    def check_drawable(self) -> None:
        """Refuse to draw where many draws would leave the floats: for k = 1.001 half of them do."""
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

        (1 + y²) ≥ c·(1 + (y−u)²) with c = e^{2ε/k}: for c = 1 the half line y ≥ u/2, else y between
        (cu ± √(cu² − (c−1)²))/(c−1), empty unless u ≥ 2·sinh(ε/k), which is M11's D_∞. The set is taken for a slightly
        smaller ε, and its probabilities for a smaller one still: then rounding of its ends can only add.
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
        delta = np.where(units < _FAR, delta, 1.0)  # squares leave the floats
        return np.where(self._pure(units) > loss, delta, 0.0)

    def _between(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return P(low < noise < high) from the middle or from the tails, and how far it can be off."""
        above, below = self._tail(np.abs(low)), self._tail(np.abs(high))
        straddling = (low < 0) & (high > 0)
        between = np.where(straddling, self._core(np.abs(low)) + self._core(np.abs(high)), np.abs(above - below))
        return between, _ALMOST * (between + np.where(straddling, 0.0, np.maximum(above, below)))

    def _core(self, units: Floats) -> Floats:
        """Return P(0 < noise < u), to the last digits of small u."""
        square = np.minimum(units, 1.0) ** 2
        close = special.betainc(0.5, (self.k - 1) / 2, square / (1 + square)) / 2
        return np.where(units < 1, close, 0.5 - self._tail(units))

    def _logpdf(self, units: Floats) -> Floats:
        with np.errstate(over="ignore"):
            size = np.where(np.abs(units) < 1e100, np.log1p(units * units), 2 * np.log(np.maximum(np.abs(units), 1.0)))
        return -self.k / 2 * size + cauchy_moments.log_constant(self.k)

    def _tail(self, units: Floats) -> Floats:
        """Return half of the regularised incomplete beta function, from the end where it does not cancel."""
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            square = units * units
            out = special.betainc((self.k - 1) / 2, 0.5, 1 / (1 + square)) / 2
            close = special.betaincc(0.5, (self.k - 1) / 2, square / (1 + square)) / 2
            tails = np.where(square > 1, out, close)
            # squares that leave the floats: the tail is its leading term, (2/(k−1))·x^(1−k)·(β_k/2), to 1e−200
            leading = np.exp(cauchy_moments.log_constant(self.k) - (self.k - 1) * np.log(np.maximum(units, 1.0)))
        return np.where(units > 1e100, leading / (self.k - 1), tails)

    def _reach(self, tails: Floats) -> Floats:
        """Return the quantile of Student's t, or that of the tail's leading term far out."""
        with np.errstate(over="ignore", divide="ignore"):
            inside = -special.stdtrit(self.k - 1, np.maximum(tails, 1e-250)) / math.sqrt(self.k - 1)
            leading = np.exp(
                (cauchy_moments.log_constant(self.k) - math.log(self.k - 1) - np.log(tails)) / (self.k - 1)
            )
        return np.where((inside < 1e8) & np.isfinite(inside), np.maximum(inside, 0.0), leading)

    def precise_tail(self, units: Any, mp: Any) -> Any:
        """Return I_{1/(1+u²)}((k−1)/2, ½)/2."""
        half = mp.mpf(1) / 2
        power = (mp.mpf(self.k) - 1) / 2
        if units * units > 1:
            return mp.betainc(power, half, 0, 1 / (1 + units * units), regularized=True) / 2
        return half - mp.betainc(half, power, 0, units * units / (1 + units * units), regularized=True) / 2

    def _mean_size(self) -> float:
        """Return 2β_k/(k−2), for k > 2."""
        return 2 * math.exp(cauchy_moments.log_constant(self.k)) / (self.k - 2) if self.k > 2 else math.inf

    def _mean_square(self) -> float:
        """Return 1/(k−3), for k > 3."""
        return 1 / (self.k - 3) if self.k > 3 else math.inf
