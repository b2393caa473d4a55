"""φ on an interval: a piecewise linear function, or the square of a line, read from a closed form."""

import math
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Self, cast, final

import polars as pl

from pufferflow.core.errors import Refused
from pufferflow.core.rounding import float_above, float_below
from pufferflow.models.domain import Interval
from pufferflow.queries.expressions.formula import Formula, Segment
from pufferflow.queries.expressions.on_points import squared_words
from pufferflow.queries.expressions.pieces import ZERO, Line, Pieces
from pufferflow.queries.expressions.values import LINE_LIMIT, Values, exact_unit, fitting_unit, grid

_LARGEST: Final = Fraction(2) ** 300
_FLOAT_ERROR: Final = Fraction(1, 2**18)
"""No number of steps is computed farther than this from the exact one, before it is rounded."""


@final
@dataclass(frozen=True, repr=False)
class OnInterval(Values):
    """φ on an interval, as `pieces`, or their square where `square` says so; |steps| ≤ 2^30.

    `affine` says that φ is a single line. `slope` is how many steps φ changes at most per unit of the column, None if
    it jumps; what is read obeys |steps(a) − steps(b)| ≤ slope·|a − b| + 1, the 1 for rounding to whole steps. It is
    raised by the relative margin 4·`_FLOAT_ERROR` where floats round before that. Steps of a line are monotone, as it.
    """

    affine: bool
    slope: Fraction | None
    pieces: Pieces
    square: bool
    stored_as = "Lined"

    @classmethod
    def of(  # noqa: PLR0913 - the fields themselves
        cls,
        column: str,
        domain: Interval,
        pieces: Pieces,
        words: str,
        *,
        boolean: bool = False,
        name: str | None = None,
        at_missing: Fraction = ZERO,
    ) -> Self:
        """Return φ for a piecewise linear function: level ones on the coarsest grid they fit, others on the finest.

        Where missing values are a state of their own, φ is `at_missing` there.

        >>> line = Pieces.line(Fraction(0), Fraction(5), Line(Fraction(0), Fraction(1)))
        >>> OnInterval.of("x", Interval(0, 5), line, "x").slope == 2**27
        True
        """
        pieces = _with_missing(domain, pieces, at_missing)
        held = pieces.values()
        largest = max(map(abs, held))
        unit = grid(held, LINE_LIMIT) if pieces.flat else fitting_unit(largest, LINE_LIMIT)
        steepest = max(abs(line.slope) for line in pieces.lines) / unit
        _moderate(domain, largest, steepest)
        exact = not steepest or (pieces.straight and _scales(pieces.lines[0], unit))
        return cls(
            column,
            domain,
            words,
            boolean,
            unit,
            low=round(min(held) / unit),
            high=round(max(held) / unit),
            name=name,
            affine=pieces.straight,
            slope=_raised(steepest, exact=exact) if pieces.continuous and not domain.skips else None,
            pieces=pieces,
            square=False,
        )

    @classmethod
    def indicator(cls, column: str, domain: Interval, pieces: Pieces, words: str) -> Self:
        """Return φ for a function that is 0 or 1; quicker than `of`, for there may be thousands."""
        values = {bool(value) for value in pieces.at} | {bool(line.intercept) for line in pieces.lines}
        if len(values) == 1:  # its missing values are left out too
            return cls.of(column, domain, pieces, words, boolean=True)
        _moderate(domain, Fraction(1), Fraction(0))
        pieces = _with_missing(domain, pieces, ZERO)
        return cls(
            *(column, domain, words, True, Fraction(1), 0, 1, None),
            affine=False,
            slope=None,
            pieces=pieces,
            square=False,
        )

    @property
    def _points(self) -> tuple[Hashable, ...]:
        return self.pieces, self.square

    @property
    def pieces_present(self) -> Pieces:
        """φ, or what is squared, on the interval itself."""
        domain = cast(Interval, self.domain)
        return self.pieces.upto(Fraction(domain.high)) if domain.skips else self.pieces

    @property
    def range_present(self) -> tuple[int, int]:
        if not self.domain.skips:
            return self.low, self.high
        if self.square:
            ends, crosses = sorted(map(abs, self.pieces_present.at)), not self.pieces_present.sign().straight
            return 0 if crosses else round(ends[0] ** 2 / self.unit), self.high
        values = self.pieces_present.values()
        return round(min(values) / self.unit), round(max(values) / self.unit)

    def squared(self, center: Fraction) -> "OnInterval":
        """Return (φ − center)² of a line; of anything else it has no form that can be read."""
        present = self.pieces_present
        if self.square or not present.straight:
            raise Refused(
                f"The square of {self.words} is not known on an interval.",
                allowed="squares of the column itself, or of a line such as x * 2 + 1",
                instead="pf.Bins(edges, values) as the domain, where any function of a row is allowed",
            )
        domain = cast(Interval, self.domain)
        moved = present.mapped(lambda line: Line(line.intercept - center, line.slope))
        words = squared_words(self.words, center)
        if moved.flat:
            level = moved.mapped(lambda line: Line(line.intercept**2))
            return OnInterval.of(self.column, domain, level, words)
        ends = sorted(abs(value) for value in moved.at)
        crosses = not moved.sign().straight
        largest = ends[1] ** 2
        unit = fitting_unit(largest, LINE_LIMIT)
        steepest = 2 * abs(moved.lines[0].slope) * ends[1] / unit
        _moderate(domain, largest, steepest)
        return OnInterval(
            self.column,
            domain,
            words,
            boolean=False,
            unit=unit,
            low=0 if crosses or domain.skips else round(ends[0] ** 2 / unit),
            high=round(largest / unit),
            name=None,
            affine=False,
            slope=None if domain.skips else _raised(steepest, exact=False),
            pieces=_with_missing(domain, moved, ZERO),
            square=True,
        )

    @cached_property
    def formula(self) -> Formula:
        """The formula by which steps are read."""
        pieces, unit, most = self.pieces, self.unit, max(map(abs, self.pieces.values()))
        steep = [(line, knot) for line, knot in zip(pieces.lines, pieces.knots, strict=False) if line.slope]
        if self.square:
            return self._squares()
        if len(steep) == 1 and pieces.continuous:  # one line, perhaps cut off above and below
            return Formula((_segment(*steep[0], unit, most),), self.low, self.high)
        return Formula(_segments(pieces, unit, most), self.low, self.high)

    def _squares(self) -> Formula:
        exponent = self.unit.numerator.bit_length() - self.unit.denominator.bit_length()
        root = Fraction(2) ** (exponent // 2)  # powers of two scale exactly: only the line itself is rounded
        largest = max(map(abs, self.pieces.at))
        line = _segment(self.pieces.lines[0], self.pieces.knots[0], root, largest)
        lines = [line]
        if self.domain.skips:
            lines = [line._replace(end=cast(Interval, self.domain).high), Segment(math.inf, reached=True, start=0.0)]
        return Formula(tuple(lines), self.low, self.high, square=float(root**2 / self.unit))

    def read(self, number: pl.Expr) -> pl.Expr:
        """Return the steps of a Float64 expression that is never null or NaN and stays on the interval, as Int64."""
        return self.formula.read(number)


def _with_missing(domain: Interval, pieces: Pieces, value: Fraction) -> Pieces:
    """Return a function on an interval with the value of what is missing beyond it, where that is a state."""
    return pieces.followed_by(Fraction(domain.beyond), value) if domain.skips else pieces


def _segment(line: Line, knot: Fraction, unit: Fraction, most: Fraction, upto: float = math.inf) -> Segment:
    """Return a line in steps, up to an end, as floats within `_FLOAT_ERROR` of the exact ones while |line| ≤ most.

    A line with a large intercept would cancel; it is counted from a float near the knot instead.
    """
    if not line.slope:  # rounded as the exact number is, whatever its float
        return Segment(upto, reached=True, start=float(round(line.intercept / unit)))
    origin = 0.0 if abs(line.intercept) <= 2 * most else float(knot)
    start, factor = float(line.on(Fraction(origin)) / unit), float(line.slope / unit)
    return Segment(upto, reached=True, start=start, factor=factor, origin=origin)


def _segments(pieces: Pieces, unit: Fraction, most: Fraction) -> tuple[Segment, ...]:
    """Return the lines of pieces, each with where it ends, and the single points between them."""
    segments = list[Segment]()
    for place, x in enumerate(pieces.knots):
        y, below, upto = pieces.at[place], float_above(x), float_below(x)
        before, after = pieces.lines[max(place - 1, 0)], pieces.lines[min(place, len(pieces.lines) - 1)]
        isolated = y not in (before.on(x), after.on(x)) and Fraction(float(x)) == x
        if place:
            segment = _segment(before, pieces.knots[place - 1], unit, most, upto)
            ends_below = isolated or y != before.on(x)
            segments.append(segment._replace(end=below, reached=False) if ends_below else segment)
        if isolated:
            segments.append(_segment(Line(y), x, unit, most, upto))
    return tuple(segments)


def _scales(line: Line, unit: Fraction) -> bool:
    """Return whether a line only multiplies by a power of two, which floats do exactly."""
    factor = abs(line.slope / unit)
    return not line.intercept and factor in (exact_unit([factor]), 0)


def _raised(slope: Fraction, *, exact: bool) -> Fraction:
    """Return the slope that steps obey: if both are off by e, m whole steps more take a distance of m − 2e."""
    return slope if exact else slope * (1 + 4 * _FLOAT_ERROR)


def _moderate(domain: Interval, largest: Fraction, steepest: Fraction) -> None:
    """Refuse numbers so large or small that floats overflow or vanish on the way to steps."""
    ends = max(abs(domain.low), abs(domain.high))
    if ends > _LARGEST or largest > _LARGEST or steepest > _LARGEST**3 or 0 < largest < 1 / _LARGEST:
        raise Refused(
            "The values are too large or too small for exact steps.",
            allowed="intervals and results up to about 1e90, and no smaller than 1e-90",
            instead="other units of measurement",
        )
