"""Connections that write durably, and how their transactions begin.

SQLite: write-ahead log, every commit flushed to the disk, writers one after another from their first statement.
PostgreSQL: serialisable transactions; a writer first locks a table, which takes no snapshot, so that it sees all that
others wrote before it.
"""

import time
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, final

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from pufferflow.errors import Misuse
from pufferflow.ledger.tables import migrations

_PRAGMAS = (
    "PRAGMA synchronous=FULL",
    "PRAGMA fullfsync=ON",  # where a flush alone leaves data in the disk's own memory
    "PRAGMA checkpoint_fullfsync=ON",
    "PRAGMA trusted_schema=OFF",
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


def engine_of(url: sa.URL, wait: float) -> sa.Engine:
    """Return an engine that waits so many seconds for others; nothing is opened yet."""
    if url.drivername.startswith("sqlite"):
        arguments: dict[str, Any] = {"timeout": wait, "isolation_level": None, "check_same_thread": False}
        engine = sa.create_engine(url, connect_args=arguments, hide_parameters=True)
        event.listen(engine, "connect", _sqlite)
        return engine
    if find_spec("psycopg") is None:
        raise Misuse(
            "A ledger in PostgreSQL, and no driver for it.",
            allowed="a file, or an environment with psycopg",
            instead='pip install "pufferflow[postgres]"',
        )
    arguments = {"client_encoding": "utf8"}
    if "connect_timeout" not in url.query:
        arguments["connect_timeout"] = max(2, round(wait))
    engine = sa.create_engine(
        url, connect_args=arguments, hide_parameters=True, isolation_level="SERIALIZABLE", pool_pre_ping=True
    )

    def durable(connection: Any, _: object) -> None:
        _postgresql(connection, wait)

    event.listen(engine, "connect", durable)
    return engine


def migrating(engine: sa.Engine) -> sa.Engine:
    """Return an engine whose statements see what others wrote before them: tables may just have been made."""
    return engine if engine.dialect.name == "sqlite" else engine.execution_options(isolation_level="READ COMMITTED")


def write_ahead(engine: sa.Engine, wait: float) -> None:
    """Let SQLite keep a write-ahead log; changing to it does not wait for others by itself."""
    if engine.dialect.name != "sqlite":
        return
    deadline = time.monotonic() + wait
    while True:
        try:
            with engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        except OperationalError as error:
            name = getattr(error.orig, "sqlite_errorname", "")
            if name.startswith("SQLITE_READONLY"):
                return  # who may only read keeps what there is; a rollback journal is as durable
            busy = name.startswith("SQLITE_BUSY")
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _sqlite(connection: Any, _: object) -> None:
    for pragma in _PRAGMAS:
        connection.execute(pragma)


def _postgresql(connection: Any, wait: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", [str(max(1, round(1000 * wait)))])
        cursor.execute(  # what is committed has to last; stronger settings of the server stay
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
        )
    connection.commit()
