"""Whether the next state depends on the last one alone, or on the one before it as well."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pufferflow.priors.counting import Counts, Whole

MOST_CHANCE = 1e-3
LEAST_EFFECT = 0.05


@final
@dataclass(frozen=True)
class SecondStep:
    """A test of a memory of two steps: `chance` of so much dependence without any, and the `effect` of it.

    The effect is the mean total variation between the law of the next state given the last two and given the last one,
    less what counting alone makes of it.
    """

    chance: float
    effect: float

    @property
    def present(self) -> bool:
        """Whether the dependence is there, and large enough to matter."""
        return self.chance < MOST_CHANCE and self.effect >= LEAST_EFFECT


def second_step(counts: Counts, states: int) -> SecondStep:
    """Return the likelihood ratio test (G) of independence of next and before given here, phase by phase."""
    from scipy.stats import chi2

    known = counts.before >= 0
    times = counts.times[known].astype(np.float64)
    if not len(times):
        return SecondStep(1.0, 0.0)
    table = np.unique(counts.phase[known] * states + counts.here[known], return_inverse=True)[1]
    row = np.unique(table * states + counts.before[known], return_inverse=True)[1]
    column = np.unique(table * states + counts.following[known], return_inverse=True)[1]
    in_table, in_row, in_column = (np.bincount(place, times) for place in (table, row, column))
    statistic = 2 * float((times * np.log(times * in_table[table] / (in_row[row] * in_column[column]))).sum())
    rows, columns = (np.bincount(_owner(place, table)) for place in (row, column))
    freedom = int(((rows - 1) * (columns - 1)).sum())
    share = in_column[column] / in_table[table]
    # a state that never followed differs by its whole share
    apart = 0.5 * (np.bincount(row, np.abs(times / in_row[row] - share) - share) + 1)
    width = np.bincount(_owner(column, table), _deviations(in_column, in_table[_owner(column, table)]))
    owner = _owner(row, table)
    noise = np.sqrt(np.maximum(1 / in_row - 1 / in_table[owner], 0) / (2 * np.pi)) * width[owner]
    effect = float((in_row * (apart - noise)).sum() / in_row.sum())
    return SecondStep(float(chi2.sf(statistic, freedom)) if freedom else 1.0, effect)


def _owner(place: Whole, table: Whole) -> Whole:
    """Return the table that each row or column belongs to."""
    found = np.empty(int(place.max()) + 1, dtype=np.intp)
    found[place] = table
    return found


def _deviations(times: npt.NDArray[Any], total: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the standard deviations of whether one transition goes to each state."""
    share = times / total
    return np.sqrt(np.maximum(share * (1 - share), 0))
