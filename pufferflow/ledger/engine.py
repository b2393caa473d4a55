"""Connections that write durably, and how their transactions begin.

SQLite: write-ahead log, every commit flushed to the disk, writers one after another from their first statement.
PostgreSQL: serialisable transactions; a writer first locks a table, which takes no snapshot, so that it sees all that
others wrote before it.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, final

import sqlalchemy as sa
from sqlalchemy import event

from pufferflow.errors import LedgerFault, Misuse
from pufferflow.ledger.places import Way
from pufferflow.ledger.tables import migrations

_PRAGMAS = (
    "PRAGMA synchronous=FULL",
    "PRAGMA fullfsync=ON",  # where a flush alone leaves data in the disk's own memory
    "PRAGMA checkpoint_fullfsync=ON",
    "PRAGMA trusted_schema=OFF",
    "PRAGMA mmap_size=0",  # a file that is cut short is then a fault, and not the end of the process
)
_MIGRATING = 7_246_613_001
_PAUSE = 0.02


@final
@dataclass(frozen=True)
class Beginnings:
    """The first statement of each kind of transaction."""

    read: str
    write: str
    migrate: str


_BEGINNINGS: Final = {
    "sqlite": Beginnings("BEGIN", "BEGIN IMMEDIATE", "BEGIN IMMEDIATE"),
    "postgresql": Beginnings(
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        f"LOCK TABLE {migrations.name} IN EXCLUSIVE MODE",
        f"SELECT pg_advisory_xact_lock({_MIGRATING})",
    ),
}


def beginnings(engine: sa.Engine) -> Beginnings:
    """Return how transactions begin."""
    return _BEGINNINGS[engine.dialect.name]


def engine_of(url: sa.URL, wait: float, way: Callable[[], Way]) -> sa.Engine:
    """Return an engine that waits so many seconds for others; nothing is opened yet.

    A file is opened anew for each connection, in the way in which it can be at that time, and closed with it.
    """
    if url.drivername.startswith("sqlite"):
        file = Path(url.database or "")
        return sa.create_engine(
            url, creator=lambda: _opened(file, wait, way()), hide_parameters=True, poolclass=sa.NullPool
        )
    if find_spec("psycopg") is None:
        raise Misuse(
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
        pool_reset_on_return=None,  # transactions are ended here; of a connection that is gone the pool would complain
    )

    def durable(connection: Any, _: object) -> None:
        _postgresql(connection, wait)

    event.listen(engine, "connect", durable)
    return engine


def migrating(engine: sa.Engine) -> sa.Engine:
    """Return an engine whose statements see what others wrote before them: tables may just have been made."""
    return engine if engine.dialect.name == "sqlite" else engine.execution_options(isolation_level="READ COMMITTED")


def write_ahead(connection: sqlite3.Connection, wait: float, address: str) -> None:
    """Let SQLite keep a write-ahead log, as another program may have told it not to; it does not wait by itself."""
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
        raise LedgerFault(
            f"The ledger's file system gives processes no memory to share ({address}), which a write-ahead log needs.",
            allowed="a disk of this machine, or PostgreSQL",
            instead='pf.Ledger("postgresql+psycopg://host/ledger")',
        )


def _opened(file: Path, wait: float, way: Way) -> sqlite3.Connection:
    options = {Way.WRITE: "", Way.READ: "?mode=ro", Way.REST: "?mode=ro&immutable=1"}[way]
    place = file.as_uri() + options if options else os.fspath(file)
    connection = sqlite3.connect(place, timeout=wait, isolation_level=None, check_same_thread=False, uri=bool(options))
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    return connection


def _postgresql(connection: Any, wait: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", [str(max(1, round(1000 * wait)))])
        cursor.execute(  # what is committed has to last; stronger settings of the server stay
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
        )
    connection.commit()
