"""Iceberg tables as sources: one snapshot from plan to release, whatever is written to the table in between."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, final

import polars as pl
from msgspec import Meta
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import StaticTable, Table

import pufferflow as pf
from pufferflow.plugins import (
    Options,
    SourceError,
    SourceVersion,
    TomlTable,
    check_places,
    looked_up,
    placed,
    sandboxed,
)
from pufferflow_connectors.sources import whole_version

_PLANNER: Final = "POLARS_ICEBERG_PLANNER"


@final
class IcebergSource(TomlTable, frozen=True):
    """An Iceberg table, in the snapshot that is the newest when a period is planned, or in a given one."""

    table: Annotated[
        str, Meta(min_length=1, description="namespace.table; {period} is the period's name")
    ]
    catalog: Annotated[
        str, Meta(min_length=1, description="the name of the catalog, as PyIceberg knows it")
    ] = "default"
    snapshot: Annotated[int, Meta(description="left out, the newest")] | None = None
    options: (
        Annotated[
            Options, Meta(description="properties of the catalog, such as type, uri and warehouse")
        ]
        | None
    ) = None

    def __post_init__(self) -> None:
        """Refuse places that no period fills."""
        check_places(self.table, "table")

    def __repr__(self) -> str:
        """Show the table, without the catalog's properties, which may be credentials."""
        return f"IcebergSource({self.table!r})"

    def check_address(self) -> None:
        """Check nothing: the kinds of catalogs are PyIceberg's."""

    def rows(self, folder: Path, period: pf.Period) -> pl.LazyFrame:
        """Return the rows of one snapshot, of which none is read here."""
        return scan(
            placed(self.table, period),
            self.snapshot,
            catalog=self.catalog,
            options=looked_up(self.options),
        )


def scan(
    table: str | Table,
    snapshot: int | None = None,
    *,
    catalog: str = "default",
    options: Mapping[str, Any] | None = None,
) -> pl.LazyFrame:
    """Return one snapshot of an Iceberg table, the newest if none is given; certificates say which.

    `table` is a table of PyIceberg, or its name in a catalog, whose properties are `options`. The frame, and all frames
    derived from it, stay at this snapshot. No row is read, but files must be there.
    """
    if (
        find_spec("polars_iceberg") is None
    ):  # PyIceberg finds the files then, of which Polars would warn each time
        os.environ.setdefault(_PLANNER, "pyiceberg")
    opened = sandboxed(lambda: _table(table, catalog, options or {}), _unreachable)
    chosen = _snapshot(opened, snapshot)

    def scanned(*, counts: bool) -> pl.LazyFrame:
        return pl.scan_iceberg(opened, snapshot_id=chosen, use_metadata_statistics=counts)

    frame = sandboxed(lambda: scanned(counts=True), _unreachable)
    if chosen is None:
        schema = sandboxed(frame.collect_schema, _unreachable)
        return pl.LazyFrame(schema=schema)  # a table that nothing was written to yet
    return whole_version(
        frame, scanned(counts=False), SourceVersion("iceberg", str(chosen)), opened.location()
    )


def _table(table: str | Table, catalog: str, options: Mapping[str, Any]) -> Table:
    if isinstance(table, StaticTable):
        return table
    if not isinstance(table, str):  # another value of it, which nobody else refreshes
        return table.catalog.load_table(table.name())
    try:
        return load_catalog(
            catalog, **{name: str(value) for name, value in options.items()}
        ).load_table(table)
    except (NoSuchTableError, NoSuchNamespaceError):
        pass
    raise SourceError(
        f"The catalog has no Iceberg table {table[:60]!r}. Nothing was released.",
        allowed="namespace.table, as the catalog has it",
        instead="another name, or running the job again when the table is there",
    )


def _snapshot(table: Table, asked: int | None) -> int | None:
    """Return the snapshot to read; None of a table that has none."""
    current = table.current_snapshot()
    if asked is None:
        return None if current is None else current.snapshot_id
    if table.snapshot_by_id(asked) is not None:
        return asked
    raise pf.UsageError(
        f"The Iceberg table has no snapshot {asked}: it has expired, or never was.",
        allowed="a snapshot that the table still has",
        instead="no snapshot, which reads the newest",
    )


def _unreachable(kind: str) -> SourceError:
    return SourceError(
        f"The Iceberg table could not be opened ({kind}). Nothing was released.",
        allowed="a catalog and files that can be reached, with credentials that may read them",
        instead="checking the options of the source",
    )
