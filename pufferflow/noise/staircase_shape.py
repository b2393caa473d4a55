"""The shape of staircase noise for a guarantee: the fall per step, and its place, of least expected error (M12).

Between two shifts at which jumps meet, both integrals of a staircase, E e^((α−1)·loss) and the hockey stick, are linear
in the shift. So the longest shift that keeps a guarantee has a closed form in a few losses, for every shape, and the
shape of the least expected error is searched. The result is only a shape: a bound proves its scale.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused
from pufferflow.core.roots import largest
from pufferflow.privacy.guarantee import Divergence, Guarantee, Pure

_MOST_STEPS: Final = 3.0
"""The largest number of steps within one movement: staircase noise of more steps is nearly Laplace noise."""
_STEPS: Final = np.arange(1.0, _MOST_STEPS + 1)
_OF_PURE: Final = (Divergence.CONCENTRATED, Divergence.GAUSSIAN)
_STEEPEST: Final = 600.0
_FALLS: Final = tuple(round(fall, 3) for fall in np.geomspace(0.1, 20.0, 12).tolist())
_GAMMAS: Final = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0)
_FINEST: Final = 1e-3
_WHOLE: Final = 1e-9


class Stairs(Protocol):
    """A staircase of one step per unit, by its losses."""

    @property
    def expected_error(self) -> float:
        """The expected absolute value."""
        ...

    def bends(self, radius: float) -> Floats:
        """Return the shifts up to a radius between which integrals are linear, in order."""
        ...

    def renyi(self, shift: Floats, alpha: float) -> Floats:
        """Return Rényi losses of shifts."""
        ...

    def delta(self, shift: Floats, epsilon: float) -> Floats:
        """Return hockey sticks of shifts."""
        ...

    def zcdp(self, shift: Floats) -> Floats:
        """Return concentrated losses of shifts."""
        ...

    def gdp(self, shift: Floats) -> Floats:
        """Return Gaussian losses of shifts."""
        ...


@final
@dataclass(frozen=True)
class Shape:
    """The fall of the log density per step, and the share of the step at which it is."""

    epsilon: float
    gamma: float


def best_gamma(epsilon: float) -> float:
    """Return the share with the least expected error where a movement is one step: 1/(1 + e^(ε/2))."""
    return 1 / (1 + math.exp(min(epsilon, 1400.0) / 2))


@functools.lru_cache(maxsize=256)
def best_shape(promises: tuple[Guarantee, ...], gamma: float | None, stairs: Callable[[Shape], Stairs]) -> Shape:
    """Return the shape with the least expected error among those that keep guarantees for a movement of one unit.

    For a pure guarantee the fall is its ε (M12, Geng and others). Searched numbers have few digits, so that all
    machines find the same.
    """
    first = promises[0]
    if len(promises) == 1 and isinstance(first, Pure) and first.epsilon > 0:
        return Shape(first.epsilon, best_gamma(first.epsilon) if gamma is None else gamma)

    def error(shape: Shape) -> float:
        unit = stairs(shape)
        reach = longest_shift(unit, shape, promises)
        return unit.expected_error / reach if reach > 0 else math.inf

    tried = {shape: error(shape) for shape in _candidates(promises, gamma, stairs)}
    best = min(tried, key=tried.__getitem__)
    if tried[best] == math.inf:
        raise Refused(
            f"Staircase noise of any shape for {', '.join(map(repr, promises))}.",
            allowed="a guarantee with epsilon or delta above 0",
            instead="a larger epsilon",
        )
    return _refined(best, tried[best], error, fixed=gamma is not None)


def longest_shift(unit: Stairs, shape: Shape, promises: Sequence[Guarantee]) -> float:
    """Return how long a shift may be that keeps guarantees, up to _MOST_STEPS steps; to about nine digits."""
    return min(_longest(unit, shape, one) for one in promises)


def _longest(unit: Stairs, shape: Shape, promise: Guarantee) -> float:
    """Return the first crossing of the line through the losses at all bends."""
    match promise.divergence:
        case Divergence.LOG_RATIO:
            return min(math.floor(promise.epsilon / shape.epsilon + _WHOLE), _MOST_STEPS)
        case Divergence.CONCENTRATED:
            return _steps(unit.zcdp(_STEPS), promise.loss)
        case Divergence.GAUSSIAN:
            return _steps(unit.gdp(_STEPS), promise.loss)
        case Divergence.RENYI:
            shifts = unit.bends(_MOST_STEPS)
            rates = (promise.alpha - 1) * (unit.renyi(shifts, promise.alpha) - promise.epsilon)
            values, limit = np.exp(np.minimum(rates, 600.0)), 1.0
            start = math.exp(-(promise.alpha - 1) * promise.epsilon)
        case Divergence.HOCKEY_STICK:
            shifts = unit.bends(_MOST_STEPS)
            values, limit, start = unit.delta(shifts, promise.epsilon), promise.delta, 0.0
    shifts, values = np.append(0.0, shifts), np.append(start, values)
    above = np.flatnonzero(values > limit)
    if not len(above):
        return float(shifts[-1])
    after = int(above[0])
    if after == 0:
        return 0.0
    low, high = float(values[after - 1]), float(values[after])
    return float(shifts[after - 1] + (limit - low) / (high - low) * (shifts[after] - shifts[after - 1]))


def _steps(losses: Floats, most: float) -> float:
    """Return the largest movement in whole steps, where a loss follows from the pure one."""
    return float(np.searchsorted(losses, most, side="right"))


def _fall_of(promise: Guarantee, steps: int, stairs: Callable[[Shape], Stairs]) -> float:
    """Return the largest fall with which so many steps keep a guarantee whose loss follows from the pure one."""
    return largest(
        lambda fall: fall == 0 or _longest(stairs(Shape(fall, 0.5)), Shape(fall, 0.5), promise) >= steps, _STEEPEST
    )


def _candidates(
    promises: Sequence[Guarantee], gamma: float | None, stairs: Callable[[Shape], Stairs]
) -> Iterator[Shape]:
    """Yield shapes: those that a guarantee's own ε suggests, and a coarse grid."""
    own = [one.epsilon / steps for one in promises for steps in (1, 2) if 0 < one.epsilon < 1e3]
    totals = [one.delta for one in promises if one.epsilon == 0 and one.delta > 0]
    own += [_fall_of(one, steps, stairs) for one in promises if one.divergence in _OF_PURE for steps in (1, 2, 3)]
    for fall in dict.fromkeys([fall for fall in own if fall > 0] + [*_FALLS]):
        gammas = [*_GAMMAS, best_gamma(fall), *itertools.chain(*(gammas_of_tv(fall, tv) for tv in totals))]
        yield from (Shape(fall, one) for one in dict.fromkeys(gammas if gamma is None else [gamma]))


def gammas_of_tv(epsilon: float, tv: float) -> list[float]:
    """Return the shares with which a movement of one step has this total variation: M12's formula, solved (M12).

    It rises from (1 − e^(−ε))/2 at γ = 0 to tanh(ε/2) at γ = 1/2, and falls back to where it began at γ = 1.

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


def _refined(best: Shape, least: float, error: Callable[[Shape], float], *, fixed: bool) -> Shape:
    """Return the best shape near one, by halved steps; a fall that the guarantee gives is kept."""
    step = 0.5
    while step > _FINEST:
        falls = [_rounded(best.epsilon * factor) for factor in (1 / (1 + step), 1 + step)]
        near = [Shape(fall, best.gamma) for fall in falls if fall > 0]
        if not fixed:
            moved = [_rounded(best.gamma * factor) for factor in (1 / (1 + step), 1 + step)]
            near += [Shape(best.epsilon, min(gamma, 1.0)) for gamma in moved]
        errors = {shape: error(shape) for shape in near}
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
