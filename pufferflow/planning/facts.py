"""Public facts that noise and cost rest on: read when planning, and compared with the source when releasing.

Noise is made for the patterns of correlated groups, or for what covers them; a cost says where their rows stand,
between which first and last row of all, and on whose clock. So a digest of exactly these is compared, and of the keys
of the answer where they are those of the rows. How many groups have a pattern is not in it: a further group of a known
pattern loses as much as those that were there. Nothing is read, and so nothing is compared, where rows tell nothing of
each other, and under `Presence`, where patterns are private.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
import polars as pl

from pufferflow.arrays import Floats
from pufferflow.bounds import Laws, SeveralLaws
from pufferflow.engine import NO_FILES, PLACED, UNORDERED, WIDE, Order, Pattern, Patterns, Snapshot, Tally
from pufferflow.errors import Misuse, Refused, SourceFailed
from pufferflow.inference import ShortestMovement, of_pattern, window
from pufferflow.planning.tables import Tables
from pufferflow.queries import Request
from pufferflow.scenario import AnySecret, Initial, Presence, Scenario
from pufferflow.scenario.priors import AnyCorrelation, Prior

ONE_ROW = Pattern(np.zeros(1, dtype=np.intp), np.ones(1, dtype=np.intp), np.zeros(1))


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
        engine, selection = request.engine, request.selection
        snapshot = engine.snapshot()
        keys = engine.tally(selection).keys if self.with_keys else None
        patterns = engine.patterns(selection, request.scenario, self.orders)
        current = SourceDigest.of(patterns, keys, snapshot)
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


@final
class PublicFacts:
    """The public facts behind a request, as far as planning needs them; all orders of rows are read at once."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self._orders = () if isinstance(request.scenario.secret, Presence) else _orders_of(request.scenario)
        self._snapshot = request.engine.snapshot() if request.counts_are_public else NO_FILES

    @cached_property
    def cells(self) -> Tally:
        """The keys of the answer in their order, and how many rows each cell has (0 where that is private)."""
        request = self.request
        if not request.counts_are_public:
            rows = np.zeros(1 if request.keys is None else request.keys.height, dtype=np.int64)
            return Tally(request.keys, rows, np.zeros((len(rows), 0), dtype=np.int64))
        known = [] if request.by else [one for one in self._patterns.values() if isinstance(one, Patterns)]
        if known:
            return Tally(None, np.array([known[0].selected]), np.zeros((1, 0), dtype=np.int64))
        return request.engine.tally(request.selection)

    @property
    def size(self) -> Floats | None:
        """How many rows each cell has; None where that is private."""
        return self.cells.rows.astype(np.float64) if self.request.counts_are_public else None

    def patterns(self, prior: Prior) -> Patterns:
        """Return the patterns of the groups whose rows may depend on each other, as far as they matter to a prior."""
        request, scenario = self.request, self.request.scenario
        if isinstance(scenario.secret, Presence):
            if isinstance(prior, AnyCorrelation) and scenario.within != (scenario.secret.within,):
                raise _more_may_leave(scenario.secret.within, scenario.within)
            return Patterns((_present(scenario.secret),), 1)
        order = _order_of(prior, scenario.secret)
        if not prior.independent_rows and order == PLACED and not scenario.start_known:
            raise Misuse(
                "The prior or the secret speaks of the beginning of sequences, and it is not known when they began.",
                allowed="a scenario with the start of all sequences",
                instead='pf.Scenario(..., start="2026-01-01")',
            )
        if self._orders:
            _ = self.cells  # at the same moment
        if prior.independent_rows:
            return Patterns((ONE_ROW,), 1)
        if order not in self._patterns:  # explanations, of rows that all priors hold to be independent
            self._patterns |= request.engine.patterns(request.selection, scenario, [order])
        found = self._patterns[order]
        if isinstance(found, Misuse):
            raise found
        return found

    def windows(self, prior: Prior, secret: AnySecret) -> tuple[Pattern, ...]:
        """Return the patterns without the rows that cost no more than others, each once; one row if there is none."""
        found = self.patterns(prior).distinct or (ONE_ROW,)
        shorter = [window(prior, secret, pattern) for pattern in found]
        if all(one is pattern for one, pattern in zip(shorter, found, strict=True)):
            return tuple(found)
        return tuple({_looks(prior, one): one for one in reversed(shorter)}.values())[::-1]

    @property
    def placed(self) -> Patterns | None:
        """The patterns of groups where they stand in time; None where that cannot be told of all of them."""
        found = self._patterns.get(PLACED)
        return None if isinstance(found, Misuse) else found  # too many steps, or rows before all time

    @property
    def digest(self) -> SourceDigest:
        """What noise and cost rest on, to be compared with the source at a release."""
        orders, request = list(self._orders), self.request
        if isinstance(self._patterns.get(PLACED), Misuse) and UNORDERED in self._patterns:
            orders.append(UNORDERED)  # of which the cost is made then
        compared = {order: self._patterns[order] for order in orders}
        keys = self.cells.keys if orders and request.by and request.keys is None else None
        return SourceDigest.of(compared, keys, self._snapshot)

    @cached_property
    def _patterns(self) -> dict[Order, Patterns | Misuse]:
        """The patterns in all orders that matter; with places also those without order, which follow from them."""
        request, orders = self.request, self._orders
        if not orders:
            return {}
        if PLACED in orders and not isinstance(request.scenario.secret, Initial):
            orders = tuple(dict.fromkeys((*orders, UNORDERED)))
        return request.engine.patterns(request.selection, request.scenario, orders)

    def laws(self, ways: Sequence[Sequence[Tables]], weights: Floats) -> Laws:
        """Return the laws of the weighted sums under all priors and patterns, by the shortest of each prior's ways.

        If no row is asked about at all, noise is made for one row: empty answers are as noisy as others.
        """
        pieces: list[Laws] = []
        for of_prior in ways:
            patterns = self.windows(of_prior[0].prior, of_prior[0].secret)
            for pattern in patterns:
                found = [self._of_pattern(one, pattern, weights, len(patterns)) for one in of_prior]
                pieces.append(found[0] if len(found) == 1 and of_prior[0].exact else ShortestMovement(found))
        return SeveralLaws(pieces)

    def laws_on(self, patterns: Sequence[Pattern], one: Tables, weights: Floats) -> Laws:
        """Return the laws of the weighted sums on some patterns, seen in one way."""
        return SeveralLaws(
            [self._of_pattern(one, pattern, weights, len(patterns)) for pattern in patterns or (ONE_ROW,)]
        )

    def _of_pattern(self, one: Tables, pattern: Pattern, weights: Floats, patterns: int) -> Laws:
        if one.apart:
            pattern = replace(pattern, covers=True)  # which adds up movements of either sign
        values = one.values
        if not isinstance(one.secret, Presence):
            values = values - values.min(axis=1, keepdims=True)  # only differences matter, and small numbers are exact
        scaled = values * weights[:, None]  # exact: whole steps times short binary fractions
        rounding = None if one.rounding is None else one.rounding * weights
        keys, column = self.request.keys, self.request.column
        cells = 1 if not self.request.by else None if keys is None else keys.height
        return of_pattern(one.prior, one.secret, pattern, scaled, column, rounding, cells=cells, patterns=patterns)


