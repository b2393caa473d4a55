"""Transactions on a ledger's database; what goes wrong in one comes out as a `LedgerFault` and leaves no trace."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar, final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from pufferflow.errors import LedgerFault
from pufferflow.ledger.engine import beginnings, engine_of, migrating, write_ahead
from pufferflow.ledger.faults import Failure
from pufferflow.ledger.line import Line
from pufferflow.ledger.migrations import STEPS, migrate, taken

T = TypeVar("T")
Work = Callable[[Line], T]
_TRIES: Final = 12
_LONGEST_PAUSE: Final = 0.05
_inherited: list[object] = []
"""Connections of a parent process: closing them here would end or damage the parent's."""


@final
class Store:
    """A ledger's database, opened, with its tables in their present form."""

    def __init__(self, url: sa.URL, wait: float) -> None:
        self.url, self._wait = url, wait
        self._engine = engine_of(url, wait)
        self._file = Path(url.database or "") if self._engine.dialect.name == "sqlite" else None
        self._connection: sa.Connection | None = None
        self._line: Line | None = None
        self._which: tuple[int, int] | None = None
        self._begin = beginnings(self._engine)

    @property
    def address(self) -> str:
        """Where the ledger is, without a password."""
        if self.url.drivername.startswith("sqlite"):
            return self.url.database or ""
        return self.url.render_as_string(hide_password=True)

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
            engine = engine_of(self.url, self._wait)
            try:
                with engine.connect() as connection:
                    return Line(connection).transact(work, self._begin.read)
            finally:
                engine.dispose()

        return self._guarded(whole)

    def renew(self) -> None:
        """Forget the connections of the process that this one was forked from."""
        _inherited.append((self._engine, self._connection))
        self._engine, self._connection, self._line = engine_of(self.url, self._wait), None, None

    def close(self) -> None:
        """Close all connections."""
        self._drop()
        self._engine.dispose()

    def _prepare(self) -> None:
        with self._engine.begin() as connection:
            connection.exec_driver_sql(self._begin.read)
            done = taken(connection)
        if self._file is not None:
            self._which = _which(self._file)
        if done == len(STEPS):
            return
        write_ahead(self._engine, self._wait)
        with migrating(self._engine).begin() as connection:
            connection.exec_driver_sql(self._begin.migrate)
            migrate(connection)

    def _transact(self, work: Work[T], beginning: str) -> T:
        """Work in a transaction on a connection that is kept: SQLite's cost more to make than to use.

        A server's go back to where they are tried before they are used again.
        """
        self._look()
        if self._line is None:
            self._connection = self._engine.connect()
            self._line = Line(self._connection)
        try:
            return self._line.transact(work, beginning)
        except BaseException:
            self._drop()
            raise
        finally:
            if self._file is None:
                self._drop()

    def _look(self) -> None:
        """See whether the file is still the one that is open; what was written to a file that is gone would be lost."""
        which = self._present()
        if which != self._which:
            self._drop()
            self._engine.dispose()
            self._which = which

    def _present(self) -> tuple[int, int] | None:
        """Return which file the ledger is in; no other is made where one was."""
        which = None if self._file is None else _which(self._file)
        if which is None and self._which is not None:
            raise LedgerFault(
                f"The ledger's file is gone ({self.address}).", instead="bringing it back, and opening it again"
            )
        return which

    def _drop(self) -> None:
        connection, self._connection, self._line = self._connection, None, None
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


def _which(file: Path) -> tuple[int, int] | None:
    """Return which file has a name; None if none has, or none that may be looked at."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
