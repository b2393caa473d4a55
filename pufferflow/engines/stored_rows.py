"""Rows of numbers that are written in one order and read in another: in memory, or in a private file.

A table that is larger than `IN_MEMORY` is kept in the folder for temporary files (TMPDIR), in a file that its owner
alone may read. On POSIX systems it has no name: nobody else can open it, and nothing of it is left when the process
ends, also by a kill. Elsewhere it is removed when it is closed, or with the process.

Rows that were put straight to their places would touch every page of the file for every few rows. So each is put first
into its part of the file, as the next one there; a part fits into memory, where it is brought into order at the end.
"""

import abc
import tempfile
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, final

import numpy as np

from pufferflow.core.arrays import Array, Floats, Indices
from pufferflow.core.errors import PufferflowError, SourceError
from pufferflow.core.progress import working
from pufferflow.core.sandbox import sandboxed

IN_MEMORY: Final = 2**28
"""The bytes of a table that is kept in memory."""
AT_ONCE: Final = 2**22
"""The bytes of rows that are read or written at once."""
_PART: Final = 2**24
_NUMBER: Final = 8


def rows_at_once(columns: int) -> int:
    """Return how many rows of so many columns are handled at once."""
    return max(AT_ONCE // (_NUMBER * columns), 1)


class StoredRows(abc.ABC):
    """Rows of numbers, each at its place; `close` frees them."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns

    @abc.abstractmethod
    def put(self, first: int, numbers: Floats) -> None:
        """Put rows one after another, the first at a place."""

    @abc.abstractmethod
    def read(self, low: int, high: int) -> Floats:
        """Return the rows from one place up to another; they are not to be changed."""

    def close(self) -> None:  # noqa: B027 - rows in memory have nothing to close
        """Free the memory or the file; no row can be read afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def stored_rows(rows: int, columns: int) -> StoredRows:
    """Return a store for a table: in memory, or in a file if the table is large."""
    small = rows * columns * _NUMBER <= IN_MEMORY
    return _InMemory(rows, columns) if small else _InFile(rows, columns)


@final
class _InMemory(StoredRows):
    def __init__(self, rows: int, columns: int) -> None:
        super().__init__(rows, columns)
        self._numbers: Floats = np.empty((rows, columns))

    def put(self, first: int, numbers: Floats) -> None:
        self._numbers[first : first + len(numbers)] = numbers

    def read(self, low: int, high: int) -> Floats:
        return self._numbers[low:high]


@final
class _InFile(StoredRows):
    def __init__(self, rows: int, columns: int) -> None:
        super().__init__(rows, columns)
        self._file: Any = sandboxed(lambda: tempfile.TemporaryFile(buffering=0), self._failed)  # noqa: SIM115 - kept open

    def put(self, first: int, numbers: Floats) -> None:
        sandboxed(lambda: self._write(first, numbers), self._failed)

    def read(self, low: int, high: int) -> Floats:
        numbers = np.empty((high - low, self.columns))
        sandboxed(lambda: self._read(low, numbers), self._failed)
        return numbers

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()

    def _write(self, first: int, numbers: Floats) -> None:
        left = np.ascontiguousarray(numbers).reshape(-1).data.cast("B")
        self._file.seek(first * self.columns * _NUMBER)
        while left:  # a call may write a part
            left = left[self._file.write(left) :]

    def _read(self, low: int, numbers: Floats) -> None:
        left = numbers.reshape(-1).data.cast("B")
        self._file.seek(low * self.columns * _NUMBER)
        while left:
            some = self._file.readinto(left)
            if not some:
                raise EOFError
            left = left[some:]

    def _failed(self, kind: str) -> PufferflowError:
        room = self.rows * self.columns * _NUMBER / 2**20
        return SourceError(
            f"The folder for temporary files cannot keep the rows, {room:,.0f} MiB: {kind}. Nothing was released.",
            allowed="a folder with space for twice as much, where files can be made",
            instead="TMPDIR=/a/folder/with/space, or features=[…] for fewer columns",
        )


@final
class Places:
    """Rows that come in one order and are put to places in another; `settle` when all have come."""

    def __init__(self, stored: StoredRows) -> None:
        self.stored = stored
        self._size = max(_PART // (_NUMBER * stored.columns), 1)
        self._next = np.arange(0, stored.rows, self._size)
        self._within = np.empty(stored.rows, dtype=np.int32)
        """The place in its part of each row, in the order in which they came there."""

    def put(self, places: Indices, numbers: Floats) -> None:
        """Put rows into the parts where their places are."""
        parts = places // self._size
        order = np.argsort(parts.astype(np.min_scalar_type(len(self._next))), kind="stable")  # few bits sort quickly
        places, numbers = places[order], np.ascontiguousarray(numbers)[order]
        counts = np.bincount(parts, minlength=len(self._next))
        low = 0
        for part in np.flatnonzero(counts).tolist():
            first, high = int(self._next[part]), low + int(counts[part])
            self._within[first : first + high - low] = places[low:high] % self._size
            self.stored.put(first, numbers[low:high])
            self._next[part] += high - low
            low = high

    def settle(self) -> StoredRows:
        """Return the rows, each part brought into order."""
        with working("ordering rows", self.stored.rows) as work:
            for low in range(0, self.stored.rows, self._size):
                high = min(low + self._size, self.stored.rows)
                ordered = np.empty((high - low, self.stored.columns))
                ordered[self._within[low:high]] = self.stored.read(low, high)
                self.stored.put(low, ordered)
                work.advance(high - low)
        return self.stored


def inverse(order: Array) -> Indices:
    """Return the place at which each of the numbers from 0 stands in an order of them."""
    places = np.empty(len(order), dtype=np.intp)
    places[order] = np.arange(len(order))
    return places
