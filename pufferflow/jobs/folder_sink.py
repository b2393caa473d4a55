"""The sink that is a folder with one folder for each release."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, ClassVar, Literal, final

import polars as pl
from msgspec import Meta

from pufferflow.core.addresses import local_path
from pufferflow.jobs.sink import MOST_NEW, PAGE, Sink
from pufferflow.jobs.toml import TomlTable, resolved, with_variables
from pufferflow.published.copies import Copy
from pufferflow.published.files import CERTIFICATE, check_format
from pufferflow.published.folder import add, check_free, check_writable, copies_in, entry_of, send
from pufferflow.published.release import Release


@final
class FolderTable(TomlTable, frozen=True):
    """Where releases go: a folder with one folder for each period."""

    path: Annotated[str, Meta(min_length=1)] = "published"
    format: Literal["parquet", "csv", "ndjson"] = "parquet"
    report: Annotated[bool, Meta(description="whether a report for people is written beside the numbers")] = True

    def __post_init__(self) -> None:
        """Refuse addresses, for which a folder of that name would be made."""
        local_path(self.path, "The sink")

    def check_address(self) -> None:
        local_path(resolved(self.path), "The sink")

    def check_columns(self, columns: pl.Schema) -> None:
        check_format(columns, self.format)

    def open(self, folder: Path, job: str) -> "FolderSink":
        return FolderSink(folder / local_path(with_variables(self.path), "The sink").expanduser(), self)


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
        releases = [(folder.name, _written_at(folder)) for folder in folders if self.has(folder.name)]
        by_name = sorted(releases, key=lambda release: release[0])[-MOST_NEW:]
        by_time = sorted(releases, key=lambda release: release[1])[-MOST_NEW:]
        for label, _ in dict.fromkeys([*by_name[::-1], *by_time[::-1]]):
            yield self.place(label), entry_of(self._root / label)

    def copies(self) -> Iterable[Copy]:
        return copies_in(self._root)

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


def _written_at(folder: Path) -> float:
    with suppress(OSError):
        return (folder / CERTIFICATE).stat().st_mtime
    return 0.0
