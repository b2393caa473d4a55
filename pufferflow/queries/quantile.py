"""A quantile of a column's values over the rows of a cell, from a noisy histogram."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from pufferflow.expressions import Values
from pufferflow.queries.query import Floats, Query, Size, within

Places = npt.NDArray[np.intp]
_SLIGHTLY = 1 - 2.0**-50


@final
@dataclass(frozen=True)
class Quantile(Query):
    """The smallest value that at least a share q of the rows do not exceed; of q = 0 the smallest value of all.

    So it is the value of a row: of n rows in growing order that of row ⌈q·n⌉, the first if that is 0. On a list of
    values the answer is one of them, on classes a point inside one, as if the values were spread evenly there.

    The noisy counts are added up. Where the number of rows is public, what noise added to it in total is taken off
    again, evenly; where noise makes the sums fall, they are levelled between the running maximum from below and the
    running minimum from above.
    """

    q: float
    edges: tuple[float, ...]
    """The values in growing order; or, one more than there are counts, the ends of the classes."""
    linear = False

    @classmethod
    def of(cls, name: str, q: float, bars: Sequence[Values], edges: Sequence[float], words: str) -> "Quantile":
        """Return the query for counts in growing order of values, or in classes between edges."""
        return cls(name, tuple(bars), f"the {q:g}-quantile of {words}", q, tuple(edges))

    def finish(self, sums: Floats, size: Size) -> Floats:
        """Return the quantile of each cell."""
        levels, rank = self._levels(sums, size)
        place, edges = _first(levels >= rank), np.array(self.edges)
        if len(edges) == levels.shape[1]:
            return edges[place][:, None]
        cells = np.arange(len(levels))
        below = np.where(place > 0, levels[cells, place - 1], 0.0)
        inside = np.maximum(levels[cells, place] - below, 1e-12)
        share = np.clip((rank[:, 0] - below) / inside, 0.0, 1.0)
        return (edges[place] + share * (edges[place + 1] - edges[place]))[:, None]

    def running(self, *, sized: bool) -> Floats:
        """Return the share that makes the running sum know most: its own, or q where the number of rows is private."""
        counts = len(self.measures)
        return np.arange(1, counts + 1) / counts if sized else np.full(counts, self.q)

    def ends(self, sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
        """Return the ends of all values that the running sums do not rule out.

        The k-th value is the quantile only if at least rank rows are up to it, and fewer than rank below it. If each of
        these two sums is off by more than its half to the wrong side with probability 2.5 % or less, the quantile is
        ruled out with 5 % or less: it is one place, so the two sums that count are the same whatever the noise. The
        last half is that of the total. All is possible where there are, or may be, no rows.
        """
        at_least, below = self._known(sums, size)
        half, total = half[:-1], half[-1]
        if size is not None:
            half = np.maximum(half, 0.5)  # whole numbers of rows are told apart halfway between them, if not before
        may = at_least >= -half
        may[:, -1] = True
        may[:, 1:] &= below[:, :-1] <= half[:-1]
        levels, rank = self._levels(sums, size)
        own, last_one = _first(levels >= rank), may.shape[1] - 1
        may[np.arange(len(own)), own] = True
        no_rows = sums.sum(axis=1) - total < 1 if size is None else size == 0
        may[no_rows] = True
        first, last = _first(may), last_one - _first(may[:, ::-1])
        low, high = np.array(self.edges[: last_one + 1]), np.array(self.edges[-last_one - 1 :])
        return low[first][:, None], high[last][:, None]

    def limits(self, size: Size) -> tuple[Floats, Floats]:
        """Return the least and the largest value of the domain."""
        return within(self.edges[0], self.edges[-1], size)

    def _known(self, sums: Floats, size: Size) -> tuple[Floats, Floats]:
        """Return running counts less the rank, and less the largest count below it: what is ≥ 0 and ≤ 0 tells."""
        levels = np.cumsum(sums, axis=1)
        off = self.running(sized=size is not None) * levels[:, -1:]
        if size is None:
            return levels - off, levels - off
        rank = self._rank(size)[:, None]
        counts = levels - off + self.running(sized=True) * size[:, None]
        return counts - rank, counts - (rank - 1)

    def _levels(self, sums: Floats, size: Size) -> tuple[Floats, Floats]:
        """Return running counts that grow, and between which two whole numbers the rank begins."""
        levels = np.cumsum(sums, axis=1)
        if size is None:
            size = np.maximum(np.rint(levels[:, -1]), 1.0)
        else:
            levels = levels - self.running(sized=True) * (levels[:, -1:] - size[:, None])
        return levelled(levels), self._rank(size)[:, None] - 0.5

    def _rank(self, size: Floats) -> Floats:
        """Return which row in growing order has the quantile; a product a hair above a whole number is that number."""
        return np.maximum(np.ceil(self.q * size * _SLIGHTLY), 1.0)


def levelled(sums: Floats) -> Floats:
    """Return running sums made monotone and ≥ 0, between their running maximum and their running minimum from above."""
    upper = np.maximum.accumulate(sums, axis=1)
    lower = np.minimum.accumulate(sums[:, ::-1], axis=1)[:, ::-1]
    return np.maximum((upper + lower) / 2, 0.0)


def _first(holds: npt.NDArray[np.bool_]) -> Places:
    """Return the first place in each row where something holds, the last where it holds nowhere."""
    places: Places = holds.argmax(axis=1)
    places[~holds.any(axis=1)] = holds.shape[1] - 1
    return places
