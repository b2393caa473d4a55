"""The functions that work on each row by itself: a closed list, since a new Polars may have new ones.

Whether a public expression gives something for every value: a closed list of what never stops.

Where it is secret which rows there are, an error at one value would tell that its row is there. Polars stops at more
values than its manual says: dates that no calendar has, hours that a time zone skips, Decimals that overflow, types
that it finds out about late. So only what is listed here passes, with literals as further arguments.

What functions and casts may be given so that they stop at no value: found by trying them on the farthest values.
"""

import re
from collections.abc import Callable, Collection
from fractions import Fraction
from typing import Any, Final, cast

import polars as pl

from pufferflow.errors import Misuse, Refused
from pufferflow.expressions.comparisons import fitting
from pufferflow.expressions.kinds import (
    COMPARISONS,
    MIXING,
    NUMBERS,
    Kind,
    Types,
    combined,
    dated,
    kind,
    kinds_of,
    mixed,
    table_kind,
    target,
)
from pufferflow.expressions.refusals import ALLOWED, mixes, refused_function
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

OF_NUMBERS: Final = frozenset(
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

VALUES: Final = OF_NUMBERS | TEXTS
"""For values of a domain: numbers, Booleans and labels."""
PUBLIC: Final = OF_NUMBERS | TEXTS | TIMES | OTHERS


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


_ZONED: Final = "moment in …"
"""Moments in any time zone."""
_DATES: Final = frozenset[Kind]({"date", "moment", _ZONED})
_TEXTS: Final = frozenset[Kind]({"text", "any"})
_LABELS: Final = frozenset[Kind]({"label", "any"})
_UTC: Final = frozenset[Kind]({"date", "moment", "moment in UTC"})
_CALENDAR: Final = frozenset[Kind]({*_DATES, "any"})
_CLOCK: Final = frozenset[Kind]({"moment", _ZONED, "time", "any"})
_SIMPLE: Final = frozenset[Kind]({*NUMBERS, *_DATES, "text", "label", "time", "span", "null", "any"})

FIRST: Final[dict[str, frozenset[Kind]]] = {
    **dict.fromkeys(("is_null", "is_not_null", "is_in", "replace", "replace_strict"), _SIMPLE),
    **dict.fromkeys(("is_nan", "is_not_nan", "is_finite", "is_infinite"), frozenset[Kind]({"number", "any"})),
    "not": frozenset[Kind]({"truth", "any"}),
    "abs": frozenset[Kind]({"number", "span", "any"}),
    "sign": frozenset[Kind]({"number", "any"}),
    **dict.fromkeys(("floor", "ceil", "round", "round_sig_figs", "truncate", "is_close"), frozenset[Kind]({"number"})),
    **dict.fromkeys(("sqrt", "cbrt", "exp", "log", "log1p", "degrees", "radians"), frozenset[Kind]({"number"})),
    **dict.fromkeys(("sin", "cos", "tan", "cot", "arcsin", "arccos", "arctan"), frozenset[Kind]({"number"})),
    **dict.fromkeys(("sinh", "cosh", "tanh"), frozenset[Kind]({"number"})),
    **{f"str.{name}": _TEXTS for name in ("starts_with", "ends_with", "contains", "contains_any", "find")},
    **{f"str.{name}": _TEXTS for name in ("count_matches", "len_chars", "len_bytes", "to_lowercase", "to_uppercase")},
    **{f"str.{name}": _TEXTS for name in ("to_titlecase", "head", "tail", "slice", "reverse", "normalize")},
    **{f"str.{name}": _TEXTS for name in ("strip_chars", "strip_chars_start", "strip_chars_end", "strip_prefix")},
    **{f"str.{name}": _TEXTS for name in ("strip_suffix", "to_integer", "strptime")},
    **{f"cat.{name}": _LABELS for name in ("starts_with", "ends_with", "len_chars", "len_bytes")},
    **{
        f"dt.{name}": _CALENDAR
        for name in ("millennium", "century", "year", "quarter", "month", "week", "weekday", "day")
    },
    **{f"dt.{name}": _CLOCK for name in ("hour", "minute", "second", "millisecond", "microsecond", "nanosecond")},
    **{f"dt.{name}": _UTC for name in ("iso_year", "is_leap_year", "days_in_month", "ordinal_day")},
    "dt.date": _UTC,
    "dt.time": frozenset[Kind]({"moment", "moment in UTC"}),
    "dt.truncate": _UTC,
    "dt.timestamp": _DATES,
    **{f"dt.total_{unit}s": frozenset[Kind]({"span", "any"}) for unit in ("day", "hour", "minute", "second")},
    **{f"dt.total_{unit}seconds": frozenset[Kind]({"span", "any"}) for unit in ("milli", "micro", "nano")},
    "dt.convert_time_zone": frozenset[Kind]({"moment", _ZONED, "any"}),
}
"""Functions of one part, with literals: what the part may be."""
ALL: Final[dict[str, frozenset[Kind]]] = {
    **dict.fromkeys(("all_horizontal", "any_horizontal"), frozenset[Kind]({"truth", "null"})),
    **dict.fromkeys(("sum_horizontal", "mean_horizontal"), NUMBERS),
    **dict.fromkeys(("concat_str", "format"), frozenset[Kind]({*NUMBERS, "text", "label"})),
}
"""Functions of several parts: what each may be."""
CASTS: Final[dict[Kind, frozenset[Kind]]] = {
    "number": frozenset({*NUMBERS, *_DATES, "text", "time", "span", "null"}),
    "truth": frozenset({*NUMBERS, "null"}),
    "text": frozenset({*NUMBERS, "text", "label", "null"}),
    "label": frozenset({"text", "label", "null"}),
    "date": frozenset({"number", *_DATES, "null"}),
    "moment": frozenset({"number", *_DATES, "null"}),
    _ZONED: frozenset({"number", *_DATES, "null"}),
}
"""What may be cast to what, with strict=False."""


def accepts(kinds: Collection[Kind], kind: Kind) -> bool:
    """Return whether a kind is among some, by itself or as a moment in any time zone."""
    return kind in kinds or (kind.startswith("moment in ") and _ZONED in kinds)


def castable(kind: Kind, to: Kind) -> bool:
    """Return whether a cast with strict=False gives something for every value."""
    return accepts(CASTS.get(_ZONED if to.startswith("moment in ") else to, ()), kind)


_FLOATS: Final = frozenset({"Float", "Float32", "Float64"})
_WINDOW: Final = re.compile(r"[1-9]\d{0,3}(ns|us|ms|s|m|h|d|w)")
"""Months, quarters and years stop at dates that no calendar has."""

_MEETING: Final = MIXING | {"sum_horizontal", "mean_horizontal", "is_close"}


def check_total(tree: Node, types: Types) -> None:
    """Refuse the first part that may stop at a value, of a tree that has been checked otherwise.

    A column whose type is not told may have any. Polars itself refuses types that do not fit at all before it reads a
    row, except for a few (comparisons of lists, structs and durations with texts), for which types must be told.
    """
    for node in tree.walk():
        if not _PARTS[node.kind](node, types):
            raise Misuse(
                f"{words(node)} may stop at some value, and it is secret which rows there are.",
                allowed="comparisons, is_in, is_null, parts of dates, + - * of numbers, casts with strict=False",
                instead=_instead(node, types),
            )


def _instead(node: Node, types: Types) -> str:
    if (node.kind == "cast" and node.value[0] == "Strict") or "'strict': True" in str(node.value):
        return "strict=False, or replace"
    if node.word == "replace_strict":
        return "replace_strict(…, default=None)"
    if node.word in ("dt.date", "dt.truncate", "dt.time") and "mo" not in str(node.inputs[-1].value):
        return '.dt.convert_time_zone("UTC") before it, or parts such as dt.day()'
    if fitting(node, types):
        return fitting(node, types)
    if node.kind == "operator" and "any" in kinds_of(node.inputs, types):
        return "floats as numbers, such as + 1.0, or another column"
    return "the column as it is, or is_in and == with literals"


def _always(_node: Node, _types: Types) -> bool:
    return True


def _column(node: Node, types: Types) -> bool:
    return kind(node, types) != "odd"


def _literal(node: Node, types: Types) -> bool:
    return kind(node, types) not in ("odd", "label") or node.word in ("List", "Series")


def _cast(node: Node, types: Types) -> bool:
    inner = node.inputs[0]
    constant = _bare(inner).kind == "literal"  # pl.date(2026, 1, 1) is a strict cast of one
    return (constant or node.value[0] != "Strict") and castable(kind(inner, types), kind(node, types))


def _bare(node: Node) -> Node:
    return _bare(node.inputs[0]) if node.kind == "name" else node


def _choice(node: Node, types: Types) -> bool:
    predicate, *branches = kinds_of(node.inputs, types)
    return (
        predicate in ("truth", "any")
        and _mixable(*branches)
        and set(branches) != {"text", "label"}
        and _fitting(node.inputs[1:], types)
    )


def _mixable(*kinds: Kind) -> bool:
    """Return whether values become one column without a conversion that may fail."""
    if "any" in kinds:
        return set(kinds) <= {"any", "null"} and kinds.count("any") == 1
    return mixed(*kinds) != "odd" and kinds.count("label") <= 1


def _fitting(parts: tuple[Node, ...], types: Types) -> bool:
    """Return whether no negative constant meets what may be UInt64: Polars makes both Int64, which may not fit."""
    if not any(_may_be_unsigned(part, types) for part in parts):
        return True
    constants = [_bare(part) for part in parts if not part.columns]
    return all(one.kind == "literal" and not _negative(one) for one in constants)


def _negative(literal: Node) -> bool:
    return literal.word == "Int" and literal.value < 0


def _may_be_unsigned(part: Node, types: Types) -> bool:
    return any(
        isinstance(types.get(node.word, pl.UInt64()), pl.UInt64)
        if node.kind == "column"
        else "UInt64" in f"{node.word} {node.value}"
        for node in part.walk()
    )


def _operator(node: Node, types: Types) -> bool:
    left, right = kinds_of(node.inputs, types)
    if node.word in COMPARISONS:
        return _comparable(node, left, right)
    if node.word in "&|^":
        return {left, right} <= {"truth", "any", "null"}
    if "any" in (left, right):  # a Decimal times a float is a float
        return node.word in "+-*" and any(_bare(part).word in _FLOATS for part in node.inputs)
    return combined(node.word, left, right) != "odd"


def _comparable(node: Node, left: Kind, right: Kind) -> bool:
    constant = any(_bare(part).kind == "literal" for part in node.inputs)
    if "null" in (left, right):  # the result is typed as a Boolean, but is none
        return node.word in ("eq_missing", "ne_missing") and "odd" not in (left, right)
    if "odd" in (left, right):
        return False
    if "any" in (left, right):
        return constant
    if "label" in (left, right):  # Polars finds out late which labels an Enum has
        return constant and node.word in ("==", "!=", "eq_missing", "ne_missing") and "text" in (left, right)
    return mixed(left, right) != "odd" or ("date" in (left, right) and dated(left) and dated(right))


def _function(node: Node, types: Types) -> bool:
    kinds = kinds_of(node.inputs, types)
    if node.word in _MEETING and not _fitting(node.inputs, types):
        return False
    if node.word in ALL:
        return all(one in ALL[node.word] for one in kinds)
    if node.word in MIXING or node.word == "is_between":
        return _mixes(node, *kinds)
    return (
        node.word in FIRST
        and accepts(FIRST[node.word], kinds[0])
        and all(_bare(part).kind == "literal" for part in node.inputs[1:])
        and _ARGUMENTS.get(node.word, _always)(node, types)
    )


def _mixes(node: Node, first: Kind, *others: Kind) -> bool:
    constant = all(_bare(part).kind == "literal" for part in node.inputs[1:])
    if first == "any" and node.word in ("fill_null", "is_between"):
        return constant and set(others) <= NUMBERS
    if first == "label" or "label" in others:
        return node.word in ("fill_null", "coalesce") and constant and _mixable(first, *others)
    unfit = {"any"} if node.word in ("fill_null", "coalesce") else {"any", "truth", "null"}
    unfit |= {"text"} if node.word == "clip" else set()
    return unfit.isdisjoint((first, *others)) and mixed(first, *others) != "odd"


def _literal_pattern(node: Node, _: Types) -> bool:
    """Regular expressions may be wrong, and may take too long."""
    return options(node).get("literal") is True


def _integer(node: Node, _: Types) -> bool:
    base: object = node.inputs[1].value
    return options(node).get("strict") is False and isinstance(base, Fraction) and 2 <= base <= 36


def _parsed(node: Node, _: Types) -> bool:
    """Read dates and times that are null where they do not fit; a time zone would skip some."""
    match node.value:
        case [{"Literal": dtype}, {"strict": False, "exact": True}]:
            return target(dtype) in ("date", "time", "moment")
        case _:
            return False


def _replaced(node: Node, types: Types) -> bool:
    """Look up what a table can hold; other types are found out about late."""
    first, old, new = kind(node.inputs[0], types), *map(table_kind, node.inputs[1:3])
    found = mixed(old, new) if node.word == "replace" else old
    return first == "any" or found in (first, "null")


def _defaulted(node: Node, types: Types) -> bool:
    if len(node.inputs) != 4 or not _replaced(node, types):
        return False
    found = mixed(table_kind(node.inputs[2]), kind(node.inputs[3], types))
    return found in (kind(node, types), "null") and found != "odd"


def _near(node: Node, types: Types) -> bool:
    return set(kinds_of(node.inputs, types)) == {"number"}


def _window(node: Node, _: Types) -> bool:
    return _WINDOW.fullmatch(str(_bare(node.inputs[1]).value)) is not None


_ARGUMENTS: Final[dict[str, Callable[[Node, Types], bool]]] = {
    **dict.fromkeys(("str.contains", "str.find", "str.count_matches"), _literal_pattern),
    "is_close": _near,
    "str.to_integer": _integer,
    "str.strptime": _parsed,
    "replace": _replaced,
    "replace_strict": _defaulted,
    "dt.truncate": _window,
}
_PARTS: Final[dict[str, Callable[[Node, Types], bool]]] = {
    "cast": _cast,
    "choice": _choice,
    "column": _column,
    "function": _function,
    "literal": _literal,
    "name": _always,
    "operator": _operator,
}
