"""φ on an interval: a piecewise linear function, or the square of a line, derived from an expression or a call.

It is derived from the tree of an expression, without any data. The expression is read in exact arithmetic; a float
literal is the float it is. If Polars computes something else, because integers overflow or floats cancel, the
expression is refused (`is_predicate`).
"""

import itertools
import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Self, cast, final

import polars as pl

from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import float_above, float_below
from pufferflow.models.domain import Interval
from pufferflow.queries.expressions.functions import FUNCTIONS
from pufferflow.queries.expressions.on_points import evaluate, exact, squared_words
from pufferflow.queries.expressions.pieces import (
    COMPARISONS,
    ZERO,
    Line,
    NotLinearError,
    NotPredicatesError,
    Pieces,
    compare,
    either,
    where,
)
from pufferflow.queries.expressions.tree import Node
from pufferflow.queries.expressions.values import (
    LINE_LIMIT,
    Formula,
    Segment,
    Values,
    exact_unit,
    fitting_unit,
    grid,
)
from pufferflow.queries.expressions.words import words

_LARGEST: Final = Fraction(2) ** 300
_FLOAT_ERROR: Final = Fraction(1, 2**18)
"""No number of steps is computed farther than this from the exact one, before it is rounded."""


@final
@dataclass(frozen=True, repr=False)
class OnInterval(Values):
    """φ on an interval, as `pieces`, or their square where `square` says so; |steps| ≤ 2^30.

    `affine` says that φ is a single line. `slope` is how many steps φ changes at most per unit of the column, None if
    it jumps. The steps that are read obey |steps(a) − steps(b)| ≤ slope·|a − b| + 1, where 1 is for rounding to whole
    steps. `slope` is raised by the relative margin 4·`_FLOAT_ERROR` if floats round before that. Steps of a monotone
    line are monotone.
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
        unit: Fraction | None = None,
    ) -> Self:
        """Return φ for a piecewise linear function: level ones on the coarsest grid they fit, others on the finest.

        Functions that are added up have one `unit`, which is then given.

        If missing values are a state of their own, φ is `at_missing` there.

        >>> line = Pieces.line(Fraction(0), Fraction(5), Line(Fraction(0), Fraction(1)))
        >>> OnInterval.of("x", Interval(0, 5), line, "x").slope == 2**27
        True
        """
        pieces = _with_missing(domain, pieces, at_missing)
        held = pieces.values()
        largest = max(map(abs, held))
        if unit is None:
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
            slope=_raised(steepest, exact=exact)
            if pieces.continuous and not domain.skips
            else None,
            pieces=pieces,
            square=False,
        )

    @classmethod
    def indicator(cls, column: str, domain: Interval, pieces: Pieces, words: str) -> Self:
        """Return φ for a function that is 0 or 1; quicker than `of`, for there may be thousands."""
        values = {bool(value) for value in pieces.at} | {
            bool(line.intercept) for line in pieces.lines
        }
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
            ends, crosses = (
                sorted(map(abs, self.pieces_present.at)),
                not self.pieces_present.sign().straight,
            )
            return 0 if crosses else round(ends[0] ** 2 / self.unit), self.high
        values = self.pieces_present.values()
        return round(min(values) / self.unit), round(max(values) / self.unit)

    def squared(self, center: Fraction) -> "OnInterval":
        """Return (φ − center)² of a line; no other function has a square that engines can read."""
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
        steep = [
            (line, knot)
            for line, knot in zip(pieces.lines, pieces.knots, strict=False)
            if line.slope
        ]
        if self.square:
            return self._squares()
        if len(steep) == 1 and pieces.continuous:  # one line, perhaps cut off above and below
            return Formula((_segment(*steep[0], unit, most),), self.low, self.high)
        return Formula(_segments(pieces, unit, most), self.low, self.high)

    def _squares(self) -> Formula:
        exponent = self.unit.numerator.bit_length() - self.unit.denominator.bit_length()
        root = Fraction(2) ** (
            exponent // 2
        )  # powers of two scale exactly: only the line itself is rounded
        largest = max(map(abs, self.pieces.at))
        line = _segment(self.pieces.lines[0], self.pieces.knots[0], root, largest)
        lines = [line]
        if self.domain.skips:
            lines = [
                line._replace(end=cast(Interval, self.domain).high),
                Segment(math.inf, reached=True, start=0.0),
            ]
        return Formula(tuple(lines), self.low, self.high, square=float(root**2 / self.unit))

    def read(self, number: pl.Expr) -> pl.Expr:
        """Return the steps of a Float64 expression that is never null or NaN and stays on the interval, as Int64."""
        return self.formula.read(number)


def _with_missing(domain: Interval, pieces: Pieces, value: Fraction) -> Pieces:
    """Return a function on an interval with the value for missing ones beyond it, if they are a state."""
    return pieces.followed_by(Fraction(domain.beyond), value) if domain.skips else pieces


def _segment(
    line: Line, knot: Fraction, unit: Fraction, most: Fraction, upto: float = math.inf
) -> Segment:
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
        before, after = (
            pieces.lines[max(place - 1, 0)],
            pieces.lines[min(place, len(pieces.lines) - 1)],
        )
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
    """Return the slope that steps obey: if both are off by e, m more whole steps take a distance of m − 2e."""
    return slope if exact else slope * (1 + 4 * _FLOAT_ERROR)


def _moderate(domain: Interval, largest: Fraction, steepest: Fraction) -> None:
    """Refuse numbers so large or small that floats overflow or vanish on the way to steps."""
    ends = max(abs(domain.low), abs(domain.high))
    if (
        ends > _LARGEST
        or largest > _LARGEST
        or steepest > _LARGEST**3
        or 0 < largest < 1 / _LARGEST
    ):
        raise Refused(
            "The values are too large or too small for exact steps.",
            allowed="intervals and results up to about 1e90, and no smaller than 1e-90",
            instead="other units of measurement",
        )


_WHOLE_TYPES: Final = {
    **{f"Int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1)) for bits in (8, 16, 32, 64, 128)},
    **{f"UInt{bits}": (0, 2**bits) for bits in (8, 16, 32, 64, 128)},
}
_CLOSE: Final = Fraction(1, 2**20)
_LINEAR: Final = "+ and -, * and / by numbers, clip, abs, comparisons, is_between, when/then, min and max with numbers"
_TABULATED: Final = "pf.Bins(edges, values) or a list of values as the domain, where any function of a row is allowed"


def curve(tree: Node, domain: Interval) -> Pieces:
    """Return the function of a checked tree on an interval, or refuse one that is not piecewise linear.

    >>> from pufferflow.queries.expressions.tree import read_tree
    >>> curve(read_tree(pl.col("x").abs()), Interval(-1, 2)).knots
    (Fraction(-1, 1), Fraction(0, 1), Fraction(2, 1))
    """
    return _Drawing(Fraction(domain.low), Fraction(domain.high)).draw(tree)


class _Drawing:
    """One interval, and the functions of nodes on it."""

    def __init__(self, low: Fraction, high: Fraction) -> None:
        self.low, self.high = low, high

    def draw(self, node: Node) -> Pieces:
        """Return the function of a node."""
        try:
            return self._draw(node)
        except NotLinearError:
            raise Refused(
                f"{words(node)} is not made of straight lines, and the column's domain is an interval.",
                allowed=_LINEAR,
                instead=_TABULATED,
            ) from None
        except NotPredicatesError:
            raise UsageError(
                f"{words(node)} needs predicates.",
                allowed="comparisons, is_between, and what &, | and ~ make of them",
                instead='pl.col("x") >= 3',
            ) from None

    def _draw(self, node: Node) -> Pieces:
        match node.kind:
            case "column":
                drawn = Pieces.line(self.low, self.high, Line(ZERO, Fraction(1)))
            case "literal":
                drawn = Pieces.line(self.low, self.high, Line(_number(node)))
            case "name":
                drawn = self.draw(node.inputs[0])
            case "operator":
                drawn = _combined(node.word, *map(self.draw, node.inputs))
            case "choice":
                predicate, truthy, falsy = map(self.draw, node.inputs)
                if not predicate.predicate:
                    raise NotPredicatesError
                drawn = where(predicate, truthy, falsy)
            case "cast":
                drawn = self.draw(node.inputs[0])
                if not _has_all(node.word, drawn):
                    raise NotLinearError
            case "function":
                drawn = FUNCTIONS[node.word].curve(node, self.draw)
        return drawn


def _number(literal: Node) -> Fraction:
    if not isinstance(literal.value, Fraction | bool):
        raise Refused(
            f"{words(literal)} is not a finite number.",
            allowed="finite numbers and Booleans as literals on an interval",
            instead="clip(0, None) for a bound that is not there; .otherwise(0) after when/then",
        )
    return Fraction(literal.value)


def _has_all(dtype: str, drawn: Pieces) -> bool:
    """Return whether a data type has all values of a function."""
    if dtype == "Float64":
        return True
    if drawn.predicate:
        return dtype in _WHOLE_TYPES or dtype in ("Boolean", "Float32")
    if not drawn.flat or dtype not in _WHOLE_TYPES:
        return False
    low, high = _WHOLE_TYPES[dtype]
    return all(value.denominator == 1 and low <= value < high for value in drawn.values())


def _combined(word: str, first: Pieces, second: Pieces) -> Pieces:
    if word in COMPARISONS:
        return compare(first, word, second)
    if word in "&|^":
        return _logic(word, first, second)
    if word in "+-":
        return first + second if word == "+" else first - second
    if word == "/" and second.straight and second.flat and second.at[0]:
        return first * second.mapped(lambda line: Line(1 / line.intercept))
    if word != "*":
        raise NotLinearError
    return first * second


def _logic(word: str, first: Pieces, second: Pieces) -> Pieces:
    if not (first.predicate and second.predicate):
        raise NotPredicatesError
    if word == "&":
        return first * second
    return either(first, second) if word == "|" else either(first, second) - first * second


def is_predicate(drawn: Pieces, expression: pl.Expr, column: str, said: str) -> bool:
    """Return whether the expression is a predicate; refuse it if Polars computes something else than `drawn`.

    Two numbers within each piece determine its line, up to the precision of floats. So whole numbers that overflow,
    sums that cancel and any misreading of Polars are found here.
    """
    probes = list(probes_of(drawn))
    result = evaluate(
        expression,
        pl.DataFrame({column: [x for x, _ in probes]}, schema={column: pl.Float64}),
        said,
    )
    room = _CLOSE * max(map(abs, drawn.values()))
    for (x, known), computed in zip(probes, result.to_list(), strict=True):
        if min(abs(exact(computed, x, said) - value) for value in known) > room:
            raise Refused(
                f"{said} gives Polars another number than exact arithmetic: whole numbers overflow, or floats cancel.",
                allowed="expressions whose steps stay within their data types",
                instead="casts of predicates to pl.Int64, and numbers of similar size",
            )
    return result.dtype == pl.Boolean


def probes_of(drawn: Pieces) -> Iterator[tuple[float, set[Fraction]]]:
    """Yield numbers, and the possible values of φ there: at a knot floats may fall to either side of a jump."""
    for line, (low, high) in zip(drawn.lines, itertools.pairwise(drawn.knots), strict=True):
        for part in (1, 2):
            x = float(low + (high - low) * part / 3)
            if low < x < high:
                yield x, {line.on(Fraction(x))}
    for place, x in enumerate(drawn.knots):
        if Fraction(float(x)) == x:
            sides = drawn.lines[max(place - 1, 0) : place + 1]
            yield float(x), {drawn.at[place], *(line.on(x) for line in sides)}
