"""Public weights of a request: read when planning, and compared with the source when releasing.

A row moves a sum by its weight times what it moves φ. So tables are those of a row with the largest weight, of which
others move less. Of independent rows only one moves, by the weights that it has together: weights that are 0 or 1 say
which groups a row is in, and of groups that no row shares the largest loss counts (M27). Rows that may move together,
in any way, move a cell by all their weights, whatever their signs.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Final, final

import numpy as np

from pufferflow.arrays import Array, Floats
from pufferflow.engine import (
    Measure,
    Patterns,
    Selection,
    Tally,
    WeightGrid,
    by_weight,
    grids_of,
    largest_together,
    weighted_patterns,
    weighted_tally,
    weights_of,
)
from pufferflow.expressions import Weight
from pufferflow.planning.sum_tables import Tables
from pufferflow.queries import Request, WeightedMean

_DIGITS: Final = 40
_FEWEST_DIGITS: Final = 10


@final
class PublicWeights:
    """What noise, cost and answers rest on of public weights, each read once, when it is first needed."""

    def __init__(self, request: Request) -> None:
        self.request = request

    @cached_property
    def grids(self) -> Mapping[Weight, WeightGrid]:
        """The grids of all weights, which follow from those of all selected rows; none without weights."""
        return grids_of(self.request.engine, self.request.selection, weights_of(self.request.measures))

    @cached_property
    def cells(self) -> Tally:
        """The rows and the weights of every cell."""
        return weighted_tally(self.request.engine, self.request.selection, (), self.grids)

    @cached_property
    def patterns(self) -> Patterns:
        """The patterns of groups whose order does not matter, a row of the largest weight counted as `COPIES`."""
        request = self.request
        return weighted_patterns(request.engine, request.selection, request.scenario, request.measures, self.grids)

    @cached_property
    def units(self) -> tuple[Fraction, ...]:
        """The widths of the steps in which all sums of the request are counted."""
        weights = [None if measure is None else measure.values.weight for measure in self.request.measures]
        units = zip(self.request.units, weights, strict=True)
        return tuple(unit if weight is None else unit * self.grids[weight].unit for unit, weight in units)

    @cached_property
    def factors(self) -> Floats | None:
        """The largest weight in each sum, in steps of its grid, rounded up to few digits; None without weights.

        Products with whole steps, and with the short fractions of shares, then are exact.
        """
        if not self.grids:
            return None
        return np.array([1.0 if measure is None else self._factor(measure) for measure in self.request.measures])

    @cached_property
    def together(self) -> Array:
        """The weights that a row has together, in steps, for all kinds of rows of which no other has more of each."""
        return largest_together(self.request.engine, self.request.selection, self.grids)

    def of_each_row(self, tables: Sequence[Tables]) -> list[list[Tables]]:
        """Return the same tables for each kind of rows of which no other has larger weights, instead of the largest."""
        largest = self.factors
        if largest is None or len(self.together) == 1:
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
                [one._replace(values=one.values / largest[:, None] * np.array(own)[:, None]) for one in tables]
            )
        return by_kind

    @property
    def selection(self) -> Selection:
        """The selected rows, in cells by their weights too, as an engine is asked for them."""
        selection, weights = self.request.selection, weights_of(self.request.measures)
        return by_weight(self.request.engine, selection, weights) if weights else selection

    def check(self) -> None:
        """Refuse weights that are no numbers or that beliefs have no rule for, and those that nothing is divided by."""
        if not weights_of(self.request.measures):
            return
        self.request.check_weighable()  # a batch may be planned with other beliefs than it was made with
        for query in self.request.queries:
            if isinstance(query, WeightedMean):
                query.check(self.cells)

    def largest(self) -> str:
        """Return a text that weights share only if they have the same grids, and are as large; empty without any."""
        if not self.grids:
            return ""
        largest = [(weight.identity, str(grid.unit), grid.largest) for weight, grid in self.grids.items()]
        return repr(largest if len(self.together) == 1 else (largest, self.together.tolist()))

    def _factor(self, measure: Measure) -> float:
        weight = measure.values.weight
        return 1.0 if weight is None else self._rounded(self.grids[weight].largest, measure, weight)

    def _rounded(self, steps: int, measure: Measure, weight: Weight) -> float:
        """Return a weight in steps, rounded up to as many digits as the largest weight of a sum has."""
        values = measure.values
        digits = max(_DIGITS - max(abs(values.low), abs(values.high)).bit_length(), _FEWEST_DIGITS)
        cut = max(self.grids[weight].largest.bit_length() - digits, 0)
        return float(-(-steps >> cut) << cut)  # up: no row has more
