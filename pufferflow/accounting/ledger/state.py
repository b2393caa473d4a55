"""The state of a ledger in memory: its accounts and the head of its log. A cache, updated by the events that follow.

Only the log counts. Each event that is read has to follow from the one before, the first from the cached head.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, final

from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.ledger.events import (
    CHOSEN,
    EMPTY,
    Committed,
    CommittedSummary,
    Event,
    EventSummary,
    Head,
    Opened,
    Reserved,
    ReservedSummary,
    StoredCost,
    Superseded,
    chain_hash,
    misfit,
    summarize,
)
from pufferflow.accounting.ledger.tables import LEAST, NEWS, Transaction
from pufferflow.accounting.methods import Methods, shared_out
from pufferflow.accounting.reserved import Opening, ReservedProfiles
from pufferflow.core.errors import LedgerError, UsageError
from pufferflow.core.suggestions import nearest
from pufferflow.models.scenario import Scenario
from pufferflow.published.cost import Cost, Shape

_BATCH: Final = 10_000
_NAMED: Final = 5
_SUPERSEDED: Final = "the account has a newer prior, under which its total counts all releases, those before included; "
_DECLARED: Final = "it was declared that no answer decided on this prior, so the total holds for the account as a whole"
_NOT_DECLARED: Final = (
    "answers may have decided on it, so the total under this prior holds only for the answers "
    "that led to it"
)


@final
class AccountState:
    """One account: its limit and scenarios, its reservations and commits, and the running total of its costs."""

    def __init__(self, opened: Opened) -> None:
        self.name, self.dataset, self.limit = opened.account, opened.dataset, opened.limit
        self.rules = opened.rules
        """The version of the rules by which the account counted when it was opened."""
        profiles = ReservedProfiles(opened.profiles, opened.limit) if opened.profiles else None
        offered = opened.methods if opened.rules > CHOSEN else None
        self.opening = Opening(profiles, opened.keys_delta, offered)
        """The profiles that were reserved, the part of δ for keys, and the accounting methods."""
        self.reserved: dict[str, int] = {}
        """The number of the reservation, by release id."""
        self.committed: dict[int, int] = {}
        """The number of the commit, by that of its reservation."""
        self.costs: list[StoredCost] = []
        self.spent: AccountCosts | None = None
        """The running total, of the first costs or of all; None if it has to begin anew."""
        self.designed = False
        """Whether some release is known to be designed for the account: then published outputs count."""
        self.last = opened.number
        """The number of the last event."""
        self._stated = [(opened.scenario, opened.fingerprint)]
        self._declared: list[bool] = []
        """For every later scenario, whether it was declared that no answer decided on it."""
        self._superseded_after: list[int] = []
        """The number of reservations before each of the later scenarios."""
        self._scenarios: list[Scenario] = []
        self._entries: set[int] = set()
        self._methods: list[tuple[int, str]] = []
        """The first reservation at which each accounting method is named."""
        self._shares: dict[str, float] = {}
        """The accounting methods with their shares, once they are fixed."""
        self._dead: dict[int, tuple[str, ...]] = {}
        """The methods that died with a reservation, by its place."""

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the scenario that plans must be of."""
        return self._stated[-1][1]

    @property
    def scenarios(self) -> tuple[Scenario, ...]:
        """All scenarios so far, the newest last."""
        for text, fingerprint in self._stated[len(self._scenarios) :]:
            scenario = None
            with suppress(UsageError):
                scenario = Scenario.from_ledger(text)
            if scenario is None or scenario.fingerprint != fingerprint:
                raise LedgerError(
                    f"The scenario of the account {self.name!r} cannot be read.",
                    allowed="a scenario that this pufferflow knows",
                    instead="ledger.verify(), or the pufferflow that wrote it",
                )
            self._scenarios.append(scenario)
        return tuple(self._scenarios)

    @property
    def first(self) -> int:
        """The number of the first reservation."""
        return min(self._entries, default=self.last)

    def apply(self, event: Event | EventSummary) -> None:
        """Update the state by the account's next event."""
        match event:
            case ReservedSummary() | Reserved():
                self._reserve(event)
            case CommittedSummary() | Committed():
                self._commit(event)
            case Superseded():
                self._stated.append((event.scenario, event.fingerprint))
                self._declared.append(event.regardless_of_answers)
                self._superseded_after.append(len(self.costs))
                self.spent = None
            case Opened():
                raise misfit(event.number, "it opens an account that is open")
        self.last = event.number

    def _reserve(self, event: ReservedSummary | Reserved) -> None:
        if event.fingerprint != self.fingerprint:
            raise misfit(event.number, "its plan is of another scenario than the account")
        if event.release in self.reserved:
            raise misfit(event.number, "its release is reserved already")
        self.reserved[event.release] = event.number
        self._entries.add(event.number)
        self._count_by(event)
        self.costs.append(event.cost)

    def _count_by(self, event: ReservedSummary | Reserved) -> None:
        """Note the accounting methods that a reservation names."""
        place = len(self.costs)
        if event.shares:
            if self._shares or not shared_out(event.shares):
                raise misfit(event.number, "its shares of the limit are not the account's")
            self._shares = event.shares
        if event.dead:
            if not set(event.dead) <= set(self._shares):
                raise misfit(event.number, "it ends methods that the account does not have")
            self._dead[place] = event.dead
        if event.method is not None and (not self._methods or self._methods[-1][1] != event.method):
            self._methods.append((place, event.method))

    def _commit(self, event: CommittedSummary | Committed) -> None:
        if event.entry not in self._entries:
            raise misfit(event.number, "it commits what was not reserved in its account")
        if event.entry in self.committed:
            raise misfit(event.number, "its entry is committed already")
        self.committed[event.entry] = event.number
        if self.designed:
            self.spent = None

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of certificates on the account's newer priors, if it has any."""
        if not self._declared:
            return ()
        return (_SUPERSEDED + (_DECLARED if all(self._declared) else _NOT_DECLARED),)

    def begin(self, *more: Scenario) -> AccountCosts:
        """Return a running total of no releases yet, under all scenarios and some more."""
        return self._of([*self.scenarios, *more])

    def scenarios_known(self, place: int) -> int:
        """Return how many scenarios the account had when the reservation at a place was made."""
        return 1 + sum(after <= place for after in self._superseded_after)

    def under(self, spent: AccountCosts, count: int) -> AccountCosts:
        """Return a running total under the first `count` scenarios."""
        if count == len(self.scenarios):
            return spent
        then = self._of(self.scenarios[:count])
        then.methods = spent.methods
        for cost in spent.all_costs:
            then.add(cost)
        return then

    def _of(self, scenarios: Sequence[Scenario]) -> AccountCosts:
        return AccountCosts(scenarios, self.limit, opening=self.opening)

    def add(self, costs: Sequence[Cost], spent: AccountCosts) -> None:
        """Add the costs that follow to a running total, by the methods of the first release that selects a row."""
        for cost in costs:
            place = len(spent)
            if spent.methods is None and not cost.selects_nothing:
                spent.methods = self._methods_from(place, cost, spent)
            spent.add(cost)
            spent.bury(self._dead.get(place, ()))

    def _methods_from(self, place: int, cost: Cost, spent: AccountCosts) -> Methods | None:
        """Return the accounting methods of the account from a reservation on, which is its first about a row.

        Older ledgers name a method for releases about no row too, which is ignored.
        """
        if self._shares:
            return Methods(self._shares)
        if self.opening.methods is not None:
            return None
        recorded = next(
            (method for first, method in reversed(self._methods) if first <= place), None
        )
        then = spent
        if recorded == "renyi":
            then = self._of(self.scenarios[: self.scenarios_known(place)])
        return then.method_meant(recorded, cost)


