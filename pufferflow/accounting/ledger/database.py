"""Transactions on a ledger's database; a failure in one is raised as a `LedgerError` and changes nothing.

The fault is raised outside of the handler of the driver's error, so that no traceback contains its text.
"""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar, final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from pufferflow.accounting.ledger.address import Access, access_to, read_only, shown_address
from pufferflow.accounting.ledger.connect import beginnings, engine_of, migrating, read_failure, write_ahead
from pufferflow.accounting.ledger.sqlite_files import Identity, Watch, database_file
from pufferflow.accounting.ledger.tables import STEPS, Transaction, check_encoding, check_objects, migrate, steps_taken
from pufferflow.core.errors import LedgerError
from pufferflow.core.progress import waiting_for

T = TypeVar("T")
Work = Callable[[Transaction], T]
_TRIES: Final = 12
_LONGEST_PAUSE: Final = 0.05
_inherited: list[object] = []
"""Connections of a parent process: closing them here would end or damage the parent's."""


class _Outdated(LedgerError):
    """A connection has other files open than those of the ledger's name."""

    def __init__(self) -> None:
        super().__init__("The ledger's files were replaced again and again.", instead="ledger.verify(head)")


@final
class Session:
    """One connection, the files that it has open, and the version of the tables that it has checked."""

    def __init__(self, connection: sa.Connection, file: Path | None, access: Access, wait: float, address: str) -> None:
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
        waits = self.file is None or self._session is None  # an open file is read beside those who write
        return self._guarded(lambda: self._transact(lambda session: session.read(work)), waits=waits)

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
        if not self._idle or identity != self._identity:  # what was written to a file that is gone would be lost
            self._drop()
            identity = self._identify()
        self._identity = identity
        self._idle = False
        try:
            try:
                result = work(self._open_session())
            except _Outdated:  # nothing has begun; what another connection reads has to follow from what is known
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
                f"The ledger's file is gone ({self.address}).", instead="bringing it back, and opening it again"
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
