"""What follows from δ(ε) of releases together: ε(δ), total variation, errors of tests, Bayes security."""

import abc
import math
from collections.abc import Callable
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import UNIT, largest
from pufferflow.core.validate import probability_below_one

_GOLDEN: Final = (math.sqrt(5) - 1) / 2
_STEPS: Final = 48
_STEEPEST: Final = 700.0
_NEAR_NOTHING: Final = 1e-3
"""Below this ε the search checks whether 0 suffices, by the most accurate δ(0)."""


class TradeOffCurve(InNotebooks, abc.ABC):
    """Base class with a trade-off: all numbers follow from upper bounds of δ(ε), in both orders of the secrets."""

    @property
    @abc.abstractmethod
    def largest(self) -> float:
        """The ε beyond which δ does not fall, ∞ if there is none."""

    @abc.abstractmethod
    def delta(self, epsilon: float) -> float:
        """Return the δ with which the releases together are (epsilon, δ)-private, rounded up."""

    @property
    def revealed(self) -> float:
        """The limit of δ for large ε."""
        return self.delta(self.largest) if self.largest < math.inf else 0.0

    def near(self, delta: float) -> Callable[[float], float]:
        """Return `delta` as a quick function that is accurate where it is about a given δ, and nowhere too low."""
        return self.delta

    def epsilon(self, delta: float = 0.0) -> float:
        """Return the least ε with which the releases together are (ε, delta)-private; ∞ if there is none.

        >>> import pufferflow as pf
        >>> pf.tradeoff.compose(pf.tradeoff.Profile(1.0), 5).epsilon(0.0)
        5.0
        """
        allowed = probability_below_one(delta, "delta")
        if self.revealed > allowed:
            return math.inf
        curve = self.near(allowed) if allowed > 0 else self.delta
        end = self.largest
        if curve(0.0) <= allowed:
            return 0.0
        if allowed <= 0:
            return end
        if end == math.inf:
            end = 1.0
            while curve(end) > allowed:
                end *= 2
                if end == math.inf:
                    return end
        found = min(
            math.nextafter(largest(lambda epsilon: curve(epsilon) > allowed, end), math.inf),
            self.largest,
        )
        return 0.0 if found < _NEAR_NOTHING and self.delta(0.0) <= allowed else found

    @property
    def tv(self) -> float:
        """The total variation of the releases together: δ at ε = 0."""
        return self.delta(0.0)

    @property
    def advantage(self) -> float:
        """The best membership test's rate of true positives minus that of false positives: the total variation."""
        return self.tv

    @property
    def bayes_security(self) -> float:
        """β* = 1 − total variation, rounded down: twice the error of the best guess at two equally likely secrets."""
        return max(1 - self.tv - UNIT, 0.0)

    @overload
    def curve(self, alpha: float) -> float: ...
    @overload
    def curve(self, alpha: npt.ArrayLike) -> Any: ...
    def curve(self, alpha: float | npt.ArrayLike) -> float | Floats:
        """Return f(alpha), rounded down: the least rate of misses of any test with a rate alpha of false alarms.

        Every ε gives a line below f, 1 − δ(ε) − e^ε·alpha, and its mirror image; the best ones are searched.
        """
        given = _numbers(alpha, "alpha", "curve(0.05)")
        if given.size and not ((given >= 0) & (given <= 1)).all():
            raise UsageError(
                "alpha is no probability.", allowed="numbers from 0 to 1", instead="curve(0.05)"
            )
        values = np.array([self._least_misses(float(one)) for one in given.ravel()])
        return float(values[0]) if given.ndim == 0 else values.reshape(given.shape)

    def _least_misses(self, alpha: float) -> float:
        end = min(self.largest, _STEEPEST)

        def line(epsilon: float) -> float:
            return 1 - self.delta(epsilon) - math.exp(epsilon) * alpha

        def mirrored(epsilon: float) -> float:
            return math.exp(-epsilon) * (1 - self.delta(epsilon) - alpha)

        return max(max(_highest(line, end), _highest(mirrored, end)) - 4 * UNIT, 0.0)

    def deltas(self, epsilons: npt.ArrayLike) -> Floats:
        """Return δ at many ε."""
        given = _numbers(epsilons, "epsilons", "deltas([0.0, 0.5, 1.0])")
        return np.array([self.delta(float(epsilon)) for epsilon in given.ravel()])


def _highest(function: Callable[[float], float], end: float) -> float:
    """Return a value near the maximum of a function that rises, then falls, on [0, end]; the function attains it."""
    if end <= 0:
        return function(0.0)
    while end > 1 and function(end) <= function(end / 2):
        end /= 2
    low, high = 0.0, min(2 * end, _STEEPEST)
    best = max(function(0.0), function(end))
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(_STEPS):
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
        best = max(best, at_left, at_right)
    return best


def _numbers(given: object, name: str, instead: str) -> Floats:
    """Return numbers as an array; refuse texts and booleans."""
    refusal = UsageError(
        f"{name} is no number.", allowed="a number, or an array of numbers", instead=instead
    )
    try:
        found = np.asarray(given)
        floats = found.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise refusal from error
    if found.size and found.dtype.kind not in "iufO":
        raise refusal
    return floats
