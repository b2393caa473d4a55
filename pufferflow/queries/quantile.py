"""A quantile of a column's values over the rows of a cell, from a noisy histogram."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.expressions import Values
from pufferflow.queries.query import Floats, Query, Size


@final
@dataclass(frozen=True)
class Quantile(Query):
    """The value below which a share q of the rows lies: on a list of values one of them, on classes a point inside one.

    The noisy counts are added up, and where noise makes the sums fall they are levelled between the running maximum
    from below and the running minimum from above.
    """

    q: float
    edges: tuple[float, ...]
    """The values in growing order; or, one more than there are counts, the ends of the classes."""
    linear = False
    running = True

    @classmethod
    def of(cls, name: str, q: float, bars: Sequence[Values], edges: Sequence[float], words: str) -> "Quantile":
        """Return the query for counts in growing order of values, or in classes between edges."""
        return cls(name, tuple(bars), f"the {q:g}-quantile of {words}", q, tuple(edges))

    def finish(self, sums: Floats, size: Size) -> Floats:
        """Return the quantile of each cell."""
        return self._at(levelled(np.cumsum(sums, axis=1)), size)

    def ends(self, sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
        """Return the quantile if all running sums are too low, and if all are too high."""
        levels = np.cumsum(sums, axis=1)
        total = np.maximum(levels[:, -1], 1.0) if size is None else size
        moved = [levelled(np.minimum(levels + move, total[:, None])) for move in (half.max(), -half.max())]
        return self._at(moved[0], total), self._at(moved[1], total)

    def _at(self, levels: Floats, size: Size) -> Floats:
        total = np.maximum(levels[:, -1], 1.0) if size is None else size
        target = np.clip(self.q * total, 0.0, None)
        before = (levels < target[:, None]).sum(axis=1, dtype=np.intp)  # levels grow
        place = np.minimum(before, levels.shape[1] - 1)
        edges = np.array(self.edges)
        if len(edges) == levels.shape[1]:
            return edges[place][:, None]
        cells = np.arange(len(levels))
        below = np.where(place > 0, levels[cells, place - 1], 0.0)
        inside = np.maximum(levels[cells, place] - below, 1e-12)
        share = np.clip((target - below) / inside, 0.0, 1.0)
        return (edges[place] + share * (edges[place + 1] - edges[place]))[:, None]


def levelled(sums: Floats) -> Floats:
    """Return running sums made monotone and ≥ 0, between their running maximum and their running minimum from above."""
    upper = np.maximum.accumulate(sums, axis=1)
    lower = np.minimum.accumulate(sums[:, ::-1], axis=1)[:, ::-1]
    return np.maximum((upper + lower) / 2, 0.0)
