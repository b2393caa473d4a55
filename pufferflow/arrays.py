"""The types of arrays, named once."""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]
