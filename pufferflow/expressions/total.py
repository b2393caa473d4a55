"""Whether a public expression gives something for every value: a closed list of what never stops.

Where it is secret which rows there are, an error at one value would tell that its row is there. Polars stops at more
values than its manual says: dates that no calendar has, hours that a time zone skips, Decimals that overflow, types
that it finds out about late. So only what is listed here passes, with literals as further arguments.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import polars as pl

from pufferflow.errors import Misuse
from pufferflow.expressions.accepted import ALL, FIRST, accepts, castable
from pufferflow.expressions.allowed import options
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
from pufferflow.expressions.tree import Node
from pufferflow.expressions.words import words

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
