"""Private values and their totals as SQL: comparisons, counts, and sums of whole numbers that cannot overflow.

- A number is what lies between −∞ and +∞: that is false for NaN, wherever it stands in the order, and unknown for NULL.
- Floats are multiplied and added in the order written, and become whole by adding and subtracting 1.5 · 2⁵².
- Sums are of whole numbers only, and every partial sum is below 2^62.
"""

from collections.abc import Callable, Sequence

from pufferflow.plugins import (
    HALF,
    ROUNDER,
    Above,
    Added,
    ByLabels,
    ByLimits,
    Clipped,
    Float,
    FloatInside,
    Numbering,
    OneOf,
    Present,
    Segment,
    Steps,
    Text,
    Total,
    Value,
    WholeNumber,
)
from pufferflow_connectors.sql.dialect import INFINITY, ColumnKind, Dialect, Halves

_SMALL = 2.0**-60
"""Fewer steps than these change no rounded sum of steps."""


def value_text(value: Value, kind: ColumnKind, dialect: Dialect) -> str:
    """Return a private value of a column of some kind."""
    column = dialect.quoted(value.column)
    match value:
        case WholeNumber() if kind == "boolean":
            return f"CASE WHEN {column} THEN 1 WHEN NOT {column} THEN 0 END"
        case WholeNumber():
            return column
        case Text():
            return dialect.key(value.column, kind)
        case Float():
            return _as_float(column, kind, dialect)
        case FloatInside(low=low, high=high, missing=missing):
            number = _as_float(column, kind, dialect)
            inside, below, above = (dialect.float_of(end) for end in (missing, low, high))
            return (
                f"CASE WHEN {number} >= {below} AND {number} <= {above} THEN {number} "  # most are inside
                f"WHEN {number} > {above} AND {number} <= {dialect.float_of(INFINITY)} THEN {above} "
                f"WHEN {number} < {below} AND {number} >= {dialect.float_of(-INFINITY)} THEN {below} ELSE {inside} END"
            )
        case _:
            raise TypeError(type(value).__name__)


def _as_float(column: str, kind: ColumnKind, dialect: Dialect) -> str:
    if kind == "boolean":
        return f"CASE WHEN {column} THEN {dialect.float_of(1.0)} WHEN NOT {column} THEN {dialect.float_of(0.0)} END"
    return column if kind == "float" else f"CAST({column} AS {dialect.float_type})"


def steps_text(total: Steps, value: str, dialect: Dialect) -> str:
    """Return the steps of a formula at a float of its interval, as a float without a fraction that may be outside."""
    formula = total.formula
    if formula.flat:
        return _chosen(
            formula.segments, value, lambda one: dialect.float_of(float(round(one.start))), dialect
        )
    line = _chosen(formula.segments, value, lambda one: _line_text(one, value, dialect), dialect)
    if formula.square is not None:
        line = _flushed(f"({line})", _SMALL, dialect)
        line = f"({line}) * ({line}) * {dialect.float_of(formula.square)}"
    rounder = dialect.float_of(ROUNDER)
    return f"({line}) + {rounder} - {rounder}"


def total_text(total: Total, value: str, *, is_float: bool, dialect: Dialect) -> str:
    """Return a total of a value, or of its steps."""
    match total:
        case Present():
            return (
                dialect.count.format(is_number_text(value, dialect))
                if is_float
                else f"COUNT({value})"
            )
        case Above(limit=limit):
            least = dialect.float_of(limit) if is_float else str(int(limit))
            end = f" AND {value} <= {dialect.float_of(INFINITY)}" if is_float else ""
            return dialect.count.format(f"{value} > {least}{end}")
        case OneOf(labels=labels):
            return dialect.count.format(_one_of(value, labels, dialect))
        case Clipped() | Steps():
            if total.part == "all" or dialect.halves is None:
                return _sum(_part(total, value, dialect), dialect)
            return _part_of_sum(total, value, dialect.halves, dialect)
        case _:
            raise TypeError(type(total).__name__)


def numbering_text(numbering: Numbering, value: str, *, is_float: bool, dialect: Dialect) -> str:
    """Return the number of the class of a value."""
    match numbering:
        case ByLabels(groups=groups):
            cases = (
                f"WHEN {_one_of(value, group, dialect)} THEN {place}"
                for place, group in enumerate(groups)
            )
            return f"CASE {' '.join(cases)} ELSE {numbering.missing} END"
        case ByLimits(limits=limits):
            is_number = is_number_text(value, dialect) if is_float else f"{value} IS NOT NULL"
            found = _search(
                value,
                [dialect.float_of(limit) if is_float else str(int(limit)) for limit in limits],
                0,
            )
            return f"CASE WHEN {is_number} THEN {found} ELSE {numbering.missing} END"
        case _:
            raise TypeError(type(numbering).__name__)


