"""The cost of a release in numbers: all that composition reads of it, and nothing that depends on the data.

The exact sums that a release reads of rows that are draws from a table, and the outputs published in their place.

The exposures of a cost bound the loss whatever other rows are. The joint law of the answers needs more (M22, M31): the
number of rows, what a row adds, and the noise or the channel on the sum.
"""

import hashlib
import json
import math
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, final

import msgspec
import numpy as np
from msgspec.structs import force_setattr

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.models.priors.base import Prior
from pufferflow.noise.base import Noise
from pufferflow.privacy.by_name import StoredGuarantee

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
        if self.kind not in self.KINDS or (
            self.labels is not None and (self.low is not None or self.high is not None)
        ):
            raise _bad("is of no known kind, or has both labels and ends")
        force_setattr(self, "low", self._read(self.low))
        force_setattr(self, "high", self._read(self.high))
        if self.labels is not None:
            ordered: list[Any] = list(dict.fromkeys(self._read(label) for label in self.labels))
            if len(ordered) > 1:
                ordered.sort(
                    key=lambda label: (label is not None, label if label is not None else 0)
                )
            force_setattr(self, "labels", tuple(ordered))

    def _read(self, value: Value) -> Any:
        """Return a value, a whole number as an integer, so that equal regions are stored in the same way."""
        if value is None:
            return None
        if not isinstance(value, self.KINDS[self.kind]) or (
            isinstance(value, bool) and self.kind != "bool"
        ):
            raise _bad("has a value of another kind")
        if not isinstance(value, float):
            return value
        if not math.isfinite(value):
            raise _bad("has a number that is not finite")
        return int(value) if value.is_integer() else value

    @property
    def empty(self) -> bool:
        """Whether the region is empty."""
        return (
            not self.labels
            if self.labels is not None
            else self.start is not None and self._beyond(self.start)
        )

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
        return (
            label is not None
            and (self.start is None or key >= self.start)
            and not self._beyond(key)
        )

    def meets(self, other: "Region") -> bool:
        """Return whether a value may be in both; false only if that is certain."""
        return not (self.empty or other.empty or self.both(other).empty)

    def both(self, other: "Region") -> "Region":
        """Return the intersection; of different kinds the first region, which contains it."""
        if self.kind != other.kind:
            return self
        for one, another in ((self, other), (other, self)):
            if one.labels is not None:
                return Region(
                    self.kind, labels=tuple(label for label in one.labels if another.holds(label))
                )
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


class _Stored(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, dict=True
):
    """Base of the structs that ledgers store: plain values, and facts computed from them once."""


@final
class ExactSum(_Stored, frozen=True):
    """A sum over rows in whole steps, and what is published in its place."""

    terms: tuple[int, ...]
    """What a row adds at the points of the column's domain."""
    unit: str = "1"
    """The width of a step in the units of the answer: a rational number."""
    noise: dict[str, str | int | float] = {}
    """The noise on the steps; empty where a channel takes its place."""
    channel: str = ""
    """The channel that reads the answer, the steps times the unit; empty where noise is added."""

    @property
    def drawn_noise(self) -> Noise:
        """The noise on the steps."""
        return Noise.restored(self.noise)

    def answer(self, steps: int) -> int | float:
        """Return the answer of so many steps; a whole number where it is one.

        >>> ExactSum((0, 1), "1/2").answer(3), ExactSum((0, 1), "1/2").answer(4)
        (1.5, 2)
        """
        exact = steps * Fraction(self.unit)
        return int(exact) if exact.denominator == 1 else float(exact)


@final
class ExactSums(_Stored, frozen=True):
    """The sums of one release about the same rows."""

    rows: int
    """How many rows there are, a public number."""
    selection: str
    """A digest of how they are selected: filters, and columns made for them."""
    column: str | None
    """The column that is read; None if rows are only counted."""
    sums: tuple[ExactSum, ...]

    @property
    def same_rows(self) -> tuple[int, str]:
        """A key that releases about the same rows share."""
        return self.rows, self.selection

    @property
    def designed(self) -> bool:
        """Whether a channel takes the place of noise."""
        return any(one.channel for one in self.sums)


