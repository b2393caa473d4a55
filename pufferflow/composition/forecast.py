"""What a schedule will have cost: after some releases, or if it never ends (M20: a fixed point, or infinity).

Which schedule the releases of an account keep: those of one kind, and how far each asks after the one before.

Two releases are of one kind if the same is asked, whatever the noise, the promise and the rows: days of 23 and 25
hours, months, files that grow and plans of another machine differ in these. Of one kind every release lies somewhere,
by its steps and by what its filters say of times and numbers. The commonest distance of neighbours is the schedule's;
so it is seen although a period is missing, or an old one was released again.

A schedule: one release again and again, each time some steps later.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from itertools import islice, pairwise
from typing import Any, NamedTuple, final

import msgspec
import numpy as np

from pufferflow.arguments import shown
from pufferflow.chains import Exposures, continued
from pufferflow.composition.account_costs import AccountCosts, most
from pufferflow.composition.additive import CouplingRule, GranularityRule, columns_of
from pufferflow.composition.autoregression import Movements, RepeatedRelease
from pufferflow.composition.chain import MOST, MessagesRule
from pufferflow.composition.cost import Cost
from pufferflow.composition.regions import Region
from pufferflow.composition.rule import UnitReleases, from_pure
from pufferflow.composition.rules import RARE
from pufferflow.composition.timeline import Timeline, exposed, window_of
from pufferflow.errors import Misuse, Refused
from pufferflow.guarantees import Guarantee
from pufferflow.scenario import Scenario, read_step
from pufferflow.scenario.priors import Prior

TIMES = ("date", "moment", "local")


@final
class Every(NamedTuple):
    """How far one release is from the next: in steps of the sequence, and in nanoseconds if steps are durations.

    `columns` says by how much filters on some columns move from one release to the next, where past releases show it.
    """

    steps: int
    ticks: int | None
    columns: tuple[tuple[str, int], ...] = ()


def read_every(given: object, scenario: Scenario, name: str = "every") -> Every:
    """Return a distance of whole steps, given as such or as a duration; one that was read already is as it was.

    >>> import pufferflow as pf
    >>> hours = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.Independent(), order_by="hour", step="1h")
    >>> read_every("1d", hours)
    Every(steps=24, ticks=86400000000000, columns=())
    """
    if isinstance(given, Every):
        return given
    allowed = "a whole number of steps above 0" + (", or a duration of whole steps" if scenario.timed else "")
    instead = f'{name}="1d"' if scenario.timed else f"{name}=24"
    steps: Any = given
    if isinstance(given, str | timedelta):
        if not scenario.timed:
            raise Misuse(f"{name} is a duration, and steps are numbers.", allowed=allowed, instead=instead)
        steps = Fraction(read_step(given)[0], scenario.step)
        steps = int(steps) if steps.denominator == 1 else None
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise Misuse(f"{name} is {shown(given)}.", allowed=allowed, instead=instead)
    return Every(steps, steps * scenario.step if scenario.timed else None)


def later(cost: Cost, every: Every, times: int, scenario: Scenario) -> Cost:
    """Return the cost of the release that comes so many turns later; rows are added, none goes away."""
    by = every.steps * times
    steps_seen = None if cost.steps_seen is None else (cost.steps_seen[0], cost.steps_seen[1] + by)
    regions = _moved(cost.regions, every, times, scenario)
    return msgspec.structs.replace(cost, offset=cost.offset + by, steps_seen=steps_seen, regions=regions)


def step_of(column: str, region: Region, every: Every, scenario: Scenario) -> int:
    """Return how far a filter moves from one release to the next: one by time does, of others each asks the same."""
    known = dict(every.columns)
    if column in known:
        return known[column]
    if region.kind in TIMES and every.ticks is not None:
        return every.ticks
    if region.kind == "number" and column == scenario.order_by and not scenario.timed:
        return every.steps * scenario.step
    return 0


def turns_until_steady(
    cost: Cost, columns: Sequence[str], every: Every, scenario: Scenario, others: Sequence[Cost]
) -> float:
    """Return after how many releases of a schedule no later one meets more of it, or of the others; ∞ if never.

    So it is where a filter leaves a bounded part of a column and moves along it: a release meets the few around it, and
    from where all other releases begin or end on, every one meets as many.
    """
    passed, around = 0, math.inf
    for column, region in cost.regions.items():
        by, own = step_of(column, region, every, scenario), _ends(region, region.kind)
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
    known = [label for label in region.labels if label is not None] if region.labels is not None else []
    if region.labels is not None:
        return [min(known), max(known)] if known else []
    return [end for end in (region.low, region.high) if end is not None]


def _moved(regions: Mapping[str, Region], every: Every, times: int, scenario: Scenario) -> dict[str, Region]:
    """Return which rows are asked about then: those of later times, where a filter names times; else the same ones."""
    moves = {column: step_of(column, region, every, scenario) * times for column, region in regions.items()}
    return {column: _by(region, moves[column]) if moves[column] else region for column, region in regions.items()}


def _by(region: Region, by: int) -> Region:
    labels = None if region.labels is None else tuple(_plus(label, by) for label in region.labels)
    return msgspec.structs.replace(region, labels=labels, low=_plus(region.low, by), high=_plus(region.high, by))


def _plus(value: Any, by: int) -> Any:
    return None if value is None else value + by


_MOST_LOOKED_AT = 1_000
_STEPS = "\0steps"
Place = tuple[int, ...]
Kind = Callable[[Cost], Hashable]


@final
class Recurring(NamedTuple):
    """One release again and again: the one that lies farthest, and how much later the next is.

    `every` is None where all ask about the same rows, as far as filters tell. `distances` are all that were seen, as
    far as they are in one unit, the shortest and the longest; `others` is how many releases are of other kinds.
    """

    last: Cost
    every: Every | None
    distances: tuple[Every, Every] | None = None
    others: int = 0


def question(cost: Cost) -> Hashable:
    """Return what is asked, whatever the noise, the promise and the rows that there are."""
    shape = cost.shape
    return shape.setting, shape.column, shape.values, shape.slopes


def recurring(spent: AccountCosts, cost: Cost | None = None) -> Recurring | None:
    """Return the schedule that the releases keep which are of a cost's kind, or of the newest one's; None if none is.

    Filters of one kind are equal but for times; if no two releases are of one kind then, but for numbers as well, or
    for texts by which no belief keeps rows apart.
    """
    newest = list(islice(reversed(spent.costs), _MOST_LOOKED_AT))[::-1]
    if cost is None and not newest:
        return None
    model = newest[-1] if cost is None else cost
    for kind in (_but_for(spent, ()), _but_for(spent, ("number",)), _but_for(spent, ("number", "text", "bool"))):
        alike = [one for one in newest if kind(one) == kind(model)]
        if len(alike) > 1 and (found := _schedule(spent, alike)) is not None:
            return found._replace(others=len(newest) - len(alike))
    return None


def alike(spent: AccountCosts, cost: Cost | None = None) -> int:
    """Return how many releases ask what a cost asks, or what the newest does, wherever their rows are."""
    costs = spent.costs
    if not costs:
        return 0
    wanted = question(costs[-1] if cost is None else cost)
    return sum(question(one) == wanted for one in costs)


def _but_for(spent: AccountCosts, kinds: Sequence[str]) -> Kind:
    """Return what tells releases of different kinds apart, if filters by times and by some kinds of values may move."""
    scenario = spent.scenario
    needed = {name for prior in spent.priors for name in columns_of(scenario, prior)}

    def fixed(column: str, region: Region) -> bool:
        if region.kind in TIMES or (region.kind == "number" and column == scenario.order_by):
            return False
        if region.kind == "number":
            return "number" not in kinds
        return region.kind not in kinds or column in needed

    def kind(cost: Cost) -> Hashable:
        filters = sorted(cost.regions.items())
        return question(cost), tuple((name, region if fixed(name, region) else region.kind) for name, region in filters)

    return kind


def _schedule(spent: AccountCosts, alike: Sequence[Cost]) -> Recurring | None:
    """Return what some releases of one kind keep to; None if they lie in no order."""
    placed = [_anchors(cost) for cost in alike]
    names = sorted({name for one in placed for name in one})
    if any(set(one) != set(names) for one in placed):
        return None
    moving = [name for name in names if len({one[name] for one in placed}) > 1]
    if not moving:
        return Recurring(alike[-1], None)
    by_place = {tuple(one[name] for name in moving): cost for one, cost in zip(placed, alike, strict=True)}
    places = sorted(by_place)
    steps = [tuple(b - a for a, b in zip(*both, strict=True)) for both in pairwise(places)]
    if any(min(step) < 0 for step in steps):
        return None
    often = Counter(steps)
    chosen = min(often, key=lambda step: (-often[step], step))
    last = by_place[places[-1]]
    every = [_every(spent, last, dict(zip(moving, step, strict=True))) for step in (chosen, min(steps), max(steps))]
    return Recurring(last, every[0], (every[1], every[2]) if len(often) > 1 else None)


def _anchors(cost: Cost) -> dict[str, int]:
    """Return where a release lies: at which step, and where its filters by times and numbers begin."""
    found = {name: _anchor(region) for name, region in cost.regions.items()}
    return {_STEPS: cost.offset, **{name: place for name, place in found.items() if place is not None}}


def _anchor(region: Region) -> int | None:
    known: list[Any] = [region.low, region.high, *(region.labels or ())]
    return next((value for value in known if isinstance(value, int) and not isinstance(value, bool)), None)


def _every(spent: AccountCosts, cost: Cost, moved: dict[str, int]) -> Every:
    """Return how far a release is from the next, by how far its steps and its filters have moved."""
    scenario, steps = spent.scenario, moved.pop(_STEPS, 0)
    times = [by for name, by in moved.items() if cost.regions[name].kind in TIMES]
    if not steps:
        steps = (max(times, default=0) if scenario.timed else moved.get(scenario.order_by or "", 0)) // scenario.step
    ticks = steps * scenario.step if scenario.timed and steps else max(times, default=None)
    return Every(steps, ticks, tuple(sorted(moved.items())))


_MOST_RELEASES = 1 << 17
_MOST_TURNS = 5_000
_HAIR = 1e-8
"""By how much more endless totals are, for those of finite runs are padded too, in another way."""
FOR_EVER = "the schedule never ends and every release adds to the total, since all may be about the same rows"
OWN_NOISE = (
    "with this plan's noise: where it matters when sequences began, plans of later rows may have less and tell more"
)
_MOST_COUNTED = 1 << 40
_FEW = 4096
ANY_STEP = (
    "the schedule never ends, and a row may cross a step of the grid, or the border of its class, however far away it "
    "is; a limit with a delta leaves that out where it hardly ever happens, for rows that move on with the schedule"
)
HARDLY_EVER = (
    "a small part of delta covers that a row far away crosses a step of the grid, by the variance that the prior "
    "declares"
)
NO_REST = "what is told of one step does not fade on the way along this chain"


@final
@dataclass(frozen=True)
class Forecast:
    """What will have been spent: `total` is an ε, ∞ where there is no end to it, as `note` explains.

    `releases` is how many there will be, ∞ for an endless schedule; `fits` how many of them the limit allows; `rule`
    says what carries the total.

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


