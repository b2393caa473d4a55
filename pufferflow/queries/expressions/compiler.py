"""From user input to φ: a column name, an expression of one sensitive column, or predicates that cut a domain."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np
import polars as pl

from pufferflow.core.errors import PufferflowError, UsageError
from pufferflow.core.validate import finite_number, in_few_digits, quoted
from pufferflow.models.domain import Domain, Interval, Product
from pufferflow.queries.expressions.checks import check_rowwise
from pufferflow.queries.expressions.functions import FUNCTIONS
from pufferflow.queries.expressions.on_columns import (
    by_column,
    check_no_missing,
    sum_of_columns,
)
from pufferflow.queries.expressions.on_interval import OnInterval, curve, is_predicate
from pufferflow.queries.expressions.on_points import OnPoints, evaluate, exact, table
from pufferflow.queries.expressions.pieces import ZERO, Line, Pieces
from pufferflow.queries.expressions.tree import Node, read_tree, short
from pufferflow.queries.expressions.values import Values
from pufferflow.queries.expressions.words import words

Refusal = Callable[[str, Sequence[str]], PufferflowError]
"""From a column without a domain, and all columns that are named with it, to its error."""


def read_values(
    given: str | pl.Expr,
    domains: Mapping[str, Domain],
    refusal: Refusal | None = None,
    tuples: Product | None = None,
) -> Values:
    """Return φ for the name of a sensitive column or an expression of one; `refusal` is about all other columns.

    An expression may read several columns if they are among those whose `tuples` are the secret.

    The expression never runs on rows of data. On a finite domain it is evaluated at the points; on an interval its
    closed form is worked out. An expression that mixes rows or reads other columns is refused by name.

    >>> from pufferflow.models.domain import read_domain
    >>> level = {"level": read_domain([0, 1, 2, 3])}
    >>> read_values(pl.col("level").clip(0, 2) * 2, level).steps
    (0, 1, 2, 2)
    """
    expression = pl.col(given) if isinstance(given, str) else given
    if not isinstance(cast(object, expression), pl.Expr):
        raise UsageError(
            f"The query is {quoted(given)}.",
            allowed="the name of a sensitive column, or a Polars expression of one",
            instead=f'"{next(iter(domains), "x")}", or pl.col("{next(iter(domains), "x")}").clip(0, 9)',
        )
    if isinstance(given, str):
        _check_declared([given], domains, refusal)  # also the names that Polars takes for patterns
    tree = read_tree(expression)
    check_rowwise(tree, on_values=True)
    _check_declared(tree.columns, domains, refusal)
    _check_missing(tree, domains)
    if len(tree.columns) > 1 and tuples is not None and tuples.has(tree.columns):
        return _of_tuples(expression, tree, tuples.part(tree.columns))
    return _compiled(expression, tree, _only_column(tree), domains)


def _check_declared(
    names: Sequence[str], domains: Mapping[str, Domain], refusal: Refusal | None
) -> None:
    for name in names:
        if name not in domains:
            raise _undeclared(name, domains) if refusal is None else refusal(name, names)


def _check_missing(tree: Node, domains: Mapping[str, Domain]) -> None:
    """Refuse functions of nulls of the column itself: there are none left when an expression sees its values."""
    for node in tree.walk():
        if (
            node.kind == "function"
            and FUNCTIONS[node.word].of_nulls
            and node.inputs[0].kind == "column"
        ):
            column = node.inputs[0].word
            if domains[column].skips:
                continue
            missing, said = f"missing={domains[column].points[0]!r}", short(repr(column), 60)
            # a sum of several columns on intervals would be missing with any of them
            skips = len(tree.columns) == 1 or all(domains[one].finite for one in tree.columns)
            ways = f'pf.Secret({said}, …, missing="skip"), or {missing}'
            raise UsageError(
                f"{words(node)} tests for nulls of {said}, which are read as values of its domain.",
                allowed="a value for nulls, said by the secret"
                + ', or missing="skip"' * skips
                + "; a public column that says so",
                instead=ways if skips else f"pf.Secret({said}, …, {missing})",
            )


def _only_column(tree: Node) -> str:
    if len(tree.columns) == 1:
        return tree.columns[0]
    if not tree.columns:
        raise UsageError(
            f"{words(tree)} reads no column.",
            allowed="expressions of one sensitive column",
            instead="a count of rows, or an expression that begins with pl.col(…)",
        )
    raise UsageError(
        f"{words(tree)} reads {len(tree.columns)} columns: {_listed(tree.columns)}.",
        allowed="expressions of one sensitive column, or of several that the secret lists",
        instead="pf.Scenario(secret=[pf.Secret(…), pf.Secret(…)], …), which hides them together",
    )


def _compiled(
    expression: pl.Expr, tree: Node, column: str, domains: Mapping[str, Domain]
) -> Values:
    domain, said = domains[column], words(tree)
    name = name_of(expression, tree)
    if isinstance(domain, Interval):
        drawn = curve(tree, domain)
        boolean = is_predicate(drawn, expression, column, said)
        at_missing = ZERO
        if domain.skips:  # a result that is null counts as 0, as sums leave it out
            missing = pl.DataFrame({column: [None]}, schema={column: pl.Float64})
            result = evaluate(expression, missing, said).item()
            at_missing = ZERO if result is None else exact(result, "missing", said)
        return OnInterval.of(
            column, domain, drawn, said, boolean=boolean, name=name, at_missing=at_missing
        )
    values = table(expression, {column: domain.points}, domain.points, said)
    return OnPoints.of_results(column, domain, values, said, name=name)


def _of_tuples(expression: pl.Expr, tree: Node, product: Product) -> Values:
    """Return φ of several columns: at every tuple of their values, or column by column where some are intervals."""
    said = words(tree)
    name = name_of(expression, tree) or "_".join(product.columns)
    if not product.finite:
        check_no_missing(product, said)
        domains = dict(zip(product.columns, product.domains, strict=True))
        parts = {
            column: _compiled(part, read_tree(part), column, domains)
            for column, part in by_column(expression, product, said).items()
        }
        return sum_of_columns(expression, product, said, name, parts)
    columns = dict(zip(product.columns, zip(*product.tuples, strict=True), strict=True))
    values = table(expression, columns, product.points, said)
    return OnPoints.of_results(product.name, product, values, said, name=name)


def name_of(expression: pl.Expr, tree: Node) -> str | None:
    """Return the name that the expression was given; None if it has its column's name."""
    if not any(node.kind == "name" for node in tree.walk()):
        return None
    name = expression.meta.output_name(raise_if_undetermined=False)
    return None if name in tree.columns else name


