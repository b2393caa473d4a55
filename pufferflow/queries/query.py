"""The base of queries: the sums a query reads of each cell, and its answer from noisy ones."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pufferflow.core.arrays import Floats, Whole
from pufferflow.queries.engine_interface import Tally
from pufferflow.queries.expressions.values import Values

_EXACT = 2.0**53
Size = Floats | None
"""The number of rows of each cell, where that is public; None where it is private (`pf.Presence`)."""


@dataclass(frozen=True)
class Query:
    """Base of the queries: `measures` are summed in every cell; None among them is the number of its rows.

    To add one, write a frozen dataclass in `aggregates` that overrides what differs from a noisy sum below, and a
    method of `pf.Batch`.
    """

    name: str
    measures: tuple[Values | None, ...]
    words: str
    """The query in words."""

    linear: ClassVar[bool] = True
    """Whether each output is one measure times a public factor, so that its error is known before any release."""
    whole: ClassVar[bool] = False
    """Whether every output is a number of rows."""

    exclusive: ClassVar[bool] = False
    """Whether no row moves more than one of the measures, which is the output of the row's cell (`measure_in`)."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the columns that the answer has."""
        return (self.name,)

    @property
    def counts_values(self) -> bool:
        """Whether a private number, as that of present values, takes the place of the number of rows."""
        return False

    def size_in(self, tally: Tally, *, counts_are_public: bool) -> Size:
        """Return the size of each cell: its number of rows, where that is public."""
        return tally.rows.astype(np.float64) if counts_are_public and not self.counts_values else None

    @property
    def no_rows(self) -> Size:
        """The size of a cell without rows, where that is public."""
        return np.zeros(1)

    def measure_in(self, size: Size) -> Whole | None:
        """Return which of the measures the output is in each cell; None if outputs are measures one by one."""
        return None

    @property
    def value_handling(self) -> str:
        """How values are read beyond what their domain says, in words; empty if as they are."""
        return ""

    def factor(self, size: Size) -> Any:
        """Return the factor from sum to output: one number, or one for each cell."""
        return 1.0

    def finish(self, sums: Floats, size: Size) -> Floats:
        """Return the outputs, of shape (cells, outputs), from noisy sums of shape (cells, measures): the sums here."""
        return sums

    def ends(self, sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
        """Return the least and largest outputs if each measure is off by at most `half` of its own.

        Here for linear queries; others override it. Where `running` names shares, `half` is for those sums instead.
        """
        reach = np.abs(np.atleast_1d(self.factor(size))[:, None] * half)
        outputs = self.finish(sums, size)
        return outputs - reach, outputs + reach

    def running(self, *, counts_are_public: bool) -> Floats | None:
        """Return the share of the total to subtract from each running sum; None where error bars need no such sums."""
        return None

    def limits(self, size: Size) -> tuple[Floats, Floats]:
        """Return the least and largest outputs that there can be, whatever the rows: of shape (cells or 1, outputs).

        They follow from the range of φ and from the number of rows, if that is public. NaN stands where nothing can be,
        as for the mean of no rows. Here for sums; others override it.
        """
        steps = [(1, 1, 1) if one is None else (one.low, one.high, one.unit) for one in self.measures]
        low, high, unit = np.array(steps, dtype=np.float64).T
        if size is None:
            return np.where(low < 0, -np.inf, 0.0)[None], np.where(high > 0, np.inf, 0.0)[None]
        return _outwards(size[:, None] * low, -np.inf) * unit, _outwards(size[:, None] * high, np.inf) * unit


def within(low: float, high: float, size: Size) -> tuple[Floats, Floats]:
    """Return the limits of an output that lies in a range, NaN for cells that publicly have no rows."""
    rows = np.ones(1) if size is None else size
    limits = np.where(rows[:, None] > 0, np.array([[low, high]]), np.nan)
    return limits[:, :1], limits[:, 1:]


def widened(ends: tuple[Floats, Floats], no_rows: Any, low: float, high: float) -> tuple[Floats, Floats]:
    """Return the ends of bars, those of the whole range where there are no rows, or may be none."""
    return np.where(no_rows[:, None], low, ends[0]), np.where(no_rows[:, None], high, ends[1])


def _outwards(products: Floats, towards: float) -> Floats:
    """Return products of whole numbers, rounded outwards where floats may not hold them."""
    return np.where(np.abs(products) < _EXACT, products, np.nextafter(products, towards))


def quotient(low: Floats, high: Floats, least: Floats, most: Floats) -> tuple[Floats, Floats]:
    """Return the ends of x/n for x in [low, high] and n in [least, most], which is above 0."""
    corners = np.stack([low / least, low / most, high / least, high / most])
    return corners.min(axis=0), corners.max(axis=0)


def ends_of_count(sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
    """Return the ends of the number of rows: the public one, or a noisy one, which is the last of the sums."""
    return (sums[:, -1] - half[-1], sums[:, -1] + half[-1]) if size is None else (size, size)


def at_least_one(size: Floats) -> Floats:
    """Return sizes to divide by: an empty cell counts as one row, so that its answer is noise and not null."""
    return np.maximum(size, 1.0)
