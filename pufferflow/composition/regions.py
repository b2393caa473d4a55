"""Which rows a release asks about, as far as filters on literal values tell, and which releases may meet in one row.

Two releases that provably share no row need not be added up (M27). What is not provable counts as shared, so sets of
releases are never smaller than the truth.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, final

import msgspec
from msgspec.structs import force_setattr

from pufferflow.composition.meeting import MOST_LISTED, Boxes, maximal
from pufferflow.errors import Misuse

Value = str | int | float | bool | None
Key = tuple[Any, int]
"""A place on a line of values: (v, 0) is v itself, (v, −1) and (v, 1) are just below and just above it."""


@final
class Region(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What filters say of one public column of the rows asked about: one of some `labels`, or a range.

    Values are those that the column compares: whoever makes a region rounds literals to the column's type, and writes
    dates and moments as nanoseconds since 1970. An end that is None is open to everything beyond, NaN included. Null is
    a label and in no range. Values of different kinds have nothing to say of each other, so their regions meet.

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
            labels = dict.fromkeys(self._read(label) for label in self.labels)
            ordered: list[Any] = list(labels)
            if len(ordered) > 1:
                ordered.sort(key=lambda label: (label is not None, label if label is not None else 0))
            force_setattr(self, "labels", tuple(ordered))

    def _read(self, value: Value) -> Any:
        """Return a value; a float that is a whole number becomes one, so that equal regions are stored alike."""
        if value is None:
            return None
        if not isinstance(value, self.KINDS[self.kind]) or (isinstance(value, bool) and self.kind != "bool"):
            raise _bad("has a value of another kind")
        if isinstance(value, float):
            if not math.isfinite(value):
                raise _bad("has a number that is not finite")
            return int(value) if value.is_integer() else value
        return value

    @property
    def empty(self) -> bool:
        """Whether no value at all is meant."""
        return not self.labels if self.labels is not None else self.start is not None and self._beyond(self.start)

    @property
    def start(self) -> Key | None:
        """Where the range begins; None if nowhere."""
        return None if self.low is None else (self.low, 1 if self.low_open else 0)

    @property
    def end(self) -> Key | None:
        """Where the range ends; None if nowhere."""
        return None if self.high is None else (self.high, -1 if self.high_open else 0)

    def _beyond(self, key: Key) -> bool:
        end = self.end
        return end is not None and key > end

    def holds(self, label: Value) -> bool:
        """Say whether a value of the same kind is in the region."""
        if self.labels is not None:
            return label in self.labels
        if label is None:
            return False
        key = (label, 0)
        return (self.start is None or key >= self.start) and not self._beyond(key)

    def meets(self, other: "Region") -> bool:
        """Say whether a value may be in both; no only if that is certain."""
        return not (self.empty or other.empty or self.both(other).empty)

    def both(self, other: "Region") -> "Region":
        """Return what is in both; of different kinds the first, which is no smaller than that."""
        if self.kind != other.kind:
            return self
        for one, another in ((self, other), (other, self)):
            if one.labels is not None:
                return Region(self.kind, labels=tuple(label for label in one.labels if another.holds(label)))
        low, low_open = max(
            ((one.low, one.low_open) for one in (self, other) if one.low is not None), default=(None, False)
        )
        high, closed = min(
            ((one.high, not one.high_open) for one in (self, other) if one.high is not None), default=(None, True)
        )
        return Region(self.kind, low=low, high=high, low_open=low_open, high_open=not closed)


class Placed(Protocol):
    """What lies somewhere: by column, where."""

    @property
    def apart(self) -> Mapping[str, Region]:
        """The regions of the columns that a filter names; other columns may have any value."""
        ...


def overlapping(costs: Sequence[Placed], columns: Iterable[str]) -> list[list[int]]:
    """Return the places of costs that may touch one row (or unit), by these columns: all maximal sets of them.

    Every set of costs with a common point is in one of these. Where there are too many sets, some are joined.

    >>> from pufferflow.composition.cost import Cost
    >>> from types import SimpleNamespace
    >>> days = [SimpleNamespace(apart={"day": Region("number", labels=(day,))}) for day in (1, 2, 1)]
    >>> overlapping([*days, SimpleNamespace(apart={})], ["day"])
    [[0, 2, 3], [1, 3]]
    """
    names = tuple([name for name in dict.fromkeys(columns) if any(name in cost.apart for cost in costs)])
    quick = _single(costs, names[0]) if len(names) == 1 else None
    if quick is not None:
        return quick
    places: dict[tuple[Region | None, ...], list[int]] = {}
    anywhere: tuple[Region | None, ...] = (None,) * len(names)
    for place, cost in enumerate(costs):
        apart = cost.apart
        box = tuple([apart.get(name) for name in names]) if apart else anywhere
        places.setdefault(box, []).append(place)
    boxes, members = list(places), list(places.values())
    nowhere = [at for at, box in enumerate(boxes) if any(region is not None and region.empty for region in box)]
    sets = maximal(Boxes.of(boxes, [*map(len, members)], nowhere).sets()) if len(nowhere) < len(boxes) else []
    found = [sorted(place for at in some for place in members[at]) for some in [*sets, *([at] for at in nowhere)]]
    return sorted(found)


def _single(costs: Sequence[Placed], name: str) -> list[list[int]] | None:
    """Return the same where every region is one label of one kind: a set for each label. None for anything else."""
    labelled: dict[Value, list[int]] = {}
    kinds: set[str] = set()
    free: list[int] = []
    for place, cost in enumerate(costs):
        region = cost.apart.get(name)
        if region is None:
            free.append(place)
            continue
        labels = region.labels
        if labels is None or len(labels) != 1:
            return None
        kinds.add(region.kind)
        labelled.setdefault(labels[0], []).append(place)
    if len(kinds) != 1 or len(free) * len(labelled) > MOST_LISTED:
        return None
    return sorted(sorted(free + some) for some in labelled.values()) if free else list(labelled.values())


def _bad(what: str) -> Misuse:
    return Misuse(
        f"A region {what}.",
        allowed=f"finite values of one of the kinds {', '.join(Region.KINDS)}, as labels or as the ends of a range",
        instead='Region("number", labels=(1, 2)), or Region("number", low=0, high=10)',
    )
