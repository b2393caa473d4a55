"""An expression as a person would write it, and comparisons as they would be written with another type."""

from datetime import datetime
from fractions import Fraction
from typing import Any, Final, cast
from zoneinfo import ZoneInfo

import polars as pl

from pufferflow.core.tables import moment_source
from pufferflow.core.validate import quoted
from pufferflow.queries.expressions.functions import COMPARISONS, FUNCTIONS, Types
from pufferflow.queries.expressions.tree import Node, short

LONGEST: Final = 60
_OPAQUE: Final = {
    "Null": "null",
    "List": "[…]",
    "Series": "[…]",
    "Float": "(NaN or ∞)",
    "Float64": "(NaN or ∞)",
}
_SIGNS: Final = {"not": "~", "negate": "-"}


def words(node: Node, most: int = LONGEST) -> str:
    """Return the expression in at most `most` letters.

    >>> import polars as pl
    >>> from pufferflow.queries.expressions.tree import read_tree
    >>> words(read_tree(pl.col("x").clip(0, 9) * 2))
    'x.clip(0, 9) * 2'
    """
    return short(_written(node), most)


def subject(node: Node) -> str:
    """Return the words of the object of a method."""
    return short(_operand(node), 30) if node.columns else "pl"


def number(value: Fraction) -> str:
    """Return a number as a person would write it: whole, or the decimal nearest to it.

    >>> number(Fraction(3)), number(Fraction(0.1))
    ('3', '0.1')
    """
    if value.denominator == 1 and abs(value) < 10**15:
        return str(value.numerator)
    try:
        return repr(float(value))
    except OverflowError:
        return (
            f"{'-' if value < 0 else ''}1e{len(str(abs(value.numerator // value.denominator))) - 1}"
        )


def _written(node: Node) -> str:
    match node.kind:
        case "column":
            text = node.word if node.word.isidentifier() else repr(node.word)
        case "literal":
            text = _literal(node)
        case "name":
            text = _written(node.inputs[0])
        case "operator":
            left, right = map(_operand, node.inputs)
            text = (
                f"{left}.{node.word}({right})"
                if node.word.isidentifier()
                else f"{left} {node.word} {right}"
            )
        case "choice":
            predicate, truthy, falsy = map(_written, node.inputs)
            text = f"when({predicate}).then({truthy}).otherwise({falsy})"
        case "cast":
            text = f"{_operand(node.inputs[0])}.cast({node.word})"
        case "function":
            text = _call_in_words(node)
    return text


def _call_in_words(node: Node) -> str:
    if node.word in _SIGNS:
        return _SIGNS[node.word] + _operand(node.inputs[0])
    given = [_written(part) for part in node.inputs]
    if node.word == "clip" and node.value == {"has_min": False, "has_max": True}:
        given.insert(1, "None")
    if node.word == "is_between" and node.value != {"closed": "Both"}:
        given.append(f"closed={str(node.value['closed']).lower()!r}")
    is_method = node.word not in FUNCTIONS or FUNCTIONS[node.word].is_method
    if not is_method or not node.columns:
        return f"{node.word}({', '.join(given)})"
    return f"{_operand(node.inputs[0])}.{node.word}({', '.join(given[1:])})"


def _literal(node: Node) -> str:
    if isinstance(node.value, bool | str):
        return repr(node.value)
    if isinstance(node.value, Fraction):
        return number(node.value)
    return node.told or _OPAQUE.get(node.word, f"<{node.word}>")


def _operand(node: Node) -> str:
    """Return a part in brackets where an operator or a method follows."""
    node = node.bare
    return (
        f"({_written(node)})"
        if node.kind == "operator" and not node.word.isidentifier()
        else _written(node)
    )


_TEXTS: Final = (pl.String, pl.Categorical, pl.Enum)