def _undeclared(name: str, domains: Mapping[str, Domain]) -> UsageError:
    return UsageError(
        f"The column {short(repr(name), 60)} is not declared to be sensitive with a domain.",
        allowed=_listed(domains) or "no column: the secret declares none with a domain",
        instead="pf.Secret(column, domain) in the scenario, or a filter if the column is public",
    )


def _listed(names: "Mapping[str, Domain] | tuple[str, ...]") -> str:
    some = [short(repr(name), 40) for name in list(names)[:6]]
    return ", ".join(some) + (", …" if len(names) > 6 else "")


_ALLOWED: Final = "the edges of its classes, as growing numbers"
_ONE: Final = Line(Fraction(1))
_NOTHING: Final = Line(ZERO)
Numbers = Sequence[float] | np.ndarray[Any, np.dtype[Any]] | pl.Series


def indicators(
    column: str, domain: Domain, bins: Numbers | None = None
) -> tuple[tuple[str, Values], ...]:
    """Return a label and a predicate for every point of a finite domain, or for every class of an interval.

    A class reaches from one edge up to the next, which belongs to the next class; the last class has both. Where the
    bins do not reach the ends of the interval there are open classes beyond them, so every value is in one class.

    >>> [label for label, _ in indicators("x", Interval(0, 10), bins=[0, 1, 5])]
    ['0 to 1', '1 to 5', '5 and more']
    """
    if isinstance(domain, Interval):
        return _labelled(column, domain, _edges(bins, domain))
    if bins is not None:
        raise UsageError(
            "bins is given, but the domain is a list of values.",
            allowed="bins for an interval only; a listed domain has a class for each value",
            instead="pf.Bins(edges, values) as the domain, or sums of the classes after the release",
        )
    bars: list[tuple[str, Values]] = []
    for place, point in enumerate(domain.present.points):
        words = short(f"{short(column, 30)} is {point!r}", 60)
        steps = tuple(int(other == place) for other in range(len(domain.points)))
        bars.append(
            (str(point), OnPoints(column, domain, words, True, Fraction(1), 0, 1, None, steps))
        )
    return tuple(bars)


