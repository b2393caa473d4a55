"""What kind of values a part of a public expression gives, as far as its tree and the types of columns tell.

Kinds are coarser than data types: values of one kind can be compared and mixed without a conversion that may fail.
What nobody knows is "any": a column whose type is not told, and what is made of it. "odd" is what Polars may stop at
whatever is done with it: Decimals and 128-bit integers that overflow, bytes that are no text, lists and structs.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

import polars as pl

from pufferflow.expressions.tree import Node

Kind = str
"""number, truth, text, label, date, moment, time, span, null, any or odd; or "moment in …" with a time zone.

A label is a Categorical or an Enum, a span a Duration.
"""
Types = Mapping[str, pl.DataType]
"""The types of columns: those that are known."""

COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "eq_missing", "ne_missing"})
NUMBERS: Final = frozenset[Kind]({"number", "truth"})
_NUMBERS: Final = ("Int", "Float", *(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)))
_NAMED: Final[dict[str, Kind]] = {
    **dict.fromkeys((*_NUMBERS, "Float32", "Float64"), "number"),
    **dict.fromkeys(("Categorical", "Enum"), "label"),
    "Boolean": "truth",
    "String": "text",
    "Date": "date",
    "Time": "time",
    "Duration": "span",
    "Null": "null",
}
GIVES: Final[dict[str, Kind]] = {
    **dict.fromkeys(("is_null", "is_not_null", "is_nan", "is_not_nan", "is_finite", "is_infinite", "is_in"), "truth"),
    **dict.fromkeys(("is_between", "is_close", "all_horizontal", "any_horizontal"), "truth"),
    **dict.fromkeys(("floor", "ceil", "round", "round_sig_figs", "truncate", "sqrt", "cbrt", "exp", "log"), "number"),
    **dict.fromkeys(("log1p", "sin", "cos", "tan", "cot", "arcsin", "arccos", "arctan", "sinh", "cosh"), "number"),
    **dict.fromkeys(("tanh", "degrees", "radians", "sum_horizontal", "mean_horizontal"), "number"),
    **dict.fromkeys(("concat_str", "format"), "text"),
    **dict.fromkeys(("cat.starts_with", "cat.ends_with"), "truth"),
    **dict.fromkeys(("cat.len_chars", "cat.len_bytes"), "number"),
    **{f"str.{name}": "truth" for name in ("starts_with", "ends_with", "contains", "contains_any")},
    **{f"str.{name}": "number" for name in ("len_chars", "len_bytes", "find", "count_matches", "to_integer")},
    **{f"str.{name}": "text" for name in ("to_lowercase", "to_uppercase", "to_titlecase", "head", "tail", "slice")},
    **{f"str.{name}": "text" for name in ("reverse", "strip_chars", "strip_chars_start", "strip_chars_end")},
    **{f"str.{name}": "text" for name in ("strip_prefix", "strip_suffix", "normalize", "pad_start", "pad_end")},
    **{f"str.{name}": "text" for name in ("zfill", "extract", "replace", "replace_many")},
    **{f"dt.{name}": "number" for name in ("millennium", "century", "year", "iso_year", "quarter", "month")},
    **{f"dt.{name}": "number" for name in ("days_in_month", "week", "weekday", "day", "ordinal_day", "hour")},
    **{f"dt.{name}": "number" for name in ("minute", "second", "millisecond", "microsecond", "nanosecond")},
    **{f"dt.total_{unit}s": "number" for unit in ("day", "hour", "minute", "second")},
    **{f"dt.total_{unit}s": "number" for unit in ("millisecond", "microsecond", "nanosecond")},
    "dt.timestamp": "number",
    "dt.is_leap_year": "truth",
    "dt.date": "date",
    "dt.time": "time",
}
"""What functions give, whatever they are given."""
MIXING: Final = frozenset({"fill_null", "coalesce", "clip", "min_horizontal", "max_horizontal"})
"""Functions that give one of the values that they are given."""
_SAME: Final = frozenset({"not", "negate", "abs", "sign", "replace", "dt.truncate"})


def kind(node: Node, types: Types) -> Kind:
    """Return the kind of what a node gives.

    >>> from pufferflow.expressions.tree import read_tree
    >>> kind(read_tree(pl.col("hour").dt.hour() > 6), {}), kind(read_tree(pl.col("hour")), {"hour": pl.Date()})
    ('truth', 'date')
    """
    return _KINDS[node.kind](node, types)


def kinds_of(nodes: Iterable[Node], types: Types) -> list[Kind]:
    """Return the kinds of some nodes."""
    return [kind(node, types) for node in nodes]


def mixed(*kinds: Kind) -> Kind:
    """Return the kind of values some of which are of each of these kinds; "odd" if they would have to be converted.

    >>> mixed("date", "null", "date"), mixed("number", "truth"), mixed("text", "date")
    ('date', 'number', 'odd')
    """
    held = {one for one in kinds if one != "null"}
    if len(held) <= 1:
        return min(held, default="null")
    return "any" if "any" in held else _TOGETHER.get(frozenset(held), "odd")


_TOGETHER: Final = {NUMBERS: "number", frozenset({"text", "label"}): "label"}


def dated(kind: Kind) -> bool:
    """Return whether values lie on a calendar."""
    return kind == "date" or kind.startswith("moment")


def target(written: object) -> Kind:
    """Return the kind of a data type as Polars writes it down."""
    if not isinstance(written, dict):
        return _NAMED.get(str(written), "odd")
    ((name, held),) = cast(dict[str, Any], written).items()
    return zoned(held[1] and held[1]["inner"]) if name == "Datetime" else _NAMED.get(name, "odd")


def zoned(zone: object) -> Kind:
    """Return the kind of moments in a time zone."""
    return "moment" if zone is None else f"moment in {zone}"


def table_kind(table: Node) -> Kind:
    """Return the kind of what is in a list or Series."""
    return _of_type(table.value) if isinstance(table.value, pl.DataType) else "odd"


def _column(node: Node, types: Types) -> Kind:
    return _of_type(types[node.word]) if node.word in types else "any"


def _of_type(dtype: pl.DataType) -> Kind:
    return zoned(dtype.time_zone) if isinstance(dtype, pl.Datetime) else _NAMED.get(str(dtype.base_type()), "odd")


def _literal(node: Node, _: Types) -> Kind:
    return target({"Datetime": node.value}) if node.word == "Datetime" else _NAMED.get(node.word, "odd")


def _operator(node: Node, types: Types) -> Kind:
    if node.word in COMPARISONS:
        return "truth"
    return combined(node.word, *kinds_of(node.inputs, types))


def combined(word: str, left: Kind, right: Kind) -> Kind:
    """Return what an operator other than a comparison gives; "odd" if it is not for such kinds."""
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


def _of_numbers(word: str, pair: set[Kind]) -> Kind:
    if pair == {"truth"} and word in "&|^":
        return "truth"
    fits = pair == {"number"} or word == "+" or ("number" in pair and word in "-*/")
    return "number" if fits else "odd"


def _choice(node: Node, types: Types) -> Kind:
    return mixed(*kinds_of(node.inputs[1:], types))


def _cast(node: Node, _: Types) -> Kind:
    return target(node.value[1])


def _name(node: Node, types: Types) -> Kind:
    return kind(node.inputs[0], types)


def _function(node: Node, types: Types) -> Kind:
    if node.word in GIVES:
        return GIVES[node.word]
    if node.word in MIXING:
        return mixed(*kinds_of(node.inputs, types))
    if node.word in _SAME:
        return kind(node.inputs[0], types)
    return _by_options(node)


def _by_options(node: Node) -> Kind:
    match node.word, node.value:
        case "str.strptime", [{"Literal": dtype}, *_]:
            return target(dtype)
        case "replace_strict", {"return_dtype": {"Literal": dtype}}:
            return target(dtype)
        case "replace_strict", {"return_dtype": None} if len(node.inputs) == 4:
            return mixed(table_kind(node.inputs[2]), kind(node.inputs[3], {}))
        case "dt.convert_time_zone", {"inner": zone}:
            return zoned(zone)
        case _:
            return "any"


_KINDS: Final[dict[str, Callable[[Node, Types], Kind]]] = {
    "cast": _cast,
    "choice": _choice,
    "column": _column,
    "function": _function,
    "literal": _literal,
    "name": _name,
    "operator": _operator,
}
