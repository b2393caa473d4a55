"""The engine for warehouses that SQLAlchemy reaches: BigQuery, Snowflake, Databricks SQL and Redshift.

**Never run here**: these four were written from their documentation, and no test has seen one. Only the self-test,
which every engine has to pass before it reads a row, guards against a wrong number. The tests run the code below over
SQLite; they do not check the facts of the four.

The user installs the package with the SQLAlchemy dialect of a warehouse. There is no snapshot: a release compares the
public facts of its plan again. `${NAME}` in an address is looked up in the environment.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar, final

import polars as pl
import sqlalchemy as sa
from sqlalchemy.exc import NoSuchModuleError

from pufferflow.plugins import (
    Backend,
    PufferflowError,
    Query,
    RemoteTable,
    SourceError,
    with_variables,
)
from pufferflow_connectors.sql import PART, ColumnKind, Dialect, frames_of, kinds_of, query_text

T = TypeVar("T")
_TYPES: Final[dict[str, tuple[pl.DataType, ColumnKind]]] = {
    **dict.fromkeys(("BOOL", "BOOLEAN"), (pl.Boolean(), "boolean")),
    **dict.fromkeys(
        ("INT64", "BIGINT", "INT", "INTEGER", "SMALLINT", "TINYINT"), (pl.Int64(), "other")
    ),
    **dict.fromkeys(("FLOAT64", "DOUBLE", "DOUBLE PRECISION"), (pl.Float64(), "float")),
    **dict.fromkeys(
        ("FLOAT", "REAL"), (pl.Float64(), "single")
    ),  # of 32 bits in some warehouses: it is cast
    **dict.fromkeys(("STRING", "TEXT", "VARCHAR", "CHARACTER VARYING"), (pl.String(), "text")),
    **dict.fromkeys(
        ("DATETIME", "TIMESTAMP_NTZ", "TIMESTAMP WITHOUT TIME ZONE"), (pl.Datetime("us"), "other")
    ),
    "DATE": (pl.Date(), "other"),
}
"""Types with one meaning in all warehouses; TIMESTAMP, which has a zone in some, is not among them."""
_DECIMALS: Final = {"NUMERIC", "DECIMAL", "NUMBER", "BIGNUMERIC"}
_TYPE: Final = re.compile(
    r"(?P<name>[^(]*?)\s*(?:\((?P<precision>\d+)(?:\s*,\s*(?P<scale>\d+))?\))?"
)
_VERSION: Final = re.compile(r"\d+(\.\d+)*")


@final
@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of one warehouse.

    `columns` is the query for the columns of a table, in order: name, type, and precision and scale of decimals if the
    type does not say them. `{table}`, `{schema}` and `{database}` are texts. `{catalog}` is the first of three names,
    and `{within}` all names before that of the table; each has a point behind.
    """

    dialect: Dialect
    columns: str
    version: str = ""
    """The query for its version; empty where there is none."""
    package: str = ""
    """The package that has its dialect of SQLAlchemy."""


