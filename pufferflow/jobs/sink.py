"""The interface to sinks, and the sink that is a folder with one folder for each release.

To add a sink, write a file with a `Sink`, and a `TomlTable` that is a `SinkTable`. Name it by an entry point in the
group `pufferflow.sinks`: `kind = "…"` in `[sink]` is then that name.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Protocol, final

import polars as pl
from msgspec import Meta

from pufferflow.core.errors import InternalError, SourceError, UsageError
from pufferflow.core.paths import local_path
from pufferflow.core.tables import with_texts
from pufferflow.jobs.toml import TomlTable, resolved, with_variables
from pufferflow.published.files import CERTIFICATE, Parts, check_format, read
from pufferflow.published.folder import (
    Copy,
    add,
    check_free,
    check_writable,
    copies_in,
    entry_of,
    send,
)
from pufferflow.published.release import Release

PAGE = "report.html"
RELEASE_COLUMN, ROW_COLUMN, CERTIFICATE_COLUMN = "release_id", "row_number", "certificate"
"""The columns of every table of releases."""
MOST_NEW = 8
"""How many of the newest releases are looked up, by each order that defines the newest."""


def release_id(job: str, label: str) -> str:
    """Return the id under which a job's release is kept, and known to sinks that several jobs may write to.

    >>> release_id("meters-daily", "2026-11-20.2")
    'meters-daily-2026-11-20.2'
    """
    return f"{job}-{label}"


class Sink(ABC):
    """Releases of one job, each at a place of its own by its label: "2026-11-20", or "2026-11-20.2" for a revision.

    A published release is never replaced by another one; the ledger's entry in the certificate identifies it. If a
    place cannot be read or written for a reason that may pass, a `SinkError` is raised, and the sink is tried again.
    Its message has no words of a server, since those may quote rows and passwords.
    """

    noun: ClassVar[str]
    """What a place is called in errors, such as "folder"."""

    @property
    @abstractmethod
    def root(self) -> str:
        """The whole sink, in words, without passwords."""

    @abstractmethod
    def place(self, label: str) -> str:
        """Return the place of a release in words; it need not be there yet."""

    @abstractmethod
    def has(self, label: str) -> bool:
        """Return whether a place has a release, of any job or ledger."""

    @abstractmethod
    def newest(self) -> Iterator[tuple[str, str]]:
        """Yield places of the newest releases, with the ledger's entry that each names; empty if it names none."""

    @abstractmethod
    def copies(self) -> Iterable[Copy]:
        """Return all that is published, to be compared with a ledger, even what has no certificate."""

    @abstractmethod
    def send(self, label: str, release: Release) -> bool:
        """Write a release unless it is there whole, and return whether anything was written; refuse another's place.

        No part of it is visible before it is whole, and a killed process leaves nothing that hinders a second one. Of
        two processes at once one writes, and the other finds what that one wrote.
        """

    def check_free(self, label: str) -> None:  # noqa: B027 - of most sinks, whatever is there is a release
        """Refuse a place that holds something other than a release, before one is drawn."""

    def prepare(self, columns: pl.Schema) -> None:  # noqa: B027 - not every sink has something to prepare
        """Refuse a place that cannot take a release with such columns, before it is drawn; make what it goes into."""

    def rows(self, *, insert: bool = False) -> pl.DataFrame | None:
        """Return the rows of all releases, for `pf.scan_release`; None if there is nothing.

        A row has `release_id`, `row_number`, keys, numbers, bars and limits. `certificate` is in the first row of each
        whole release. There is no such column if whatever can be seen is whole. Releases with other columns are
        refused, or get nulls to `insert`; a table has the same columns for all.
        """
        raise UsageError(
            f"The releases in {self.root[-200:]!r} cannot be read as one table.",
            allowed="sinks whose package can do that",
            instead='account.release("meters-2026-11-20"), from the ledger',
        )

    def lacks_page(self, label: str) -> bool:
        """Return whether a report is to be written beside a release; false for sinks without reports."""
        return False

    def add(self, label: str, name: str, body: bytes) -> None:
        """Write a report, or the evidence for it, beside a release; an older one of that name is replaced."""
        raise InternalError(
            "A sink without reports was given one.", instead="reporting it to the maintainers"
        )


class SinkTable(Protocol):
    """The keys that `[sink]` of a job file has for one kind of sink."""

    def check_address(self) -> None:
        """Refuse an unusable address; variables that the environment lacks are not checked."""
        ...

    def check_columns(self, columns: pl.Schema) -> None:
        """Refuse columns that the sink cannot store, before anything is drawn: keys, answers, bars and limits."""
        ...

    def open(self, folder: Path, job: str) -> Sink:
        """Return the sink of a job, given its name; paths are relative to the folder of the job file."""
        ...


@final
class FolderTable(TomlTable, frozen=True):
    """Where releases go: a folder with one folder for each period."""

    path: Annotated[str, Meta(min_length=1)] = "published"
    format: Literal["parquet", "csv", "ndjson"] = "parquet"
    report: Annotated[
        bool, Meta(description="whether a report for people is written beside the numbers")
    ] = True

    def __post_init__(self) -> None:
        """Refuse addresses: a folder of that name would be made."""
        local_path(self.path, "The sink")

    def check_address(self) -> None:
        local_path(resolved(self.path), "The sink")

    def check_columns(self, columns: pl.Schema) -> None:
        check_format(columns, self.format)

    def open(self, folder: Path, job: str) -> "FolderSink":
        return FolderSink(
            folder / local_path(with_variables(self.path), "The sink").expanduser(), self
        )


