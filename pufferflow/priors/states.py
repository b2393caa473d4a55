"""Reading a column of a public reference as the states of a chain: places in a domain of values or classes."""

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from pufferflow.errors import Misuse
from pufferflow.secrets import Bins, Domain, Interval
from pufferflow.secrets.domain import read_domain

Whole = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]
MOST_VALUES = 50
_SAME_NUMBER = 1e-6


def read_states(values: pl.Series, domain: object) -> tuple[pl.Series, Domain, int]:
    """Return the place of each value in the domain (null if it has none), the domain, and how many are not in it."""
    read = _values_of(values) if domain is None else read_domain(domain)
    if isinstance(read, Interval):
        raise Misuse(
            f"A chain of states for a column that is {read.describe()}.",
            allowed="a list of values, or classes of a continuous column",
            instead="domain=pf.Bins(edges, values)",
        )
    if isinstance(read, Bins):
        edges = read.edges if read.open else read.edges[1:-1]
        numbers, known = _numbers_of(values)
        return _series(np.searchsorted(edges, numbers, side="right"), known), read, 0
    if any(isinstance(point, str) for point in read.points):
        return _labelled(values, read), read, 0
    return _nearest(values, read)


def _values_of(values: pl.Series) -> Domain:
    """Return the values that occur as a domain, if they are few."""
    if isinstance(values.dtype, pl.Categorical | pl.Enum):
        values = values.cast(pl.String)
    if values.dtype.is_float():
        values = values.fill_nan(None)
    found = values.drop_nulls().unique().sort()
    if not 2 <= len(found) <= MOST_VALUES:
        raise Misuse(
            f"The column {values.name!r} of the reference has {len(found)} different values, and no domain is given.",
            allowed=f"2 to {MOST_VALUES} different values, or a domain",
            instead="domain=pf.Bins(edges, values), which reads a continuous column in classes",
        )
    return read_domain(found.to_list())


def _labelled(values: pl.Series, domain: Domain) -> pl.Series:
    """Return the places of labels; one that the domain does not have is no value."""
    if not isinstance(values.dtype, pl.String | pl.Categorical | pl.Enum):
        raise Misuse(
            f"The column {values.name!r} of the reference is of type {values.dtype}, and the domain has labels.",
            allowed="a column of labels, or a domain of numbers",
            instead="a domain with the values of the column",
        )
    places = list(range(len(domain.points)))
    known = cast(list[Any], list(domain.points))
    return values.cast(pl.String).replace_strict(known, places, default=None, return_dtype=pl.Int32)


def _nearest(values: pl.Series, domain: Domain) -> tuple[pl.Series, Domain, int]:
    """Return the places of the nearest numbers, the smaller of two."""
    numbers, known = _numbers_of(values)
    points = np.array([float(point) for point in domain.points])
    order = np.argsort(points)
    between = (points[order][1:] + points[order][:-1]) / 2
    places = order[np.searchsorted(between, numbers, side="left")]
    moved = known & ~np.isclose(numbers, points[places], rtol=_SAME_NUMBER, atol=0)
    return _series(places, known), domain, int(moved.sum())


def _numbers_of(values: pl.Series) -> tuple[npt.NDArray[np.float64], Flags]:
    """Return a column as numbers, and which rows have one."""
    if not (values.dtype.is_numeric() or values.dtype == pl.Boolean):
        raise Misuse(
            f"The column {values.name!r} of the reference is of type {values.dtype}, and the domain has numbers.",
            allowed="a column of numbers, or a domain of labels",
            instead="a domain with the values of the column",
        )
    numbers = values.cast(pl.Float64).to_numpy()
    return numbers, ~np.isnan(numbers)


def _series(places: Whole, known: Flags) -> pl.Series:
    return pl.select(pl.when(pl.Series(known)).then(pl.Series(places, dtype=pl.Int32))).to_series()
