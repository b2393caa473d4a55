"""From user input to φ: a column name or an expression of one sensitive column, compiled on its domain."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import cast

import polars as pl

from pufferflow.core.errors import PufferflowError, Refused, UsageError
from pufferflow.core.validate import quoted
from pufferflow.models.domain import Domain, Interval
from pufferflow.models.product import Product
from pufferflow.queries.expressions.checks import check_rowwise
from pufferflow.queries.expressions.functions import FUNCTIONS
from pufferflow.queries.expressions.interval import OnInterval
from pufferflow.queries.expressions.on_points import OnPoints, evaluate, exact, table
from pufferflow.queries.expressions.pieces import ZERO
from pufferflow.queries.expressions.piecewise_linear import curve, is_predicate
from pufferflow.queries.expressions.refusals import short
from pufferflow.queries.expressions.tree import Node, read_tree
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

    The expression is never run on rows of data: on a finite domain it is evaluated at the points, on an interval its
    closed form is worked out. What mixes rows or touches other columns is refused by name.

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


def _check_declared(names: Sequence[str], domains: Mapping[str, Domain], refusal: Refusal | None) -> None:
    for name in names:
        if name not in domains:
            raise _undeclared(name, domains) if refusal is None else refusal(name, names)


def _check_missing(tree: Node, domains: Mapping[str, Domain]) -> None:
    """Refuse functions of nulls of the column itself: there are none left when an expression sees its values."""
    for node in tree.walk():
        if node.kind == "function" and FUNCTIONS[node.word].of_nulls and node.inputs[0].kind == "column":
            column = node.inputs[0].word
            if domains[column].skips:
                continue
            missing = f"missing={domains[column].points[0]!r}"
            raise UsageError(
                f"{words(node)} tests for nulls of {short(repr(column), 60)}, which are read as values of its domain.",
                allowed='a value for nulls, said by the secret, or missing="skip"; a public column that says so',
                instead=f'pf.Secret({short(repr(column), 60)}, …, missing="skip"), or {missing}',
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


def _compiled(expression: pl.Expr, tree: Node, column: str, domains: Mapping[str, Domain]) -> Values:
    domain, said = domains[column], words(tree)
    name = name_of(expression, tree)
    if isinstance(domain, Interval):
        drawn = curve(tree, domain)
        boolean = is_predicate(drawn, expression, column, said)
        at_missing = _at_missing(expression, column, said) if domain.skips else ZERO
        return OnInterval.of(column, domain, drawn, said, boolean=boolean, name=name, at_missing=at_missing)
    values = table(expression, {column: domain.points}, domain.points, said)
    return OnPoints.of_results(column, domain, values, said, name=name)


def _at_missing(expression: pl.Expr, column: str, said: str) -> Fraction:
    """Return φ of a value that is missing: 0 where that is null, which sums leave out."""
    result = evaluate(expression, pl.DataFrame({column: [None]}, schema={column: pl.Float64}), said).item()
    return ZERO if result is None else exact(result, "missing", said)


def _of_tuples(expression: pl.Expr, tree: Node, product: Product) -> Values:
    """Return φ of several columns, at every tuple of their values."""
    said = words(tree)
    if not product.finite:
        intervals = [name for name, one in zip(product.columns, product.domains, strict=True) if not one.finite]
        raise Refused(
            f"{said} reads several columns, and {intervals[0]!r} is an interval.",
            allowed="functions of several columns whose domains are lists of values or pf.Bins",
            instead=f"pf.Bins(edges, values) as the domain of {intervals[0]!r}, or a public column as a weight",
        )
    columns = dict(zip(product.columns, zip(*product.tuples, strict=True), strict=True))
    values = table(expression, columns, product.points, said)
    name = name_of(expression, tree) or "_".join(product.columns)
    return OnPoints.of_results(product.name, product, values, said, name=name)


def name_of(expression: pl.Expr, tree: Node) -> str | None:
    """Return the name that the expression was given; None if it bears its column's."""
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
