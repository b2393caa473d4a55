"""The types of arrays, named once, and what several packages work out with them."""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]


def log_sum(terms: Array, axis: int = -1) -> Floats:
    """Return the log of sums of exponentials; −∞ where there is nothing. SciPy's `logsumexp` rounds otherwise."""
    top = terms.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", under="ignore", invalid="ignore"):
        return np.log(np.exp(terms - top).sum(axis=axis)) + top.squeeze(axis)
