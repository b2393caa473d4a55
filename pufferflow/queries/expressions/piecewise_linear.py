"""An expression on an interval as a piecewise linear function, derived from its tree without any data.

The expression is read in exact arithmetic; a float literal is the float it is. Where Polars computes something else,
since integers overflow or floats cancel, the expression is refused (`is_predicate`).
"""

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import polars as pl

from pufferflow.core.errors import Refused, UsageError
from pufferflow.models.domain import Interval
from pufferflow.queries.expressions.functions import FUNCTIONS
from pufferflow.queries.expressions.on_points import evaluate, exact
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
from pufferflow.queries.expressions.words import words

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
            f"{words(literal)} is no finite number.",
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
    """Return whether the expression is a predicate; refuse it where Polars computes something else than `drawn`.

    Two numbers within each piece determine its line, up to the precision of floats. So whole numbers that overflow,
    sums that cancel and any misreading of Polars are found here.
    """
    probes = list(_probes(drawn))
    result = evaluate(expression, pl.DataFrame({column: [x for x, _ in probes]}, schema={column: pl.Float64}), said)
    room = _CLOSE * max(map(abs, drawn.values()))
    for (x, known), computed in zip(probes, result.to_list(), strict=True):
        if min(abs(exact(computed, x, said) - value) for value in known) > room:
            raise Refused(
                f"{said} gives Polars another number than exact arithmetic: whole numbers overflow, or floats cancel.",
                allowed="expressions whose steps stay within their data types",
                instead="casts of predicates to pl.Int64, and numbers of similar size",
            )
    return result.dtype == pl.Boolean


def _probes(drawn: Pieces) -> Iterator[tuple[float, set[Fraction]]]:
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
