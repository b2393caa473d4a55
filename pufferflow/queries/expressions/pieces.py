"""Piecewise linear functions on an interval, in rational numbers; they may jump.

Knots cut the interval. Between two of them the function is a line, and at each knot it has a value of its own: `<` and
`<=` differ at single points, and so do these functions.
"""

import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple, Self, final

from pufferflow.core.errors import Refused

_MOST: Final = 200
ZERO: Final = Fraction(0)


class Line(NamedTuple):
    """intercept + slope · x."""

    intercept: Fraction
    slope: Fraction = ZERO

    def on(self, x: Fraction) -> Fraction:
        """Return the value at x."""
        return self.intercept + self.slope * x


class NotLinearError(Exception):
    """The result is not piecewise linear, such as a product of two functions of which neither is constant."""


class NotPredicatesError(Exception):
    """Functions that have to be 0 or 1 have other values."""


@final
@dataclass(frozen=True)
class Pieces:
    """A function on [knots[0], knots[-1]]: at[i] at knots[i], and lines[i] between knots[i] and knots[i + 1]."""

    knots: tuple[Fraction, ...]
    at: tuple[Fraction, ...]
    lines: tuple[Line, ...]

    @classmethod
    def line(cls, low: Fraction, high: Fraction, line: Line) -> Self:
        """Return a single line.

        >>> Pieces.line(Fraction(0), Fraction(2), Line(Fraction(1), Fraction(3))).at
        (Fraction(1, 1), Fraction(7, 1))
        """
        return cls((low, high), (line.on(low), line.on(high)), (line,))

    @property
    def straight(self) -> bool:
        """Whether the function is a single line."""
        return len(self.lines) == 1 and self.continuous

    @property
    def flat(self) -> bool:
        """Whether every line is level."""
        return not any(line.slope for line in self.lines)

    @property
    def predicate(self) -> bool:
        """Whether every value is 0 or 1."""
        return self.flat and set(self.values()) <= {0, 1}

    @property
    def continuous(self) -> bool:
        """Whether the function jumps nowhere."""
        points = itertools.pairwise(zip(self.knots, self.at, strict=True))
        return all(
            line.on(x) == y for line, ends in zip(self.lines, points, strict=True) for x, y in ends
        )

    def values(self) -> list[Fraction]:
        """Return the values at the knots and the limits on both sides of them; all others lie between these."""
        ends = [
            line.on(x)
            for line, ends in zip(self.lines, itertools.pairwise(self.knots), strict=True)
            for x in ends
        ]
        return [*self.at, *ends]

    def on(self, x: Fraction) -> Fraction:
        """Return the value at a number of the interval."""
        place = bisect_left(self.knots, x)
        return self.at[place] if self.knots[place] == x else self.lines[place - 1].on(x)

    def cut(self, more: Iterable[Fraction]) -> "Pieces":
        """Return the same function with more knots."""
        knots = tuple(sorted({*self.knots, *more}))
        lines = tuple(self.lines[bisect_left(self.knots, high) - 1] for high in knots[1:])
        return Pieces(knots, tuple(map(self.on, knots)), lines)

    def followed_by(self, end: Fraction, value: Fraction) -> "Pieces":
        """Return the same function with one value beyond its last knot, up to an end.

        >>> one = Pieces.line(Fraction(0), Fraction(2), Line(Fraction(1)))
        >>> one.followed_by(Fraction(3), Fraction(0)).on(Fraction(3))
        Fraction(0, 1)
        """
        return Pieces((*self.knots, end), (*self.at, value), (*self.lines, Line(value)))

    def upto(self, end: Fraction) -> "Pieces":
        """Return the same function up to one of its knots."""
        last = self.knots.index(end)
        return Pieces(self.knots[: last + 1], self.at[: last + 1], self.lines[:last])

    def tidy(self) -> "Pieces":
        """Return the same function without knots between two pieces of one line."""
        inner = [
            place
            for place, x in enumerate(self.knots[1:-1], 1)
            if self.lines[place - 1] != self.lines[place]
            or self.lines[place].on(x) != self.at[place]
        ]
        if len(inner) >= _MOST:
            raise Refused(
                f"The expression has more than {_MOST} pieces.",
                allowed=f"functions of up to {_MOST} pieces on an interval",
                instead="pf.Bins(edges, values) as the domain of the column",
            )
        places = [0, *inner, len(self.lines)]
        return Pieces(
            tuple(self.knots[place] for place in places),
            tuple(self.at[place] for place in places),
            tuple(self.lines[place] for place in places[:-1]),
        )

    def mapped(self, change: Callable[[Line], Line]) -> "Pieces":
        """Return the function whose lines and values are changed one by one."""
        at = tuple(change(Line(y)).intercept for y in self.at)
        return Pieces(self.knots, at, tuple(map(change, self.lines))).tidy()

    def sign(self) -> "Pieces":
        """Return −1, 0 or 1, with knots where the function passes 0."""
        roots: list[Fraction] = []
        for line, (low, high) in zip(self.lines, itertools.pairwise(self.knots), strict=True):
            if line.slope and low < -line.intercept / line.slope < high:
                roots.append(-line.intercept / line.slope)
        whole = self.cut(roots)
        middles = [(low + high) / 2 for low, high in itertools.pairwise(whole.knots)]
        lines = tuple(Line(_sign(line.on(x))) for line, x in zip(whole.lines, middles, strict=True))
        return Pieces(whole.knots, tuple(map(_sign, whole.at)), lines)

    def __add__(self, other: "Pieces") -> "Pieces":
        return _together(_sum, self, other)

    def __neg__(self) -> "Pieces":
        return self.mapped(lambda line: Line(-line.intercept, -line.slope))

    def __sub__(self, other: "Pieces") -> "Pieces":
        return self + -other

    def __mul__(self, other: "Pieces") -> "Pieces":
        return _together(_product, self, other)


