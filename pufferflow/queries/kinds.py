"""Rows that weigh alike: whatever is worked out for one of them holds for all."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[Any]


class Kinds(NamedTuple):
    """The distinct columns of weights, the first row of each, which of them each row has, and how many rows have it."""

    columns: Floats
    first: Whole
    of_row: Whole
    counts: Whole

    @classmethod
    def of(cls, weights: Floats) -> "Kinds":
        """Return the kinds of the columns of an array of shape (answers, rows).

        >>> Kinds.of(np.array([[1.0, 2.0, 1.0]])).of_row
        array([0, 1, 0])
        """
        if len(weights) == 1:  # sorting numbers is much quicker than sorting columns
            values, *places = np.unique(weights[0], return_index=True, return_inverse=True, return_counts=True)
            return cls(values[None], *places)
        columns, first, of_row, counts = np.unique(
            weights, axis=1, return_index=True, return_inverse=True, return_counts=True
        )
        return cls(columns, first, of_row.reshape(-1), counts)
