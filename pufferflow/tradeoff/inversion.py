"""δ(ε) of many different releases from the moments of their total loss S, as a Fourier series with a known error.

Three-point, Gaussian and Laplace losses have closed forms. Few other atoms are summed; many are split onto a lattice
whose moments an FFT gives. A split moves an atom to its two neighbours and keeps the masses of P and of Q. Merging the
neighbours gives the atom again, so the split pair dominates.

Let K(θ) = log E e^(θS) for θ > 0, and let P_θ have density e^(θS − K(θ)) under P. With u(x) = e^(−θx)(1 − e^(−x))₊ and
a period W,

    E(1 − e^(ε − S))₊  =  e^(K(θ) − θε)·E_θ u(S − ε)  ≤  e^(K(θ) − θε)·Σ_n E_θ u(S − ε + nW).

With t_m = 2πm/W the sum over n is, by Poisson's summation formula,

    (1/W)·Σ_m E_θ e^(it_m(S − ε)) / ((θ + it_m)(θ + 1 + it_m)).

The inequality holds because u ≥ 0: what a period W folds over can only add, and no tail is cut. The transform of u is
1/((θ + it)(θ + 1 + it)). For θ < −1 the same series belongs to u(x) = e^(−θx)(e^(−x) − 1)₊. It serves δ near 1, by E(1
− e^(ε−S))₊ = E1 − e^ε·E e^(−S) + E(e^(ε−S) − 1)₊.

The series must end. So a release of N(μ, 1) against N(0, 1) is added; the total then still dominates what it dominated.
It multiplies terms by e^(−μ²t²/2). Terms beyond |t| = T are at most 2/(Wt²) each, so they sum up to less than
W·e^(−μ²T²/2)/(2π²m). Its μ is about 10⁻⁴ standard deviations of S. Errors of all factors are added to the terms
(`Moments.transform`). With θ near the saddle point they are small beside δ, however small δ is.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import final

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Floats, log_sum
from pufferflow.core.rounding import UNIT
from pufferflow.tradeoff.dominating_pairs import GaussianLoss, LaplaceLoss
from pufferflow.tradeoff.losses import SLOP, Atoms, Loss, ThreePoint

Complexes = npt.NDArray[np.complex128]
_FEW = 160
_GOLDEN = (math.sqrt(5) - 1) / 2
_LATTICE = 1 << 20
_BLOCK = 1 << 19
NEGLIGIBLE = 1e-17


@final
@dataclass(frozen=True, eq=False)
class Moments:
    """The losses of several releases in one order of the secrets, sorted by kind, and how often each happens."""

    steps: Floats
    log_masses: Floats
    """Log masses at −ε, 0 and ε, in columns."""
    counts: Floats
    variance: float
    """Σμ² of the Gaussian ones."""
    units: Floats
    unit_counts: Floats
    others: tuple[tuple[Atoms, int], ...]

    @classmethod
    def of(cls, classes: Mapping[Loss, int]) -> "Moments":
        """Sort losses by their kind; the three-point ones are mixed so that any stretch of them is like all."""
        three: list[tuple[ThreePoint, int]] = [
            (loss, count) for loss, count in classes.items() if isinstance(loss, ThreePoint)
        ]
        three.sort(key=lambda one: one[0].epsilon)
        three = [
            three[place] for place in np.argsort(np.arange(len(three)) * _GOLDEN % 1.0).tolist()
        ]
        with np.errstate(divide="ignore"):
            masses = np.log(np.array([loss.masses for loss, _ in three]).reshape(-1, 3))
        laplace = [
            (loss, count) for loss, count in classes.items() if isinstance(loss, LaplaceLoss)
        ]
        return cls(
            np.array([loss.epsilon for loss, _ in three]),
            masses,
            np.array([float(count) for _, count in three]),
            math.fsum(
                count * loss.mu**2
                for loss, count in classes.items()
                if isinstance(loss, GaussianLoss)
            )
            * (1 + 8 * UNIT),
            np.array([loss.units for loss, _ in laplace]),
            np.array([float(count) for _, count in laplace]),
            tuple((loss, count) for loss, count in classes.items() if isinstance(loss, Atoms)),
        )

    @property
    def factors(self) -> int:
        """The approximate number of exponentials per moment; a lattice is for few frequencies."""
        return (
            1
            + len(self.steps)
            + len(self.units)
            + sum(
                len(atoms.losses) if len(atoms.losses) <= _FEW else _LATTICE
                for atoms, _ in self.others
            )
        )

    @property
    def slop(self) -> float:
        """The total relative error of the masses."""
        return SLOP * (
            float(self.counts.sum())
            + float(self.unit_counts.sum())
            + sum(c for _, c in self.others)
        )

    @property
    def blur(self) -> float:
        """The total error of the losses."""
        own = float(self.counts @ self.steps) + float(self.unit_counts @ self.units)
        return SLOP * (own + sum(count * (1 + atoms.reach) for atoms, count in self.others))

    def log_moment(self, order: float) -> float:
        """Return log E e^(order·L), over finite losses."""
        total = self.variance * order * (order + 1) / 2
        if len(self.steps):
            total += float(self.counts @ self._log_steps(order))
        if len(self.units):
            total += float(self.unit_counts @ _log_laplace(self.units, order))
        return total + sum(count * _log_atoms(atoms, order) for atoms, count in self.others)

    def rounding(self, order: float) -> float:
        """Return a bound on the rounding errors of `log_moment`, and of its factors' weights."""
        terms = 8 * self.variance * (1 + order * order)
        if len(self.steps):
            terms += float(
                self.counts @ (12 + 6 * (abs(order) * self.steps + np.abs(self._log_steps(order))))
            )
        if len(self.units):
            logs = np.abs(_log_laplace(self.units, order))
            terms += float(
                self.unit_counts @ (24 + 12 * (abs(order) * self.units + self.units + logs))
            )
        for atoms, count in self.others:
            each = (
                len(atoms.losses)
                + 12
                + 6 * (abs(order) * atoms.reach + abs(_log_atoms(atoms, order)))
            )
            terms += count * each
        return UNIT * terms

    def _log_steps(self, order: float) -> Floats:
        move = order * self.steps
        return np.logaddexp(
            np.logaddexp(self.log_masses[:, 0] - move, self.log_masses[:, 2] + move),
            self.log_masses[:, 1],
        )

    def transform(self, order: float, period: float, count: int) -> tuple[Complexes, Floats, float]:
        """Return E e^((order + it)L) / E e^(order·L) at t = 2πm/period, m = 0..count − 1, and how far each is off.

        Products that fall below NEGLIGIBLE are left at 0, and that is added to their error: no factor is above 1.
        The last number is by how much the denominator's logarithm is above `log_moment`, for atoms that were split.
        """
        more = 0.0
        t = 2 * math.pi / period * np.arange(count, dtype=np.float64)
        with np.errstate(under="ignore"):
            product = np.exp(-self.variance * t * t / 2 + 1j * (self.variance * (order + 0.5)) * t)
        live = np.flatnonzero(np.abs(product) > NEGLIGIBLE)
        for atoms, times in self.others:
            factor, above = _of_atoms(atoms, order, period, t[live], live)
            product[live] *= factor**times
            more += times * above
            live = live[np.abs(product[live]) > NEGLIGIBLE]
        for units, times in zip(self.units.tolist(), self.unit_counts.tolist(), strict=True):
            product[live] *= _laplace_factor(units, order, t[live]) ** times
            live = live[np.abs(product[live]) > NEGLIGIBLE]
        live = self._times_steps(product, live, order, t)
        dropped = np.ones(count, dtype=np.bool_)
        dropped[live] = False
        product[dropped] = 0.0
        return product, self._errors(order, period, t) + np.where(dropped, NEGLIGIBLE, 0.0), more

    def _times_steps(
        self, product: Complexes, live: npt.NDArray[np.intp], order: float, t: Floats
    ) -> npt.NDArray[np.intp]:
        """Multiply by the factors of three-point losses, few at a time while many frequencies are left."""
        log_steps = self._log_steps(order) if len(self.steps) else self.steps
        move = order * self.steps
        with np.errstate(under="ignore"):
            low, middle, high = (
                np.exp(self.log_masses[:, i] + (i - 1) * move - log_steps) for i in range(3)
            )
        place = 0
        while place < len(self.steps) and len(live):
            end = place + max(1, min(_BLOCK // len(live), len(self.steps) - place))
            own = slice(place, end)
            angles = np.multiply.outer(self.steps[own], t[live])
            factors = np.empty(angles.shape, dtype=np.complex128)
            factors.real = middle[own, None] + (low + high)[own, None] * np.cos(angles)
            factors.imag = (high - low)[own, None] * np.sin(angles)
            if (self.counts[own] != 1).any():
                factors **= self.counts[own, None]
            with np.errstate(under="ignore"):
                product[live] *= factors.prod(axis=0)
            live = live[np.abs(product[live]) > NEGLIGIBLE]
            place = end
        return live

    def _errors(self, order: float, period: float, t: Floats) -> Floats:
        """Return Σ of the errors of all factors: as none is above 1, the product is off by no more."""
        reach = float(self.counts @ self.steps) + float(self.unit_counts @ self.units)
        errors = (
            self.rounding(order) + UNIT * (4 * reach + 4 * self.variance * (1 + abs(order))) * t
        )
        for atoms, times in self.others:
            own = _lattice_error(atoms, order, period) if len(atoms.losses) > _FEW else 0.0
            errors = errors + times * (own + 4 * UNIT * atoms.reach * t)
        return errors


def _log_atoms(atoms: Atoms, order: float) -> float:
    with np.errstate(divide="ignore"):
        return (
            float(log_sum(np.log(atoms.first) + order * atoms.losses))
            if len(atoms.losses)
            else -math.inf
        )


def _of_atoms(
    atoms: Atoms, order: float, period: float, t: Floats, live: npt.NDArray[np.intp]
) -> tuple[Complexes, float]:
    if len(atoms.losses) > _FEW:
        weights, above = _on_lattice(atoms, order, period)
        return np.fft.rfft(weights).conj()[live], above
    found = np.zeros(len(live), dtype=np.complex128)
    with np.errstate(divide="ignore", under="ignore"):  # masses times e^(order·loss), of sum 1
        tilted = np.exp(np.log(atoms.first) + order * atoms.losses - _log_atoms(atoms, order))
    for loss, weight in zip(atoms.losses.tolist(), tilted.tolist(), strict=True):
        found += weight * np.exp(1j * loss * t)
    return found, 0.0


def split(atoms: Atoms, width: float) -> tuple[Floats, Floats]:
    """Return the places, in widths, and masses under P of atoms split onto a lattice."""
    below = np.floor(atoms.losses / width)
    upper = np.clip(
        -np.expm1(below * width - atoms.losses) / -math.expm1(-width) * (1 + SLOP), 0.0, 1.0
    )
    places = np.concatenate([below, below + 1])
    return places, np.concatenate([atoms.first * (1 - upper), atoms.first * upper])


def _on_lattice(atoms: Atoms, order: float, period: float) -> tuple[Floats, float]:
    """Return the tilted masses of the split atoms by their places modulo the period, and how much their moment grew."""
    width = period / _LATTICE
    places, masses = split(atoms, width)
    with np.errstate(divide="ignore", under="ignore"):
        weights = np.exp(np.log(masses) + order * (places * width) - _log_atoms(atoms, order))
    total = math.fsum(weights)
    folded: Floats = np.bincount(
        (places % _LATTICE).astype(np.int64), weights / total, minlength=_LATTICE
    ).astype(np.float64)
    return folded, math.log(total)


def _lattice_error(atoms: Atoms, order: float, period: float) -> float:
    """Return a bound on an FFT's rounding: its norm errs by 8u·log₂N of itself, and no entry by more than that."""
    norm = math.sqrt(float((_on_lattice(atoms, order, period)[0] ** 2).sum()))
    return 8 * UNIT * math.log2(_LATTICE) * math.sqrt(_LATTICE) * norm


def _log_laplace(units: Floats, order: float) -> Floats:
    """Return log e^(−u/2)(cosh a + (u/2)·sinh(a)/a), a = |order + ½|·u."""
    a = np.abs(order + 0.5) * units
    inner = (1 + np.exp(-2 * a)) / 2 - np.expm1(-2 * a) / 2 * np.where(
        a > 0, units / np.where(a > 0, 2 * a, 1.0), 0.0
    )
    return a - units / 2 + np.log(inner)


def _laplace_factor(units: float, order: float, t: Floats) -> Complexes:
    if units == 0:
        return np.ones(len(t), dtype=np.complex128)
    side = 1.0 if order + 0.5 >= 0 else -1.0
    real = abs(order + 0.5) * units
    a = real + 1j * side * units * t
    fall = np.exp(-2 * a)
    inner = (1 + fall) / 2 + (1 - fall) / 2 * units / (2 * a)
    scale = float(_log_laplace(np.array([units]), order)[0]) + units / 2 - real
    return np.exp(1j * side * units * t - scale) * inner


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
        return (
            math.exp(log + math.log(total)) * (1 + 8 * UNIT)
            if log + math.log(total) < 700
            else math.inf
        )


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
        aim = math.log(
            min(delta, self._mass[0] / 2)
        )  # for a δ above the total no order is the best

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
        return (
            self._log_moment(theta)
            - theta * epsilon
            - math.log(abs(theta))
            - math.log(abs(theta + 1))
        )

    def _best(self, epsilon: float, side: float) -> float:
        """Return the order on one side with the smallest series: near the saddle point, where nothing cancels."""
        place = _least(
            lambda place: self._size(_order(place, side), epsilon), _LOWEST, self._highest
        )
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
        added = max(
            (_CUT / last) ** 2 - self.moments.variance, 0.0
        )  # μ² of the release that damps the series
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
