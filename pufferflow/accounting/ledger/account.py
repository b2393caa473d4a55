"""An account: the limit on the total loss of all releases about one data set, its total, and corrections.

Corrections name entries whose recorded total is below the one proven today, because an older version counted too
little. Totals are computed anew whenever a ledger is opened, so accounts go on with the corrected ones. The total
recorded with an entry stays in the log, which only grows.

An older version took the least total over accounting methods after the answers were known. This concerns hidden classes
and columns under Rényi limits, and δ of keys that the data chooses. It concerns profiles of releases about rows that
others had not seen. It also concerns designed releases after others, or under limits of other kinds than `pf.Approx`.
For sums with public weights under a `pf.Table`, that version also stored too short a movement of a row. Accounts that
were opened since need no correction.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeVar, final

from pufferflow.accounting.account_costs import AccountCosts, AccountMethod
from pufferflow.accounting.forecast import AccountForecast, forecast
from pufferflow.accounting.ledger.budget import (
    Outlook,
    budget_of,
    outlook_of,
    over_time,
    places_among,
    read_ahead,
    spending_of,
)
from pufferflow.accounting.ledger.events import CHOSEN, read_text
from pufferflow.accounting.ledger.log import Log
from pufferflow.accounting.ledger.reader import Entry, Reader
from pufferflow.accounting.ledger.reserve import (
    HeldReservation,
    ReservationRequest,
    check_fingerprint,
)
from pufferflow.accounting.ledger.state import AccountState
from pufferflow.accounting.next_release import Past
from pufferflow.accounting.reserved import ReservedProfile
from pufferflow.accounting.row_and_group_privacy import differential_privacy, group_privacy
from pufferflow.accounting.rules.additive import is_understated
from pufferflow.core.errors import PufferflowError, Refused, UsageError, escape_controls
from pufferflow.core.notebook import Card, InNotebooks
from pufferflow.models.priors.gaussian_mixture import GaussianMixture
from pufferflow.models.priors.table import Empirical, Table
from pufferflow.models.scenario import Scenario
from pufferflow.privacy.guarantee import Divergence, Guarantee
from pufferflow.published.certificate import Reservable
from pufferflow.published.cost import Cost, digest_of
from pufferflow.published.release import Release
from pufferflow.queries.request import Request
from pufferflow.reports.evidence import Budget
from pufferflow.reports.numbers import SPENT, at_most

if TYPE_CHECKING:
    from pufferflow.reports.charts.base import Chart

_MORE: Final = 1e-5
"""The relative difference that totals of two machines may have."""
_MOST: Final = 200
"""The most entries of an account that are examined; of more, some at even distances."""


@final
@dataclass(frozen=True)
class Correction:
    """An entry of an account, the total that was recorded with it, and the one that is proven today."""

    account: str
    number: int
    release_id: str
    recorded: float
    total: float
    """∞ where no rule bounds it."""


def corrections(reader: Reader, name: str) -> tuple[Correction, ...]:
    """Return the entries of an account whose totals are corrected, in order; of very many, some and the last."""
    if not _may_differ(reader, name):
        return ()
    entries = reader.entries(name)
    return _corrected(reader, name, [entries[place] for place in places_among(len(entries), _MOST)])


def last_corrected(reader: Reader, name: str) -> Correction | None:
    """Return the newest entry of an account if its total is corrected."""
    found = _corrected(reader, name, reader.entries(name)[-1:]) if _may_differ(reader, name) else ()
    return found[-1] if found else None


def _corrected(reader: Reader, name: str, entries: Sequence[Entry]) -> tuple[Correction, ...]:
    account, spent = reader.account(name), reader.spent(name)
    views = {
        count: account.under(spent, count)
        for count in {account.scenarios_known(one.place) for one in entries}
    }
    found = list[Correction]()
    for entry in entries:
        proven = views[account.scenarios_known(entry.place)].first(entry.place + 1).proven()
        total = math.inf if proven is None else proven.total
        if not total <= entry.at_most * (1 + _MORE):
            found.append(Correction(name, entry.number, entry.release_id, entry.at_most, total))
    return tuple(found)


def _may_differ(reader: Reader, name: str) -> bool:
    """Return whether an older version may have counted too little."""
    account = reader.account(name)
    if account.rules >= CHOSEN:
        return False
    spent = reader.spent(name)
    known = list({id(cost.shape): cost.shape for cost in spent.costs}.values())
    if any(
        is_understated(prior, digest_of(prior), shape) for prior in spent.priors for shape in known
    ):
        return True
    if spent.limit.divergence is Divergence.LOG_RATIO:
        return False
    mixed = any(isinstance(prior, GaussianMixture | Table | Empirical) for prior in spent.priors)
    special = (
        bool(spent.keys_delta)
        or spent.reserved is not None
        or any(shape.exact_sums for shape in known)
    )
    return special or (mixed and spent.limit.divergence is Divergence.RENYI)


T = TypeVar("T")
Designed_co = TypeVar("Designed_co", covariant=True)
_ID = 'id="daily-2026-11-20", or id=None for a new release each time'


class Costly(Protocol):
    """A plan, as far as an account reads it: the cost of a release, and its scenario."""

    @property
    def cost(self) -> Cost: ...

    @property
    def request(self) -> Request: ...


class Designable(Protocol[Designed_co]):
    """A batch, as far as an account reads it to design a release."""

    def design(
        self,
        account: "Account",
        guarantee: Guarantee | None = None,
        *,
        loss: Any,
        outputs: Sequence[float] | None,
    ) -> Designed_co: ...


@final
@dataclass(frozen=True)
class Prospect(InNotebooks):
    """An account before and after one more release of a plan, and after a schedule of them.

    For an id that is `reserved` or `committed` already, one more release costs nothing. `after` is None if no rule
    totals it, `schedule` if none is given, or if its releases cannot be forecast.
    """

    spent: Guarantee
    after: Guarantee | None
    reserved: bool
    committed: bool
    remaining: int | float
    schedule: AccountForecast | None


@final
class Account(InNotebooks):
    """The privacy loss spent on one data set, and its limit; a ledger's `open` and `account` return it.

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

    def __init__(self, log: Log, state: AccountState) -> None:
        self._log, self._name, self._limit, self._dataset = (
            log,
            state.name,
            state.limit,
            state.dataset,
        )
        self._opening = state.opening

    @property
    def name(self) -> str:
        """The account's name in its ledger."""
        return self._name

    @property
    def dataset(self) -> str:
        """The name of the data set that the releases are about."""
        return self._dataset

    @property
    def limit(self) -> Guarantee:
        """The limit: the guarantee that all releases together must keep."""
        return self._limit

    @property
    def reserved(self) -> tuple[ReservedProfile, ...]:
        """The profiles that were reserved when the account was opened, those that reveal less first (M26)."""
        profiles = self._opening.reserved
        return () if profiles is None else tuple(profiles.profiles)

    @property
    def keys_delta(self) -> float:
        """The part of the limit's δ for keys that releases take from the data; sums keep the rest."""
        return self._opening.share_of_keys(self.scenario, self._limit)

    @property
    def scenarios(self) -> tuple[Scenario, ...]:
        """All scenarios so far, the newest last; totals hold for the priors of all."""
        return self._log.read(lambda reader: reader.account(self._name).scenarios)

    @property
    def scenario(self) -> Scenario:
        """The newest scenario, which plans must be made under."""
        return self.scenarios[-1]

    def spent(self) -> Guarantee:
        """Return the joint guarantee of all releases so far, including those reserved and never committed."""
        return self._total(lambda spent: spent.total().guarantee)

    def after(self, plan: Costly) -> Guarantee:
        """Return the joint guarantee of all releases after one more of a plan.

        >>> import tempfile, polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation())
        >>> plan = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").plan(pf.Pure(1.0))
        >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        ...     account = ledger.open("levels", scenario, limit=pf.Pure(3.0))
        ...     total = account.after(plan)
        ...     release = plan.release(account)
        ...     print(round(total.epsilon, 6), total == account.spent(), round(account.after(plan).epsilon, 6))
        1.0 True 2.0
        """
        return self._with_plan(plan, lambda spent, cost: spent.total([cost]).guarantee)

    def remaining(self, plan: Costly) -> int | float:
        """Return the number of further releases of a plan that the limit allows; infinite if they cost nothing."""
        return self._with_plan(plan, AccountCosts.remaining)

    def forecast(self, plan: Costly, every: object, until: object = None) -> AccountForecast:
        """Return the joint guarantee after releases of a plan at regular intervals: until a time, or without end.

        `every` is a number of steps of the scenario, or a duration where steps are durations. `until` may be the same,
        counted from the next release on. Or `until` names an end: a date, a moment, or a period (a `pf.Period`, or
        "2026-12-31", "2026-W53", "2026-12", "2026"). Then the releases are those with rows before that end.

        >>> import tempfile, polars as pl, pufferflow as pf
        >>> from datetime import date
        >>> chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
        >>> scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="at", step="1h")
        >>> hours = pl.datetime_range(date(2026, 11, 20), date(2026, 11, 21), "1h", closed="left", eager=True)
        >>> batch = pf.protect(pl.DataFrame({"at": hours, "on": [0, 1] * 12}), scenario).private_sum("on")
        >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        ...     account = ledger.open("hours", scenario, limit=pf.Pure(2.0))
        ...     account.forecast(batch.plan(pf.Pure(0.8)), every="1d", until="2026").releases    # from 20 November on
        42
        """
        return self._with_plan(
            plan,
            lambda spent, cost: forecast(spent, cost, every=every, until=until, limit=self._limit),
        )

    def prospect(self, plan: Costly, id: str, every: object = None) -> Prospect:  # noqa: A002 - the public name
        """Return what a release of a plan under an id would change, read in one transaction."""
        release_id, (cost, fingerprint) = read_text(id, "id", _ID), _cost_of(plan)

        def read(reader: Reader) -> Prospect:
            account = reader.account(self._name)
            spent = reader.total(self._name, lambda spent: spent.total().guarantee)
            committed = reader.find(self._name, release_id) is not None
            check_fingerprint(account, fingerprint)
            after = spent if release_id in account.reserved else None
            if after is None:
                with suppress(Refused):
                    after = reader.total(
                        self._name, lambda spent: spent.total([spent.counted(plan)]).guarantee, cost
                    )
            remaining = reader.total(
                self._name, lambda spent: spent.remaining(spent.counted(plan)), cost
            )
            schedule = None
            if every is not None:
                with suppress(PufferflowError):
                    schedule = reader.total(
                        self._name,
                        lambda spent: forecast(
                            spent, spent.counted(plan), every=every, until=None, limit=self._limit
                        ),
                    )
            return Prospect(
                spent, after, release_id in account.reserved, committed, remaining, schedule
            )

        return self._log.read(read)

    def budget(self, plan: Costly | None = None, every: object = None, ahead: int = 24) -> Budget:
        """Return the spending over time, and totals of further releases, as plain values for a report.

        The further releases are of `plan`, one `every` so often. Without a plan they continue at the distance of the
        last two releases of one kind, if there is one. If no forecast is possible, `note` says why.

        >>> import tempfile, polars as pl, pufferflow as pf
        >>> chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
        >>> scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour")
        >>> batch = pf.protect(pl.DataFrame({"hour": range(48), "on": [0, 1] * 24}), scenario)
        >>> days = [pl.col("hour").is_between(day * 24, day * 24 + 23) for day in (0, 1)]
        >>> plans = [batch.filter(day).private_sum("on").plan(pf.Pure(0.8)) for day in days]
        >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        ...     account = ledger.open("hours", scenario, limit=pf.Pure(2.0))
        ...     releases = [plan.release(account) for plan in plans]
        ...     budget = account.budget(ahead=2)
        >>> budget.every, budget.releases, round(budget.spent, 3), [round(total, 3) for total in budget.ahead]
        ('24 steps', 2, 0.846, [0.849, 0.849])
        """
        times, cost, fingerprint, problem = read_ahead(ahead), None, "", ""
        try:
            if plan is not None:
                cost, fingerprint = _cost_of(plan)
        except UsageError as error:
            problem = error.problem

        def read(reader: Reader) -> Budget:
            account, entries, wrong = (
                reader.account(self._name),
                reader.entries(self._name),
                problem,
            )
            try:
                if cost is not None:
                    check_fingerprint(account, fingerprint)
            except UsageError as error:
                wrong = error.problem
            superseded = len(account.scenarios) > 1

            def tell(spent: AccountCosts) -> Budget:
                next_cost = cost if plan is None or cost is None else spent.counted(plan)
                outlook = (
                    Outlook(note=wrong)
                    if wrong
                    else outlook_of(spent, next_cost, every, self._limit, times)
                )
                spending, totals = (
                    spending_of(spent),
                    over_time(spent, entries, superseded=superseded),
                )
                return budget_of(account, entries, spending, totals, outlook)

            return reader.total(self._name, tell, cost)

        return self._log.read(read)

    def plot(self, plan: Costly | None = None, every: object = None, ahead: int = 24) -> "Chart":
        """Return a chart of what is spent after each release, against the limit, made with Altair.

        A forecast follows, of releases of the plan, one `every` so often, as in `budget`, as far as the limit allows.
        Altair comes with the extra `notebook`.

        >>> import tempfile, polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation())
        >>> plan = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").plan(pf.Pure(1.0))
        >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        ...     account = ledger.open("levels", scenario, limit=pf.Pure(3.0))
        ...     releases = [plan.release(account) for _ in range(2)]
        ...     chart = account.plot()
        >>> chart.description
        '2 releases of account levels spent epsilon 2; the limit is 3. After 1 more it would be 3.'
        """
        from pufferflow.reports.charts.spending import spending_chart

        return spending_chart(self.budget(plan, every, ahead), self._limit.measure)

    def differential_privacy(self) -> Guarantee | None:
        """Return the joint differential privacy of one row's value under all releases; None if unknown.

        It is the guarantee that holds if rows are independent of each other. It covers the pairs of values that the
        scenario hides from each other; for `pf.Initial`, of the first row of a sequence. It is unknown for
        `pf.Presence`, `pf.Derived` and columns that are not the secret's.

        >>> import tempfile, polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation())
        >>> plan = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").plan(pf.Pure(1.0))
        >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        ...     account = ledger.open("levels", scenario, limit=pf.Pure(3.0))
        ...     releases = [plan.release(account) for _ in range(2)]
        ...     print(*(round(promise.epsilon, 4) for promise in (account.spent(), account.differential_privacy())))
        2.0 0.6667
        """
        return self._total(differential_privacy)

    def group_privacy(self) -> Guarantee | None:
        """Return the joint guarantee of all releases under any dependence of the rows of one group (M7).

        None if that is unknown: under a prior of independent rows the sizes of groups are not computed.
        """
        return self._total(group_privacy)

    def methods(self) -> tuple[AccountMethod, ...]:
        """Return the accounting methods of the account and what each says of all releases; () under `pf.Pure`.

        They are fixed with the first release. The least total of those that are alive is what is spent.

        >>> import tempfile, polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation())
        >>> plan = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").plan(pf.Pure(0.1))
        >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        ...     account = ledger.open("levels", scenario, limit=pf.Approx(3.0, 1e-6))
        ...     releases = [plan.release(account) for _ in range(2)]
        ...     print(*(f"{one.name} {one.share:.2f} {one.total:.2f}" for one in account.methods()))
        pure 0.00 0.20 gaussian 1.00 0.71
        """
        return self._total(lambda spent: spent.by_methods())

    def explain(self) -> str:
        """Return the spending in words, with its cause, and the joint guarantee that is left if a prior is wrong."""
        spending = self._total(spending_of)
        spent = (
            "an unknown amount"
            if spending.spent is None
            else f"{self._limit.measure} {at_most(spending.spent, SPENT)}"
        )
        lines = [
            f"Spent: {spent} of {self._limit!r}.",
            *filter(None, [spending.why, spending.note]),
        ]
        if keys := self.keys_delta:
            lines.append(
                f"Of delta {at_most(self._limit.delta, SPENT)}, {at_most(keys, SPENT)} is for keys from data."
            )
        lines += [
            f"{case.wrong[:1].upper()}{case.wrong[1:]}: {case.left}." for case in spending.what_if
        ]
        lines += self._corrected()
        return "\n".join(escape_controls(line, one_line=True) for line in lines)

    def _corrected(self) -> list[str]:
        """Return a sentence on a recorded total that is too small, if the newest is."""
        found = self._log.read(lambda reader: last_corrected(reader, self._name))
        if found is None:
            return []
        recorded = f"An older version recorded a total of {at_most(found.recorded, SPENT)} with entry {found.number}"
        return [f"{recorded}, which is too small; the ledger's verify names all such entries."]

    def past(self) -> Past:
        """Return all releases so far with their published outputs, as the design of a further one needs them."""
        return self._log.read(lambda reader: reader.past(self._name))

    def design(
        self,
        query: "Designable[Designed_co]",
        guarantee: Guarantee | None = None,
        *,
        loss: Any = "absolute",
        outputs: Sequence[float] | None = None,
    ) -> Designed_co:
        """Return the plan of the best next release within the limit, given the published outputs (M32).

        `query` is a batch with one sum or count, about rows that are draws from a `pf.Table`. Its answer is published
        through the channel with the least expected `loss`: "absolute", "squared", "zero-one", or a function of output
        and answer. `outputs` are what the channel may publish, by default the possible answers. All releases about
        these rows together keep `guarantee`, by default the account's limit. Only public columns are read.

        >>> import tempfile, polars as pl, pufferflow as pf
        >>> law = {"ill": ["no", "no", "yes", "yes"], "test": [0, 1, 0, 1], "probability": [0.3, 0.2, 0.2, 0.3]}
        >>> scenario = pf.Scenario(pf.Derived("ill"), pf.Table(law))
        >>> batch = pf.protect(pl.DataFrame({"test": [0, 1, 1, 0]}), scenario).private_sum("test", name="positive")
        >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        ...     account = ledger.open("tests", scenario, limit=pf.Pure(0.2))
        ...     first = batch.plan(pf.Pure(0.1)).release(account)
        ...     best = account.design(batch)
        ...     release = best.release(account)
        ...     print(release.frame["positive"].item() in best.channel.outputs, account.spent().epsilon <= 0.2)
        True True
        """
        return query.design(self, guarantee, loss=loss, outputs=outputs)

    def history(self) -> Sequence[Entry]:
        """Return the account's entries, the oldest first."""
        return self._log.read(lambda reader: reader.entries(self._name))

    def release(self, id: str) -> Release:  # noqa: A002 - the public name
        """Return the committed release with this id."""
        release_id = read_text(id, "id", _ID)

        def read(reader: Reader) -> tuple[Release | None, bool]:
            return reader.find(self._name, release_id), release_id in reader.account(
                self._name
            ).reserved

        release, reserved = self._log.read(read)
        if release is not None:
            return release
        raise UsageError(
            f"The account {self._name!r} has no release {release_id!r}"
            + (": it is reserved, and not committed yet." if reserved else "."),
            allowed="the id of a release that was committed",
            instead=f"plan.release(account, id={release_id!r})"
            if reserved
            else "account.history(), for the ids",
        )

    def find(self, id: str) -> Release | None:  # noqa: A002 - the public name
        """Return the committed release with this id; None if there is none yet."""
        release_id = read_text(id, "id", _ID)
        return self._log.read(lambda reader: reader.find(self._name, release_id))

    def newest(self, wanted: Callable[[str], bool] = lambda _: True) -> Release | None:
        """Return the newest committed release whose id fits `wanted`; None if there is none."""
        return self._log.read(lambda reader: reader.newest(self._name, wanted))

    def reserve(self, decision: Reservable, release_id: str | None) -> HeldReservation:
        """Reserve the cost of a release, durably, before a private row is read; refuse it above the limit.

        The same id again costs nothing: it completes what was reserved, or returns the stored release.
        """
        release_id = token_hex(16) if release_id is None else read_text(release_id, "id", _ID)
        return ReservationRequest.of(self._name, release_id, decision).reserve(self._log)

    def _total(self, ask: Callable[[AccountCosts], T]) -> T:
        return self._log.read(lambda reader: reader.total(self._name, ask))

    def _with_plan(self, plan: Costly, ask: Callable[[AccountCosts, Cost], T]) -> T:
        """Apply `ask` to the running total and the cost of a plan, which must be of the account's scenario."""
        cost, fingerprint = _cost_of(plan)

        def read(reader: Reader) -> T:
            check_fingerprint(reader.account(self._name), fingerprint)
            return reader.total(self._name, lambda spent: ask(spent, spent.counted(plan)), cost)

        return self._log.read(read)

    def __reduce__(self) -> NoReturn:
        raise not_sent("An account", "pf.Ledger(address).account(name)")

    def _card(self) -> Card:
        try:
            entries, lines = self.history(), self.explain().split("\n")
        except PufferflowError:  # a ledger that was closed, or cannot be read
            return super()._card()
        facts = [
            ("data set", self.dataset),
            ("limit", repr(self.limit)),
            ("releases", f"{len(entries):,}"),
        ]
        newest = [
            (entry.release_id, entry.state, entry.at[:19].replace("T", " "), repr(entry.promise))
            for entry in entries[-5:]
        ]
        return Card(
            f"Account {self.name}",
            lines,
            facts,
            head=("newest releases", "state", "at (UTC)", "guarantee") if newest else (),
            rows=newest[::-1],
        )

    def __repr__(self) -> str:
        return f"<Account {self._name!r} of data set {self._dataset!r}: limit {self._limit!r}>"


def _cost_of(plan: Costly) -> tuple[Cost, str]:
    """Return the cost of a plan, and the fingerprint of its scenario."""
    if not (hasattr(plan, "cost") and hasattr(plan, "request")):
        raise UsageError(
            f"The plan is of type {type(plan).__name__}.", allowed="a plan", instead="batch.plan(…)"
        )
    return plan.cost, plan.request.scenario.fingerprint


def not_sent(what: str, instead: str) -> UsageError:
    """Return the refusal to pickle or copy an object that holds connections."""
    return UsageError(
        f"{what} cannot be pickled or copied: it holds connections.",
        allowed="a ledger opened in each process, or opened before the fork",
        instead=instead,
    )
