"""Transactions on a ledger's database; what goes wrong in one comes out as a `LedgerFault` and leaves no trace."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar, final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from pufferflow.errors import LedgerFault
from pufferflow.ledger.address import shown_address
from pufferflow.ledger.engine import beginnings, engine_of, migrating, write_ahead
from pufferflow.ledger.faults import Failure
from pufferflow.ledger.files import Identity, Watch, database_file
from pufferflow.ledger.line import Line
from pufferflow.ledger.migrations import STEPS, check_encoding, check_objects, migrate, taken
from pufferflow.ledger.places import Way, read_only, way_of

T = TypeVar("T")
Work = Callable[[Line], T]
_TRIES: Final = 12
_LONGEST_PAUSE: Final = 0.05
_inherited: list[object] = []
"""Connections of a parent process: closing them here would end or damage the parent's."""


class _Outdated(LedgerFault):
    """A connection has other files than those of the ledger's name."""

    def __init__(self) -> None:
        super().__init__("The ledger's files were replaced again and again.", instead="ledger.verify(head)")


@final
class Session:
    """One connection, the files that it has, and which tables it has seen."""

    def __init__(self, connection: sa.Connection, file: Path | None, way: Way, wait: float, address: str) -> None:
        """Open all files of a connection that is new: reading does, and the log has to be written ahead."""
        self.connection, self.line = connection, Line(connection)
        self._begin, self._wait, self._schema = beginnings(connection.engine), wait, -1
        self._file, self._address = file, address
        self.watch: Watch | None = None
        if file is not None:
            try:
                self.watch = self._watched(file, way)
            except BaseException:
                connection.close()
                raise

    def read(self, work: Work[T]) -> T:
        """Return what work reads, all of it at one moment."""
        return self._transact(work, self._begin.read)

    def write(self, work: Work[T]) -> T:
        """Return what work gives once all that it wrote is durable, and where all others will look for it."""
        watch = self.watch
        if watch is None or self._file is None:
            return self._transact(work, self._begin.write)
        if watch.way is not Way.WRITE:
            raise read_only(self._file, self._address)
        with watch.writing(self._wait):
            found = self._transact(work, self._begin.write)
            watch.check_log()
        return found

    def end(self, *, failed: bool = False) -> None:
        """Give the connection up; of a server's that failed the pool must not get anything back."""
        if self.watch is not None and not self.watch.end(self.connection):
            return
        if failed and self.watch is None:
            self.connection.invalidate()
        self.connection.close()

    def _watched(self, file: Path, way: Way) -> Watch:
        if way is Way.WRITE:
            write_ahead(self.line.driver, self._wait, self._address)
        self.line.transact(lambda line: line.say("PRAGMA schema_version").fetchone(), self._begin.read, _nothing)
        return Watch(file, self._address, way, self.line)

    def _transact(self, work: Work[T], beginning: str) -> T:
        if self.watch is not None:
            if not self.watch.same():
                raise _Outdated
            self.watch.check_log()
        found = self.line.transact(work, beginning, self._check)
        if self.watch is not None:
            self.watch.check()  # what was written to files that are gone would be lost
        return found

    def _check(self, line: Line) -> None:
        """Check, inside of a transaction, that the tables are those of a ledger; others may have changed them."""
        if self.watch is None:
            check_objects(line)
            return
        schema = line.say("PRAGMA schema_version").fetchone()[0]
        if schema != self._schema:
            check_objects(line)
            self._schema = schema


