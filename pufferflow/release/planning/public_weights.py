"""Public weights of a request: read when planning, and compared with the source when releasing.

A row moves a sum by its weight times the movement of φ. So tables describe a row with the largest weight; other rows
move less. Of independent rows only one moves, by its joint weights. Weights of 0 or 1 say which groups a row is in, and
of groups that no row shares the largest loss counts (M27). Rows that may move together, in any way, move a cell by all
their weights, whatever their signs. Rows that depend on each other in known ways have shares of the largest weight in
patterns: what they reveal, and how far translated ones move a sum, grows with the shares.

Rows have kinds if public weights are 0 or 1 and each selected row has exactly one 1. Groups with bounds of their own
are an example. The largest weight at a step is over all units, whichever kinds their rows have. Where all units of a
pattern are of one kind each, their rows move the sums of that kind and no others.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final, Self, cast, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Array, Flags, Floats
from pufferflow.core.errors import InternalError, UsageError
from pufferflow.engines.weighted_rows import (
    WeightedRows,
    WeightGrid,
    WeightsByPosition,
    grids_of,
    grouped_by_weight,
    largest_together,
    membership_patterns,
    pattern_of,
    weighted_patterns,
    weights_by_rank,
    weights_of,
    with_others,
)
from pufferflow.models.priors.base import Prior
from pufferflow.queries.aggregates import WeightedMean
from pufferflow.queries.engine_interface import (
    BY_POSITION,
    Measure,
    Pattern,
    Patterns,
    PositionMode,
    Selection,
    Tally,
)
from pufferflow.queries.expressions.values import Weight
from pufferflow.queries.request import Request
from pufferflow.release.planning.row_movements import width
from pufferflow.release.planning.sum_functions import Tables

_SEVERAL: Final = 2
_DIGITS: Final = 40
_FEWEST_DIGITS: Final = 10


_MOST_KINDS: Final = 16
"""The table is read once for each."""
ByOrder = Mapping[PositionMode, Patterns | UsageError]


@final
@dataclass(frozen=True, eq=False)
class PatternsByKind:
    """The patterns of units by the kinds of their rows, and for each kind those with only such rows selected."""

    by_kind: ByOrder
    of_kind: tuple[ByOrder, ...]

    @classmethod
    def read(
        cls,
        request: Request,
        weights: Sequence[Weight],
        kinds: Array,
        orders: Sequence[PositionMode],
    ) -> Self | None:
        """Read them; None if there are too many kinds. `kinds` has a row for each, its weights above 0 in it."""
        if len(kinds) > _MOST_KINDS:
            return None
        engine, scenario, selection = request.engine, request.scenario, request.selection
        has = [weight.positive for weight in weights]
        of_kinds = [
            pl.all_horizontal(one for one, own in zip(has, kind > 0, strict=True) if own)
            for kind in kinds
        ]
        known = replace(
            selection, filters=(*selection.filters, pl.any_horizontal(of_kinds))
        )  # others have no key
        by_kind = engine.patterns(
            grouped_by_weight(engine, replace(known, by=()), weights), scenario, orders
        )
        chosen = [replace(selection, filters=(*selection.filters, one)) for one in of_kinds]
        return cls(by_kind, tuple(engine.patterns(own, scenario, orders) for own in chosen))

    def kinds_of(self, order: PositionMode, pattern: Pattern) -> list[int] | None:
        """Return the kinds that the units of a pattern may have; None if a unit may have rows of several kinds.

        Each unit of the pattern also has a pattern in `by_kind`, with the same rows, selected or not. If that has one
        kind, the unit has the same pattern when only this kind is selected.
        """
        by_kind = self.by_kind[order]
        if (
            isinstance(by_kind, UsageError)
            or pattern.covers
            or any(own.covers for own in by_kind.distinct)
        ):
            return None
        alike = [own for own in by_kind.distinct if _rows(own) == _rows(pattern)]
        if not alike or any(own.answers != 1 for own in alike):
            return None
        found = list[int]()
        for kind, by_order in enumerate(self.of_kind):
            patterns = by_order[order]
            if isinstance(patterns, UsageError) or any(own.covers for own in patterns.distinct):
                return None
            found += [kind] * any(_cells(own) == _cells(pattern) for own in patterns.distinct)
        return found or None

    @property
    def identity(self) -> list[tuple[object, ...]]:
        """What units of other kinds do not have."""
        found = list[tuple[object, ...]]()
        for by_order in (self.by_kind, *self.of_kind):
            for order, patterns in by_order.items():
                known = (
                    ()
                    if isinstance(patterns, UsageError)
                    else tuple(map(_cells, patterns.distinct))
                )
                found.append((order, known))
        return found


def _rows(pattern: Pattern) -> tuple[object, ...]:
    positions = b"" if pattern.positions is None else pattern.positions.tobytes()
    return positions, pattern.start, (pattern.cells >= 0).tobytes()


def _cells(pattern: Pattern) -> tuple[object, ...]:
    return *_rows(pattern), pattern.cells.tobytes()


def partition_of(request: Request) -> list[Weight] | None:
    """Return the weights of a request if each selected row has one of those of every query with weights, else None."""
    weights = [
        (query.exclusive, values.weight)
        for query in request.queries
        for values in query.measures
        if values is not None and values.weight is not None
    ]
    if not weights or not all(exclusive for exclusive, _ in weights):
        return None
    return list(dict.fromkeys(weight for _, weight in weights))


@final
@dataclass(frozen=True, eq=False)
class GroupWeights:
    """The patterns of groups whose rows have weights, where the order of rows does not matter."""

    patterns: Patterns
    """Those of groups whose rows may move together in any way."""
    memberships: Patterns | None
    """Those by the kinds of rows, if several weights define kinds; None where no prior needs them."""
    ranks: tuple[Floats, Array] | None
    """The weights of rows by their rank in a group; None where no prior needs them."""

    @classmethod
    def of(cls, rows: WeightedRows, request: Request, grids: Mapping[Weight, WeightGrid]) -> Self:
        """Return the patterns of rows that are read with the columns of groups."""
        scenario, measures = request.scenario, request.measures
        several = len(grids) > 1
        known = membership_patterns(rows, scenario, measures, grids, free=True) if several else None
        patterns = weighted_patterns(rows, scenario, measures, grids) if known is None else known
        if all(
            one.ordered or one.independent_rows or one.any_correlation for one in scenario.priors
        ):
            return cls(patterns, None, None)
        memberships = (
            membership_patterns(rows, scenario, measures, grids, free=False) if several else None
        )
        return cls(patterns, memberships, weights_by_rank(rows, scenario, grids))


@final
@dataclass(frozen=True, eq=False)
class RowWeights:
    """What one reading of all selected rows says of their weights; of groups too, where rows depend on each other."""

    grids: Mapping[Weight, WeightGrid]
    together: Array
    cells: Tally
    of_groups: GroupWeights | None

    @classmethod
    def read(cls, request: Request, *, with_groups: bool) -> Self:
        """Read the rows, with the columns of groups if these matter."""
        within, weights = (
            request.scenario.within if with_groups else (),
            weights_of(request.measures),
        )
        rows = WeightedRows.of(request.engine, request.selection, weights, also=within)
        grids = grids_of(rows)
        of_groups = GroupWeights.of(rows, request, grids) if with_groups else None
        return cls(grids, largest_together(rows, grids), rows.tally(grids), of_groups)


@final
class PublicWeights:
    """The public weights that noise, cost and answers depend on, each read once, when it is first needed."""

    def __init__(
        self, request: Request, before_reading: Callable[[], object] = lambda: None
    ) -> None:
        self.request = request
        self._before_reading = before_reading

    @cached_property
    def _of_rows(self) -> RowWeights | None:
        """What is known of the weights of all selected rows; None without weights."""
        if not weights_of(self.request.measures):
            return None
        self._before_reading()
        tied = not all(prior.independent_rows for prior in self.request.scenario.priors)
        return RowWeights.read(self.request, with_groups=tied)

    @cached_property
    def of_groups(self) -> GroupWeights:
        """The weights of groups, read again where an explanation correlates rows that are independent otherwise."""
        known = None if self._of_rows is None else self._of_rows.of_groups
        return known or cast(
            GroupWeights, RowWeights.read(self.request, with_groups=True).of_groups
        )

    @property
    def grids(self) -> Mapping[Weight, WeightGrid]:
        """The grids of all weights, which follow from those of all selected rows; none without weights."""
        return {} if self._of_rows is None else self._of_rows.grids

    @property
    def cells(self) -> Tally:
        """The rows and the weights of every cell."""
        return cast(RowWeights, self._of_rows).cells

    @cached_property
    def mixed(self) -> bool:
        """Whether some weights of a sum are above 0 and some below, so that rows move it both ways."""
        return bool(self.grids) and any(
            bool((parts != 0).any(axis=0).all()) for parts in self.cells.weights.values()
        )

    def of_rows(self, prior: Prior, own: Patterns, placed: Patterns | None) -> tuple[Pattern, ...]:
        """Return the patterns of groups with correlated rows in known places, each row with its largest weights.

        They are those with `placed` rows, where these are known; else `own`, whose rows all have the largest weight.
        """
        if not own.distinct:
            return ()
        if not prior.ordered:
            others = max(pattern.rows - pattern.selected for pattern in own.distinct)
            known = self.of_groups
            if known.memberships is not None:
                return tuple(with_others(pattern, others) for pattern in known.memberships.distinct)
            shares, counts = cast("tuple[Floats, Array]", known.ranks)
            return (
                pattern_of(
                    [np.ones(len(counts)) if one is None else shares for one in self.of_sums],
                    counts,
                    others,
                ),
            )
        found, order = (
            (own, PositionMode(ordered=True, period=prior.repeats))
            if placed is None
            else (placed, BY_POSITION)
        )
        clock = None if placed is None else placed.clock
        weighted = [
            one
            for pattern in found.distinct
            for one in self._in_order(prior, pattern, order, clock)
        ]
        return tuple({_contents(pattern): pattern for pattern in weighted}.values())

    def _in_order(
        self, prior: Prior, pattern: Pattern, order: PositionMode, clock: str | None
    ) -> list[Pattern]:
        """Return a pattern with the weights of each kind that its units may be of, or the largest at each step."""
        kinds = (
            None
            if self.patterns_by_kind is None
            else self.patterns_by_kind.kinds_of(order, pattern)
        )
        if kinds is None:
            known = {} if clock is None else self._steps.at(_places(pattern), clock)
            return [self._weighted(prior, pattern, known)]
        every = np.ones(len(_places(pattern)))
        of_kinds = [
            dict(zip(self.grids, (self.together[kind] > 0).tolist(), strict=True)) for kind in kinds
        ]
        return [
            self._weighted(prior, pattern, {one: every * own for one, own in kind.items()})
            for kind in of_kinds
        ]

    @cached_property
    def patterns_by_kind(self) -> PatternsByKind | None:
        """The units whose rows are all of one kind; None where each step is of one kind, or weights define no kinds."""
        request = self.request
        priors = [prior for prior in request.scenario.priors if prior.ordered]
        if self.kinds is None or not priors:
            return None
        if self._steps.clock is not None and self._steps.one_kind_each:
            return None
        orders = dict.fromkeys(
            [BY_POSITION, *(PositionMode(ordered=True, period=prior.repeats) for prior in priors)]
        )
        return PatternsByKind.read(request, list(self.grids), self.together, list(orders))

    def _weighted(self, prior: Prior, pattern: Pattern, known: Mapping[Weight, Floats]) -> Pattern:
        """Return a pattern with weights; where a start does not matter it is brought to the first period."""
        positions = _places(pattern)
        alike = np.ones(len(positions))
        shares = np.stack([alike if one is None else known.get(one, alike) for one in self.of_sums])
        covers = pattern.covers or prior.joint_laws or self.mixed
        if prior.repeats is None or not len(positions):
            return replace(pattern, shares=shares, covers=covers)
        positions = positions - positions[0] // prior.repeats * prior.repeats
        return replace(
            pattern, positions=positions, start=float(positions[0]), shares=shares, covers=covers
        )

    @property
    def of_sums(self) -> list[Weight | None]:
        """The weight of each sum."""
        return _weight_of_each(self.request)

    @cached_property
    def kinds(self) -> Flags | None:
        """Which sums the rows of each kind move; None where weights define no kinds of rows, or all are of one."""
        if partition_of(self.request) is None or len(self.together) < _SEVERAL:
            return None
        place = {weight: place for place, weight in enumerate(self.grids)}
        every = np.ones(len(self.together), dtype=np.bool_)
        return np.stack(
            [every if one is None else self.together[:, place[one]] > 0 for one in self.of_sums],
            axis=1,
        )

    @cached_property
    def _steps(self) -> WeightsByPosition:
        request = self.request
        return WeightsByPosition.of(request.engine, request.selection, request.scenario, self.grids)

    def of_rows_in_words(self) -> str:
        """Return a text that weights share only if rows have the same by position or rank; empty if none count."""
        known = [
            prior
            for prior in self.request.scenario.priors
            if prior.allows_weights and not prior.independent_rows
        ]
        known = [prior for prior in known if not prior.any_correlation]
        if not known:
            return ""
        digest = hashlib.sha256(repr((self.mixed, [prior.ordered for prior in known])).encode())
        if any(prior.ordered for prior in known):
            digest.update(repr((self._steps.clock, self._steps.positions.tobytes())).encode())
            digest.update(
                repr([shares.tobytes() for shares in self._steps.shares.values()]).encode()
            )
            digest.update(
                repr(
                    None if self.patterns_by_kind is None else self.patterns_by_kind.identity
                ).encode()
            )
        if not all(prior.ordered for prior in known):
            ranks, memberships = self.of_groups.ranks or (), self.of_groups.memberships
            digest.update(repr([part.tobytes() for part in ranks]).encode())
            members = () if memberships is None else memberships.distinct
            digest.update(
                repr([(*_contents(one), one.counts.tobytes()) for one in members]).encode()
            )
        return digest.hexdigest()

    @cached_property
    def units(self) -> tuple[Fraction, ...]:
        """The widths of the steps in which all sums of the request are counted."""
        units = {weight: grid.unit for weight, grid in self.grids.items()}
        pairs = zip(self.request.measures, self.of_sums, strict=True)
        return tuple(
            width(one) * (1 if of is None else units.get(of, Fraction(1))) for one, of in pairs
        )

    @cached_property
    def factors(self) -> Floats | None:
        """The largest weight in each sum, in steps of its grid, rounded up to few digits; None without weights.

        Products with whole steps, and with the short fractions of shares, then are exact.
        """
        if not self.grids:
            return None
        return np.array(
            [1.0 if measure is None else self._factor(measure) for measure in self.request.measures]
        )

    @property
    def together(self) -> Array:
        """The joint weights of a row, in steps, for all kinds of rows that no other kind exceeds in every weight."""
        return cast(RowWeights, self._of_rows).together

    @property
    def _one_has_all(self) -> bool:
        """Whether some row has the largest of every weight: then no other row needs to be compared."""
        return self.together.tolist() == [[grid.largest for grid in self.grids.values()]]

    def of_each_row(self, tables: Sequence[Tables]) -> list[list[Tables]]:
        """Return the same tables for each kind of rows of which no other has larger weights, instead of the largest."""
        largest = self.factors
        if largest is None or self._one_has_all:
            return [[*tables]]
        places = {weight: place for place, weight in enumerate(self.grids)}
        by_kind = list[list[Tables]]()
        for steps in self.together.tolist():
            own = [
                1.0
                if measure is None or (weight := measure.values.weight) is None
                else self._rounded(steps[places[weight]], measure, weight)
                for measure in self.request.measures
            ]
            # exact: tables are whole steps times the largest weights
            by_kind.append(
                [
                    one._replace(values=one.values / largest[:, None] * np.array(own)[:, None])
                    for one in tables
                ]
            )
        return by_kind

    def check(self) -> None:
        """Refuse weights that are no numbers or that priors have no rule for, and those that nothing is divided by."""
        if not weights_of(self.request.measures):
            return
        if not self.request.counts_are_public:
            raise InternalError(
                "A weight of private rows has no bounds.", instead="building the batch anew"
            )
        self.request.check_weighable()  # a batch may be planned with other priors than it was made with
        for query in self.request.queries:
            if isinstance(query, WeightedMean):
                query.check(self.cells)

    def largest(self) -> str:
        """Return a text that weights share only if they have the same grids, and are as large; empty without any."""
        if not self.grids:
            return ""
        largest = [
            (weight.identity, str(grid.unit), grid.largest) for weight, grid in self.grids.items()
        ]
        return repr(largest if self._one_has_all else (largest, self.together.tolist()))

    def _factor(self, measure: Measure) -> float:
        weight = measure.values.weight
        return 1.0 if weight is None else self._rounded(self.grids[weight].largest, measure, weight)

    def _rounded(self, steps: int, measure: Measure, weight: Weight) -> float:
        """Return a weight in steps, rounded up to as many digits as the largest weight of a sum has."""
        values = measure.values
        digits = max(_DIGITS - max(abs(values.low), abs(values.high)).bit_length(), _FEWEST_DIGITS)
        cut = max(self.grids[weight].largest.bit_length() - digits, 0)
        return float(-(-steps >> cut) << cut)  # up: no row has more


def selection_with_weights(request: Request) -> Selection:
    """Return the selection for the engine: the selected rows, in cells by their weights too."""
    weights = tuple(dict.fromkeys(filter(None, _weight_of_each(request))))
    return (
        grouped_by_weight(request.engine, request.selection, weights)
        if weights
        else request.selection
    )


def _weight_of_each(request: Request) -> list[Weight | None]:
    return [None if measure is None else measure.values.weight for measure in request.measures]


def _places(pattern: Pattern) -> Floats:
    return np.zeros(0) if pattern.positions is None else pattern.positions


def _contents(pattern: Pattern) -> tuple[object, ...]:
    """Return a key that distinguishes patterns of rows in order."""
    arrays = pattern.cells, pattern.positions, pattern.shares
    return (
        *(None if array is None else array.tobytes() for array in arrays),
        pattern.start,
        pattern.covers,
    )