_LISTED: Final = (
    "SELECT column_name, {type} FROM {{catalog}}{view} WHERE table_schema = {{schema}} AND table_name = {{table}} "
    "ORDER BY ordinal_position"
)
BIGQUERY: Final = Facts(
    dialect=Dialect(
        name="BigQuery",
        quote="`",
        backslashes=True,
        escaped_names=True,
        float_type="FLOAT64",
        whole_type="INT64",
        text_type="STRING",
        boolean_type="BOOL",
        moment_type="DATETIME",
        decimal_type="NUMERIC({precision}, {scale})",
        values_in_from=False,
        binary="COLLATE({}, '')",
    ),
    columns=(
        "SELECT column_name, CASE data_type WHEN 'NUMERIC' THEN 'NUMERIC(38, 9)' ELSE data_type END, NULL, NULL "
        "FROM {within}INFORMATION_SCHEMA.COLUMNS WHERE table_name = {table} ORDER BY ordinal_position"
    ),
    package="sqlalchemy-bigquery",
)
SNOWFLAKE: Final = Facts(
    dialect=Dialect(
        name="Snowflake",
        backslashes=True,
        float_type="DOUBLE",
        moment_type="TIMESTAMP_NTZ",
        values_in_from=False,
        infinity="inf",
        binary="COLLATE({}, 'utf8')",
    ),
    columns=_LISTED.format(
        type="data_type, numeric_precision, numeric_scale", view="information_schema.columns"
    ),
    version="SELECT CURRENT_VERSION()",
    package="snowflake-sqlalchemy",
)
DATABRICKS: Final = Facts(
    dialect=Dialect(
        name="Databricks SQL",
        quote="`",
        backslashes=True,
        float_type="DOUBLE",
        text_type="STRING",
        moment_type="TIMESTAMP_NTZ",
        binary="{} COLLATE UTF8_BINARY",
    ),
    columns=_LISTED.format(type="full_data_type, NULL, NULL", view="information_schema.columns"),
    version="SELECT current_version().dbsql_version",
    package="databricks-sqlalchemy",
)
REDSHIFT: Final = Facts(
    dialect=Dialect(
        name="Redshift",
        backslashes=True,
        values_in_from=False,
        binary="(COLLATE({}, 'case_sensitive') || '.')",
        end_mark=".",  # blanks at the end of a text do not matter there
        flushes=True,
    ),
    columns=(
        "SELECT column_name, data_type, numeric_precision, numeric_scale FROM svv_columns WHERE "
        "table_catalog = {database} AND table_schema = {schema} AND table_name = {table} ORDER BY ordinal_position"
    ),
    version="SELECT version()",
    package="sqlalchemy-redshift",
)
WAREHOUSES: Final = {
    "bigquery": BIGQUERY,
    "snowflake": SNOWFLAKE,
    "databricks": DATABRICKS,
    "redshift": REDSHIFT,
}


def connect(table: object) -> "Warehouse | None":
    """Return the engine of a table at an address, whose scheme says which warehouse it is."""
    return Warehouse(table, WAREHOUSES[table.scheme]) if isinstance(table, RemoteTable) else None


def columns_text(name: str, facts: Facts) -> str:
    """Return the query for the columns of a table."""
    *before, table = name.split(".")
    text, quoted = facts.dialect.text_of, facts.dialect.quoted
    return facts.columns.format(
        table=text(table),
        schema=text(before[-1]) if before else "current_schema()",
        database=text(before[0]) if len(before) > 1 else "current_database()",
        catalog=f"{quoted(before[0])}." if len(before) > 1 else "",
        within="".join(f"{quoted(part)}." for part in before),
    )


class _Column(NamedTuple):
    """A column of the table, and its type there."""

    name: str
    type: str
    precision: Any
    scale: Any

    @property
    def typed(self) -> tuple[pl.DataType, ColumnKind] | None:
        """The type here, and what matters of it; None for a type without meaning here."""
        parts = _TYPE.fullmatch(str(self.type).upper())
        if parts is None or parts["name"] not in _DECIMALS:
            return None if parts is None else _TYPES.get(parts["name"])
        precision = int(parts["precision"] or self.precision or 0)
        scale = int(parts["scale"] or self.scale or 0)
        return (
            (pl.Decimal(precision, scale), "other")
            if scale <= precision and 0 < precision <= 38
            else None
        )


