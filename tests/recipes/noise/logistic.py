"""Logistic noise: pure guarantees with a smooth density, at a little more error than Laplace noise."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.rounding import UNIT, lifted
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.noise.base import Noise, read_scale


@final
@suggests_arguments
@dataclass(frozen=True)
class Logistic(Noise):
    """Logistic noise with density e^(−x/scale)/(scale·(1 + e^(−x/scale))²); on R^d its ball is that of the norm 1.

    >>> noise = Logistic(2.0)
    >>> noise.pure(1.0), round(noise.expected_error, 6)
    (0.5, 2.772589)
    """

    norm: ClassVar[float] = 1.0

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", read_scale(self.scale))

    def at(self, scale: float) -> Self:
        return type(self)(scale)

    def _renyi(self, units: Floats, alpha: float) -> Floats:
        """Return u + log((1 − e^{−ku})/(k·(1 − e^{−u})))/(α−1) with k = 2α − 1, which is below min(u, αu²/2) (M29).

        With v the distribution function at x, the ratio of the densities is c/(v + c(1−v))² with c = e^u, and the
        integral of its power over v in [0, 1] is elementary. D_α is convex in u, since sinh(ku/2) ≥ k·sinh(u/2), and 0
        at 0, hence over a ball of norm 1 it is largest where one coordinate takes it all.
        """
        k = 2 * alpha - 1
        some = np.where(units > 0, units, 1.0)
        with np.errstate(over="ignore", under="ignore"):
            first, second = np.log(-np.expm1(-k * some)), np.log(-np.expm1(-some))
            slack = 8 * UNIT * (np.abs(first) + np.abs(second) + math.log(k) + 1) / (alpha - 1)
            loss = some + (first - second - math.log(k)) / (alpha - 1) + slack + 4 * UNIT * some
            square = lifted(units * (alpha / 2) * units, 4 * UNIT)
        return np.minimum(
            np.minimum(np.maximum(np.where(units > 0, loss, 0.0), 0.0), square), units
        )

    def _pure(self, units: Floats) -> Floats:
        """Return u, which the log ratio comes near far out."""
        return units

    def _delta(self, units: Floats, epsilon: float) -> Floats:
        """Return (1 − e^{(ε−u)/2})²/(1 − e^{−u}) for u > ε."""
        some = np.where(units > 0, units, 1.0)
        above = np.expm1(np.minimum(epsilon - some, 0.0) / 2) ** 2 / -np.expm1(-some)
        return lifted(np.where(units > epsilon, above, 0.0), 16 * UNIT)

    def _logpdf(self, units: Floats) -> Floats:
        sizes = np.abs(units)
        return -sizes - 2 * np.log1p(np.exp(-sizes))

    def _tail(self, units: Floats) -> Floats:
        with np.errstate(under="ignore"):
            fallen = np.exp(-units)
            return fallen / (1 + fallen)

    def _reach(self, tails: Floats) -> Floats:
        return np.log1p(-tails) - np.log(tails)

    def precise_tail(self, units: Any, mp: Any) -> Any:
        return 1 / (1 + mp.exp(units))

    def _mean_size(self) -> float:
        return 2 * math.log(2)

    def _mean_square(self) -> float:
        return math.pi**2 / 3
