"""Staircase noise: the least expected error any noise can have for a pure guarantee, and its shape (M12).

Between two shifts at which jumps meet, E e^((α−1)·loss) and the hockey stick of a staircase are linear in the shift. So
for every shape the longest shift that keeps a guarantee has a closed form in a few losses. The shape of the least
expected error is searched. The result is only a shape: a bound proves its scale.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, Self, final

import numpy as np

from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT, largest, lifted
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import finite_number, number_above, probability_below_one
from pufferflow.noise.base import Family, Noise, one_dimensional, read_radius, read_scale
from pufferflow.privacy.guarantee import Approx, Divergence, Guarantee, Pure

_MOST_STEPS_OF_SHAPE: Final = 3.0
"""The largest number of steps within one movement: staircase noise of more steps is nearly Laplace noise."""
_STEPS: Final = np.arange(1.0, _MOST_STEPS_OF_SHAPE + 1)
_OF_PURE: Final = (Divergence.CONCENTRATED, Divergence.GAUSSIAN)
_STEEPEST: Final = 600.0
_FALLS: Final = tuple(round(fall, 3) for fall in np.geomspace(0.1, 20.0, 12).tolist())
_GAMMAS: Final = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0)
_FINEST: Final = 1e-3
_WHOLE: Final = 1e-9


def best_gamma(epsilon: float) -> float:
    """Return the share with the least expected error where a movement is one step: 1/(1 + e^(ε/2))."""
    return 1 / (1 + math.exp(min(epsilon, 1400.0) / 2))


_MOST_STEPS = 1_000
_SHALLOW = 1e-90
_RTOL = 1e-10


@final
@suggests_arguments
@dataclass(frozen=True)
class Staircase(Noise):
    """Staircase noise: its density falls by e^(−ε) with every step of one sensitivity, at a share gamma of it (M12).

    A movement by the sensitivity costs exactly epsilon, and any smaller one no more. `gamma` is the one with the least
    expected error, 1/(1 + e^(ε/2)), unless given. The density has jumps, so the loss of two laws need not fall as the
    noise grows; a calibration looks for the least safe scale.

    >>> import pufferflow as pf
    >>> noise = pf.Staircase(sensitivity=1.0, epsilon=2.0)
    >>> noise.pure([0.5, 1.0, 1.5]), noise.expected_error < pf.Laplace(0.5).expected_error
    (array([2., 2., 4.]), True)
    """

    norm: ClassVar[float] = 1.0
    monotone: ClassVar[bool] = False

    sensitivity: float
    epsilon: float
    gamma: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sensitivity", read_scale(self.sensitivity))
        object.__setattr__(
            self, "epsilon", number_above(self.epsilon, "epsilon", 0.0, "epsilon=1.0")
        )
        allowed, instead = "a number with 0 <= gamma <= 1", "leaving gamma out for the best one"
        gamma = best_gamma(self.epsilon) if self.gamma is None else self.gamma
        gamma = finite_number(
            gamma,
            "gamma",
            allowed=allowed,
            instead=instead,
            fits=lambda gamma: 0 <= gamma <= 1,
            digits="",
        )
        object.__setattr__(self, "gamma", gamma)

    @classmethod
    def of(cls, epsilon: float | None = None, gamma: float | None = None) -> "StaircaseFamily":
        """Return the family with this fall per step, to be calibrated by its sensitivity.

        An epsilon that is left out is chosen for the guarantee: its own ε if it is pure. So is `gamma`.

        >>> Staircase.of(epsilon=1.0, gamma=0.5)(3.0)
        Staircase(sensitivity=3.0, epsilon=1.0, gamma=0.5)
        """
        return StaircaseFamily(epsilon, gamma)

    @classmethod
    def family(cls, guarantee: Guarantee) -> Family:
        """Return the family whose shape keeps a guarantee with the least expected error."""
        return cls.of().family(guarantee)

    @classmethod
    def traded(cls, sensitivity: float, epsilon: float, tv: float) -> Self:
        """Return the staircase of the least expected error that keeps (epsilon, 0) and a total variation together.

        Both hold for all shifts up to the sensitivity. A tv below that of the best `gamma` is met by another gamma, and
        below (1 − e^(−epsilon))/2 by longer steps too (M12).

        >>> noise = Staircase.traded(1.0, epsilon=1.0, tv=0.35)
        >>> round(noise.gamma, 4), round(noise.tv(1.0), 4), noise.pure(1.0)
        (0.07, 0.35, 1.0)
        """
        radius, share = read_scale(sensitivity), probability_below_one(tv, "tv")
        promises = Pure(epsilon), Approx(0.0, share)
        unit = best_staircase(promises, None)
        scale = radius / longest_shift(unit, promises)
        while True:
            noise = cls(scale, unit.epsilon, unit.gamma)
            if noise.pure(radius) <= promises[0].epsilon and noise.tv(radius) <= share:
                return noise
            scale *= 1 + _RTOL

    @property
    def scale(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride] - the same number by its own name
        """The sensitivity: the width of a step."""
        return self.sensitivity

    @classmethod
    def shaped(cls, scale: float, shape: float, epsilon: float | None) -> Noise:
        return cls(scale, shape or epsilon or 0.0)

    def renyi_within(self, radius: float, alpha: float, dimension: int = 1) -> float:
        """Return the largest Rényi loss of a shift up to the radius: at it, or at a turning point below it."""
        one_dimensional(self, dimension)
        return float(np.max(self.renyi(self._turning(read_radius(radius)), alpha)))

    def pure_within(self, radius: float, dimension: int = 1) -> float:
        one_dimensional(self, dimension)
        return self.pure(read_radius(radius))

    def delta_within(self, radius: float, epsilon: float, dimension: int = 1) -> float:
        one_dimensional(self, dimension)
        return float(np.max(self.delta(self._turning(read_radius(radius)), epsilon)))

    @property
    def share(self) -> float:
        """The share of a step at which the density falls."""
        return 0.0 if self.gamma is None else self.gamma

    @property
    def height(self) -> float:
        """The density at 0, in units."""
        return -math.expm1(-self.epsilon) / (
            2 * (self.share + math.exp(-self.epsilon) * (1 - self.share))
        )

    def bends(self, radius: float) -> Floats:
        """Return the shifts up to a radius, in order, at which jumps of both densities may meet.

        Between two of them every loss's integral is linear in the shift: E e^((α−1)·loss), and the hockey stick.
        """
        return np.unique(self._turning(radius))

    def bends_of(self, distances: Floats, low: float, high: float) -> Floats:
        """Return the scales between two, in order, at which jumps around answers so far apart may meet.

        A jump lies γ + j steps beside an answer, so they meet where a distance is n, n + 2γ or n − 2γ steps long.
        """
        found = [np.empty(0)]
        for distance in np.unique(np.abs(distances[distances != 0])).tolist():
            steps = np.arange(
                math.floor(distance / high), math.ceil(distance / low) + 1, dtype=np.float64
            )
            turns = np.concatenate([steps, steps + 2 * self.share - 1, steps - 2 * self.share + 1])
            found.append(distance / turns[turns > 0])
        scales = np.unique(np.concatenate(found))
        return scales[(scales > low) & (scales < high)]

    def _turning(self, radius: float) -> Floats:
        """Return the radius and the shifts below it between which every loss's integral is linear.

        Beyond _MOST_STEPS the radius will do: there the losses are bounds that rise with it.
        """
        if self.sensitivity == 0 or radius / self.sensitivity > _MOST_STEPS:
            return np.array([radius])
        steps = np.arange(math.floor(radius / self.sensitivity) + 2)
        bends = (
            np.concatenate([steps + turn * self.share for turn in (-2, -1, 0, 1, 2)])
            * self.sensitivity
        )
        return np.append(bends[(bends > 0) & (bends < radius)], radius)

    def _renyi(self, units: Floats, alpha: float) -> Floats:
        """Return the larger loss of u and of the float below it, for u was rounded up and losses may turn back."""
        losses = [
            max(self._renyi_of(u, alpha), self._renyi_of(_below(u), alpha)) for u in units.tolist()
        ]
        return np.minimum(np.array(losses), self._pure(units))

    def _renyi_of(self, u: float, alpha: float) -> float:
        if u > _MOST_STEPS:
            return math.inf  # the pure loss serves; adding up the pieces would take long
        falls_p, falls_q, log_weights = self._pieces(u)
        logs = (
            log_weights
            - self.epsilon * (alpha * falls_p - (alpha - 1) * falls_q)
            + math.log(self.height)
        )
        top = float(logs.max())
        total = top + math.log(math.fsum(np.exp(logs - top)))
        sizes = (
            self.epsilon * (alpha * np.abs(falls_p - falls_q).max() + falls_q.max())
            + np.abs(log_weights).max()
        )
        return max(
            (total + 8 * UNIT * (float(sizes) + abs(math.log(self.height)) + 8)) / (alpha - 1), 0.0
        )

    def _pure(self, units: Floats) -> Floats:
        """Return ε for every step begun; with gamma 0 or 1 too, but for shifts of 0."""
        steps = np.ceil(units)
        return np.where(steps == 1, self.epsilon, lifted(steps * self.epsilon, UNIT / 4))

    def _delta(self, units: Floats, epsilon: float) -> Floats:
        deltas = [
            max(self._delta_of(u, epsilon), self._delta_of(_below(u), epsilon))
            for u in units.tolist()
        ]
        return np.where(self._pure(units) > epsilon, deltas, 0.0)

    def _delta_of(self, u: float, epsilon: float) -> float:
        if u > _MOST_STEPS:
            return 1.0
        falls_p, falls_q, log_weights = self._pieces(u)
        loss = self.epsilon * (falls_q - falls_p)
        with np.errstate(under="ignore"):
            masses = np.exp(log_weights - self.epsilon * falls_p + math.log(self.height))
        parts = np.where(loss > epsilon, masses * -np.expm1(np.minimum(epsilon - loss, 0.0)), 0.0)
        sizes = np.abs(log_weights) + self.epsilon * falls_p + abs(math.log(self.height)) + 8
        doubt = (
            8
            * UNIT
            * math.fsum(
                np.where(loss > epsilon - 1e-9, masses * (sizes + np.abs(loss) + epsilon), 0.0)
            )
        )
        return math.fsum(parts) + doubt

    def _pieces(self, u: float) -> tuple[Floats, Floats, Floats]:
        """Return how often each density has fallen on the pieces where both are constant, and their lengths' logs."""
        falls_p, falls_q, log_lengths, outside = _pieces(u, self.share)
        repeated = -math.log(-math.expm1(-self.epsilon))
        return falls_p, falls_q, log_lengths + np.where(outside, repeated, 0.0)

    def _logpdf(self, units: Floats) -> Floats:
        sizes = np.abs(units)
        whole = np.floor(np.minimum(sizes, 2.0**1000))
        with np.errstate(over="ignore"):
            return math.log(self.height) - self.epsilon * (whole + (sizes - whole >= self.share))

    def _tail(self, units: Floats) -> Floats:
        """Return the mass of the rest of the step that u lies in, and of all steps beyond it."""
        fall = math.exp(-self.epsilon)
        with np.errstate(under="ignore", over="ignore"):
            whole = np.floor(np.minimum(units, 2.0**52))
            part = np.minimum(units - whole, 1.0)
            left = np.maximum(self.share - part, 0.0) + fall * (1 - np.maximum(part, self.share))
            beyond = fall * (self.share + fall * (1 - self.share)) / -math.expm1(-self.epsilon)
            return np.exp(-self.epsilon * whole) * self.height * (left + beyond)

    def _reach(self, tails: Floats) -> Floats:
        fall = math.exp(-self.epsilon)
        whole = np.maximum(np.floor(-np.log(2 * tails) / self.epsilon), 0.0)
        first = self.share
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            used = (
                np.clip(0.5 - tails * np.exp(np.minimum(self.epsilon * whole, 700.0)), 0.0, 0.5)
                / self.height
            )
            return whole + np.where(
                used <= first, used, np.minimum(first + (used - first) / fall, 1.0)
            )

    def precise_tail(self, units: Any, mp: Any) -> Any:
        fall, share = mp.exp(-mp.mpf(self.epsilon)), mp.mpf(self.share)
        height = (1 - fall) / (2 * (share + fall * (1 - share)))
        whole = mp.floor(units)
        part = units - whole
        left = max(share - part, mp.mpf(0)) + fall * (1 - max(part, share))
        beyond = fall * (share + fall * (1 - share)) / (1 - fall)
        return fall**whole * height * (left + beyond)

    def _mean_size(self) -> float:
        """Return 2·Σ_j e^{−jε} ∫ of x over the two parts of step j."""
        fall, first = math.exp(-self.epsilon), self.share
        rise = -math.expm1(-self.epsilon)
        if rise < _SHALLOW:
            return math.inf  # beyond the floats
        offset = first * first / 2 + fall * (1 - first * first) / 2
        weight = first + fall * (1 - first)
        return 2 * self.height * (offset / rise + weight * fall / rise**2)

    def _mean_square(self) -> float:
        fall, first = math.exp(-self.epsilon), self.share
        rise = -math.expm1(-self.epsilon)
        if rise < _SHALLOW:
            return math.inf  # beyond the floats
        weight = first + fall * (1 - first)
        once = first**2 / 2 + fall * (1 - first**2) / 2
        twice = first**3 / 3 + fall * (1 - first**3) / 3
        counts = fall / rise**2, fall * (1 + fall) / rise**3
        return 2 * self.height * (twice / rise + 2 * once * counts[0] + weight * counts[1])


