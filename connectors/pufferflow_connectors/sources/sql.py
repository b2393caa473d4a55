"""A query of a database as a source: its answer is copied once, in batches; plan and release read the copy.

So all rows are of one moment of the database, and never all in memory. The period is a parameter of the query, not a
part of its text.

The copy is Parquet in the folder for temporary files (TMPDIR), and may be read by its owner alone. On Linux it has no
name: nobody else can open it, and nothing of it is left when the process ends, also by a kill or a power cut.
Elsewhere it has a name until it is closed.
"""

import os
import re
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, cast, final

import polars as pl
import pyarrow.parquet as pq  # pyright: ignore[reportMissingTypeStubs]
import sqlalchemy as sa
from msgspec import Meta
from polars.io.plugins import register_io_source
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

import pufferflow as pf
from pufferflow.plugins import (
    ColumnType,
    SourceError,
    TomlTable,
    dtypes_of,
    names_period,
    resolved,
    with_variables,
    word_of,
)
from pufferflow_connectors.sources.sql_values import frame_of

T = TypeVar("T")
_BATCH: Final = 50_000
_STREAMED: Final = {"yield_per": _BATCH}
_PLACE: Final = re.compile(r"(?P<quote>['\"]?)\{(?P<name>[^}]*)\}")
_MOMENTS: Final = ("start", "end", "begins", "ends")
_REASONS: Final = {
    "08": "the server cannot be reached, or closed the connection",
    "25006": "the query would write",
    "42501": "the server does not permit it",
    "42P01": "a table of the query is not there",
    "42703": "a column of the query is not there",
    "42": "the server does not understand the query",
    "57": "the server stopped the query, or closed the connection",
}
"""By SQLSTATE, or by its class, the first two characters: what a server says in words may quote rows."""
_FITTING: Final[Mapping[str, tuple[str, ...]]] = {
    "integer": ("int2", "int4", "int8", "numeric", "bool", "oid"),
    "float": ("float4", "float8", "numeric", "int2", "int4", "int8"),
    "text": ("text", "varchar", "name", "uuid"),
    "boolean": ("bool",),
    "date": ("date",),
    "datetime": ("timestamp",),
}
"""The types of PostgreSQL whose values a declared type can have."""
_CASTS: Final = {
    "integer": "CAST({} AS BIGINT)",
    "float": "CAST({} AS DOUBLE PRECISION)",
    "text": "CAST({} AS TEXT)",
    "boolean": "CAST({} AS BOOLEAN)",
    "date": "CAST({} AS DATE)",
    "datetime": "{} AT TIME ZONE 'Europe/Berlin'",
}


