"""Connections that write durably, the first statements of their transactions, and a driver's errors in plain words.

SQLite: write-ahead log, every commit flushed to the disk, writers one after another from their first statement.
PostgreSQL: serialisable transactions; a writer first locks a table without taking a snapshot, so that it sees all
earlier writes.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from pufferflow.accounting.ledger.address import Access
from pufferflow.accounting.ledger.tables import migrations
from pufferflow.core.errors import LedgerError, UsageError

_PRAGMAS = (
    "PRAGMA synchronous=FULL",
    "PRAGMA fullfsync=ON",  # where a flush alone leaves data in the disk's own memory
    "PRAGMA checkpoint_fullfsync=ON",
    "PRAGMA trusted_schema=OFF",
    "PRAGMA mmap_size=0",  # a file that is cut short is then a fault, and not the end of the process
)
_PAUSE = 0.02


@final
class Beginnings(NamedTuple):
    """The first statement of each kind of transaction."""

    read: str
    write: str
    migrate: str


_BEGINNINGS: Final = {
    "sqlite": Beginnings("BEGIN", "BEGIN IMMEDIATE", "BEGIN IMMEDIATE"),
    "postgresql": Beginnings(
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        f"LOCK TABLE {migrations.name} IN EXCLUSIVE MODE",
        "SELECT pg_advisory_xact_lock(7246613001)",
    ),
}


def beginnings(engine: sa.Engine) -> Beginnings:
    """Return the first statements of transactions."""
    return _BEGINNINGS[engine.dialect.name]


def engine_of(url: sa.URL, wait: float, access: Callable[[], Access]) -> sa.Engine:
    """Return an engine that waits so many seconds for other writers; nothing is opened yet.

    A file is opened anew for each connection, with the access that it permits at that time, and closed with it.
    """
    if url.drivername.startswith("sqlite"):
        file = Path(url.database or "")
        return sa.create_engine(
            url, creator=lambda: _open_file(file, wait, access()), hide_parameters=True, poolclass=sa.NullPool
        )
    if find_spec("psycopg") is None:
        raise UsageError(
            "A ledger in PostgreSQL, and no driver for it.",
            allowed="a file, or an environment with psycopg",
            instead='pip install "pufferflow[postgres]"',
        )
    arguments: dict[str, Any] = {"client_encoding": "utf8"}
    if "connect_timeout" not in url.query:
        arguments["connect_timeout"] = max(2, round(wait))
    engine = sa.create_engine(
        url,
        connect_args=arguments,
        hide_parameters=True,
        isolation_level="SERIALIZABLE",
        pool_pre_ping=True,
        pool_reset_on_return=None,  # transactions are ended here; the pool would report a connection that is gone
    )

    def make_durable(connection: Any, _: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, false)", [str(max(1, round(1000 * wait)))])
            cursor.execute(  # what is committed has to last; stronger settings of the server stay
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
            )
        connection.commit()

    event.listen(engine, "connect", make_durable)
    return engine


def migrating(engine: sa.Engine) -> sa.Engine:
    """Return an engine whose statements see all earlier writes: tables may have been made by another process."""
    return engine if engine.dialect.name == "sqlite" else engine.execution_options(isolation_level="READ COMMITTED")


def _open_file(file: Path, wait: float, access: Access) -> sqlite3.Connection:
    options = {Access.WRITE: "", Access.READ: "?mode=ro", Access.AT_REST: "?mode=ro&immutable=1"}[access]
    place = file.as_uri() + options if options else os.fspath(file)
    connection = sqlite3.connect(place, timeout=wait, isolation_level=None, check_same_thread=False, uri=bool(options))
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    return connection


def write_ahead(connection: sqlite3.Connection, wait: float, address: str) -> None:
    """Switch SQLite to a write-ahead log, which another program may have switched off; it does not wait by itself."""
    deadline = time.monotonic() + wait
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
        else:
            break
    if mode != "wal":
        raise LedgerError(
            f"The ledger's file system gives processes no memory to share ({address}), which a write-ahead log needs.",
            allowed="a disk of this machine, or PostgreSQL",
            instead='pf.Ledger("postgresql+psycopg://host/ledger")',
        )


_BUSY = "Others kept the ledger locked for too long.", "trying again; or Ledger(address, wait=120)"
_FULL = "The disk is full.", "freeing space, and trying again"
_READ_ONLY = "The ledger may be read but not written.", "the permissions of the file and of its folder"
_BROKEN = "The ledger's file is damaged.", "the last copy that ledger.verify(head) accepts"
_NO_DATABASE = "The file is no ledger: it is no SQLite database.", "another file"
_UNREACHABLE = "The ledger cannot be opened.", "a folder that exists and may be written to"
_DISK = "The disk failed while the ledger was read or written.", "the disk; then ledger.verify()"
_TOO_BIG = "The release is too big to be kept.", "fewer groups in one release"
_NO_TABLES = "The database has no ledger, or only a part of one.", "pf.Ledger(address), which makes one"
_SERVER = "The database server cannot be reached, or closed the connection.", "the server, the address, the password"
_FORBIDDEN = "The database server does not permit what a ledger needs.", "GRANT SELECT, INSERT, UPDATE, CREATE"
_RACE = "Too many others wrote at the same time.", "trying again"
_UNKNOWN = "The database failed.", "ledger.verify()"

_SQLITE: Final = {
    "BUSY": _BUSY,
    "LOCKED": _BUSY,
    "FULL": _FULL,
    "READONLY": _READ_ONLY,
    "CORRUPT": _BROKEN,
    "NOTADB": _NO_DATABASE,
    "CANTOPEN": _UNREACHABLE,
    "PERM": _UNREACHABLE,
    "AUTH": _UNREACHABLE,
    "IOERR": _DISK,
    "TOOBIG": _TOO_BIG,
    "ERROR": _NO_TABLES,
}
"""By the name of SQLite's primary code."""

_POSTGRESQL: Final = {
    "53": _FULL,
    "55": _BUSY,
    "25": _READ_ONLY,
    "XX": _BROKEN,
    "58": _DISK,
    "54": _TOO_BIG,
    "42501": _FORBIDDEN,
    "42P01": _NO_TABLES,
    "3D": _SERVER,
    "08": _SERVER,
    "28": _SERVER,
    "57": _SERVER,
    "40": _RACE,
}
"""By SQLSTATE, or by its class, the first two characters."""


def read_failure(error: Exception, address: str) -> tuple[LedgerError, bool]:
    """Return a driver's error as a fault, and whether the same work may succeed if it is tried again.

    A driver's error can quote statements, parameters and stored bytes, so only its kind is passed on.
    """
    original: Any = error.orig if isinstance(error, DBAPIError) else error
    name = str(getattr(original, "sqlite_errorname", ""))
    state = str(getattr(original, "sqlstate", None) or "")
    if name:
        words = _SQLITE.get(name.removeprefix("SQLITE_").partition("_")[0], _UNKNOWN)
    elif type(original).__module__.startswith("sqlite3"):  # text that is no UTF-8 has no code
        words = _BROKEN
    elif isinstance(original, SQLAlchemyError):
        words = _UNKNOWN
    elif not state:
        words = _SERVER
    else:
        words = _POSTGRESQL.get(state) or _POSTGRESQL.get(state[:2], _UNKNOWN)
    problem, instead = words
    return LedgerError(f"{problem} ({type(original).__name__}, {address})", instead=instead), state[:2] == "40"
