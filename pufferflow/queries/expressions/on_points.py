"""φ on a finite domain: one number for each of its points, where the expression is evaluated, never on rows of data."""

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, Self, cast, final

import numpy as np
import polars as pl

from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.tables import type_name
from pufferflow.core.validate import quoted
from pufferflow.models.domain import MISSING, Domain, Label, Product
from pufferflow.queries.expressions.tree import short
from pufferflow.queries.expressions.values import TABLE_LIMIT, Values, fitting_unit, grid
from pufferflow.queries.expressions.words import LONGEST, number

_MOST_ALONE: Final = 1024
_PARTS: Final = 64
_WHOLE: Final[tuple[Any, ...]] = (
    pl.Int8,
    pl.Int16,
    pl.Int32,
    pl.Int64,
    pl.UInt8,
    pl.UInt16,
    pl.UInt32,
    pl.UInt64,
)
_EXACT: Final = 2.0**53


@final
@dataclass(frozen=True, repr=False)
class OnPoints(Values):
    """φ(domain.points[i]) is steps[i] · unit; |steps[i]| ≤ 2^40."""

    steps: tuple[int, ...]
    stored_as = "Tabled"

    @classmethod
    def of(  # noqa: PLR0913 - the fields themselves
        cls,
        column: str,
        domain: Domain,
        values: Sequence[Fraction],
        words: str,
        *,
        boolean: bool = False,
        name: str | None = None,
    ) -> Self:
        """Return φ with the given values: exactly if they are short binary fractions, else to the nearest step.

        >>> from pufferflow.models.domain import read_domain
        >>> OnPoints.of("x", read_domain([1, 2]), [Fraction(1, 2), Fraction(3)], "…").steps
        (1, 6)
        """
        unit = grid(values, TABLE_LIMIT)
        steps = tuple(round(value / unit) for value in values)
        return cls(column, domain, words, boolean, unit, min(steps), max(steps), name, steps)

    @classmethod
    def of_results(
        cls, column: str, domain: Domain, results: pl.Series, words: str, *, name: str | None
    ) -> Self:
        """Return φ with the results of an expression at all points."""
        boolean = results.dtype == pl.Boolean
        if domain.skips:  # null is 0 where a value is missing, as sums leave it out
            there = pl.Series(present(domain))
            numbers = results.cast(pl.Int64 if results.dtype == pl.Null else results.dtype)
            results = pl.select(
                pl.when(there).then(numbers).otherwise(numbers.fill_null(0))
            ).to_series()
        found = _steps(results)
        if found is None:
            values = [
                exact(value, point, words)
                for value, point in zip(results.to_list(), domain.points, strict=True)
            ]
            return cls.of(column, domain, values, words, boolean=boolean, name=name)
        steps, unit = found
        return cls(
            column,
            domain,
            words,
            boolean,
            unit,
            int(steps.min()),
            int(steps.max()),
            name,
            tuple(steps.tolist()),
        )

    @property
    def _points(self) -> tuple[Hashable, ...]:
        return (self.steps,)

    @property
    def range_present(self) -> tuple[int, int]:
        if not self.domain.skips:
            return self.low, self.high
        steps = [
            step for step, there in zip(self.steps, present(self.domain), strict=True) if there
        ]
        return min(steps), max(steps)

    def squared(self, center: Fraction) -> "OnPoints":
        """Return (φ − center)² of φ as it stands on its grid, and 0 for missing values."""
        there = present(self.domain)
        values = [
            (self.unit * step - center) ** 2 if of_value else Fraction(0)
            for step, of_value in zip(self.steps, there, strict=True)
        ]
        return OnPoints.of(self.column, self.domain, values, squared_words(self.words, center))


def present(domain: Domain) -> list[bool]:
    """Return for each point whether all of its values are there."""
    if isinstance(domain, Product):
        return [all(value is not MISSING for value in values) for values in domain.tuples]
    return [point is not MISSING for point in domain.points]


def squared_words(words: str, center: Fraction) -> str:
    """Return how (φ − center)² is written."""
    return short(f"({short(words, 40)}{f' - {number(center)}' if center else ''})²", LONGEST)


