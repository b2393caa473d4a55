"""Finite classes of data sets with a metric: what is guaranteed between any two of them (GRAN III).

The canonical metric of a notion counts the steps between neighbours on a shortest way inside the class. So a class that
leaves out data sets may have longer ways, or none. Between data sets that no way connects nothing is guaranteed: if no
two are connected, even the identity is private (GRAN III.4). Such classes are refused.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, cast, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import UNIT, float_above
from pufferflow.core.validate import quoted, set_fields
from pufferflow.granularity.neighbours import Neighbours, callable_given, read_neighbours

MOST_DATABASES: Final = 2_000
Metric = Callable[[Any, Any], float]


@final
@dataclass(frozen=True, init=False, eq=False)
class Space(InNotebooks):
    """A finite class of data sets with a metric: that of a notion of neighbours, or any other.

    `Space(databases, metric)` takes an extended pseudometric, as a function of two data sets. `Space.of` makes the
    canonical metric of a notion, and refuses classes that it does not connect.

    >>> from pufferflow.granularity import unbounded
    >>> tables = ["", "a", "b", "aa", "ab", "bb"]
    >>> space = Space.of(tables, unbounded)
    >>> space.distance("aa", "b"), space.diameter
    (3.0, 4.0)
    """

    databases: tuple[Any, ...]
    distances: Floats = field(repr=False)
    neighbours: Neighbours | None

    def __init__(self, databases: Iterable[Any], metric: Metric) -> None:
        callable_given(
            metric, "The metric", instead="Space(databases, lambda one, other: …), or Space.of"
        )
        listed = listed_databases(databases)
        found = np.array(
            [[_length(metric(one, other)) for other in listed] for one in listed], dtype=np.float64
        )
        _check_metric(found)
        set_fields(self, databases=listed, distances=found, neighbours=None)

    @classmethod
    def of(cls, databases: Iterable[Any], neighbours: Neighbours) -> "Space":
        """Return a class with the canonical metric of a notion of neighbours."""
        listed = listed_databases(databases)
        distances = canonical_metric(listed, neighbours)
        if len(listed) > 1 and np.isinf(distances).any():
            raise _not_connected(
                neighbours, alone=bool(np.isinf(distances).sum() == len(listed) * (len(listed) - 1))
            )
        space = cls.__new__(cls)
        set_fields(space, databases=listed, distances=distances, neighbours=neighbours)
        return space

    def distance(self, one: object, other: object) -> float:
        """Return the distance of two data sets of the class."""
        return float(self.distances[self.place(one), self.place(other)])

    def place(self, database: object) -> int:
        """Return where a data set stands in the class."""
        try:
            return self._places[cast(Hashable, database)]
        except (KeyError, TypeError):
            raise UsageError(
                "A data set is not in the class.",
                allowed=f"one of its {len(self.databases)} data sets, in the same form",
                instead="a class with all data sets that parts of others may be",
            ) from None

    @property
    def diameter(self) -> float:
        """The largest distance."""
        return float(self.distances.max())

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {database: place for place, database in enumerate(self.databases)}

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """The places of neighbours, each pair once; of a metric without a notion all pairs at a positive distance."""
        close = (self.distances == 1) if self.neighbours is not None else (self.distances > 0)
        first, second = np.nonzero(np.triu(close, 1))
        return list(zip(first.tolist(), second.tolist(), strict=True))


def canonical_metric(databases: Iterable[Any], neighbours: Neighbours) -> Floats:
    """Return the fewest steps between neighbours from each data set of a class to each other; ∞ without a way.

    >>> from pufferflow.granularity import bounded, unbounded
    >>> canonical_metric(["aa", "ab", "bb"], bounded)[0].tolist(), canonical_metric(["a", "b"], unbounded)[0].tolist()
    ([0.0, 1.0, 2.0], [0.0, inf])
    """
    from scipy.sparse import csr_array  # takes longer to load than most other things here
    from scipy.sparse.csgraph import shortest_path

    listed = listed_databases(databases)
    return shortest_path(csr_array(_relation(listed, neighbours)), unweighted=True, directed=False)


def distance_between(first: Neighbours, second: Neighbours, databases: Iterable[Any]) -> float:
    """Return the largest distance, by the first notion, of neighbours of the second; ∞ if some have no way.

    A mechanism that keeps ε for the first notion keeps this distance times ε for the second (GRAN A.3).

    >>> from pufferflow.granularity import bounded, unbounded
    >>> tables = ["", "a", "b", "aa", "ab", "bb"]
    >>> distance_between(unbounded, bounded, tables), distance_between(bounded, unbounded, tables)
    (2.0, inf)
    """
    listed = listed_databases(databases)
    far = canonical_metric(listed, first)[_relation(listed, second)]
    return float(far.max()) if far.size else 0.0


def sensitivity(of: Callable[[Any], Any], source: Space, target: Space) -> float:
    """Return the least Δ with d(f(D), f(D')) ≤ Δ·d(D, D') for all data sets, rounded up (GRAN III.5).

    Data sets at the distance ∞ do not count. If `of` preprocesses the data, a mechanism that keeps ε·d keeps Δ·ε·d
    (GRAN III.6).

    >>> from pufferflow.granularity import unbounded
    >>> few, many = Space.of(["", "a", "aa"], unbounded), Space.of(["a" * rows for rows in range(5)], unbounded)
    >>> sensitivity(lambda table: table * 2, few, many)
    2.0
    """
    places = np.array([target.place(of(database)) for database in source.databases])
    images = target.distances[np.ix_(places, places)]
    finite = np.isfinite(source.distances)
    if (images[finite & (source.distances == 0)] > 0).any() or np.isinf(images[finite]).any():
        return math.inf
    pairs = {
        pair
        for pair in zip(images[finite].tolist(), source.distances[finite].tolist(), strict=True)
        if pair[1]
    }
    return max((float_above(Fraction(far) / Fraction(near)) for far, near in pairs), default=0.0)


def listed_databases(databases: object) -> tuple[Any, ...]:
    """Return the data sets of a class, each once."""
    try:
        listed = tuple(dict.fromkeys(cast(Iterable[Any], databases)))
    except TypeError:
        raise UsageError(
            f"The data sets are {quoted(databases)}, or some of them cannot be hashed.",
            allowed="a list of data sets that can be hashed: texts, tuples of rows, graphs",
            instead='[(), ("a",), ("a", "b")]',
        ) from None
    if not 1 <= len(listed) <= MOST_DATABASES:
        raise UsageError(
            f"A class of {len(listed)} data sets.",
            allowed=f"1 to {MOST_DATABASES} data sets, which are compared pair by pair",
            instead="pf.granularity.Partition or Overlapping, which need no list"
            if listed
            else "the data sets there are",
        )
    return listed


def _relation(
    databases: Sequence[Any], neighbours: Neighbours
) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Return which data sets are neighbours; refuse a relation that is not symmetric."""
    read_neighbours(neighbours)
    found = np.array(
        [[neighbours.related(one, other) for other in databases] for one in databases], dtype=bool
    )
    np.fill_diagonal(found, val=False)
    if (found != found.T).any():
        raise UsageError(
            f"The notion {neighbours.name!r} is not symmetric: some data sets are neighbours in one order only.",
            allowed="a relation that holds in both orders",
            instead="lambda one, other: related(one, other) or related(other, one)",
        )
    return found


def _length(given: object) -> float:
    """Return a distance as a float; NaN, which no metric has, for what is no number."""
    if isinstance(given, bool) or not isinstance(given, int | float | Fraction | np.number):
        return math.nan
    return float(cast(Any, given))


def _check_metric(distances: Floats) -> None:
    problem = ""
    if np.isnan(distances).any() or (distances < 0).any():
        problem = "negative, NaN, or no number"
    elif np.diagonal(distances).any():
        problem = "not 0 from a data set to itself"
    elif (distances != distances.T).any():
        problem = "not the same in both orders"
    elif any(
        (distances > (distances[:, [by]] + distances[[by]]) * (1 + 4 * UNIT)).any()
        for by in range(len(distances))
    ):
        problem = "longer than a way by a third data set"
    if problem:
        raise UsageError(
            f"This is not a metric: a distance is {problem}.",
            allowed="d(D, D) = 0, d(D, D') = d(D', D) >= 0, d(D, D'') <= d(D, D') + d(D', D''); ∞ is allowed",
            instead="Space.of(databases, neighbours), with the canonical metric of a notion",
        )


def _not_connected(neighbours: Neighbours, *, alone: bool) -> Refused:
    which = (
        "no data set of the class has a neighbour"
        if alone
        else "some data sets of the class are not connected"
    )
    return Refused(
        f"By the notion {neighbours.name!r} {which}: a guarantee for neighbours would say nothing between them.",
        allowed="a class in which neighbours lead from each data set to each other one",
        instead="bounded for tables with one number of rows, unbounded with smaller and larger tables in the class",
    )
