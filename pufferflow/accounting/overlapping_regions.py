"""The releases that may touch one row, by the regions of rows that they select: all maximal sets of them.

Two releases that provably share no row need not be added up (M27). If it is not provable, they count as sharing a row:
sets of releases are never too small.

A column is one coordinate for each kind of value that its regions have, since values of different kinds are not
compared. Along a coordinate only finitely many points differ; the releases at each are split along the next one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from pufferflow.published.cost import Region, Value

MOST_LISTED = 5_000_000
"""The most members of all sets together; beyond that sets are joined."""
_MOST_COMPARED = 20_000_000
Members = tuple[int, ...]


def overlapping(costs: Sequence[Mapping[str, Region]], columns: Iterable[str]) -> list[list[int]]:
    """Return the places of releases that may touch one row (or unit), by their regions: all maximal sets of them.

    Every set of releases with a common point is contained in one of these. If there are too many sets, some are joined.

    >>> days = [{"day": Region("number", labels=(day,))} for day in (1, 2, 1)]
    >>> overlapping([*days, {}], ["day"])
    [[0, 2, 3], [1, 3]]
    """
    names = tuple(
        [name for name in dict.fromkeys(columns) if any(name in regions for regions in costs)]
    )
    quick = _single(costs, names[0]) if len(names) == 1 else None
    if quick is not None:
        return quick
    places: dict[tuple[Region | None, ...], list[int]] = {}
    anywhere: tuple[Region | None, ...] = (None,) * len(names)
    for place, regions in enumerate(costs):
        box = tuple([regions.get(name) for name in names]) if regions else anywhere
        places.setdefault(box, []).append(place)
    boxes, members = list(places), list(places.values())
    nowhere = [
        at
        for at, box in enumerate(boxes)
        if any(region is not None and region.empty for region in box)
    ]
    sets = (
        maximal(Overlaps.of(boxes, [*map(len, members)], nowhere).sets())
        if len(nowhere) < len(boxes)
        else []
    )
    return sorted(
        sorted(place for at in some for place in members[at])
        for some in [*sets, *([at] for at in nowhere)]
    )


def _single(costs: Sequence[Mapping[str, Region]], name: str) -> list[list[int]] | None:
    """Return the same if every region is one label of one kind: a set for each label. None for anything else."""
    labelled: dict[Value, list[int]] = {}
    kinds: set[str] = set()
    free: list[int] = []
    for place, regions in enumerate(costs):
        region = regions.get(name)
        if region is None:
            free.append(place)
            continue
        if region.labels is None or len(region.labels) != 1:
            return None
        kinds.add(region.kind)
        labelled.setdefault(region.labels[0], []).append(place)
    if len(kinds) != 1 or len(free) * len(labelled) > MOST_LISTED:
        return None
    return (
        sorted(sorted(free + some) for some in labelled.values())
        if free
        else list(labelled.values())
    )


class _TooMany(Exception):
    """The sets have more members together than the limit."""


@final
@dataclass(eq=False)
class Overlaps:
    """Boxes, each with a region or None for every coordinate, and flags for those that have a point."""

    coordinates: list[dict[int, Region]]
    boxes: Members
    sizes: Sequence[int]
    """The number of releases that each box stands for."""
    left: int = MOST_LISTED
    known: dict[tuple[int, Members], list[Members]] = field(
        default_factory=dict[tuple[int, Members], list[Members]]
    )

    @classmethod
    def of(
        cls,
        boxes: Sequence[tuple[Region | None, ...]],
        sizes: Sequence[int],
        without: Sequence[int],
    ) -> "Overlaps":
        """Split boxes into coordinates, without empty ones."""
        coordinates: dict[tuple[int, str], dict[int, Region]] = {}
        nowhere = set(without)
        inside = tuple([at for at in range(len(boxes)) if at not in nowhere])
        for at in inside:
            for column, region in enumerate(boxes[at]):
                if region is not None:
                    coordinates.setdefault((column, region.kind), {})[at] = region
        return cls([coordinates[key] for key in sorted(coordinates)], inside, sizes)

    def sets(self) -> list[Members]:
        """Return sets that cover every set of boxes with a common point, each in rising order."""
        return self._split(self.boxes, 0)

    def _split(self, members: Members, coordinate: int) -> list[Members]:
        """Split boxes along a coordinate and those after it."""
        if coordinate == len(self.coordinates) or len(members) == 1:
            return [members]
        key = coordinate, members
        if key not in self.known:
            sets = self._points(members, coordinate)
            if coordinate + 1 < len(self.coordinates):
                sets = [one for some in sets for one in self._split(some, coordinate + 1)]
            self.known[key] = sets
        self.left -= len(self.known[key])
        return self.known[key] if self.left >= 0 else [members]

    def _points(self, members: Members, coordinate: int) -> list[Members]:
        """Return the boxes at each point that differs; all together, which is safe, if that would take too long."""
        regions = self.coordinates[coordinate]
        placed = {at: regions[at] for at in members if at in regions}
        if not placed:
            return [members]
        free = [at for at in members if at not in placed]
        try:
            sets = [
                tuple(sorted(free + some)) for some in self._at_points(placed, self._size(free))
            ]
        except _TooMany:
            return [members]
        return maximal(sets, len(free))

    def _size(self, boxes: Sequence[int]) -> int:
        return sum([self.sizes[at] for at in boxes])

    def _at_points(self, placed: dict[int, Region], free: int) -> Iterator[list[int]]:
        labelled: dict[Any, list[int]] = {}
        for at, region in placed.items():
            for label in region.labels or ():
                labelled.setdefault(label, []).append(at)
        ranges = {at: region for at, region in placed.items() if region.labels is None}
        missing = labelled.pop(None, None)  # null, which has no place among the others
        if missing is not None:
            yield missing
        for some in _sweep(ranges, labelled) if ranges else labelled.values():
            self.left -= self._size(some) + free
            if self.left < 0:
                raise _TooMany
            yield some


def _sweep(ranges: dict[int, Region], labelled: dict[Any, list[int]]) -> Iterator[list[int]]:
    """Sweep the line and yield the active boxes before each end that follows a start, with every maximal set."""
    active: set[int] = {at for at, region in ranges.items() if region.start is None}
    events = [
        ((label, 0), leaves, at)
        for label, some in labelled.items()
        for at in some
        for leaves in (0, 1)
    ]
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


def maximal(sets: Sequence[Members], common: int = 0) -> list[Members]:
    """Return the sets that are contained in no other one, each once; all of them if the check would take too long.

    They have at least as many members as `common`.

    >>> maximal([(1, 2), (2,), (1, 2), (3,)])
    [(1, 2), (3,)]
    """
    if sum(map(len, sets)) - common * (len(sets) - 1) == len({at for some in sets for at in some}):
        return list(sets)  # nothing else is shared, so each has something of its own
    largest: list[frozenset[int]] = []
    listed: list[Members] = []
    holding: dict[int, list[int]] = {}
    left = _MOST_COMPARED
    for some in sorted(dict.fromkeys(sets), key=len, reverse=True):
        rivals = min([holding.get(at, ()) for at in some], key=len)
        left -= len(rivals)
        if left > 0 and any(largest[rival].issuperset(some) for rival in rivals):
            continue
        for at in some:
            holding.setdefault(at, []).append(len(largest))
        largest.append(frozenset(some))
        listed.append(some)
    return listed
