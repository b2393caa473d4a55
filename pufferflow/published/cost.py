"""The cost of a release in numbers: all that composition reads of it, and nothing that depends on the data."""

import hashlib
import json
import math
from functools import cached_property
from typing import final

import msgspec
import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.rounding import UNIT
from pufferflow.models.priors.base import Prior
from pufferflow.noise.base import Noise
from pufferflow.privacy.by_name import StoredGuarantee
from pufferflow.published.exact_sums import Answered, ExactSums
from pufferflow.published.row_regions import Region

Table = tuple[tuple[float, ...], ...]
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


class _Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """Base of the structs that ledgers store: plain values, and facts computed from them once."""


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
        return min((first for first, _, _ in self.runs), default=math.inf), max(ends, default=-math.inf)

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