@final
@dataclass(frozen=True)
class StaircaseFamily:
    """A family of staircases: calibration finds the scale, and what is left out of the shape."""

    epsilon: float | None
    gamma: float | None

    def __post_init__(self) -> None:
        Staircase(0.0, 1.0 if self.epsilon is None else self.epsilon, self.gamma)  # reads both

    def family(self, guarantee: Guarantee) -> Family:
        """Return the family whose shape, where it is not given, keeps a guarantee with the least expected error."""
        if self.epsilon is not None:
            return self
        promises = tuple(guarantee.singles)
        if guarantee.divergence in (
            Divergence.CONCENTRATED,
            Divergence.GAUSSIAN,
        ):  # kept by pure losses (M29)
            promises = (Pure(largest(lambda epsilon: guarantee.follows_from(Pure(epsilon)), 1e4)),)
        unit = best_staircase(promises, self.gamma)
        return StaircaseFamily(unit.epsilon, unit.gamma)

    def __call__(self, scale: float) -> Staircase:
        if self.epsilon is None:
            raise UsageError(
                "Staircase noise has no epsilon, and no guarantee to choose it for.",
                allowed="an epsilon, or a guarantee to calibrate for",
                instead="pf.Staircase.of(epsilon=1.0)(1.0)",
            )
        return Staircase(scale, self.epsilon, self.gamma)


