"""The functions that an expression may use: a closed list; and the kinds of values that its parts have.

The kinds of values that parts of a public expression have, as far as they follow from its tree and column types.

Kinds are coarser than data types: values of one kind can be compared and mixed without a conversion that may fail. A
column whose type is not given, and whatever is made from it, is "any". "odd" are values at which Polars may fail in any
function: Decimals and 128-bit integers that overflow, bytes that are no text, lists and structs.

The functions that an expression may use: a closed list, one row for each.

Other functions are refused, since a new Polars may have new ones, and an unknown function may read other rows. A row
says what kind of values a function returns, what it is on an interval, and when it has a result for every value. The
last matters if the existence of rows is secret: an error at one value would reveal that its row is there.

Polars fails at more values than its manual says: dates that no calendar has, hours that a time zone skips, Decimals
that overflow, types that it checks late. So `never_fails` was found by trying extreme values, and
tests/queries/expressions/test_never_fails.py tries them again.
"""

import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce
from typing import Any, Final, cast, final

import polars as pl

from pufferflow.queries.expressions.pieces import (
    Line,
    NotLinearError,
    NotPredicatesError,
    Pieces,
    compare,
    either,
    where,
)
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
_NUMBERS: Final = (
    "Int",
    "Float",
    *(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)),
)
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
    """Return the kind of values some of which are of each of these kinds; "odd" if they need a conversion.

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
    return all(
        one.kind == "literal" and not (one.word == "Int" and one.value < 0) for one in constants
    )


def _may_be_unsigned(node: Node, types: Types) -> bool:
    if node.kind == "column":
        return isinstance(types.get(node.word, pl.UInt64()), pl.UInt64)
    return "UInt64" in f"{node.word} {node.value}"


def dated(kind: ValueKind) -> bool:
    """Return whether values lie on a calendar."""
    return kind == "date" or kind.startswith("moment")


def kind_of_type(dtype: pl.DataType) -> ValueKind:
    """Return the kind of the values of a data type."""
    return (
        zoned(dtype.time_zone)
        if isinstance(dtype, pl.Datetime)
        else _NAMED.get(str(dtype.base_type()), "odd")
    )


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
    """Return the kind of the result of an operator other than a comparison; "odd" if it does not take such kinds."""
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
    return (
        "span"
        if word == "-" and dated(left) and (left == right or pair == {"date", "moment"})
        else "odd"
    )


def _of_numbers(word: str, pair: set[ValueKind]) -> ValueKind:
    if pair == {"truth"} and word in "&|^":
        return "truth"
    fits = pair == {"number"} or word == "+" or ("number" in pair and word in "-*/")
    return "number" if fits else "odd"


Draw = Callable[[Node], Pieces]
"""From an input to its function on the interval."""
Curve = Callable[[Node, Draw], Pieces]
Rule = Callable[[Node, Types], bool]


def _never(_node: Node, _types: Types) -> bool:
    return False


def _not_linear(_node: Node, _draw: Draw) -> Pieces:
    raise NotLinearError


@final
@dataclass(frozen=True)
class Function:
    """A function that works on each row by itself.

    `on_values` permits it on a sensitive column, whose values are numbers, Booleans and labels. `gives` is the kind of
    its result. `never_fails` says for which inputs it has a result at every value. `curve` is the function on an
    interval.
    """

    name: str
    on_values: bool
    gives: ValueKind | Callable[[Node, Types], ValueKind] = "any"
    never_fails: Rule = _never
    curve: Curve = _not_linear
    table: tuple[int, int | None] | None = None
    """Which inputs are a table that values are looked up in; it must stand in the expression."""
    is_method: bool = True
    """Whether it is written as a method of its first input."""
    of_nulls: bool = False
    """Whether it is about values that are missing."""
    in_order: bool = False
    """Whether it gives the least or the most of its inputs."""


def options(node: Node) -> dict[str, Any]:
    """Return the options of a function that has some."""
    held: object = node.value
    return cast(dict[str, Any], held) if isinstance(held, dict) else {}


def kind(node: Node, types: Types) -> ValueKind:
    """Return the kind of the result of a node of a checked tree.

    >>> import polars as pl
    >>> from pufferflow.queries.expressions.tree import read_tree
    >>> kind(read_tree(pl.col("hour").dt.hour() > 6), {}), kind(read_tree(pl.col("hour")), {"hour": pl.Date()})
    ('truth', 'date')
    """
    match node.kind:
        case "column":
            result = kind_of_type(types[node.word]) if node.word in types else "any"
        case "literal":
            result = kind_of_literal(node)
        case "name":
            result = kind(node.inputs[0], types)
        case "operator":
            result = (
                "truth"
                if node.word in COMPARISONS
                else combined(node.word, *kinds_of(node.inputs, types))
            )
        case "choice":
            result = mixed(*kinds_of(node.inputs[1:], types))
        case "cast":
            result = kind_of_written(node.value[1])
        case "function":
            gives = FUNCTIONS[node.word].gives
            result = gives if isinstance(gives, str) else gives(node, types)
    return result


def kinds_of(nodes: Iterable[Node], types: Types) -> list[ValueKind]:
    """Return the kinds of some nodes."""
    return [kind(node, types) for node in nodes]


# The kinds of results.


def _as_first(node: Node, types: Types) -> ValueKind:
    return kind(node.inputs[0], types)


def _mixed(node: Node, types: Types) -> ValueKind:
    return mixed(*kinds_of(node.inputs, types))


def _by_options(node: Node, _: Types) -> ValueKind:
    match node.value:
        case [{"Literal": dtype}, *_] | {"return_dtype": {"Literal": dtype}}:
            return kind_of_written(dtype)
        case {"return_dtype": None} if len(node.inputs) == 4:
            return mixed(kind_of_table(node.inputs[2]), kind(node.inputs[3], {}))
        case {"inner": zone}:
            return zoned(zone)
        case _:
            return "any"


# Functions that have a result at every value.


def _constants(nodes: Iterable[Node]) -> bool:
    return all(node.bare.kind == "literal" for node in nodes)


def _of(*kinds: ValueKind, if_: Rule | None = None) -> Rule:
    """Return the rule for a first input of certain kinds, with literals as further inputs."""

    def never_fails(node: Node, types: Types) -> bool:
        fits = accepts(kinds, kind(node.inputs[0], types)) and _constants(node.inputs[1:])
        return fits and (if_ is None or if_(node, types))

    return never_fails


def _of_all(*kinds: ValueKind) -> Rule:
    return lambda node, types: set(kinds_of(node.inputs, types)) <= set(kinds)


def _alike(*unfit: ValueKind) -> Rule:
    """Return the rule for inputs that can be compared with each other; labels never can."""

    def never_fails(node: Node, types: Types) -> bool:
        kinds = kinds_of(node.inputs, types)
        return {"any", "truth", "null", "label", *unfit}.isdisjoint(kinds) and mixed(
            *kinds
        ) != "odd"

    return never_fails


def _in_one_column(rule: Rule) -> Rule:
    """Return the rule for inputs that Polars brings to one type."""
    return lambda node, types: no_unsigned_meets_negative(node.inputs, types) and rule(node, types)


def _between_numbers(node: Node, types: Types) -> bool:
    first, *others = kinds_of(node.inputs, types)
    return first == "any" and _constants(node.inputs[1:]) and set(others) <= NUMBERS


def _between(node: Node, types: Types) -> bool:
    return _between_numbers(node, types) or _alike()(node, types)


def _coalesced(node: Node, types: Types) -> bool:
    kinds = kinds_of(node.inputs, types)
    if "label" in kinds:
        return _constants(node.inputs[1:]) and mixable(*kinds)
    return "any" not in kinds and mixed(*kinds) != "odd"


def _filled(node: Node, types: Types) -> bool:
    return _between_numbers(node, types) or _coalesced(node, types)


def _plain_pattern(node: Node, _: Types) -> bool:
    """Regular expressions may be wrong, and may take too long."""
    return options(node).get("literal") is True


def _of_base(node: Node, _: Types) -> bool:
    base: object = node.inputs[1].value
    return options(node).get("strict") is False and isinstance(base, Fraction) and 2 <= base <= 36


def _leniently(node: Node, _: Types) -> bool:
    """Read dates and times that are null where they do not fit; a time zone would skip some."""
    match node.value:
        case [{"Literal": dtype}, {"strict": False, "exact": True}]:
            return kind_of_written(dtype) in ("date", "time", "moment")
        case _:
            return False


def _holds_first(table: ValueKind, node: Node, types: Types) -> bool:
    """Return whether values can be looked up in a table; Polars notices late that types do not fit."""
    first = kind(node.inputs[0], types)
    return first == "any" or table in (first, "null")


def _replaced(node: Node, types: Types) -> bool:
    return _holds_first(mixed(*map(kind_of_table, node.inputs[1:3])), node, types)


def _defaulted(node: Node, types: Types) -> bool:
    if len(node.inputs) != 4 or not _holds_first(kind_of_table(node.inputs[1]), node, types):
        return False
    result = mixed(kind_of_table(node.inputs[2]), kind(node.inputs[3], types))
    return result in (kind(node, types), "null") and result != "odd"


_WINDOW: Final = re.compile(r"[1-9]\d{0,3}(ns|us|ms|s|m|h|d|w)")
"""Months, quarters and years stop at dates that no calendar has."""


def _window(node: Node, _: Types) -> bool:
    return _WINDOW.fullmatch(str(node.inputs[1].bare.value)) is not None


# What functions are on an interval, where no value is missing.


def _first_curve(node: Node, draw: Draw) -> Pieces:
    return draw(node.inputs[0])


def _constant(value: int) -> Curve:
    return lambda _node, draw: draw(Node("literal", "Int", value=Fraction(value)))


def _absolute(node: Node, draw: Draw) -> Pieces:
    given = draw(node.inputs[0])
    return given * given.sign()


def _inputs(node: Node, draw: Draw) -> list[Pieces]:
    return [draw(part) for part in node.inputs]


def _predicates(node: Node, draw: Draw) -> list[Pieces]:
    drawn = _inputs(node, draw)
    if not all(part.predicate for part in drawn):
        raise NotPredicatesError
    return drawn


def _opposite(node: Node, draw: Draw) -> Pieces:
    return _predicates(node, draw)[0].mapped(lambda line: Line(1 - line.intercept, -line.slope))


def _clipped(node: Node, draw: Draw) -> Pieces:
    """Return f within its bounds; if they are the wrong way round, the lower one counts first."""
    given, *bounds = _inputs(node, draw)
    low = bounds.pop(0) if options(node).get("has_min") else None
    clipped = given
    if bounds:
        clipped = where(compare(given, ">", bounds[0]), bounds[0], clipped)
    return clipped if low is None else where(compare(given, "<", low), low, clipped)


def _between_curves(node: Node, draw: Draw) -> Pieces:
    given, low, high = _inputs(node, draw)
    closed = options(node)["closed"]
    above = compare(given, ">=" if closed in ("Both", "Left") else ">", low)
    return above * compare(given, "<=" if closed in ("Both", "Right") else "<", high)


def _folded(
    join: Callable[[Pieces, Pieces], Pieces], drawn: Callable[[Node, Draw], list[Pieces]] = _inputs
) -> Curve:
    return lambda node, draw: reduce(join, drawn(node, draw))


def _least(first: Pieces, second: Pieces) -> Pieces:
    return where(compare(first, "<=", second), first, second)


def _most(first: Pieces, second: Pieces) -> Pieces:
    return where(compare(first, ">=", second), first, second)


# The list.

_SIMPLE: Final = (*NUMBERS, *DATES, "text", "label", "time", "span", "null", "any")
_NUMBER: Final = _of("number")
_TEXT: Final = _of("text", "any")
_PLAIN_TEXT: Final = _of("text", "any", if_=_plain_pattern)
_LABEL: Final = _of("label", "any")
_UTC_KINDS: Final = ("date", "moment", "moment in UTC")
_UTC: Final = _of(*_UTC_KINDS)


def _rows(  # noqa: PLR0913 - the columns of the table
    names: str,
    gives: ValueKind | Callable[[Node, Types], ValueKind] = "any",
    never_fails: Rule = _never,
    curve: Curve = _not_linear,
    *,
    space: str = "",
    on_values: bool = True,
    **more: Any,
) -> Iterator[Function]:
    """Yield the same row for each of some names, which stand in a space such as "str."."""
    return (
        Function(space + name, on_values, gives, never_fails, curve, **more)
        for name in names.split()
    )


_texts: Final = partial(_rows, space="str.")
_labels: Final = partial(_rows, space="cat.", on_values=False)
_times: Final = partial(_rows, space="dt.", on_values=False)

_TABLE: Final = (
    # names, the kind of what they give, when they never fail, what they are on an interval
    *_rows(
        "floor ceil round round_sig_figs truncate sqrt cbrt exp log log1p degrees radians",
        "number",
        _NUMBER,
    ),
    *_rows("sin cos tan cot arcsin arccos arctan sinh cosh tanh", "number", _NUMBER),
    *_rows("pow"),
    *_rows("sign", _as_first, _of("number", "any")),
    *_rows("abs", _as_first, _of("number", "span", "any"), _absolute),
    *_rows("negate", _as_first, _never, lambda node, draw: -draw(node.inputs[0])),
    *_rows("not", _as_first, _of("truth", "any"), _opposite),
    *_rows("is_close", "truth", _in_one_column(_of("number", if_=_of_all("number")))),
    *_rows("is_between", "truth", _between, _between_curves),
    *_rows("clip", _mixed, _in_one_column(_alike("text")), _clipped, in_order=True),
    *_rows(
        "min_horizontal",
        _mixed,
        _in_one_column(_alike()),
        _folded(_least),
        is_method=False,
        in_order=True,
    ),
    *_rows(
        "max_horizontal",
        _mixed,
        _in_one_column(_alike()),
        _folded(_most),
        is_method=False,
        in_order=True,
    ),
    *_rows(
        "sum_horizontal",
        "number",
        _in_one_column(_of_all(*NUMBERS)),
        _folded(operator.add),
        is_method=False,
    ),
    *_rows("mean_horizontal", "number", _in_one_column(_of_all(*NUMBERS)), is_method=False),
    *_rows(
        "all_horizontal",
        "truth",
        _of_all("truth", "null"),
        _folded(operator.mul, _predicates),
        is_method=False,
    ),
    *_rows(
        "any_horizontal",
        "truth",
        _of_all("truth", "null"),
        _folded(either, _predicates),
        is_method=False,
    ),
    *_rows("is_null", "truth", _of(*_SIMPLE), _constant(0), of_nulls=True),
    *_rows("is_not_null", "truth", _of(*_SIMPLE), _constant(1), of_nulls=True),
    *_rows("is_nan", "truth", _of("number", "any"), _constant(0), of_nulls=True),
    *_rows("is_not_nan", "truth", _of("number", "any"), _constant(1), of_nulls=True),
    *_rows("is_infinite", "truth", _of("number", "any"), _constant(0)),
    *_rows("is_finite", "truth", _of("number", "any"), _constant(1)),
    *_rows("fill_null", _mixed, _in_one_column(_filled), _first_curve, of_nulls=True),
    *_rows(
        "coalesce", _mixed, _in_one_column(_coalesced), _first_curve, of_nulls=True, is_method=False
    ),
    *_rows("is_in", "truth", _of(*_SIMPLE), table=(1, None)),
    *_rows("replace", _as_first, _of(*_SIMPLE, if_=_replaced), table=(1, None)),
    *_rows("replace_strict", _by_options, _of(*_SIMPLE, if_=_defaulted), table=(1, 3)),
    *_rows("concat_str format", "text", _of_all(*NUMBERS, "text", "label"), is_method=False),
    *_texts("starts_with ends_with", "truth", _TEXT),
    *_texts("contains_any", "truth", _TEXT, table=(1, None)),
    *_texts("contains", "truth", _PLAIN_TEXT),
    *_texts("find count_matches", "number", _PLAIN_TEXT),
    *_texts("len_chars len_bytes", "number", _TEXT),
    *_texts(
        "to_lowercase to_uppercase to_titlecase head tail slice reverse normalize", "text", _TEXT
    ),
    *_texts(
        "strip_chars strip_chars_start strip_chars_end strip_prefix strip_suffix", "text", _TEXT
    ),
    *_texts("extract pad_start pad_end zfill replace", "text"),
    *_texts("replace_many", "text", table=(1, None)),
    *_texts("to_integer", "number", _of("text", "any", if_=_of_base)),
    *_texts("to_decimal"),
    *_texts("strptime", _by_options, _of("text", "any", if_=_leniently)),
    *_labels("starts_with ends_with", "truth", _LABEL),
    *_labels("len_chars len_bytes", "number", _LABEL),
    *_times("millennium century year quarter month week weekday day", "number", _of(*DATES, "any")),
    *_times(
        "hour minute second millisecond microsecond nanosecond",
        "number",
        _of("moment", ZONED, "time", "any"),
    ),
    *_times("total_days total_hours total_minutes total_seconds", "number", _of("span", "any")),
    *_times(
        "total_milliseconds total_microseconds total_nanoseconds", "number", _of("span", "any")
    ),
    *_times("timestamp", "number", _of(*DATES)),
    *_times("iso_year days_in_month ordinal_day", "number", _UTC),
    *_times("is_leap_year", "truth", _UTC),
    *_times("date", "date", _UTC),
    *_times("time", "time", _of("moment", "moment in UTC")),
    *_times("truncate", _as_first, _of(*_UTC_KINDS, if_=_window)),
    *_times("convert_time_zone", _by_options, _of("moment", ZONED, "any")),
    *_times("replace_time_zone base_utc_offset dst_offset combine replace round offset_by"),
    *_times("month_start month_end to_string cast_time_unit"),
    *_times("is_business_day", table=(1, None)),
    *_times("add_business_days", table=(2, None)),
    *_rows("datetime duration struct", on_values=False, is_method=False),
    *_rows("struct.field", on_values=False),
)
FUNCTIONS: Final = {row.name: row for row in _TABLE}
