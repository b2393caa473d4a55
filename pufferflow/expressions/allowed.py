"""The functions that work on each row by itself: a closed list, since a new Polars may have new ones."""

from typing import Any, Final, cast

from pufferflow.errors import Refused
from pufferflow.expressions.names import ALLOWED, mixes, refused_function
from pufferflow.expressions.tree import LISTS, Node
from pufferflow.expressions.words import subject, words

_TABLES: Final = frozenset(
    {
        *("is_in", "replace", "replace_strict", "str.contains_any", "str.replace_many"),
        *("dt.is_business_day", "dt.add_business_days"),
    }
)
"""Functions that look a value up in a table, which must stand in the expression."""
_PLACES: Final = {"replace_strict": (1, 3), "dt.add_business_days": (2, None)}
"""Where tables stand, if there are other arguments."""
_UNORDERED: Final = frozenset({"Categorical", "List", "Array", "Struct"})
"""Types whose values are, or may be, counted in the order in which the process has met them."""

NUMBERS: Final = frozenset(
    {
        *("abs", "negate", "sign", "clip", "floor", "ceil", "round", "round_sig_figs", "truncate"),
        *("pow", "sqrt", "cbrt", "exp", "log", "log1p", "is_close", "is_between", "is_in", "replace", "replace_strict"),
        *("is_null", "is_not_null", "is_nan", "is_not_nan", "is_finite", "is_infinite", "fill_null", "coalesce"),
        *("not", "all_horizontal", "any_horizontal"),
        *("min_horizontal", "max_horizontal", "sum_horizontal", "mean_horizontal"),
        *("sin", "cos", "tan", "cot", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "degrees", "radians"),
    }
)
TEXTS: Final = frozenset(
    {
        *("concat_str", "format"),
        *(
            f"str.{name}"
            for name in (
                *("contains", "contains_any", "starts_with", "ends_with", "find", "count_matches", "extract"),
                *("len_chars", "len_bytes", "head", "tail", "slice", "reverse", "pad_start", "pad_end", "zfill"),
                *("to_lowercase", "to_uppercase", "to_titlecase", "replace", "replace_many", "normalize"),
                *("strip_chars", "strip_chars_start", "strip_chars_end", "strip_prefix", "strip_suffix"),
                *("to_integer", "to_decimal", "strptime"),
            )
        ),
    }
)
TIMES: Final = frozenset(
    {
        *("datetime", "duration"),
        *(
            f"dt.{name}"
            for name in (
                *("millennium", "century", "year", "iso_year", "is_leap_year", "quarter", "month", "days_in_month"),
                *("week", "weekday", "day", "ordinal_day", "hour", "minute", "second"),
                *("millisecond", "microsecond", "nanosecond", "date", "time", "timestamp", "combine", "replace"),
                *("truncate", "round", "offset_by", "month_start", "month_end", "to_string", "cast_time_unit"),
                *("convert_time_zone", "replace_time_zone", "base_utc_offset", "dst_offset"),
                *("is_business_day", "add_business_days"),
                *(
                    f"total_{unit}"
                    for unit in ("days", "hours", "minutes", "seconds", "milliseconds", "microseconds", "nanoseconds")
                ),
            )
        ),
    }
)
OTHERS: Final = frozenset(
    {"cat.starts_with", "cat.ends_with", "cat.len_chars", "cat.len_bytes", "struct", "struct.field"}
)

VALUES: Final = NUMBERS | TEXTS
"""For values of a domain: numbers, Booleans and labels."""
PUBLIC: Final = NUMBERS | TEXTS | TIMES | OTHERS


def check(tree: Node, functions: frozenset[str]) -> None:
    """Refuse what is not on the list, tables that do not stand in the expression, and the types that look at others."""
    _no_series((tree,))
    for node in tree.walk():
        if node.kind == "function":
            if node.word not in functions:
                raise refused_function(subject(node.inputs[0]) if node.inputs else "pl", node.word)
            _check_table(node)
            if node.word == "str.strptime":
                _check_format(node)
        elif node.kind != "literal":
            _no_series(node.inputs)
        _check_type(node)


def _check_table(node: Node) -> None:
    if node.word not in _TABLES:
        _no_series(node.inputs)
        return
    start, end = _PLACES.get(node.word, (1, None))
    _no_series(node.inputs[:start] + (node.inputs[end:] if end else ()))
    for table in node.inputs[start:end]:
        if table.columns or table.word == LISTS:
            raise mixes(words(node))


def _no_series(nodes: tuple[Node, ...]) -> None:
    if any(node.kind == "literal" and node.word in ("Series", "Range", LISTS) for node in nodes):
        raise Refused(
            "A whole Series stands in the expression as if it were a column.",
            allowed=ALLOWED,
            instead="single numbers, dates or texts; a Series only as the list of is_in and replace",
        )


def _check_type(node: Node) -> None:
    """Refuse Categoricals: the numbers behind their labels, which sorting and least values see, come from all rows."""
    held = options(node).get("return_dtype") if node.word == "replace_strict" else None
    names = {node.word} if node.kind == "cast" else set(_names(held))
    if names & _UNORDERED:
        raise Refused(
            f"{words(node)} makes a type whose labels are numbered in the order in which rows are met.",
            allowed="numbers, dates, pl.String and pl.Enum as types",
            instead='cast(pl.Enum(["north", "south"])), or cast(pl.String)',
        )


def _names(written: Any) -> list[str]:
    """Return the name of a data type as Polars writes it down."""
    literal: object = cast(dict[str, Any], written).get("Literal") if isinstance(written, dict) else None
    return [literal] if isinstance(literal, str) else list(cast(dict[str, Any], literal or {}))


def _check_format(node: Node) -> None:
    """Refuse dates read from texts without a format: Polars guesses it from the first rows."""
    match node.value:
        case [_, {"format": str()}]:
            return
        case _:
            raise Refused(
                f"{subject(node.inputs[0])}.str.strptime() without a format guesses it from the first rows.",
                allowed="a format",
                instead='str.to_date("%Y-%m-%d"), or str.to_datetime("%Y-%m-%d")',
            )


def options(node: Node) -> dict[str, Any]:
    """Return the options of a function that has some."""
    held: object = node.value
    return cast(dict[str, Any], held) if isinstance(held, dict) else {}
