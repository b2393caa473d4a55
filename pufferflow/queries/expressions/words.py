"""An expression as a person would write it, shortened."""

from fractions import Fraction
from typing import Final

from pufferflow.queries.expressions.functions import FUNCTIONS
from pufferflow.queries.expressions.refusals import short
from pufferflow.queries.expressions.tree import Node

LONGEST: Final = 60
_OPAQUE: Final = {"Null": "null", "List": "[…]", "Series": "[…]", "Float": "(NaN or ∞)", "Float64": "(NaN or ∞)"}
_SIGNS: Final = {"not": "~", "negate": "-"}


def words(node: Node, most: int = LONGEST) -> str:
    """Return the expression in at most `most` letters.

    >>> import polars as pl
    >>> from pufferflow.queries.expressions.tree import read_tree
    >>> words(read_tree(pl.col("x").clip(0, 9) * 2))
    'x.clip(0, 9) * 2'
    """
    return short(_written(node), most)


def subject(node: Node) -> str:
    """Return the words of the object of a method."""
    return short(_operand(node), 30) if node.columns else "pl"


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


def _written(node: Node) -> str:
    match node.kind:
        case "column":
            text = node.word if node.word.isidentifier() else repr(node.word)
        case "literal":
            text = _literal(node)
        case "name":
            text = _written(node.inputs[0])
        case "operator":
            left, right = map(_operand, node.inputs)
            text = f"{left}.{node.word}({right})" if node.word.isidentifier() else f"{left} {node.word} {right}"
        case "choice":
            predicate, truthy, falsy = map(_written, node.inputs)
            text = f"when({predicate}).then({truthy}).otherwise({falsy})"
        case "cast":
            text = f"{_operand(node.inputs[0])}.cast({node.word})"
        case "function":
            text = _call(node)
    return text


def _call(node: Node) -> str:
    if node.word in _SIGNS:
        return _SIGNS[node.word] + _operand(node.inputs[0])
    given = [_written(part) for part in node.inputs]
    if node.word == "clip" and node.value == {"has_min": False, "has_max": True}:
        given.insert(1, "None")
    if node.word == "is_between" and node.value != {"closed": "Both"}:
        given.append(f"closed={str(node.value['closed']).lower()!r}")
    is_method = node.word not in FUNCTIONS or FUNCTIONS[node.word].is_method
    if not is_method or not node.columns:
        return f"{node.word}({', '.join(given)})"
    return f"{_operand(node.inputs[0])}.{node.word}({', '.join(given[1:])})"


def _literal(node: Node) -> str:
    if isinstance(node.value, bool | str):
        return repr(node.value)
    if isinstance(node.value, Fraction):
        return number(node.value)
    return node.told or _OPAQUE.get(node.word, f"<{node.word}>")


def _operand(node: Node) -> str:
    """Return a part in brackets where an operator or a method follows."""
    node = node.bare
    return f"({_written(node)})" if node.kind == "operator" and not node.word.isidentifier() else _written(node)
