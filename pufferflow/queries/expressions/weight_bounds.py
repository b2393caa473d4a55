"""The bounds that an expression of public columns declares of itself: `clip` with numbers, predicates, literals.

Where the secret is which rows there are, weights may not be read to find how large they are. Weights are clipped to
these bounds, whatever the rows have, so noise depends on the bounds and not on this arithmetic.
"""

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

import polars as pl

from pufferflow.queries.expressions.functions import kind, options
from pufferflow.queries.expressions.kinds import Types
from pufferflow.queries.expressions.tree import Node, read_tree

Bounds = tuple[Fraction, Fraction]
_NOTHING: Final = (Fraction(0), Fraction(0))
_TRUTH: Final = (Fraction(0), Fraction(1))


def bounds_of_product(factors: Sequence[tuple[pl.Expr, bool]], types: Types) -> Bounds | None:
    """Return the bounds of a product, of which some factors divide it; None if an expression has none.

    >>> from pufferflow.queries.expressions.weighted import factors_of
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
    """Return the least and the largest value of an expression as it is written; None if it says nothing of that."""
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
            bounds = None if first is None or second is None else _OPERATORS[node.word](first, second)
        case "function":
            bounds = _of_function(node, known)
        case _:
            pass
    return bounds


def _of_literal(node: Node) -> Bounds | None:
    if node.word == "Null":
        return _NOTHING
    return (Fraction(node.value), Fraction(node.value)) if isinstance(node.value, bool | Fraction) else None


def _of_function(node: Node, known: Sequence[Bounds | None]) -> Bounds | None:
    match node.word:
        case "clip":
            return _clipped(node, known)
        case "fill_null":
            return _hull(known)
        case "abs" if known[0] is not None:
            low, high = known[0]
            return (Fraction(0) if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high)))
        case "negate" if known[0] is not None:
            return -known[0][1], -known[0][0]
        case _:
            return None


def _clipped(node: Node, known: Sequence[Bounds | None]) -> Bounds | None:
    """Return the bounds of a value within others: where these are the wrong way round, there are none."""
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
