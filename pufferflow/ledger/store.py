"""Transactions on a ledger's database; what goes wrong in one comes out as a `LedgerFault` and leaves no trace."""

import random
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar, final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from pufferflow.errors import LedgerFault
from pufferflow.ledger.engine import beginnings, engine_of, migrating, write_ahead
from pufferflow.ledger.faults import Failure
from pufferflow.ledger.files import Identity, database_file, log_file, log_lost, log_of
from pufferflow.ledger.line import Line
from pufferflow.ledger.migrations import STEPS, check_encoding, migrate, taken

T = TypeVar("T")
Work = Callable[[Line], T]
_TRIES: Final = 12
_LONGEST_PAUSE: Final = 0.05
_stores: "weakref.WeakSet[Store]" = weakref.WeakSet()
_inherited: list[object] = []
"""Connections of a parent process: closing them here would end or damage the parent's."""


@final
class Store:
    """A ledger's database, opened, with its tables in their present form."""

    def __init__(self, url: sa.URL, wait: float) -> None:
        self.url, self.wait = url, wait
        self._engine = engine_of(url, wait)
        self.file = Path(url.database or "") if self._engine.dialect.name == "sqlite" else None
        self._beside = ""
        self._connection: sa.Connection | None = None
        self._line: Line | None = None
        self._apart = list[sa.Connection]()
        self._which: Identity | None = None
        self._ahead: Identity | None = None
        self._begin = beginnings(self._engine)
        _stores.add(self)

    @property
    def address(self) -> str:
        """Where the ledger is, without a password, and without options, one of which may be a password."""
        if self.url.drivername.startswith("sqlite"):
            return self.url.database or ""
        return self.url.set(query={}).render_as_string(hide_password=True)

    def prepare(self) -> None:
        """Take the steps that are missing, all or none."""
        self._guarded(self._prepare)

    def read(self, work: Work[T]) -> T:
        """Return what work reads, all of it at one moment; not from several threads at once."""
        return self._guarded(lambda: self._transact(work, self._begin.read))

    def write(self, work: Work[T]) -> T:
        """Return what work gives once all that it wrote is durable; no other process writes meanwhile."""
        return self._guarded(lambda: self._transact(work, self._begin.write))

    def apart(self, work: Work[T]) -> T:
        """Return what work reads on a connection of its own."""

        def whole() -> T:
            self._present()
            engine = engine_of(self.url, self.wait)
            try:
                with engine.connect() as connection:
                    return self._aside(connection, work)
            finally:
                engine.dispose()

        return self._guarded(whole)

    def _aside(self, connection: sa.Connection, work: Work[T]) -> T:
        self._apart.append(connection)
        try:
            ahead = self._connected(connection)
            found = Line(connection).transact(work, self._begin.read)
            self._check_ahead(ahead)
            return found
        finally:
            self._apart.remove(connection)

    def rest(self) -> None:
        """Close SQLite's connections before a fork: a child that has one believes in locks that it does not hold."""
        if self.file is not None:
            for connection in self._apart:
                connection.close()
            self.close()

    def renew(self) -> None:
        """Forget the connections of the process that this one was forked from."""
        _inherited.append((self._engine, self._connection))
        self._engine, self._connection, self._line = engine_of(self.url, self.wait), None, None
        self._apart, self._ahead = [], None

    def close(self) -> None:
        """Close all connections."""
        self._drop()
        self._engine.dispose()

    def _prepare(self) -> None:
        """Make the tables first: as long as no log is written ahead, they are all in the file itself, or none is."""
        self._present()
        with self._engine.begin() as connection:
            connection.exec_driver_sql(self._begin.read)
            check_encoding(connection)
            done = taken(connection)
        if done < len(STEPS):
            with migrating(self._engine).begin() as connection:
                connection.exec_driver_sql(self._begin.migrate)
                migrate(connection)
        write_ahead(self._engine, self.wait)
        self._which = self._present()
        self._engine.dispose()

    def _transact(self, work: Work[T], beginning: str) -> T:
        """Work in a transaction on a connection that is kept: SQLite's cost more to make than to use.

        A server's go back to where they are tried before they are used again.
        """
        self._look()
        if self._line is None:
            self._connection = self._engine.connect()
            self._line = Line(self._connection)
        try:
            if self._ahead is None:
                self._ahead = self._connected(self._connection)
            found = self._line.transact(work, beginning, self._check_own)
            self._check_own()  # what was written to a log that is gone would be lost
        except BaseException:
            self._drop()
            raise
        if self.file is None:
            self._drop()
        return found

    def _look(self) -> None:
        """See whether the file is still the one that is open; what was written to a file that is gone would be lost."""
        which = self._present()
        lost = self._ahead is not None and log_file(self._beside) != self._ahead
        if lost or which != self._which:
            self._drop()
            self._engine.dispose()
            self._which = which

    def _connected(self, connection: sa.Connection | None) -> Identity | None:
        """Return which write-ahead log a connection has.

        It is read first, which opens the log. All connections of a process to one file share its locks and its index,
        so they must have one log.
        """
        if self.file is None or connection is None:
            return None
        Line(connection).transact(lambda line: line.say("PRAGMA schema_version").fetchone(), self._begin.read)
        self._beside = log_of(self.file)
        found = log_file(self._beside)
        others = {store._ahead for store in list(_stores) if store._which == self._which and store._connection}  # noqa: SLF001 - its own kind
        if not others <= {None, found}:
            raise log_lost(self.address)
        return found

    def _check_own(self) -> None:
        self._check_ahead(self._ahead)

    def _check_ahead(self, ahead: Identity | None) -> None:
        if ahead is not None and log_file(self._beside) != ahead:
            raise log_lost(self.address)

    def _present(self) -> Identity | None:
        """Return which file the ledger is in; no other is made where one was."""
        which = None if self.file is None else database_file(self.file)
        if which is None and self._which is not None:
            raise LedgerFault(
                f"The ledger's file is gone ({self.address}).", instead="bringing it back, and opening it again"
            )
        return which

    def _drop(self) -> None:
        connection, self._connection, self._line = self._connection, None, None
        self._ahead = None
        if connection is not None:
            connection.close()

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