def table(
    expression: pl.Expr, columns: Mapping[str, Sequence[Label]], points: Sequence[Label], said: str
) -> pl.Series:
    """Return the results of an expression at all points; `columns` have the values of each point.

    The expression is evaluated on all points at once, in reverse and each alone. Of many points the first ones are
    evaluated alone and the others in parts. So an expression that still depends on other rows is found here.
    """
    frame = pl.DataFrame([_column(name, values, values) for name, values in columns.items()])
    whole, back = evaluate(expression, frame, said), evaluate(expression, frame.reverse(), said)
    alone = min(len(points), _MOST_ALONE)
    width = max((len(points) - alone) // _PARTS + 1, 2)
    starts = [*range(alone), *range(alone, len(points), width), len(points)]
    parts = [
        evaluate(expression, frame[start:end], said) for start, end in itertools.pairwise(starts)
    ]
    if not (
        whole.equals(back.reverse())
        and whole.equals(pl.concat([part.cast(whole.dtype, strict=False) for part in parts]))
    ):
        raise Refused(
            f"{said} gives a value other numbers when other rows are there.",
            allowed="expressions that work on each row by itself",
            instead="declared numbers in place of numbers that depend on rows",
        )
    return whole


def _steps(results: pl.Series) -> tuple[Any, Fraction] | None:
    """Return numbers in whole steps, and their unit, as `OnPoints.of` does one by one; None for it to do so."""
    dtype = results.dtype
    if results.null_count() or not (dtype.is_float() or dtype == pl.Boolean or dtype in _WHOLE):
        return None
    values = results.cast(pl.Float64).to_numpy()
    if not np.isfinite(values).all() or (not dtype.is_float() and np.abs(values).max() >= _EXACT):
        return None
    if not np.any(values):
        return np.zeros(len(values), dtype=np.int64), Fraction(1)
    digits, exponents = np.frexp(values[values != 0])
    whole = np.ldexp(digits, 53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    least, largest = int((exponents - 53 + lowest).min()), Fraction(float(np.abs(values).max()))
    unit = Fraction(2) ** least
    unit = unit if largest <= unit * 2**TABLE_LIMIT else fitting_unit(largest, TABLE_LIMIT)
    exponent = unit.numerator.bit_length() - unit.denominator.bit_length()
    return np.rint(np.ldexp(values, -exponent)).astype(np.int64), unit


def _type_of(points: Sequence[Label]) -> type[pl.DataType]:
    """Return the data type in which an expression sees the points."""
    if all(isinstance(point, bool) for point in points):
        return pl.Boolean
    if all(isinstance(point, str) for point in points):
        return pl.String
    return pl.Float64 if any(isinstance(point, float) for point in points) else pl.Int64


def column_at(name: str, points: Sequence[Label], domain: Domain) -> pl.Series:
    """Return some values of a column, as an expression sees those of its domain."""
    return _column(name, points, domain.points)


def _column(name: str, points: Sequence[Label], among: Sequence[Label]) -> pl.Series:
    """Return the values of a column at all points, as an expression sees them `among` others."""
    kind = _type_of([point for point in among if point is not MISSING])
    plain = kind in (pl.Boolean, pl.String)
    cells = [
        point if plain or point is MISSING else float(point) if kind == pl.Float64 else int(point)
        for point in points
    ]
    return pl.Series(name, cells, dtype=kind)


def evaluate(expression: pl.Expr, points: pl.DataFrame, said: str) -> pl.Series:
    """Return the numbers or Booleans that the expression gives at the points."""
    frame, why = _selected(points, expression)
    if frame is None:
        raise UsageError(
            f"Polars cannot evaluate {said} on the domain ({why}).",
            allowed="an expression that gives every declared value a number or a Boolean",
            instead="another function, a cast, or a domain of another type",
        )
    if frame.width != 1 or frame.height != points.height:
        raise Refused(
            f"{said} does not give one number for each row.", allowed="one number for each row"
        )
    result = frame.to_series()
    column = points.columns[0]
    called, value = short(repr(column), 40), quoted(points[column][0])
    if not (result.dtype.is_numeric() or result.dtype.base_type() in (pl.Boolean, pl.Null)):
        raise UsageError(
            f"{said} gives {_called(result.dtype)}, which cannot be added up.",
            allowed="numbers, or a predicate that counts rows",
            instead=f"private_histogram({called}), or a predicate such as pl.col({called}) == {value}",
        )
    return result


def _selected(frame: pl.DataFrame, expression: pl.Expr) -> tuple[pl.DataFrame | None, str]:
    """Return the result of Polars on declared values, or its error; ours is raised outside, without its traceback."""
    try:
        return frame.select(expression), ""
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        TypeError,
        ValueError,
        OverflowError,
    ) as error:
        return None, short(str(error).strip().partition("\n")[0], 80)


def exact(value: Any, point: Label, said: str) -> Fraction:
    """Return one result as a rational number."""
    finite = value is not None and (not isinstance(value, float | Decimal) or math.isfinite(value))
    if not finite:
        raise UsageError(
            f"{said} is {'null' if value is None else value} at the value {quoted(point)} of the domain.",
            allowed="a finite number for every value of the domain",
            instead=".otherwise(0) after when/then, or fill_null(0)",
        )
    return Fraction(cast(float, value))


def _called(dtype: pl.DataType) -> str:
    if dtype.base_type() in (pl.String, pl.Categorical, pl.Enum):
        return "texts"
    return (
        "dates or times" if dtype.is_temporal() else f"values of type {short(type_name(dtype), 30)}"
    )
