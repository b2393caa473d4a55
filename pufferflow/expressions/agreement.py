"""Whether the function that an expression is found to be is what Polars computes: looked up at a few numbers."""

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import polars as pl

from pufferflow.errors import Refused
from pufferflow.expressions.evaluated import evaluate, exact
from pufferflow.expressions.pieces import Pieces

_CLOSE: Final = Fraction(1, 2**20)


def agrees(drawn: Pieces, expression: pl.Expr, column: str, said: str) -> bool:
    """Return whether the expression is a predicate; refuse it where Polars computes something else than `drawn`.

    Two numbers within each piece tell every line from others, as far as floats reach. Whole numbers that overflow,
    sums that cancel and anything misunderstood about Polars come to light here.
    """
    probes = list(_probes(drawn))
    result = evaluate(expression, column, [x for x, _ in probes], pl.Float64, said)
    room = _CLOSE * max(map(abs, drawn.values()))
    for (x, known), found in zip(probes, result.to_list(), strict=True):
        if min(abs(exact(found, x, said) - value) for value in known) > room:
            raise Refused(
                f"{said} gives Polars another number than exact arithmetic: whole numbers overflow, or floats cancel.",
                allowed="expressions whose steps stay within their data types",
                instead="casts of predicates to pl.Int64, and numbers of similar size",
            )
    return result.dtype == pl.Boolean


def _probes(drawn: Pieces) -> Iterator[tuple[float, set[Fraction]]]:
    """Yield numbers, and what φ may be there: at a knot floats may fall to either side of a jump."""
    for line, (low, high) in zip(drawn.lines, itertools.pairwise(drawn.knots), strict=True):
        for part in (1, 2):
            x = float(low + (high - low) * part / 3)
            if low < x < high:
                yield x, {line.on(Fraction(x))}
    for place, x in enumerate(drawn.knots):
        if Fraction(float(x)) == x:
            sides = drawn.lines[max(place - 1, 0) : place + 1]
            yield float(x), {drawn.at[place], *(line.on(x) for line in sides)}
