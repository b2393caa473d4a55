"""Conditions on public columns that every row passing a filter provably fulfils.

Only conjunctions of plain comparisons are read, of a column with literal values of its own kind; any other part of a
filter leaves no more rows than they do.
"""

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any, Final, NamedTuple

import polars as pl

from pufferflow.queries.expressions.tree import Node, read_tree

_MIRRORED: Final = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - moments without a time zone are counted as they are written
_MOST: Final = 1000
_DAY: Final = 86_400 * 10**9


class Condition(NamedTuple):
    """The values of one kind that a column has in the rows that pass: one of `labels`, or between two ends."""

    column: str
    kind: str
    labels: tuple[Any, ...] | None = None
    low: Any = None
    high: Any = None
    low_open: bool = False
    high_open: bool = False


def conditions(expression: pl.Expr, types: Mapping[str, pl.DataType]) -> list[Condition]:
    """Return the conditions that a filter puts on the public columns of these types.

    >>> conditions((pl.col("day") >= 3) & (pl.col("house") == "a"), {"day": pl.Int64(), "house": pl.String()})
    [Condition(column='house', kind='text', labels=('a',), ...), Condition(column='day', kind='number', ...low=3, ...)]
    """
    read = (_of_nulls(part, types) or _condition(part, types) for part in _conjuncts(expression))
    return [condition for condition in read if condition is not None]


def is_one_of(column: str, values: pl.Series) -> list[Condition]:
    """Return the condition that a column has one of some values, if these are of a kind that is compared."""
    known = _comparable(values, values.dtype)
    return [] if known is None else [Condition(column, known[0], labels=known[1])]


def _conjuncts(expression: pl.Expr) -> Iterator[pl.Expr]:
    node = read_tree(expression)
    if node.kind == "operator" and node.word == "&":
        for part in expression.meta.pop():
            yield from _conjuncts(part)
    else:
        yield expression


def _condition(part: pl.Expr, types: Mapping[str, pl.DataType]) -> Condition | None:
    """Return the condition of one comparison, None if it is no plain one."""
    node, inputs = read_tree(part), part.meta.pop()[::-1]
    if node.kind == "operator" and node.word in _MIRRORED and node.inputs[0].kind == "literal":  # 3 < x is x > 3
        node, inputs = Node("operator", _MIRRORED[node.word], node.inputs[::-1]), inputs[::-1]
    compares = node.word in (_MIRRORED if node.kind == "operator" else ("is_in", "is_between"))
    if not compares or node.kind not in ("operator", "function"):
        return None
    column, *literals = node.inputs
    if column.kind != "column" or column.word not in types or any(one.kind != "literal" for one in literals):
        return None
    dtype = types[column.word]
    known = [_comparable(_values(one), dtype) for one in inputs[1:]]
    kinds = {one and one[0] for one in known}
    if None in kinds or len(kinds) != 1:
        return None
    kind, values = kinds.pop() or "", [one[1] for one in known if one is not None]
    if node.word == "is_in":
        return Condition(column.word, kind, labels=values[0])
    if any(len(ends) != 1 for ends in values):
        return None
    return _with_ends(node, kind, [ends[0] for ends in values], dtype)


def _missing(node: Node) -> tuple[Node, bool] | None:
    """Return of what a function says that it is null, or that it is not; None if it is no such function."""
    if node.kind != "function" or not node.inputs:
        return None
    if node.word == "not" and (inner := _missing(node.inputs[0])) is not None:
        return inner[0], not inner[1]
    return (node.inputs[0], node.word == "is_null") if node.word in ("is_null", "is_not_null") else None


def _of_nulls(part: pl.Expr, types: Mapping[str, pl.DataType]) -> Condition | None:
    """Return the condition that a column is null, or a range without ends, which has everything but null."""
    known = _missing(read_tree(part))
    if known is None:
        return None
    column, null = known
    kind = _kind_of(types[column.word]) if column.kind == "column" and column.word in types else None
    return None if kind is None else Condition(column.word, kind, labels=(None,) if null else None)


