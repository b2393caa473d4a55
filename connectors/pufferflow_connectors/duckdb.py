"""The engine that leaves rows in DuckDB: relations, tables of databases, and files."""

from collections.abc import Hashable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, cast, final
from urllib.parse import unquote, urlsplit

import duckdb
import polars as pl

from pufferflow.plugins import Backend, PufferflowError, Query, RemoteTable, SourceFailed, guarded
from pufferflow_connectors.sql import Dialect, kinds_of, query_text

DIALECT: Final = Dialect(name="DuckDB", float_type="DOUBLE", binary="{} COLLATE C")
_FILES: Final = (".parquet", ".csv", ".json", ".ndjson", ".arrow")
_VIEW: Final = "pufferflow_rows"
_BATCH: Final = 2**17


def connect(table: object) -> "DuckDb | None":
    """Return the engine of a relation, or of a table at an address; None for other things of DuckDB."""
    if isinstance(table, duckdb.DuckDBPyRelation):
        return DuckDb(table, table)
    if isinstance(table, RemoteTable):
        return DuckDb(table, _relation(table))
    return None


@final
class DuckDb(Backend):
    """A relation of DuckDB."""

    name: ClassVar = "DuckDB"

    def __init__(
        self, table: Any, relation: duckdb.DuckDBPyRelation, source: str = DIALECT.quoted(_VIEW), few: Any = None
    ) -> None:
        self._table, self._relation, self._source, self._few = table, relation, source, few

    @property
    def table(self) -> Any:
        return self._table

    @property
    def version(self) -> str:
        return duckdb.__version__

    @property
    def settings(self) -> Hashable:
        names = ("default_collation", "ieee_floating_point_ops", "integer_division", "old_implicit_casting", "TimeZone")
        listed = ", ".join(f"current_setting('{name}')" for name in names)
        return self.version, cast(Any, self._relation.query(_VIEW, f"SELECT {listed}")).fetchall()[0]

    def schema(self) -> pl.Schema:
        return self._schema

    @cached_property
    def _schema(self) -> pl.Schema:
        if self._few is not None:
            return self._few.schema
        known = pl.DataFrame(self._relation.limit(0).to_arrow_reader().schema.empty_table()).schema
        return pl.Schema({name: _in_utc(dtype) for name, dtype in known.items()})

    def run(self, query: Query) -> Iterator[pl.DataFrame]:
        # a statement on a view of the relation: its own connection runs it, with all that it has attached
        reader = cast(Any, self._relation.query(_VIEW, self.text(query))).to_arrow_reader(_BATCH)
        yield pl.DataFrame(reader.schema.empty_table())
        for batch in reader:
            yield pl.DataFrame(batch)

    def with_rows(self, rows: pl.DataFrame) -> "DuckDb":
        return DuckDb(self._table, self._relation, f"({DIALECT.rows_of(rows)}) AS {DIALECT.quoted('few')}", rows)

    def text(self, query: Query) -> str:
        return query_text(query, self._source, kinds_of(self.schema()), DIALECT)


def _in_utc(dtype: pl.DataType) -> pl.DataType:
    """Return a type whose moments do not depend on the time zone of the session."""
    zoned = isinstance(dtype, pl.Datetime) and dtype.time_zone is not None
    return pl.Datetime(dtype.time_unit, "UTC") if zoned else dtype


def _relation(table: RemoteTable) -> duckdb.DuckDBPyRelation:
    """Return a table of a database file, or of files, on a connection of its own, which only reads."""
    path = unquote(urlsplit(table.address).path)
    connection = guarded(lambda: _open(path), lambda kind: _not_opened(path, kind))
    if not table.name:
        return connection.sql("SELECT 1 AS one")
    files = table.name.lower().endswith(_FILES)
    name = DIALECT.text_of(table.name) if files else DIALECT.quoted_path(table.name)
    return guarded(lambda: connection.sql(f"FROM {name}"), lambda kind: _no_table(table, kind))


def _open(path: str) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(path or ":memory:", read_only=bool(path))


def _not_opened(path: str, kind: str) -> PufferflowError:
    there = "cannot be opened" if Path(path).exists() else "is not there"
    return SourceFailed(
        f"The database {path[-200:]!r} {there} ({kind}). Nothing was released.",
        allowed="a DuckDB file that no other process writes to",
        instead='pf.table("duckdb:///absolute/path.db", "meters"), or "duckdb:" for files alone',
    )


def _no_table(table: RemoteTable, kind: str) -> PufferflowError:
    return SourceFailed(
        f"There is no table {table.name[:100]!r} that can be read ({kind}). Nothing was released.",
        allowed="a table or a view of the database, or files",
        instead='pf.table("duckdb:///power.db", "schema.meters"), or pf.table("duckdb:", "data/*.parquet")',
    )
