"""The database of a SQL sink: its connections, its transactions, and its errors in plain words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

import polars as pl

import pufferflow as pf
from pufferflow.plugins import local_path, scheme_of, shown_address

if TYPE_CHECKING:
    import sqlalchemy as sa

T = TypeVar("T")
_WAIT: Final = 60
"""Seconds to wait for others that write at the same time."""
_SETTINGS: Final = (
    "SELECT set_config('TimeZone', 'UTC', true), set_config('lock_timeout', :wait, true), "
    "set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') "
    "THEN 'on' ELSE current_setting('synchronous_commit') END, true)"
)
_ALONE: Final = "SELECT pg_advisory_xact_lock(7246613002)"
"""Two that make a table at once would collide in the server's catalogue, even if not where it exists."""
_LEDGERS: Final = "SELECT 1 FROM sqlite_master WHERE name = 'pufferflow_events'"
_SQLITE: Final = {
    "BUSY": "others kept it locked for too long",
    "LOCKED": "others kept it locked for too long",
    "FULL": "the disk is full",
    "READONLY": "it may be read but not written",
    "CORRUPT": "the file is damaged",
    "NOTADB": "the file is no SQLite database",
    "CANTOPEN": "the file cannot be opened",
    "PERM": "the file cannot be opened",
    "IOERR": "the disk failed",
    "ERROR": "a table of that name is another one",
}
_POSTGRESQL: Final = {
    "08": "the server cannot be reached, or closed the connection",
    "28": "the server refuses the user or the password",
    "3D": "there is no such database",
    "3F": "there is no such schema",
    "42703": "a table of that name is another one",
    "42501": "the server does not permit it: a sink needs SELECT, INSERT, UPDATE, and CREATE for new tables",
    "40": "others wrote at the same time",
    "53": "the server has no space left, or too many connections",
    "55": "others kept it locked for too long",
    "57": "the server closed the connection",
    "22": "the server has no form for a value",
}
"""By SQLSTATE, or by its class, the first two characters."""


