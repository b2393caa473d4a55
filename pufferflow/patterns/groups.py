"""The rows of all groups in order, as whole numbers: one array for their places, one for their cells."""

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt
import polars as pl

from pufferflow.errors import Misuse
from pufferflow.patterns.alike import changes
from pufferflow.patterns.codes import LARGEST, Codes, Whole, codes_of, fitting
from pufferflow.patterns.columns import Columns
from pufferflow.patterns.places import Places, places_of
from pufferflow.scenario import Scenario


@final
@dataclass(frozen=True, eq=False)
class Groups:
    """Group i has the rows from `bounds[i]` to below `bounds[i + 1]`; rows not asked about have the cell −1."""

    bounds: Whole
    places: Places
    cells: Whole
    reach: tuple[float, float]
    """The positions of the first and the last row, those of groups that are not asked about too."""

    @property
    def number(self) -> int:
        """How many groups there are."""
        return len(self.bounds) - 1

    def shifted(self, period: int) -> "Groups":
        """Return the groups in normal form: by multiples of the period, until the first row is in the first period."""
        first, turn = self.places.values[self.bounds[:-1]], period * self.places.scale
        rest = np.fmod(first, turn)  # without rounding, for floats too
        away = first - rest - turn * (rest < 0)
        values = self.places.values - np.repeat(away, np.diff(self.bounds))
        return replace(self, places=self.places._replace(values=values))

    def since_start(self, scenario: Scenario) -> "Groups":
        """Return the groups where they are, none of which may have a row before the start."""
        least = self.places.positions(self.places.values.min(keepdims=True))[0]
        if least < self.places.start:
            since = "the start" if scenario.start_known else "1970-01-01"
            raise Misuse(
                f"The column {scenario.order_by!r} has rows before {since}, where all sequences begin.",
                allowed="rows at the start or after it",
                instead="pf.Scenario(…, start=…) with where the sequences began",
            )
        return self


def groups_of(rows: pl.DataFrame, columns: Columns, scenario: Scenario) -> Groups:
    """Return the groups with a row that is asked about; refuse rows that their places do not tell apart."""
    keys, places = codes_of(rows, columns.within), places_of(rows["position"], scenario)
    order = _order(keys, places.values)
    least, greatest = places.positions(np.array([places.values.min(), places.values.max()])).tolist()
    bounds = _bounds(keys.values[order], places.values[order], scenario)
    asked = np.ones(len(order), dtype=np.bool_) if columns.all_asked else rows["asked"].to_numpy()[order]
    kept = np.logical_or.reduceat(asked, bounds[:-1])
    if not kept.all():
        lengths = np.diff(bounds)
        chosen, bounds = np.repeat(kept, lengths), np.append(0, np.cumsum(lengths[kept]))
        order, asked = order[chosen], asked[chosen]
    cells = codes_of(rows, columns.cells)
    numbered = _numbered(bounds, Codes(cells.values[order], cells.size), asked)
    return Groups(bounds, places._replace(values=places.values[order]), numbered, (least, greatest))


def _order(keys: Codes, values: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Return which row comes when: by group, then by place."""
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
    """Return where groups begin, and the number of rows."""
    fresh = changes(keys)
    if bool((~fresh[1:] & (values[1:] == values[:-1])).any()):
        raise Misuse(
            f"order_by does not tell the rows of a group apart: {scenario.order_by!r}, within={[*scenario.within]}.",
            allowed="one row of a group at each position",
            instead="naming in within what else tells the sequences apart, or a finer order_by",
        )
    return np.append(np.flatnonzero(fresh), len(keys))


def _numbered(bounds: Whole, cells: Codes, asked: npt.NDArray[np.bool_]) -> Whole:
    """Return the cells, numbered in each group in the order in which they come up; −1 where a row is not asked of."""
    if cells.size == 1:
        return asked.astype(np.int64) - 1
    of_row = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))[asked]
    groups, own = fitting(Codes(of_row, len(bounds) - 1), Codes(cells.values[asked], cells.size))
    pairs = groups.values * own.size + own.values
    moves = changes(pairs)
    pairs, group = pairs[moves], of_row[moves]
    _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
    new = np.zeros(len(pairs), dtype=np.int64)
    new[first] = 1
    number = np.cumsum(new) - 1
    before = number[changes(group)]  # every group has an asked row, and its first one opens a cell
    numbered = np.full(len(asked), -1)
    numbered[asked] = (number[first][which] - before[group])[np.cumsum(moves) - 1]
    return numbered
