"""Laplace noise: pure guarantees at the least expected error among the usual noises (M9)."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import scipy  # imports its parts when first used

from pufferflow.core.arrays import Floats
from pufferflow.core.rounding import UNIT, lifted
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.noise.base import Noise, read_radius, read_scale

_NEAR_0 = 1e-3


@final
@suggests_arguments
@dataclass(frozen=True)
class Laplace(Noise):
    """Laplace noise with density e^(−|x|/scale)/(2·scale); on R^d for movements in the norm 1 (M9).

    >>> noise = Laplace(2.0)
    >>> noise.pure(1.0), noise.expected_error, noise.variance
    (0.5, 2.0, 8.0)
    """

    norm: ClassVar[float] = 1.0

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", read_scale(self.scale))

    def zcdp_within(self, radius: float, dimension: int = 1) -> float:
        """Return the ρ of the radius: it is convex and 0 at 0, so largest where one coordinate takes it all."""
        return self.zcdp(read_radius(radius))

    def gdp_within(self, radius: float, dimension: int = 1) -> float:
        """Return the μ of the radius: coordinates add in squares, and μ² is convex and 0 at 0 (M9)."""
        return self.gdp(read_radius(radius))

    def convex(self, alpha: float) -> bool:
        """Return True: M9 is a sum of exponentials of u, and rises at 0."""
        return True

    def _renyi(self, units: Floats, alpha: float) -> Floats:
        """Return u + log(1 + (α−1)/(2α−1)·(e^{−(2α−1)u} − 1))/(α−1) (M9), which is below min(u, αu²/2) (M29).

        D_α is convex in u and 0 at 0, hence over a ball of norm 1 it is largest where one coordinate takes it all.
        """
        with np.errstate(over="ignore", under="ignore"):
            fall = np.log1p((alpha - 1) / (2 * alpha - 1) * np.expm1(-(2 * alpha - 1) * units)) / (
                alpha - 1
            )
            loss = units + fall + 4 * UNIT * (units - fall)
            square = lifted(units * (alpha / 2) * units, 4 * UNIT)
        return np.minimum(np.minimum(np.maximum(loss, 0.0), square), units)

    def _pure(self, units: Floats) -> Floats:
        return units

    def _zcdp(self, units: Floats) -> Floats:
        """Return u − 1 + e^{−u}, the limit of D_α/α for α → 1, above which it is for no other order (M9)."""
        with np.errstate(over="ignore", under="ignore"):
            loss = units + np.expm1(-units) + 4 * UNIT * units
            series = (
                units * 0.5 * units * (1 - units * (1 / 3 - units / 12))
            )  # never below, and exact near 0
            return np.where(units < _NEAR_0, lifted(series, 8 * UNIT), loss)

    def _gdp(self, units: Floats) -> Floats:
        """Return the μ with Φ(−μ/2) = e^{−u/2}/2: there G_μ touches the curve of Laplace noise (M9)."""
        with np.errstate(over="ignore", under="ignore"):
            near = math.sqrt(8) * scipy.special.erfinv(-np.expm1(-np.minimum(units, 1.0) / 2))
            far = -2 * scipy.special.ndtri_exp(-units / 2 - math.log(2))
        return lifted(np.where(units < 1, near, far), 64 * UNIT)

    def _delta(self, units: Floats, epsilon: float) -> Floats:
        """Return 1 − e^{(ε−u)/2} for u > ε."""
        return lifted(np.maximum(-np.expm1(np.minimum(epsilon - units, 0.0) / 2), 0.0), 4 * UNIT)

    def _logpdf(self, units: Floats) -> Floats:
        return -np.abs(units) - math.log(2)

    def _tail(self, units: Floats) -> Floats:
        with np.errstate(under="ignore"):
            return np.exp(-units) / 2

    def _reach(self, tails: Floats) -> Floats:
        return -np.log(2 * tails)

    def steepness(self, units: float) -> float:
        return 1.0

    def precise_tail(self, units: Any, mp: Any) -> Any:
        return mp.exp(-units) / 2

    def _mean_size(self) -> float:
        return 1.0

    def _mean_square(self) -> float:
        return 2.0
