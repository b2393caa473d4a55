"""What a release tells at most, in numbers: all that composition needs to know of it, and nothing of the data."""

import hashlib
import json
import math
from functools import cached_property
from typing import final

import msgspec
import numpy as np

from pufferflow.arrays import Floats
from pufferflow.composition.regions import Region
from pufferflow.guarantees import Approx, ApproxRenyi, Pure, Renyi, RenyiCurve
from pufferflow.noise import Noise
from pufferflow.rounding import UNIT
from pufferflow.scenario.priors import Prior

Table = tuple[tuple[float, ...], ...]
_encoder = msgspec.json.Encoder(order="sorted")
Promise = Pure | Approx | Renyi | RenyiCurve | ApproxRenyi


class _Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """Base of what ledgers keep: plain values, and facts worked out of them once."""


@final
class Rows(_Stored, frozen=True):
    """Which rows of a group are asked about, whatever group it is.

    `runs` are stretches (first, end, cell) of steps that follow each other, counted from the cost's `shift`; None where
    rows have no order, or no whole steps. No group has more rows that are `asked` about, nor more `others`. `covers`
    says that groups differ: the runs are those of all of them, and cells are open.
    """

    asked: int
    others: int = 0
    runs: tuple[tuple[int, int, int], ...] | None = None
    covers: bool = False


@final
class Shape(_Stored, frozen=True):
    """A cost without its place: what windows of one schedule have in common.

    `values` is what a row adds to each weighted sum at the points of a finite domain; on an interval, None. `slopes`
    stands for what depends on an interval (at its ends; a row brought onto the grid moves by `rounding` more; if
    `unsigned`, rows that move together may move a sum in opposite directions), `alone`
    for a row of which nothing else depends (how far each sum moves between two paired values). `moved` tells for
    priors, by their digests, how far all sums move together under one coupling of whole data sets, in the noise's norm;
    `group` if every row of a group may change. `setting` is the scenario but for its priors, which are those that the
    promise was made for.
    """

    promise: Promise
    setting: str
    priors: tuple[str, ...]
    stored_noise: dict[str, str | int | float] = msgspec.field(name="noise")
    dimension: int
    values: Table | None = None
    slopes: Table | None = None
    rounding: tuple[float, ...] | None = None
    unsigned: bool = False
    alone: Table | None = None
    moved: dict[str, float] = {}
    group: float | None = None
    column: str | None = None
    rows: Rows | None = None

    @cached_property
    def noise(self) -> Noise:
        """The noise on every weighted sum."""
        return Noise.restored(self.stored_noise)

    @cached_property
    def digest(self) -> str:
        """A text that equal shapes share."""
        return hashlib.sha256(canonical(self)).hexdigest()

    @cached_property
    def window(self) -> tuple[float, float]:
        """Where the first step begins that is asked about, and where the last one ends; nowhere if none is."""
        runs = (self.rows and self.rows.runs) or ()
        ends = [end for _, end, _ in runs]
        return min((first for first, _, _ in runs), default=math.inf), max(ends, default=-math.inf)

    @cached_property
    def table(self) -> Floats:
        """`values` as an array, of shape (sums, points)."""
        return np.array(self.values, dtype=np.float64)

    @cached_property
    def exposure(self) -> Floats:
        """ℓ(e, f): the most that noisy sums tell of one row's value, were the others known (M20); rounded up."""
        moves = np.abs(self.table[:, :, None] - self.table[:, None, :])
        with np.errstate(over="ignore"):
            losses = np.asarray(self.noise.pure(moves)).sum(axis=0)
        return losses * (1 + (len(self.table) + 1) * UNIT)


@final
class Cost(_Stored, frozen=True):
    """What one release tells: a shape and where it lies.

    Rows stand `shift` steps from where `shape.rows` counts, all rows of the groups between the steps of `hull`, and
    sequences began at `start`, if that is known; `clock` says how steps were counted. `apart` says by column which rows
    were asked about, as far as filters on literal values tell.
    """

    shape: Shape
    shift: int = 0
    hull: tuple[int, int] | None = None
    start: float | None = None
    apart: dict[str, Region] = {}
    clock: str = ""

    @property
    def silent(self) -> bool:
        """Whether no row is asked about, so that answers are noise alone."""
        return self.shape.rows is not None and self.shape.rows.asked == 0


def canonical(value: msgspec.Struct) -> bytes:
    """Return a struct as JSON text that is the same in every process."""
    return _encoder.encode(value)


def digest_of(prior: Prior) -> str:
    """Return a short text that equal priors share."""
    text = json.dumps(prior.fingerprint(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
