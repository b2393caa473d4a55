"""What several mechanisms guarantee together if each reads a part of the data, by enumeration of a finite class.

A part is a function of the whole. Its mechanism is private for the parts (`space` is theirs), or for the whole data
sets (common domain). In the first case its loss between D and D' is that between f(D) and f(D'). In the second it is
that between the closest data sets with these parts, where it reads the same. Losses add, even if mechanisms were chosen
after seeing answers of others. The guarantee for neighbours is the largest sum. It is often no multiple of a metric. So
it may be less than the loss of distant pairs divided by their distance.

GRAN's δ^f (VI.7) is taken over all data sets at the distance, of whatever parts, and is false as printed: here δ grows
with the distance of the closest data sets that do have these parts.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.validate import instance, set_fields
from pufferflow.granularity.charges import (
    Charges,
    Loss,
    NumberKind,
    PromiseKind,
    added,
    kind_of,
    largest,
)
from pufferflow.granularity.neighbours import callable_given
from pufferflow.granularity.space import Space

Reading = Callable[[Any], Any]


@final
@dataclass(frozen=True)
class Part(InNotebooks):
    """The part of a data set that one mechanism reads, and its guarantee.

    `promise` holds for neighbours in `space`, the class of the parts with its metric. Without `space` it holds for
    neighbours of the whole data sets.
    """

    reads: Reading
    promise: Loss
    space: Space | None = None

    def __post_init__(self) -> None:
        callable_given(
            self.reads, "What a part reads", instead="Part(lambda table: …, pf.Pure(0.5))"
        )


@final
@dataclass(frozen=True, init=False, eq=False)
class Together(InNotebooks):
    """The losses of mechanisms together, between any two data sets of a class."""

    space: Space
    _kind: PromiseKind
    _charges: tuple[Charges, ...]
    _distances: tuple[Floats, ...]

    def __init__(self, space: Space, parts: Sequence[Part], kind: NumberKind = "pure") -> None:
        of_kind = kind_of([part.promise for part in parts], kind)
        set_fields(
            self,
            space=space,
            _kind=of_kind,
            _charges=tuple(of_kind.read(part.promise) for part in parts),
            _distances=tuple(_distances(space, part) for part in parts),
        )

    def loss(self, one: object, other: object) -> Loss:
        """Return the joint loss between two data sets of the class."""
        places = self.space.place(one), self.space.place(other)
        return self._kind.made(
            self._at([float(distances[places]) for distances in self._distances])
        )

    @property
    def promise(self) -> Loss:
        """The joint guarantee for neighbours: the largest loss."""
        if not self.space.pairs:
            raise Refused(
                "No two data sets of the class are neighbours, so any guarantee would hold.",
                allowed="a class with neighbours",
                instead="Space.of(databases, neighbours), with more data sets",
            )
        first, second = np.array(self.space.pairs).T
        apart = np.unique(
            np.stack([distances[first, second] for distances in self._distances], axis=1), axis=0
        )
        return self._kind.made(largest([self._at(row) for row in apart.tolist()], self._width))

    @property
    def _width(self) -> int:
        return len(self._charges[0])

    def _at(self, distances: Sequence[float]) -> Charges:
        grown = [
            self._kind.at(charges, far)
            for charges, far in zip(self._charges, distances, strict=True)
        ]
        return added(grown, self._width)


def together(space: Space, parts: Iterable[Part], kind: NumberKind = "pure") -> Together:
    """Return the joint losses of mechanisms that read parts of a data set, in any order and adaptively.

    Guarantees are all of one kind; plain numbers are ε, or ρ or μ by their `kind`.

    >>> from pufferflow.granularity import unbounded
    >>> tables = Space.of(["", "a", "b", "aa", "ab", "bb"], unbounded)
    >>> parts = [Part(lambda table: table.replace("b", ""), 0.3), Part(lambda table: table.replace("a", ""), 0.7)]
    >>> found = together(tables, parts)
    >>> found.promise, found.loss("aa", "ab")
    (0.7, 1.0)
    """
    listed = list(parts) if isinstance(parts, Iterable) else [parts]  # pyright: ignore[reportUnnecessaryIsInstance]
    for part in listed:
        instead = "Part(lambda table: …, pf.Pure(0.5))"
        instance(
            part,
            Part,
            "A part",
            allowed="what a mechanism reads, and its guarantee",
            instead=instead,
        )
    return Together(_space(space), listed, kind)


def compatible(space: Space, reads: Iterable[Reading]) -> bool:
    """Return whether neighbours of a class never differ in more than one of the parts (GRAN IV-C).

    If so, mechanisms that each read one part, and are private for it, together keep their largest ε (GRAN IV.6).

    >>> from pufferflow.granularity import free_lunch, in_place
    >>> tables, ends = ["aa", "ab", "ba", "bb"], [lambda table: table[0], lambda table: table[1]]
    >>> compatible(Space.of(tables, in_place), ends), compatible(Space.of(tables, free_lunch), ends)
    (True, False)
    """
    databases = _space(space).databases
    parts = [[read(database) for database in databases] for read in reads]
    return all(sum(part[one] != part[other] for part in parts) <= 1 for one, other in space.pairs)


def _space(given: object) -> Space:
    instead = "Space.of(databases, pf.granularity.unbounded)"
    return instance(
        given, Space, "The space", allowed="a class of data sets with its metric", instead=instead
    )


def _distances(space: Space, part: Part) -> Floats:
    """Return the distances at which the guarantee of a part is taken, between any two data sets of a class."""
    read = [part.reads(database) for database in space.databases]
    if part.space is not None:
        places = np.array([part.space.place(one) for one in read])
        return part.space.distances[np.ix_(places, places)]
    try:
        number = {one: place for place, one in enumerate(dict.fromkeys(read))}
    except TypeError:
        raise UsageError(
            "A part cannot be hashed.",
            allowed="parts that can be compared and hashed, such as tuples",
            instead="lambda table: tuple(sorted(…))",
        ) from None
    which = np.array([number[one] for one in read])
    closest = np.full((len(number), len(number)), np.inf)
    np.minimum.at(closest, cast(Any, np.ix_(which, which)), space.distances)
    return closest[np.ix_(which, which)]