def _together(change: Callable[..., Line], *functions: Pieces) -> Pieces:
    """Return the function that `change` makes of several, from their lines; a value counts as a level line."""
    knots = {x for function in functions for x in function.knots}
    cut = [function.cut(knots) for function in functions]
    at = tuple(
        change(*map(Line, values)).intercept
        for values in zip(*(one.at for one in cut), strict=True)
    )
    lines = tuple(change(*lines) for lines in zip(*(one.lines for one in cut), strict=True))
    return Pieces(cut[0].knots, at, lines).tidy()


def _sum(first: Line, second: Line) -> Line:
    return Line(first.intercept + second.intercept, first.slope + second.slope)


def _product(first: Line, second: Line) -> Line:
    if first.slope and second.slope:
        raise NotLinearError
    level, other = (second, first) if first.slope else (first, second)
    return Line(level.intercept * other.intercept, level.intercept * other.slope)


def _choice(predicate: Line, truthy: Line, falsy: Line) -> Line:
    return truthy if predicate.intercept else falsy


def where(predicate: Pieces, truthy: Pieces, falsy: Pieces) -> Pieces:
    """Return one function where a predicate is 1, and another where it is 0."""
    return _together(_choice, predicate, truthy, falsy)


def either(first: Pieces, second: Pieces) -> Pieces:
    """Return 1 where one of two predicates is 1, or both are."""
    return first + second - first * second


COMPARISONS: Final[dict[str, Callable[[Fraction], bool]]] = {
    "==": lambda sign: sign == 0,
    "eq_missing": lambda sign: sign == 0,
    "!=": lambda sign: sign != 0,
    "ne_missing": lambda sign: sign != 0,
    "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
    ">": lambda sign: sign > 0,
    ">=": lambda sign: sign >= 0,
}
"""Which signs of a difference make a comparison true."""


def compare(first: Pieces, comparison: str, second: Pieces) -> Pieces:
    """Return 1 where a comparison of two functions is true, else 0."""
    holds = COMPARISONS[comparison]
    return (first - second).sign().mapped(lambda line: Line(Fraction(holds(line.intercept))))


def _sign(y: Fraction) -> Fraction:
    return Fraction((y > 0) - (y < 0))
