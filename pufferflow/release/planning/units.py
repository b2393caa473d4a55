"""The rows that a release selects, by its filters and keys, and those of one unit that may be absent.

The rows that a release selects, by its filters and keys, and how many of them one unit that may be absent has.

A unit of r rows moves a cell by r at most. If these are r rows in each of g groups, and no cell of the answer has rows
of two groups, cells are moved by r each, g of them: ‖(r, …, r)‖ is r·g in the norm 1, and r·√g in the norm 2. Splitting
the rows of a group further makes no vector longer. With a limit on groups alone all rows may be in one group, so that
nothing is gained.

Units whose rows are all of one kind: of rows in order, which kinds the units of a pattern may be of.

Kinds are those of public weights of 0 and 1 of which each selected row has one, as groups with bounds of their own
give. The largest weight at a step is that of any unit, whichever kinds its rows have. Where all units of a pattern are
of one kind each, their rows move the sums of that kind and no others.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Array
from pufferflow.core.errors import Refused, UsageError
from pufferflow.engines.weights import by_weight
from pufferflow.models.secret import Presence
from pufferflow.published.cost import Region
from pufferflow.queries.engine_interface import Pattern, Patterns, PositionMode
from pufferflow.queries.expressions.public import conditions, is_one_of
from pufferflow.queries.expressions.values import Weight
from pufferflow.queries.request import Request

ONE_ROW: Final = Pattern(np.zeros(1, dtype=np.intp), np.ones(1, dtype=np.intp), np.zeros(1))
"""The pattern of a row that is independent of all others."""


def regions(request: Request) -> dict[str, Region]:
    """Return the region of selected rows, as far as filters and keys give literal values of declared columns."""
    types = {name: request.schema[name] for name in request.scenario.public}
    limits = [condition for predicate in request.filters for condition in conditions(predicate, types)]
    if request.keys is not None:
        labelled = () if request.others is None else request.others.labelled  # their rows have any values
        named = [name for name in request.by if name in types and name not in labelled]
        limits += [condition for name in named for condition in is_one_of(name, request.keys[name])]
    regions: dict[str, Region] = {}
    for limit in limits:
        region = Region(limit.kind, limit.labels, limit.low, limit.high, limit.low_open, limit.high_open)
        known = regions.get(limit.column)
        regions[limit.column] = region if known is None else known.both(region)
    return regions


def present(request: Request, secret: Presence) -> Pattern:
    """Return the pattern of a unit that may be absent: as many rows as it may have, in one cell if that may be."""
    if secret.rows is None:
        raise UsageError(
            f"How many rows one {secret.within!r} may have is private too, and no limit is declared.",
            allowed="the most rows of a unit that are read; others are left out",
            instead=f"pf.Presence({secret.within!r}, ..., rows=10)",
        )
    if secret.groups is None:
        return Pattern(np.zeros(1, dtype=np.intp), np.array([secret.rows]))
    groups = int(min(secret.groups, _most_groups(request, secret.by)))
    if request.others is None and set(secret.by) <= set(request.by):
        return Pattern(np.arange(groups, dtype=np.intp), np.full(groups, secret.rows))
    return Pattern(np.zeros(1, dtype=np.intp), np.array([secret.rows * groups]))


def _most_groups(request: Request, by: Sequence[str]) -> float:
    """Return how many groups of equal values there can be in the selected rows, at least 1; ∞ if that is not known."""
    selected, most = regions(request), math.inf
    labels = [selected[name].labels for name in by if name in selected]
    if len(labels) == len(by) and None not in labels:
        most = math.prod(len(some or ()) for some in labels)
    if request.keys is not None and request.others is None and set(by) <= set(request.by):
        most = min(most, request.keys.select(by).n_unique())
    return max(most, 1)


def more_may_leave(unit: str, within: Sequence[str]) -> Refused:
    """Return the error for units that may come and go together with an unlimited number of others in their group."""
    together = ", ".join(map(repr, within))
    return Refused(
        f"Rows depend on each other within {together}, and the secret is whether the rows of one {unit!r} are there.",
        allowed=f"pf.AnyCorrelation() with within={unit!r}, or pf.Independent()",
        instead=f"pf.Presence({within[0]!r}, rows=...), which hides all that depend on each other",
    )


_MOST_KINDS: Final = 16
"""The table is read once for each."""
ByOrder = Mapping[PositionMode, Patterns | UsageError]


@final
@dataclass(frozen=True, eq=False)
class UnitsOfKinds:
    """The patterns of units by the kinds of their rows, and for each kind those with only such rows selected."""

    by_kind: ByOrder
    of_kind: tuple[ByOrder, ...]

    @classmethod
    def read(
        cls, request: Request, weights: Sequence[Weight], kinds: Array, orders: Sequence[PositionMode]
    ) -> Self | None:
        """Read them; None if there are too many kinds. `kinds` has a row for each, its weights above 0 in it."""
        if len(kinds) > _MOST_KINDS:
            return None
        engine, scenario, selection = request.engine, request.scenario, request.selection
        has = [weight.positive for weight in weights]
        of_kinds = [pl.all_horizontal(one for one, own in zip(has, kind > 0, strict=True) if own) for kind in kinds]
        known = replace(selection, filters=(*selection.filters, pl.any_horizontal(of_kinds)))  # others have no key
        by_kind = engine.patterns(by_weight(engine, replace(known, by=()), weights), scenario, orders)
        chosen = [replace(selection, filters=(*selection.filters, one)) for one in of_kinds]
        return cls(by_kind, tuple(engine.patterns(own, scenario, orders) for own in chosen))

    def kinds_of(self, order: PositionMode, pattern: Pattern) -> list[int] | None:
        """Return the kinds that the units of a pattern may be of; None if some of them may have rows of several kinds.

        Each unit of the pattern has one `by_kind` with the same rows, selected or not; and if that is of one kind, the
        unit is as it is where only this kind is selected.
        """
        by_kind = self.by_kind[order]
        if isinstance(by_kind, UsageError) or pattern.covers or any(own.covers for own in by_kind.distinct):
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
                known = () if isinstance(patterns, UsageError) else tuple(map(_cells, patterns.distinct))
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
