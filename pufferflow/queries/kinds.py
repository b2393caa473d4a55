"""Rows that weigh alike: whatever is worked out for one of them holds for all."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[Any]


class Kinds(NamedTuple):
    """The distinct columns of weights, the first row of each, which of them each column is, and their rows."""

    columns: Floats
    first: Whole
    of_row: Whole
    counts: Whole

    @classmethod
    def of(cls, weights: Floats, counts: Whole | None = None) -> "Kinds":
        """Return the kinds of the columns of an array of shape (answers, columns); each may stand for several rows.

        >>> Kinds.of(np.array([[1.0, 2.0, 1.0]])).of_row
        array([0, 1, 0])
        >>> Kinds.of(np.array([[1.0, 2.0, 1.0]]), np.array([5, 1, 3])).counts
        array([8, 1])
        """
        if len(weights) == 1:  # sorting numbers is much quicker than sorting columns
            values, *places = np.unique(weights[0], return_index=True, return_inverse=True, return_counts=True)
            found = cls(values[None], *places)
        else:
            columns, first, of_row, alike = np.unique(
                weights, axis=1, return_index=True, return_inverse=True, return_counts=True
            )
            found = cls(columns, first, of_row.reshape(-1), alike)
        return found if counts is None else found.standing_for(counts)

    def standing_for(self, counts: Whole) -> "Kinds":
        """Return the same where column c stands for counts[c] rows; sums of whole numbers, never of floats."""
        rows = np.zeros(len(self.counts), dtype=np.int64)
        np.add.at(rows, self.of_row, counts)
        return self._replace(first=(np.cumsum(counts) - counts)[self.first], counts=rows)
