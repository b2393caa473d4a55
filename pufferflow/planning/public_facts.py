"""The public facts that noise and cost rest on: read when planning, and compared with the source when releasing.

Noise is made for the patterns of correlated groups, or for what covers them; a cost says where their rows stand,
between which first and last row of all, and on whose clock. So a digest of exactly these is compared, and of the keys
of the answer where they are those of the rows. How many groups have a pattern is not in it: a further group of a known
pattern loses as much as those that were there. Nothing is read, and so nothing is compared, where rows tell nothing of
each other, and under `Presence`, where patterns are private.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import polars as pl

from pufferflow.engine import WIDE, Order, Patterns, Snapshot, Tally, collect, find_patterns, tally
from pufferflow.errors import Misuse, SourceFailed
from pufferflow.expressions import named
from pufferflow.guarded import guarded
from pufferflow.queries import Pattern, Request


@final
@dataclass(frozen=True)
class SourceDigest:
    """What was found of the rows in some `orders`, as a digest, and when; it is kept in memory only."""

    orders: tuple[Order, ...]
    with_keys: bool
    """Whether the keys of the answer were found too."""
    digest: str
    selected: int | None
    """How many rows were asked about; None if nothing was read."""
    snapshot: Snapshot

    @classmethod
    def of(
        cls, patterns: Mapping[Order, Patterns | Misuse], keys: pl.DataFrame | None, snapshot: Snapshot
    ) -> "SourceDigest":
        """Return the facts of patterns and keys that were read not before a snapshot was taken."""
        parts = [f"{order!r} {_digest_of_patterns(patterns[order])}" for order in sorted(patterns, key=repr)]
        digest = hashlib.sha256("\n".join([*parts, "" if keys is None else _digest_of_keys(keys)]).encode())
        selected = next((one.selected for one in patterns.values() if isinstance(one, Patterns)), None)
        return cls(tuple(patterns), keys is not None, digest.hexdigest(), selected, snapshot)

    def confirmed(self, request: Request) -> "SourceDigest":
        """Return the same facts as of now; refuse a source that has others by now."""
        if self.snapshot.outdated:
            raise SourceFailed(
                "A file was written anew, or is gone, since the source was planned with. Nothing was released.",
                allowed="files that stay as they are between plan and release",
                instead="scanning the files again, such as pl.scan_parquet(…), and another plan",
            )
        if not self.orders or self.snapshot.holds:
            return self
        snapshot = Snapshot.of(request.frame)
        keys = read_cells(request).keys if self.with_keys else None
        current = SourceDigest.of(read_patterns(request, self.orders), keys, snapshot)
        if current.digest != self.digest:
            raise changed_source()
        return current


def changed_source() -> SourceFailed:
    """Return the error for rows that noise and cost were not made for."""
    return SourceFailed(
        "The source has other rows than when it was planned with: noise was made for those. Nothing was released.",
        allowed="a source whose groups, their rows in time, and keys stay as they are between plan and release",
        instead="planning again, batch.plan(…), and releasing that plan",
    )


def read_patterns(request: Request, orders: Collection[Order]) -> dict[Order, Patterns | Misuse]:
    """Return the patterns of the groups for each order; a query on public columns."""
    frame, asked = request.public_rows()
    return guarded(lambda: find_patterns(frame, request.scenario, request.by, asked, orders, _collect))


def read_cells(request: Request) -> Tally:
    """Return the keys of the answer in their order, and how many rows each cell has: a query on public columns."""
    frame = request.private_rows().select(named(name) for name in request.public)
    if not request.public:  # a choice of no columns would have no rows
        frame, asked = request.public_rows()
        frame = frame if asked is None else frame.filter(named(asked))
    return guarded(lambda: tally(frame, request.by, request.keys, [], _collect))


def _collect(frame: pl.LazyFrame) -> pl.DataFrame:
    return collect(frame, "reading public columns")


def _digest_of_patterns(patterns: Patterns | Misuse) -> str:
    """Return a text that the same distinct patterns share, in whatever order, and however many groups have each."""
    if isinstance(patterns, Misuse):
        return "none"
    kinds = sorted(_digest_of_pattern(pattern) for pattern in patterns.distinct)
    return repr((patterns.reach, patterns.clock, kinds))


def _digest_of_pattern(pattern: Pattern) -> str:
    positions = np.zeros(0) if pattern.positions is None else pattern.positions + 0.0  # −0.0 is 0.0
    digest = hashlib.sha256(repr((len(pattern.cells), len(positions), pattern.start + 0.0, pattern.covers)).encode())
    for values, dtype in ((pattern.cells, "<i8"), (pattern.counts, "<i8"), (positions, "<f8")):
        digest.update(np.ascontiguousarray(values, dtype=dtype).data)
    return digest.hexdigest()


def _digest_of_keys(keys: pl.DataFrame) -> str:
    digest = hashlib.sha256(repr(keys.shape).encode())
    for column in keys:
        digest.update(f"\n{column.name!r} {column.dtype!r}\n".encode())
        for part in _canonical_bytes(column):
            digest.update(part)
    return digest.hexdigest()


def _canonical_bytes(column: pl.Series) -> list[Any]:
    """Return bytes that equal columns of one dtype share, and no others; in most dtypes without a Python value each."""
    if isinstance(column.dtype, pl.Enum):
        column = column.cast(pl.String)
    missing = column.is_null().to_numpy()
    if column.dtype == pl.String:
        text = column.fill_null("")
        lengths = text.str.len_bytes().to_numpy()
        return [missing.data, np.ascontiguousarray(lengths).data, "".join(text.to_list()).encode()]
    numbers = column.cast(pl.UInt8) if column.dtype == pl.Boolean else column.to_physical()
    if numbers.dtype.is_integer() and type(numbers.dtype) not in WIDE:
        return [missing.data, np.ascontiguousarray(numbers.fill_null(0).to_numpy()).data]
    return [repr(column.to_list()).encode()]
