"""Which distance to try next, in the search for the least one that does.

Every trial says by how much it fails (or does not), and moves one of two ends: below `low` nothing does, `high` does.
While the sets that fail are simple, `low` itself is likely the answer and is tried, but not more than a few times in a
row without halving the range. While they are many, the excess is a smooth curve, and the next trial is where a parabola
through the last three trials says that it is 0.
"""

import itertools
import math
from fractions import Fraction
from typing import Any

_PATIENCE = 6
"""Climbs before every other trial halves the range."""
_SUSPICIOUS = 3
"""Trials in a row that do, after which the range is halved; after as many again the lower end is tried."""


class Search:
    """The two ends, the next distance to try, and what the last trials said."""

    def __init__(self, low: Any, stride: Any, guess: Any) -> None:
        self.low, self.guess = low, guess
        self.high: Any = None
        self._stride = stride
        self._trials: list[tuple[Any, float]] = []
        self._climbs = self._streak = 0
        self._many = False

    def does(self, high: Any, excess: float) -> None:
        """Note that the trial does, and the largest distance that is not above it."""
        self._trials = [*self._trials[-2:], (self.guess, excess)]
        self.high = high
        self._streak += 1

    def fails(self, low: Any, excess: float, *, many: bool) -> None:
        """Note that the trial does not, a distance below which nothing does, and whether what fails is manifold."""
        self._trials = [*self._trials[-2:], (self.guess, excess)]
        self.low, self._many = low, many
        self._climbs += 1
        self._streak = 0

    def advance(self) -> None:
        """Choose the next distance to try, from `low` up to below `high`."""
        impatient = self._many or (self._climbs > _PATIENCE and self._climbs % 2 == 0)
        if self.high is None:
            self.guess = max(self.low, 4 * self.guess, self._stride) if impatient else self.low
        elif self._streak > 1 and self._trials[-1][1] == self._trials[-2][1]:
            self.guess = self.low  # nothing that matters lies between the last two; what does may be all at the end
        elif self._many and self._streak < _SUSPICIOUS:
            guess = self._on_the_curve()
            self.guess = guess if self.low <= guess < self.high else self._middle()
        elif impatient and self._streak < 2 * _SUSPICIOUS:
            self.guess = self._middle()
        else:
            self.guess = self.low

    def _on_the_curve(self) -> Any:
        """Return where the excess is 0 on the curve through the last trials, distance as a polynomial of excess."""
        if len({excess for _, excess in self._trials}) < len(self._trials):
            return self.high
        guess = 0.0
        for at, (distance, excess) in enumerate(self._trials):
            others = (other for _, other in itertools.chain(self._trials[:at], self._trials[at + 1 :]))
            guess += float(distance) * math.prod(other / (other - excess) for other in others)
        return Fraction(guess).limit_denominator(10**6) if isinstance(self.high, Fraction) else guess

    def _middle(self) -> Any:
        """Return the middle of the range, in orders of magnitude if it spans several."""
        if isinstance(self.high, Fraction) or isinstance(self.low, Fraction) or not 0 < 4 * self.low < self.high:
            middle = self.low + (self.high - self.low) / 2
            return middle if middle < self.high else self.low
        return math.sqrt(self.low) * math.sqrt(self.high)
