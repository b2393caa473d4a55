"""Predicates that cut a domain into classes, one for each bar of a histogram."""

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np
import polars as pl

from pufferflow.core.errors import UsageError
from pufferflow.core.validate import finite_number, in_few_digits
from pufferflow.models.domain import Domain, Interval
from pufferflow.queries.expressions.interval import OnInterval
from pufferflow.queries.expressions.on_points import OnPoints
from pufferflow.queries.expressions.pieces import ZERO, Line, Pieces
from pufferflow.queries.expressions.refusals import short
from pufferflow.queries.expressions.values import Values

_ALLOWED: Final = "growing numbers"
_ONE: Final = Line(Fraction(1))
_NOTHING: Final = Line(ZERO)
Numbers = Sequence[float] | np.ndarray[Any, np.dtype[Any]] | pl.Series


def indicators(column: str, domain: Domain, bins: Numbers | None = None) -> tuple[tuple[str, Values], ...]:
    """Return a label and a predicate for every point of a finite domain, or for every class of an interval.

    A class reaches from one edge up to the next, which belongs to the next class; the last class has both. Where the
    bins do not reach the ends of the interval there are open classes beyond them, so every value is in one class.

    >>> [label for label, _ in indicators("x", Interval(0, 10), bins=[0, 1, 5])]
    ['0 to 1', '1 to 5', '5 and more']
    """
    if isinstance(domain, Interval):
        return _labelled(column, domain, _edges(bins, domain))
    if bins is not None:
        raise UsageError(
            "bins for a domain whose values are listed.",
            allowed="bins for an interval only; a listed domain has a class for each value",
            instead="pf.Bins(edges, values) as the domain, or sums of the classes after the release",
        )
    bars: list[tuple[str, Values]] = []
    for place, point in enumerate(domain.present.points):
        words = short(f"{short(column, 30)} is {point!r}", 60)
        steps = tuple(int(other == place) for other in range(len(domain.points)))
        bars.append((str(point), OnPoints(column, domain, words, True, Fraction(1), 0, 1, None, steps)))
    return tuple(bars)


def classes(column: str, domain: Interval, bins: Numbers | None) -> tuple[tuple[float, ...], tuple[Values, ...]]:
    """Return the ends of the classes into which bins cut an interval, in growing order, and a predicate for each.

    The outermost ends are the interval's own, wherever the bins begin and end, so there is one end more than classes.

    >>> ends, bars = classes("x", Interval(0, 10), [2, 5, 20])
    >>> ends, len(bars)
    ((0.0, 2.0, 5.0, 10.0), 3)
    """
    inner = [edge for edge in _edges(bins, domain) if domain.low < edge < domain.high]
    if not inner:
        raise UsageError(
            "The bins do not cut the interval: all of it is one class.",
            allowed=f"{_ALLOWED}, at least one of them between the ends of the interval",
            instead=f"bins=[{in_few_digits(domain.low / 2 + domain.high / 2)}]",
        )
    ends = (float(domain.low), *inner, float(domain.high))
    bars: list[Values] = []
    for low, high in itertools.pairwise(ends):
        inside = low if low > domain.low else None, high if high < domain.high else None
        bars.append(_between(column, domain, f"{in_few_digits(low)} to {in_few_digits(high)}", *inside))
    return ends, tuple(bars)


def _edges(given: Numbers | None, domain: Interval) -> list[float]:
    instead = domain.some_bins
    if given is None:
        raise UsageError("An interval has no classes of its own.", allowed=_ALLOWED, instead=instead)
    held = cast(object, given.to_list() if isinstance(given, pl.Series) else given)
    held = cast(object, held.tolist()) if isinstance(held, np.ndarray) else held
    if isinstance(held, str | bytes) or not isinstance(held, Sequence) or not held:
        raise UsageError("bins is no list of numbers.", allowed=_ALLOWED, instead=instead)
    edges = cast(Sequence[object], held)
    read = [finite_number(edge, "an edge of bins", allowed=_ALLOWED, instead=instead) for edge in edges]
    if any(not low < high for low, high in itertools.pairwise(read)):
        raise UsageError("The bins do not grow.", allowed=_ALLOWED, instead=instead)
    return read


def _labelled(column: str, domain: Interval, edges: list[float]) -> tuple[tuple[str, Values], ...]:
    bounds: list[tuple[str, float | None, float | None]] = [
        (f"{in_few_digits(low)} to {in_few_digits(high)}", low, high) for low, high in itertools.pairwise(edges)
    ]
    if domain.low < edges[0] or len(edges) == 1:
        bounds.insert(0, (f"below {in_few_digits(edges[0])}", None, edges[0]))
    if domain.high > edges[-1] or len(edges) == 1:
        bounds.append((f"{in_few_digits(edges[-1])} and more", edges[-1], None))
    label, low, _ = bounds[-1]
    bounds[-1] = label, low, None  # nothing lies beyond the last class, whose upper edge is its own
    return tuple((label, _between(column, domain, label, low, high)) for label, low, high in bounds)


def _between(column: str, domain: Interval, label: str, low: float | None, high: float | None) -> OnInterval:
    words = short(f"{short(column, 30)} in {label}", 60)
    return OnInterval.indicator(column, domain, _inside(domain.low, domain.high, low, high), words)


def _inside(least: float, most: float, low: float | None, high: float | None) -> Pieces:
    """Return the function on [least, most] that is 1 from low up to high, which is not in it."""
    knots = (least, *(end for end in (low, high) if end is not None and least < end < most), most)
    at = [_ONE if (low is None or x >= low) and (high is None or x < high) else _NOTHING for x in knots]
    lines = [
        _ONE if (low is None or start >= low) and (high is None or end <= high) else _NOTHING
        for start, end in itertools.pairwise(knots)
    ]
    return Pieces(tuple(map(Fraction, knots)), tuple(line.intercept for line in at), tuple(lines))