@final
class SqlSource(TomlTable, frozen=True):
    """A query of a SQL database that SQLAlchemy reaches."""

    address: Annotated[
        str,
        Meta(
            min_length=1,
            description="postgresql://…, sqlite:///file, or another of SQLAlchemy; ${NAME} is looked up",
        ),
    ]
    query: Annotated[
        str,
        Meta(
            min_length=1,
            description="SELECT …; {period} is its name, {period.start} and {period.end} its moments",
        ),
    ]
    columns: Annotated[
        dict[str, ColumnType],
        Meta(min_length=1, description="the columns that are read, with their types"),
    ]

    def __post_init__(self) -> None:
        """Refuse places that no period fills, and those in quotes."""
        for place in _PLACE.finditer(self.query):
            name = place["name"]
            known = names_period(name) or name in {f"period.{moment}" for moment in _MOMENTS}
            if not known or place["quote"]:
                raise pf.UsageError(
                    f"The query has {place['quote']}{{{name[:60]}}}.",
                    allowed="{period}, {period:%Y-%m}, {period.start} and {period.end}: parameters, without quotes",
                    instead='query = "SELECT … WHERE at >= {period.start} AND at < {period.end}"',
                )

    def __repr__(self) -> str:
        """Show the query, without the address, which may have a password."""
        return f"SqlSource({self.query!r})"

    def check_address(self) -> None:
        """Refuse an address that leads nowhere; variables that the environment lacks are left open."""
        if resolved(self.address):
            _url(resolved(self.address), Path())

    def rows(self, folder: Path, period: pf.Period) -> pl.LazyFrame:
        """Return a copy of the query's answer, which is gone with the last frame that reads it."""
        url = _url(with_variables(self.address), folder)
        return _attempt(lambda: self._copied(url, period))

    def _copied(self, url: sa.URL, period: pf.Period) -> pl.LazyFrame:
        _check_file(url)
        text, values = _bound(self.query, period)
        arguments = (
            {"connect_timeout": 10}
            if _is_postgresql(url) and "connect_timeout" not in url.query
            else {}
        )
        engine = sa.create_engine(
            url, poolclass=sa.NullPool, hide_parameters=True, connect_args=arguments
        )
        options: dict[str, Any] = {"postgresql_readonly": True} if _is_postgresql(url) else {}
        with engine.connect().execution_options(**options) as connection:
            for setting in _settings(url):
                connection.exec_driver_sql(setting)
            with closing(
                connection.execute(sa.text(text), values, execution_options=_STREAMED)
            ) as result:
                batches = self._batches(result, self._places(result, url))
                return copied(batches, pl.Schema(dtypes_of(self.columns)))

    def _places(self, result: "sa.CursorResult[Any]", url: sa.URL) -> list[int]:
        """Return where the declared columns are in the answer; refuse types that cannot be read as declared."""
        if not result.returns_rows:
            raise pf.UsageError(
                "The query gives no rows.",
                allowed="a query that reads",
                instead='query = "SELECT …"',
            )
        names = list(result.keys())
        for name, kind in self.columns.items():
            if names.count(name) != 1:
                raise pf.UsageError(
                    f"The query gives {'no' if name not in names else 'more than one'} column {name[:60]!r}.",
                    allowed="each declared column once",
                    instead=f"SELECT … AS {name[:60]}",
                )
            if _is_postgresql(url):
                _check_type(name, kind, _type_names(result)[names.index(name)])
        return [names.index(name) for name in self.columns]

    def _batches(self, result: "sa.CursorResult[Any]", places: list[int]) -> Iterator[pl.DataFrame]:
        for rows in result.partitions(_BATCH):
            yield frame_of(rows, places, self.columns)


def _bound(query: str, period: pf.Period) -> tuple[str, dict[str, Any]]:
    """Return a query with parameters for its period, and their values; other colons are what they are."""
    values = dict[str, Any]()

    def parameter(place: re.Match[str]) -> str:
        name, key = place["name"], f"period_{len(values)}"
        values[key] = (
            word_of(name, period)
            if names_period(name)
            else getattr(period, name.removeprefix("period."))
        )
        return f":{key}"

    return _PLACE.sub(parameter, re.sub(r"(?<!\{period):(?=\w)", r"\\:", query)), values


def _check_type(name: str, kind: ColumnType, given: str) -> None:
    if given in _FITTING[kind] or (kind == "text" and not given):  # an enumeration has no name here
        return
    instead = f"SELECT {_CASTS[kind].format(name[:60])} AS {name[:60]}"
    what = given or "a type of its own"
    if given == "bpchar":
        what = "CHAR(n), filled up with blanks"
    elif given == "timestamptz":
        what = "TIMESTAMP WITH TIME ZONE, which is another date and time in every zone"
    raise pf.UsageError(
        f"The column {name[:60]!r} is declared as {kind}, and is {what} in the database.",
        allowed=f"for {kind}: {', '.join(_FITTING[kind])}",
        instead=instead,
    )


def _type_names(result: "sa.CursorResult[Any]") -> list[str]:
    """Return what PostgreSQL calls the types of an answer; empty for types that are not its own."""
    from psycopg.postgres import types

    def named(oid: int) -> str:
        info = types.get(oid)
        return "" if info is None else info.name if oid != info.array_oid else f"{info.name}[]"

    cursor: Any = result.cursor
    return [named(column.type_code) for column in cursor.description]


def _is_postgresql(url: sa.URL) -> bool:
    return url.drivername == "postgresql+psycopg"


def _settings(url: sa.URL) -> tuple[str, ...]:
    """Return what makes a query read only, and the same in every session's zone."""
    if _is_postgresql(url):
        return ("SET LOCAL TIME ZONE 'UTC'",)
    return ("PRAGMA query_only = ON",) if url.drivername.startswith("sqlite") else ()


