"""Public weights of rows that depend on each other in known ways: the largest at each position, and by rank in a group.

What rows reveal, and how far translated rows move a sum, grows with the size of each weight. So weights may be rounded
up: rows at one position have the largest weight that any row has there, in whichever group; and rows without a position
have the weights of a group that has as many rows of each size, or larger, as any other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self, final

import numpy as np

from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import UsageError
from pufferflow.engines.one_pass import runs_of
from pufferflow.engines.row_positions import positions_of
from pufferflow.engines.weights import Grids, WeightedRows
from pufferflow.models.scenario import Scenario
from pufferflow.queries.engine_interface import Engine, Pattern, Selection
from pufferflow.queries.expressions.tree import named
from pufferflow.queries.expressions.values import Weight

_MOST_KINDS: Final = 48
_FINE: Final = 16
_LEAST: Final = 2.0**-5
"""Where sizes are more than that, they are rounded up to sixteenths of the next power of 2; the smallest to one."""


@final
@dataclass(frozen=True, eq=False)
class StepWeights:
    """The largest weight at each position as a share of the largest of all, for each weight; none without a clock."""

    clock: str | None
    positions: Floats
    shares: dict[Weight, Floats]

    @classmethod
    def of(cls, engine: Engine, selection: Selection, scenario: Scenario, grids: Grids) -> Self:
        """Read the weights of the selected rows by their positions; none where these are not known."""
        order = scenario.order_by
        if order is None or order in dict(selection.derived):
            return cls(None, np.zeros(0), {})
        rows = WeightedRows.of(engine, selection, [*grids], within=tuple(dict.fromkeys((order, *selection.by))))
        if not len(rows.rows):
            return cls(None, np.zeros(0), {})
        try:
            places = positions_of(rows.frame.select(named(order)).to_series(), scenario)
        except UsageError:  # as reading of patterns says too
            return cls(None, np.zeros(0), {})
        positions, at = np.unique(places.positions(places.values), return_inverse=True)
        shares = dict[Weight, Floats]()
        for weight, grid in grids.items():
            largest = np.zeros(len(positions), dtype=np.int64)
            np.maximum.at(largest, at.reshape(-1), np.abs(grid.steps(rows.numbers(weight))))
            shares[weight] = _shares(largest, grid.largest)
        return cls(places.clock, positions, shares)

    @property
    def one_kind_each(self) -> bool:
        """Whether at no position there are rows with different weights above 0."""
        return bool((np.count_nonzero([*self.shares.values()], axis=0) <= 1).all())

    def at(self, positions: Floats, clock: str) -> dict[Weight, Floats]:
        """Return the shares of rows at some positions of a clock: 1 where nothing is known."""
        if self.clock != clock:
            return {}
        near = np.minimum(np.searchsorted(self.positions, positions), len(self.positions) - 1)
        known = self.positions[near] == positions
        return {weight: np.where(known, shares[near], 1.0) for weight, shares in self.shares.items()}


def weights_by_rank(engine: Engine, selection: Selection, scenario: Scenario, grids: Grids) -> tuple[Floats, Array]:
    """Return shares of the largest weight, falling, and how many rows of a group have each, at most.

    A row counts by its largest share of any weight. The n-th row of each group, by size, has no larger one than the
    n-th of these rows.
    """
    names = tuple(dict.fromkeys((*scenario.within, *selection.by)))
    rows = WeightedRows.of(engine, selection, [*grids], within=names)
    if not len(rows.rows):
        return np.ones(1), np.ones(1, dtype=np.int64)
    share = np.zeros(len(rows.rows))
    for weight, grid in grids.items():
        share = np.maximum(share, _shares(np.abs(grid.steps(rows.numbers(weight))), grid.largest))
    sizes, kind = np.unique(_few(share), return_inverse=True)
    within = [named(name) for name in scenario.within]
    group = runs_of(rows.frame.select(within)) if within else np.zeros(len(share), dtype=np.intp)
    counts = np.zeros((int(group.max()) + 1, len(sizes)), dtype=np.int64)
    np.add.at(counts, (group, kind.reshape(-1)), rows.rows)
    most = np.cumsum(counts[:, ::-1], axis=1).max(axis=0)
    number = np.diff(most, prepend=0)
    return sizes[::-1][number > 0], number[number > 0]


def pattern_of(shares: Sequence[Floats], counts: Array, others: int) -> Pattern:
    """Return the pattern of a group with `counts` rows of each size, each sum with its own shares, and with others."""
    rows = np.stack(shares)
    cells = np.zeros(len(counts), dtype=np.int64)
    if others:
        rows, counts, cells = np.pad(rows, ((0, 0), (0, 1))), np.append(counts, others), np.append(cells, -1)
    return Pattern(cells, counts, covers=True, shares=rows)


def _shares(sizes: Array, largest: int) -> Floats:
    """Return whole numbers over the largest, rounded up."""
    shares = sizes / largest
    return np.where(sizes == largest, 1.0, np.where(sizes == 0, 0.0, np.nextafter(shares, 1.0)))


def _few(shares: Floats) -> Floats:
    """Return shares as they are, or rounded up to few sizes, exactly, so that every machine has the same."""
    if len(np.unique(shares)) <= _MOST_KINDS:
        return shares
    digits, exponent = np.frexp(shares)
    return np.where(shares > 0, np.maximum(np.ldexp(np.ceil(digits * _FINE) / _FINE, exponent), _LEAST), 0.0)