def fitting(tree: Node, types: Types) -> str:
    """Return the first comparison that does not fit its column as it can be typed; nothing if none can be mended.

    >>> from pufferflow.queries.expressions.tree import read_tree
    >>> fitting(read_tree(pl.col("at") >= "2026-01-01"), {"at": pl.Datetime(time_zone="Europe/Berlin")})
    'pl.col("at") >= datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")), or ...'
    """
    for node in tree.walk():
        compares = (
            node.word in COMPARISONS if node.kind == "operator" else node.word == "is_between"
        )
        columns = [
            part.word for part in node.inputs if part.kind == "column" and part.word in types
        ]
        if compares and len(columns) == 1:
            parts = [_part(part, types[columns[0]]) for part in node.inputs]
            if None not in parts and any(part.kind == "literal" for part in node.inputs):
                return _call(node.word, [str(part) for part in parts]) + _converted(
                    node, columns[0], types[columns[0]]
                )
    return ""


def _converted(node: Node, column: str, dtype: pl.DataType) -> str:
    """Return the other way to compare moments of two zones, which also works if the literal is a variable."""
    if getattr(dtype, "time_zone", None) is None:
        return ""
    zones = [
        _zone(part.value)
        for part in node.inputs
        if part.word == "Datetime" and part.told.endswith("Z")
    ]
    zone = zones[0] if zones else "Europe/Berlin"
    return (
        f', or pl.col({quoted(column)}).dt.convert_time_zone("{zone}") beside moments of that zone'
    )


def like(tree: Node, types: Types) -> str:
    """Return a comparison of the first column of an expression with a value of its type."""
    for name in tree.columns:
        if name in types:
            dtype, zone = types[name], getattr(types[name], "time_zone", None)
            dated = isinstance(dtype, pl.Datetime) or dtype == pl.Date
            moment = datetime(2026, 1, 1, tzinfo=None if zone is None else ZoneInfo(zone))
            text = dtype.base_type() in _TEXTS
            value = (
                moment_source(moment, is_date=dtype == pl.Date) if dated else '"a"' if text else "1"
            )
            return (
                f"pl.col({quoted(name)}).is_in([{value}]), with values of "
                "its own type, or .cast(pl.String) for texts"
            )
    return 'pl.col("hour").dt.truncate("1d").alias("day")'


def _call(word: str, parts: list[str]) -> str:
    if word == "is_between":
        return f"{parts[0]}.is_between({', '.join(parts[1:])})"
    return (
        f"{parts[0]} {word} {parts[1]}"
        if not word.isidentifier()
        else f"{parts[0]}.{word}({parts[1]})"
    )


def _part(part: Node, dtype: pl.DataType) -> str | None:
    """Return a part as it is typed, a literal as one of this type; None if it cannot be one."""
    if part.kind == "column":
        return f'pl.col("{part.word}")' if '"' not in part.word else f"pl.col({quoted(part.word)})"
    return _literal_like(part, dtype) if part.kind == "literal" else None


def _literal_like(literal: Node, dtype: pl.DataType) -> str | None:
    if isinstance(dtype, pl.Datetime) or dtype == pl.Date:
        moment = _moment(literal, getattr(dtype, "time_zone", None))
        return None if moment is None else moment_source(moment, is_date=dtype == pl.Date)
    if dtype.is_numeric() and isinstance(literal.value, str):
        plain = literal.value.strip()
        return plain if plain.removeprefix("-").replace(".", "", 1).isdecimal() else None
    if dtype.base_type() in _TEXTS and literal.value is not None and not literal.told:
        return (
            f'"{literal.value if isinstance(literal.value, str | bool) else number(literal.value)}"'
        )
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
        return (
            moment.replace(tzinfo=ZoneInfo(zone))
            if moment.tzinfo is None
            else moment.astimezone(ZoneInfo(zone))
        )
    except (
        ValueError,
        KeyError,
        OverflowError,
        OSError,
    ):  # no date, or a time zone that this machine does not know
        return None


def _zone(unit_and_zone: Any) -> str:
    zone = unit_and_zone[1]
    return str(cast(dict[str, Any], zone)["inner"] if isinstance(zone, dict) else zone)
