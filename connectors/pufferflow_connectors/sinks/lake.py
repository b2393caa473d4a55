"""What Delta and Iceberg sinks have in common: a release is one commit of rows to one table, with its certificate.

The certificate is in a column, in the first row of its release. So it stays with its rows, even if logs and snapshots
expire, and no reader sees one without the other. A release without rows is one row with only its id and certificate. A
commit is based on the version of the table that was read. If another one came first, the table is read again.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, ClassVar, Final, Generic, TypeVar, cast

import polars as pl

import pufferflow as pf
from pufferflow.plugins import Copy, Sink, entry_in, other_release, place_taken, release_id
from pufferflow_connectors.sinks.failures import attempt, failed
from pufferflow_connectors.sinks.flat import OWN, RELEASE, ROW, Names, flat, plain_columns, same

T = TypeVar("T")
Table = TypeVar("Table")
CERTIFICATE: Final = "certificate"
NAMES: Final = Names(reserved=(*OWN, CERTIFICATE), never=("\0", *" ,;{}()\n\t="))
"""Signs that readers of Parquet tables, such as Spark, refuse in names of columns."""
ID, ENTRY = "pufferflow.published-id", "pufferflow.entry"
"""The names under which a commit says which release it is."""
_ATTEMPTS: Final = 20
MOST_LOOKED: Final = 100
"""How many of the last commits are searched for the newest releases."""


def columns_with_own(columns: pl.Schema) -> pl.Schema:
    """Return the columns of a table for releases with such columns."""
    plain = plain_columns(columns, NAMES)
    return pl.Schema({RELEASE: pl.String(), ROW: pl.Int64(), **plain, CERTIFICATE: pl.String()})


def rows_of(release: pf.Release, name: str) -> pl.DataFrame:
    """Return the rows of a release, the certificate in the first.

    There is a first row always: one without a number if the release has none.
    """
    rows = flat(release, name)
    if rows.is_empty():
        rows = rows.clear(1).with_columns(pl.lit(name).alias(RELEASE))
    first = pl.Series(
        CERTIFICATE, [release.certificate.to_json(), *[None] * (rows.height - 1)], dtype=pl.String
    )
    return rows.with_columns(first)


def to_arrow(rows: pl.DataFrame) -> Any:
    """Return rows as a table of pyarrow, which has no types of its own."""
    return cast(Any, rows).to_arrow()


class LakeSink(Sink, Generic[Table]):
    """Releases of a job in one table: each is a commit, which is made once."""

    noun: ClassVar = "table"

    def __init__(self, root: str, job: str) -> None:
        self._root, self._job = root, job

    # What tables differ in

    @abstractmethod
    def _open(self) -> Table | None:
        """Return the table as it is now; None if there is none."""

    @abstractmethod
    def _create(self, columns: pl.Schema) -> None:
        """Make the table."""

    @abstractmethod
    def _columns(self, table: Table) -> pl.Schema:
        """Return the columns of a table."""

    @abstractmethod
    def _rows(self, table: Table, name: str, columns: pl.Schema) -> pl.DataFrame:
        """Return the rows of a release in any order, with these columns."""

    @abstractmethod
    def _names(self, table: Table) -> pl.DataFrame:
        """Return the ids of all rows, with their certificates."""

    @abstractmethod
    def _all(self, table: Table) -> pl.DataFrame:
        """Return all rows with all columns, in any order."""

    @abstractmethod
    def _append(self, table: Table, name: str, rows: pl.DataFrame, entry: str) -> bool:
        """Commit the rows of a release on top of the table as it was opened; False if another commit came first."""

    @abstractmethod
    def _recent(self, table: Table) -> Iterable[tuple[str, str]]:
        """Return ids and entries of the releases that were committed last, newest first."""

    @abstractmethod
    def _reason(self, error: Exception) -> str:
        """Return an error in plain words; empty if only its class can be shown."""

    # What they have in common

    @property
    def root(self) -> str:
        return self._root

    def place(self, label: str) -> str:
        return self._place_of(release_id(self._job, label))

    def has(self, label: str) -> bool:
        name = release_id(self._job, label)
        stored = self._read(
            lambda table: self._rows(table, name, pl.Schema({RELEASE: pl.String()}))
        )
        return stored is not None and not stored.is_empty()

    def newest(self) -> Iterator[tuple[str, str]]:
        """Yield the releases of the last commits; of a table whose log has expired, those with the last ids."""
        recent = self._read(lambda table: list(self._recent(table))) or [
            (name, entry_in((text or "").encode())) for name, text in reversed(self._certificates())
        ]
        for name, entry in recent:
            yield self._place_of(name), entry

    def copies(self) -> Iterable[Copy]:
        return [
            Copy(
                name,
                self._place_of(name),
                None if text is None else text.encode(),
                partial(self._differences, name),
                release_id=name,
            )
            for name, text in self._certificates()
        ]

    def rows(self, *, insert: bool = False) -> pl.DataFrame | None:
        """Return all rows of the table: a release is one commit, so it is there whole, or not at all."""
        return self._read(self._all)

    def prepare(self, columns: pl.Schema) -> None:
        """Make the table unless it is there; refuse a table of that name with other columns."""
        wanted = columns_with_own(columns)
        self._attempt(lambda: self._check(wanted))

    def send(self, label: str, release: pf.Release) -> bool:
        name = release_id(self._job, label)
        rows = rows_of(release, name)
        self.prepare(rows.drop(*OWN, CERTIFICATE).schema)
        for _ in range(_ATTEMPTS):
            sent = self._attempt(lambda: self._send(name, rows, release))
            if sent is not None:
                return sent
        raise failed(self._root, "others wrote at the same time, again and again")

    def _send(self, name: str, rows: pl.DataFrame, release: pf.Release) -> bool | None:
        """Commit a release, or compare what is there with it; None if another commit came first."""
        table = self._open()
        if table is None:
            return None
        stored = _in_order(self._rows(table, name, rows.schema))
        if stored.is_empty():
            return (
                True if self._append(table, name, rows, release.certificate.entry or "") else None
            )
        if theirs := self._other(stored, rows, release):
            raise place_taken(self.noun, self._place_of(name), theirs, release)
        return False

    def _other(self, stored: pl.DataFrame, rows: pl.DataFrame, release: pf.Release) -> str:
        """Return in a few words whose rows are stored; empty if they are this release's."""
        certificates = stored[CERTIFICATE].drop_nulls()
        theirs = other_release(
            (certificates.item(0) if len(certificates) else "").encode(), release
        )
        return theirs or ("" if same(stored, rows) else "other numbers, or not all of them")

    def _check(self, wanted: pl.Schema) -> None:
        table = self._open() or self._created(wanted)
        there = {} if table is None else dict(self._columns(table))
        wrong = [name for name, dtype in wanted.items() if there.get(name) != dtype]
        if wrong:
            raise pf.UsageError(
                f"The table {self._root[-200:]!r} lacks the columns {', '.join(wrong)[:300]}, or has others.",
                allowed="a table that the job made itself, and one for each set of queries",
                instead="another place for it in [sink]",
            )

    def _created(self, wanted: pl.Schema) -> Table | None:
        """Return the table, made now; of several that make it at once, some fail, and find what another made."""
        try:
            self._create(wanted)
        except Exception:
            table = self._open()
            if table is None:
                raise
            return table
        return self._open()

    def _certificates(self) -> list[tuple[str, str | None]]:
        """Return all ids with the certificates among their rows, in order."""
        rows = self._read(self._names)
        found = dict[str, str | None]()
        for name, text in () if rows is None else rows.iter_rows():
            found[name] = text if text is not None else found.get(name)
        return sorted(found.items())

    def _differences(self, name: str, release: pf.Release) -> list[str]:
        rows = rows_of(release, name).drop(CERTIFICATE)
        stored = self._read(lambda table: self._rows(table, name, rows.schema))
        whole = stored is not None and same(_in_order(stored), rows)
        return [] if whole else ["its rows have other numbers, or are not all there, or twice"]

    def _place_of(self, name: str) -> str:
        return f"{self._root}#{name}"

    def _read(self, work: Callable[[Table], T]) -> T | None:
        """Return what work reads of the table as it is now; None if there is none."""

        def read() -> T | None:
            table = self._open()
            return None if table is None else work(table)

        return self._attempt(read)

    def _attempt(self, work: Callable[[], T]) -> T:
        return attempt(work, self._root, self._reason)


def _in_order(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.sort(ROW, nulls_last=True, maintain_order=True)
