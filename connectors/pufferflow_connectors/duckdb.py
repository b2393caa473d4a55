"""The engine that leaves rows in DuckDB: relations, tables of databases, and files."""

import secrets
from collections.abc import Hashable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, cast, final
from urllib.parse import unquote, urlsplit

import duckdb
import polars as pl

import pufferflow as pf
from pufferflow.plugins import Backend, PufferflowError, Query, RemoteTable, SourceError, sandboxed
from pufferflow_connectors.sql import Dialect, Halves, kinds_of, query_text

DIALECT: Final = Dialect(
    name="DuckDB",
    float_type="DOUBLE",
    binary="{} COLLATE C",
    count="COUNT_IF({})",
    halves=Halves("({} // {})", "({} % {})"),  # sums of whole numbers have 128 bits
)
_PARQUET: Final = ".parquet"
_FILES: Final = (_PARQUET, ".arrow")
_TYPELESS: Final = (".csv", ".tsv", ".json", ".ndjson")
"""Files that do not say of what types their columns are."""
_ROWS: Final = "pufferflow_rows"
_KNOWN: Final = {
    *(
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "UTINYINT",
        "USMALLINT",
        "UINTEGER",
        "UBIGINT",
    ),
    *("FLOAT", "DOUBLE", "VARCHAR", "DATE", "TIME"),
    *("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"),
}
"""The types with a meaning here, beside decimals and labels of a list."""
_BATCH: Final = 2**17
_FUNCTIONS: Final = "SELECT DISTINCT function_name FROM system.main.duckdb_functions() WHERE {}"
"""What has no operator and no function that a macro could replace."""


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
        self, table: Any, relation: duckdb.DuckDBPyRelation, few: pl.DataFrame | None = None
    ) -> None:
        self._table, self._relation, self._few = table, relation, few

    @property
    def table(self) -> Any:
        return self._table

    @property
    def version(self) -> str:
        return duckdb.__version__

    @property
    def settings(self) -> Hashable:
        listed = "SELECT md5(string_agg(concat_ws('=', name, value), ';' ORDER BY name)) FROM duckdb_settings()"
        return self.name, self.version, str(self._reader(listed, _ROWS).read_all()[0][0])

    def schema(self) -> pl.Schema:
        return self._schema

    @cached_property
    def _schema(self) -> pl.Schema:
        if self._few is not None:
            return self._few.schema
        unreadable = self.unreadable()
        names = [DIALECT.quoted(name) for name in self._relation.columns if name not in unreadable]
        if not names:
            return pl.Schema()
        view = _free_name()
        text = f"SELECT {', '.join(names)} FROM {DIALECT.quoted(view)} LIMIT 0"  # noqa: S608 - names are quoted
        known = pl.DataFrame(self._reader(text, view).read_all()).schema
        return pl.Schema({name: _in_utc(dtype) for name, dtype in known.items()})

    def unreadable(self) -> Mapping[str, str]:
        columns = zip(self._relation.columns, map(str, self._relation.types), strict=True)
        return {
            name: kind
            for name, kind in columns
            if not (kind in _KNOWN or kind.startswith(("DECIMAL(", "ENUM(")))
        }

    def run(self, query: Query) -> Iterator[pl.DataFrame]:
        view = _free_name()
        reader = self._reader(self._text(query, view), view)
        yield pl.DataFrame(reader.schema.empty_table())
        for batch in reader:
            yield pl.DataFrame(batch)

    def with_rows(self, rows: pl.DataFrame) -> "DuckDb":
        return DuckDb(self._table, self._relation, rows)

    def text(self, query: Query) -> str:
        return self._text(query, _ROWS)

    def _text(self, query: Query, view: str) -> str:
        few = (
            ""
            if self._few is None
            else f"({DIALECT.rows_of(self._few)}) AS {DIALECT.quoted('few')}"
        )
        return query_text(query, few or DIALECT.quoted(view), kinds_of(self.schema()), DIALECT)

    def _reader(self, text: str, view: str) -> Any:
        """Return the result of a statement in which the relation has a name, run by its own connection."""
        self._check_functions(view)
        return cast(Any, self._relation.query(view, text)).to_arrow_reader(_BATCH)

    def _check_functions(self, view: str) -> None:
        """Refuse a connection on which a user's macros or functions replace those that are used here."""
        own = self._functions(view, "NOT internal")
        taken = sorted(own & self._functions(view, "internal")) if own else []
        if taken:
            raise SourceError(
                f"The connection has a macro or function {taken[0][:60]!r}, which is read in place of DuckDB's own. "
                "Nothing was released.",
                allowed="macros and functions under names that DuckDB itself does not have",
                instead=f'DROP MACRO "{taken[0][:60]}", or a connection without it',
            )

    def _functions(self, view: str, condition: str) -> set[str]:
        names: list[tuple[str]] = cast(
            Any, self._relation.query(view, _FUNCTIONS.format(condition))
        ).fetchall()
        return {str(name).lower() for (name,) in names}


