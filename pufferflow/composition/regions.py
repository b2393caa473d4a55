"""The region of rows that a release selects, from filters on literal values, and the releases that share a row.

Two releases that provably share no row need not be added up (M27). If it is not provable, they count as sharing a row:
sets of releases are never too small.

A column is one coordinate for each kind of value that its regions have, since values of different kinds are not
compared. Along a coordinate only finitely many points differ; the releases at each are split along the next one.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import msgspec
from msgspec.structs import force_setattr

from pufferflow.errors import UsageError

MOST_LISTED = 5_000_000
"""The most members of all sets together; beyond that sets are joined."""
_MOST_COMPARED = 20_000_000
Value = str | int | float | bool | None
Key = tuple[Any, int]
"""A position on a line of values: (v, 0) is v itself, (v, −1) and (v, 1) are just below and just above it."""
Members = tuple[int, ...]


@final
class Region(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The values of one public column in selected rows, by filters: one of some `labels`, or a range.

    Values are those that the column compares: the caller rounds literals to the column's type, and writes dates and
    moments as nanoseconds since 1970. An end that is None is unbounded, NaN included. Null is a label and in no range.
    Values of different kinds are not comparable, so their regions overlap.

    >>> Region("number", labels=(1, 2)).meets(Region("number", labels=(3,)))
    False
    >>> Region("number", low=2, low_open=True).meets(Region("number", labels=(1, 2.0)))
    False
    """

    KINDS: ClassVar[dict[str, type | tuple[type, ...]]] = {
        "number": (int, float),
        "text": str,
        "bool": bool,
        "date": int,
        "moment": int,
        "local": int,
    }

    kind: str
    labels: tuple[Value, ...] | None = None
    low: str | int | float | None = None
    high: str | int | float | None = None
    low_open: bool = False
    high_open: bool = False

    def __post_init__(self) -> None:
        if self.kind not in self.KINDS or (self.labels is not None and (self.low is not None or self.high is not None)):
            raise _bad("is of no known kind, or has both labels and ends")
        force_setattr(self, "low", self._read(self.low))
        force_setattr(self, "high", self._read(self.high))
        if self.labels is not None:
            ordered: list[Any] = list(dict.fromkeys(self._read(label) for label in self.labels))
            if len(ordered) > 1:
                ordered.sort(key=lambda label: (label is not None, label if label is not None else 0))
            force_setattr(self, "labels", tuple(ordered))

    def _read(self, value: Value) -> Any:
        """Return a value, a whole number as an integer, so that equal regions are stored in the same way."""
        if value is None:
            return None
        if not isinstance(value, self.KINDS[self.kind]) or (isinstance(value, bool) and self.kind != "bool"):
            raise _bad("has a value of another kind")
        if not isinstance(value, float):
            return value
        if not math.isfinite(value):
            raise _bad("has a number that is not finite")
        return int(value) if value.is_integer() else value

    @property
    def empty(self) -> bool:
        """Whether the region is empty."""
        return not self.labels if self.labels is not None else self.start is not None and self._beyond(self.start)

    @property
    def start(self) -> Key | None:
        """The position where the range begins; None if it is unbounded."""
        return None if self.low is None else (self.low, 1 if self.low_open else 0)

    @property
    def end(self) -> Key | None:
        """The position where the range ends; None if it is unbounded."""
        return None if self.high is None else (self.high, -1 if self.high_open else 0)

    def _beyond(self, key: Key) -> bool:
        end = self.end
        return end is not None and key > end

    def holds(self, label: Value) -> bool:
        """Return whether a value of the same kind is in the region."""
        if self.labels is not None:
            return label in self.labels
        key = (label, 0)
        return label is not None and (self.start is None or key >= self.start) and not self._beyond(key)

    def meets(self, other: "Region") -> bool:
        """Return whether a value may be in both; false only if that is certain."""
        return not (self.empty or other.empty or self.both(other).empty)

    def both(self, other: "Region") -> "Region":
        """Return the intersection; of different kinds the first region, which contains it."""
        if self.kind != other.kind:
            return self
        for one, another in ((self, other), (other, self)):
            if one.labels is not None:
                return Region(self.kind, labels=tuple(label for label in one.labels if another.holds(label)))
        lows = [(one.low, one.low_open) for one in (self, other) if one.low is not None]
        highs = [(one.high, not one.high_open) for one in (self, other) if one.high is not None]
        low, low_open = max(lows, default=(None, False))
        high, closed = min(highs, default=(None, True))
        return Region(self.kind, low=low, high=high, low_open=low_open, high_open=not closed)


def overlapping(costs: Sequence[Mapping[str, Region]], columns: Iterable[str]) -> list[list[int]]:
    """Return the places of releases that may touch one row (or unit), by their regions: all maximal sets of them.

    Every set of releases with a common point is contained in one of these. If there are too many sets, some are joined.

    >>> days = [{"day": Region("number", labels=(day,))} for day in (1, 2, 1)]
    >>> overlapping([*days, {}], ["day"])
    [[0, 2, 3], [1, 3]]
    """
    names = tuple([name for name in dict.fromkeys(columns) if any(name in regions for regions in costs)])
    quick = _single(costs, names[0]) if len(names) == 1 else None
    if quick is not None:
        return quick
    places: dict[tuple[Region | None, ...], list[int]] = {}
    anywhere: tuple[Region | None, ...] = (None,) * len(names)
    for place, regions in enumerate(costs):
        box = tuple([regions.get(name) for name in names]) if regions else anywhere
        places.setdefault(box, []).append(place)
    boxes, members = list(places), list(places.values())
    nowhere = [at for at, box in enumerate(boxes) if any(region is not None and region.empty for region in box)]
    sets = maximal(Overlaps.of(boxes, [*map(len, members)], nowhere).sets()) if len(nowhere) < len(boxes) else []
    return sorted(sorted(place for at in some for place in members[at]) for some in [*sets, *([at] for at in nowhere)])


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
    return sorted(sorted(free + some) for some in labelled.values()) if free else list(labelled.values())


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
    known: dict[tuple[int, Members], list[Members]] = field(default_factory=dict[tuple[int, Members], list[Members]])

    @classmethod
    def of(cls, boxes: Sequence[tuple[Region | None, ...]], sizes: Sequence[int], without: Sequence[int]) -> "Overlaps":
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
            sets = [tuple(sorted(free + some)) for some in self._at_points(placed, self._size(free))]
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


def _bad(what: str) -> UsageError:
    return UsageError(
        f"A region {what}.",
        allowed=f"finite values of one of the kinds {', '.join(Region.KINDS)}, as labels or as the ends of a range",
        instead='Region("number", labels=(1, 2)), or Region("number", low=0, high=10)',
    )
