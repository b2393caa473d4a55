"""The engine that leaves rows in PostgreSQL: each reading is a read-only transaction on one version of the table."""

import threading
from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple, TypeVar, cast, final

import adbc_driver_manager
import polars as pl
import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]
from adbc_driver_postgresql import dbapi  # pyright: ignore[reportMissingTypeStubs]

import pufferflow as pf
from pufferflow.plugins import Backend, Query, RemoteTable, SourceError
from pufferflow_connectors.sql import ColumnKind, Dialect, Halves, kinds_of, query_text

T = TypeVar("T")
DIALECT: Final = Dialect(
    name="PostgreSQL",
    text_type="TEXT",
    binary='{} COLLATE "C"',
    flushes=True,
    halves=Halves("DIV({}, {})", "MOD({}, {})"),  # sums of whole numbers have no end
)
ARROW: Final[Any] = pa  # it ships no types
_BEGIN: Final = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "SET LOCAL client_encoding = 'UTF8'",
    "SET LOCAL standard_conforming_strings = on",
    "SET LOCAL TimeZone = 'UTC'",
)
"""One version of the table, whatever changes it; and no settings of a user or a database that texts depend on."""
_PINNED: Final = "SET LOCAL search_path = pg_catalog, pg_temp"
"""From here on functions, operators, types and collations are the server's own, whatever the user's path says."""
_PLACE: Final = """
    SELECT n.nspname::pg_catalog.text, c.relname::pg_catalog.text
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
    WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass({})::pg_catalog.oid
"""
_LONGEST_NAME: Final = 63
_PROBE: Final = (
    "SELECT SUM(CASE WHEN a > 1 THEN a ELSE 0 END), COUNT(*), MIN(DIV(SUM(a), 2)) OVER (), MIN(MOD(SUM(a), 4)) OVER () "
    "FROM (VALUES (CAST(1 AS BIGINT)), (CAST(2 AS BIGINT)), (CAST(4 AS BIGINT))) AS few (a)"
)
_PROBED: Final = (6, 3, 3, 3)
_COLUMNS: Final = """
    SELECT a.attname::text, t.typname::text, t.typtype::text, a.atttypmod::int
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = to_regclass({})::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_TYPES: Final[dict[str, tuple[pl.DataType, ColumnKind]]] = {
    "bool": (pl.Boolean(), "boolean"),
    "int2": (pl.Int16(), "other"),
    "int4": (pl.Int32(), "other"),
    "int8": (pl.Int64(), "other"),
    "float4": (pl.Float32(), "single"),
    "float8": (pl.Float64(), "float"),
    "text": (pl.String(), "text"),
    "varchar": (pl.String(), "text"),
    "date": (pl.Date(), "other"),
    "timestamp": (pl.Datetime("us"), "other"),
    "timestamptz": (pl.Datetime("us", "UTC"), "other"),
}
_REASONS: Final = {
    "28": "the server refuses the user or the password",
    "42501": "permission is denied",
    "42P01": "there is no such table",
    "3F": "there is no such schema",
    "3D": "there is no such database",
    "42703": "the table has other columns than before",
    "57014": "the server stopped the query, as when it takes too long",
    "57P": "the server shuts down",
    "53": "the server lacks memory, disk space or connections",
    "40": "the server aborted the transaction",
    "08": "the connection is lost",
    "probe": "the server does not add up three numbers",
    "stream": "the server or the connection stopped in the middle of an answer",
}
"""Texts for errors, by the beginning of their SQLSTATE; the server's own words may quote rows."""
_NO_STATE: Final = "the server cannot be reached, or refuses the user or the password"


def connect(table: object) -> "PostgreSql | None":
    """Return the engine of a table at an address."""
    return PostgreSql(table) if isinstance(table, RemoteTable) else None


class _Column(NamedTuple):
    """A column of the table: its type there, with the modifier that has the digits of a numeric."""

    name: str
    kind: str
    family: str
    modifier: int

    @property
    def typed(self) -> tuple[pl.DataType, ColumnKind] | None:
        """The type here, and what matters of it; None for a type without meaning here."""
        if self.kind == "numeric" and self.modifier >= 4:
            precision, scale = (self.modifier - 4) >> 16, (self.modifier - 4) & 0x7FF
            return (
                (pl.Decimal(precision, scale), "other")
                if precision <= 38 and scale <= precision
                else None
            )
        return (pl.String(), "label") if self.family == "e" else _TYPES.get(self.kind)