def _free_name() -> str:
    """Return a name that no table has: it would be read in place of the relation."""
    return f"{_ROWS}_{secrets.token_hex(8)}"


def _in_utc(dtype: pl.DataType) -> pl.DataType:
    """Return a type whose moments do not depend on the time zone of the session."""
    if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
        return pl.Datetime(dtype.time_unit, "UTC")
    return dtype


def _relation(table: RemoteTable) -> duckdb.DuckDBPyRelation:
    """Return a table of a database file, or of files, on a connection of its own, which only reads."""
    path = _path_of(table)
    connection = sandboxed(lambda: _open(path), lambda kind: _not_opened(path, kind))
    if not table.name:
        return connection.sql("SELECT 1 AS one")
    if table.name.lower().endswith(_TYPELESS):
        raise _guessed(table)
    name = DIALECT.quoted_path(table.name)
    if table.name.lower().endswith(_FILES):
        name = DIALECT.text_of(_in_folder(table, table.name))
    if table.name.lower().endswith(
        _PARQUET
    ):  # a folder kw=4/ would take the place of a column of the rows
        name = f"read_parquet({name}, hive_partitioning = false)"
    return sandboxed(lambda: connection.sql(f"FROM {name}"), lambda kind: _no_table(table, kind))


def _path_of(table: RemoteTable) -> str:
    """Return the path of a database, empty for none: relative after three slashes, absolute after four.

    After three slashes it is absolute too if there is such a file and no relative one, as older versions read it.
    """
    parts = urlsplit(table.address)
    if parts.netloc:
        raise pf.UsageError(
            f"The address names a host, {unquote(parts.netloc)[:100]!r}, and DuckDB has files.",
            allowed="duckdb:///power.db for a path that is relative, duckdb:////data/power.db for one that is absolute",
            instead=f'"duckdb:///{unquote(parts.netloc + parts.path)[:100]}"',
        )
    given = unquote(parts.path)
    path = _in_folder(table, given.removeprefix("/"))
    return given if given and not Path(path).exists() and Path(given).is_file() else path


def _in_folder(table: RemoteTable, path: str) -> str:
    """Return a path that is relative to the folder of a table; an address of files stays as it is."""
    return str(Path(table.folder) / path) if path and table.folder and "://" not in path else path


def _open(path: str) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(path or ":memory:", read_only=bool(path))


def _not_opened(path: str, kind: str) -> PufferflowError:
    there = "cannot be opened" if Path(path).exists() else "is not there"
    return SourceError(
        f"The database {str(Path(path).absolute())[-200:]!r} {there} ({kind}). Nothing was released.",
        allowed="a DuckDB file that no other process writes to",
        instead='"duckdb:///power.db" for a relative path, "duckdb:////data/power.db" for an absolute one, or '
        '"duckdb:" for files alone',
    )


def _guessed(table: RemoteTable) -> PufferflowError:
    """Refuse types that rows decide; `trim` keeps DuckDB from casting in its reader, where one text fails for all."""
    name = table.name[-200:]
    if name.lower().endswith(("csv", "tsv")):
        texts = f"read_csv({name!r}, all_varchar = true)"
    else:
        texts = f"read_json_auto({name!r}, columns = {{'kw': 'VARCHAR'}})"
    return pf.UsageError(
        f"The types of {name!r} would be guessed from its rows, which are private: one of them could change those of "
        "all, or stop a release.",
        allowed="files that say their types, such as Parquet, or a relation that reads texts and casts them",
        instead=f'connection.sql("SELECT TRY_CAST(trim(kw) AS DOUBLE) AS kw FROM {texts}")',  # noqa: S608 - words
    )


def _no_table(table: RemoteTable, kind: str) -> PufferflowError:
    return SourceError(
        f"There is no table {table.name[:100]!r} that can be read ({kind}). Nothing was released.",
        allowed="a table or a view of the database, or files",
        instead='pf.table("duckdb:///power.db", "schema.meters"), or pf.table("duckdb:", "data/*.parquet")',
    )
