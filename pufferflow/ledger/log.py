"""The log of a ledger as one process uses it: what is known of it, and transactions that read and append.

One thread at a time. A process that is forked off begins anew, with connections and a lock of its own.
"""

import os
import sys
import threading
import weakref
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar, final

from pufferflow.errors import Misuse, PufferflowError
from pufferflow.ledger.connect import ADD_EVENT, Line
from pufferflow.ledger.database import Store
from pufferflow.ledger.events import Event, Head, encoded
from pufferflow.ledger.state import Books

T = TypeVar("T")


@final
class Pen:
    """What writes in one transaction: the books up to now, and events to append."""

    def __init__(self, books: Books, line: Line) -> None:
        self.books, self.line = books, line
        self.head = books.head
        self.written: list[Event] = []

    @property
    def next(self) -> int:
        """The number of the next event."""
        return self.head.number + 1

    @property
    def now(self) -> str:
        """The time, for people."""
        return datetime.now(UTC).isoformat()

    def append(self, event: Event) -> Head:
        """Append an event; the books learn of it once it is durable."""
        body = encoded(event)
        self.head = self.head.after(body)
        self.line.run(ADD_EVENT, number=event.number, body=body.decode(), hash=self.head.hash)
        self.written.append(event)
        return self.head


@final
class Log:
    """A store, what is known of it, and whose turn it is."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._books, self._lock, self._open = Books(), threading.RLock(), True
        self._aside, self._settled = threading.RLock(), True
        self._end = weakref.finalize(self, store.close)
        store.prepare()
        _logs.add(self)

    def read(self, work: Callable[[Books, Line], T]) -> T:
        """Return what work finds in the books, which are up to date."""

        def inside(line: Line) -> T:
            self._books.catch_up(line)
            return work(self._books, line)

        with self._lock:
            return self._careful(lambda: self.store.read(inside))

    def write(self, work: Callable[[Pen], T]) -> T:
        """Return what work gives once what it appended is durable; nobody else appends meanwhile."""
        pens: list[Pen] = []

        def inside(line: Line) -> T:
            self._books.catch_up(line)
            pens.append(Pen(self._books, line))
            return work(pens[-1])

        def whole() -> T:
            result = self.store.write(inside)
            for event in pens[-1].written:
                self._books.learn(event)
            self._books.head = pens[-1].head
            return result

        with self._lock:
            return self._careful(whole)

    def knows(self, shape: str) -> bool:
        """Say whether a total with this shape was worked out before."""
        return shape in self._books.shapes

    def apart(self, work: Callable[[Line], T]) -> T:
        """Return what work reads for itself, whatever the books say; others go on meanwhile."""
        self._check_open()
        self._check_free()
        with self._aside:  # a fork waits for it
            return self.store.apart(work)

    def close(self) -> None:
        """Close the connections; nothing can be read or written from then on."""
        self._check_free()
        with self._lock:
            self._open = False
            self._end()

    def hold(self, *, aside: bool) -> None:
        """Take one of the locks, for a process that is about to fork."""
        (self._aside if aside else self._lock).acquire()

    def rest(self) -> None:
        """Close what must not be inherited; both locks are held."""
        self.store.rest()

    def release(self) -> None:
        """Go on after a fork."""
        self._lock.release()
        self._aside.release()

    def renew(self) -> None:
        """Begin anew in a process that was forked off: its parent's lock may be held, its books half read."""
        self._books, self._lock = Books(), threading.RLock()
        self._aside, self._settled = threading.RLock(), True
        self.store.renew()

    def _careful(self, work: Callable[[], T]) -> T:
        """Return what work gives; whatever stops it unforeseen, a person too, may leave the books half learned.

        Nothing has to be put right at the end, where a second interruption could prevent it.
        """
        self._check_open()
        self._check_free()
        if not self._settled:
            self._books.forget()
        self._settled = False
        try:
            found = work()
        except PufferflowError:
            self._settled = True
            raise
        self._settled = True
        return found

    def _check_free(self) -> None:
        """Refuse a thread that is inside of a transaction already: a signal came, and its handler asks the ledger."""
        frame = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - of the caller, below whom stands whom a handler interrupted
        while frame := frame.f_back:
            if frame.f_code is Log._careful.__code__ and frame.f_locals["self"] is self:
                raise Misuse(
                    "The ledger is being read or written by this very thread, which was interrupted.",
                    allowed="one transaction of a thread at a time",
                    instead="asking the ledger after the signal's handler has returned",
                )

    def _check_open(self) -> None:
        if not self._open:
            raise Misuse("The ledger is closed.", allowed="an open ledger", instead="pf.Ledger(address)")


_logs: weakref.WeakSet[Log] = weakref.WeakSet()


_gate = threading.Lock()
_held: list[Log] = []


def _rest_all() -> None:
    """Wait until nobody is in a transaction; first for those who read apart, since a copy waits for another log."""
    _gate.acquire()
    _held[:] = sorted(_logs, key=id)
    for log in _held:
        log.hold(aside=True)
    for log in _held:
        log.hold(aside=False)
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
