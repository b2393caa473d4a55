"""What a log says, in memory. A cache: the log is the only truth, and reading goes on where it stopped.

Every event read has to follow from the one before, the first from the last that was known.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, final

from pufferflow.composition import Shape, Spent
from pufferflow.errors import LedgerFault, Misuse, Refused
from pufferflow.ledger.events import NOTHING, Brief, Event, Head, Opened, briefly, following
from pufferflow.ledger.kept import Kept, misfit
from pufferflow.ledger.line import Line
from pufferflow.ledger.tables import LEAST, NEWS
from pufferflow.suggestions import nearest

T = TypeVar("T")
_AT_ONCE: Final = 10_000
_NAMED: Final = 5


@final
class Books:
    """Accounts by name, and the head of the log up to which they tell."""

    def __init__(self) -> None:
        self.accounts: dict[str, Kept] = {}
        self.shapes: dict[str, Shape] = {}
        self.forget()

    def forget(self) -> None:
        """Know nothing any more, as before the first reading."""
        self.head = NOTHING
        self.accounts.clear()
        self.shapes.clear()

    def account(self, name: str) -> Kept:
        """Return an account that exists."""
        if name not in self.accounts:
            near = ", ".join(map(repr, nearest(name, self.accounts, _NAMED, cutoff=0.0)))
            raise Misuse(
                f"The ledger has no account {name!r}.",
                allowed=f"an account that was opened: {near or 'there is none yet'}",
                instead=f"ledger.open({name!r}, scenario, limit=pf.Pure(1.0))",
            )
        return self.accounts[name]

    def spent(self, name: str, line: Line) -> Spent:
        """Return what an account has spent."""
        return self.account(name).spent(line, self.shapes)

    def told(self, name: str, line: Line, ask: Callable[[Spent], T]) -> T:
        """Return what the spent costs of an account tell; what stops it, but a refusal, may leave them half told."""
        spent = self.spent(name, line)
        try:
            return ask(spent)
        except Refused:
            raise
        except BaseException:
            self.forget()
            raise

    def catch_up(self, line: Line, seen: Callable[[int, bytes], None] | None = None) -> None:
        """Read what was appended since; `seen` is called with the number and the text of every event."""
        known = self.head
        rows = line.run(NEWS, known=known.number or LEAST)  # numbers below 1 are nobody's, and found
        if known.number and _end(rows.fetchone()) != known:
            raise LedgerFault(
                f"Entry {known.number} is not what it was: the ledger was replaced by another, or by an older copy.",
                allowed="a log that only grows",
                instead="ledger.verify(head) on every copy; the one that has most entries counts",
            )
        try:
            while batch := rows.fetchmany(_AT_ONCE):
                self._follow(batch, seen)
        except BaseException:
            self.forget()  # a part of a batch may be learned
            raise

    def learn(self, event: Event | Brief) -> None:
        """Add what one event says, with which the log now ends."""
        account = self.accounts.get(event.account)
        if account is not None:
            account.learn(event)
        elif isinstance(event, Opened):
            self.accounts[event.account] = Kept(event)
        else:
            raise misfit(event.number, "its account was never opened")

    def _follow(self, rows: Sequence[Any], seen: Callable[[int, bytes], None] | None) -> None:
        head, bodies = _chained(self.head, rows)
        events = briefly(bodies)
        if events is None:
            raise misfit(_first_wrong(bodies) + self.head.number, "it is no event")
        for number, event in enumerate(events, self.head.number + 1):
            if event.number != number:
                raise misfit(number, "it says that it is another one")
            if seen is not None:
                seen(number, bodies[number - self.head.number - 1])
            self.learn(event)
        self.head = head


def _end(row: Any) -> Head | None:
    return None if row is None else Head(row[0], row[2])


def _chained(head: Head, rows: Sequence[Any]) -> tuple[Head, list[bytes]]:
    """Return the head after some rows, and their texts; each hash has to follow."""
    (expected, before), bodies = head, list[bytes]()
    for number, text, kept in rows:
        expected += 1
        if number != expected or not isinstance(number, int):
            raise misfit(expected, "it is missing" + (f"; the next is {number}" if isinstance(number, int) else ""))
        if not isinstance(text, str):
            raise misfit(expected, "it is no text")
        body = text.encode()
        before = following(before, body)
        if kept != before:
            raise misfit(number, "its hash does not follow; it, or one before it, was changed or moved")
        bodies.append(body)
    return Head(expected, before), bodies


def _first_wrong(bodies: Sequence[bytes]) -> int:
    return next((place for place, body in enumerate(bodies, 1) if briefly([body]) is None), 1)