@final
@dataclass(frozen=True, eq=False)
class Database:
    """A database that is reached anew for every transaction, and its name without passwords."""

    engine: "sa.Engine"
    name: str
    file: Path | None
    """The file of SQLite."""

    def read(self, work: "Callable[[sa.Connection], T]", table: "sa.Table") -> T | None:
        """Return what work reads; None if the table is not there: reading does not make it."""
        import sqlalchemy as sa

        if self.file is not None and not self.file.exists():
            return None
        with self.engine.begin() as connection:
            self._begin(connection, "BEGIN")
            there = sa.inspect(connection).has_table(table.name, schema=table.schema)
            return work(connection) if there else None

    def write(self, work: "Callable[[sa.Connection], T]", *, alone: bool = False) -> T:
        """Return the result of a transaction; nothing of it is seen before it is whole.

        Writers of SQLite come one after the other; those of PostgreSQL only if they must be `alone`.
        """
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.engine.begin() as connection:
            self._begin(connection, "BEGIN IMMEDIATE")
            if alone:
                self._check_place(connection)
            return work(connection)

    def insert_new(
        self, connection: "sa.Connection", table: "sa.Table", values: Mapping[str, Any]
    ) -> bool:
        """Insert a row unless its key is there, and return whether it was; others who insert it are waited for."""
        from sqlalchemy.dialects import postgresql, sqlite

        insert = (
            (postgresql if self.file is None else sqlite).insert(table).on_conflict_do_nothing()
        )
        return (
            connection.execute(
                insert, dict(values), execution_options={"preserve_rowcount": True}
            ).rowcount
            == 1
        )

    def kept(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows as they come back from the database: SQLite has NULL for NaN, and moments without zones."""
        if self.file is None:
            return rows
        columns = [
            column.dt.replace_time_zone(None) if isinstance(column.dtype, pl.Datetime) else column
            for column in rows.get_columns()
        ]
        return pl.DataFrame(columns).fill_nan(None)

    def _check_place(self, connection: "sa.Connection") -> None:
        """Refuse the file of a ledger, which takes no other tables, and databases that cannot hold every text."""
        if self.file is not None:
            if connection.exec_driver_sql(_LEDGERS).first() is not None:
                raise pf.UsageError(
                    f"The sink {self.name[-200:]!r} is the file of a ledger, which is sound only without other tables.",
                    allowed="a file for releases, or a database on a server",
                    instead='address = "sqlite:///published.db"',
                )
            return
        connection.exec_driver_sql(_ALONE)
        if connection.exec_driver_sql("SHOW server_encoding").scalar() != "UTF8":
            raise pf.UsageError(
                f"The database {self.name[-200:]!r} does not keep its texts in UTF-8.",
                allowed="a database that can hold any text",
                instead="CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
            )

    def _begin(self, connection: "sa.Connection", sqlite: str) -> None:
        import sqlalchemy as sa

        if self.file is not None:
            connection.exec_driver_sql(sqlite)
        else:
            connection.execute(sa.text(_SETTINGS), {"wait": str(1000 * _WAIT)})


def url_of(address: str, folder: Path) -> "sa.URL":
    """Return the address of a database; a path is a file of SQLite, relative to the folder of the job."""
    import sqlalchemy as sa
    from sqlalchemy.exc import ArgumentError

    if scheme_of(address) is None and "://" not in address:
        return sa.URL.create(
            "sqlite", database=str(folder / local_path(address, "The sink").expanduser())
        )
    url: sa.URL | None = None
    try:
        url = sa.make_url(address)
    except (ArgumentError, ValueError):  # whose words may hold a password
        url = None
    kind = "" if url is None else url.drivername
    if (
        url is not None
        and kind in {"sqlite", "sqlite+pysqlite"}
        and url.database not in {None, "", ":memory:"}
    ):
        return sa.URL.create("sqlite", database=str(folder / Path(url.database or "").expanduser()))
    if url is not None and kind in {"postgresql", "postgresql+psycopg"}:
        return url.set(drivername="postgresql+psycopg")
    raise pf.UsageError(
        "The address of the sink is not a database that a job can write to.",
        allowed="sqlite:///file.db, or postgresql+psycopg://user:${PASSWORD}@host/database",
        instead='address = "sqlite:///published.db"',
    )


def engine_of(url: "sa.URL") -> Database:
    """Return a database; nothing is opened yet."""
    import sqlalchemy as sa

    if url.drivername == "sqlite":
        arguments = {
            "isolation_level": None,
            "timeout": _WAIT,
        }  # transactions are begun and named here
        engine = sa.create_engine(
            url, connect_args=arguments, poolclass=sa.NullPool, hide_parameters=True
        )
        return Database(engine, shown_address(url), Path(url.database or ""))
    if find_spec("psycopg") is None:
        raise pf.UsageError(
            "A sink in PostgreSQL needs a driver, which is not installed.",
            allowed="an environment with psycopg",
            instead='pip install ".[postgres]"',
        )
    arguments = {
        "client_encoding": "utf8",
        **({} if "connect_timeout" in url.query else {"connect_timeout": 10}),
    }
    engine = sa.create_engine(
        url,
        connect_args=arguments,
        poolclass=sa.NullPool,
        hide_parameters=True,
        isolation_level="READ COMMITTED",
    )
    return Database(engine, shown_address(url), None)


def reason_of(error: Exception) -> str:
    """Return a driver's error in plain words; empty where only its class can be shown."""
    original: Any = getattr(error, "orig", None) or error
    name = str(getattr(original, "sqlite_errorname", ""))
    state = str(getattr(original, "sqlstate", None) or "")
    if name:
        return _SQLITE.get(name.removeprefix("SQLITE_").partition("_")[0], "")
    if type(original).__module__.startswith("psycopg") and not state:
        return _POSTGRESQL["08"]
    return _POSTGRESQL.get(state) or _POSTGRESQL.get(state[:2], "")