@functools.lru_cache(maxsize=256)
def best_staircase(promises: tuple[Guarantee, ...], gamma: float | None) -> Staircase:
    """Return the staircase of steps of one unit with the least expected error, by the movement that keeps guarantees.

    For a pure guarantee the fall is its ε (M12, Geng and others). Searched numbers have few digits, so that all
    machines find the same.
    """
    first = promises[0]
    if len(promises) == 1 and isinstance(first, Pure) and first.epsilon > 0:
        return Staircase(1.0, first.epsilon, gamma)

    def error(unit: Staircase) -> float:
        reach = longest_shift(unit, promises)
        return unit.expected_error / reach if reach > 0 else math.inf

    tried = {unit: error(unit) for unit in _candidates(promises, gamma)}
    best = min(tried, key=tried.__getitem__)
    if tried[best] == math.inf:
        raise Refused(
            f"No staircase noise keeps {', '.join(map(repr, promises))}.",
            allowed="a guarantee with epsilon or delta above 0",
            instead="a larger epsilon",
        )
    return _refined(best, tried[best], error, fixed=gamma is not None)


def longest_shift(unit: Staircase, promises: Sequence[Guarantee]) -> float:
    """Return how long a shift may be that keeps guarantees, up to _MOST_STEPS steps; to about nine digits."""
    return min(_longest(unit, one) for one in promises)


