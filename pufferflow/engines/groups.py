"""Groups of rows in memory, in order: where the rows of each stand, and in which cells they are."""

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt
import polars as pl

from pufferflow.core.arrays import Whole
from pufferflow.core.errors import UsageError
from pufferflow.engines.equal_runs import LARGEST, MOST, Codes, Runs, alike, changes, codes_of, fitting
from pufferflow.engines.pattern_columns import Columns
from pufferflow.engines.row_positions import Places, positions_of
from pufferflow.models.scenario import Scenario


@final
@dataclass(frozen=True, eq=False)
class Groups:
    """Group i has the rows from `bounds[i]` to below `bounds[i + 1]`; rows that are not selected have the cell −1."""

    bounds: Whole
    places: Places
    cells: Whole
    reach: tuple[float, float]
    """The positions of the first and the last row, in groups without selected rows too."""
    times: Whole
    """How many groups each represents."""

    @property
    def number(self) -> int:
        """How many groups there are."""
        return len(self.bounds) - 1

    def distinct(self) -> "Groups | None":
        """Return one group of each kind of equal groups; None if there are too many kinds, or none."""
        kinds = alike(Runs(self.bounds, [self.places.values, self.cells]), MOST, self.times)
        if not kinds:
            return None
        chosen, times = np.array(kinds, dtype=np.int64).T
        lengths = np.diff(self.bounds)[chosen]
        bounds = np.append(0, np.cumsum(lengths))
        rows: Whole = np.arange(int(bounds[-1])) + np.repeat(self.bounds[:-1][chosen] - bounds[:-1], lengths)
        places = self.places._replace(values=self.places.values[rows])
        return replace(self, bounds=bounds, places=places, cells=self.cells[rows], times=times)

    def shifted(self, period: int) -> "Groups":
        """Return the groups in normal form: by multiples of the period, until the first row is in the first period."""
        away = self.places.away(self.places.values[self.bounds[:-1]], period)
        values = self.places.values - np.repeat(away, np.diff(self.bounds))
        return replace(self, places=self.places._replace(values=values))


def groups_of(rows: pl.DataFrame, columns: Columns, scenario: Scenario, places: Places | None = None) -> Groups:
    """Return the groups with a selected row; refuse two rows of a group at one place.

    Where rows represent others, `places` are those of all rows, and the column `times` is the number of groups.
    """
    keys, places = codes_of(rows, columns.within), places or positions_of(rows["position"], scenario)
    order = _order(keys, places.values)
    bounds = _bounds(keys.values[order], places.values[order], scenario)
    times = rows["times"].to_numpy()[order[bounds[:-1]]] if "times" in rows.columns else np.ones(len(bounds) - 1, int)
    selected = np.ones(len(order), dtype=np.bool_) if columns.all_selected else rows["selected"].to_numpy()[order]
    relevant = np.logical_or.reduceat(selected, bounds[:-1])
    if not relevant.all():
        lengths = np.diff(bounds)
        chosen, bounds, times = (
            np.repeat(relevant, lengths),
            np.append(0, np.cumsum(lengths[relevant])),
            times[relevant],
        )
        order, selected = order[chosen], selected[chosen]
    cells = codes_of(rows, columns.cells)
    numbered = _numbered(bounds, Codes(cells.values[order], cells.size), selected)
    return Groups(bounds, places._replace(values=places.values[order]), numbered, places.reach, times)


def _order(keys: Codes, values: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Return the order of rows: by group, then by place."""
    if values.dtype.kind == "f":
        return np.lexsort((values, keys.values))
    least = int(values.min())
    span = int(values.max()) - least + 1
    if span > LARGEST:
        return np.lexsort((values, keys.values))
    groups, places = fitting(keys, Codes(values - least, span))
    both = groups.values * places.size + places.values  # one number is sorted many times quicker than two
    return np.arange(len(both)) if bool((both[1:] >= both[:-1]).all()) else np.argsort(both)


def _bounds(keys: Whole, values: npt.NDArray[Any], scenario: Scenario) -> Whole:
    """Return the first row of each group, and the number of rows."""
    fresh = changes(keys)
    if bool((~fresh[1:] & (values[1:] == values[:-1])).any()):
        raise not_told_apart(scenario)
    return np.append(np.flatnonzero(fresh), len(keys))


def not_told_apart(scenario: Scenario) -> UsageError:
    """Return the error of two rows of a group at one place."""
    return UsageError(
        f"Two rows of a group have the same order_by: {scenario.order_by!r}, within={[*scenario.within]}.",
        allowed="one row of a group at each position",
        instead="adding to within the columns that separate the sequences, or a finer order_by",
    )


def _numbered(bounds: Whole, cells: Codes, selected: npt.NDArray[np.bool_]) -> Whole:
    """Return the cells, numbered in each group in the order in which they come up; −1 for rows not selected."""
    if cells.size == 1:
        return selected.astype(np.int64) - 1
    of_row = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))[selected]
    groups, own = fitting(Codes(of_row, len(bounds) - 1), Codes(cells.values[selected], cells.size))
    pairs = groups.values * own.size + own.values
    moves = changes(pairs)
    pairs, group = pairs[moves], of_row[moves]
    _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
    new = np.zeros(len(pairs), dtype=np.int64)
    new[first] = 1
    number = np.cumsum(new) - 1
    before = number[changes(group)]  # every group has a selected row, and its first one opens a cell
    numbered = np.full(len(selected), -1)
    numbered[selected] = (number[first][which] - before[group])[np.cumsum(moves) - 1]
    return numbered
