"""Delta tables as sources: one version from plan to release, whatever is written to the table in between."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, final

import polars as pl
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from msgspec import Meta

import pufferflow as pf
from pufferflow.plugins import (
    Options,
    SourceError,
    SourceVersion,
    TomlTable,
    check_address,
    check_places,
    looked_up,
    placed,
    resolved,
    sandboxed,
    scheme_of,
)
from pufferflow_connectors.sources import whole_version

_SCHEMES: Final = ("s3", "s3a", "gs", "az", "adl", "abfs", "abfss", "file")


@final
class DeltaSource(TomlTable, frozen=True):
    """A Delta table, in the version that is the newest when a period is planned, or in a given one."""

    path: Annotated[
        str,
        Meta(
            min_length=1, description="the table's folder or address; {period} is the period's name"
        ),
    ]
    version: Annotated[int, Meta(ge=0, description="left out, the newest")] | None = None
    options: Options | None = None

    def __post_init__(self) -> None:
        """Refuse addresses that nothing reads."""
        check_address(self.path, _SCHEMES, "Delta")
        check_places(self.path, "path")

    def __repr__(self) -> str:
        """Show the table, without options, which may be credentials."""
        return f"DeltaSource({self.path!r})"

    def check_address(self) -> None:
        """Refuse an address that leads nowhere; variables that the environment lacks are left open."""
        check_address(resolved(self.path), _SCHEMES, "Delta")

    def rows(self, folder: Path, period: pf.Period) -> pl.LazyFrame:
        """Return the rows of one version, of which none is read here."""
        where = placed(self.path, period)
        check_address(where, _SCHEMES, "Delta")
        if scheme_of(where) is None:
            where = str(folder / Path(where).expanduser())
        return scan(where, self.version, options=looked_up(self.options))


def scan(
    path: str | Path, version: int | None = None, options: Mapping[str, Any] | None = None
) -> pl.LazyFrame:
    """Return one version of a Delta table, the newest if none is given; certificates say which.

    The frame, and all frames derived from it, stay at this version. No row is read, but files must be there.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> for level in (1, 2):
    ...     _ = pl.DataFrame({"level": [level]}).write_delta(folder, mode="append")
    >>> scan(folder, version=0).collect().height, scan(folder).collect().height
    (1, 2)
    """
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (options or {}).items()
    }
    table = sandboxed(lambda: _table(str(path), texts), _unreachable)
    if version is not None:
        _load(table, version)
    pinned = table.version()
    frame = sandboxed(
        lambda: pl.scan_delta(table, version=pinned, storage_options=dict(options or {}) or None)
    )
    sandboxed(frame.collect_schema, _unreadable)
    return whole_version(frame, frame, SourceVersion("delta", str(pinned)), table.table_uri)


def _table(path: str, options: dict[str, str]) -> DeltaTable:
    try:
        return DeltaTable(path, storage_options=options or None)
    except TableNotFoundError:
        pass
    raise SourceError(
        "There is no Delta table at the source's path. Nothing was released.",
        allowed="the folder that holds _delta_log",
        instead="another path, or running the job again when the table is there",
    )


def _load(table: DeltaTable, version: int) -> None:
    newest = table.version()
    if version > newest:
        raise pf.UsageError(
            f"The Delta table has no version {version}.",
            allowed=f"versions up to {newest}, which is the newest",
            instead="no version, which reads the newest",
        )
    sandboxed(lambda: table.load_as_version(version), lambda kind: _gone(version, kind))


def _gone(version: int, kind: str) -> SourceError:
    return SourceError(
        f"Version {version} of the Delta table is no longer in its log ({kind}). Nothing was released.",
        allowed="a version that was not cleaned up",
        instead="no version, which reads the newest",
    )


def _unreachable(kind: str) -> SourceError:
    return SourceError(
        f"The Delta table could not be opened ({kind}). Nothing was released.",
        allowed="a table that can be reached, and credentials that may read it",
        instead="checking the path and the options of the source",
    )


def _unreadable(kind: str) -> SourceError:
    return SourceError(
        f"The Delta table has a protocol or types that Polars does not read ({kind}), such as mapped columns.",
        allowed="tables of reader version 1, or 3 with deletion vectors or times without zone",
        instead='[source] kind = "sql", or an engine that reads the table',
    )
