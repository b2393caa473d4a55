"""The kinds of values that parts of a public expression have, as far as they follow from its tree and column types.

Kinds are coarser than data types: values of one kind can be compared and mixed without a conversion that may fail.
A column whose type is not given, and what is made of it, is "any". "odd" are values at which Polars may fail in any
function: Decimals and 128-bit integers that overflow, bytes that are no text, lists and structs.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, cast

import polars as pl

from pufferflow.queries.expressions.tree import Node

ValueKind = str
"""number, truth, text, label, date, moment, time, span, null, any or odd; or "moment in …" with a time zone.

A label is a Categorical or an Enum, a span a Duration.
"""
Types = Mapping[str, pl.DataType]
"""The types of columns: those that are known."""

COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "eq_missing", "ne_missing"})
NUMBERS: Final = frozenset[ValueKind]({"number", "truth"})
ZONED: Final = "moment in …"
"""Moments in any time zone."""
DATES: Final = frozenset[ValueKind]({"date", "moment", ZONED})
_NUMBERS: Final = ("Int", "Float", *(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)))
_NAMED: Final[dict[str, ValueKind]] = {
    **dict.fromkeys((*_NUMBERS, "Float32", "Float64"), "number"),
    **dict.fromkeys(("Categorical", "Enum"), "label"),
    "Boolean": "truth",
    "String": "text",
    "Date": "date",
    "Time": "time",
    "Duration": "span",
    "Null": "null",
}
_CASTS: Final[dict[ValueKind, frozenset[ValueKind]]] = {
    "number": frozenset({*NUMBERS, *DATES, "text", "time", "span", "null"}),
    "truth": frozenset({*NUMBERS, "null"}),
    "text": frozenset({*NUMBERS, "text", "label", "null"}),
    "label": frozenset({"text", "label", "null"}),
    **dict.fromkeys(("date", "moment", ZONED), frozenset({"number", *DATES, "null"})),
}
"""The casts that never fail, with strict=False."""


def accepts(kinds: Collection[ValueKind], kind: ValueKind) -> bool:
    """Return whether a kind is among some, by itself or as a moment in any time zone."""
    return kind in kinds or (kind.startswith("moment in ") and ZONED in kinds)


def castable(kind: ValueKind, to: ValueKind) -> bool:
    """Return whether a cast with strict=False gives something for every value."""
    return accepts(_CASTS.get(ZONED if to.startswith("moment in ") else to, ()), kind)


def mixed(*kinds: ValueKind) -> ValueKind:
    """Return the kind of values some of which are of each of these kinds; "odd" if they would have to be converted.

    >>> mixed("date", "null", "date"), mixed("number", "truth"), mixed("text", "date")
    ('date', 'number', 'odd')
    """
    held = {one for one in kinds if one != "null"}
    if len(held) <= 1:
        return min(held, default="null")
    pairs = {NUMBERS: "number", frozenset({"text", "label"}): "label"}
    return "any" if "any" in held else pairs.get(frozenset(held), "odd")


def mixable(*kinds: ValueKind) -> bool:
    """Return whether values become one column without a conversion that may fail."""
    if "any" in kinds:
        return set(kinds) <= {"any", "null"} and kinds.count("any") == 1
    return mixed(*kinds) != "odd" and kinds.count("label") <= 1


def no_unsigned_meets_negative(parts: Collection[Node], types: Types) -> bool:
    """Return whether no negative constant meets a possible UInt64: Polars makes both Int64, which may not fit."""
    if not any(_may_be_unsigned(node, types) for part in parts for node in part.walk()):
        return True
    constants = [part.bare for part in parts if not part.columns]
    return all(one.kind == "literal" and not (one.word == "Int" and one.value < 0) for one in constants)


def _may_be_unsigned(node: Node, types: Types) -> bool:
    if node.kind == "column":
        return isinstance(types.get(node.word, pl.UInt64()), pl.UInt64)
    return "UInt64" in f"{node.word} {node.value}"


def dated(kind: ValueKind) -> bool:
    """Return whether values lie on a calendar."""
    return kind == "date" or kind.startswith("moment")


def kind_of_type(dtype: pl.DataType) -> ValueKind:
    """Return the kind of the values of a data type."""
    return zoned(dtype.time_zone) if isinstance(dtype, pl.Datetime) else _NAMED.get(str(dtype.base_type()), "odd")


def kind_of_written(dtype: object) -> ValueKind:
    """Return the kind of a data type as Polars writes it down."""
    if not isinstance(dtype, dict):
        return _NAMED.get(str(dtype), "odd")
    ((name, held),) = cast(dict[str, Any], dtype).items()
    return zoned(held[1] and held[1]["inner"]) if name == "Datetime" else _NAMED.get(name, "odd")


def kind_of_literal(node: Node) -> ValueKind:
    """Return the kind of a single literal value."""
    return kind_of_written({"Datetime": node.value} if node.word == "Datetime" else node.word)


def kind_of_table(table: Node) -> ValueKind:
    """Return the kind of the items of a list or Series."""
    return kind_of_type(table.value) if isinstance(table.value, pl.DataType) else "odd"


def zoned(zone: object) -> ValueKind:
    """Return the kind of moments in a time zone."""
    return "moment" if zone is None else f"moment in {zone}"


def combined(word: str, left: ValueKind, right: ValueKind) -> ValueKind:
    """Return the kind of the result of an operator other than a comparison; "odd" if it is not for such kinds."""
    pair = {left, right}
    if "any" in pair:
        return "any"
    if pair <= NUMBERS:
        return _of_numbers(word, pair)
    if word == "+" and pair == {"text"}:
        return "text"
    if word in "+-" and right == "span" and (dated(left) or left == "span"):
        return left
    if word == "+" and left == "span" and dated(right):
        return right
    return "span" if word == "-" and dated(left) and (left == right or pair == {"date", "moment"}) else "odd"


def _of_numbers(word: str, pair: set[ValueKind]) -> ValueKind:
    if pair == {"truth"} and word in "&|^":
        return "truth"
    fits = pair == {"number"} or word == "+" or ("number" in pair and word in "-*/")
    return "number" if fits else "odd"
