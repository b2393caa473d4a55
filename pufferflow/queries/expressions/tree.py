"""The tree of a Polars expression, as Polars serializes it, and the errors that refuse a part of it.

Only the nodes below are accepted. All others are refused by name, and so is whatever a later Polars writes differently.
`meta.is_row_separable()` is not enough: it accepts `x - x.mean()`.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from typing import Any, Final, Literal, cast, final

import numpy as np
import polars as pl
import polars.selectors as cs

from pufferflow.core.errors import Refused

ALLOWED: Final = (
    "functions of one row at a time: arithmetic, comparisons, clip, "
    "when/then, cast, is_in, round and the like"
)
INSTEAD: Final = (
    "clip(0, 9) with numbers as bounds; quantities that many rows decide are queries of their own"
)

_SPACES: Final = {
    "Boolean": "",
    "Pow": "",
    "Trigonometry": "",
    "Random": "",
    "Range": "",
    "TemporalExpr": "dt.",
    "Business": "dt.",
    "StringExpr": "str.",
    "Categorical": "cat.",
    "StructExpr": "struct.",
    "ListExpr": "list.",
    "ArrayExpr": "arr.",
    "BinaryExpr": "bin.",
    "Bitwise": "bitwise_",
}
_SPOKEN: Final = {
    "generic": "pow",
    "rleid": "rle_id",
    "fill_null_with_strategy": "fill_null(strategy=…)",
    "round_sf": "round_sig_figs",
    "arc_sin": "arcsin",
    "arc_cos": "arccos",
    "arc_tan": "arctan",
    "as_struct": "struct",
    "q_cut": "qcut",
    "set_sorted_flag": "set_sorted",
    "dt.week_day": "dt.weekday",
    "dt.time_stamp": "dt.timestamp",
    "dt.d_s_t_offset": "dt.dst_offset",
    "dt.add_business_day": "dt.add_business_days",
    "dt.datetime_function": "datetime",
    "dt.duration": "duration",
    "str.lowercase": "str.to_lowercase",
    "str.uppercase": "str.to_uppercase",
    "str.titlecase": "str.to_titlecase",
    "str.concat_horizontal": "concat_str",
    "str.format": "format",
    "str.z_fill": "str.zfill",
    "struct.field_by_name": "struct.field",
}
_PARTS: Final = {
    "AnonymousFunction": "A Python function (map_elements, map_batches, NumPy){subject} cannot be checked.",
    "Selector": "pl.all(), a list of columns, a pattern or a selector can name many columns.",
    "Len": "pl.len() counts many rows at once.",
    "Element": "pl.element() has no column.",
    "Field": "pl.field() has no column.",
    "RenameAlias": "name.map calls a Python function, which cannot be checked.",
}
_MIXING: Final = re.compile(
    "over|rolling|sort|filter|slice|gather|explode|cum_|ewm_|eval"
    "|shift|diff|pct_change|rank|reverse|unique|interpolate|is_first|is_last|is_unique|is_duplicated|fill_null.strategy"
    "|all$|any$|null_count|n_unique|approx_n_unique|quantile|mode|skew|kurtosis|entropy|arg_|top_k|bottom_k|drop_"
    "|sample|shuffle|rle|peak|hist|qcut|set_sorted|index_of|search_sorted|int_range|extend|append|reshape|value_counts"
    "|str.concat_vertical|min_by|max_by|first|last|item"
)


def snake(name: str) -> str:
    """Return the name as a method would spell it.

    >>> snake("IsFirstDistinct"), snake("Log1p")
    ('is_first_distinct', 'log1p')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def function_name(written: Any) -> tuple[str, Any]:
    """Return the name of a function and its options.

    >>> function_name({"Boolean": {"IsBetween": {"closed": "Both"}}})
    ('is_between', {'closed': 'Both'})
    """
    name, options = _spelled(written)
    return _SPOKEN.get(name, name), options