def _longest(unit: Staircase, promise: Guarantee) -> float:
    """Return the first crossing of the line through the losses at all bends."""
    match promise.divergence:
        case Divergence.LOG_RATIO:
            return min(math.floor(promise.epsilon / unit.epsilon + _WHOLE), _MOST_STEPS_OF_SHAPE)
        case Divergence.CONCENTRATED:
            return _steps(unit.zcdp(_STEPS), promise.loss)
        case Divergence.GAUSSIAN:
            return _steps(unit.gdp(_STEPS), promise.loss)
        case Divergence.RENYI:
            shifts = unit.bends(_MOST_STEPS_OF_SHAPE)
            rates = (promise.alpha - 1) * (unit.renyi(shifts, promise.alpha) - promise.epsilon)
            values, limit = np.exp(np.minimum(rates, 600.0)), 1.0
            start = math.exp(-(promise.alpha - 1) * promise.epsilon)
        case Divergence.HOCKEY_STICK:
            shifts = unit.bends(_MOST_STEPS_OF_SHAPE)
            values, limit, start = unit.delta(shifts, promise.epsilon), promise.delta, 0.0
    shifts, values = np.append(0.0, shifts), np.append(start, values)
    above = np.flatnonzero(values > limit)
    if not len(above):
        return float(shifts[-1])
    after = int(above[0])
    if after == 0:
        return 0.0
    low, high = float(values[after - 1]), float(values[after])
    return float(
        shifts[after - 1] + (limit - low) / (high - low) * (shifts[after] - shifts[after - 1])
    )


