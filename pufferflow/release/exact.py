"""Counts weighted with whole steps, exactly.

Polars counts the rows of a frame in 32 bits, so fewer than 2^32 rows are in all cells together. Steps below 2^29 give
sums below 2^61, which 64 bits hold with room for what lies between. Larger steps are split into two parts of 20 bits:
either part's sums are below 2^53, and Python's whole numbers put them together. Which of the two it is depends on the
steps alone, never on a count.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.sparse import csr_array

from pufferflow.errors import Misuse

Whole = npt.NDArray[Any]

MOST_ROWS: Final = 2**32
"""There are fewer rows."""
MOST_STEPS: Final = 2**40
"""Steps of a table; beyond them a sum cannot be proven to be exact."""
SMALL: Final = 2**29
"""Steps below this give sums of 64 bits."""
_HALF: Final = 20


def bounded_rows() -> None:
    """Refuse a build of Polars whose frames may have 2^32 rows and more: every proof of an exact sum starts there."""
    if pl.get_index_type() != pl.UInt32:
        raise Misuse(
            "This build of Polars counts rows in 64 bits, so that no sum is proven to fit.",
            allowed="the usual build, which counts them in 32",
            instead="pip install polars",
        )


def weighted(counts: Whole | csr_array, steps: Whole) -> Whole:
    """Return counts @ steps, for counts ≥ 0 of shape (cells, classes) that sum to less than 2^32.

    Other counts may do as well, if whoever gives them proves that their products fit. The result has 64 bits if
    the steps are small, else it holds Python's whole numbers.

    >>> weighted(np.array([[2**31, 1]]), np.array([[2**40], [1]]))
    array([[2361183241434822606849]], dtype=object)
    """
    if not (np.abs(steps) >= SMALL).any():
        return _product(counts, steps)
    high, low = steps >> _HALF, steps & (2**_HALF - 1)
    return _product(counts, high).astype(object) * 2**_HALF + _product(counts, low)


def _product(counts: Whole | csr_array, steps: Whole) -> Whole:
    """Return the product; many tables are mostly 0, which need not be multiplied."""
    found: Any = counts @ csr_array(steps)
    return np.asarray(found if isinstance(found, np.ndarray) else found.toarray(), dtype=np.int64)
