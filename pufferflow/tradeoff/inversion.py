"""δ(ε) of many different releases from the moments of their total loss S, as a Fourier series with a known error.

With u(x) = e^(−θx)(1 − e^(−x))₊ and the law P_θ, of density e^(θS − K(θ)) under P, where K(θ) = log E e^(θS), θ > 0:

    E(1 − e^(ε − S))₊  =  e^(K(θ) − θε)·E_θ u(S − ε)  ≤  e^(K(θ) − θε)·Σ_n E_θ u(S − ε + nW)
                       =  e^(K(θ) − θε)·(1/W)·Σ_m E_θ e^(it_m(S − ε)) / ((θ + it_m)(θ + 1 + it_m)),   t_m = 2πm/W.

The inequality holds because u ≥ 0: what a period W folds over can only add, and no tail is cut. The last step is
Poisson's summation formula, u's transform being 1/((θ + it)(θ + 1 + it)). For θ < −1 the same series is that of
u(x) = e^(−θx)(e^(−x) − 1)₊, and E(1 − e^(ε−S))₊ = E1 − e^ε·E e^(−S) + E(e^(ε−S) − 1)₊ serves δ near 1.

The series must end. A release of N(μ, 1) against N(0, 1) is added, after which the total dominates what it dominated;
it multiplies terms by e^(−μ²t²/2), so that those beyond |t| = T, each at most 2/(Wt²), sum up to less than
W·e^(−μ²T²/2)/(2π²m). Its μ is about 10⁻⁴ standard deviations of S. Errors of all factors are added to the terms
(`Moments.transform`), and θ near the saddle point keeps them small beside δ itself, however small that is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.rounding import UNIT
from pufferflow.tradeoff.moments import Complexes, Moments

_FEWEST, _MOST = 16, 20
"""The numbers of terms, powers of two. More terms need less damping, where each is quick."""
_WORK = 22
_KEPT = 1 << 22
"""How many terms of all series are kept."""
_CUT = 8.8
"""At T the added release has damped terms to e^(−8.8²/2) = 10⁻¹⁷."""
_DECAY = 38.0
_DEVIATIONS = 12.0
_GRID = 0.5
"""Orders θ and −1 − θ are powers of two of multiples of this, so that series serve many ε."""
_LOWEST, _HIGHEST = -80, 200
_FARTHEST = 1e200


@final
@dataclass(frozen=True, eq=False)
class Series:
    """The terms of the series for one θ."""

    theta: float
    log_moment: float
    period: float
    t: Floats
    terms: Complexes
    error: float
    phase_error: float

    def value(self, epsilon: float) -> float:
        """Return e^(K − θε) times the series, rounded up; ∞ where that overflows."""
        if epsilon > _FARTHEST:
            return math.inf
        turned = self.terms * np.exp(-1j * epsilon * self.t)
        total = 2 * float(turned.real[1:].sum()) + float(turned.real[0])
        total = max(total / self.period, 0.0) + self.error + self.phase_error * (1 + abs(epsilon))
        log = self.log_moment - self.theta * epsilon
        log += 8 * UNIT * (1 + abs(self.log_moment) + abs(self.theta * epsilon))
        return math.exp(log + math.log(total)) * (1 + 8 * UNIT) if log + math.log(total) < 700 else math.inf


@final
class Inversion:
    """The hockey stick of a total loss, of which only the moments are known."""

    def __init__(self, moments: Moments, largest: float) -> None:
        self.moments = moments
        self.largest = largest
        self._series = lru_cache(maxsize=max(_KEPT // self._count, 4))(self._make)
        self._log_moment = lru_cache(maxsize=4096)(moments.log_moment)

    @cached_property
    def _mass(self) -> tuple[float, float]:
        """The finite masses of P, rounded up, and of Q, rounded down."""
        doubt = self.moments.slop + self.moments.rounding(0.0) + self.moments.rounding(-1.0)
        return math.exp(self._log_moment(0.0) + doubt), math.exp(self._log_moment(-1.0) - doubt)

    def delta(self, epsilon: float) -> float:
        """Return E(1 − e^(ε − S))₊ over finite losses, rounded up."""
        if epsilon >= self.largest:
            return 0.0
        above, below = self._best(epsilon, 1.0), self._best(epsilon, -1.0)
        side = 1.0 if self._size(above, epsilon) <= self._size(below, epsilon) else -1.0
        return self._at(above if side > 0 else below, epsilon)

    def near(self, delta: float) -> Callable[[float], float]:
        """Return δ(ε) as a function by one series, good where δ(ε) is about `delta`: θ of the least Chernoff bound."""
        if delta <= 0:
            return self.delta
        aim = math.log(min(delta, self._mass[0] / 2))  # for a δ above the total no order is the best

        def bound(place: int) -> float:
            theta = _order(place, 1.0)
            return (self._log_moment(theta) - aim - math.log1p(theta)) / theta

        theta = _order(_least(bound, _LOWEST, self._highest), 1.0)
        return lambda epsilon: 0.0 if epsilon >= self.largest else self._at(theta, epsilon)

    def _at(self, theta: float, epsilon: float) -> float:
        moved = epsilon - self.moments.blur  # losses may be larger by this
        value = self._series(theta).value(moved) * math.exp(self.moments.slop)
        if theta > 0:
            return value
        first, second = self._mass
        rest = first - math.exp(moved) * second if moved < 700 else -math.inf
        return max(rest + value, 0.0) + 4 * UNIT * (first + value + abs(rest))

    @cached_property
    def _highest(self) -> int:
        """The highest position in the grid of orders at which floats still separate moments."""
        scale = max(self._deviation(1.0), 1e-12)
        return min(_HIGHEST, math.ceil(math.log2(1e6 / scale) / _GRID))

    @cached_property
    def _count(self) -> int:
        """The number of terms."""
        return 1 << min(max(_WORK - math.ceil(math.log2(self.moments.factors)), _FEWEST), _MOST)

    def _size(self, theta: float, epsilon: float) -> float:
        """Return the log of about what the series adds up to."""
        return self._log_moment(theta) - theta * epsilon - math.log(abs(theta)) - math.log(abs(theta + 1))

    def _best(self, epsilon: float, side: float) -> float:
        """Return the order on one side with the smallest series: near the saddle point, where nothing cancels."""
        place = _least(lambda place: self._size(_order(place, side), epsilon), _LOWEST, self._highest)
        return _order(place, side)

    def _deviation(self, theta: float) -> float:
        """Return about the standard deviation of S under P_θ."""
        step = min(abs(theta), abs(theta + 1)) / 8
        low, here, high = (self._log_moment(theta + move) for move in (-step, 0.0, step))
        return math.sqrt(max(low - 2 * here + high, 0.0)) / step

    def _make(self, theta: float) -> Series:
        """Compute the series of an order."""
        decay = theta if theta > 0 else -1 - theta
        span = _DEVIATIONS * self._deviation(theta) + _DECAY / decay
        span = min(span, 2 * self.largest + _DECAY / decay)
        period = 2.0 ** math.ceil(math.log2(span))
        count = self._count
        last = 2 * math.pi / period * count
        added = max((_CUT / last) ** 2 - self.moments.variance, 0.0)  # μ² of the release that damps the series
        product, errors, more = self.moments.transform(theta, period, count)
        t = 2 * math.pi / period * np.arange(count, dtype=np.float64)
        with np.errstate(under="ignore"):
            damping = np.exp(-added * t * t / 2)
            product *= damping * np.exp(1j * (added * (theta + 0.5)) * t)
        weights = 1 / ((theta + 1j * t) * (theta + 1 + 1j * t))
        sizes = np.abs(weights)
        each = (errors * damping + (24 + 4 * math.log2(count)) * UNIT * np.abs(product)) * sizes
        spread = float(np.exp(-(added + self.moments.variance) * last * last / 2))
        left_out = period * spread / (2 * math.pi**2 * (count - 1))
        live = np.flatnonzero(product)
        log_moment = self._log_moment(theta) + added * theta * (theta + 1) / 2 + more
        turning = 4 * UNIT * float((np.abs(product) * sizes * t).sum()) / period
        return Series(
            theta,
            log_moment + 4 * UNIT * abs(log_moment) + self.moments.rounding(theta),
            period,
            t[live],
            (weights * product)[live],
            (2 * float(each.sum()) / period + left_out) * (1 + 16 * UNIT),
            2 * turning,
        )


def _order(place: int, side: float) -> float:
    """Return θ = 2^(place/2) above 0, or −1 − θ."""
    theta = 2.0 ** (_GRID * place)
    return theta if side > 0 else -1 - theta


def _least(function: Callable[[int], float], low: int, high: int) -> int:
    """Return the place of the least value of a function that falls, then rises."""
    while low < high:
        middle = (low + high) // 2
        if function(middle) <= function(middle + 1):
            high = middle
        else:
            low = middle + 1
    return low