def _check_file(url: sa.URL) -> None:
    """Refuse a file of SQLite that is not there: it would be made."""
    if url.drivername.startswith("sqlite") and not Path(url.database or "").is_file():
        raise SourceError(
            "The source's file of SQLite is not there. Nothing was released.",
            allowed="a file that is there",
            instead="another path, or running the job again when it has come",
        )


def _url(address: str, folder: Path) -> sa.URL:
    """Return the address of a database whose driver is installed; a file of SQLite is relative to a folder."""
    url: sa.URL | None = None
    known = False
    try:
        url = sa.make_url(address)
        url = url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url
        url.get_dialect().import_dbapi()
        known = True
    except (
        ArgumentError,
        NoSuchModuleError,
        ValueError,
        ImportError,
    ):  # whose words may hold a password
        known = False
    if url is None or not known:
        lacks = url is not None and _is_postgresql(url)
        raise pf.UsageError(
            "The address of the source is not a database whose driver SQLAlchemy knows here.",
            allowed="postgresql://user:${PASSWORD}@host/database, sqlite:///file.db, or what has a driver here",
            instead='pip install ".[postgres]"' if lacks else 'address = "sqlite:///readings.db"',
        )
    if url.drivername.startswith("sqlite") and url.database:
        return url.set(database=str(folder / Path(url.database).expanduser()))
    return url


def _attempt(work: Callable[[], T]) -> T:
    """Return the result of a query, or raise that it failed, in words of ours."""
    try:
        return work()
    except pf.PufferflowError:
        raise
    except Exception as error:  # noqa: BLE001 - drivers raise all sorts, and each may quote a row
        reason = _reason_of(error)
    raise SourceError(
        f"The query of the source failed: {reason}. Nothing was released.",
        allowed="a database that can be reached, and a query that it answers to its end",
        instead="the query in the database's own client, by a person who may see the rows",
    )


def _reason_of(error: Exception) -> str:
    original: Any = getattr(error, "orig", None) or error
    state = str(getattr(original, "sqlstate", None) or "")
    if type(original).__module__.startswith("psycopg") and not state:
        return "the server cannot be reached, or refuses the user, the password or the database"
    known = _REASONS.get(state) or _REASONS.get(state[:2])
    if known is not None:
        return known
    named = type(original).__module__.partition(".")[0] in {
        "builtins",
        "sqlalchemy",
        "psycopg",
        "sqlite3",
        "pyarrow",
    }
    return type(original).__name__ if named else "an error of its own"


_OPEN_FILES: Final = Path("/proc/self/fd")


def copied(batches: Iterable[pl.DataFrame], schema: pl.Schema) -> pl.LazyFrame:
    """Return a frame of the rows of all batches, of which one at a time is in memory."""
    rows = _Copy(schema)
    rows.write(batches)
    # the plan of a frame keeps the function, and the function its file
    return register_io_source(rows.read, schema=schema, is_pure=True, explain_name="a private copy")


@final
class _Copy:
    """The file, while it is open."""

    def __init__(self, schema: pl.Schema) -> None:
        self._schema = schema
        unnamed = _OPEN_FILES.is_dir() and os.name == "posix"
        self._file: Any = tempfile.TemporaryFile() if unnamed else tempfile.NamedTemporaryFile()  # noqa: SIM115 - kept open
        weakref.finalize(self, self._file.close)
        self._path = str(_OPEN_FILES / str(self._file.fileno())) if unnamed else self._file.name

    def write(self, batches: Iterable[pl.DataFrame]) -> None:
        writer, empty = (
            cast(Any, pq).ParquetWriter,
            cast(Any, pl.DataFrame(schema=self._schema).to_arrow()),
        )
        with writer(self._file, empty.schema) as file:
            for batch in batches:
                file.write_table(batch.to_arrow())
        self._file.flush()

    def read(
        self,
        columns: list[str] | None,
        predicate: pl.Expr | None,
        rows: int | None,
        batch: int | None,
    ) -> Iterator[pl.DataFrame]:
        """Yield rows as Polars requests them."""
        scan = pl.scan_parquet(self._path, glob=False, hive_partitioning=False)
        if predicate is not None:
            scan = scan.filter(predicate)
        if columns is not None:
            scan = scan.select(columns)
        yield from (scan if rows is None else scan.head(rows)).collect_batches(
            maintain_order=True, chunk_size=batch
        )
