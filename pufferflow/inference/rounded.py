"""Answers whose rows are rounded to whole steps one by one, as those about an interval are: what that adds (M13)."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.bounds import Laws, Pair, Reach
from pufferflow.bounds.laws import Work
from pufferflow.inference.cells import Cells
from pufferflow.inference.one_pair import OnePair
from pufferflow.inference.question import Floats
from pufferflow.law import Law
from pufferflow.rounding import float_above
from pufferflow.transport import Certainty


@final
class Rounded(OnePair):
    """Laws of linear φ, whose rows are read as whole steps: k(x) is φ(x), rounded monotonically.

    A row that moves in the linear answers moves by up to a step more in the rounded ones, |k(a) − k(b)| ≤ |φ(a) − φ(b)|
    + 1 step; a row that does not move stays. So every coupling that moves the answers by z moves them by z and the
    rounding of all rows that can move (M1), and never by more than the group, whose ends are whole steps themselves:
    between them k lies as φ does. `growth` is the rounding, `group` the movement of all rows between the ends.
    """

    def __init__(self, laws: Laws, growth: Cells, group: Cells) -> None:
        self._laws, self._growth, self._group = laws, growth, group

    @property
    def dimension(self) -> int:
        """The number of coordinates of the answer."""
        return self._laws.dimension

    @property
    def certainty(self) -> Certainty:
        """That of the linear answers' laws; reaches that grow say so themselves."""
        return self._laws.certainty

    @cached_property
    def work(self) -> Work:
        """That of the linear answers."""
        return self._laws.work

    @cached_property
    def small(self) -> bool:
        """Whether there are pairs of linear answers to look at."""
        return self._laws.small

    def winf(self, norm: float) -> Reach:
        """Return the movement with its rounding."""
        return self._grown(self._laws.winf, norm)

    def near(self, delta: float, norm: float) -> Reach:
        """Return the movement of all but delta, with its rounding."""
        return self._grown(lambda norm: self._laws.near(delta, norm), norm)

    def span(self, norm: float) -> Reach:
        """Return the movement of all rows that may change, with its rounding."""
        return self._grown(self._laws.span, norm)

    def least_winf(self, norm: float) -> Reach:
        """Return what the linear answers need; rounding adds to it, so what is found is not below."""
        return self._laws.least_winf(norm)

    def least_near(self, delta: float, norm: float) -> Reach:
        """Return what the linear answers need, likewise."""
        return self._laws.least_near(delta, norm)

    def _grown(self, measure: Callable[[float], Reach], norm: float) -> Reach:
        reach, whole = measure(norm), self._group.length(norm)
        if reach.length >= whole:
            return replace(reach, length=whole)
        grown = float_above(Fraction(reach.length) + Fraction(self._growth.length(norm)))
        certainty = reach.certainty if grown == reach.length else Certainty.UPPER_BOUND
        return replace(reach, length=min(grown, whole), certainty=certainty)

    def _farthest_pair(self) -> Pair:
        """Return the farthest that each linear answer moves in any pair, with its rounding."""
        pairs = list(self._laws)
        moved = np.max([_sizes(pair) for pair in pairs], axis=0)
        grown = np.minimum(np.nextafter(moved + self._growth.steps, np.inf), self._group.steps)
        start, end = Law.point(np.zeros(len(grown))), Law.point(grown)
        return Pair(start, end, pairs[0].prior, pairs[0].secrets, pairs[0].row)


def _sizes(pair: Pair) -> Floats:
    """Return how far apart the points of a pair are, coordinate by coordinate, rounded up."""
    left, right = (np.atleast_1d(np.asarray(law.values)[0]) for law in pair if isinstance(law, Law))
    return np.array([float_above(abs(Fraction(a) - Fraction(b))) for a, b in zip(left, right, strict=True)])
