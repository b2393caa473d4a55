"""Expressions of public columns, and the conditions that every row which passes a filter fulfils.

The conditions on public columns are proven for every row that passes. Only conjunctions of plain comparisons are read,
of a column with literal values of its own kind. Any other part of a filter only leaves fewer rows.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any, Final, NamedTuple, cast

import polars as pl

from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.tables import exactly
from pufferflow.core.validate import quoted
from pufferflow.queries.expressions.checks import check_never_fails, check_rowwise
from pufferflow.queries.expressions.functions import FUNCTIONS, NUMBERS, Types, dated, kinds_of
from pufferflow.queries.expressions.tree import Node, read_tree, short
from pufferflow.queries.expressions.words import words

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
    """Return the conditions that a filter puts on public columns of these types.

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
    """Return the condition of one comparison, None if it is not a plain one."""
    node, inputs = read_tree(part), part.meta.pop()[::-1]
    if (
        node.kind == "operator" and node.word in _MIRRORED and node.inputs[0].kind == "literal"
    ):  # 3 < x is x > 3
        node, inputs = Node("operator", _MIRRORED[node.word], node.inputs[::-1]), inputs[::-1]
    compares = node.word in (_MIRRORED if node.kind == "operator" else ("is_in", "is_between"))
    if not compares or node.kind not in ("operator", "function"):
        return None
    column, *literals = node.inputs
    if (
        column.kind != "column"
        or column.word not in types
        or any(one.kind != "literal" for one in literals)
    ):
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
    """Return the node that a function tests for null, and whether null passes; None if it is no such function."""
    if node.kind != "function" or not node.inputs:
        return None
    if node.word == "not" and (inner := _missing(node.inputs[0])) is not None:
        return inner[0], not inner[1]
    return (
        (node.inputs[0], node.word == "is_null")
        if node.word in ("is_null", "is_not_null")
        else None
    )


def _of_nulls(part: pl.Expr, types: Mapping[str, pl.DataType]) -> Condition | None:
    """Return the condition that a column is null, or a range without ends, which has everything but null."""
    known = _missing(read_tree(part))
    if known is None:
        return None
    column, null = known
    kind = (
        _kind_of(types[column.word]) if column.kind == "column" and column.word in types else None
    )
    return None if kind is None else Condition(column.word, kind, labels=(None,) if null else None)


def _kind_of(dtype: pl.DataType) -> str | None:
    """Return the kind of the values of a column, as its literals have it."""
    if isinstance(dtype, pl.Datetime):
        return "local" if dtype.time_zone is None else "moment"
    if dtype.is_integer() or dtype == pl.Float64:
        return "number"
    text = dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum)
    return (
        "text" if text else "bool" if dtype == pl.Boolean else "date" if dtype == pl.Date else None
    )


def _with_ends(node: Node, kind: str, ends: list[Any], dtype: pl.DataType) -> Condition | None:
    column = node.inputs[0].word
    if node.word == "==":
        return Condition(column, kind, labels=(ends[0],))
    if (
        isinstance(dtype, pl.Categorical | pl.Enum) or kind == "bool"
    ):  # an order of their own, or none to speak of
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
    """Return values as a column of this type compares them; None if types may not agree."""
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

    `known` are the public columns, if possible with their types, which permit more expressions. `refusal` is about all
    others. `never_fails` refuses expressions that may fail at a value: if the existence of rows is secret, an error
    would reveal a row.

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
    """Return a text that identifies an expression, with all its literal values.

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
    """Refuse minima and maxima of possible Categoricals: their order depends on the rows that were read before.

    One part that is surely a number or a time is enough: Polars never compares a Categorical with it.
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
