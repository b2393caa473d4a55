"""What an expression is on an interval: a piecewise linear function, found from its tree without any data.

The expression is read in exact arithmetic; a float literal is the float it is. Where Polars computes something else,
since integers overflow or floats cancel, the expression is refused (`agreement`).
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Final

from pufferflow.errors import Misuse, Refused
from pufferflow.expressions.functions import options
from pufferflow.expressions.pieces import Line, NotLinearError, Pieces, choose, compare, minus, plus, times, together
from pufferflow.expressions.tree import Node
from pufferflow.expressions.words import words
from pufferflow.scenario import Interval

_COMPARISONS: Final[dict[str, Callable[[Fraction], bool]]] = {
    "==": lambda sign: sign == 0,
    "eq_missing": lambda sign: sign == 0,
    "!=": lambda sign: sign != 0,
    "ne_missing": lambda sign: sign != 0,
    "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
    ">": lambda sign: sign > 0,
    ">=": lambda sign: sign >= 0,
}
_SIDES: Final = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}
_WHOLE_TYPES: Final = {f"{sign}{bits}": (bits, sign) for bits in (8, 16, 32, 64, 128) for sign in ("Int", "UInt")}
_ALWAYS: Final = {"is_not_null", "is_not_nan", "is_finite"}
_NEVER: Final = {"is_null", "is_nan", "is_infinite"}


def curve(tree: Node, domain: Interval) -> Pieces:
    """Return the function that a checked tree is on an interval, or refuse what is no straight line.

    >>> import polars as pl
    >>> from pufferflow.expressions.tree import read_tree
    >>> curve(read_tree(pl.col("x").abs()), Interval(-1, 2)).knots
    (Fraction(-1, 1), Fraction(0, 1), Fraction(2, 1))
    """
    return _Drawing(Fraction(domain.low), Fraction(domain.high)).draw(tree)


class _Drawing:
    """One interval, and what the nodes of trees are on it."""

    def __init__(self, low: Fraction, high: Fraction) -> None:
        self.low = low
        self.high = high

    def draw(self, node: Node) -> Pieces:
        """Return what a node is."""
        return _KINDS[node.kind](self, node)

    def column(self, _: Node) -> Pieces:
        """Return the column itself."""
        return Pieces.line(self.low, self.high, Line(Fraction(0), Fraction(1)))

    def name(self, node: Node) -> Pieces:
        """Return what is under a name."""
        return self.draw(node.inputs[0])

    def choice(self, node: Node) -> Pieces:
        """Return one function where a predicate holds, and another where it does not."""
        predicate, truthy, falsy = map(self.draw, node.inputs)
        self._predicates(node, predicate)
        return together(choose, predicate, truthy, falsy)

    def _level(self, value: Fraction | int) -> Pieces:
        return Pieces.line(self.low, self.high, Line(Fraction(value)))

    def literal(self, node: Node) -> Pieces:
        """Return a number, the same everywhere."""
        if not isinstance(node.value, Fraction | bool):
            raise Refused(
                f"{words(node)} is no finite number.",
                allowed="finite numbers and Booleans as literals on an interval",
                instead="clip(0, None) for a bound that is not there; .otherwise(0) after when/then",
            )
        return self._level(Fraction(node.value))

    def cast(self, node: Node) -> Pieces:
        """Return the same function, if the data type has all its values."""
        inner = self.draw(node.inputs[0])
        if node.word == "Float64":
            return inner
        held = inner.values()
        if inner.flat and set(held) <= {0, 1}:
            fits = node.word in _WHOLE_TYPES or node.word in ("Boolean", "Float32")
        else:
            fits = inner.flat and node.word in _WHOLE_TYPES and _fit(held, *_WHOLE_TYPES[node.word])
        if not fits:
            raise _not_straight(node)
        return inner

    def operator(self, node: Node) -> Pieces:
        """Return what an operator makes of two functions."""
        first, second = map(self.draw, node.inputs)
        if node.word in _COMPARISONS:
            return compare(first, second, _COMPARISONS[node.word])
        if node.word in ("&", "|", "^"):
            self._predicates(node, first, second)
            return _logic(node.word, first, second)
        if node.word in ("+", "-"):
            return together(plus if node.word == "+" else minus, first, second)
        return self._product(node, first, self._inverse(node, second) if node.word == "/" else second)

    def _product(self, node: Node, first: Pieces, second: Pieces) -> Pieces:
        if node.word not in ("*", "/"):
            raise _not_straight(node)
        try:
            return together(times, first, second)
        except NotLinearError:
            raise _not_straight(node) from None

    def _inverse(self, node: Node, divisor: Pieces) -> Pieces:
        if not divisor.straight or not divisor.flat or not divisor.at[0]:
            raise _not_straight(node)
        return self._level(1 / divisor.at[0])

    def function(self, node: Node) -> Pieces:
        """Return what a function makes of others."""
        if node.word in _ALWAYS or node.word in _NEVER:
            return self._level(node.word in _ALWAYS)
        if node.word in ("fill_null", "coalesce"):
            return self.draw(node.inputs[0])
        if node.word not in _FUNCTIONS:
            raise _not_straight(node)
        return _FUNCTIONS[node.word](self, node, *map(self.draw, node.inputs))

    def _predicates(self, node: Node, *functions: Pieces) -> None:
        if not all(function.flat and set(function.values()) <= {0, 1} for function in functions):
            raise Misuse(
                f"{words(node)} needs predicates.",
                allowed="comparisons, is_between, and what &, | and ~ make of them",
                instead='pl.col("x") >= 3',
            )

    def negate(self, _: Node, given: Pieces) -> Pieces:
        """Return −f."""
        return together(minus, self._level(0), given)

    def absolute(self, _: Node, given: Pieces) -> Pieces:
        """Return |f|."""
        return together(times, given, given.sign())

    def opposite(self, node: Node, given: Pieces) -> Pieces:
        """Return 1 − f of a predicate."""
        self._predicates(node, given)
        return together(minus, self._level(1), given)

    def clip(self, node: Node, given: Pieces, *bounds: Pieces) -> Pieces:
        """Return f within its bounds; where they are the wrong way round, the lower one counts first."""
        pending, clipped = list(bounds), given
        low = pending.pop(0) if options(node).get("has_min") else None
        if pending:
            clipped = together(choose, compare(given, pending[0], _COMPARISONS[">"]), pending[0], clipped)
        return clipped if low is None else together(choose, compare(given, low, _COMPARISONS["<"]), low, clipped)

    def between(self, node: Node, given: Pieces, low: Pieces, high: Pieces) -> Pieces:
        """Return whether f lies between two bounds."""
        left, right = _SIDES[options(node)["closed"]]
        return together(times, compare(given, low, _COMPARISONS[left]), compare(given, high, _COMPARISONS[right]))

    def least(self, _: Node, *given: Pieces) -> Pieces:
        """Return the least of some functions."""
        return _folded(lambda a, b: together(choose, compare(a, b, _COMPARISONS["<="]), a, b), given)

    def most(self, _: Node, *given: Pieces) -> Pieces:
        """Return the most of some functions."""
        return _folded(lambda a, b: together(choose, compare(a, b, _COMPARISONS[">="]), a, b), given)

    def total(self, _: Node, *given: Pieces) -> Pieces:
        """Return the sum of some functions."""
        return _folded(lambda a, b: together(plus, a, b), given)

    def every(self, node: Node, *given: Pieces) -> Pieces:
        """Return whether all predicates hold."""
        self._predicates(node, *given)
        return _folded(lambda a, b: _logic("&", a, b), given)

    def some(self, node: Node, *given: Pieces) -> Pieces:
        """Return whether a predicate holds."""
        self._predicates(node, *given)
        return _folded(lambda a, b: _logic("|", a, b), given)


_KINDS: Final[dict[str, Callable[[_Drawing, Node], Pieces]]] = {
    "cast": _Drawing.cast,
    "choice": _Drawing.choice,
    "column": _Drawing.column,
    "function": _Drawing.function,
    "literal": _Drawing.literal,
    "name": _Drawing.name,
    "operator": _Drawing.operator,
}
_FUNCTIONS: Final[dict[str, Callable[..., Pieces]]] = {
    "abs": _Drawing.absolute,
    "all_horizontal": _Drawing.every,
    "any_horizontal": _Drawing.some,
    "clip": _Drawing.clip,
    "is_between": _Drawing.between,
    "max_horizontal": _Drawing.most,
    "min_horizontal": _Drawing.least,
    "negate": _Drawing.negate,
    "not": _Drawing.opposite,
    "sum_horizontal": _Drawing.total,
}


def _logic(word: str, first: Pieces, second: Pieces) -> Pieces:
    both = together(times, first, second)
    if word == "&":
        return both
    either = together(minus, together(plus, first, second), both)
    return either if word == "|" else together(minus, either, both)


def _folded(join: Callable[[Pieces, Pieces], Pieces], given: tuple[Pieces, ...]) -> Pieces:
    found, *others = given
    for other in others:
        found = join(found, other)
    return found


def _fit(values: list[Fraction], bits: int, sign: str) -> bool:
    low, high = (0, 2**bits) if sign == "UInt" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return all(value.denominator == 1 and low <= value < high for value in values)


def _not_straight(node: Node) -> Refused:
    return Refused(
        f"{words(node)} is not made of straight lines, and the column's domain is an interval.",
        allowed="+ and -, * and / by numbers, clip, abs, comparisons, is_between, when/then, min and max with numbers",
        instead="pf.Bins(edges, values) or a list of values as the domain, where any function of a row may be asked",
    )
