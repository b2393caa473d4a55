"""Public facts that noise and cost rest on: read when planning, and compared with the source when releasing.

Noise is made for the patterns of correlated groups, or for one pattern that covers them. A cost names the positions of
their rows, the first and last of all, and the clock. So a digest of exactly these is compared, and of the keys of the
answer where they are those of the rows. The number of groups of a pattern is not in it: a further group of a known
pattern loses as much as those before. An old digest is still valid if the files have the versions that they had before
they were read. It is also valid if all public columns of the rows have the same fingerprint as before. Nothing is read
or compared where rows are independent, and under `Presence`, where patterns are private.
"""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, cast, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import SourceError, UsageError
from pufferflow.engines.column_measures import WIDE
from pufferflow.models.priors.base import Prior
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import AnySecret, Initial, Presence
from pufferflow.queries.engine_interface import (
    BY_POSITION,
    NO_FILES,
    UNORDERED,
    CellGroups,
    GroupSize,
    Pattern,
    Patterns,
    PositionMode,
    Snapshot,
    Tally,
    changed_source,
)
from pufferflow.queries.request import Request
from pufferflow.queries.statistic import Query
from pufferflow.release.planning.public_weights import PublicWeights, selection_with_weights
from pufferflow.release.planning.selected_rows import ONE_ROW, more_may_leave, present
from pufferflow.release.planning.sum_functions import SumFunctions, Tables


def digest_of_facts(by_order: "Mapping[PositionMode, Patterns | UsageError]", *texts: str) -> str:
    """Return the digest of the patterns in each order, and of other texts; ledgers keep names that it is a part of."""
    patterns = (
        f"{order!r} {digest_of_patterns(by_order[order])}" for order in sorted(by_order, key=repr)
    )
    return hashlib.sha256("\n".join([*patterns, *texts]).encode()).hexdigest()


def digest_of_patterns(patterns: Patterns | UsageError) -> str:
    """Return a text that depends on the distinct patterns only, not on their order or the number of groups of each."""
    if isinstance(patterns, UsageError):
        return "none"
    kinds = sorted(_digest_of_pattern(pattern) for pattern in patterns.distinct)
    return repr((patterns.reach, patterns.clock, kinds))


def _digest_of_pattern(pattern: Pattern) -> str:
    positions, shares = (
        np.zeros(0) if one is None else one + 0.0 for one in (pattern.positions, pattern.shares)
    )
    digest = hashlib.sha256(
        repr((len(pattern.cells), len(positions), pattern.start + 0.0, pattern.covers)).encode()
    )
    for values, dtype in (
        (shares, "<f8"),
        (pattern.cells, "<i8"),
        (pattern.counts, "<i8"),
        (positions, "<f8"),
    ):
        digest.update(np.ascontiguousarray(values, dtype=dtype).data)
    return digest.hexdigest()


def digest_of_groups(groups: CellGroups | None) -> str:
    """Return a text that depends on the sizes of the groups in each cell; on their number it does not."""
    if groups is None:
        return "none"
    kinds = [[tuple(size) for size in sizes] for sizes in groups.kinds]
    digest = hashlib.sha256(repr((len(groups.kind_of_cell), kinds)).encode())
    digest.update(np.ascontiguousarray(groups.kind_of_cell, dtype="<i8").data)
    return digest.hexdigest()


def digest_of_weights(weights: PublicWeights, *, of_groups: bool) -> str:
    """Return a text that depends on the largest weights and, where rows depend on each other, on those of groups."""
    largest = weights.largest()
    known = largest and of_groups
    groups = (
        f"{digest_of_patterns(weights.of_groups.patterns)}{weights.of_rows_in_words()}"
        if known
        else ""
    )
    return f"weights {largest} {groups}" if largest else ""


def digest_of_keys(keys: pl.DataFrame) -> str:
    """Return a text that depends on the keys, their order, their names and their types."""
    digest = hashlib.sha256(repr(keys.shape).encode())
    for column in keys:
        digest.update(f"\n{column.name!r} {column.dtype!r}\n".encode())
        for part in _canonical_bytes(column):
            digest.update(part)
    return digest.hexdigest()


