"""Public weights: products of a sensitive and of public columns, and the bounds that such an expression declares.

The public factors are one weight for each row. They go into the sum, not into the domain: φ stays a function of the
sensitive column alone.

An expression of public columns declares bounds of itself: `clip` with numbers, predicates, literals. If the existence
of rows is secret, weights may not be read to find how large they are. Weights are clipped to these bounds, whatever the
rows have, so noise depends on the bounds and not on this arithmetic.
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import mul
from typing import Any, Final, cast

import polars as pl

from pufferflow.core.errors import Refused
from pufferflow.models.domain import Interval
from pufferflow.queries.expressions.compiler import name_of
from pufferflow.queries.expressions.functions import Types, kind, options
from pufferflow.queries.expressions.on_interval import OnInterval
from pufferflow.queries.expressions.on_points import OnPoints
from pufferflow.queries.expressions.pieces import Line, Pieces
from pufferflow.queries.expressions.tree import Node, read_tree
from pufferflow.queries.expressions.values import LINE_LIMIT, Values, Weight, fitting_unit
from pufferflow.queries.expressions.words import words

Bounds = tuple[Fraction, Fraction]
_NOTHING: Final = (Fraction(0), Fraction(0))
_TRUTH: Final = (Fraction(0), Fraction(1))


def bounds_of_product(factors: Sequence[tuple[pl.Expr, bool]], types: Types) -> Bounds | None:
    """Return the bounds of a product, of which some factors divide it; None if an expression has none.

    >>> from pufferflow.queries.expressions.weights import factors_of
    >>> half = pl.col("price").clip(0, 5) / pl.col("rate").clip(2, 4)
    >>> bounds_of_product(list(factors_of(half)), {})
    (Fraction(0, 1), Fraction(5, 2))
    """
    found = (Fraction(1), Fraction(1))
    for factor, divides in factors:
        own = bounds_of(read_tree(factor), types)
        if own is None or (divides and own[0] <= 0 <= own[1]):
            return None
        found = _products(found, (1 / own[1], 1 / own[0]) if divides else own)
    return found


def bounds_of(node: Node, types: Types) -> Bounds | None:
    """Return the least and the largest value of an expression as it is written; None if that does not bound it."""
    known = [bounds_of(part, types) for part in node.inputs]
    bounds = None
    match node.kind:
        case _ if kind(node, types) == "truth":
            bounds = _TRUTH
        case "literal":
            bounds = _of_literal(node)
        case "name":
            (bounds,) = known
        case "cast" if node.word in ("Float64", "Float32"):
            (bounds,) = known
        case "choice":
            bounds = _hull(known[1:])
        case "operator" if node.word in _OPERATORS:
            first, second = known
            bounds = (
                None if first is None or second is None else _OPERATORS[node.word](first, second)
            )
        case "function":
            bounds = _of_function(node, known)
        case _:
            pass
    return bounds


def _of_literal(node: Node) -> Bounds | None:
    if node.word == "Null":
        return _NOTHING
    return (
        (Fraction(node.value), Fraction(node.value))
        if isinstance(node.value, bool | Fraction)
        else None
    )


def _of_function(node: Node, known: Sequence[Bounds | None]) -> Bounds | None:
    match node.word:
        case "clip":
            return _clipped(node, known)
        case "fill_null":
            return _hull(known)
        case "abs" if known[0] is not None:
            low, high = known[0]
            return (
                Fraction(0) if low <= 0 <= high else min(abs(low), abs(high)),
                max(abs(low), abs(high)),
            )
        case "negate" if known[0] is not None:
            return -known[0][1], -known[0][0]
        case _:
            return None


def _clipped(node: Node, known: Sequence[Bounds | None]) -> Bounds | None:
    """Return the bounds of a value within others; None if these are the wrong way round."""
    given, *limits = known
    if None in limits:
        return None
    low = limits.pop(0) if options(node).get("has_min") else given
    high = limits.pop(0) if limits else given
    if low is None or high is None or low[0] > high[1]:
        return None
    if given is None:
        return low[0], high[1]
    return min(max(given[0], low[0]), high[1]), max(min(given[1], high[1]), low[0])


def _hull(known: Sequence[Bounds | None]) -> Bounds | None:
    bounds = [one for one in known if one is not None]
    if len(bounds) < len(known):
        return None
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def _products(first: Bounds, second: Bounds) -> Bounds:
    corners = [a * b for a, b in itertools.product(first, second)]
    return min(corners), max(corners)


def _quotients(first: Bounds, second: Bounds) -> Bounds | None:
    return None if second[0] <= 0 <= second[1] else _products(first, (1 / second[1], 1 / second[0]))


_OPERATORS: Final[dict[str, Callable[[Bounds, Bounds], Bounds | None]]] = {
    "+": lambda first, second: (first[0] + second[0], first[1] + second[1]),
    "-": lambda first, second: (first[0] - second[1], first[1] - second[0]),
    "*": _products,
    "/": _quotients,
}


_STEPS: Final = 2**LINE_LIMIT


def has_weight(expression: Any, public: Collection[str]) -> bool:
    """Return whether an expression reads public columns beside others.

    >>> has_weight(pl.col("level") * pl.col("price"), {"price"}), has_weight(pl.col("price"), {"price"})
    (True, False)
    """
    if not isinstance(expression, pl.Expr):
        return False
    read = read_tree(expression).columns
    return any(name in public for name in read) and any(name not in public for name in read)


def split_weight(expression: pl.Expr, public: Collection[str]) -> tuple[pl.Expr, pl.Expr]:
    """Return the factors of sensitive columns, and those of public ones, each multiplied.

    >>> values, weight = split_weight(2 * pl.col("level") * pl.col("price") / pl.col("rate"), {"price", "rate"})
    >>> values.meta.root_names(), weight.meta.root_names()
    (['level'], ['price', 'rate'])
    """
    own: dict[bool, list[tuple[pl.Expr, bool]]] = {True: [], False: []}
    for factor, divides in factors_of(expression):
        read = read_tree(factor).columns
        of_public = [name in public for name in read]
        if any(of_public) and not all(of_public):
            raise _no_product(expression)
        own[bool(read) and all(of_public)].append((factor, divides))
    return multiplied(own[False]), multiplied(own[True])


def with_weight(values: Values, weight: Weight, expression: pl.Expr | None = None) -> Values:
    """Return φ with a weight, under the name of the whole `expression`, if it has one; φ has at most 2^30 steps.

    So products with weights, which have as many, are whole numbers that tables of floats hold.
    """
    tree = None if expression is None else read_tree(expression)
    said = f"{values.words} * {weight.words}" if tree is None else words(tree)
    name = values.name if expression is None or tree is None else name_of(expression, tree)
    return replace(_coarser(values), words=said, name=name, boolean=False, weight=weight)


def ones_like(values: Values) -> Values:
    """Return the function of the same column that is 1 everywhere: with a weight its sum is that of the weights."""
    if isinstance(values.domain, Interval):
        low, high = Fraction(values.domain.low), Fraction(values.domain.high)
        return OnInterval.of(
            values.column, values.domain, Pieces.line(low, high, Line(Fraction(1))), "1"
        )
    return OnPoints.of(values.column, values.domain, [Fraction(1)] * len(values.domain.points), "1")


def _coarser(values: Values) -> Values:
    largest = max(abs(values.low), abs(values.high))
    if largest <= _STEPS or not isinstance(values, OnPoints):
        return values
    unit = fitting_unit(largest * values.unit, LINE_LIMIT)
    steps = tuple(round(step * values.unit / unit) for step in values.steps)
    return replace(values, unit=unit, low=min(steps), high=max(steps), steps=steps)


def factors_of(expression: pl.Expr, *, divides: bool = False) -> Iterator[tuple[pl.Expr, bool]]:
    """Yield the factors of a product, and whether each divides it."""
    node = read_tree(expression)
    if node.kind == "name":
        yield from factors_of(expression.meta.pop()[0], divides=divides)
    elif node.kind == "operator" and node.word in ("*", "/"):
        right, left = expression.meta.pop()
        yield from factors_of(left, divides=divides)
        yield from factors_of(right, divides=divides != (node.word == "/"))
    else:
        yield expression, divides


def multiplied(factors: Sequence[tuple[pl.Expr, bool]]) -> pl.Expr:
    """Return the product of factors, of which some divide it."""
    above = [factor for factor, divides in factors if not divides]
    below = [factor for factor, divides in factors if divides]
    product = cast(Callable[[Any, Any], pl.Expr], mul)
    numerator = reduce(product, above) if above else pl.lit(1.0)
    return numerator / reduce(product, below) if below else numerator


def _no_product(expression: pl.Expr) -> Refused:
    return Refused(
        f"{words(read_tree(expression))} is not a function of sensitive columns times one of public columns.",
        allowed="public columns that multiply or divide the whole expression",
        instead='private_sum(pl.col("level") * pl.col("price")); of a sum, each of its terms in a query of its own',
    )