def forecast(spent: AccountCosts, cost: Cost, *, every: object, until: object = None, limit: Guarantee) -> Forecast:
    """Return what an account will have spent if a release is made now and again `every` so often.

    `every` and `until` are numbers of steps, or durations where steps are durations; without `until` the schedule never
    ends. Each release asks about rows as many steps later; filters on dates and times move along. A schedule goes on
    after the last of its releases that is in the account already.
    """
    gap, releases = read_every(every, spent.scenario), None
    if until is not None:
        releases = -(-read_every(until, spent.scenario, "until").steps // gap.steps)
        if releases > _MOST_RELEASES:
            raise Misuse(
                f"A schedule of {releases} releases.",
                allowed=f"at most {_MOST_RELEASES}",
                instead="until=None, for a schedule that never ends",
            )
    return forecast_of(spent, cost, gap, releases, limit)


def forecast_of(spent: AccountCosts, cost: Cost, gap: Every, releases: int | None, limit: Guarantee) -> Forecast:
    """Return what an account will have spent after so many more releases of a schedule; of None, if it never ends."""
    scenario, allowed = spent.scenario, limit.epsilon
    cost = _next(spent, cost, gap)
    spent = spent.begun(cost)

    def total(times: int) -> float:
        try:
            return spent.total([later(cost, gap, turn, scenario) for turn in range(times)], enough=allowed).total
        except Refused:
            return math.inf

    def quick(times: int) -> float:
        found = spent.along(schedule=RepeatedRelease(cost, gap.steps, times))
        return math.inf if found is None else found.total

    if releases is not None:
        found = spent.total([later(cost, gap, turn, scenario) for turn in range(releases)])
        fits = releases if found.total <= allowed else most(lambda times: total(times) <= allowed, releases)
        return Forecast(found.total, found.guarantee, found.rule, releases, fits, _noted(found.note, cost))
    value, rule, note = max((_endless(spent, prior, cost, gap) for prior in spent.priors), key=lambda one: one[0])
    value = spent.promised(value, [cost])
    if value <= allowed:
        return Forecast(value, spent.kind.at(value), rule, math.inf, math.inf, _noted(note, cost))
    fits = most(lambda times: quick(times) <= allowed, _MOST_COUNTED)
    if fits < _FEW and (fits == 0 or total(int(fits) + 1) <= allowed):
        fits = most(lambda times: total(times) <= allowed, _MOST_RELEASES)
    promise = spent.kind.at(value) if math.isfinite(value) else None
    return Forecast(value, promise, rule, math.inf, fits, _noted(note, cost))


def _noted(note: str, cost: Cost) -> str:
    """Return a note that says whose noise is counted with, where that of another day may differ."""
    return "; ".join(part for part in (note, OWN_NOISE if cost.start is not None else "") if part)


def _next(spent: AccountCosts, cost: Cost, every: Every) -> Cost:
    """Return the cost of the first release of a schedule that was not made yet, as far as places tell."""
    wanted = question(cost)
    made = {_place(one) for one in spent.costs if question(one) == wanted}
    if _place(later(cost, every, 1, spent.scenario)) == _place(cost):
        return cost
    turns = {*range(len(made)), *((shift - cost.offset) // every.steps for shift, *_ in made if every.steps)}
    known = (turn for turn in turns if turn >= 0 and _place(later(cost, every, turn, spent.scenario)) in made)
    return later(cost, every, max(known, default=-1) + 1, spent.scenario)


def _place(cost: Cost) -> tuple[Any, ...]:
    return cost.offset, *sorted(cost.regions.items())


def _endless(spent: AccountCosts, prior: Prior, cost: Cost, every: Every) -> tuple[float, str, str]:
    """Return what releases tell for ever under one belief, the rule, and why that has no end."""
    costs = [*spent.costs, cost]
    if spent.meter in {None, "pure"} and Timeline.fits(spent.scenario, prior, costs):
        value = _along(spent, prior, cost, every) * (1 + _HAIR)
        return from_pure(value, spent.kind), MessagesRule.name, NO_REST if math.isinf(value) else ""
    if _free(spent, prior, cost):
        return _under(spent, prior, cost, every, 0), "releases that tell nothing", ""
    turns = turns_until_steady(cost, columns_of(spent.scenario, prior), every, spent.scenario, spent.costs)
    if turns <= _MOST_TURNS:
        return (
            _under(spent, prior, cost, every, int(turns)),
            "filters that move on: each row is in some of the releases only (M25, M27)",
            "",
        )
    found = spent.along(schedule=RepeatedRelease(cost, every.steps, math.inf), prior=prior)
    if found is not None:
        return found.total, found.rule, HARDLY_EVER if found.rule == RARE else ""
    return math.inf, "no rule bounds it", ANY_STEP if Movements.fit(spent.scenario, prior) else FOR_EVER


def _free(spent: AccountCosts, prior: Prior, cost: Cost) -> bool:
    """Say whether a release tells nothing along any coupling of the data, whatever else is released."""
    asked = UnitReleases(spent.scenario, prior, [cost])
    return cost.silent or min(CouplingRule().pure(asked), GranularityRule().pure(asked)) == 0


def _under(spent: AccountCosts, prior: Prior, cost: Cost, every: Every, times: int) -> float:
    """Return the total of some releases under one belief."""
    scenario = spent.scenario
    one = AccountCosts([scenario], spent.limit, spent.meter, [prior])
    for known in spent.costs:
        one.add(known)
    try:
        return one.total([later(cost, every, turn, scenario) for turn in range(times)]).total
    except Refused:
        return math.inf


def _along(spent: AccountCosts, prior: Any, cost: Cost, every: Every) -> float:
    """Return what windows tell for ever, those that are spent and those of the schedule, as a fixed point (M20)."""
    low, high = window_of(cost)
    if math.isinf(low):  # nothing is asked
        return MessagesRule().pure(UnitReleases(spent.scenario, prior, [*spent.costs, cost], spent.steps_seen))
    if prior.period is None or not every.steps:  # it asks about the same steps again and again
        return math.inf
    before = [window_of(one)[1] for one in spent.costs]
    steady = int(max([high, *(end for end in before if math.isfinite(end))]))
    turns = -(-(steady + every.steps - int(low)) // every.steps) + 1
    scheduled = [later(cost, every, turn, spent.scenario) for turn in range(turns)]
    line = Timeline(spent.scenario, prior, [*spent.costs, *scheduled], spent.steps_seen)
    chain, base = line.turn()
    _, known = exposed(line.costs, (base, int(max(window_of(one)[1] for one in line.costs))))
    if not (known.losses < MOST).all():  # so `MessagesRule` will not count it
        return math.inf
    head, after = known.kinds[: steady - base], known.kinds[steady - base : steady - base + every.steps]
    turn = np.roll(after, (steady - base) % every.steps)
    secrets = line.secrets(base, len(known.kinds))
    return continued(chain, Exposures(known.losses, head), Exposures(known.losses, turn), secrets).value
