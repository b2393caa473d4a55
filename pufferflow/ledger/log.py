"""The log of a ledger as one process uses it: what is known of it, and transactions that read and append.

One thread at a time. A process that is forked off begins anew, with connections and a lock of its own.
"""

import os
import threading
import weakref
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar, final

from pufferflow.errors import Misuse, PufferflowError
from pufferflow.ledger.books import Books
from pufferflow.ledger.events import Event, Head, encoded
from pufferflow.ledger.line import Line
from pufferflow.ledger.store import Store
from pufferflow.ledger.tables import ADD_EVENT

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
        return self.store.apart(work)

    def close(self) -> None:
        """Close the connections; nothing can be read or written from then on."""
        with self._lock:
            self._open = False
            self._end()

    def renew(self) -> None:
        """Begin anew in a process that was forked off: its parent's lock may be held, its books half read."""
        self._books, self._lock = Books(), threading.RLock()
        self.store.renew()

    def _careful(self, work: Callable[[], T]) -> T:
        """Return what work gives; whatever stops it unforeseen, a person too, may leave the books half learned."""
        self._check_open()
        try:
            return work()
        except PufferflowError:
            raise
        except BaseException:
            self._books.forget()
            raise

    def _check_open(self) -> None:
        if not self._open:
            raise Misuse("The ledger is closed.", allowed="an open ledger", instead="pf.Ledger(address)")


_logs: weakref.WeakSet[Log] = weakref.WeakSet()


def _renew_all() -> None:
    for log in list(_logs):
        log.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