@final
class Store:
    """A ledger's database, opened, with its tables in their present form."""

    def __init__(self, url: sa.URL, wait: float) -> None:
        self.url, self.wait = url, wait
        self.file = Path(url.database or "") if url.drivername.startswith("sqlite") else None
        self._way, self._idle = Way.WRITE, True
        self._engine = engine_of(url, wait, self._how)
        self._session: Session | None = None
        self._apart = list[Session]()
        self._which: Identity | None = None
        self._begin = beginnings(self._engine)

    @property
    def address(self) -> str:
        """Where the ledger is, without a password, and without options, one of which may be a password."""
        return shown_address(self.url)

    def prepare(self) -> None:
        """Take the steps that are missing, all or none."""
        self._guarded(self._prepare)

    def read(self, work: Work[T]) -> T:
        """Return what work reads, all of it at one moment; not from several threads at once."""
        return self._guarded(lambda: self._transact(lambda session: session.read(work)))

    def write(self, work: Work[T]) -> T:
        """Return what work gives once all that it wrote is durable; no other process writes meanwhile."""
        return self._guarded(lambda: self._transact(lambda session: session.write(work)))

    def apart(self, work: Work[T]) -> T:
        """Return what work reads on a connection of its own."""

        def whole() -> T:
            self._present()
            way = Way.WRITE if self.file is None else way_of(self.file, self.address)
            engine = engine_of(self.url, self.wait, lambda: way)
            session = Session(engine.connect(), self.file, way, self.wait, self.address)
            self._apart.append(session)
            try:
                return session.read(work)
            finally:
                self._apart.remove(session)
                session.end()
                engine.dispose()

        return self._guarded(whole)

    def rest(self) -> None:
        """Close SQLite's connections before a fork: a child that has one believes in locks that it does not hold."""
        if self.file is not None:
            for session in self._apart:
                session.end()
            self.close()

    def renew(self) -> None:
        """Forget the connections of the process that this one was forked from."""
        _inherited.append((self._engine, self._session))
        self._engine, self._session = engine_of(self.url, self.wait, self._how), None
        self._apart, self._idle = [], True

    def close(self) -> None:
        """Close all connections."""
        self._drop()
        self._engine.dispose()

    def _how(self) -> Way:
        """Return in which way the file is opened now."""
        self._way = Way.WRITE if self.file is None else way_of(self.file, self.address)
        return self._way

    def _prepare(self) -> None:
        """Make the tables first: as long as no log is written ahead, they are all in the file itself, or none is."""
        self._present()
        with self._engine.begin() as connection:
            connection.exec_driver_sql(self._begin.read)
            check_encoding(connection)
            done = taken(connection)
            if done == len(STEPS):
                check_objects(Line(connection))
        if done < len(STEPS):
            if self.file is not None and self._way is not Way.WRITE:
                raise read_only(self.file, self.address)
            with migrating(self._engine).begin() as connection:
                connection.exec_driver_sql(self._begin.migrate)
                migrate(connection)
        self._which = self._present()

    def _transact(self, work: Callable[[Session], T]) -> T:
        """Work in a transaction on a connection that is kept: SQLite's cost more to make than to use.

        A server's go back to where they are tried before they are used again. What stops the work at whatever place
        leaves a connection that is not idle, which is given up before the next.
        """
        self._look()
        self._idle = False
        try:
            try:
                found = work(self._opened())
            except _Outdated:  # nothing has begun; what another connection finds has to follow from what is known
                self._drop()
                self._which, self._idle = self._present(), False
                found = work(self._opened())
        except BaseException:
            self._drop()
            raise
        self._idle = True
        if self.file is None:
            self._drop()
        return found

    def _opened(self) -> Session:
        if self._session is None:
            connection = self._engine.connect()
            self._session = Session(connection, self.file, self._way, self.wait, self.address)
        return self._session

    def _look(self) -> None:
        """See whether the file is still the one that is open; what was written to a file that is gone would be lost."""
        which = self._present()
        if not self._idle or which != self._which:
            self._drop()
            which = self._present()
        self._which = which

    def _present(self) -> Identity | None:
        """Return which file the ledger is in; no other is made where one was."""
        which = None if self.file is None else database_file(self.file)
        if which is None and self._which is not None:
            raise LedgerFault(
                f"The ledger's file is gone ({self.address}).", instead="bringing it back, and opening it again"
            )
        return which

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.end(failed=not self._idle)
        self._idle = True

    def _guarded(self, work: Callable[[], T]) -> T:
        """Return what work gives; try it again where the database says that a race and nothing else stopped it."""
        fault: LedgerFault | None = None
        for turn in range(_TRIES):
            try:
                return work()
            except (SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error) as error:
                failure = Failure(error, self.address)
            fault = failure.fault
            if not failure.again:
                break
            time.sleep(random.uniform(0, _LONGEST_PAUSE) * (turn + 1))  # noqa: S311 - only to part two that collide
        raise fault if fault is not None else LedgerFault("Nothing was tried.")


def _nothing(line: Line) -> None:
    del line