@final
class LedgerState:
    """The accounts by name, the head of the log up to which they are read, and the shapes of costs read so far."""

    def __init__(self) -> None:
        self.accounts: dict[str, AccountState] = {}
        self.shapes: dict[str, Shape] = {}
        self.head = EMPTY

    def clear(self) -> None:
        """Drop the cache; the next read starts at the first event."""
        self.head = EMPTY
        self.accounts.clear()
        self.shapes.clear()

    def account(self, name: str) -> AccountState:
        """Return an account that exists."""
        if name not in self.accounts:
            near = ", ".join(map(repr, nearest(name, self.accounts, _NAMED, cutoff=0.0)))
            raise UsageError(
                f"The ledger has no account {name!r}.",
                allowed=f"an account that was opened: {near or 'there is none yet'}",
                instead=f"ledger.open({name!r}, scenario, limit=pf.Pure(1.0))",
            )
        return self.accounts[name]

    def catch_up(
        self, transaction: Transaction, visit: Callable[[int, bytes], None] | None = None
    ) -> None:
        """Read the events that were appended since; `visit` is called with the number and the text of each."""
        known = self.head
        rows = transaction.run(NEWS, known=known.number or LEAST)  # numbers below 1 do not fit
        if known.number:
            row = rows.fetchone()
            if row is None or Head(row[0], row[2]) != known:
                raise LedgerError(
                    f"Entry {known.number} is not what it was: the ledger was replaced by another, or by an older "
                    "copy.",
                    allowed="a log that only grows",
                    instead="ledger.verify(head) on every copy; the one that has most entries counts",
                )
        try:
            while batch := rows.fetchmany(_BATCH):
                self._follow(batch, visit)
        except BaseException:
            self.clear()  # a part of a batch may be applied
            raise

    def apply(self, event: Event | EventSummary) -> None:
        """Update the state by the log's next event."""
        account = self.accounts.get(event.account)
        if account is not None:
            account.apply(event)
        elif isinstance(event, Opened):
            self.accounts[event.account] = AccountState(event)
        else:
            raise misfit(event.number, "its account was never opened")

    def _follow(self, rows: Sequence[Any], visit: Callable[[int, bytes], None] | None) -> None:
        first = self.head.number + 1
        head, bodies = _check_chain(self.head, rows)
        events = summarize(bodies)
        if events is None:
            wrong = next(
                (place for place, body in enumerate(bodies) if summarize([body]) is None), 0
            )
            raise misfit(first + wrong, "it is no event")
        for number, (event, body) in enumerate(zip(events, bodies, strict=True), first):
            if event.number != number:
                raise misfit(number, "it says that it is another one")
            if visit is not None:
                visit(number, body)
            self.apply(event)
        self.head = head


def _check_chain(head: Head, rows: Sequence[Any]) -> tuple[Head, list[bytes]]:
    """Return the head after some rows, and their texts; each hash has to follow."""
    (expected, before), bodies = head, list[bytes]()
    for number, text, digest in rows:
        expected += 1
        if number != expected or not isinstance(number, int):
            raise misfit(
                expected,
                "it is missing" + (f"; the next is {number}" if isinstance(number, int) else ""),
            )
        if not isinstance(text, str):
            raise misfit(expected, "it is no text")
        body = text.encode()
        before = chain_hash(before, body)
        if digest != before:
            raise misfit(
                number, "its hash does not follow; it, or one before it, was changed or moved"
            )
        bodies.append(body)
    return Head(expected, before), bodies