def _search(value: str, limits: Sequence[str], first: int) -> str:
    """Return how many limits a value is above, plus `first`: the middle one first, so that few are compared."""
    if not limits:
        return str(first)
    middle = len(limits) // 2
    above = _search(value, limits[middle + 1 :], first + middle + 1)
    return f"CASE WHEN {value} > {limits[middle]} THEN {above} ELSE {_search(value, limits[:middle], first)} END"


def is_number_text(value: str, dialect: Dialect) -> str:
    """Return the condition that a float is a number: false for NaN, unknown for NULL."""
    return f"{value} >= {dialect.float_of(-INFINITY)} AND {value} <= {dialect.float_of(INFINITY)}"


def _one_of(value: str, labels: Sequence[str], dialect: Dialect) -> str:
    return f"{value} IN ({', '.join(dialect.label_of(label) for label in labels)})"


def _sum(number: str, dialect: Dialect) -> str:
    return f"CAST(COALESCE(SUM({number}), 0) AS {dialect.whole_type})"


def _part_of_sum(total: Added, number: str, halves: Halves, dialect: Dialect) -> str:
    """Return a part of the sum of what numbers are above the least; both parts are taken of one sum."""
    low, _ = total.ends
    above = _whole_inside(total, number, dialect) + (f" - ({low})" if low else "")
    half = halves.high if total.part == "high" else halves.low
    return f"CAST({half.format(f'COALESCE(SUM({above}), 0)', 2**HALF)} AS {dialect.whole_type})"


def _whole_inside(total: Added, number: str, dialect: Dialect) -> str:
    """Return a number within its ends as a whole number: steps are whole before, and far from the ends of the type."""
    whole = dialect.whole_of(number) if isinstance(total, Steps) else number
    return f"CAST({_inside(whole, *map(str, total.ends))} AS {dialect.whole_type})"


def _inside(number: str, low: str, high: str) -> str:
    return f"CASE WHEN {number} > {high} THEN {high} WHEN {number} < {low} THEN {low} ELSE {number} END"


def _part(total: Added, number: str, dialect: Dialect) -> str:
    """Return a number within its ends, or a part of what it is above the least, as a whole number."""
    if total.part == "all":
        return _whole_inside(total, number, dialect)
    if isinstance(total, Clipped):
        inside = f"CAST({_whole_inside(total, number, dialect)} AS {dialect.float_type})"
    else:
        inside = _inside(number, *(dialect.float_of(float(end)) for end in total.ends))
    above = f"({inside} - {dialect.float_of(float(total.ends[0]))})"
    high_part = dialect.floor.format(f"{above} * {dialect.float_of(2.0**-HALF)}")
    if total.part == "high":
        return dialect.whole_of(high_part)
    return dialect.whole_of(f"{above} - {high_part} * {dialect.float_of(2.0**HALF)}")


def _chosen(
    segments: Sequence[Segment], value: str, text: Callable[[Segment], str], dialect: Dialect
) -> str:
    *others, last = segments
    conditions = [
        f"{value} {'<=' if one.reached else '<'} {dialect.float_of(one.end)}" for one in others
    ]
    cases = [
        f"WHEN {condition} THEN {text(one)}"
        for condition, one in zip(conditions, others, strict=True)
    ]
    return f"CASE {' '.join(cases)} ELSE {text(last)} END" if cases else text(last)


def _line_text(segment: Segment, value: str, dialect: Dialect) -> str:
    if not segment.factor:
        return dialect.float_of(segment.start)
    distance = f"({value} - {dialect.float_of(segment.origin)})" if segment.origin else value
    scaled = f"{_flushed(distance, abs(_SMALL / segment.factor), dialect)} * {dialect.float_of(segment.factor)}"
    return f"{scaled} + {dialect.float_of(segment.start)}" if segment.start else scaled


def _flushed(number: str, small: float, dialect: Dialect) -> str:
    """Return 0 for numbers so small that no rounded step depends on them, where a tiny product is an error."""
    if not dialect.flushes:
        return number
    least, most = dialect.float_of(-small), dialect.float_of(small)
    return f"(CASE WHEN {number} > {least} AND {number} < {most} THEN {dialect.float_of(0.0)} ELSE {number} END)"
