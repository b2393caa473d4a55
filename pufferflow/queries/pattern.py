"""What everybody may know of one correlated group: where its rows stand, and in which cell each is asked about."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[Any]


@final
@dataclass(frozen=True, eq=False)
class Pattern:
    """The rows of groups that look alike to the public; they have the same laws, so one of them stands for all.

    A cell is what has an answer of its own: a group of a `group_by`. `cells` numbers those of the rows from 0 in the
    order in which they come up, and has −1 where a row is not asked about. `counts` says how many rows an entry stands
    for, which is 1 where rows have an order. `positions` is None where they have none. A pattern that `covers` is that
    of no group: every group it stands for has no more rows than it, asked about or not, in whatever cells.

    >>> Pattern(np.array([0, 0, -1]), np.array([1, 1, 1]), np.array([0.0, 1.0, 2.0])).asked
    2
    """

    cells: Whole
    counts: Whole
    positions: Floats | None = None
    start: float = 0.0
    groups: int = 1
    covers: bool = False

    @property
    def asked(self) -> int:
        """How many rows are asked about."""
        return int(self.counts[self.cells >= 0].sum())

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.counts.sum())

    @property
    def answers(self) -> int:
        """How many cells are touched."""
        return int(self.cells.max(initial=-1)) + 1