FolderTable.__name__ = "Sink"  # its name in the schemas of job files, which stay as they are


@final
class FolderSink(Sink):
    """A folder of releases, in one of the formats."""

    noun: ClassVar = "folder"

    def __init__(self, root: Path, table: FolderTable) -> None:
        self._root, self._format, self._report = root, table.format, table.report

    @property
    def root(self) -> str:
        return str(self._root)

    def place(self, label: str) -> str:
        return str(self._root / label)

    def has(self, label: str) -> bool:
        return (self._root / label / CERTIFICATE).exists()

    def newest(self) -> Iterator[tuple[str, str]]:
        """Yield the newest releases by their periods, then by when they were written."""
        folders = self._root.iterdir() if self._root.is_dir() else ()
        releases = [
            (folder.name, _written_at(folder)) for folder in folders if self.has(folder.name)
        ]
        by_name = sorted(releases, key=lambda release: release[0])[-MOST_NEW:]
        by_time = sorted(releases, key=lambda release: release[1])[-MOST_NEW:]
        for label, _ in dict.fromkeys([*by_name[::-1], *by_time[::-1]]):
            yield self.place(label), entry_of(self._root / label)

    def copies(self) -> Iterable[Copy]:
        return copies_in(self._root)

    def rows(self, *, insert: bool = False) -> pl.DataFrame | None:
        folders = sorted(self._root.iterdir()) if self._root.is_dir() else ()
        return rows_of_folders(folders, insert=insert)

    def send(self, label: str, release: Release) -> bool:
        return send(release, self._root / label, self._format)

    def check_free(self, label: str) -> None:
        check_free(self._root / label)

    def prepare(self, columns: pl.Schema) -> None:
        check_writable(self._root)

    def lacks_page(self, label: str) -> bool:
        return self._report and not (self._root / label / PAGE).exists()

    def add(self, label: str, name: str, body: bytes) -> None:
        add(self._root / label, name, body)


def rows_of_folders(folders: Iterable[Path], *, insert: bool = False) -> pl.DataFrame | None:
    """Return the rows of the whole releases among some folders, in the form of `Sink.rows`; None if there is none."""
    return rows_of_releases(
        [
            (folder.name or folder.resolve().name, str(folder), partial(read, folder))
            for folder in folders
            if not folder.name.startswith(".") and (folder / CERTIFICATE).is_file()
        ],
        insert=insert,
    )


def rows_of_releases(
    found: Iterable[tuple[str, str, Callable[[], Parts]]], *, insert: bool = False
) -> pl.DataFrame | None:
    """Return the rows of releases in the form of `Sink.rows`, given their labels, places, and how each is read.

    A release that cannot be read whole is an error. Releases with other columns are refused, or get nulls to `insert`.
    """
    tables = {label: _rows_of(label, _read_whole(place, load)) for label, place, load in found}
    return _together(tables, insert=insert) if tables else None


def _rows_of(label: str, parts: Parts) -> pl.DataFrame:
    """Return the rows of one release; categories, which belong to a table, as texts."""
    pairs = zip(parts.frame.columns, parts.ends.columns, strict=False)
    keys = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    rows = parts.frame.hstack(parts.ends.get_columns()[keys:])
    texts = [column.cast(with_texts(column.dtype, enums=True)) for column in rows.get_columns()]
    own = [
        pl.Series(RELEASE_COLUMN, [label] * rows.height, pl.String),
        pl.int_range(rows.height, dtype=pl.Int64, eager=True).alias(ROW_COLUMN),
    ]
    return pl.DataFrame([*own, *texts])


def _read_whole(place: str, load: Callable[[], Parts]) -> Parts:
    problem = "its tables have different numbers of rows."
    try:
        parts = load()
    except (SourceError, UsageError) as error:
        problem = error.problem
    else:
        if parts.frame.height == parts.ends.height:
            return parts
    raise SourceError(
        f"The release in {place[-200:]!r} is damaged: {problem}",
        allowed="releases as they were written",
        instead="moving it away and running its job again: the ledger keeps the release",
    )


def _together(found: Mapping[str, pl.DataFrame], *, insert: bool) -> pl.DataFrame:
    """Return the rows of several releases as one table."""
    first, types = next(iter(found)), dict[str, tuple[str, pl.DataType]]()
    for label, rows in found.items():
        for name, dtype in rows.schema.items():
            known, other = types.setdefault(name, (label, dtype))
            if dtype != other:
                raise _unlike(first, label, f"{name!r} is {other} in {known!r}, then {dtype}")
        differ = sorted(set(rows.columns) ^ set(found[first].columns))
        if differ and not insert:
            raise _unlike(first, label, f"one of them lacks {', '.join(map(repr, differ[:4]))}")
    return pl.concat(found.values(), how="diagonal")


def _unlike(first: str, second: str, how: str) -> UsageError:
    return UsageError(
        f"The releases {first[:60]!r} and {second[:60]!r} have different columns: {how}.",
        allowed="releases of the same queries; columns that some of them lack, if they are inserted",
        instead='missing_columns="insert", or pf.scan_release for each of the two folders',
    )


def _written_at(folder: Path) -> float:
    with suppress(OSError):
        return (folder / CERTIFICATE).stat().st_mtime
    return 0.0
