"""From counts to probabilities: the bounds of Clopper and Pearson, which hold for every true probability.

The count K of an event in n independent draws is binomial. `at_least` is above the true probability with a chance of at
most `error`, `at_most` below it likewise: each is the probability at which a count at least (at most) as large as K has
the chance `error`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

Floats = npt.NDArray[np.float64]
_ROUNDING = 1e-9


def at_least(counts: Any, draws: int, error: float) -> Floats:
    """Return lower bounds of probabilities, rounded down.

    >>> at_least([0, 5, 10], 10, 0.05).round(4)
    array([0.    , 0.2224, 0.7411])
    """
    found = np.asarray(counts, dtype=np.float64)
    some = np.maximum(found, 1e-9)
    inside = special.betaincinv(some, draws - some + 1, error)
    return np.where(found > 0, inside * (1 - _ROUNDING), 0.0)  # the quantile is right to some digits only


def at_most(counts: Any, draws: int, error: float) -> Floats:
    """Return upper bounds of probabilities, rounded up.

    >>> at_most([0, 5, 10], 10, 0.05).round(4)
    array([0.2589, 0.7776, 1.    ])
    """
    found = np.asarray(counts, dtype=np.float64)
    rest = np.maximum(draws - found, 1e-9)
    inside = special.betainccinv(found + 1, rest, error)
    return np.where(found < draws, np.minimum(inside * (1 + _ROUNDING), 1.0), 1.0)
