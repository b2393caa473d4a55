"""The log of a ledger as one process uses it: the cached state, and transactions that read and append.

Only one thread at a time uses it. The work of a transaction is a function: after a collision the database runs it
again, and an interruption must leave no step of it. A forked process starts anew, with connections and a lock of its
own.
"""

import os
import sys
import threading
import weakref
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar, final

from pufferflow.accounting.ledger.database import Database
from pufferflow.accounting.ledger.events import Event, Head, encode
from pufferflow.accounting.ledger.reader import Reader
from pufferflow.accounting.ledger.state import LedgerState
from pufferflow.accounting.ledger.tables import ADD_EVENT, Transaction
from pufferflow.core.errors import PufferflowError, UsageError

T = TypeVar("T")


@final
class Appender(Reader):
    """A reader in a transaction that writes: it appends events, which the state applies once they are durable."""

    def __init__(self, state: LedgerState, transaction: Transaction) -> None:
        super().__init__(state, transaction)
        self.head = state.head
        self.written: list[Event] = []

    @property
    def next(self) -> int:
        """The number of the next event."""
        return self.head.number + 1

    @property
    def now(self) -> str:
        """The time of writing, for information."""
        return datetime.now(UTC).isoformat()

    def append(self, event: Event) -> Head:
        """Append an event and return the new head."""
        body = encode(event)
        self.head = self.head.after(body)
        self.transaction.run(
            ADD_EVENT, number=event.number, body=body.decode(), hash=self.head.hash
        )
        self.written.append(event)
        return self.head


@final
class Log:
    """A database, its state in memory, and the lock of the thread that uses it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._state, self._lock, self._open = LedgerState(), threading.RLock(), True
        self._snapshots, self._settled = threading.RLock(), True
        self._end = weakref.finalize(self, database.close)
        database.prepare()
        _logs.add(self)

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run work that reads, the state being up to date."""

        def inside(transaction: Transaction) -> T:
            self._state.catch_up(transaction)
            return work(Reader(self._state, transaction))

        with self._lock:
            return self._careful(lambda: self.database.read(inside))

    def write(self, work: Callable[[Appender], T]) -> T:
        """Run work and return its result once its events are durable; no other process appends meanwhile."""
        appenders: list[Appender] = []

        def inside(transaction: Transaction) -> T:
            self._state.catch_up(transaction)
            appenders.append(Appender(self._state, transaction))
            return work(appenders[-1])

        def whole() -> T:
            result = self.database.write(inside)
            for event in appenders[-1].written:
                self._state.apply(event)
            self._state.head = appenders[-1].head
            return result

        with self._lock:
            return self._careful(whole)

    def knows(self, shape: str) -> bool:
        """Return whether a total with this shape was computed before."""
        return shape in self._state.shapes

    def snapshot(self, work: Callable[[Transaction], T]) -> T:
        """Run work that reads on a connection of its own, without the cached state; other threads go on meanwhile."""
        self._check_open()
        self._check_not_inside()
        with self._snapshots:  # a fork waits for it
            return self.database.snapshot(work)

    def close(self) -> None:
        """Close the connections; nothing can be read or written from then on."""
        self._check_not_inside()
        with self._lock:
            self._open = False
            self._end()

    def hold(self, *, snapshots: bool) -> None:
        """Take one of the locks, for a process that is about to fork."""
        (self._snapshots if snapshots else self._lock).acquire()

    def rest(self) -> None:
        """Close connections that a child must not inherit; both locks are held."""
        self.database.rest()

    def release(self) -> None:
        """Go on after a fork."""
        self._lock.release()
        self._snapshots.release()

    def renew(self) -> None:
        """Start anew in a forked process: its parent's lock may be held, its state half read."""
        self._state, self._lock = LedgerState(), threading.RLock()
        self._snapshots, self._settled = threading.RLock(), True
        self.database.renew()

    def _careful(self, work: Callable[[], T]) -> T:
        """Run work; any unforeseen interruption may leave the state half updated, which is dropped.

        No clean-up is left for the end, where a second interruption could prevent it.
        """
        self._check_open()
        self._check_not_inside()
        if not self._settled:
            self._state.clear()
        self._settled = False
        try:
            result = work()
        except PufferflowError:
            self._settled = True
            raise
        self._settled = True
        return result

    def _check_open(self) -> None:
        if not self._open:
            raise UsageError(
                "The ledger is closed.", allowed="an open ledger", instead="pf.Ledger(address)"
            )

    def _check_not_inside(self) -> None:
        """Refuse a thread that is inside of a transaction already: a signal came, and its handler uses the ledger."""
        frame = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the frame of the caller; those before it may be of interrupted code
        while frame := frame.f_back:
            if frame.f_code is Log._careful.__code__ and frame.f_locals["self"] is self:
                raise UsageError(
                    "This thread was interrupted while it used the ledger.",
                    allowed="one transaction of a thread at a time",
                    instead="using the ledger after the signal's handler has returned",
                )


_logs: weakref.WeakSet[Log] = weakref.WeakSet()
_gate = threading.Lock()
_held: list[Log] = []


def _rest_all() -> None:
    """Wait until no thread is in a transaction; first for snapshots, since a copy waits for another log."""
    _gate.acquire()
    _held[:] = sorted(_logs, key=id)
    for log in _held:
        log.hold(snapshots=True)
    for log in _held:
        log.hold(snapshots=False)
    for log in _held:
        log.rest()


def _go_on() -> None:
    for log in _held:
        log.release()
    _held.clear()
    _gate.release()


def _renew_all() -> None:
    global _gate  # noqa: PLW0603 - the parent's is held
    _gate = threading.Lock()
    _held.clear()
    for log in list(_logs):
        log.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_rest_all, after_in_parent=_go_on, after_in_child=_renew_all)