@final
class Warehouse(Backend):
    """A table or a view of a warehouse."""

    def __init__(
        self,
        table: RemoteTable,
        facts: Facts,
        server: sa.Engine | None = None,
        few: pl.DataFrame | None = None,
    ) -> None:
        self._table, self._facts, self._few = table, facts, few
        self._dialect = facts.dialect
        self._server = _server(table.address, facts) if server is None else server

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - one class for several machines
        return self._dialect.name

    @property
    def table(self) -> RemoteTable:
        return self._table

    @property
    def version(self) -> str:
        return self._version

    @cached_property
    def _version(self) -> str:
        if not self._facts.version:
            return "without a version"
        found = _VERSION.search(str(self._rows(self._facts.version)[0][0]))
        return found[0] if found else "of an unknown version"

    @property
    def settings(self) -> Hashable:
        return self.name, self._table.address, self.version, bool(self._table.name)

    @cached_property
    def _columns(self) -> list[_Column]:
        columns = [_Column(*row) for row in self._rows(columns_text(self._table.name, self._facts))]
        if not columns:
            raise _failed("there is no such table, or the user may not read it")
        return columns

    @property
    def has_nan(self) -> bool:
        return self._dialect.not_a_number != "NULL"

    @property
    def has_decimals(self) -> bool:
        return bool(self._dialect.decimal_type)

    def schema(self) -> pl.Schema:
        if self._few is not None:
            return self._few.schema
        return pl.Schema({one.name: one.typed[0] for one in self._columns if one.typed is not None})

    def unreadable(self) -> dict[str, str]:
        return {one.name: str(one.type) for one in self._columns if one.typed is None}

    def run(self, query: Query) -> Iterator[pl.DataFrame]:
        text, schema = self.text(query), self.schema()
        with _safely(self._server.connect) as connection:
            result = _safely(lambda: self._result(connection, text))
            cursor: Any = result.cursor
            names = [
                column[0] for column in cursor.description
            ]  # as they are quoted, whatever SQLAlchemy makes of them
            yield from frames_of(query, schema, names, _parts(result), self._dialect)

    def with_rows(self, rows: pl.DataFrame) -> "Warehouse":
        return Warehouse(self._table, self._facts, self._server, rows)

    def text(self, query: Query) -> str:
        if self._few is None:
            kinds: dict[str, ColumnKind] = {
                one.name: one.typed[1] for one in self._columns if one.typed is not None
            }
            return query_text(
                query, self._dialect.quoted_path(self._table.name), kinds, self._dialect
            )
        return query_text(
            query, self._few_rows(self._few), kinds_of(self._few.schema), self._dialect
        )

    def _few_rows(self, rows: pl.DataFrame) -> str:
        """Return few rows as they stand after FROM; with none of the table, so that they are read where that is."""
        text = self._dialect.rows_of(rows)
        if self._table.name:
            nothing, table = (
                ", ".join(["NULL"] * rows.width),
                self._dialect.quoted_path(self._table.name),
            )
            text = f"{text} UNION ALL SELECT {nothing} FROM {table} WHERE 1 = 0"  # noqa: S608 - names are quoted
        return f"({text}) AS {self._dialect.quoted('few')}"

    def _rows(self, text: str) -> list[Sequence[Any]]:
        with _safely(self._server.connect) as connection:
            return _safely(lambda: [tuple(row) for row in self._result(connection, text)])

    @staticmethod
    def _result(connection: sa.Connection, text: str) -> "sa.CursorResult[Any]":
        # without parameters, so that no driver takes a per cent sign for one
        return connection.exec_driver_sql(text, execution_options={"no_parameters": True})


def _parts(result: "sa.CursorResult[Any]") -> Iterator[Sequence[Sequence[Any]]]:
    while rows := _safely(lambda: result.fetchmany(PART)):
        yield rows


def _server(address: str, facts: Facts) -> sa.Engine:
    """Return the warehouse at an address; nothing is opened yet."""
    url = with_variables(address)
    reason = ""
    try:
        return sa.create_engine(url, hide_parameters=True)
    except (NoSuchModuleError, ImportError):  # whose words may hold a password, as those below
        reason = f"{facts.package!r}, which SQLAlchemy needs for it, is not installed"
    except Exception:  # noqa: BLE001 - of SQLAlchemy, of the package, or of the service's own client
        reason = f"{facts.package!r} takes no such address, or finds no credentials"
    raise SourceError(
        f"{facts.dialect.name} cannot be reached: {reason}. Nothing was released.",
        allowed="an address of SQLAlchemy, with the package of the warehouse",
        instead=f"pip install {facts.package}, and an address and credentials as its documentation shows them",
    )


def _safely(work: Callable[[], T]) -> T:
    """Return a result, or raise what may be said of an error: the name of its class, if that is no other package's."""
    kind = ""
    try:
        return work()
    except PufferflowError:
        raise
    except Exception as error:  # noqa: BLE001 - drivers raise all sorts, and each may quote a row
        named = type(error).__module__.partition(".")[0] in {"builtins", "sqlalchemy"}
        kind = type(error).__name__ if named else "an error of its own"
    raise _failed(f"the driver stopped with {kind}")


def _failed(reason: str) -> SourceError:
    return SourceError(
        f"The table could not be read: {reason}. Nothing was released.",
        allowed="a table or a view that the user of the address may read, by its name as it is stored",
        instead="the same query in the warehouse's own client, by a person who may see the rows",
    )