@final
class Answered(_Stored, frozen=True):
    """The outputs published in place of exact sums: a text for each.

    For noise it is the noisy sum in whole steps, a rational number; for a channel the place of its output. `exact_sums`
    is left out where the cost of the release has it.
    """

    outputs: tuple[str, ...]
    exact_sums: ExactSums | None = msgspec.field(default=None, name="asked")


Table = tuple[tuple[float, ...], ...]
Runs = tuple[tuple[int, int, int], ...]
"""Stretches (first, end, cell) of consecutive steps."""
_encoder = msgspec.json.Encoder(order="sorted")
COST_NAMES = {"offset": "shift", "steps_seen": "hull", "regions": "apart"}
"""The stored names of some fields of `Cost`."""
_SHAPE_NAMES = {
    "stored_noise": "noise",
    "independent_moves": "alone",
    "coupled_movements": "moved",
    "group_movement": "group",
    "exact_sums": "asked",
}


@final
class Part(_Stored, frozen=True):
    """Some of the groups: the scale of the least noise in their cells, and stretches (first, end) with their steps."""

    scale: float
    runs: tuple[tuple[int, int], ...]


@final
class Rows(_Stored, frozen=True):
    """The selected rows of any group."""

    selected: int = msgspec.field(name="asked")
    """The most selected rows of one group."""
    others: int = 0
    """The most further rows of one group."""
    runs: tuple[tuple[int, int, int], ...] | None = None
    """Stretches (first, end, cell) of consecutive steps, counted from the cost's `offset`; None without whole steps."""
    covers: bool = False
    """Whether groups differ: the runs are then the union over all groups, and cells may be any."""
    parts: tuple[Part, ...] = ()
    """All groups, each in one part, where cells have noise of their own: the shape's noise is then the least of it."""
    patterns: tuple[Runs, ...] = ()
    """The selected steps of every group, each once, with cells numbered as they come up; empty if unknown.

    Every such row adds its terms, without a weight, to the sums of its cell.
    """

    @property
    def all(self) -> int:
        """The most rows of one group."""
        return self.selected + self.others