def _spelled(written: Any) -> tuple[str, Any]:
    if not isinstance(written, dict):
        return snake(str(written)), None
    ((tag, held),) = list(cast(dict[str, Any], written).items())[:1] or [("unknown", None)]
    if tag in _SPACES:
        inner = (
            cast(dict[str, Any], held)["method"]
            if tag == "Random" and isinstance(held, dict)
            else held
        )
        name, options = _spelled(inner)
        return _SPACES[tag] + name, options
    if tag.startswith("RollingExpr") and isinstance(held, dict):
        fields = cast(dict[str, Any], held)
        return f"rolling_{_spelled(fields.get('function', fields.get('function_by')))[0]}", None
    return snake(tag), held


def refusal(written: Any) -> Refused:
    """Return the error about a node that cannot be read."""
    entries: dict[str, Any] = (
        cast(dict[str, Any], written) if isinstance(written, dict) else {str(written): None}
    )
    tag, held = next(iter(entries.items()), ("nothing", None))
    if tag in _PARTS:
        subject = next((f" of {short(repr(name), 40)}" for name in _columns(held)), "")
        return Refused(_PARTS[tag].format(subject=subject), allowed=ALLOWED, instead=INSTEAD)
    subject = short(next(_columns(held), "…"), 30)
    if tag == "Agg" and isinstance(held, dict):
        return mixes(f"{subject}.{snake(next(iter(cast(dict[str, Any], held)), 'agg'))}()")
    name = snake(tag)
    if tag == "Function" and isinstance(held, dict):
        name = function_name(cast(dict[str, Any], held).get("function"))[0]
    return refused_function(subject, name)


def refused_function(subject: str, name: str) -> Refused:
    """Return the error about a function of a column that is not on the list."""
    said = f"{subject}.{name}{'' if name.endswith(')') else '()'}"
    return mixes(said) if _MIXING.match(name) else unknown(said)


def mixes(said: str) -> Refused:
    """Return the error about a part that sees several rows."""
    return Refused(
        f"{short(said)} takes the values of several rows together.",
        allowed=ALLOWED,
        instead=INSTEAD,
    )


def unknown(said: str) -> Refused:
    """Return the error about a part that is not listed."""
    return Refused(
        f"{short(said)} is not known to work on each row by itself.",
        allowed=ALLOWED,
        instead="one of these functions, or a column that has the values already",
    )


def short(said: str, most: int = 80) -> str:
    """Return the text of an expression, on one line and shortened."""
    one_line = " ".join(said.split())
    return one_line if len(one_line) <= most else f"{one_line[: most - 1]}…"


def _columns(written: Any) -> Iterator[str]:
    """Yield the columns below a node, wherever they stand."""
    parts: list[Any] = []
    if isinstance(written, dict):
        entries = cast(dict[str, Any], written)
        if isinstance(entries.get("Column"), str):
            yield entries["Column"]
        parts = [held for tag, held in entries.items() if tag != "Literal"]
    elif isinstance(written, list):  # literals and Python functions are lists of numbers, and long
        parts = [held for held in cast(list[Any], written) if isinstance(held, dict)]
    for part in parts:
        yield from _columns(part)


NodeKind = Literal["column", "literal", "operator", "function", "choice", "cast", "name"]
LISTS: Final = "Series of lists"
"""A Series of several lists is no table: it has one for each row."""
_DEEPEST: Final = 150
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - times without a zone are counted as they are written
_MIDNIGHT: Final = time(0)
_TICKS: Final = {"Milliseconds": 10**3, "Microseconds": 10**6, "Nanoseconds": 10**9}
_MOST_NODES: Final = 5_000
_LISTED: Final = 4
_LETTERS: Final = 16

OPERATORS: Final = {
    "Eq": "==",
    "NotEq": "!=",
    "EqValidity": "eq_missing",
    "NotEqValidity": "ne_missing",
    "Lt": "<",
    "LtEq": "<=",
    "Gt": ">",
    "GtEq": ">=",
    "Plus": "+",
    "Minus": "-",
    "Multiply": "*",
    "TrueDivide": "/",
    "FloorDivide": "//",
    "Modulus": "%",
    "And": "&",
    "LogicalAnd": "&",
    "Or": "|",
    "LogicalOr": "|",
    "Xor": "^",
}