@final
class PostgreSql(Backend):
    """A table or a view of a database."""

    name: ClassVar = "PostgreSQL"

    def __init__(
        self, table: RemoteTable, source: str = "", few: pl.DataFrame | None = None
    ) -> None:
        self._table, self._few = table, few
        self._rows_given = source
        self._path: tuple[str, ...] | None = None
        self._here = threading.local()
        if long := [part for part in table.name.split(".") if len(part.encode()) > _LONGEST_NAME]:
            raise pf.UsageError(
                f"The name {long[0][:80]!r} has {len(long[0].encode())} bytes.",
                allowed=f"names of at most {_LONGEST_NAME} bytes: PostgreSQL cuts longer ones, and reads another table",
                instead="the name that \\d shows in psql",
            )

    @property
    def _source(self) -> str:
        """What is read: given rows, or the table, in the schema where it was found first."""
        if self._rows_given:
            return self._rows_given
        if self._path is None and self._table.name:
            with self.one_version():
                pass
        return (
            DIALECT.quoted_path(self._table.name)
            if self._path is None
            else ".".join(map(DIALECT.quoted, self._path))
        )

    @property
    def table(self) -> RemoteTable:
        return self._table

    @property
    def version(self) -> str:
        return self._version

    @cached_property
    def _version(self) -> str:
        return str(self._rows("SELECT current_setting('server_version')")[0][0])

    @property
    def settings(self) -> Hashable:
        return self.name, self._table.address, self.version

    @cached_property
    def _columns(self) -> list[_Column]:
        with self.one_version():
            columns = self._columns_now()
        if not columns:
            raise _failed("42P01")
        return columns

    def _columns_now(self) -> list[_Column]:
        return [_Column(*row) for row in self._rows(_COLUMNS.format(DIALECT.text_of(self._source)))]

    def schema(self) -> pl.Schema:
        if self._few is not None:
            return self._few.schema
        return pl.Schema({one.name: one.typed[0] for one in self._columns if one.typed is not None})

    def unreadable(self) -> dict[str, str]:
        return {one.name: one.kind for one in self._columns if one.typed is None}

    def run(self, query: Query) -> Iterator[pl.DataFrame]:
        text = self.text(query)
        with self.one_version(), self._cursor() as cursor:
            self._check_columns()
            _safely(lambda: cursor.execute(text))
            reader = _safely(cursor.fetch_record_batch)
            yield _frame(reader.schema.empty_table())
            while True:
                batch = _safely(lambda: next(reader, None))
                if batch is None:
                    return
                yield _frame(ARROW.Table.from_batches([batch]))

    def _check_columns(self) -> None:
        """Refuse a table whose columns have changed; from here to the end of the transaction they stay."""
        if self._few is None:
            self._rows(f"SELECT 1 AS held FROM {self._source} LIMIT 0")  # noqa: S608 - a quoted name
            if self._columns_now() != self._columns:
                raise _failed("42703")

    def with_rows(self, rows: pl.DataFrame) -> "PostgreSql":
        return PostgreSql(
            self._table, f"({DIALECT.rows_of(rows)}) AS {DIALECT.quoted('few')}", rows
        )

    def text(self, query: Query) -> str:
        return query_text(query, self._readable, self._kinds, DIALECT)

    @property
    def _readable(self) -> str:
        """What is read, with null for the NaN of a numeric: decimals have none, and no value may stop a query."""
        if self._few is not None or not any(one.kind == "numeric" for one in self._columns):
            return self._source
        columns = ", ".join(map(_never_nan, self._columns))
        return f"(SELECT {columns} FROM {self._source}) AS {DIALECT.quoted('read')}"  # noqa: S608 - quoted names

    @property
    def _kinds(self) -> dict[str, ColumnKind]:
        if self._few is not None:
            return kinds_of(self._few.schema)
        return {one.name: one.typed[1] for one in self._columns if one.typed is not None}

    @contextmanager
    def one_version(self) -> Generator[bool]:
        """Open a transaction, in which all queries see the table as it was at the first one."""
        if self._connection is not None:
            yield True
            return
        connection: Any = _safely(
            lambda: cast(Any, dbapi).connect(f"postgresql:{self._table.address.partition(':')[2]}")
        )
        try:
            self._here.connection = connection
            for text in _BEGIN:
                self._rows(text)
            self._pin()
            yield True
        finally:
            self._here.connection = None
            _quietly(connection.close)

    def _pin(self) -> None:
        """Find the table, then bind every other name to the server's own, and check that its functions add up."""
        if self._path is None and self._table.name and not self._rows_given:
            found = self._rows(
                _PLACE.format(DIALECT.text_of(DIALECT.quoted_path(self._table.name)))
            )
            self._path = tuple(found[0]) if found else None
        self._rows(_PINNED)
        if tuple(map(int, self._rows(_PROBE)[0])) != _PROBED:
            raise _failed("probe")

    @property
    def _connection(self) -> Any:
        """The connection that is open in this thread; None if there is none."""
        return getattr(self._here, "connection", None)

    @contextmanager
    def _cursor(self) -> Generator[Any]:
        cursor = _safely(self._connection.cursor)
        try:
            yield cursor
        finally:
            _quietly(cursor.close)

    def _rows(self, text: str) -> list[Any]:
        with self.one_version(), self._cursor() as cursor:
            _safely(lambda: cursor.execute(text))
            return _safely(cursor.fetchall) if cursor.description else []


def _never_nan(column: _Column) -> str:
    name = DIALECT.quoted(column.name)
    return f"NULLIF({name}, 'NaN'::numeric) AS {name}" if column.kind == "numeric" else name


def _frame(table: Any) -> pl.DataFrame:
    """Return a frame; a numeric comes as its text, in a type that only says so."""
    for place, field in enumerate(table.schema):
        if isinstance(field.type, ARROW.OpaqueType):
            column = ARROW.chunked_array(
                [part.storage for part in table.column(place).chunks], field.type.storage_type
            )
            table = table.set_column(place, field.name, column)
    return pl.DataFrame(table)


def _safely(work: Callable[[], T]) -> T:
    """Return a result, or raise an error without the server's own words."""
    try:
        return work()
    except adbc_driver_manager.Error as error:
        state = error.sqlstate or ""
    except (ARROW.ArrowException, OSError):  # what a stream raises, without a state
        state = "stream"
    raise _failed(state)


def _quietly(work: Callable[[], object]) -> None:
    try:
        work()
    except (adbc_driver_manager.Error, ARROW.ArrowException, OSError):
        return


def _failed(state: str) -> SourceError:
    reason = next((why for start, why in _REASONS.items() if state.startswith(start)), "")
    known = reason or (f"the server reports SQLSTATE {state}" if state else _NO_STATE)
    return SourceError(
        f"The table could not be read: {known}. Nothing was released.",
        allowed="a table or a view that the user of the address may read",
        instead="the same address and table in psql, which shows the server's own words",
    )
