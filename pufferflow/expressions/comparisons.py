"""Comparisons of a column with a literal of another type, written as they would be with one of the column's own.

What filters say of public columns by comparing them with literal values: which rows they leave, provably.

Only conjunctions of plain comparisons are read, of a column with values of its own kind; whatever else a filter asks
leaves no more rows than that.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final, NamedTuple, cast
from zoneinfo import ZoneInfo

import polars as pl

from pufferflow.arguments import shown
from pufferflow.dtypes import moment_source
from pufferflow.expressions.kinds import COMPARISONS, Types
from pufferflow.expressions.tree import Node, read_tree
from pufferflow.expressions.words import number

_TEXTS: Final = (pl.String, pl.Categorical, pl.Enum)


def fitting(tree: Node, types: Types) -> str:
    """Return the first comparison that does not fit its column as it can be typed; nothing if none can be mended.

    >>> from pufferflow.expressions.tree import read_tree
    >>> fitting(read_tree(pl.col("at") >= "2026-01-01"), {"at": pl.Datetime(time_zone="Europe/Berlin")})
    'pl.col("at") >= datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")), or ...'
    """
    for node in tree.walk():
        compares = node.word in COMPARISONS if node.kind == "operator" else node.word == "is_between"
        columns = [part.word for part in node.inputs if part.kind == "column" and part.word in types]
        if compares and len(columns) == 1:
            parts = [_part(part, types[columns[0]]) for part in node.inputs]
            if None not in parts and any(part.kind == "literal" for part in node.inputs):
                return _call(node.word, [str(part) for part in parts]) + _converted(node, columns[0], types[columns[0]])
    return ""


def _converted(node: Node, column: str, dtype: pl.DataType) -> str:
    """Return the other way to compare moments of two zones, which also serves where the literal is a variable."""
    if getattr(dtype, "time_zone", None) is None:
        return ""
    zones = [_zone(part.value) for part in node.inputs if part.word == "Datetime" and part.told.endswith("Z")]
    zone = zones[0] if zones else "Europe/Berlin"
    return f', or pl.col({shown(column)}).dt.convert_time_zone("{zone}") beside moments of that zone'


def like(tree: Node, types: Types) -> str:
    """Return a comparison of the first column of an expression with a value of its type."""
    for name in tree.columns:
        if name in types:
            dtype, zone = types[name], getattr(types[name], "time_zone", None)
            dated = isinstance(dtype, pl.Datetime) or dtype == pl.Date
            moment = datetime(2026, 1, 1, tzinfo=None if zone is None else ZoneInfo(zone))
            text = dtype.base_type() in _TEXTS
            value = moment_source(moment, is_date=dtype == pl.Date) if dated else '"a"' if text else "1"
            return f"pl.col({shown(name)}).is_in([{value}]), with values of its own type, or .cast(pl.String) for texts"
    return 'pl.col("hour").dt.truncate("1d").alias("day")'


def _call(word: str, parts: list[str]) -> str:
    if word == "is_between":
        return f"{parts[0]}.is_between({', '.join(parts[1:])})"
    return f"{parts[0]} {word} {parts[1]}" if not word.isidentifier() else f"{parts[0]}.{word}({parts[1]})"


def _part(part: Node, dtype: pl.DataType) -> str | None:
    """Return a part as it is typed, a literal as one of this type; None if nobody knows how."""
    if part.kind == "column":
        return f'pl.col("{part.word}")' if '"' not in part.word else f"pl.col({shown(part.word)})"
    return _literal(part, dtype) if part.kind == "literal" else None


def _literal(literal: Node, dtype: pl.DataType) -> str | None:
    if isinstance(dtype, pl.Datetime) or dtype == pl.Date:
        moment = _moment(literal, getattr(dtype, "time_zone", None))
        return None if moment is None else moment_source(moment, is_date=dtype == pl.Date)
    if dtype.is_numeric() and isinstance(literal.value, str):
        plain = literal.value.strip()
        return plain if plain.removeprefix("-").replace(".", "", 1).isdecimal() else None
    if dtype.base_type() in _TEXTS and literal.value is not None and not literal.told:
        return f'"{literal.value if isinstance(literal.value, str | bool) else number(literal.value)}"'
    if dtype == pl.Boolean and str(literal.value).lower() in ("true", "false"):
        return str(literal.value).capitalize()
    return None


def _moment(literal: Node, zone: str | None) -> datetime | None:
    """Return the moment of a literal in a time zone, or as a clock shows it where the column has none."""
    try:
        moment = datetime.fromisoformat(literal.told or str(literal.value))
        if literal.word == "Datetime" and moment.tzinfo is not None:
            moment = moment.astimezone(ZoneInfo(_zone(literal.value)))
        if zone is None:
            return moment.replace(tzinfo=None)
        return moment.replace(tzinfo=ZoneInfo(zone)) if moment.tzinfo is None else moment.astimezone(ZoneInfo(zone))
    except (ValueError, KeyError, OverflowError, OSError):  # no date, or a time zone that this machine does not know
        return None


def _zone(unit_and_zone: Any) -> str:
    zone = unit_and_zone[1]
    return str(cast(dict[str, Any], zone)["inner"] if isinstance(zone, dict) else zone)


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
    """Return what a filter says of the public columns of these types.

    >>> conditions((pl.col("day") >= 3) & (pl.col("house") == "a"), {"day": pl.Int64(), "house": pl.String()})
    [Condition(column='house', kind='text', labels=('a',), ...), Condition(column='day', kind='number', ...low=3, ...)]
    """
    return [one for part in _conjuncts(expression) for one in _compared(part, types)]


def is_one_of(column: str, values: pl.Series) -> list[Condition]:
    """Return that a column has one of some values, if these are of a kind that is compared."""
    found = _comparable(values, values.dtype)
    return [] if found is None else [Condition(column, found[0], labels=found[1])]


def _conjuncts(expression: pl.Expr) -> Iterator[pl.Expr]:
    node = read_tree(expression)
    if node.kind == "operator" and node.word == "&":
        for part in expression.meta.pop():
            yield from _conjuncts(part)
    else:
        yield expression


def _compared(part: pl.Expr, types: Mapping[str, pl.DataType]) -> list[Condition]:
    """Return what one comparison says, nothing if it is no plain one."""
    node, inputs = read_tree(part), part.meta.pop()[::-1]
    if node.kind == "operator" and node.word in _MIRRORED:
        return _of_operator(node, inputs, types)
    reader = _FUNCTIONS.get(node.word) if node.kind == "function" else None
    if reader is None or node.inputs[0].kind != "column" or node.inputs[0].word not in types:
        return []
    if not all(one.kind == "literal" for one in node.inputs[1:]):
        return []
    return reader(node, inputs[1:], types[node.inputs[0].word])


def _between(node: Node, ends: Sequence[pl.Expr], dtype: pl.DataType) -> list[Condition]:
    low, high = (_bound(one, dtype) for one in ends)
    if low is None or high is None or low[0] != high[0] or not _ordered(dtype):
        return []
    closed = str(node.value["closed"]).lower()
    opens = closed not in ("both", "left"), closed not in ("both", "right")
    return [Condition(node.inputs[0].word, low[0], None, low[1], high[1], *opens)]


def _among(node: Node, values: Sequence[pl.Expr], dtype: pl.DataType) -> list[Condition]:
    found = _labels(values[0], dtype)
    return [] if found is None else [Condition(node.inputs[0].word, found[0], labels=found[1])]


_FUNCTIONS: Final[dict[str, Callable[[Node, Sequence[pl.Expr], pl.DataType], list[Condition]]]] = {
    "is_between": _between,
    "is_in": _among,
}


def _of_operator(node: Node, inputs: Sequence[pl.Expr], types: Mapping[str, pl.DataType]) -> list[Condition]:
    left, right = node.inputs
    word, column, literal = node.word, left, inputs[1]
    if left.kind == "literal":
        word, column, literal = _MIRRORED[word], right, inputs[0]
    if column.kind != "column" or column.word not in types or {left.kind, right.kind} != {"column", "literal"}:
        return []
    found = _bound(literal, types[column.word])
    if found is None:
        return []
    kind, value = found
    match word:
        case "==":
            return [Condition(column.word, kind, labels=(value,))]
        case _ if not _ordered(types[column.word]):
            return []
        case ">" | ">=":
            return [Condition(column.word, kind, None, low=value, low_open=word == ">")]
        case _:
            return [Condition(column.word, kind, None, high=value, high_open=word == "<")]


def _ordered(dtype: pl.DataType) -> bool:
    """Say whether values are in the order of the column; those of an Enum or a Categorical have one of their own."""
    return not isinstance(dtype, pl.Categorical | pl.Enum)


def _bound(literal: pl.Expr, dtype: pl.DataType) -> tuple[str, Any] | None:
    found = _labels(literal, dtype)
    return None if found is None or len(found[1]) != 1 else (found[0], found[1][0])


def _labels(literal: pl.Expr, dtype: pl.DataType) -> tuple[str, tuple[Any, ...]] | None:
    """Return the values of a literal, which no frame has a part in, as a column of this type compares them."""
    values = pl.select(literal).to_series()
    if isinstance(values.dtype, pl.List) and len(values) == 1:
        values = values.explode()
    return _comparable(values, dtype)


def _comparable(values: pl.Series, dtype: pl.DataType) -> tuple[str, tuple[Any, ...]] | None:
    """Return values as a column of this type compares them; None where types do not surely agree."""
    if not 0 < len(values) <= _MOST or not _as_fine(values.dtype, dtype):
        return None
    found = [_read(value, dtype) for value in values.to_list()]
    kinds = {one[0] for one in found if one is not None}
    if None in found or len(kinds) != 1:
        return None
    return kinds.pop(), tuple(one[1] for one in found if one is not None)


def _as_fine(literal: pl.DataType, column: pl.DataType) -> bool:
    """Say whether moments are compared as they are: of two units Polars takes the coarser one, for both sides.

    Nanoseconds are beyond what Python's moments can say.
    """
    if not isinstance(column, pl.Datetime):
        return True
    units = column.time_unit, getattr(literal, "time_unit", None)
    return units in {("us", "us"), ("ms", "us"), ("ms", "ms")}


def _read(value: Any, dtype: pl.DataType) -> tuple[str, Any] | None:
    found: tuple[str, Any] | None = None
    match value:
        case bool() if dtype == pl.Boolean:
            found = "bool", value
        case int() if not isinstance(value, bool) and (
            dtype.is_integer() or (dtype == pl.Float64 and abs(value) < 2**53)
        ):
            found = "number", value
        case float() if dtype == pl.Float64 and math.isfinite(value):
            found = "number", value
        case str() if dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum):
            found = "text", value
        case datetime() if isinstance(dtype, pl.Datetime):
            found = _moment_of_literal(value, dtype)
        case date() if dtype == pl.Date and not isinstance(value, datetime):
            found = "date", (value.toordinal() - _EPOCH.toordinal()) * _DAY
        case _:
            pass
    return found


def _moment_of_literal(value: datetime, dtype: pl.Datetime) -> tuple[str, Any] | None:
    """Return a moment in nanoseconds, if the column counts as finely and has a time zone where the moment has one."""
    coarse = dtype.time_unit == "ms" and value.microsecond % 1000
    if coarse or (dtype.time_zone is None) != (value.tzinfo is None):
        return None
    plain = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    since = plain - _EPOCH
    kind = "local" if value.tzinfo is None else "moment"
    return kind, ((since.days * 86_400 + since.seconds) * 10**6 + since.microseconds) * 1000
