"""What a log says, in memory. A cache: the log is the only truth, and reading goes on where it stopped.

Every event read has to follow from the one before, the first from the last that was known.

What the log says of one account: its limit and scenarios, its entries, what they have spent.

What an account's history tells of one release.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar, final

from pufferflow.composition import AccountCosts, Cost, Shape
from pufferflow.errors import LedgerFault, Misuse, Refused
from pufferflow.guarantees import Guarantee
from pufferflow.ledger.blobs import shape_of
from pufferflow.ledger.connect import LEAST, NEWS, RANGE, Line
from pufferflow.ledger.events import (
    NOTHING,
    Brief,
    Committed,
    Counted,
    Done,
    Event,
    Head,
    Opened,
    Placed,
    Reserved,
    Superseded,
    briefly,
    decoded_all,
    following,
)
from pufferflow.scenario import Scenario
from pufferflow.suggestions import nearest


def misfit(number: int, problem: str) -> LedgerFault:
    """Return the fault of an entry that does not fit."""
    return LedgerFault(
        f"Entry {number} does not fit: {problem}.",
        allowed="a log that nobody has changed",
        instead="ledger.verify(head) on the last copy that you kept",
    )


@final
class Kept:
    """An account as it stands in memory; it only grows, by the events that are read."""

    def __init__(self, opened: Opened) -> None:
        self.name, self.dataset, self.limit = opened.account, opened.dataset, opened.limit
        self.separate = opened.separate
        self.reserved: dict[str, int] = {}
        """The number of the entry, by release id."""
        self.committed: dict[int, int] = {}
        """The number of the commit, by that of the entry."""
        self.last = opened.number
        self._stated = [(opened.scenario, opened.fingerprint)]
        self._scenarios: list[Scenario] = []
        self._numbers: set[int] = set()
        self._placed: list[Placed] = []
        self._meters: list[tuple[int, str]] = []
        """From which reservation on which way of counting is named."""
        self._spent: AccountCosts | None = None

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the scenario that plans must be of."""
        return self._stated[-1][1]

    @property
    def scenarios(self) -> tuple[Scenario, ...]:
        """All scenarios so far, the newest last."""
        for text, fingerprint in self._stated[len(self._scenarios) :]:
            self._scenarios.append(_scenario(self.name, text, fingerprint))
        return tuple(self._scenarios)

    @property
    def first(self) -> int:
        """The number of the first entry."""
        return min(self._numbers, default=self.last)

    def learn(self, event: Event | Brief) -> None:
        """Add what one more event says."""
        match event:
            case Counted() | Reserved():
                self._reserve(event)
            case Done() | Committed():
                self._commit(event)
            case Superseded():
                self._stated.append((event.scenario, event.fingerprint))
                self._spent = None
            case Opened():
                raise misfit(event.number, "it opens an account that is open")
        self.last = event.number

    def _reserve(self, event: Counted | Reserved) -> None:
        if event.fingerprint != self.fingerprint:
            raise misfit(event.number, "its plan is of another scenario than the account")
        if event.release in self.reserved:
            raise misfit(event.number, "its release is reserved already")
        self.reserved[event.release] = event.number
        self._numbers.add(event.number)
        if event.meter is not None and (not self._meters or self._meters[-1][1] != event.meter):
            self._meters.append((len(self._placed), event.meter))
        self._placed.append(event.cost)

    def _commit(self, event: Done | Committed) -> None:
        if event.entry not in self._numbers:
            raise misfit(event.number, "it commits what was not reserved in its account")
        if event.entry in self.committed:
            raise misfit(event.number, "its entry is committed already")
        self.committed[event.entry] = event.number

    def costs(self, line: Line, shapes: dict[str, Shape], first: int = 0) -> list[Cost]:
        """Return the costs from one on; shapes that are not known yet are read."""
        waiting = self._placed[first:]
        for digest in {placed.shape for placed in waiting}.difference(shapes):
            shapes[digest] = shape_of(line, digest)
        return [placed.cost(shapes[placed.shape]) for placed in waiting]

    def spent(self, line: Line, shapes: dict[str, Shape]) -> AccountCosts:
        """Return what the account has spent."""
        spent = self._spent or AccountCosts(self.scenarios, self.limit)
        self._spent = None  # if what follows is interrupted, the next call begins anew
        self._spent = self._added(spent, self.costs(line, shapes, len(spent)))
        return self._spent

    def superseded(self, line: Line, shapes: dict[str, Shape], scenario: Scenario) -> AccountCosts:
        """Return what the account would have spent if the priors of one more scenario counted."""
        return self._added(AccountCosts([*self.scenarios, scenario], self.limit), self.costs(line, shapes))

    def _added(self, spent: AccountCosts, costs: Sequence[Cost]) -> AccountCosts:
        """Return what is spent with further costs, counted as the first release was that asks about a row.

        Older ledgers name a way of counting for releases about no row too, which fixes nothing.
        """
        for cost in costs:
            if self._meters and spent.meter is None and not cost.silent:
                place = len(spent)
                spent.meter = next((meter for first, meter in reversed(self._meters) if first <= place), None)
            spent.add(cost)
        return spent