def _steps(losses: Floats, most: float) -> float:
    """Return the largest movement in whole steps, where a loss follows from the pure one."""
    return float(np.searchsorted(losses, most, side="right"))


def _fall_of(promise: Guarantee, steps: int) -> float:
    """Return the largest fall with which so many steps keep a guarantee whose loss follows from the pure one."""
    return largest(
        lambda fall: fall == 0 or _longest(Staircase(1.0, fall, 0.5), promise) >= steps, _STEEPEST
    )


def _candidates(promises: Sequence[Guarantee], gamma: float | None) -> Iterator[Staircase]:
    """Yield staircases: those that a guarantee's own ε suggests, and a coarse grid."""
    own = [one.epsilon / steps for one in promises for steps in (1, 2) if 0 < one.epsilon < 1e3]
    totals = [one.delta for one in promises if one.epsilon == 0 and one.delta > 0]
    own += [
        _fall_of(one, steps)
        for one in promises
        if one.divergence in _OF_PURE
        for steps in (1, 2, 3)
    ]
    for fall in dict.fromkeys([fall for fall in own if fall > 0] + [*_FALLS]):
        gammas = [
            *_GAMMAS,
            best_gamma(fall),
            *itertools.chain(*(gammas_of_tv(fall, tv) for tv in totals)),
        ]
        yield from (
            Staircase(1.0, fall, one) for one in dict.fromkeys(gammas if gamma is None else [gamma])
        )


def gammas_of_tv(epsilon: float, tv: float) -> list[float]:
    """Return the shares with which a movement of one step has this total variation: M12's formula, solved (M12).

    The total variation rises from (1 − e^(−ε))/2 at γ = 0 to tanh(ε/2) at γ = 1/2. From there it falls back, to the
    same value at γ = 1.

    >>> [round(gamma, 4) for gamma in gammas_of_tv(1.0, 0.3234)], gammas_of_tv(1.0, 0.5)
    ([0.0138, 0.9641], [])
    """
    fall = math.exp(-epsilon)
    rise = -math.expm1(-epsilon)
    if not rise / 2 <= tv <= math.tanh(epsilon / 2):
        return []
    low = fall * (2 * tv - rise) / (2 * rise * (rise - tv))
    high = (rise / (2 * tv) - fall) / rise
    return [min(max(low, 0.0), 0.5), min(max(high, 0.5), 1.0)]


