"""Expressions of public columns, for filters, groups and new columns: row by row, and of nothing else."""

from collections.abc import Callable, Collection, Mapping
from typing import Final, cast

import polars as pl

from pufferflow.core.dtypes import exactly
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.validate import quoted
from pufferflow.queries.expressions.checks import check_never_fails, check_rowwise
from pufferflow.queries.expressions.functions import FUNCTIONS, kinds_of
from pufferflow.queries.expressions.kinds import NUMBERS, Types, dated
from pufferflow.queries.expressions.refusals import short
from pufferflow.queries.expressions.tree import Node, read_tree
from pufferflow.queries.expressions.words import words

_ORDERED: Final = frozenset({*NUMBERS, "time", "span"})


Refusal = Callable[[str], UsageError]
"""From a column that is not public to its error."""


def read_public(
    expression: str | pl.Expr,
    known: Collection[str] | Mapping[str, pl.DataType],
    refusal: Refusal | None = None,
    *,
    never_fails: bool = False,
) -> pl.Expr:
    """Return an expression that reads one row at a time and only public columns; the name of one stands for itself.

    `known` are the public columns, if possible with their types, which permit more expressions; `refusal` is about all
    others. `never_fails` refuses expressions that may fail at a value: where the secret is which rows there are, an
    error would reveal a row.

    >>> read_public(pl.col("hour").dt.hour() >= 6, {"hour"}, never_fails=True).meta.root_names()
    ['hour']
    """
    given = pl.col(expression) if isinstance(expression, str) else expression
    if not isinstance(cast(object, given), pl.Expr):
        raise UsageError(
            f"The expression is {quoted(given)}.",
            allowed="a Polars expression of public columns",
            instead='pl.col("district") == "north"',
        )
    tree = read_tree(given)
    check_rowwise(tree, on_values=False)
    _check_columns(tree, known, refusal)
    types: Types = cast(Types, known) if isinstance(known, Mapping) else {}
    _check_order(tree, types)
    if never_fails:
        check_never_fails(tree, types)
    return given


def public_words(expression: pl.Expr) -> str:
    """Return a public expression as a person would write it."""
    return words(read_tree(expression))


def identity(expression: pl.Expr) -> str:
    """Return a text that expressions share only if they are the same, literal values and all.

    >>> identity(pl.col("day") == 3) == identity(pl.col("day") == 4)
    False
    """
    tree = read_tree(expression)
    if tree.kind == "literal":
        return f"{tree!r} of {exactly(pl.select(expression).to_series())!r}"
    inputs = ", ".join(identity(part) for part in expression.meta.pop())
    return f"{tree.kind} {tree.word!r} {tree.value!r} ({inputs})"


def _check_columns(tree: Node, known: Collection[str], refusal: Refusal | None) -> None:
    for name in tree.columns:
        if name not in known:
            if refusal is not None:
                raise refusal(name)
            some = ", ".join(short(repr(one), 40) for one in sorted(known)[:3])
            raise UsageError(
                f"The column {short(repr(name), 60)} is not public.",
                allowed=f"only declared public columns can filter and group: {some}{', …' if len(known) > 3 else ''}",
                instead=f"public=[{short(repr(name), 40)}, …] in the scenario, if everybody may know it",
            )


def _check_order(tree: Node, types: Types) -> None:
    """Refuse minima and maxima of what may be Categorical: their order depends on the rows that were read before.

    One part that is surely a number or a time is enough: Polars puts no Categorical beside it.
    """
    for node in tree.walk():
        if node.kind == "function" and FUNCTIONS[node.word].in_order:
            kinds = set(kinds_of(node.inputs, types))
            if not (kinds & _ORDERED or any(map(dated, kinds)) or kinds == {"text"}):
                raise Refused(
                    f"{words(node)} may compare Categoricals, whose order depends on the rows that were read before.",
                    allowed="clip, min_horizontal and max_horizontal with a number, date or time as one of the parts",
                    instead="pl.when(a < b).then(a).otherwise(b), or casts to pl.Float64 or pl.String",
                )
