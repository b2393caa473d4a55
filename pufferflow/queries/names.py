"""The names in the calls of a batch: of public columns, and of answers; given as Polars users give them."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import polars as pl

from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import misfit
from pufferflow.core.validate import quoted
from pufferflow.queries.expressions.values import Values


def one_by_one(arguments: Iterable[Any]) -> list[Any]:
    """Return arguments one by one: Polars takes lists of them, too."""
    return [
        item
        for part in arguments
        for item in (cast("Iterable[Any]", part) if isinstance(part, list | tuple | set) else (part,))
    ]


def named_columns(named: Mapping[str, object]) -> dict[str, object]:
    """Return named expressions; refuse other values, which are misspelt arguments."""
    wrong = next((name for name, expression in named.items() if not isinstance(expression, str | pl.Expr)), None)
    if wrong is not None:
        raise misfit("group_by", ("columns", "keys", "other"), {wrong: None}, "")
    return dict(named)


def column_name(given: object) -> str:
    """Return the name of a public column, which is given by its name or by an expression."""
    if isinstance(given, str):
        return given
    if isinstance(given, pl.Expr):
        try:
            return given.meta.output_name()
        except pl.exceptions.PolarsError:
            pass
    raise UsageError(
        f"A public column is {quoted(given)}, which has no single name.",
        allowed="the name of a column, or an expression with one",
        instead='pl.col("hour").dt.truncate("1d").alias("day")',
    )


def answer_name(name: object, values: Values, what: str) -> str:
    """Return the name of an answer; if none is given, that of its values, or of their column and the query."""
    default = values.name if values.name is not None else f"{values.column}_{what}"
    return read_name(name, default)


def read_name(name: object, default: str) -> str:
    """Return the name of an answer, `default` if none is given."""
    if name is None:
        return default
    written = isinstance(name, str) and name.encode(errors="ignore").decode()
    if not written or written != name:
        raise UsageError(f"name is {quoted(name)}.", allowed="a text that can be written", instead=f'name="{default}"')
    return written
