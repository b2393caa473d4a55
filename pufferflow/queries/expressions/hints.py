"""Comparisons of a column with a literal of another type, written as they would be with one of the column's own."""

from datetime import datetime
from typing import Any, Final, cast
from zoneinfo import ZoneInfo

import polars as pl

from pufferflow.core.dtypes import moment_source
from pufferflow.core.validate import quoted
from pufferflow.queries.expressions.kinds import COMPARISONS, Types
from pufferflow.queries.expressions.tree import Node
from pufferflow.queries.expressions.words import number

_TEXTS: Final = (pl.String, pl.Categorical, pl.Enum)


def fitting(tree: Node, types: Types) -> str:
    """Return the first comparison that does not fit its column as it can be typed; nothing if none can be mended.

    >>> from pufferflow.queries.expressions.tree import read_tree
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
    return f', or pl.col({quoted(column)}).dt.convert_time_zone("{zone}") beside moments of that zone'


def like(tree: Node, types: Types) -> str:
    """Return a comparison of the first column of an expression with a value of its type."""
    for name in tree.columns:
        if name in types:
            dtype, zone = types[name], getattr(types[name], "time_zone", None)
            dated = isinstance(dtype, pl.Datetime) or dtype == pl.Date
            moment = datetime(2026, 1, 1, tzinfo=None if zone is None else ZoneInfo(zone))
            text = dtype.base_type() in _TEXTS
            value = moment_source(moment, is_date=dtype == pl.Date) if dated else '"a"' if text else "1"
            return (
                f"pl.col({quoted(name)}).is_in([{value}]), with values of its own type, or .cast(pl.String) for texts"
            )
    return 'pl.col("hour").dt.truncate("1d").alias("day")'


def _call(word: str, parts: list[str]) -> str:
    if word == "is_between":
        return f"{parts[0]}.is_between({', '.join(parts[1:])})"
    return f"{parts[0]} {word} {parts[1]}" if not word.isidentifier() else f"{parts[0]}.{word}({parts[1]})"


def _part(part: Node, dtype: pl.DataType) -> str | None:
    """Return a part as it is typed, a literal as one of this type; None if it cannot be one."""
    if part.kind == "column":
        return f'pl.col("{part.word}")' if '"' not in part.word else f"pl.col({quoted(part.word)})"
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
