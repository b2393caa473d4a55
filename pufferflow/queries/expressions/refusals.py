"""The names that users give the parts of an expression, and the errors that refuse a part."""

import re
from collections.abc import Iterator
from typing import Any, Final, cast

from pufferflow.core.errors import Refused

ALLOWED: Final = (
    "functions of one row at a time: arithmetic, comparisons, clip, when/then, cast, is_in, round and the like"
)
INSTEAD: Final = "clip(0, 9) with numbers as bounds; quantities that many rows decide are queries of their own"

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
        inner = cast(dict[str, Any], held)["method"] if tag == "Random" and isinstance(held, dict) else held
        name, options = _spelled(inner)
        return _SPACES[tag] + name, options
    if tag.startswith("RollingExpr") and isinstance(held, dict):
        fields = cast(dict[str, Any], held)
        return f"rolling_{_spelled(fields.get('function', fields.get('function_by')))[0]}", None
    return snake(tag), held


def refusal(written: Any) -> Refused:
    """Return the error about a node that is none of those that are read."""
    entries: dict[str, Any] = cast(dict[str, Any], written) if isinstance(written, dict) else {str(written): None}
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
    return Refused(f"{short(said)} takes the values of several rows together.", allowed=ALLOWED, instead=INSTEAD)


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
