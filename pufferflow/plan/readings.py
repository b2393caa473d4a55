"""What values are read as, in words: null, values outside the domain, classes; from schema and domain, never from rows.

No row is left out for its value, so each counts as one of the domain; how many rows are read so is private.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from pufferflow.expressions import Tabled, Values
from pufferflow.queries import Count, Histogram, Mean, MeanOfUnknown, Quantile, Query, Sum
from pufferflow.questions import Questions
from pufferflow.release.cleaning import clean_dtype, labelled
from pufferflow.secrets.domain import Bins, Domain, Interval, Label

_INSIDE = "within a class of bins values are taken to lie evenly, and the error bar reaches to its ends"
_MOST, _LONG = 8, 1e15


def readings(questions: Questions) -> tuple[str, ...]:
    """Return a line for every query, in their order."""
    columns = _readings(questions)
    return tuple(_line([query], columns, it="it") for query in questions.queries)


def readings_together(questions: Questions) -> tuple[str, ...]:
    """Return the same lines for people: what is true of several queries is said once."""
    alike = dict[str | None, list[Query]]()
    for query in questions.queries:
        alike.setdefault(_column(query), []).append(query)
    columns = _readings(questions)
    return tuple(_line(queries, columns) for queries in alike.values())


def assumed(questions: Questions) -> list[str]:
    """Say what was assumed where nobody chose what missing values count as."""
    secret, found = questions.scenario.secret, list[str]()
    for column in _columns(questions):
        if questions.missing_chosen(column) is False:
            own = secret.reads is not None and secret.reads[0] == column
            why = "since missing= was left out" if own else "its first value, since the secret names no other"
            found.append(f"{_missing(questions, column)}, {why}")
    return found


@final
@dataclass(frozen=True)
class _Reading:
    """How the values of a column are read."""

    words: str
    distance: float
    """How far a value within the domain may be from what it is read as."""
    beyond: str
    """Where that has no limit; empty for nowhere."""


def _columns(questions: Questions) -> list[str]:
    return list(dict.fromkeys(one.values.column for one in questions.measures if one is not None))


def _column(query: Query) -> str | None:
    """Return the column that a query reads; None if it counts rows."""
    return next((values.column for values in query.measures if values is not None), None)


def _readings(questions: Questions) -> dict[str, _Reading]:
    return {column: _reading(questions, column) for column in _columns(questions)}


def _reading(questions: Questions, column: str) -> _Reading:
    nearest, distance, beyond = _nearest(questions.domains[column], questions.schema[column])
    chosen = ", as missing= says" if questions.missing_chosen(column) else ""
    return _Reading("; ".join(filter(None, [_missing(questions, column) + chosen, nearest])), distance, beyond)


def _line(queries: Sequence[Query], columns: dict[str, _Reading], it: str = "") -> str:
    """Return how queries about one column read it; each of them may be called `it`."""
    names, column = ", ".join(query.name for query in queries), _column(queries[0])
    if column is None:
        return f"{names}: every row counts, whatever its values"
    one = columns[column]
    off = [words for query in queries for words in [_off(query, one.distance, it or query.name)] if words]
    limit = f", without limit for values {one.beyond}" if off and one.beyond else ""
    inside = (
        _INSIDE
        if any(isinstance(query, Quantile) and len(query.edges) > len(query.measures) for query in queries)
        else ""
    )
    return f"{names}: {'; '.join(filter(None, [one.words, ', '.join(off) + limit, inside]))}"


def _off(query: Query, distance: float, it: str) -> str:
    """Say how far an answer may be off because values are read as others near them; nothing where rows are counted."""
    if not distance or isinstance(query, Count | Histogram):
        return ""
    if isinstance(query, Quantile):
        return f"{it} may be off by up to {distance:.4g}"
    slope = _slope(query.measures[0]) if isinstance(query, Sum | Mean | MeanOfUnknown) else None
    if slope is None:
        return f"every value behind {it} may be off by up to {distance:.4g}"
    each = " for each row" if isinstance(query, Sum) else ""
    return f"{it} may be off by up to {slope * distance:.4g}{each}"


def _slope(values: Values | None) -> float | None:
    """Return how much faster what is asked about rises or falls than the value itself, if that is everywhere alike."""
    if not isinstance(values, Tabled):
        return None
    points, numbers = values.domain.numbers, np.array(values.steps) * float(values.unit)
    low, high = points.argmin(), points.argmax()
    slope = float((numbers[high] - numbers[low]) / (points[high] - points[low]))
    line = numbers[low] + slope * (points - points[low])
    return abs(slope) if np.allclose(numbers, line, rtol=0, atol=1e-9 * np.ptp(numbers)) else None


def _missing(questions: Questions, column: str) -> str:
    """Say what counts as the missing value; every column can have nulls, whatever its dtype."""
    dtype, domain = questions.schema[column], questions.domains[column]
    kinds = ["null", *["NaN"] * dtype.is_float(), *["unknown labels"] * _unknown_labels(domain, dtype)]
    what = kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} and {kinds[-1]}"
    return f"{what} in {column!r} {'counts' if len(kinds) == 1 else 'count'} as {_shown(questions.missing(column))}"


def _unknown_labels(domain: Domain, dtype: pl.DataType) -> bool:
    """Whether there can be labels that the domain does not have."""
    closed = isinstance(dtype, pl.Enum) and set(dtype.categories.to_list()) <= set(domain.points)
    return labelled(domain) and not closed


def _nearest(domain: Domain, dtype: pl.DataType) -> tuple[str, float, str]:
    """Say what other numbers count as, how far that may be from them within the domain, and where beyond it."""
    if isinstance(domain, Bins):
        return _of_classes(domain)
    if labelled(domain) or not domain.numeric:
        return "", 0.0, ""
    points = sorted(domain.numbers.tolist())
    least, most = _ends(dtype)
    below = [f"numbers below {_shown(points[0])} as {_shown(points[0])}"] * (least < points[0])
    above = [f"numbers above {_shown(points[-1])} as {_shown(points[-1])}"] * (most > points[-1])
    ends = [f"below {_shown(points[0])}"] * bool(below) + [f"above {_shown(points[-1])}"] * bool(above)
    gaps = [high - low for low, high in itertools.pairwise(points)]
    if isinstance(domain, Interval) or (max(gaps) <= 1 and _whole(points, dtype)):
        return ", ".join([*below, *above]), 0.0, ""
    between = f"other numbers as the nearest of {_listed(domain.points)}, the lower of two as near"
    return between, max(gaps) / 2, " and ".join(ends)


def _of_classes(domain: Bins) -> tuple[str, float, str]:
    """Say what each class counts as, and how far the values of it may be from that."""
    edges = [-np.inf, *domain.edges, np.inf] if domain.open else list(domain.edges)
    classes = list(itertools.pairwise(edges))
    named = [
        f"{_class(low, high)} as {_shown(value)}" for (low, high), value in zip(classes, domain.values, strict=True)
    ]
    more = f", … ({len(named)} classes)" if len(named) > _MOST else ""
    outside = "" if domain.open else ", numbers beyond as the class next to them"
    words = f"classes count as one value each: {', '.join(named[:_MOST])}{more}{outside}"
    if not domain.numeric:
        return words, 0.0, ""
    inner = [
        max(abs(high - value), abs(value - low))
        for (low, high), value in zip(classes, domain.numbers.tolist(), strict=True)
        if np.isfinite(high - low)
    ]
    return words, max(inner, default=0.0), f"below {_shown(domain.edges[0])} and from {_shown(domain.edges[-1])} on"


def _class(low: float, high: float) -> str:
    if low == -np.inf:
        return f"below {_shown(high)}"
    return f"{_shown(low)} and more" if high == np.inf else f"{_shown(low)} to {_shown(high)}"


def _whole(points: Sequence[float], dtype: pl.DataType) -> bool:
    """Whether a column has no numbers between whole points."""
    return (clean_dtype(dtype).is_integer() or dtype == pl.Boolean) and all(point.is_integer() for point in points)


def _ends(dtype: pl.DataType) -> tuple[float, float]:
    """Return the least and the largest number that a column can have."""
    if dtype == pl.Boolean:
        return 0.0, 1.0
    clean = clean_dtype(dtype)
    if not clean.is_integer():
        return -np.inf, np.inf
    ends = np.iinfo(str(clean).lower())
    return float(ends.min), float(ends.max)


def _listed(points: Sequence[Label]) -> str:
    return ", ".join(map(_shown, points[:_MOST])) + (f", … ({len(points)} values)" if len(points) > _MOST else "")


def _shown(value: Label) -> str:
    """Show a declared value with all its digits."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < _LONG
    return repr(int(value)) if whole else repr(value)