def _canonical_bytes(column: pl.Series) -> list[Any]:
    """Return bytes that columns of one dtype share only if they are equal; for most dtypes without Python values."""
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


@final
@dataclass(frozen=True)
class RowsVersion:
    """What shows, without the facts of rows, that these are as they were: versions of files, and a keyed fingerprint.

    It is taken before anything is read, and stays in memory.
    """

    snapshot: Snapshot
    orders: tuple[PositionMode, ...] = ()
    key: bytes = b""
    fingerprint: str | None = None
    """That of all public columns; None where files have versions, rows are independent, or the engine has none."""

    @classmethod
    def of(
        cls, request: Request, snapshot: Snapshot, orders: tuple[PositionMode, ...]
    ) -> "RowsVersion":
        """Take the fingerprint where versions do not determine the rows, with a key of its own."""
        if snapshot.complete or not orders:
            return cls(snapshot)
        key = secrets.token_bytes(32)
        return cls(snapshot, orders, key, _fingerprint(request, orders, key))

    def now(self, request: Request) -> "RowsVersion | None":
        """Return the version with newer versions of files if the rows are the same; None where that is not known."""
        if self.snapshot.holds:
            return self
        snapshot = request.engine.snapshot()
        if (
            self.fingerprint is None
            or _fingerprint(request, self.orders, self.key) != self.fingerprint
        ):
            return None
        return replace(self, snapshot=snapshot)


def _fingerprint(request: Request, orders: tuple[PositionMode, ...], key: bytes) -> str | None:
    return request.engine.fingerprint(
        selection_with_weights(request), request.scenario, orders, key
    )


@final
class PublicFacts(NamedTuple):
    """The public facts that a digest covers."""

    orders: tuple[PositionMode, ...] = ()
    """The orders of rows in which patterns matter."""
    keys: bool = False
    """Whether the keys of the answer are those of the rows."""
    groups: bool = False
    """Whether it matters which sizes of groups are in which cells."""
    weights: bool = False


@final
@dataclass(frozen=True)
class SourceDigest:
    """A digest of some facts, with the version of the rows that have them; it stays in memory."""

    request: Request = field(repr=False, compare=False)
    facts: PublicFacts
    digest: str
    selected: int | None
    """How many rows were selected; None if no patterns were read."""
    version: RowsVersion

    def verify_unchanged(self) -> "SourceDigest":
        """Return the digest as of now; refuse a source whose facts have changed."""
        if self.version.snapshot.outdated:
            raise SourceError(
                "A file of the source was rewritten or removed after the plan was made. Nothing was released.",
                allowed="files that do not change between plan and release",
                instead="scanning the files again, such as pl.scan_parquet(…), and another plan",
            )
        if not any(self.facts):
            return self
        version = self.version.now(self.request)
        if version is not None:
            return replace(self, version=version)
        current = PublicMetadata(self.request).digest_of(self.facts)
        if current.digest != self.digest:
            raise changed_source()
        return current