def _orders_of(scenario: Scenario) -> tuple[Order, ...]:
    """Return in which orders the priors and the secret of a scenario look at rows."""
    found = [_order_of(prior, scenario.secret) for prior in scenario.priors if not prior.independent_rows]
    placed = isinstance(scenario.secret, Initial) or any(prior.ordered for prior in scenario.priors)
    return tuple(dict.fromkeys([*found, PLACED] if placed else found))


def _order_of(prior: Prior, secret: AnySecret) -> Order:
    if isinstance(secret, Initial):
        return PLACED
    return Order(ordered=True, period=prior.repeats) if prior.ordered else Order(ordered=False)


def _looks(prior: Prior, pattern: Pattern) -> tuple[object, ...]:
    """Return what tells the laws of patterns apart: where a chain repeats from its start, phases instead of steps."""
    where, start = pattern.positions, pattern.start
    if where is not None and prior.repeats is not None:
        where, start = where - where[0] // prior.repeats * prior.repeats, 0.0
    return (
        pattern.cells.tobytes(),
        pattern.counts.tobytes(),
        where is not None and where.tobytes(),
        start,
        pattern.covers,
    )


def _more_may_leave(unit: str, within: Sequence[str]) -> Refused:
    """Return the error for units that may come and go with others of their group, of which nobody says how many."""
    together = ", ".join(map(repr, within))
    return Refused(
        f"Rows hang together within {together}, and the secret is whether the rows of one {unit!r} are there.",
        allowed=f"pf.AnyCorrelation() with within={unit!r}, or pf.Independent()",
        instead=f"pf.Presence({within[0]!r}, rows=...), which hides all that hangs together",
    )


def _present(secret: Presence) -> Pattern:
    """Return the pattern of a unit whose rows may be there or not: as many as it may have, in one cell, the worst."""
    if secret.rows is None:
        raise Misuse(
            f"How many rows one {secret.within!r} may have is private too, and no limit is declared.",
            allowed="the most rows of a unit that are read; others are left out",
            instead=f"pf.Presence({secret.within!r}, ..., rows=10)",
        )
    return Pattern(np.zeros(1, dtype=np.intp), np.array([secret.rows]))


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