@final
class Shape(_Stored, frozen=True, rename=_SHAPE_NAMES):
    """A cost without its position: the part that windows of one schedule share."""

    promise: StoredGuarantee
    setting: str
    """The digest of the scenario without its priors."""
    priors: tuple[str, ...]
    """The digests of the priors that the guarantee was made for."""
    stored_noise: dict[str, str | int | float]
    dimension: int
    values: Table | None = None
    """The terms of a row in each weighted sum at the points of a finite domain; None on an interval."""
    slopes: Table | None = None
    """Linear functions that stand for those on an interval, by their values at its ends."""
    rounding: tuple[float, ...] | None = None
    """How much farther a row moves each sum when its value is brought onto the grid."""
    unsigned: bool = False
    """Whether rows that move together may move a sum in opposite directions."""
    independent_moves: Table | None = None
    """How far a row on which no other depends moves each sum between two paired values of an interval."""
    coupled_movements: dict[str, float] = {}
    """By a prior's digest, how far all sums move under one coupling of whole data sets, in the noise's norm."""
    group_movement: float | None = None
    """How far all sums move if every row of a group may change."""
    row_movement: float | None = None
    """How far one row moves all sums, in the noise's norm, if all others are fixed; None if values say."""
    column: str | None = None
    rows: Rows | None = None
    """None where rows are independent."""
    row_by_row: bool = False
    """Whether each row is published through a channel of its own, whose pure loss the noise represents."""
    key_delta: float | None = None
    """The probability that a unit makes a key appear in the answer that only it has; None if keys are public."""
    exact_sums: ExactSums | None = None
    """The exact sum that a designed channel reads; the noise represents its loss, whatever other rows are."""

    kinds: tuple[tuple[int, ...], ...] = ()
    """Where rows are of several kinds, the sums that those of each kind move; a row moves no others of `values`."""

    @cached_property
    def noise(self) -> Noise:
        """The noise on every weighted sum."""
        return Noise.restored(self.stored_noise)

    @cached_property
    def digest(self) -> str:
        """A text that equal shapes share."""
        return hashlib.sha256(canonical(self)).hexdigest()

    @property
    def runs(self) -> tuple[tuple[int, int, int], ...]:
        """The stretches of selected steps, with their cells; none if unknown."""
        return () if self.rows is None or self.rows.runs is None else self.rows.runs

    @cached_property
    def window(self) -> tuple[float, float]:
        """The beginning of the first selected step, and the end of the last; (∞, −∞) if there is none."""
        ends = [end for _, end, _ in self.runs]
        return min((first for first, _, _ in self.runs), default=math.inf), max(
            ends, default=-math.inf
        )

    @cached_property
    def table(self) -> Floats:
        """`values` as an array, of shape (sums, points)."""
        return np.array(self.values, dtype=np.float64)

    @cached_property
    def exposure(self) -> Floats:
        """ℓ(e, f): the loss of the noisy sums about one row's value if all other rows are known (M20); rounded up."""
        return self.exposure_to(self.noise)

    def exposure_to(self, noise: Noise) -> Floats:
        """Return ℓ for another noise of the same weighted sums."""
        moves = np.abs(self.table[:, :, None] - self.table[:, None, :])
        with np.errstate(over="ignore"):
            losses = self.of_one_row(np.asarray(noise.pure(moves)))
        return losses * (1 + (len(self.table) + 1) * UNIT)

    def of_one_row(self, of_sums: Floats) -> Floats:
        """Return the loss of a row of any kind from what each sum reveals about it.

        It is the largest total of a kind's sums.
        """
        kinds = self.kinds or (tuple(range(len(of_sums))),)
        return np.max([of_sums[list(kind)].sum(axis=0) for kind in kinds], axis=0)


@final
class Cost(_Stored, frozen=True, rename=COST_NAMES):
    """The cost of one release: a shape and its position."""

    shape: Shape
    offset: int = 0
    """The step from which `shape.rows` counts."""
    steps_seen: tuple[int, int] | None = None
    """The first and the last step of all rows of the groups, selected or not."""
    start: float | None = None
    """The start of all sequences, if known."""
    regions: dict[str, Region] = {}
    """By column, the region of selected rows, as far as filters on literal values determine it."""
    clock: str = ""
    """How steps were counted; steps of different clocks are not compared."""
    answered: Answered | None = None
    """What was published, as far as the joint law of answers needs it; no entry of a ledger has it."""

    @property
    def window(self) -> tuple[float, float]:
        """The beginning of the first selected step, and the end of the last; (∞, −∞) if there is none."""
        low, high = self.shape.window
        return low + self.offset, high + self.offset

    def as_known_to(self, stored: "Cost") -> "Cost":
        """Return this cost with no more than a stored one says: older versions left out the rows of every group."""
        rows, known = self.shape.rows, stored.shape.rows
        if rows is None or known is None or known.patterns or not rows.patterns:
            return self
        fewer = msgspec.structs.replace(rows, patterns=())
        return msgspec.structs.replace(self, shape=msgspec.structs.replace(self.shape, rows=fewer))

    @property
    def selects_nothing(self) -> bool:
        """Whether no row is selected, so that answers are noise alone."""
        return self.shape.rows is not None and self.shape.rows.selected == 0


def canonical(value: msgspec.Struct) -> bytes:
    """Return a struct as JSON text that is the same in every process."""
    return _encoder.encode(value)


def digest_of(prior: Prior) -> str:
    """Return a short text that equal priors share."""
    text = json.dumps(prior.fingerprint(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
