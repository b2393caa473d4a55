"""Public weights of a request: read when planning, and compared with the source when releasing.

A row moves a sum by its weight times what it moves φ. So tables are those of a row with the largest weight, of which
others move less. Rows that may move together, in any way, move a cell by all their weights, whatever their signs.
"""

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Final, final

import numpy as np

from pufferflow.arrays import Floats
from pufferflow.engine import (
    Measure,
    Patterns,
    Selection,
    Tally,
    WeightGrid,
    by_weight,
    grids_of,
    weighted_patterns,
    weighted_tally,
    weights_of,
)
from pufferflow.expressions import Weight
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
        return repr([(weight.identity, str(grid.unit), grid.largest) for weight, grid in self.grids.items()])

    def _factor(self, measure: Measure) -> float:
        values = measure.values
        if values.weight is None:
            return 1.0
        digits = max(_DIGITS - max(abs(values.low), abs(values.high)).bit_length(), _FEWEST_DIGITS)
        largest = self.grids[values.weight].largest
        cut = max(largest.bit_length() - digits, 0)
        return float(-(-largest >> cut) << cut)  # up: no row has more
