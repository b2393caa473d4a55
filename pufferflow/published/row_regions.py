"""The region of rows that a release selects, from filters on literal values: part of its cost."""

import math
from typing import Any, ClassVar, final

import msgspec
from msgspec.structs import force_setattr

from pufferflow.core.errors import UsageError

Value = str | int | float | bool | None
Key = tuple[Any, int]
"""A position on a line of values: (v, 0) is v itself, (v, −1) and (v, 1) are just below and just above it."""


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


def _bad(what: str) -> UsageError:
    return UsageError(
        f"A region {what}.",
        allowed=f"finite values of one of the kinds {', '.join(Region.KINDS)}, as labels or as the ends of a range",
        instead='Region("number", labels=(1, 2)), or Region("number", low=0, high=10)',
    )