def _kind_of(dtype: pl.DataType) -> str | None:
    """Return the kind of the values of a column, as its literals have it."""
    if isinstance(dtype, pl.Datetime):
        return "local" if dtype.time_zone is None else "moment"
    if dtype.is_integer() or dtype == pl.Float64:
        return "number"
    text = dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum)
    return "text" if text else "bool" if dtype == pl.Boolean else "date" if dtype == pl.Date else None


def _with_ends(node: Node, kind: str, ends: list[Any], dtype: pl.DataType) -> Condition | None:
    column = node.inputs[0].word
    if node.word == "==":
        return Condition(column, kind, labels=(ends[0],))
    if isinstance(dtype, pl.Categorical | pl.Enum) or kind == "bool":  # an order of their own, or none to speak of
        return None
    if node.word in (">", ">="):
        return Condition(column, kind, low=ends[0], low_open=node.word == ">")
    if node.word in ("<", "<="):
        return Condition(column, kind, high=ends[0], high_open=node.word == "<")
    closed = str(node.value["closed"]).lower()
    opens = closed not in ("both", "left"), closed not in ("both", "right")
    return Condition(column, kind, None, ends[0], ends[1], *opens)


def _values(literal: pl.Expr) -> pl.Series:
    """Return the values of a literal; no frame has a part in it."""
    values = pl.select(literal).to_series()
    return values.explode() if isinstance(values.dtype, pl.List) and len(values) == 1 else values


def _comparable(values: pl.Series, dtype: pl.DataType) -> tuple[str, tuple[Any, ...]] | None:
    """Return values as a column of this type compares them; None where types do not surely agree."""
    if not 0 < len(values) <= _MOST or not _as_fine(values.dtype, dtype):
        return None
    read = [_read(value, dtype) for value in values.to_list()]
    kinds = {one and one[0] for one in read}
    if None in kinds or len(kinds) != 1:
        return None
    return kinds.pop() or "", tuple(one[1] for one in read if one is not None)


def _as_fine(literal: pl.DataType, column: pl.DataType) -> bool:
    """Return whether moments are compared as they are: of two units Polars takes the coarser one, for both sides.

    Python's moments have no nanoseconds.
    """
    if not isinstance(column, pl.Datetime):
        return True
    units = column.time_unit, getattr(literal, "time_unit", None)
    return units in {("us", "us"), ("ms", "us"), ("ms", "ms")}


def _read(value: Any, dtype: pl.DataType) -> tuple[str, Any] | None:
    literal: tuple[str, Any] | None = None
    match value:
        case bool() if dtype == pl.Boolean:
            literal = "bool", value
        case int() if not isinstance(value, bool) and (
            dtype.is_integer() or (dtype == pl.Float64 and abs(value) < 2**53)
        ):
            literal = "number", value
        case float() if dtype == pl.Float64 and math.isfinite(value):
            literal = "number", value
        case str() if dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum):
            literal = "text", value
        case datetime() if isinstance(dtype, pl.Datetime):
            literal = _moment_of_literal(value, dtype)
        case date() if dtype == pl.Date and not isinstance(value, datetime):
            literal = "date", (value.toordinal() - _EPOCH.toordinal()) * _DAY
        case _:
            pass
    return literal


def _moment_of_literal(value: datetime, dtype: pl.Datetime) -> tuple[str, Any] | None:
    """Return a moment in nanoseconds, if the column counts as finely and has a time zone where the moment has one."""
    coarse = dtype.time_unit == "ms" and value.microsecond % 1000
    if coarse or (dtype.time_zone is None) != (value.tzinfo is None):
        return None
    plain = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    since = plain - _EPOCH
    kind = "local" if value.tzinfo is None else "moment"
    return kind, ((since.days * 86_400 + since.seconds) * 10**6 + since.microseconds) * 1000
