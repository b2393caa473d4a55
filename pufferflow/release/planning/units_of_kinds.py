"""Units whose rows are all of one kind: of rows in order, which kinds the units of a pattern may be of.

Kinds are those of public weights of 0 and 1 of which each selected row has one, as groups with bounds of their own
give. The largest weight at a step is that of any unit, whichever kinds its rows have. Where all units of a pattern are
of one kind each, their rows move the sums of that kind and no others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self, final

import polars as pl

from pufferflow.core.arrays import Array
from pufferflow.core.errors import UsageError
from pufferflow.engines.weights import by_weight
from pufferflow.queries.engine_interface import Pattern, Patterns, PositionMode
from pufferflow.queries.expressions.values import Weight
from pufferflow.queries.request import Request

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
        has = [weight.expression > 0 for weight in weights]
        of_kinds = [pl.all_horizontal(one for one, own in zip(has, kind > 0, strict=True) if own) for kind in kinds]
        known = replace(selection, filters=(*selection.filters, pl.any_horizontal(of_kinds)))  # others have no key
        by_kind = engine.patterns(by_weight(engine, known, weights, ()), scenario, orders)
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
