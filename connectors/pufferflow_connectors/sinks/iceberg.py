"""The sink that is an Iceberg table: a release is one snapshot, based on the snapshot that was read.

If another snapshot came first, the catalog refuses the commit, and the table is read again. PyIceberg would retry by
itself, on top of the other snapshot, and publish a release twice: its retries are disabled.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, cast, final

import polars as pl
from msgspec import Meta

from pufferflow.plugins import MOST_NEW, Options, TomlTable, looked_up
from pufferflow_connectors.sinks.failures import check_installed
from pufferflow_connectors.sinks.flat import RELEASE
from pufferflow_connectors.sinks.lake import (
    CERTIFICATE,
    ENTRY,
    ID,
    LakeSink,
    columns_with_own,
    to_arrow,
)

_RETRIES: Final = "commit.retry.num-retries"
_REASONS: Final = {
    "NoSuchNamespaceError": "there is no such namespace",
    "UnauthorizedError": "the catalog does not accept the credentials",
    "ForbiddenError": "the catalog does not permit it",
    "ConnectionError": "it cannot be reached",
    "OperationalError": "the catalog's database cannot be read or written",
}


@final
class IcebergTable(TomlTable, frozen=True):
    """Where releases go: an Iceberg table, a snapshot for each period."""

    table: Annotated[str, Meta(pattern=r"^[^.]+(\.[^.]+)+$(?!\n)", description="namespace.table")]
    catalog: Annotated[
        str, Meta(min_length=1, description="the name of the catalog, as PyIceberg knows it")
    ] = "default"
    options: (
        Annotated[
            Options, Meta(description="properties of the catalog, such as type, uri and warehouse")
        ]
        | None
    ) = None

    def check_address(self) -> None:
        """Check nothing: the kinds of catalogs are PyIceberg's."""

    def check_columns(self, columns: pl.Schema) -> None:
        columns_with_own(columns)

    def open(self, folder: Path, job: str) -> "IcebergSink":
        check_installed("pyiceberg", "iceberg")
        return IcebergSink(self.catalog, self.table, looked_up(self.options), job)


@final
class IcebergSink(LakeSink[Any]):
    """Releases of a job in an Iceberg table."""

    def __init__(self, catalog: str, table: str, options: Mapping[str, Any], job: str) -> None:
        super().__init__(f"{catalog}:{table}", job)
        self._name, self._table, self._options = catalog, table, options

    @cached_property
    def _catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog(
            self._name, **{name: str(value) for name, value in self._options.items()}
        )

    def _open(self) -> Any:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            return self._catalog.load_table(self._table)
        except (NoSuchNamespaceError, NoSuchTableError):
            return None

    def _create(self, columns: pl.Schema) -> None:
        namespace, empty = self._table.rpartition(".")[0], pl.DataFrame(schema=columns)
        try:
            self._catalog.create_namespace_if_not_exists(namespace)
        except (
            Exception
        ):  # another process may have made it just now; catalogs report that in different ways
            if not self._catalog.namespace_exists(namespace):
                raise
        self._catalog.create_table_if_not_exists(self._table, to_arrow(empty).schema)

    def _columns(self, table: Any) -> pl.Schema:
        return _frame(table.schema().as_arrow().empty_table()).schema

    def _rows(self, table: Any, name: str, columns: pl.Schema) -> pl.DataFrame:
        from pyiceberg.expressions import EqualTo

        equal = cast(Any, EqualTo)
        scan = table.scan(row_filter=equal(RELEASE, name), selected_fields=tuple(columns.names()))
        return _frame(scan.to_arrow()).select(columns.names())

    def _names(self, table: Any) -> pl.DataFrame:
        scan = table.scan(selected_fields=(RELEASE, CERTIFICATE))
        return _frame(scan.to_arrow()).select(RELEASE, CERTIFICATE)

    def _all(self, table: Any) -> pl.DataFrame:
        return _frame(table.scan().to_arrow())

    def _append(self, table: Any, name: str, rows: pl.DataFrame, entry: str) -> bool:
        from pyiceberg.exceptions import CommitFailedException

        once = {
            **table.metadata.properties,
            _RETRIES: "0",
        }  # of this process: the table keeps its own
        table.metadata = table.metadata.model_copy(update={"properties": once})
        try:
            table.append(to_arrow(rows), snapshot_properties={ID: name, ENTRY: entry})
        except CommitFailedException:
            return False
        return True

    def _recent(self, table: Any) -> Iterable[tuple[str, str]]:
        summaries = [
            snapshot.summary.additional_properties
            for snapshot in table.snapshots()
            if snapshot.summary
        ]
        ours = [summary for summary in summaries if ID in summary]
        return [(summary[ID], summary.get(ENTRY, "")) for summary in ours[: -MOST_NEW - 1 : -1]]

    def _reason(self, error: Exception) -> str:
        return _REASONS.get(type(error).__name__, "")


def _frame(table: Any) -> pl.DataFrame:
    """Return an Arrow table as a frame; it has columns, so it is no series."""
    return pl.DataFrame(table)
