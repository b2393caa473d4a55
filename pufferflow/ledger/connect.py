"""Connections that write durably, and how their transactions begin.

SQLite: write-ahead log, every commit flushed to the disk, writers one after another from their first statement.
PostgreSQL: serialisable transactions; a writer first locks a table, which takes no snapshot, so that it sees all that
others wrote before it.

The line to a database: transactions of a few statements, run by the driver itself.

A release is two short transactions, in which building statements anew would take longer than running them. So each is
written out once for a kind of database, and the driver's connection runs the text.

The tables of a ledger, and the statements that read and append; none changes or removes a row.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeVar, final

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.dialects.sqlite import pysqlite

from pufferflow.errors import LedgerFault, Misuse
from pufferflow.ledger.address import Way

metadata = sa.MetaData()

events: Final = sa.Table(
    "pufferflow_events",
    metadata,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)
"""The log: canonical texts, each with the hash that ties it to those before."""

shapes: Final = sa.Table(
    "pufferflow_shapes",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)
"""What many costs have in common."""

payloads: Final = sa.Table(
    "pufferflow_payloads",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
"""Releases that were committed."""

migrations: Final = sa.Table(
    "pufferflow_migrations",
    sa.MetaData(),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Text, nullable=False),
)
"""Which steps brought the tables to their present form. In PostgreSQL every writer locks this table, so that writers
follow each other, and no step is taken beneath one."""

NEWS: Final = (
    sa.select(events.c.number, events.c.body, events.c.hash)
    .where(events.c.number >= sa.bindparam("known"))
    .order_by(events.c.number)
)
"""The last event that is known, to see that it still is what it was, and all later ones."""
LEAST: Final = -(1 << 63)
"""The least number a row can have; those of events begin with 1, and others are found by reading them."""
LAST: Final = sa.select(events.c.number, events.c.hash).where(
    events.c.number == sa.select(sa.func.max(events.c.number)).scalar_subquery()
)
RANGE: Final = (
    sa.select(events.c.number, events.c.body)
    .where(events.c.number.between(sa.bindparam("first"), sa.bindparam("last")))
    .order_by(events.c.number)
)
EVENT: Final = sa.select(events.c.body, events.c.hash).where(events.c.number == sa.bindparam("number"))
HASH: Final = sa.select(events.c.hash).where(events.c.number == sa.bindparam("number"))
SHAPE: Final = sa.select(shapes.c.body).where(shapes.c.digest == sa.bindparam("digest"))
PAYLOAD: Final = sa.select(payloads.c.body).where(payloads.c.digest == sa.bindparam("digest"))
SHAPES: Final = sa.select(shapes.c.digest, shapes.c.body)
PAYLOADS: Final = sa.select(payloads.c.digest, payloads.c.body)
ADD_EVENT: Final = sa.insert(events)
ADD_SHAPE: Final = sa.insert(shapes)
ADD_PAYLOAD: Final = sa.insert(payloads)


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


T = TypeVar("T")
_DIALECTS: Final[dict[str, sa.Dialect]] = {
    "sqlite": pysqlite.dialect(paramstyle="named"),
    "postgresql": psycopg.dialect(),
}


@cache
def text_of(statement: sa.ClauseElement, database: str) -> str:
    """Return a statement as text for a kind of database, with named parameters."""
    return str(statement.compile(dialect=_DIALECTS[database]))


@final
class Line:
    """A connection, for one transaction after another."""

    def __init__(self, connection: sa.Connection) -> None:
        self.database = connection.dialect.name
        self.driver: Any = connection.connection.driver_connection

    def transact(self, work: Callable[["Line"], T], beginning: str, begun: Callable[["Line"], None]) -> T:
        """Return what work gives once all that it wrote is durable; nothing is written if anything fails.

        `begun` is called once the transaction has begun.
        """
        try:
            self.say(beginning)
            begun(self)
            found = work(self)
            self.driver.commit()
        except BaseException:
            with suppress(Exception):  # what cannot be taken back by words ends with the connection
                self.driver.rollback()
            raise
        return found

    def say(self, text: str) -> Any:
        """Run a text without parameters."""
        return self.driver.execute(text)

    def run(self, statement: sa.ClauseElement, **values: object) -> Any:
        """Run a statement and return the cursor with its rows."""
        return self.driver.execute(text_of(statement, self.database), values)

    def add_all(self, statement: sa.ClauseElement, rows: list[dict[str, object]]) -> None:
        """Append rows."""
        self.driver.cursor().executemany(text_of(statement, self.database), rows)

    def value(self, statement: sa.ClauseElement, **values: object) -> Any:
        """Return the first value of the first row; None if there is no row."""
        row = self.run(statement, **values).fetchone()
        return None if row is None else row[0]
