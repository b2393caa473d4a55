"""Transactions on a ledger's database: durable connections, first statements, and failures as errors.

SQLite: write-ahead log, every commit flushed to the disk, writers one after another from their first statement.
PostgreSQL: serialisable transactions; a writer first locks a table without taking a snapshot, so that it sees all
earlier writes.

Transactions on a ledger's database; a failure in one is raised as a `LedgerError` and changes nothing.

The fault is raised outside of the handler of the driver's error, so that no traceback contains its text.
"""

import os
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, final

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from pufferflow.accounting.ledger.address import (
    Access,
    Identity,
    Watch,
    access_to,
    database_file,
    read_only,
    shown_address,
)
from pufferflow.accounting.ledger.tables import (
    STEPS,
    Transaction,
    check_encoding,
    check_objects,
    migrate,
    migrations,
    steps_taken,
)
from pufferflow.core.errors import LedgerError, UsageError
from pufferflow.core.progress import waiting_for

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
            url,
            creator=lambda: _open_file(file, wait, access()),
            hide_parameters=True,
            poolclass=sa.NullPool,
        )
    if find_spec("psycopg") is None:
        raise UsageError(
            "A ledger in PostgreSQL, and no driver for it.",
            allowed="a file, or an environment with psycopg",
            instead='pip install ".[postgres]"',
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
            cursor.execute(
                "SELECT set_config('lock_timeout', %s, false)", [str(max(1, round(1000 * wait)))]
            )
            cursor.execute(  # what is committed has to last; stronger settings of the server stay
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
            )
        connection.commit()

    event.listen(engine, "connect", make_durable)
    return engine


def migrating(engine: sa.Engine) -> sa.Engine:
    """Return an engine whose statements see all earlier writes: tables may have been made by another process."""
    return (
        engine
        if engine.dialect.name == "sqlite"
        else engine.execution_options(isolation_level="READ COMMITTED")
    )


def _open_file(file: Path, wait: float, access: Access) -> sqlite3.Connection:
    options = {Access.WRITE: "", Access.READ: "?mode=ro", Access.AT_REST: "?mode=ro&immutable=1"}[
        access
    ]
    place = file.as_uri() + options if options else os.fspath(file)
    connection = sqlite3.connect(
        place, timeout=wait, isolation_level=None, check_same_thread=False, uri=bool(options)
    )
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
_READ_ONLY = (
    "The ledger may be read but not written.",
    "the permissions of the file and of its folder",
)
_BROKEN = "The ledger's file is damaged.", "the last copy that ledger.verify(head) accepts"
_NO_DATABASE = "The file is no ledger: it is no SQLite database.", "another file"
_UNREACHABLE = "The ledger cannot be opened.", "a folder that exists and may be written to"
_DISK = "The disk failed while the ledger was read or written.", "the disk; then ledger.verify()"
_TOO_BIG = "The release is too big to be kept.", "fewer groups in one release"
_NO_TABLES = (
    "The database has no ledger, or only a part of one.",
    "pf.Ledger(address), which makes one",
)
_SERVER = (
    "The database server cannot be reached, or closed the connection.",
    "the server, the address, the password",
)
_FORBIDDEN = (
    "The database server does not permit what a ledger needs.",
    "GRANT SELECT, INSERT, UPDATE, CREATE",
)
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
    return LedgerError(f"{problem} ({type(original).__name__}, {address})", instead=instead), state[
        :2
    ] == "40"


T = TypeVar("T")
Work = Callable[[Transaction], T]
_TRIES: Final = 12
_LONGEST_PAUSE: Final = 0.05
_inherited: list[object] = []
"""Connections of a parent process: closing them here would end or damage the parent's."""


class _Outdated(LedgerError):
    """A connection has other files open than those of the ledger's name."""

    def __init__(self) -> None:
        super().__init__(
            "The ledger's files were replaced again and again.", instead="ledger.verify(head)"
        )


@final
class Session:
    """One connection, the files that it has open, and the version of the tables that it has checked."""

    def __init__(
        self,
        connection: sa.Connection,
        file: Path | None,
        access: Access,
        wait: float,
        address: str,
    ) -> None:
        self.connection, self.transaction = connection, Transaction(connection)
        self._begin, self._wait, self._schema = beginnings(connection.engine), wait, -1
        self._file, self._address = file, address
        self.watch: Watch | None = None
        if file is None:
            return
        try:
            if access is Access.WRITE:
                write_ahead(self.transaction.driver, wait, address)
            self._run(_schema_version, self._begin.read)  # reading opens all files
            self.watch = Watch(file, address, access, self.transaction)
        except BaseException:
            connection.close()
            raise

    def read(self, work: Work[T]) -> T:
        """Run work on one snapshot."""
        return self._transact(work, self._begin.read)

    def write(self, work: Work[T]) -> T:
        """Run work and return its result once it is durable, in the files that other processes will open."""
        watch = self.watch
        if watch is None or self._file is None:
            return self._transact(work, self._begin.write)
        if watch.access is not Access.WRITE:
            raise read_only(self._file, self._address)
        with watch.writing(self._wait):
            result = self._transact(work, self._begin.write)
            watch.check_log()
        return result

    def end(self, *, failed: bool = False) -> None:
        """Close the connection; a failed connection to a server does not return to the pool."""
        if self.watch is not None and not self.watch.end(self.connection):
            return
        if failed and self.watch is None:
            self.connection.invalidate()
        self.connection.close()

    def _transact(self, work: Work[T], beginning: str) -> T:
        if self.watch is not None:
            if not self.watch.same():
                raise _Outdated
            self.watch.check_log()

        def checked(transaction: Transaction) -> T:
            self._check_tables(transaction)
            return work(transaction)

        result = self._run(checked, beginning)
        if self.watch is not None:
            self.watch.check()  # what was written to files that are gone would be lost
        return result

    def _run(self, work: Work[T], beginning: str) -> T:
        """Run work in one transaction and return its result after the commit; roll back on any error."""
        driver = self.transaction.driver
        try:
            self.transaction.execute(beginning)
            result = work(self.transaction)
            driver.commit()
        except BaseException:
            with suppress(Exception):  # what cannot be rolled back ends with the connection
                driver.rollback()
            raise
        return result

    def _check_tables(self, transaction: Transaction) -> None:
        """Check, in a transaction, that the tables are those of a ledger; other programs may have changed them."""
        if self.watch is None:
            check_objects(transaction)
            return
        schema = _schema_version(transaction)
        if schema != self._schema:
            check_objects(transaction)
            self._schema = schema


def _schema_version(transaction: Transaction) -> int:
    return transaction.execute("PRAGMA schema_version").fetchone()[0]


@final
class Database:
    """A ledger's database, opened, with its tables in their present form; not for several threads at once."""

    def __init__(self, url: sa.URL, wait: float) -> None:
        self.url, self.wait = url, wait
        self.file = Path(url.database or "") if url.drivername.startswith("sqlite") else None
        self._access, self._idle = Access.WRITE, True
        self._engine = engine_of(url, wait, self._access_now)
        self._session: Session | None = None
        self._snapshots = list[Session]()
        self._identity: Identity | None = None
        self._begin = beginnings(self._engine)

    @property
    def address(self) -> str:
        """Where the ledger is, without a password, and without options, one of which may be a password."""
        return shown_address(self.url)

    def prepare(self) -> None:
        """Take the missing steps, all or none."""
        self._guarded(self._prepare)

    def read(self, work: Work[T]) -> T:
        """Run work on one snapshot of the database."""
        waits = (
            self.file is None or self._session is None
        )  # an open file is read beside those who write
        return self._guarded(
            lambda: self._transact(lambda session: session.read(work)), waits=waits
        )

    def write(self, work: Work[T]) -> T:
        """Run work and return its result once it is durable; no other process writes meanwhile."""
        return self._guarded(lambda: self._transact(lambda session: session.write(work)))

    def snapshot(self, work: Work[T]) -> T:
        """Run work that reads on a connection of its own."""

        def run() -> T:
            self._identify()
            access = self._permitted()
            engine = engine_of(self.url, self.wait, lambda: access)
            session = Session(engine.connect(), self.file, access, self.wait, self.address)
            self._snapshots.append(session)
            try:
                return session.read(work)
            finally:
                self._snapshots.remove(session)
                session.end()
                engine.dispose()

        return self._guarded(run)

    def rest(self) -> None:
        """Close SQLite's connections before a fork: a child that inherits one relies on locks that it does not hold."""
        if self.file is not None:
            for session in self._snapshots:
                session.end()
            self.close()

    def renew(self) -> None:
        """Drop the connections of the process that this one was forked from, without closing them."""
        _inherited.append((self._engine, self._session))
        self._engine, self._session = engine_of(self.url, self.wait, self._access_now), None
        self._snapshots, self._idle = [], True

    def close(self) -> None:
        """Close all connections."""
        self._drop()
        self._engine.dispose()

    def _permitted(self) -> Access:
        return Access.WRITE if self.file is None else access_to(self.file, self.address)

    def _access_now(self) -> Access:
        self._access = self._permitted()
        return self._access

    def _prepare(self) -> None:
        """Make the tables first: without a write-ahead log they are all in the file itself, or none is."""
        self._identify()
        with self._engine.begin() as connection:
            connection.exec_driver_sql(self._begin.read)
            check_encoding(connection)
            done = steps_taken(connection)
            if done == len(STEPS):
                check_objects(Transaction(connection))
        if done < len(STEPS):
            if self.file is not None and self._access is not Access.WRITE:
                raise read_only(self.file, self.address)
            with migrating(self._engine).begin() as connection:
                connection.exec_driver_sql(self._begin.migrate)
                migrate(connection)
        self._identity = self._identify()

    def _transact(self, work: Callable[[Session], T]) -> T:
        """Run work on a connection that stays open: making one in SQLite costs more than using it.

        A server's connections return to the pool, which tries them before they are used again. Work that is stopped at
        any point leaves a connection that is not idle, which is closed before the next.
        """
        identity = self._identify()
        if (
            not self._idle or identity != self._identity
        ):  # what was written to a file that is gone would be lost
            self._drop()
            identity = self._identify()
        self._identity = identity
        self._idle = False
        try:
            try:
                result = work(self._open_session())
            except (
                _Outdated
            ):  # nothing has begun; what another connection reads has to follow from what is known
                self._drop()
                self._identity, self._idle = self._identify(), False
                result = work(self._open_session())
        except BaseException:
            self._drop()
            raise
        self._idle = True
        if self.file is None:
            self._drop()
        return result

    def _open_session(self) -> Session:
        if self._session is None:
            connection = self._engine.connect()
            self._session = Session(connection, self.file, self._access, self.wait, self.address)
        return self._session

    def _identify(self) -> Identity | None:
        """Return the file of the ledger; none is made in place of one that is gone."""
        identity = None if self.file is None else database_file(self.file)
        if identity is None and self._identity is not None:
            raise LedgerError(
                f"The ledger's file is gone ({self.address}).",
                instead="bringing it back, and opening it again",
            )
        return identity

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.end(failed=not self._idle)
        self._idle = True

    def _guarded(self, work: Callable[[], T], *, waits: bool = True) -> T:
        """Run work, and log that it waits for a server, or for other writers of the file."""
        if not waits:
            return self._until_no_race(work)
        with waiting_for(f"the ledger {self.address}", self.wait):
            return self._until_no_race(work)

    def _until_no_race(self, work: Callable[[], T]) -> T:
        """Run work; run it again if the database reports that only a race stopped it."""
        fault = LedgerError("Nothing was tried.")
        for turn in range(_TRIES):
            try:
                return work()
            except (SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error) as error:
                fault, again = read_failure(error, self.address)
            if not again:
                break
            time.sleep(random.uniform(0, _LONGEST_PAUSE) * (turn + 1))  # noqa: S311 - only to separate two that collide
        raise fault
