"""What the log says of one account: its limit and scenarios, its entries, what they have spent."""

from collections.abc import Sequence
from contextlib import suppress
from typing import final

from pufferflow.composition import Cost, Shape, Spent
from pufferflow.errors import LedgerFault, Misuse
from pufferflow.ledger.events import Brief, Committed, Counted, Done, Event, Opened, Placed, Reserved, Superseded
from pufferflow.ledger.line import Line
from pufferflow.ledger.shelves import shape_of
from pufferflow.scenario import Scenario


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
        self._spent: Spent | None = None

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

    def spent(self, line: Line, shapes: dict[str, Shape]) -> Spent:
        """Return what the account has spent."""
        spent = self._spent or Spent(self.scenarios, self.limit)
        self._spent = None  # if what follows is interrupted, the next call begins anew
        self._spent = self._added(spent, self.costs(line, shapes, len(spent)))
        return self._spent

    def superseded(self, line: Line, shapes: dict[str, Shape], scenario: Scenario) -> Spent:
        """Return what the account would have spent if the priors of one more scenario counted."""
        return self._added(Spent([*self.scenarios, scenario], self.limit), self.costs(line, shapes))

    def _added(self, spent: Spent, costs: Sequence[Cost]) -> Spent:
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
