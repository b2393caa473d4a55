"""The sink that is one SQLite file with a row for each release: its numbers as CSV, and its certificate."""

import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, ClassVar, Final, final

import polars as pl
from msgspec import Meta

from pufferflow.addresses import local_path
from pufferflow.errors import InternalError, Misuse, SinkFailed
from pufferflow.jobs.sink import Sink
from pufferflow.jobs.toml import TomlTable, resolved, with_variables
from pufferflow.release import Release, check

_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS releases (label TEXT PRIMARY KEY, entry TEXT, numbers TEXT, certificate TEXT)"
)
_NEWEST: Final = "SELECT label, entry FROM releases ORDER BY rowid DESC LIMIT 8"


@final
class DatabaseTable(TomlTable, frozen=True):
    """Where releases go: a SQLite file with a row for each period."""

    file: Annotated[str, Meta(min_length=1)]

    def check_address(self) -> None:
        local_path(resolved(self.file), "The sink")

    def check_keys(self, schema: pl.Schema) -> None:
        check(schema, "csv")

    def open(self, folder: Path) -> "DatabaseSink":
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
        return any(self._rows("SELECT label FROM releases WHERE label = ?", label))

    def newest(self) -> Iterator[tuple[str, str]]:
        """Yield the rows that were inserted last."""
        for label, entry in self._rows(_NEWEST):
            yield self.place(label), entry

    def send(self, label: str, release: Release) -> bool:
        certificate = release.certificate
        row = label, certificate.entry, release.frame.write_csv(), certificate.to_json()
        with self._opened() as database:
            inserted = database.execute("INSERT OR IGNORE INTO releases VALUES (?, ?, ?, ?)", row).rowcount
            (entry,) = database.execute("SELECT entry FROM releases WHERE label = ?", (label,)).fetchone()
        if entry != certificate.entry:
            raise Misuse(
                f"The row {self.place(label)!r} has another release.",
                allowed="a sink of this account alone",
                instead="another file for [sink]",
            )
        return inserted == 1

    def lacks_page(self, label: str) -> bool:
        return False

    def add(self, label: str, name: str, body: bytes) -> None:
        raise InternalError("A sink without pages was given one.", instead="reporting it")

    def _rows(self, query: str, *values: str) -> list[tuple[str, ...]]:
        """Return the rows that a query finds; none where there is no file yet, since looking makes none."""
        if not self._file.exists():
            return []
        with self._opened() as database:
            return database.execute(query, values).fetchall()

    @contextmanager
    def _opened(self) -> Generator[sqlite3.Connection]:
        """Open the file for one transaction; what fails may go well later."""
        try:
            with closing(sqlite3.connect(self._file)) as database, database:
                database.execute(_TABLE)
                yield database
        except sqlite3.Error as error:
            raise SinkFailed(
                f"The file {self._file.name[:200]!r} could not be read or written: {type(error).__name__}.",
                allowed="a SQLite file that can be written",
                instead="running the job again",
            ) from None