def classes(
    column: str, domain: Interval, bins: Numbers | None
) -> tuple[tuple[float, ...], tuple[Values, ...]]:
    """Return the ends of the classes into which bins cut an interval, in growing order, and a predicate for each.

    The outermost ends are the interval's own, wherever the bins begin and end, so there is one end more than classes.

    >>> ends, bars = classes("x", Interval(0, 10), [2, 5, 20])
    >>> ends, len(bars)
    ((0.0, 2.0, 5.0, 10.0), 3)
    """
    inner = [edge for edge in _edges(bins, domain) if domain.low < edge < domain.high]
    if not inner:
        raise UsageError(
            "The bins do not cut the interval: all of it is one class.",
            allowed=f"{_ALLOWED}, at least one of them between the ends of the interval",
            instead=f"bins=[{in_few_digits(domain.low / 2 + domain.high / 2)}]",
        )
    ends = (float(domain.low), *inner, float(domain.high))
    bars: list[Values] = []
    for low, high in itertools.pairwise(ends):
        inside = low if low > domain.low else None, high if high < domain.high else None
        bars.append(
            _between(column, domain, f"{in_few_digits(low)} to {in_few_digits(high)}", *inside)
        )
    return ends, tuple(bars)


def _edges(given: Numbers | None, domain: Interval) -> list[float]:
    instead = domain.some_bins
    if given is None:
        raise UsageError(
            "bins is left out: an interval has no classes of its own.",
            allowed=_ALLOWED,
            instead=instead,
        )
    held = cast(object, given.to_list() if isinstance(given, pl.Series) else given)
    held = cast(object, held.tolist()) if isinstance(held, np.ndarray) else held
    if isinstance(held, str | bytes) or not isinstance(held, Sequence) or not held:
        raise UsageError("bins is not a list of numbers.", allowed=_ALLOWED, instead=instead)
    edges = cast(Sequence[object], held)
    read = [
        finite_number(edge, "an edge of bins", allowed=_ALLOWED, instead=instead) for edge in edges
    ]
    if any(not low < high for low, high in itertools.pairwise(read)):
        raise UsageError("The bins do not grow.", allowed=_ALLOWED, instead=instead)
    return read


def _labelled(column: str, domain: Interval, edges: list[float]) -> tuple[tuple[str, Values], ...]:
    bounds: list[tuple[str, float | None, float | None]] = [
        (f"{in_few_digits(low)} to {in_few_digits(high)}", low, high)
        for low, high in itertools.pairwise(edges)
    ]
    if domain.low < edges[0] or len(edges) == 1:
        bounds.insert(0, (f"below {in_few_digits(edges[0])}", None, edges[0]))
    if domain.high > edges[-1] or len(edges) == 1:
        bounds.append((f"{in_few_digits(edges[-1])} and more", edges[-1], None))
    label, low, _ = bounds[-1]
    bounds[-1] = label, low, None  # nothing lies beyond the last class, whose upper edge is its own
    return tuple((label, _between(column, domain, label, low, high)) for label, low, high in bounds)


def _between(
    column: str, domain: Interval, label: str, low: float | None, high: float | None
) -> OnInterval:
    words = short(f"{short(column, 30)} in {label}", 60)
    return OnInterval.indicator(column, domain, _inside(domain.low, domain.high, low, high), words)


def _inside(least: float, most: float, low: float | None, high: float | None) -> Pieces:
    """Return the function on [least, most] that is 1 from low up to high, which is not in it."""
    knots = (least, *(end for end in (low, high) if end is not None and least < end < most), most)
    at = [
        _ONE if (low is None or x >= low) and (high is None or x < high) else _NOTHING
        for x in knots
    ]
    lines = [
        _ONE if (low is None or start >= low) and (high is None or end <= high) else _NOTHING
        for start, end in itertools.pairwise(knots)
    ]
    return Pieces(tuple(map(Fraction, knots)), tuple(line.intercept for line in at), tuple(lines))