def _scenario(name: str, text: str, fingerprint: str) -> Scenario:
    found = None
    with suppress(Misuse):
        found = Scenario.from_ledger(text)
    if found is None or found.fingerprint != fingerprint:
        raise LedgerFault(
            f"The scenario of the account {name!r} cannot be read.",
            allowed="a scenario that this pufferflow knows",
            instead="ledger.verify(), or the pufferflow that wrote it",
        )
    return found


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

    def spent(self, name: str, line: Line) -> AccountCosts:
        """Return what an account has spent."""
        return self.account(name).spent(line, self.shapes)

    def told(self, name: str, line: Line, ask: Callable[[AccountCosts], T]) -> T:
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


@final
@dataclass(frozen=True)
class Entry:
    """A release that was paid for: what it promised, and what all releases up to it told together.

    `state` is "reserved" until the release is kept, then "committed". Times are the writers' clocks, in UTC. A release
    is charged as soon as some proof keeps to the limit: `at_most` is what that proof gave, an epsilon of the kind of
    the account's limit, by `at_most_rule`. The least total that is proven, `total`, may be less.
    """

    number: int
    release_id: str
    state: str
    at: str
    committed_at: str | None
    promise: Guarantee
    asked: tuple[str, ...]
    certainty: str
    at_most: float
    at_most_rule: str
    so_far: AccountCosts | None = field(default=None, repr=False, compare=False)
    """All that is spent, of which the releases up to this one count; None where that cannot be told any more."""
    place: int = field(default=0, repr=False, compare=False)

    @property
    def total(self) -> float:
        """What all releases up to this one tell together, by the beliefs of today; of the newest, what is spent.

        It is worked out when it is first asked for. What cannot be told any more is `at_most`.
        """
        return self._least[0]

    @property
    def rule(self) -> str:
        """What carries the total."""
        return self._least[1]

    @cached_property
    def _least(self) -> tuple[float, str]:
        if self.so_far is None:
            return self.at_most, self.at_most_rule
        try:
            found = self.so_far.first(self.place + 1).total()
        except Refused:
            return self.at_most, self.at_most_rule
        return found.total, found.rule


def entries_of(kept: Kept, line: Line, spent: AccountCosts | None) -> tuple[Entry, ...]:
    """Return the entries of an account, in order; with what is spent, they can tell their totals."""
    rows = line.run(RANGE, first=kept.first, last=kept.last).fetchall()
    bodies = [body.encode() for _, body in rows if isinstance(body, str)]
    events = decoded_all(bodies)
    if events is None or len(bodies) != len(rows):
        raise LedgerFault("An entry of the account cannot be read.", instead="ledger.verify()")
    own = [event for event in events if event.account == kept.name]
    return _joined(own, spent)


def _joined(events: Sequence[Event], spent: AccountCosts | None) -> tuple[Entry, ...]:
    commits = {event.entry: event.at for event in events if isinstance(event, Committed)}
    reserved = [event for event in events if isinstance(event, Reserved)]
    return tuple(_entry(event, commits.get(event.number), spent, place) for place, event in enumerate(reserved))


def _entry(event: Reserved, committed_at: str | None, spent: AccountCosts | None, place: int) -> Entry:
    return Entry(
        number=event.number,
        release_id=event.release,
        state="reserved" if committed_at is None else "committed",
        at=event.at,
        committed_at=committed_at,
        promise=event.promise,
        asked=event.asked,
        certainty=event.certainty,
        at_most=event.total,
        at_most_rule=event.rule,
        so_far=spent,
        place=place,
    )
