"""The total of a schedule of releases, with or without an end, and the ways in which it may be counted (M20).

A schedule is one release repeated at a fixed distance of steps. An account shows one if releases of one kind follow
each other. Two releases are of one kind if they have the same queries, whatever the noise, the guarantee and the rows:
days of 23 and 25 hours, months, growing files and plans of another machine differ in these. Every release of one kind
has a position: its steps, and the times and numbers of its filters. The schedule's distance is the commonest one
between neighbours. So it is found although a period is missing, or an old one was released again.

A limit that is not pure is counted by several accounting methods, each with its share, or by profiles that were
reserved. A schedule has the least total of a method that is alive, and as many releases fit as one of them admits.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from itertools import islice, pairwise
from typing import Any, Final, NamedTuple, Protocol, final, runtime_checkable

import msgspec

from pufferflow.accounting.account_costs import AccountCosts, Composed, most
from pufferflow.accounting.reserved import (
    RESERVED,
    KeyDeltaPassed,
    NoneReserved,
)
from pufferflow.accounting.rules.additive import columns_of
from pufferflow.accounting.rules.autoregression import Movements, RepeatedRelease
from pufferflow.accounting.rules.base import UnitReleases
from pufferflow.accounting.rules.choice import PURE, RARE, RULES, RuleTotal
from pufferflow.accounting.rules.single_answers import SingleAnswersRule
from pufferflow.accounting.rules.single_rows import SingleRowsRule, turns_until_endless
from pufferflow.accounting.running_total import added_alone
from pufferflow.core.errors import UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.validate import quoted
from pufferflow.models.priors.base import Prior
from pufferflow.models.scenario import Scenario
from pufferflow.models.time_steps import UNEVEN, read_step, step_in_words
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.published.cost import Cost, Region

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - of all zones
_NAMED: Final = re.compile(r"(\d{4})(?:-(?:W(\d{2})|(\d{2})(?:-(\d{2}))?))?")
TIMES: Final = ("date", "moment", "local")
"""The kinds of regions whose values are nanoseconds since 1970."""
_MICROSECOND: Final = 1000


@runtime_checkable
class Ending(Protocol):
    """A period: its end as a local clock shows it, and as a moment."""

    @property
    def end(self) -> datetime: ...

    @property
    def ends(self) -> datetime: ...


def end_of(until: object) -> datetime | Ending | None:
    """Return the end of a date, a moment, a period or its name; None for a number or a duration.

    >>> end_of("2026-12-31"), end_of("2026-W01"), end_of("7d")
    (datetime.datetime(2027, 1, 1, 0, 0), datetime.datetime(2026, 1, 5, 0, 0), None)
    """
    if isinstance(until, datetime | Ending):
        return until
    if isinstance(until, date):
        return datetime(until.year, until.month, until.day) + timedelta(days=1)  # noqa: DTZ001 - local time
    named = _NAMED.fullmatch(until) if isinstance(until, str) else None
    if named is None:
        return None
    try:
        return _end_of_name(*(None if part is None else int(part) for part in named.groups()))
    except (ValueError, OverflowError):
        raise _no_end(until) from None


def _end_of_name(
    year: int | None, week: int | None, month: int | None, day: int | None
) -> datetime:
    known = year or 0
    if week is not None:
        return datetime.fromisocalendar(known, week, 1) + timedelta(weeks=1)
    if day is not None:
        return datetime(known, month or 0, day) + timedelta(days=1)  # noqa: DTZ001 - local time
    if month is not None:
        return (datetime(known, month, 1) + timedelta(days=32)).replace(day=1)  # noqa: DTZ001 - local time
    return datetime(known + 1, 1, 1)  # noqa: DTZ001 - local time


def releases_until(end: datetime | Ending, first: Cost, steps: int, scenario: Scenario) -> int:
    """Return the number of releases that have rows before an end: the first one, repeated every few steps."""
    begin = _begin_of(first, scenario)
    if begin is None:
        raise UsageError(
            "The schedule ends at a time, but the times of the rows of its releases are unknown.",
            allowed="a time where order_by or a filter is a date or a time; else a number of steps or a duration",
            instead=f"until={365 * steps}" if not scenario.timed else 'until="365d"',
        )
    left = _ticks(end, local=not first.clock.startswith("moment")) - begin
    count = -(-left // (steps * scenario.step))
    if count < 1:
        raise UsageError(
            f"The next release of the schedule is about rows from {_EPOCH + timedelta(microseconds=begin // 1000)} on, "
            "which is not before the end.",
            allowed="an end after the beginning of the next release",
            instead="account.spent(), which is the total so far",
        )
    return count


def _begin_of(cost: Cost, scenario: Scenario) -> int | None:
    """Return when the rows of a release begin, in nanoseconds since 1970; None if that is unknown."""
    low, kind = cost.window[0], cost.clock.partition(",")[0].partition(" ")[0]
    if scenario.timed and kind in {"time", "moment", "zone"} and low < cost.window[1]:
        return int(low) * scenario.step
    lows = [low for region in cost.regions.values() if (low := _low_of(region)) is not None]
    return max(lows, default=None) if scenario.timed else None


def _low_of(region: Region) -> Any:
    if region.kind not in TIMES:
        return None
    return (
        region.low
        if region.labels is None
        else min((one for one in region.labels if one is not None), default=None)
    )


def _ticks(end: datetime | Ending, *, local: bool) -> int:
    """Return an end in nanoseconds since 1970, of a local clock or of UTC; moments without a zone stay as they are."""
    if isinstance(end, Ending):
        end = end.end if local else end.ends
    if end.tzinfo is not None:
        end = end.replace(tzinfo=None) if local else end.astimezone(UTC).replace(tzinfo=None)
    return (end - _EPOCH) // timedelta(microseconds=1) * _MICROSECOND


def _no_end(until: object) -> UsageError:
    return UsageError(
        f"The schedule ends at {quoted(until)}, which names no day, week, month or year.",
        allowed="a date, a moment, a period, or a number of steps or a duration from the next release on",
        instead='until="2026-12-31"',
    )


_MOST_LOOKED_AT = 1_000
_STEPS = "\0steps"
_MOST_RELEASES = 1 << 17
_MOST_TURNS = 5_000
_RTOL = 1e-8
"""The relative margin of endless totals over finite ones, which are padded in another way."""
NO_RULE = "no composition rule bounds it"
UNBOUNDED = "the schedule never ends, and every release adds to the total, as all may be about the same rows"
OWN_NOISE = (
    "with this plan's noise: if the start of sequences matters, plans "
    "of later rows may have less noise and reveal more"
)
_MOST_COUNTED = 1 << 40
_FEW = 4096
ANY_STEP = (
    "the schedule never ends, and a row at any distance may cross a step of the grid or the border of its class: "
    "use a limit with a delta, and rows that move on with the schedule"
)
HARDLY_EVER = (
    "a small part of delta covers that a row far away crosses a step of the grid, by the variance that the prior "
    "declares"
)
_BY_ROWS = {"rows": SingleRowsRule.name, "answers": SingleAnswersRule.name}
"""The accounting methods that count the most exposed row, with the rules behind them."""
NO_REST = "what is revealed about one step does not decay along this chain"


@final
class Every(NamedTuple):
    """The distance from one release to the next: in steps, and in nanoseconds if steps are durations.

    `columns` says by how much filters on some columns move from one release to the next, where past releases show it.
    """

    steps: int
    ticks: int | None
    columns: tuple[tuple[str, int], ...] = ()


def read_every(given: object, scenario: Scenario, name: str = "every") -> Every:
    """Return a distance of whole steps, given as such or as a duration; a distance that is already read stays the same.

    >>> import pufferflow as pf
    >>> hours = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.Independent(), order_by="hour", step="1h")
    >>> read_every("1d", hours)
    Every(steps=24, ticks=86400000000000, columns=())
    """
    if isinstance(given, Every):
        return given
    allowed = "a whole number of steps above 0" + (
        ", or a duration of whole steps" if scenario.timed else ""
    )
    allowed += ', or a date or a period such as "2026-12-31"' * (name == "until" and scenario.timed)
    instead = f'{name}="1d"' if scenario.timed else f"{name}=24"
    steps: Any = given
    if isinstance(given, str | timedelta):
        if not scenario.timed:
            raise UsageError(
                f"{name} is a duration, but the scenario counts steps as numbers.",
                allowed=allowed,
                instead=instead,
            )
        steps = None
        with suppress(UsageError):  # no duration
            steps = Fraction(read_step(given)[0], scenario.step)
            steps = int(steps) if steps.denominator == 1 else None
        if steps is None and str(given).lstrip("0123456789").strip() in UNEVEN:
            allowed += "; months and years differ in length"
            instead = f'{name}="366d"' if "y" in str(given) else f'{name}="31d"'
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise UsageError(f"{name} is {quoted(given)}.", allowed=allowed, instead=instead)
    return Every(steps, steps * scenario.step if scenario.timed else None)


def later(cost: Cost, every: Every, times: int, scenario: Scenario) -> Cost:
    """Return the cost of the release that comes `turns` later; rows are added, none is removed.

    Filters on times are moved to later ones, others keep their values.
    """
    regions = dict(cost.regions)
    for column, region in cost.regions.items():
        if by := _step_of(column, region, every, scenario) * times:
            labels = (
                None
                if region.labels is None
                else tuple(_plus(label, by) for label in region.labels)
            )
            low, high = _plus(region.low, by), _plus(region.high, by)
            regions[column] = msgspec.structs.replace(region, labels=labels, low=low, high=high)
    return msgspec.structs.replace(
        RepeatedRelease(cost, every.steps, math.inf).turn(times), regions=regions
    )


def _plus(value: Any, by: int) -> Any:
    return None if value is None else value + by


def _step_of(column: str, region: Region, every: Every, scenario: Scenario) -> int:
    """Return the step by which a filter moves from one release to the next: by time, or not at all."""
    known = dict(every.columns)
    if column in known:
        return known[column]
    if region.kind in TIMES and every.ticks is not None:
        return every.ticks
    if region.kind == "number" and column == scenario.order_by and not scenario.timed:
        return every.steps * scenario.step
    return 0


def _turns_until_steady(
    cost: Cost, columns: Sequence[str], every: Every, scenario: Scenario, others: Sequence[Cost]
) -> float:
    """Return after how many releases every later one overlaps as many of the schedule, or of the others; ∞ if never.

    That number exists if a filter leaves a bounded part of a column and moves along it. A release overlaps the few
    around it, and from where all other releases begin or end, every one overlaps as many.
    """
    passed, around = 0, math.inf
    for column, region in cost.regions.items():
        by, own = _step_of(column, region, every, scenario), _ends(region, region.kind)
        if column not in columns or not by or not own:
            continue
        ends = [end for one in others for end in _ends(one.regions.get(column), region.kind)]
        passed = max([passed, *((end - own[0]) // by for end in ends)])
        around = min(around, (own[1] - own[0]) // by if len(own) == 2 else math.inf)
    return passed + around + 3


def _ends(region: Region | None, kind: str) -> list[Any]:
    """Return the ends of a region that are known: both, one or none."""
    if region is None or region.kind != kind:
        return []
    if region.labels is None:
        return [end for end in (region.low, region.high) if end is not None]
    known: list[Any] = [label for label in region.labels if label is not None]
    return [min(known), max(known)] if known else []


@final
class RecurringRelease(NamedTuple):
    """A schedule that an account shows: its last release by position, and the distance to the next.

    `every` is None where the filters of all select the same rows. `distances` are the shortest and the longest found,
    if they differ; `others` is the number of releases of other kinds.
    """

    last: Cost
    every: Every | None
    distances: tuple[Every, Every] | None = None
    others: int = 0


def _question(cost: Cost) -> Hashable:
    """Return the key of a kind of releases: all but noise, guarantee and rows."""
    shape = cost.shape
    return shape.setting, shape.column, shape.values, shape.slopes


def alike(account: AccountCosts, cost: Cost | None = None) -> int:
    """Return the number of releases of the kind of a cost, or of the newest, at any position."""
    costs = account.costs
    if not costs:
        return 0
    wanted = _question(costs[-1] if cost is None else cost)
    return sum(_question(one) == wanted for one in costs)


def recurring(account: AccountCosts, cost: Cost | None = None) -> RecurringRelease | None:
    """Return the schedule of the releases of a cost's kind, or of the newest one's; None if there is none.

    Filters of one kind are equal except for times. If then no two releases are of one kind, they may also differ in
    numbers, or in texts by which no prior separates rows.
    """
    newest = list(islice(reversed(account.costs), _MOST_LOOKED_AT))[::-1]
    if cost is None and not newest:
        return None
    model = newest[-1] if cost is None else cost
    for moving in ((), ("number",), ("number", "text", "bool")):
        kind = _kinds(account, moving)
        of_one_kind = [one for one in newest if kind(one) == kind(model)]
        if (
            len(of_one_kind) > 1
            and (schedule := _schedule_of(account.scenario, of_one_kind)) is not None
        ):
            return schedule._replace(others=len(newest) - len(of_one_kind))
    return None


def _kinds(account: AccountCosts, moving: Sequence[str]) -> Callable[[Cost], Hashable]:
    """Return a function from releases to their kinds, if filters by times and by some kinds of values may move."""
    scenario = account.scenario
    needed = {name for prior in account.priors for name in columns_of(scenario, prior)}

    def moves(column: str, region: Region) -> bool:
        if region.kind in TIMES or (region.kind == "number" and column == scenario.order_by):
            return True
        return region.kind in moving and (region.kind == "number" or column not in needed)

    def kind(cost: Cost) -> Hashable:
        filters = sorted(cost.regions.items())
        return _question(cost), tuple(
            (name, region.kind if moves(name, region) else region) for name, region in filters
        )

    return kind


def _schedule_of(scenario: Scenario, costs: Sequence[Cost]) -> RecurringRelease | None:
    """Return the schedule of some releases of one kind; None if they have no order."""
    placed = [_anchors(cost) for cost in costs]
    names = sorted({name for one in placed for name in one})
    if any(set(one) != set(names) for one in placed):
        return None
    moving = [name for name in names if len({one[name] for one in placed}) > 1]
    if not moving:
        return RecurringRelease(costs[-1], None)
    by_place = {
        tuple(one[name] for name in moving): cost for one, cost in zip(placed, costs, strict=True)
    }
    places = sorted(by_place)
    steps = [tuple(b - a for a, b in zip(*both, strict=True)) for both in pairwise(places)]
    if any(min(step) < 0 for step in steps):
        return None
    often, last = Counter(steps), by_place[places[-1]]
    chosen = min(often, key=lambda step: (-often[step], step))
    every, *distances = (
        _every(scenario, last, dict(zip(moving, step, strict=True)))
        for step in (chosen, min(steps), max(steps))
    )
    return RecurringRelease(last, every, (distances[0], distances[1]) if len(often) > 1 else None)


def _anchors(cost: Cost) -> dict[str, int]:
    """Return the position of a release: its step, and the beginnings of its filters on times and numbers."""
    anchors = {_STEPS: cost.offset}
    for name, region in cost.regions.items():
        known: list[Any] = [region.low, region.high, *(region.labels or ())]
        whole = [value for value in known if isinstance(value, int) and not isinstance(value, bool)]
        anchors |= {name: whole[0]} if whole else {}
    return anchors


def _every(scenario: Scenario, cost: Cost, moved: dict[str, int]) -> Every:
    """Return the distance from a release to the next: how far its steps and its filters have moved."""
    steps = moved.pop(_STEPS, 0)
    times = [by for name, by in moved.items() if cost.regions[name].kind in TIMES]
    if not steps:
        steps = (
            max(times, default=0) if scenario.timed else moved.get(scenario.order_by or "", 0)
        ) // scenario.step
    ticks = steps * scenario.step if scenario.timed and steps else max(times, default=None)
    return Every(steps, ticks, tuple(sorted(moved.items())))


@final
@dataclass(frozen=True)
class AccountForecast(InNotebooks):
    """A future total of an account: `total` is an ε, or ∞ if it grows without bound, as `note` explains.

    `releases` is the number of releases, ∞ for an endless schedule. `fits` is how many of them the limit allows. `rule`
    proves the total, by the accounting `method` if the account has several.

    >>> import tempfile, polars as pl, pufferflow as pf
    >>> chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    >>> scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour")
    >>> frame = pl.DataFrame({"hour": range(24), "on": [0, 1] * 12})
    >>> plan = pf.protect(frame, scenario).private_sum("on").plan(pf.Pure(0.8))
    >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
    ...     account = ledger.open("hours", scenario, limit=pf.Pure(2.0))
    ...     found = account.forecast(plan, every=24)
    >>> round(found.total, 4), found.fits
    (0.849, inf)
    """

    total: float
    guarantee: Guarantee | None
    rule: str
    releases: int | float
    fits: int | float
    note: str = ""
    method: str | None = None


def forecast(
    account: AccountCosts, cost: Cost, *, every: object, until: object = None, limit: Guarantee
) -> AccountForecast:
    """Return the future total of an account if a release is made now and repeated `every` so often.

    `every` and `until` are numbers of steps, or durations where steps are durations; `until` may be a date, a moment or
    a period as well. Without it the schedule never ends.
    """
    schedule = ScheduledReleases(account, cost, read_every(every, account.scenario))
    return schedule.forecast(None if until is None else schedule.until(until), limit)


@final
class ScheduledReleases:
    """The releases of a schedule that come after those of an account: one of a cost, repeated `every` so often.

    Each selects rows as many steps later; filters on dates and times move along. A schedule goes on after the last of
    its releases that is in the account already.
    """

    def __init__(self, account: AccountCosts, cost: Cost, every: Every) -> None:
        self._every, self._scenario = every, account.scenario
        self._cost = self._next(account, cost)
        self._account = account.begun(self._cost)
        self._costs = list[Cost]()

    def until(self, end: object) -> int:
        """Return how many releases there are until an end: those with rows before it."""
        known, steps = end_of(end), self._every.steps
        if known is None:
            releases = -(-read_every(end, self._scenario, "until").steps // steps)
        else:
            releases = releases_until(known, self._cost, steps, self._scenario)
        if releases > _MOST_RELEASES:
            raise UsageError(
                f"A schedule of {releases} releases.",
                allowed=f"at most {_MOST_RELEASES}",
                instead="until=None, for a schedule that never ends",
            )
        return releases

    def total(self, count: int) -> Composed:
        """Return the total of the account after so many of the releases."""
        return self._account.total(self._first(count))

    def forecast(self, releases: int | None, limit: Guarantee) -> AccountForecast:
        """Return the total of an account after `count` of the releases; for None, of an endless schedule."""
        account, allowed = self._account, limit.loss

        def fits(count: int) -> bool:
            return account.fits(self._first(count), allowed)

        def quickly_fits(count: int) -> bool:
            quick = account.along(schedule=RepeatedRelease(self._cost, self._every.steps, count))
            return quick is not None and quick.total <= allowed

        if releases is not None:
            try:
                total = self.total(releases)
            except (NoneReserved, KeyDeltaPassed) as refusal:
                rule = RESERVED if isinstance(refusal, NoneReserved) else NO_RULE
                return AccountForecast(
                    math.inf, None, rule, releases, most(fits, releases), refusal.problem
                )
            many = releases if total.total <= allowed else most(fits, releases)
            return AccountForecast(
                total.total,
                total.guarantee,
                total.rule,
                releases,
                many,
                self._noted(""),
                total.method,
            )
        (value, rule, note), method = min(
            ((self._endless_by(view), view.only_method) for view in account.by_each_method()),
            key=lambda one: one[0][0],
        )
        value = account.promised(value, [self._cost])
        many = math.inf
        if value > allowed:
            many = most(quickly_fits, _MOST_COUNTED)
            if many < _FEW and (many == 0 or fits(int(many) + 1)):
                many = most(fits, _MOST_RELEASES)
        promise = account.kind.at(value) if math.isfinite(value) else None
        return AccountForecast(value, promise, rule, math.inf, many, self._noted(note), method)

    def _noted(self, note: str) -> str:
        """Return a note, with those on releases that overlap and on plans that may have other noise."""
        own_noise = OWN_NOISE if self._cost.start is not None else ""
        return "; ".join(filter(None, (note, self._overlap, own_noise)))

    @property
    def _overlap(self) -> str:
        """Say by how much each release overlaps the one before; empty if it does not, or that is unknown."""
        (low, high), every = self._cost.window, self._every.steps
        if not (math.isfinite(low) and 0 < every < high - low):
            return ""
        whole, twice = int(high - low), int(high - low) - every
        if not self._scenario.timed:
            return f"each release reads {twice} steps that the one before read; every={whole} would not"
        size = self._scenario.step
        return (
            f"each release reads {step_in_words(twice * size)} that the one before read; "
            f'every="{step_in_words(whole * size)}" would not'
        )

    def _first(self, count: int) -> list[Cost]:
        """Return the costs of the first releases."""
        for turn in range(len(self._costs), count):
            self._costs.append(later(self._cost, self._every, turn, self._scenario))
        return self._costs[:count]

    def _next(self, account: AccountCosts, cost: Cost) -> Cost:
        """Return the cost of the first release of the schedule that was not made yet, by its position."""
        every, scenario, wanted = self._every, self._scenario, _question(cost)
        made = {_place(one) for one in account.costs if _question(one) == wanted}
        if _place(later(cost, every, 1, scenario)) == _place(cost):
            return cost
        turns = {
            *range(len(made)),
            *((offset - cost.offset) // every.steps for offset, *_ in made if every.steps),
        }
        known = (
            turn
            for turn in turns
            if turn >= 0 and _place(later(cost, every, turn, scenario)) in made
        )
        return later(cost, every, max(known, default=-1) + 1, scenario)

    def _endless_by(self, account: AccountCosts) -> tuple[float, str, str]:
        """Return the endless total by one accounting method under the worst prior."""
        found = (self._endless(account, prior) for prior in account.priors)
        return max(found, key=lambda one: one[0])

    def _endless(self, account: AccountCosts, prior: Prior) -> tuple[float, str, str]:
        """Return the endless total under one prior, the rule, and why it is infinite."""
        cost, scenario = self._cost, self._scenario
        repeated = RepeatedRelease(cost, self._every.steps, math.inf)
        releases = UnitReleases(
            scenario, prior, account.costs, account.steps_seen, schedule=repeated
        )
        pure = account.reserved is None and account.only_method == PURE
        proven = [
            RuleTotal(value, rule.name)
            for rule in (RULES if pure else ())
            if (value := rule.endless(releases)) is not None
        ]
        if proven:
            value, name, _ = min(proven, key=lambda total: total.value)
            note = NO_REST if math.isinf(value) else ""
            return account.from_pure(value * (1 + _RTOL)), name, note
        turns = (
            turns_until_endless(account.costs, cost, self._every.steps, prior)
            if account.only_method in _BY_ROWS
            else None
        )
        if turns is not None and turns <= _MOST_TURNS:
            return self._under(account, prior, turns), _BY_ROWS[str(account.only_method)], ""
        if cost.selects_nothing or added_alone(scenario, prior, cost, None) == 0:
            return self._under(account, prior, 0), "releases that reveal nothing", ""
        turns = _turns_until_steady(
            cost, columns_of(scenario, prior), self._every, scenario, account.costs
        )
        if turns <= _MOST_TURNS:
            rule = "filters that move on: each row is in some of the releases only (M25, M27)"
            return self._under(account, prior, int(turns)), rule, ""
        total = account.for_prior(prior).along(schedule=repeated)
        if total is not None:
            return total.total, total.rule, HARDLY_EVER if total.rule == RARE else ""
        return math.inf, NO_RULE, ANY_STEP if Movements.fit(scenario, prior) else UNBOUNDED

    def _under(self, account: AccountCosts, prior: Prior, count: int) -> float:
        """Return the total of the first releases under one prior; ∞ if no rule bounds it."""
        total = account.for_prior(prior).proven(self._first(count))
        return math.inf if total is None else total.total


def _place(cost: Cost) -> tuple[Any, ...]:
    return cost.offset, *sorted(cost.regions.items())
