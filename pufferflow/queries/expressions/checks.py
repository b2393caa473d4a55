"""Check that an expression works row by row and, if the existence of rows is secret, fails at no value.

The nodes of its tree are checked one by one; the functions that are allowed stand in `functions`.
"""

from typing import Final

from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.validate import quoted
from pufferflow.queries.expressions.functions import (
    COMPARISONS,
    FUNCTIONS,
    Types,
    ValueKind,
    castable,
    combined,
    dated,
    kind,
    kinds_of,
    mixable,
    mixed,
    no_unsigned_meets_negative,
    options,
)
from pufferflow.queries.expressions.tree import ALLOWED, LISTS, Node, mixes, refused_function
from pufferflow.queries.expressions.words import fitting, subject, words

_UNORDERED: Final = frozenset({"Categorical", "List", "Array", "Struct"})
"""Types whose values are, or may be, counted in the order in which the process has met them."""
_FLOATS: Final = frozenset({"Float", "Float32", "Float64"})


def check_rowwise(tree: Node, *, on_values: bool) -> None:
    """Refuse functions that are not listed, tables outside of the expression, and types that depend on other rows.

    `on_values` is for expressions of a sensitive column.
    """
    _check_no_series((tree,))
    for node in tree.walk():
        if node.kind == "function":
            row = FUNCTIONS.get(node.word)
            if row is None or (on_values and not row.on_values):
                raise refused_function(subject(node.inputs[0]) if node.inputs else "pl", node.word)
            _check_table(node, row.table)
            if node.word == "str.strptime":
                _check_format(node)
        elif node.kind != "literal":
            _check_no_series(node.inputs)
        _check_type(node)


def _check_table(node: Node, place: tuple[int, int | None] | None) -> None:
    start, end = place or (len(node.inputs), None)
    _check_no_series(node.inputs[:start] + (node.inputs[end:] if end else ()))
    for table in node.inputs[start:end]:
        if table.columns or table.word == LISTS:
            raise mixes(words(node))


def _check_no_series(nodes: tuple[Node, ...]) -> None:
    if any(node.kind == "literal" and node.word in ("Series", "Range", LISTS) for node in nodes):
        raise Refused(
            "A whole Series stands in the expression as if it were a column.",
            allowed=ALLOWED,
            instead="single numbers, dates or texts; a Series only as the list of is_in and replace",
        )


def _check_type(node: Node) -> None:
    """Refuse Categoricals: the numbers behind their labels, which sorting and least values see, come from all rows."""
    names = {node.word} if node.kind == "cast" else set[str]()
    if node.word == "replace_strict":
        match options(node).get("return_dtype"):
            case {"Literal": str(name)}:
                names = {name}
            case {"Literal": {} as dtype}:
                names = set(dtype)
            case _:
                pass
    if names & _UNORDERED:
        raise Refused(
            f"{words(node)} makes a type whose labels are numbered in the order in which rows are met.",
            allowed="numbers, dates, pl.String and pl.Enum as types",
            instead='cast(pl.Enum(["north", "south"])), or cast(pl.String)',
        )


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


def check_never_fails(tree: Node, types: Types) -> None:
    """Refuse the first part that may fail at a value, of a tree that has been checked otherwise.

    A column whose type is not given may have any. Polars itself refuses most types that do not fit before it reads a
    row. It does not for comparisons of lists, structs and durations with texts, so types must be given for these.
    """
    for node in tree.walk():
        if not _never_fails(node, types):
            raise UsageError(
                f"{words(node)} may fail at some value: the error would reveal that a row is there.",
                allowed="comparisons, is_in, is_null, parts of dates, + - * of numbers, casts with strict=False",
                instead=_instead(node, types),
            )


def _instead(node: Node, types: Types) -> str:
    if (node.kind == "cast" and node.value[0] == "Strict") or "'strict': True" in str(node.value):
        return "strict=False, or replace"
    if node.word == "replace_strict":
        return "replace_strict(…, default=None)"
    if node.word in ("dt.date", "dt.truncate", "dt.time") and "mo" not in str(
        node.inputs[-1].value
    ):
        return '.dt.convert_time_zone("UTC") before it, or parts such as dt.day()'
    if comparison := _of_labels(node, types) or fitting(node, types):
        return comparison
    if node.kind == "operator" and "any" in kinds_of(node.inputs, types):
        return "floats as numbers, such as + 1.0, or another column"
    return "the column as it is, or is_in and == with literals"


def _of_labels(node: Node, types: Types) -> str:
    """Return the test of labels that replaces their order, which no literal fits; nothing for other columns."""
    names = [
        part.word for part in node.inputs if part.kind == "column" and kind(part, types) == "label"
    ]
    instead = (
        f"pl.col({quoted(names[0])}).is_in([…]) with the labels that are meant" if names else ""
    )
    return instead and f"{instead}, or .cast(pl.String, strict=False), which compares texts"


def _never_fails(node: Node, types: Types) -> bool:
    match node.kind:
        case "name":
            fits = True
        case "column":
            fits = kind(node, types) != "odd"
        case "literal":
            fits = kind(node, types) not in ("odd", "label") or node.word in ("List", "Series")
        case "cast":
            inner = node.inputs[0]
            lenient = (
                node.value[0] != "Strict" or inner.bare.kind == "literal"
            )  # pl.date(2026, 1, 1) is a strict cast
            fits = lenient and castable(kind(inner, types), kind(node, types))
        case "choice":
            fits = _choice_never_fails(node, types)
        case "operator":
            fits = _operator_never_fails(node, types)
        case "function":
            fits = FUNCTIONS[node.word].never_fails(node, types)
    return fits


def _choice_never_fails(node: Node, types: Types) -> bool:
    predicate, *branches = kinds_of(node.inputs, types)
    return (
        predicate in ("truth", "any")
        and mixable(*branches)
        and set(branches) != {"text", "label"}
        and no_unsigned_meets_negative(node.inputs[1:], types)
    )


def _operator_never_fails(node: Node, types: Types) -> bool:
    left, right = kinds_of(node.inputs, types)
    if node.word in COMPARISONS:
        return _comparable(node, left, right)
    if node.word in "&|^":
        return {left, right} <= {"truth", "any", "null"}
    if "any" in (left, right):  # a Decimal times a float is a float
        return node.word in "+-*" and any(part.bare.word in _FLOATS for part in node.inputs)
    return combined(node.word, left, right) != "odd"


def _comparable(node: Node, left: ValueKind, right: ValueKind) -> bool:
    constant = any(part.bare.kind == "literal" for part in node.inputs)
    if "null" in (left, right):  # the result is typed as a Boolean, but is none
        return node.word in ("eq_missing", "ne_missing") and "odd" not in (left, right)
    if "odd" in (left, right):
        return False
    if "any" in (left, right):
        return constant
    if "label" in (left, right):  # Polars finds out late which labels an Enum has
        return (
            constant
            and node.word in ("==", "!=", "eq_missing", "ne_missing")
            and "text" in (left, right)
        )
    return mixed(left, right) != "odd" or ("date" in (left, right) and dated(left) and dated(right))
