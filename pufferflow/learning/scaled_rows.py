"""The private rows of a model as its mechanism reads them: once, scaled to [−1, 1], and only if they are those planned.

Sums read them in any order, some at a time. A descent reads them in the order of its steps, from memory or from a
private file (`engine.stored_rows`).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, final

from pufferflow.core.arrays import Floats, Indices
from pufferflow.engines.model_rows import ModelRows, PublicOrder
from pufferflow.learning.model_columns import ModelColumns


class RowsInOrder(Protocol):
    """Rows in the order in which they are visited."""

    @property
    def columns(self) -> int:
        """The number of numbers of a row."""
        ...

    def read(self, low: int, high: int) -> Floats:
        """Return the rows from one place up to another; they are not to be changed."""
        ...


class ScaledRows(Protocol):
    """All rows of a model, scaled; a source whose rows are not those planned is refused."""

    def each(self, take: Callable[[Floats], None]) -> None:
        """Hand all rows to `take`, some at a time, in any order."""
        ...

    def in_order(self, visits: Indices | None) -> AbstractContextManager[RowsInOrder]:
        """Return the rows in the order of visits; None for rows that are visited in their own order."""
        ...


@final
@dataclass(frozen=True, eq=False)
class RowsOfTable(ScaledRows):
    """The rows of a table whose groups and positions are `known`."""

    rows: ModelRows
    columns: ModelColumns
    known: PublicOrder

    def each(self, take: Callable[[Floats], None]) -> None:
        self.rows.each(self.known, lambda numbers: take(self.columns.scaled(numbers)))

    def in_order(self, visits: Indices | None) -> AbstractContextManager[RowsInOrder]:
        return self.rows.in_order(self.known, visits, self.columns.scaled)
