"""An expression as a person would write it, in a few words."""

from collections.abc import Callable
from fractions import Fraction
from typing import Final

from pufferflow.expressions.refusals import short
from pufferflow.expressions.tree import Node

LONGEST: Final = 60
_FREE: Final = frozenset(
    {"coalesce", "concat_str", "format", "struct", "datetime", "duration"}
    | {f"{name}_horizontal" for name in ("all", "any", "min", "max", "sum", "mean")}
)
_OPAQUE: Final = {"Null": "null", "List": "[…]", "Series": "[…]", "Float": "(NaN or ∞)", "Float64": "(NaN or ∞)"}


def words(node: Node, most: int = LONGEST) -> str:
    """Return the expression in at most so many letters.

    >>> import polars as pl
    >>> from pufferflow.expressions.tree import read_tree
    >>> words(read_tree(pl.col("x").clip(0, 9) * 2))
    'x.clip(0, 9) * 2'
    """
    return short(_said(node), most)


def subject(node: Node) -> str:
    """Return what a method is called on."""
    return short(_inside(node), 30) if node.columns else "pl"


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
        return f"{'-' if value < 0 else ''}1e{len(str(abs(value.numerator // value.denominator))) - 1}"


def _said(node: Node) -> str:
    return _SAID[node.kind](node)


def _column(node: Node) -> str:
    return node.word if node.word.isidentifier() else repr(node.word)


def _operator(node: Node) -> str:
    left, right = map(_inside, node.inputs)
    return f"{left}.{node.word}({right})" if node.word.isidentifier() else f"{left} {node.word} {right}"


def _choice(node: Node) -> str:
    predicate, truthy, falsy = map(_said, node.inputs)
    return f"when({predicate}).then({truthy}).otherwise({falsy})"


def _cast(node: Node) -> str:
    return f"{_inside(node.inputs[0])}.cast({node.word})"


def _name(node: Node) -> str:
    return _said(node.inputs[0])


def _function(node: Node) -> str:
    if node.word in ("not", "negate"):
        return f"{'~' if node.word == 'not' else '-'}{_inside(node.inputs[0])}"
    given = [_said(part) for part in node.inputs]
    if node.word == "clip" and node.value == {"has_min": False, "has_max": True}:
        given.insert(1, "None")
    if node.word == "is_between" and node.value != {"closed": "Both"}:
        given.append(f"closed={str(node.value['closed']).lower()!r}")
    if node.word in _FREE or not node.inputs or not node.columns:
        return f"{node.word}({', '.join(given)})"
    return f"{_inside(node.inputs[0])}.{node.word}({', '.join(given[1:])})"


def _literal(node: Node) -> str:
    if isinstance(node.value, bool | str):
        return repr(node.value)
    return (
        number(node.value)
        if isinstance(node.value, Fraction)
        else node.told or _OPAQUE.get(node.word, f"<{node.word}>")
    )


def _inside(node: Node) -> str:
    while node.kind == "name":
        node = node.inputs[0]
    return f"({_said(node)})" if node.kind == "operator" and not node.word.isidentifier() else _said(node)


_SAID: Final[dict[str, Callable[[Node], str]]] = {
    "cast": _cast,
    "choice": _choice,
    "column": _column,
    "function": _function,
    "literal": _literal,
    "name": _name,
    "operator": _operator,
}