@final
@dataclass(frozen=True)
class Node:
    """A node: `word` is its column, operator, function, data type or name; `value` a literal's value or the options.

    The value of a list or Series is the type of its items, that of a datetime its unit and time zone. The value of a
    cast is its options and type. Any other literal that is no finite number, Boolean or text has the value None: its
    `word` says what it is. For a time or a list `told` is what a person calls it. The names of this class and of its
    fields are part of what identifies a query (`identity`).
    """

    kind: NodeKind
    word: str
    inputs: tuple["Node", ...] = ()
    value: Any = None
    told: str = ""

    def walk(self) -> Iterator["Node"]:
        """Yield the node and all below it."""
        yield self
        for node in self.inputs:
            yield from node.walk()

    @property
    def bare(self) -> "Node":
        """The node under all names."""
        return self.inputs[0].bare if self.kind == "name" else self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read, each once, in the order in which they come up."""
        return tuple(dict.fromkeys(node.word for node in self.walk() if node.kind == "column"))


def read_tree(expression: pl.Expr) -> Node:
    """Return the tree of an expression, or refuse the first part of it that may see more than one row.

    >>> read_tree(pl.col("x").clip(0, 9)).word
    'clip'
    """
    try:
        _measure(expression)
        written: Any = json.loads(expression.meta.serialize(format="json"))
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        RecursionError,
        ValueError,
        TypeError,
    ):
        raise Refused(
            "The expression cannot be serialized, so it cannot be checked.",
            allowed="expressions of columns, plain literals and Polars' own functions",
            instead='pl.col("x").clip(0, 9) * 2',
        ) from None
    return _node(written)


def _measure(expression: pl.Expr) -> None:
    """Refuse large expressions before they are serialized: `e = e + e`, sixty times, would fill the memory."""
    level, nodes, depth = [expression], 0, 0
    while level:
        nodes, depth = nodes + len(level), depth + 1
        if nodes > _MOST_NODES or depth > _DEEPEST:
            raise Refused(
                "The expression is too large."
                if nodes > _MOST_NODES
                else "The expression is nested too deeply.",
                allowed=f"up to {_MOST_NODES} parts, up to {_DEEPEST} of them inside each other",
                instead="replace_strict with a mapping, for long tables of values",
            )
        level = [part for above in level for part in above.meta.pop()]


def _node(written: Any) -> Node:
    match written:
        case {"Literal": {} as body} if len(written) == len(body) == 1:
            return _literal(*next(iter(body.items())))
        case {} if len(written) == 1:
            node = _read(*next(iter(written.items())))
        case _:
            node = None
    if node is None:
        raise refusal(written)
    return node


def _read(tag: str, body: Any) -> Node | None:
    """Return a node with exactly the fields that are known: one more could hide an expression."""
    node = None
    match tag, body:
        case "Column", str(name):
            node = Node("column", name)
        case "Alias", [expression, str(name)]:
            node = Node("name", name, (_node(expression),))
        case "KeepName", expression:
            node = Node("name", "keep", (_node(expression),))
        case "RenameAlias", {"function": renaming, "expr": expression, **more} if (
            not more and _is_plain(renaming)
        ):
            node = Node("name", "renamed", (_node(expression),))
        case "BinaryExpr", {"left": left, "op": operator, "right": right, **more} if (
            not more and operator in OPERATORS
        ):
            node = Node("operator", OPERATORS[operator], (_node(left), _node(right)))
        case "Ternary", {"predicate": predicate, "truthy": truthy, "falsy": falsy, **more} if (
            not more
        ):
            node = Node("choice", "when", (_node(predicate), _node(truthy), _node(falsy)))
        case "Cast", {
            "expr": expression,
            "dtype": {"Literal": dtype, **others},
            "options": options,
            **more,
        }:
            if not more and not others:
                name = dtype if isinstance(dtype, str) else next(iter(dtype))
                node = Node("cast", name, (_node(expression),), (options, dtype))
        case "Function", {"input": [*inputs], "function": function, **more} if not more:
            name, options = function_name(function)
            node = Node("function", name, tuple(map(_node, inputs)), options)
        case _:
            pass
    return node


def _is_plain(renaming: Any) -> bool:
    """Return whether a name is made without a Python function, whose result could depend on anything."""
    match renaming:
        case "ToLowercase" | "ToUppercase" | {"Prefix": str()} | {"Suffix": str()}:
            return True
        case _:
            return False


def _literal(tag: str, held: Any) -> Node:
    if tag in ("Dyn", "Scalar") and isinstance(held, dict):
        ((word, value),) = cast(dict[str, Any], held).items()
        if word != "List":
            return Node("literal", word, value=_plain(word, value), told=_told(word, value))
        values = _held(value)
        return Node("literal", word, value=_dtype(values), told=_listed(values))
    if tag == "Series":
        values = _held(held)
        dtype = _dtype(values)
        lists = dtype.is_nested() and (values is None or len(values) != 1)
        return Node("literal", LISTS if lists else tag, value=dtype, told=_listed(values))
    return Node("literal", tag)


def _held(written: Any) -> pl.Series | None:
    """Return the values of a list as Polars writes it; None if they cannot be read."""
    try:
        return pl.read_ipc_stream(bytes(written)).to_series()
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        OSError,
        ValueError,
        TypeError,
    ):
        return None


def _dtype(values: pl.Series | None) -> pl.DataType:
    """Return the type of values; that of several lists if they cannot be read."""
    return pl.List(pl.Object()) if values is None else values.dtype


def _listed(values: pl.Series | None) -> str:
    """Return the first of some values as a person writes them, and how many there are if that is not all."""
    if values is None or values.dtype.is_nested():
        return ""
    first = ", ".join(_short(value) for value in values.head(_LISTED).to_list())
    return f"[{first}]" if len(values) <= _LISTED else f"[{first}, … ({len(values)} values)]"


def _short(value: Any) -> str:
    text = str(value) if isinstance(value, date | time | timedelta) else repr(value)
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"


def _told(word: str, value: Any) -> str:
    """Return a date or a moment as a person writes it; moments with a zone in UTC."""
    try:
        match word, value:
            case "Date", int(days):
                return (_EPOCH + timedelta(days=days)).date().isoformat()
            case "Datetime", [int(ticks), str(unit), zone]:
                moment = _EPOCH + timedelta(microseconds=ticks * 10**6 // _TICKS[unit])
                at = moment.date() if moment.time() == _MIDNIGHT and zone is None else moment
                return f"{at.isoformat()}{'' if zone is None else 'Z'}"
            case _:
                return ""
    except (OverflowError, KeyError):  # before the year 1, or a unit that is not known yet
        return ""


def _plain(word: str, value: Any) -> Any:
    """Return the value of a literal; numbers exactly, and NaN and infinities, which JSON has not, as None."""
    match word, value:
        case ("Boolean", bool()) | ("String", str()):
            return value
        case "Datetime", [_, *unit_and_zone]:
            return unit_and_zone
        case "Decimal", [int(digits), _, int(places)]:
            return Fraction(digits, 10**places)
        case "Float32", int() | float():
            return Fraction(float(np.float32(value)))
        case _, int() | float() if word.startswith(("Int", "UInt", "Float")):
            return Fraction(value)
        case _:
            return None


def named(column: str) -> pl.Expr:
    """Return the column of exactly this name, even if it looks like a pattern, as '^x.*$' does."""
    return cs.by_name(column).as_expr()


def unsorted(column: str) -> pl.Expr:
    """Return the column of exactly this name without the flag that it is sorted; no value is copied.

    Frames and files can set the flag, and Polars trusts it: it compares by binary search, does not sort, and takes runs
    for groups. If the flag is false, one row decides how others are read, and no bound holds for such sums. A struct
    keeps the values of its fields and not their flags.

    >>> frame = pl.DataFrame({"x": pl.Series([2, 1]).set_sorted()})
    >>> frame.select(unsorted("x")).to_series().flags["SORTED_ASC"]
    False
    """
    return pl.struct(named(column).alias("it")).struct.field("it").alias(column)
