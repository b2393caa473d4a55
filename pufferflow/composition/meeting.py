"""Boxes of regions and all maximal sets of them with a common point: no set is ever smaller than the truth.

A column is one coordinate for each kind of value that its regions have, since those of different kinds say nothing of
each other. Along a coordinate only finitely many points differ; the boxes at each are split along the next one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, final

MOST_LISTED = 5_000_000
"""As many members sets may have together; beyond that they are joined."""
_MOST_COMPARED = 20_000_000


class Stretch(Protocol):
    """What a box says of one column."""

    @property
    def kind(self) -> str:
        """The kind of its values."""
        ...

    @property
    def labels(self) -> tuple[Any, ...] | None:
        """Its values, if they are listed."""
        ...

    @property
    def start(self) -> tuple[Any, int] | None:
        """Where its range begins, if it does."""
        ...

    @property
    def end(self) -> tuple[Any, int] | None:
        """Where its range ends, if it does."""
        ...


@final
class TooMany(Exception):
    """More sets than anybody would add up."""


@final
@dataclass(eq=False)
class Boxes:
    """Along each coordinate, what every box says of it: nothing, or a region that is not empty."""

    coordinates: list[dict[int, Stretch]]
    every: tuple[int, ...]
    sizes: Sequence[int]
    left: int = MOST_LISTED
    known: dict[tuple[int, tuple[int, ...]], list[tuple[int, ...]]] = field(
        default_factory=dict[tuple[int, tuple[int, ...]], list[tuple[int, ...]]]
    )

    @classmethod
    def of(cls, boxes: Sequence[tuple[Stretch | None, ...]], sizes: Sequence[int], without: Sequence[int] = ()) -> Self:
        """Return the boxes by coordinate, without some that are nowhere; each stands for so many as its size."""
        apart: dict[tuple[int, str], dict[int, Stretch]] = {}
        nowhere = set(without)
        for at, box in enumerate(boxes):
            if at not in nowhere:
                for column, region in enumerate(box):
                    if region is not None:
                        apart.setdefault((column, region.kind), {})[at] = region
        every = tuple([at for at in range(len(boxes)) if at not in nowhere])
        return cls([apart[key] for key in sorted(apart)], every, sizes)

    def sets(self) -> list[tuple[int, ...]]:
        """Return sets that cover every set of boxes with a common point, each in rising order."""
        return self._split(self.every, 0)

    def _split(self, members: tuple[int, ...], coordinate: int) -> list[tuple[int, ...]]:
        """Split boxes along a coordinate and those after it."""
        if coordinate == len(self.coordinates) or len(members) == 1:
            return [members]
        key = coordinate, members
        if key not in self.known:
            points = self._points(members, coordinate)
            following = coordinate + 1 < len(self.coordinates)
            self.known[key] = (
                [one for some in points for one in self._split(some, coordinate + 1)] if following else points
            )
        self.left -= len(self.known[key])
        return self.known[key] if self.left >= 0 else [members]

    def _points(self, members: tuple[int, ...], coordinate: int) -> list[tuple[int, ...]]:
        """Return the boxes at each point that differs; all together, which is safe, where that would take too long."""
        regions = self.coordinates[coordinate]
        placed = {at: regions[at] for at in members if at in regions}
        if not placed:
            return [members]
        free = [at for at in members if at not in placed]
        try:
            sets = [tuple(sorted(free + some)) for some in self._at_points(placed, self._size(free))]
        except TooMany:
            return [members]
        return maximal(sets, len(free))

    def _size(self, some: Sequence[int]) -> int:
        return sum([self.sizes[at] for at in some])

    def _at_points(self, placed: dict[int, Stretch], free: int) -> Iterator[list[int]]:
        labelled: dict[Any, list[int]] = {}
        for at, region in placed.items():
            for label in region.labels or ():
                labelled.setdefault(label, []).append(at)
        ranges = {at: region for at, region in placed.items() if region.labels is None}
        missing = labelled.pop(None, None)  # null, which has no place among the others
        if missing is not None:
            yield missing
        for some in _swept(ranges, labelled) if ranges else labelled.values():
            self.left -= self._size(some) + free
            if self.left < 0:
                raise TooMany
            yield some


def _swept(ranges: dict[int, Stretch], labelled: dict[Any, list[int]]) -> Iterator[list[int]]:
    """Yield who is there wherever somebody leaves after somebody came: nowhere are more."""
    active: set[int] = {at for at, region in ranges.items() if region.start is None}
    events = [((label, 0), leaves, at) for label, some in labelled.items() for at in some for leaves in (0, 1)]
    for at, region in ranges.items():
        events += [(region.start, 0, at)] if region.start is not None else []
        events += [(region.end, 1, at)] if region.end is not None else []
    events.sort()
    came = bool(active)
    for _, leaves, at in events:
        if leaves and came:
            yield list(active)
        came = not leaves
        (active.discard if leaves else active.add)(at)
    if active:
        yield list(active)


def maximal(sets: Sequence[tuple[int, ...]], common: int = 0) -> list[tuple[int, ...]]:
    """Return the sets that are in no other one, each once; all of them where finding out would take too long.

    They have at least so many members in `common`.

    >>> maximal([(1, 2), (2,), (1, 2), (3,)])
    [(1, 2), (3,)]
    """
    if sum(map(len, sets)) - common * (len(sets) - 1) == len({at for some in sets for at in some}):
        return list(sets)  # nothing else is shared, so each has something of its own
    distinct = sorted(dict.fromkeys(sets), key=len, reverse=True)
    kept: list[frozenset[int]] = []
    found: list[tuple[int, ...]] = []
    holding: dict[int, list[int]] = {}
    nothing: list[int] = []
    left = _MOST_COMPARED
    for some in distinct:
        rivals = min([holding.get(at, nothing) for at in some], key=len)
        left -= len(rivals)
        if left > 0 and any(kept[rival].issuperset(some) for rival in rivals):
            continue
        for at in some:
            holding.setdefault(at, []).append(len(kept))
        kept.append(frozenset(some))
        found.append(some)
    return found
