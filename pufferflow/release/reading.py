"""One streaming pass over the private rows: exact sums of every measure in every cell.

No expression of the user is run on a private value: `cleaning` has the rules of the domains, `columns` the ways in
which sums are read. Whatever the values are, nothing fails, and schema, keys and order of the result are the same:
rows of null, NaN, ±∞ and unknown labels are rows like others. All sums are sums of whole numbers, proven not to
overflow, so neither the order of the rows nor the number of threads can matter.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt
import polars as pl

from pufferflow.errors import Misuse
from pufferflow.expressions import unsorted
from pufferflow.keys import plain
from pufferflow.queries.measure import Measure
from pufferflow.release.cells import places_of, published, runs_of
from pufferflow.release.columns import columns_of
from pufferflow.release.exact import MOST_ROWS, bounded_rows
from pufferflow.release.single import Pass

Whole = npt.NDArray[Any]
Collect = Callable[[pl.LazyFrame], pl.DataFrame]


@final
@dataclass(frozen=True, eq=False)
class Tally:
    """What the private rows say: `keys` in public order (None: one cell), the rows of each cell, and its sums.

    `sums` has the shape (cells, measures) and counts in steps of each measure's unit; it holds Python's whole numbers
    if the steps of some measure are too large for sums of 64 bits.
    """

    keys: pl.DataFrame | None
    rows: Whole
    sums: Whole


def tally(
    frame: pl.LazyFrame,
    by: tuple[str, ...],
    keys: pl.DataFrame | None,
    measures: Sequence[Measure],
    collect: Collect,
) -> Tally:
    """Return the sums of all measures in every cell, in one pass.

    With `keys` (as `read_keys` gives them) the cells are these, in this order: other keys of the data are left out, and
    a key that the data does not have gets 0. Without, they are the keys of the data, ascending: nulls first, NaN last,
    categories by text. Keys of categories are given as text.
    """
    bounded_rows()
    schema = frame.collect_schema()
    once = Pass(by, columns_of(schema, measures), len(measures))
    query = once.query(frame)
    if not by:
        table = collect(query)
        return Tally(None, *once.read(table, np.zeros(len(table), dtype=np.intp), 1))
    if keys is None:
        table = collect(query.sort(plain(once.key_schema(schema))))
        cells = runs_of(once.keys(table))
        found = once.keys(table)[np.flatnonzero(np.diff(cells, prepend=-1))]
        return Tally(published(found), *once.read(table, cells, len(found)))
    table = collect(query)
    return Tally(published(keys), *once.read(table, places_of(once.keys(table), keys), len(keys)))


def at_most(frame: pl.LazyFrame, unit: str, rows: int, order_by: str | None) -> pl.LazyFrame:
    """Return only the first rows of each unit: by `order_by` (nulls first), and by their order in the frame.

    Which rows of a unit are kept depends on the rows of this unit alone.
    """
    if rows < 1:
        raise Misuse(f"rows is {rows}.", allowed="a whole number >= 1", instead="rows=1")
    # a stable sort: rows of equal order stay in the order of the frame
    rows_in_order = frame if order_by is None else frame.sort(unsorted(order_by), maintain_order=True)
    of = unsorted(unit)
    if rows == 1:
        return rows_in_order.filter(of.is_first_distinct())
    place = (of.is_null() | True).cum_count().over(of)  # rows without a unit are a unit too
    return rows_in_order.filter(place <= min(rows, MOST_ROWS))
