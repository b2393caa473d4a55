"""The sink that is a Delta table: a release is one commit, whose transaction id is that of the release.

Two commits may have one transaction id and be based on the same version. Then Delta accepts the first and refuses the
second, which finds the rows of the first.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, final

import polars as pl
from msgspec import Meta

from pufferflow.plugins import (
    MOST_NEW,
    Options,
    TomlTable,
    local_path,
    looked_up,
    resolved,
    scheme_of,
    with_variables,
)
from pufferflow_connectors.sinks.failures import check_installed, kind_of
from pufferflow_connectors.sinks.flat import RELEASE
from pufferflow_connectors.sinks.lake import (
    CERTIFICATE,
    ENTRY,
    ID,
    MOST_LOOKED,
    LakeSink,
    columns_with_own,
    to_arrow,
)
from pufferflow_connectors.sinks.object_store import check_store_address

if TYPE_CHECKING:
    import deltalake


@final
class DeltaTable(TomlTable, frozen=True):
    """Where releases go: a Delta table, a commit for each period."""

    path: Annotated[
        str, Meta(min_length=1, description="the table's folder, or s3://bucket/table and the like")
    ]
    options: Options | None = None

    def check_address(self) -> None:
        if address := resolved(self.path):
            _place(address, Path())

    def check_columns(self, columns: pl.Schema) -> None:
        columns_with_own(columns)

    def open(self, folder: Path, job: str) -> "DeltaSink":
        check_installed("deltalake", "delta")
        return DeltaSink(
            _place(with_variables(self.path), folder), _texts(looked_up(self.options)), job
        )


@final
class DeltaSink(LakeSink["deltalake.DeltaTable"]):
    """Releases of a job in a Delta table."""

    def __init__(self, place: str, options: dict[str, str], job: str) -> None:
        super().__init__(place, job)
        self._options = options

    def _open(self) -> "deltalake.DeltaTable | None":
        import deltalake
        from deltalake.exceptions import TableNotFoundError

        if scheme_of(self._root) is None and not Path(self._root).is_dir():
            return None
        try:
            return deltalake.DeltaTable(self._root, storage_options=self._options or None)
        except TableNotFoundError:
            return None

    def _create(self, columns: pl.Schema) -> None:
        import deltalake

        schema = deltalake.Schema.from_arrow(to_arrow(pl.DataFrame(schema=columns)).schema)
        deltalake.DeltaTable.create(
            self._root, schema, mode="ignore", storage_options=self._options or None
        )

    def _columns(self, table: "deltalake.DeltaTable") -> pl.Schema:
        return self._scan(table).collect_schema()

    def _rows(self, table: "deltalake.DeltaTable", name: str, columns: pl.Schema) -> pl.DataFrame:
        return self._scan(table).filter(pl.col(RELEASE) == name).select(columns.names()).collect()

    def _names(self, table: "deltalake.DeltaTable") -> pl.DataFrame:
        return self._scan(table).select(RELEASE, CERTIFICATE).collect()

    def _all(self, table: "deltalake.DeltaTable") -> pl.DataFrame:
        return self._scan(table).collect()

    def _append(
        self, table: "deltalake.DeltaTable", name: str, rows: pl.DataFrame, entry: str
    ) -> bool:
        import deltalake
        from deltalake.exceptions import CommitFailedError

        transaction = f"pufferflow:{name}"
        number = (table.transaction_version(transaction) or 0) + 1
        properties = deltalake.CommitProperties(
            custom_metadata={ID: name, ENTRY: entry},
            app_transactions=[deltalake.Transaction(transaction, number)],
        )
        try:
            deltalake.write_deltalake(
                table, to_arrow(rows), mode="append", commit_properties=properties
            )
        except CommitFailedError:
            return False
        return True

    def _recent(self, table: "deltalake.DeltaTable") -> Iterable[tuple[str, str]]:
        commits = [commit for commit in table.history(MOST_LOOKED) if ID in commit]
        return [(str(commit[ID]), str(commit.get(ENTRY, ""))) for commit in commits[:MOST_NEW]]

    def _reason(self, error: Exception) -> str:
        text, kind = str(error), kind_of(error)
        if kind == "SchemaMismatchError":
            return "the table has other columns"
        if "error sending request" in text:
            return "it cannot be reached"
        if "NoSuchBucket" in text:
            return "there is no such bucket or container"
        return ""

    def _scan(self, table: "deltalake.DeltaTable") -> pl.LazyFrame:
        return pl.scan_delta(table, storage_options=self._options or None)


def _place(path: str, folder: Path) -> str:
    """Return where a table is: an address unchanged, a path relative to the folder of the job."""
    if scheme_of(path) is not None:
        return check_store_address(path)
    return str(folder / local_path(path, "The sink").expanduser())


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }
