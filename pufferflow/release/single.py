"""The query of one pass over the rows, and what its result means.

Columns with few classes, and those whose values are added up, need one total or a few of each cell. The classes of the
others become groups: a row of the result then is a cell and a class. Where several columns have many classes, each row
stands once for each of them, with its class there; its totals are counted as often, and divided again.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.sparse import csr_array

from pufferflow.expressions import unsorted
from pufferflow.keys import unsigned_zero
from pufferflow.release.classes import CLASS
from pufferflow.release.columns import ByClass, Column
from pufferflow.release.exact import weighted

Whole = npt.NDArray[Any]
_AT_ONCE = 2**14


@final
@dataclass(frozen=True, eq=False)
class Pass:
    """A pass that reads the columns of `measures` measures in groups."""

    by: tuple[str, ...]
    columns: Sequence[Column]
    measures: int

    @cached_property
    def grouped(self) -> list[ByClass]:
        """The columns whose classes become groups."""
        return [column for column in self.columns if isinstance(column, ByClass) and column.many]

    @cached_property
    def totalled(self) -> list[Column]:
        """All others."""
        return [column for column in self.columns if not (isinstance(column, ByClass) and column.many)]

    @cached_property
    def starts(self) -> list[int]:
        """The number of the first class of each grouped column."""
        return list(itertools.accumulate((len(column.steps) for column in self.grouped), initial=0))

    def query(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """Return the query; its columns have names of their own."""
        keys = [f"by{place}" for place in range(len(self.by))]
        rows = self._rows(frame, keys)
        if self.grouped:
            rows = self._standing(rows, keys)
            keys = [*keys, "class"]
        totals = [pl.len().alias("rows")]
        for place, column in enumerate(self.totalled):
            own = column.totals(pl.col(f"clean{place}"))
            totals += [total.alias(f"total{place}_{number}") for number, total in enumerate(own)]
        return rows.group_by(keys).agg(totals) if keys else rows.select(totals)

    def _rows(self, frame: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """Return the columns that are needed, each worked out once for each row."""
        public = [unsorted(name).alias(key) for name, key in zip(self.by, keys, strict=True)]
        clean = [column.clean.alias(f"clean{place}") for place, column in enumerate(self.totalled)]
        classes = [
            (column.classes.number() + pl.lit(start, dtype=CLASS)).alias(f"class{start}")
            for column, start in zip(self.grouped, self.starts, strict=False)
        ]
        needed = [*public, *clean, *classes]
        return frame.select(needed) if needed else frame

    def _standing(self, rows: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """Return each row once for each grouped column, with its class there."""
        on = [f"class{start}" for start in self.starts[:-1]]
        if len(on) == 1:
            return rows.rename({on[0]: "class"})
        index = [*keys, *(f"clean{place}" for place in range(len(self.totalled)))]
        return rows.unpivot(on, index=index, variable_name="of", value_name="class")

    def key_schema(self, schema: pl.Schema) -> pl.Schema:
        """Return the columns of the result that are keys, for the schema of the frame."""
        return pl.Schema({f"by{place}": schema[name] for place, name in enumerate(self.by)})

    def keys(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the keys in the result of the query."""
        names = [(f"by{place}", name) for place, name in enumerate(self.by)]
        return table.select(unsigned_zero(pl.col(key), table.schema[key]).alias(name) for key, name in names)

    def read(self, table: pl.DataFrame, cells: Whole, count: int) -> tuple[Whole, Whole]:
        """Return the rows of each of `count` cells, and its sums.

        `cells` says to which of them a row of the result belongs, −1 to none. Some are read at a time, so that
        millions take little room.
        """
        if (np.diff(cells, prepend=0) < 0).any():
            order = np.argsort(cells, kind="stable")
            table, cells = table[order], cells[order]
        starts = range(0, max(count, 1), _AT_ONCE)
        ends = np.searchsorted(cells, [*starts, count])
        parts = [
            self._part(table[low:high], cells[low:high] - start, min(count - start, _AT_ONCE))
            for start, low, high in zip(starts, ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        ]
        rows, sums = zip(*parts, strict=True)
        return np.concatenate(rows), np.concatenate(sums)

    def _part(self, table: pl.DataFrame, cells: Whole, count: int) -> tuple[Whole, Whole]:
        ones = np.ones(len(table), dtype=np.int64)
        added = csr_array((ones, (cells, np.arange(len(table)))), shape=(count, len(table)))
        stood = max(len(self.grouped), 1)
        rows = (added @ _whole(table, ["rows"]))[:, 0] // stood
        sums: list[Whole] = []
        for place, column in enumerate(self.totalled):
            totals = _whole(table, [name for name in table.columns if name.startswith(f"total{place}_")])
            sums.append(column.sums((added @ totals) // stood, rows))
        for column, start in zip(self.grouped, self.starts, strict=False):
            sums.append(weighted(_counts(table, cells, (count, len(column.steps)), start), column.steps))
        return rows, self._in_order(sums, count)

    def _in_order(self, sums: Sequence[Whole], count: int) -> Whole:
        """Return the sums of all columns in the order of the measures."""
        places = [place for column in (*self.totalled, *self.grouped) for place in column.measures]
        return np.hstack([np.zeros((count, 0), dtype=np.int64), *sums])[:, np.argsort(places)]


def _whole(table: pl.DataFrame, names: Sequence[str]) -> Whole:
    found = np.zeros((len(table), len(names)), dtype=np.int64)
    for place, name in enumerate(names):
        found[:, place] = table[name].to_numpy()
    return found


def _counts(table: pl.DataFrame, cells: Whole, shape: tuple[int, int], start: int) -> csr_array:
    """Return the rows of each cell and class of one column, whose first class is `start`."""
    classes = table["class"].to_numpy().astype(np.int64) - start
    own = (classes >= 0) & (classes < shape[1])
    rows = _whole(table, ["rows"])[:, 0]
    return csr_array((rows[own], (cells[own], classes[own])), shape=shape)
