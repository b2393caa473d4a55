"""Gaussian noise: light tails, and losses that add where one coupling serves several releases (M10)."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import scipy  # imports its parts when first used

from pufferflow.core.arrays import Floats
from pufferflow.core.rounding import UNIT, lifted
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.noise.base import Noise, read_radius, read_scale
from pufferflow.privacy.conversions import gaussian_deltas


@final
@suggests_arguments
@dataclass(frozen=True)
class Gaussian(Noise):
    """Gaussian noise of standard deviation `scale`; on R^d for movements in the norm 2 (M10).

    It gives Rényi and (ε, δ) guarantees, but no pure one: far out the ratio of two shifted densities grows without
    limit.

    >>> noise = Gaussian(2.0)
    >>> round(noise.renyi(1.0, alpha=8), 9), noise.pure(1.0), noise.variance
    (1.0, inf, 4.0)
    """

    norm: ClassVar[float] = 2.0

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", read_scale(self.scale))

    def delta_within(self, radius: float, epsilon: float, dimension: int = 1) -> float:
        """Return the hockey stick of the radius: densities depend on the direction of a shift by rotation only."""
        return self.delta(read_radius(radius), epsilon)

    def zcdp_within(self, radius: float, dimension: int = 1) -> float:
        """Return the ρ of the radius: all directions of a shift have the same."""
        return self.zcdp(read_radius(radius))

    def gdp_within(self, radius: float, dimension: int = 1) -> float:
        """Return the μ of the radius: all directions of a shift have the same."""
        return self.gdp(read_radius(radius))

    def convex(self, alpha: float) -> bool:
        """Return True: e^{α(α−1)u²/2}."""
        return True

    def _renyi(self, units: Floats, alpha: float) -> Floats:
        with np.errstate(over="ignore", under="ignore"):
            return lifted(units * (alpha / 2) * units, 2 * UNIT)

    def _pure(self, units: Floats) -> Floats:
        return np.full(units.shape, math.inf)

    def _zcdp(self, units: Floats) -> Floats:
        """Return u²/2: D_α = αu²/2."""
        with np.errstate(over="ignore", under="ignore"):
            return lifted(units * 0.5 * units, 2 * UNIT)

    def _gdp(self, units: Floats) -> Floats:
        return units

    def _delta(self, units: Floats, epsilon: float) -> Floats:
        """Return Φ(u/2 − ε/u) − e^ε Φ(−u/2 − ε/u)."""
        return gaussian_deltas(units, epsilon)

    def _logpdf(self, units: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return -units * units / 2 - math.log(2 * math.pi) / 2

    def _tail(self, units: Floats) -> Floats:
        return scipy.special.ndtr(-units)

    def _reach(self, tails: Floats) -> Floats:
        return -scipy.special.ndtri(tails)

    def steepness(self, units: float) -> float:
        return units

    def precise_tail(self, units: Any, mp: Any) -> Any:
        return mp.erfc(units / mp.sqrt(2)) / 2

    def _mean_size(self) -> float:
        return math.sqrt(2 / math.pi)

    def _mean_square(self) -> float:
        return 1.0
