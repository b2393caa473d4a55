"""An account: a limit on what all releases about one data set may tell together, and what they tell so far."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import NoReturn, Protocol, TypeVar, final

from pufferflow.composition import AccountCosts, Cost, Forecast, differential_privacy, forecast, group_privacy
from pufferflow.errors import LedgerFault, Misuse, visible
from pufferflow.guarantees import Guarantee
from pufferflow.ledger.budget import Ahead, Told, Total, ahead_of, budget_of, over_time, read_ahead, told_of
from pufferflow.ledger.connect import Line
from pufferflow.ledger.events import not_sent, read_text
from pufferflow.ledger.log import Log
from pufferflow.ledger.reserve import Held, Wish, check_fingerprint
from pufferflow.ledger.state import Books, Entry, entries_of
from pufferflow.ledger.verify import found_release, release_of
from pufferflow.planning import Decision
from pufferflow.queries import Request
from pufferflow.release import Release
from pufferflow.report import SPENT, at_most
from pufferflow.report.evidence import Budget
from pufferflow.scenario import Scenario

T = TypeVar("T")
_ID = 'id="daily-2026-11-20", or id=None for a new release each time'


class Costly(Protocol):
    """A plan, as far as an account needs it."""

    @property
    def cost(self) -> Cost:
        """What a release of it tells at most."""
        ...

    @property
    def questions(self) -> Request:
        """What is asked, and of which scenario."""
        ...


@final
class Account:
    """What is spent on one data set, and the limit; a ledger's `open` and `account` give it.

    >>> import tempfile, polars as pl, pufferflow as pf
    >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation())
    >>> plan = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").plan(pf.Pure(1.0))
    >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
    ...     account = ledger.open("levels", scenario, limit=pf.Pure(3.0))
    ...     release = plan.release(account, id="today")
    ...     print(account.history()[0].state, account.remaining(plan))
    ...     print(plan.release(account, id="today").frame.equals(release.frame))
    committed 2
    True
    """

    def __init__(self, log: Log, name: str) -> None:
        self._log, self._name = log, name
        kept = log.read(lambda books, _: books.account(name))
        self._limit, self._dataset = kept.limit, kept.dataset

    @property
    def name(self) -> str:
        """The account's name in its ledger."""
        return self._name

    @property
    def dataset(self) -> str:
        """Which data the releases are about."""
        return self._dataset

    @property
    def limit(self) -> Guarantee:
        """What all releases together may promise at worst."""
        return self._limit

    @property
    def scenarios(self) -> tuple[Scenario, ...]:
        """All scenarios so far, the newest last; totals hold for the priors of all."""
        return self._log.read(lambda books, _: books.account(self._name).scenarios)

    @property
    def scenario(self) -> Scenario:
        """The scenario that plans must be of."""
        return self.scenarios[-1]

    def spent(self) -> Guarantee:
        """Return what all releases so far promise together, those included that were reserved and never committed."""
        return self._told(lambda spent: spent.total().guarantee)

    def after(self, plan: Costly) -> Guarantee:
        """Return what all releases will promise together if one more is made of a plan.

        >>> import tempfile, polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation())
        >>> plan = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").plan(pf.Pure(1.0))
        >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        ...     account = ledger.open("levels", scenario, limit=pf.Pure(3.0))
        ...     told = account.after(plan)
        ...     release = plan.release(account)
        ...     print(round(told.epsilon, 6), told == account.spent(), round(account.after(plan).epsilon, 6))
        1.0 True 2.0
        """
        cost = self._cost_of(plan)
        return self._told(lambda spent: spent.total([cost]).guarantee)

    def remaining(self, plan: Costly) -> int | float:
        """Return how many more releases of a plan fit under the limit; infinite if it costs nothing."""
        cost = self._cost_of(plan)
        found = self._told(lambda spent: spent.remaining(cost))
        return found if found == math.inf else int(found)

    def forecast(self, plan: Costly, every: object, until: object = None) -> Forecast:
        """Return what releases of a plan, one every so often, will tell together: until then, or for ever.

        `every` is in steps of the scenario, or a duration where steps are durations.
        """
        cost, limit = self._cost_of(plan), self._limit
        return self._told(lambda spent: forecast(spent, cost, every=every, until=until, limit=limit))

    def budget(self, plan: Costly | None = None, every: object = None, ahead: int = 24) -> Budget:
        """Return what is spent over time, and totals of further releases, as plain values for a page.

        Releases go on as the plan, one `every` so often; left out, as the last two of one kind did, if they tell.
        Where nothing can be told of the future, `note` says why.

        >>> import tempfile, polars as pl, pufferflow as pf
        >>> chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
        >>> scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour")
        >>> batch = pf.protect(pl.DataFrame({"hour": range(48), "on": [0, 1] * 24}), scenario)
        >>> days = [pl.col("hour").is_between(day * 24, day * 24 + 23) for day in (0, 1)]
        >>> plans = [batch.filter(day).private_sum("on").plan(pf.Pure(0.8)) for day in days]
        >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        ...     account = ledger.open("hours", scenario, limit=pf.Pure(2.0))
        ...     releases = [plan.release(account) for plan in plans]
        ...     found = account.budget(ahead=2)
        >>> found.every, found.releases, round(found.spent, 3), [round(total, 3) for total in found.ahead]
        ('24 steps', 2, 0.846, [0.849, 0.849])
        """
        times, notes = read_ahead(ahead), list[str]()
        cost = None
        try:
            cost = None if plan is None else self._cost_of(plan)
        except Misuse as error:
            notes.append(error.problem)

        entries, superseded = self.history(), len(self.scenarios) > 1

        def tell(spent: AccountCosts) -> tuple[Told, dict[int, Total], Ahead]:
            future = Ahead(note="; ".join(notes)) if notes else ahead_of(spent, cost, every, self._limit, times)
            return told_of(spent), over_time(spent, entries, superseded=superseded), future

        told, past, future = self._told(tell)
        return budget_of(self._name, self._dataset, self._limit, entries, told=told, totals=past, ahead=future)

    def differential_privacy(self) -> Guarantee | None:
        """Return what all releases keep together as ordinary differential privacy of one row's value; None if unknown.

        That is what is left if rows have nothing to do with each other: then a row's own change is all that answers
        tell of it. It is over the pairs of values that the scenario hides from each other, of the first row of a
        sequence for `pf.Initial`. Of `pf.Presence`, `pf.Derived` and columns that are not the secret's nothing is said.

        >>> import tempfile, polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation())
        >>> plan = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").plan(pf.Pure(1.0))
        >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        ...     account = ledger.open("levels", scenario, limit=pf.Pure(3.0))
        ...     releases = [plan.release(account) for _ in range(2)]
        ...     print(*(round(kept.epsilon, 4) for kept in (account.spent(), account.differential_privacy())))
        2.0 0.6667
        """
        return self._told(differential_privacy)

    def group_privacy(self) -> Guarantee | None:
        """Return what all releases keep together whatever the rows of one group have to do with each other (M7).

        None where that is not known: of rows that are believed to be independent nobody looked at the groups.
        """
        return self._told(group_privacy)

    def explain(self) -> str:
        """Return in words what is spent, why so much, and what the releases keep together if a belief is wrong."""
        told = self._told(told_of)
        spent = "nobody can tell how much" if told.spent is None else f"epsilon {at_most(told.spent, SPENT)}"
        lines = [f"Spent: {spent} of {self._limit!r}.", *filter(None, [told.why, told.note])]
        lines += [f"{one.wrong[:1].upper()}{one.wrong[1:]}: {one.left}." for one in told.what_if]
        return "\n".join(visible(line, one_line=True) for line in lines)

    def history(self) -> Sequence[Entry]:
        """Return what was paid for, in order."""

        def entries(books: Books, line: Line) -> tuple[Entry, ...]:
            spent = None
            with suppress(LedgerFault):  # damaged costs: entries tell what they were charged
                spent = books.spent(self._name, line)
            return entries_of(books.account(self._name), line, spent)

        return self._log.read(entries)

    def release(self, id: str) -> Release:  # noqa: A002 - the name at the door
        """Return a release that was committed."""
        chosen = read_text(id, "id", _ID)
        return self._log.read(lambda books, line: release_of(books.account(self._name), line, chosen))

    def find(self, id: str) -> Release | None:  # noqa: A002 - the name at the door
        """Return a release if it was committed; None if it was not, or not yet."""
        chosen = read_text(id, "id", _ID)
        return self._log.read(lambda books, line: found_release(books.account(self._name), line, chosen))

    def reserve(self, decision: Decision, release_id: str | None) -> Held:
        """Reserve the cost of a release, durably, before a private row is read; refuse it above the limit.

        The same id again costs nothing: it completes what was reserved, or gives what is kept.
        """
        chosen = token_hex(16) if release_id is None else read_text(release_id, "id", _ID)
        return Wish.of(self._name, chosen, decision).reserve(self._log)

    def _told(self, ask: Callable[[AccountCosts], T]) -> T:
        return self._log.read(lambda books, line: books.told(self._name, line, ask))

    def _cost_of(self, plan: Costly) -> Cost:
        if not (hasattr(plan, "cost") and hasattr(plan, "questions")):
            raise Misuse(f"The plan is of type {type(plan).__name__}.", allowed="a plan", instead="batch.plan(…)")
        fingerprint = plan.questions.scenario.fingerprint
        self._log.read(lambda books, _: check_fingerprint(books.account(self._name), fingerprint))
        return plan.cost

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or sent: connections belong to one process."""
        raise not_sent("An account", "pf.Ledger(address).account(name)")

    def __repr__(self) -> str:
        """Show the name, the limit, and how many releases there are."""
        return f"<Account {self._name!r} of data set {self._dataset!r}: limit {self._limit!r}>"