@final
class PublicMetadata:
    """The public facts behind a request, each read once, when it is first needed.

    Noise, cost and digest rest on one reading of cells and of patterns in all orders that matter to the scenario.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self._orders = (
            () if isinstance(request.scenario.secret, Presence) else _orders_of(request.scenario)
        )
        self._snapshot = request.engine.snapshot() if request.counts_are_public else NO_FILES
        self._further: dict[PositionMode, Patterns | UsageError] = {}
        """Patterns in other orders, which only explanations use."""

    @cached_property
    def _version(self) -> RowsVersion:
        """The version of the rows, before they are read."""
        return RowsVersion.of(self.request, self._snapshot, self._orders)

    @cached_property
    def weights(self) -> PublicWeights:
        """The public weights of rows."""
        return PublicWeights(self.request, self._take_version)

    def _take_version(self) -> RowsVersion:
        return self._version

    @cached_property
    def functions(self) -> SumFunctions:
        """The functions of all sums."""
        return SumFunctions.of(self.request, self.weights.factors)

    @cached_property
    def _reading(self) -> tuple[dict[PositionMode, Patterns | UsageError], Tally | None]:
        """The patterns in all orders that matter, and the cells; nothing, where no order matters.

        Beside patterns of rows in place, those without order are kept too, which follow from them.
        """
        request, orders = self.request, self._orders
        if not orders:
            return {}, None
        self._take_version()
        counted = request.by and not self.weights.grids  # or they are counted with their weights
        cells = request.engine.tally(request.selection) if counted else None
        if BY_POSITION in orders and not isinstance(request.scenario.secret, Initial):
            orders = tuple(dict.fromkeys((*orders, UNORDERED)))
        return request.engine.patterns(request.selection, request.scenario, orders), cells

    @cached_property
    def cells(self) -> Tally:
        """The keys of the answer in their order, and the number of rows of each cell (0 where that is private)."""
        request = self.request
        if not request.counts_are_public:
            rows = np.zeros(1 if request.keys is None else request.keys.height, dtype=np.int64)
            return Tally(request.keys, rows, np.zeros((len(rows), 0), dtype=np.int64))
        if self.weights.grids:
            return request.with_keys(self.weights.cells)
        by_order, cells = self._reading
        if cells is not None:
            return request.with_keys(cells)
        selected = None if request.by else _selected(by_order)
        if selected is not None:
            return Tally(None, np.array([selected]), np.zeros((1, 0), dtype=np.int64))
        return request.with_keys(request.engine.tally(request.selection))

    @property
    def queries(self) -> list[str]:
        """The queries of a release to the engine, as text: public facts, and sums."""
        request = self.request
        measures = [measure for measure in request.measures if measure is not None]
        return request.engine.queries(
            selection_with_weights(request), request.scenario, self._orders, measures
        )

    @property
    def counted(self) -> bool:
        """Whether the rows of cells are known already: independent ones are counted when they are needed."""
        if "cells" in vars(self) or not self.request.counts_are_public:
            return True
        if self.weights.grids or "_reading" not in vars(self):
            return False
        by_order, cells = self._reading
        return cells is not None or (not self.request.by and _selected(by_order) is not None)

    @property
    def size(self) -> Floats | None:
        """The number of rows of each cell; None where that is private."""
        return self.cells.rows.astype(np.float64) if self.request.counts_are_public else None

    def size_of(self, query: Query) -> Floats | None:
        """Return what a query divides by, or is limited by: the rows of each cell, or its weights."""
        return query.size_in(self.cells, counts_are_public=self.request.counts_are_public)

    def patterns(self, prior: Prior) -> Patterns:
        """Return the patterns of the groups whose rows may depend on each other, in the order that a prior needs."""
        scenario = self.request.scenario
        if isinstance(scenario.secret, Presence):
            if prior.any_correlation and scenario.within != (scenario.secret.within,):
                raise more_may_leave(scenario.secret.within, scenario.within)
            return Patterns((present(self.request, scenario.secret),), 1)
        order = _order_of(prior, scenario.secret)
        if not prior.independent_rows and order == BY_POSITION and not scenario.start_known:
            raise UsageError(
                "The prior or the secret depends on where sequences start, which is unknown.",
                allowed="a scenario with the start of all sequences",
                instead='pf.Scenario(..., start="2026-01-01")',
            )
        if prior.independent_rows:
            return Patterns((ONE_ROW,), 1)
        by_order, _ = self._reading
        patterns = by_order[order] if order in by_order else self._patterns_further(order)
        if isinstance(patterns, UsageError):
            raise patterns
        return patterns

    def _patterns_further(self, order: PositionMode) -> Patterns | UsageError:
        """Return patterns for an explanation that correlates rows which are independent under all priors."""
        if order not in self._further:
            self._further |= self.request.engine.patterns(
                self.request.selection, self.request.scenario, [order]
            )
        return self._further[order]

    @cached_property
    def may_differ_by_cell(self) -> bool:
        """Whether some cells may have other groups than others; not where one group has rows in all of them."""
        if not self._orders or not self.request.by or self.weights.grids:
            return False
        scenario, (by_order, _) = self.request.scenario, self._reading
        orders = {
            _order_of(prior, scenario.secret)
            for prior in scenario.priors
            if not prior.independent_rows
        }
        found = [patterns for order in orders if isinstance(patterns := by_order[order], Patterns)]
        several = any(
            len(own.distinct) > 1 or any(one.covers_by_size for one in own.distinct)
            for own in found
        )
        known = (pattern for own in found for pattern in own.distinct if not pattern.covers)
        return several and all(pattern.answers < len(self.cells.rows) for pattern in known)

    @cached_property
    def groups_in_cells(self) -> CellGroups | None:
        """The sizes of the groups in each cell.

        None where an engine does not know, or all cells depend on each other.
        """
        request, (_, cells) = self.request, self._reading
        if not self.may_differ_by_cell or cells is None or cells.keys is None:
            return None
        return request.engine.groups_in_cells(
            request.selection, request.scenario, self._orders, cells.keys
        )

    def sizes_in(self, cells: Array | slice) -> tuple[GroupSize, ...]:
        """Return the sizes of the groups in some cells, in ascending order."""
        groups = self.groups_in_cells
        kinds = set[int]() if groups is None else set(groups.kind_of_cell[cells].tolist()) - {-1}
        return tuple(
            sorted({size for kind in kinds for size in cast(CellGroups, groups).kinds[kind]})
        )

    @property
    def placed(self) -> Patterns | None:
        """The patterns of groups at their positions in time; None where some group has none."""
        patterns = self._reading[0].get(BY_POSITION)
        return (
            None if isinstance(patterns, UsageError) else patterns
        )  # too many steps, or rows before all time

    def digest(self, tables: Sequence[Sequence[Tables]], *, by_cell: bool = False) -> SourceDigest:
        """Return the digest of everything that the noise for these tables, the same or `by_cell`, and its cost rest on.

        A table may stand in for a prior, and need another order of rows than the prior itself.
        """
        request, (by_order, _) = self.request, self._reading
        secret, orders = request.scenario.secret, dict.fromkeys(self._orders)
        if orders:
            priors = [table.prior for of_prior in tables for table in of_prior]
            orders |= dict.fromkeys(
                _order_of(prior, secret) for prior in priors if not prior.independent_rows
            )
        if isinstance(by_order.get(BY_POSITION), UsageError) and UNORDERED in by_order:
            orders[UNORDERED] = None  # the cost rests on it then
        weights, keys = (
            bool(self.weights.grids),
            bool(orders) and bool(request.by) and request.keys is None,
        )
        return self.digest_of(PublicFacts(tuple(orders), keys, by_cell, weights))

    def digest_of(self, facts: PublicFacts) -> SourceDigest:
        """Return the digest of some facts."""
        by_order = {order: self._reading[0][order] for order in facts.orders}
        texts = [digest_of_keys(cast(pl.DataFrame, self.cells.keys)) if facts.keys else ""]
        if facts.groups:
            texts.append(digest_of_groups(self.groups_in_cells))
        if facts.weights:
            texts.append(digest_of_weights(self.weights, of_groups=bool(facts.orders)))
        return SourceDigest(
            self.request,
            facts,
            digest_of_facts(by_order, *texts),
            _selected(by_order),
            self._version,
        )


def _selected(by_order: Mapping[PositionMode, Patterns | UsageError]) -> int | None:
    """Return the number of selected rows, which is the same in all orders; None if no order has patterns."""
    return next(
        (patterns.selected for patterns in by_order.values() if isinstance(patterns, Patterns)),
        None,
    )


def _orders_of(scenario: Scenario) -> tuple[PositionMode, ...]:
    """Return the orders of rows that matter to the priors and the secret of a scenario."""
    orders = [
        _order_of(prior, scenario.secret) for prior in scenario.priors if not prior.independent_rows
    ]
    placed = isinstance(scenario.secret, Initial) or any(prior.ordered for prior in scenario.priors)
    return tuple(dict.fromkeys([*orders, BY_POSITION] if placed else orders))


def _order_of(prior: Prior, secret: AnySecret) -> PositionMode:
    if isinstance(secret, Initial):
        return BY_POSITION
    return (
        PositionMode(ordered=True, period=prior.repeats)
        if prior.ordered
        else PositionMode(ordered=False)
    )
