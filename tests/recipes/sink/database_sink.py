"""The sink that is one SQLite file with a row for each release: its numbers as CSV, and its certificate."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, TypeVar, final

import polars as pl
from msgspec import Meta

import pufferflow as pf
from pufferflow.plugins import (
    MOST_NEW,
    Copy,
    Sink,
    TomlTable,
    check_format,
    local_path,
    other_release,
    place_taken,
    resolved,
    with_variables,
)

_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS releases "
    "(label TEXT PRIMARY KEY, entry TEXT, numbers TEXT, bars TEXT, certificate TEXT)"
)
_NEWEST: Final = "SELECT label, entry FROM releases ORDER BY rowid DESC LIMIT ?"
_ROW: Final = "SELECT certificate, numbers, bars FROM releases WHERE label = ?"
T = TypeVar("T")


@final
class DatabaseTable(TomlTable, frozen=True):
    """Where releases go: a SQLite file with a row for each period."""

    file: Annotated[str, Meta(min_length=1)]

    def check_address(self) -> None:
        local_path(resolved(self.file), "The sink")

    def check_columns(self, columns: pl.Schema) -> None:
        check_format(columns, "csv")

    def open(self, folder: Path, job: str) -> "DatabaseSink":
        return DatabaseSink(folder / local_path(with_variables(self.file), "The sink").expanduser())


@final
class DatabaseSink(Sink):
    """A SQLite file of releases; a row is inserted once, whole or not at all, by the transaction it is in."""

    noun: ClassVar = "row"

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def root(self) -> str:
        return str(self._file)

    def place(self, label: str) -> str:
        return f"{self._file}#{label}"

    def has(self, label: str) -> bool:
        return bool(self._rows(_ROW, label))

    def newest(self) -> Iterator[tuple[str, str]]:
        """Yield the rows that were inserted last."""
        for label, entry in self._rows(_NEWEST, MOST_NEW):
            yield self.place(label), entry

    def copies(self) -> Iterable[Copy]:
        return [
            Copy(label, self.place(label), certificate.encode(), partial(self._differences, label))
            for label, certificate in self._rows("SELECT label, certificate FROM releases")
        ]

    def send(self, label: str, release: pf.Release) -> bool:
        certificate = release.certificate
        row = label, certificate.entry, *_tables(release), certificate.to_json()

        def insert(database: sqlite3.Connection) -> bool:
            inserted = database.execute(
                "INSERT OR IGNORE INTO releases VALUES (?, ?, ?, ?, ?)", row
            ).rowcount
            stored, *tables = database.execute(_ROW, (label,)).fetchone()
            theirs = other_release(stored.encode(), release) or (
                "" if tables == _tables(release) else "other numbers"
            )
            if theirs:
                raise place_taken(self.noun, self.place(label), theirs, release)
            return inserted == 1

        return self._attempt(insert)

    def _differences(self, label: str, release: pf.Release) -> list[str]:
        ((_, *tables),) = self._rows(_ROW, label)
        return [] if tables == _tables(release) else ["its row has other numbers"]

    def _rows(self, query: str, *values: str | int) -> list[tuple[Any, ...]]:
        """Return the rows that a query finds; none where there is no file yet, since looking makes none."""
        if not self._file.exists():
            return []
        return self._attempt(lambda database: database.execute(query, values).fetchall())

    def _attempt(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of a transaction; what fails may go well later, and the driver's own words are not told."""
        try:
            with closing(sqlite3.connect(self._file)) as database, database:
                database.execute(_TABLE)
                return work(database)
        except sqlite3.Error as error:
            kind = type(error).__name__
        raise pf.SinkError(
            f"The file {self._file.name[:200]!r} could not be read or written: {kind}.",
            allowed="a SQLite file that can be written",
            instead="running the job again",
        )


def _tables(release: pf.Release) -> list[str]:
    """Return the numbers, and their error bars with their limits, as CSV."""
    return [release.frame.write_csv(), release.ends.write_csv()]