def _refined(
    best: Staircase, least: float, error: Callable[[Staircase], float], *, fixed: bool
) -> Staircase:
    """Return the best staircase near one, by halved steps; a fall that the guarantee gives is kept."""
    step = 0.5
    while step > _FINEST:
        falls = [_rounded(best.epsilon * factor) for factor in (1 / (1 + step), 1 + step)]
        near = [Staircase(1.0, fall, best.gamma) for fall in falls if fall > 0]
        if not fixed:
            moved = [_rounded(best.share * factor) for factor in (1 / (1 + step), 1 + step)]
            near += [Staircase(1.0, best.epsilon, min(gamma, 1.0)) for gamma in moved]
        errors = {unit: error(unit) for unit in near}
        nearest = min(errors, key=errors.__getitem__)
        if errors[nearest] < least * (1 - _WHOLE):
            best, least = nearest, errors[nearest]
        else:
            step /= 2
    return best


def _rounded(number: float) -> float:
    """Return a number rounded down to six digits."""
    digits = 10.0 ** (5 - math.floor(math.log10(number))) if number > 0 else 1.0
    return math.floor(number * digits) / digits


@functools.lru_cache(maxsize=4096)
def _pieces(u: float, gamma: float) -> tuple[Floats, Floats, Floats, Array]:
    """Return the falls of both densities on each piece, the logs of the lengths, and which pieces lie outside [0, u].

    Beyond one step outside [0, u] everything repeats, e^(−ε) times as heavy: so the pieces of the first step on each
    side count 1/(1 − e^(−ε)) times. Edges are rational numbers: a piece of one ulp can weigh most. The pieces do not
    depend on the fall, so a search finds most of them in the cache.
    """
    move, share = Fraction(u), Fraction(gamma)
    falls_p, falls_q, log_lengths = _inner_pieces(move, share)
    inside = len(falls_p)
    edges = sorted({Fraction(0), share, (share - move) % 1, Fraction(1)})
    for low, high in itertools.pairwise(edges):
        near, far = (_count_falls(distance + (low + high) / 2, share) for distance in (0, move))
        falls_p, falls_q = np.append(falls_p, [far, near]), np.append(falls_q, [near, far])
        log_lengths = np.append(log_lengths, [_log(high - low)] * 2)
    return falls_p, falls_q, log_lengths, np.arange(len(falls_p)) >= inside


def _inner_pieces(move: Fraction, share: Fraction) -> tuple[Floats, Floats, Floats]:
    """Return the pieces of [0, move]: q falls at share + j, p rises at move − share − j.

    Both sets of jumps are one step apart, so that two remainders order them all and pieces have few lengths.
    """
    rest = move - share
    count = max(math.ceil(rest), 0)
    remainders = sorted({share % 1, rest % 1})
    places = [2 * math.floor(first) + remainders.index(first % 1) for first in (share, rest)]
    downs, ups = places[0] + 2 * np.arange(count), places[1] - 2 * np.arange(count)[::-1]
    keys = np.unique(np.concatenate([downs, ups]))

    def at(key: int) -> Fraction:
        return key // 2 + remainders[key % 2]

    falls_q = np.append(0, np.searchsorted(downs, keys, side="right"))
    falls_p = count - np.append(0, np.searchsorted(ups, keys, side="right"))
    ends = [at(int(keys[0])), move - at(int(keys[-1]))] if count else [move]
    codes, which = np.unique(4 * np.diff(keys) + keys[:-1] % 2, return_inverse=True)
    lengths = [*ends, *(at(code % 4 + code // 4) - at(code % 4) for code in codes.tolist())]
    logs = np.array([_log(length) if length > 0 else -math.inf for length in lengths])
    log_lengths = np.concatenate([logs[:1], logs[len(ends) :][which], logs[1 : len(ends)]])
    positive = log_lengths > -math.inf
    return (
        falls_p[positive].astype(np.float64),
        falls_q[positive].astype(np.float64),
        log_lengths[positive],
    )


def _count_falls(size: Fraction, share: Fraction) -> int:
    """Return how often the density has fallen at a distance from its middle."""
    whole = math.floor(size)
    return whole + (size - whole >= share)


def _below(u: float) -> float:
    return math.nextafter(u, 0.0)


def _log(length: Fraction) -> float:
    """Return the logarithm of a length, however short."""
    return math.log(length.numerator) - math.log(length.denominator)
