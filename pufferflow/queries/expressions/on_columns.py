"""φ of several columns of which some fill intervals: a sum of functions of one column each (M7).

What the columns add is known column by column, on their domains. So no row is needed to find how far a row moves the
sum, and engines read each column by itself: a sum over rows of a sum over columns is a sum of sums.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, reduce
from operator import add, mul
from typing import Any, Final, Self, cast, final

import polars as pl

from pufferflow.core.errors import Refused
from pufferflow.models.domain import Domain, Interval, Product
from pufferflow.queries.expressions.on_interval import OnInterval, probes_of
from pufferflow.queries.expressions.on_points import OnPoints, column_at, evaluate, exact
from pufferflow.queries.expressions.tree import Node, read_tree
from pufferflow.queries.expressions.values import LINE_LIMIT, Values, fitting_unit

_CLOSE: Final = Fraction(1, 2**20)
_ADDED: Final = (
    "sums, differences, means and multiples of functions of one column each; any function where all columns are lists "
    "of values or pf.Bins"
)


@final
@dataclass(frozen=True, repr=False)
class OnColumns(Values):
    """φ(x) = Σ_c φ_c(x_c), each φ_c in steps of the same unit; each part has at most 2^30 of them."""

    parts: tuple[Values, ...]
    stored_as = "Added"

    @classmethod
    def of(cls, product: Product, parts: Sequence[Values], words: str, *, name: str) -> Self:
        """Return the sum of functions of the columns of a product, in their order."""
        largest = sum(
            (max(abs(part.low), abs(part.high)) * part.unit for part in parts), Fraction(0)
        )
        unit = max(min(part.unit for part in parts), fitting_unit(largest, LINE_LIMIT))
        own = tuple(_in_steps(part, unit) for part in parts)
        low, high = sum(part.low for part in own), sum(part.high for part in own)
        return cls(product.name, product, words, False, unit, low, high, name, own)

    @property
    def terms(self) -> tuple[Values, ...]:
        return self.parts

    @property
    def _points(self) -> tuple[Any, ...]:
        return tuple(part.graph for part in self.parts)

    @property
    def range_present(self) -> tuple[int, int]:
        return self.low, self.high

    def squared(self, center: Fraction) -> Values:
        """Refuse squares: that of a sum of columns is no sum of functions of one column each."""
        raise Refused(
            f"The square of {self.words}, which reads several columns, is not known on an interval.",
            allowed="squares of one column, and private_covariance of two columns that are lists or pf.Bins",
            instead="pf.Bins(edges, values) as the domains, where any function of a row is allowed",
        )


def _in_steps(part: Values, unit: Fraction) -> Values:
    """Return a function of one column in steps of a unit."""
    if isinstance(part, OnInterval):
        return OnInterval.of(
            part.column, cast(Interval, part.domain), part.pieces, part.words, unit=unit
        )
    steps = tuple(round(step * part.unit / unit) for step in cast(OnPoints, part).steps)
    return replace(cast(OnPoints, part), unit=unit, steps=steps, low=min(steps), high=max(steps))


def by_column(expression: pl.Expr, product: Product, said: str) -> dict[str, pl.Expr]:
    """Return for each column of a product what it adds to an expression; refuse one that is no such sum.

    >>> from pufferflow.models.domain import Interval
    >>> both = Product(("a", "b"), (Interval(0, 1), Interval(0, 2)), (0.0, 0.0))
    >>> {name: str(part) for name, part in by_column(pl.col("a") + pl.col("b"), both, "a + b").items()}
    {'a': 'col("a")', 'b': 'col("b")'}
    """
    found: dict[str, list[pl.Expr]] = {name: [] for name in product.columns}
    try:
        terms = _terms(expression)
    except _NotASumError:
        intervals = zip(product.columns, product.domains, strict=True)
        named = next(name for name, domain in intervals if not domain.finite)
        raise Refused(
            f"{said} is no sum of functions of one column each, and {named!r} is an interval.",
            allowed=_ADDED,
            instead=f"pf.Bins(edges, values) as the domain of {named!r}; or a column made before pf.protect, with a "
            "domain and a secret of its own",
        ) from None
    for term in terms:
        name, *_ = read_tree(term).columns or product.columns  # constants go with the first column
        found[name].append(term)
    return {name: reduce(add, own) for name, own in found.items()}


class _NotASumError(Exception):
    """The expression is no sum of functions of one column each."""


def _terms(expression: pl.Expr) -> list[pl.Expr]:
    """Return terms of at most one column each, whose sum is the expression."""
    node = read_tree(expression)
    if len(node.columns) < 2:
        return [expression]
    inputs = expression.meta.pop()[::-1]
    added = inputs if (node.kind, node.word) in _ADDING else inputs[:1]
    change = _change(node, inputs)
    if change is None:
        raise _NotASumError
    if (node.kind, node.word) == ("operator", "*") and not read_tree(inputs[0]).columns:
        added = inputs[1:]
    terms = [term for one in added for term in _terms(one)]
    if (node.kind, node.word) == ("operator", "-"):
        terms += [term * -1 for term in _terms(inputs[1])]
    return [change(term) for term in terms]


_ADDING: Final = {
    ("operator", "+"),
    ("function", "sum_horizontal"),
    ("function", "mean_horizontal"),
}


def _change(node: Node, inputs: Sequence[pl.Expr]) -> Callable[[pl.Expr], pl.Expr] | None:
    """Return what a node does with every term below it; None if it mixes them."""
    factor = next((one for one in inputs if not read_tree(one).columns), None)
    change: Callable[[pl.Expr], pl.Expr] | None = None
    match node.kind, node.word:
        case ("name" | "cast", _) if node.kind == "name" or node.word == "Float64":
            change = _as_it_is
        case ("operator", "+" | "-") | ("function", "sum_horizontal"):
            change = _as_it_is
        case ("operator", "*") if factor is not None:
            change = partial(mul, factor)
        case ("operator", "/") if factor is inputs[1]:
            change = partial(_divided, inputs[1])
        case ("function", "negate"):
            change = partial(mul, pl.lit(-1))
        case ("function", "mean_horizontal"):
            change = partial(_divided, pl.lit(len(inputs)))
        case _:
            pass
    return change


def _as_it_is(term: pl.Expr) -> pl.Expr:
    return term


def _divided(divisor: pl.Expr, term: pl.Expr) -> pl.Expr:
    return term / divisor


def check_sum(expression: pl.Expr, parts: Sequence[Values], said: str) -> None:
    """Refuse an expression that Polars reads differently: it has to be the sum of its parts."""
    known = [list(_known(part)) for part in parts]
    count = max(map(len, known)) + 1
    rows = [
        [own[(place * (at + 1) + at) % len(own)] for at, own in enumerate(known)]
        for place in range(count)
    ]
    columns = [
        column_at(part.column, [row[at][0] for row in rows], part.domain)
        for at, part in enumerate(parts)
    ]
    results = evaluate(expression, pl.DataFrame(columns), said).to_list()
    room = _CLOSE * sum(max(abs(part.low), abs(part.high)) * part.unit for part in parts)
    for row, result in zip(rows, results, strict=True):
        sums = map(sum, itertools.product(*(values for _, values in row)))
        if (
            min(abs(exact(result, str(row[0][0]), said) - one) for one in sums)
            > room + len(parts) * parts[0].unit
        ):
            raise Refused(
                f"{said} gives Polars another number than exact arithmetic: whole numbers overflow, or floats cancel.",
                allowed="expressions whose steps stay within their data types",
                instead="casts of predicates to pl.Int64, and numbers of similar size",
            )


def _known(part: Values) -> Iterator[tuple[Any, set[Fraction]]]:
    """Yield values of a column, each with what φ may be there."""
    if isinstance(part, OnInterval):
        yield from probes_of(part.pieces)
    else:
        for point, step in zip(part.domain.points, cast(OnPoints, part).steps, strict=True):
            yield point, {step * part.unit}


def sum_of_columns(
    expression: pl.Expr, product: Product, said: str, name: str, compiled: Mapping[str, Values]
) -> OnColumns:
    """Return φ from what each column adds, once Polars was seen to agree."""
    parts = [compiled[column] for column in product.columns if column in compiled]
    check_sum(expression, parts, said)
    return OnColumns.of(product, parts, said, name=name)


def check_no_missing(product: Product, said: str) -> None:
    """Refuse columns whose missing values are left out: a sum of several columns would be missing with any of them."""
    named = zip(product.columns, product.domains, strict=True)
    for column, domain in ((name, one) for name, one in named if one.skips):
        raise Refused(
            f'{said} reads {column!r}, whose missing values are left out: missing="skip".',
            allowed="sums of columns on intervals that read null as a value of the domain",
            instead=f"missing={_least(domain)!r} in the secret of {column!r}, or a query for each column",
        )


def _least(domain: Domain) -> Any:
    return domain.present.points[0]
