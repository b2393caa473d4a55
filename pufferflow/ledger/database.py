"""Transactions on a ledger's database; what goes wrong in one comes out as a `LedgerFault` and leaves no trace.

What goes wrong with a database, in plain words.

A driver's error can quote statements, parameters and stored bytes. So nothing of it is passed on but what kind it is,
and the error that is raised instead comes from outside of the handler, where no traceback leads back to it.
"""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, final

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from pufferflow.errors import LedgerFault
from pufferflow.ledger.address import Way, read_only, shown_address, way_of
from pufferflow.ledger.connect import Line, beginnings, engine_of, migrating, write_ahead
from pufferflow.ledger.migrations import STEPS, check_encoding, check_objects, migrate, taken
from pufferflow.ledger.sqlite_files import Identity, Watch, database_file

_BUSY = "Others kept the ledger locked for too long.", "trying again; or Ledger(address, wait=120)"
_FULL = "The disk is full.", "making room, and trying again"
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


@final
class Failure:
    """What went wrong: the error to raise, and whether the same may go well if it is tried again."""

    def __init__(self, error: Exception, address: str) -> None:
        original: Any = error.orig if isinstance(error, DBAPIError) else error
        state = str(getattr(original, "sqlstate", None) or "")
        self.again = state[:2] == "40"
        problem, instead = _words(original, state)
        self.fault = LedgerFault(f"{problem} ({type(original).__name__}, {address})", instead=instead)


def _words(original: Any, state: str) -> tuple[str, str]:
    name = str(getattr(original, "sqlite_errorname", ""))
    if name:
        return _SQLITE.get(name.removeprefix("SQLITE_").partition("_")[0], _UNKNOWN)
    if type(original).__module__.startswith("sqlite3"):  # text that is no UTF-8 has no code
        return _BROKEN
    if isinstance(original, SQLAlchemyError):
        return _UNKNOWN
    if not state:
        return _SERVER
    return _POSTGRESQL.get(state) or _POSTGRESQL.get(state[:2], _UNKNOWN)


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
