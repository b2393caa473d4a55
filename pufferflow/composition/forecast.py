"""What a schedule will have cost: after some releases, or if it never ends (M20: a fixed point, or infinity)."""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from pufferflow.composition.cost import Cost
from pufferflow.composition.coupling import Coupling
from pufferflow.composition.granularity import Granularity
from pufferflow.composition.messages import MOST, Messages
from pufferflow.composition.movements import Movements, Schedule
from pufferflow.composition.parts import columns_of
from pufferflow.composition.recurring import question
from pufferflow.composition.rule import Asked, from_pure
from pufferflow.composition.rules import RARE
from pufferflow.composition.schedule import Every, later, read_every, turns_until_steady
from pufferflow.composition.spent import Spent, most
from pufferflow.composition.timeline import Timeline, exposed, window_of
from pufferflow.errors import Misuse, Refused
from pufferflow.guarantees import Guarantee
from pufferflow.messages import Exposures, continued
from pufferflow.priors import Prior

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


def forecast(spent: Spent, cost: Cost, *, every: object, until: object = None, limit: Guarantee) -> Forecast:
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


def forecast_of(spent: Spent, cost: Cost, gap: Every, releases: int | None, limit: Guarantee) -> Forecast:
    """Return what an account will have spent after so many more releases of a schedule; of None, if it never ends."""
    scenario, allowed = spent.scenario, float(getattr(limit, "epsilon", 0.0))
    cost = _next(spent, cost, gap)
    spent = spent.begun(cost)

    def total(times: int) -> float:
        try:
            return spent.total([later(cost, gap, turn, scenario) for turn in range(times)], enough=allowed).total
        except Refused:
            return math.inf

    def quick(times: int) -> float:
        found = spent.along(schedule=Schedule(cost, gap.steps, times))
        return math.inf if found is None else found.total

    if releases is not None:
        found = spent.total([later(cost, gap, turn, scenario) for turn in range(releases)])
        fits = releases if found.total <= allowed else most(lambda times: total(times) <= allowed, releases)
        return Forecast(found.total, found.guarantee, found.rule, releases, fits, _noted(found.note, cost))
    value, rule, note = max((_endless(spent, prior, cost, gap) for prior in spent.priors), key=lambda one: one[0])
    value = spent.promised(value, [cost])
    if value <= allowed:
        return Forecast(value, spent.kind(value), rule, math.inf, math.inf, _noted(note, cost))
    fits = most(lambda times: quick(times) <= allowed, _MOST_COUNTED)
    if fits < _FEW and (fits == 0 or total(int(fits) + 1) <= allowed):
        fits = most(lambda times: total(times) <= allowed, _MOST_RELEASES)
    promise = spent.kind(value) if math.isfinite(value) else None
    return Forecast(value, promise, rule, math.inf, fits, _noted(note, cost))


def _noted(note: str, cost: Cost) -> str:
    """Return a note that says whose noise is counted with, where that of another day may differ."""
    return "; ".join(part for part in (note, OWN_NOISE if cost.start is not None else "") if part)


def _next(spent: Spent, cost: Cost, every: Every) -> Cost:
    """Return the cost of the first release of a schedule that was not made yet, as far as places tell."""
    wanted = question(cost)
    made = {_place(one) for one in spent.costs if question(one) == wanted}
    if _place(later(cost, every, 1, spent.scenario)) == _place(cost):
        return cost
    turns = {*range(len(made)), *((shift - cost.shift) // every.steps for shift, *_ in made if every.steps)}
    known = (turn for turn in turns if turn >= 0 and _place(later(cost, every, turn, spent.scenario)) in made)
    return later(cost, every, max(known, default=-1) + 1, spent.scenario)


def _place(cost: Cost) -> tuple[Any, ...]:
    return cost.shift, *sorted(cost.apart.items())


def _endless(spent: Spent, prior: Prior, cost: Cost, every: Every) -> tuple[float, str, str]:
    """Return what releases tell for ever under one belief, the rule, and why that has no end."""
    costs = [*spent.costs, cost]
    if spent.meter in {None, "pure"} and Timeline.fits(spent.scenario, prior, costs):
        value = _along(spent, prior, cost, every) * (1 + _HAIR)
        return from_pure(value, spent.kind), Messages.name, NO_REST if math.isinf(value) else ""
    if _free(spent, prior, cost):
        return _under(spent, prior, cost, every, 0), "releases that tell nothing", ""
    turns = turns_until_steady(cost, columns_of(spent.scenario, prior), every, spent.scenario, spent.costs)
    if turns <= _MOST_TURNS:
        return (
            _under(spent, prior, cost, every, int(turns)),
            "filters that move on: each row is in some of the releases only (M25, M27)",
            "",
        )
    found = spent.along(schedule=Schedule(cost, every.steps, math.inf), prior=prior)
    if found is not None:
        return found.total, found.rule, HARDLY_EVER if found.rule == RARE else ""
    return math.inf, "no rule bounds it", ANY_STEP if Movements.fit(spent.scenario, prior) else FOR_EVER


def _free(spent: Spent, prior: Prior, cost: Cost) -> bool:
    """Say whether a release tells nothing along any coupling of the data, whatever else is released."""
    asked = Asked(spent.scenario, prior, [cost])
    return cost.silent or min(Coupling().pure(asked), Granularity().pure(asked)) == 0


def _under(spent: Spent, prior: Prior, cost: Cost, every: Every, times: int) -> float:
    """Return the total of some releases under one belief."""
    scenario = spent.scenario
    one = Spent([scenario], spent.limit, spent.meter, [prior])
    for known in spent.costs:
        one.add(known)
    try:
        return one.total([later(cost, every, turn, scenario) for turn in range(times)]).total
    except Refused:
        return math.inf


def _along(spent: Spent, prior: Any, cost: Cost, every: Every) -> float:
    """Return what windows tell for ever, those that are spent and those of the schedule, as a fixed point (M20)."""
    low, high = window_of(cost)
    if math.isinf(low):  # nothing is asked
        return Messages().pure(Asked(spent.scenario, prior, [*spent.costs, cost], spent.hull))
    if prior.period is None or not every.steps:  # it asks about the same steps again and again
        return math.inf
    before = [window_of(one)[1] for one in spent.costs]
    steady = int(max([high, *(end for end in before if math.isfinite(end))]))
    turns = -(-(steady + every.steps - int(low)) // every.steps) + 1
    scheduled = [later(cost, every, turn, spent.scenario) for turn in range(turns)]
    line = Timeline(spent.scenario, prior, [*spent.costs, *scheduled], spent.hull)
    chain, base = line.turn()
    _, known = exposed(line.costs, (base, int(max(window_of(one)[1] for one in line.costs))))
    if not (known.losses < MOST).all():  # so `Messages` will not count it
        return math.inf
    head, after = known.kinds[: steady - base], known.kinds[steady - base : steady - base + every.steps]
    turn = np.roll(after, (steady - base) % every.steps)
    secrets = line.secrets(base, len(known.kinds))
    return continued(chain, Exposures(known.losses, head), Exposures(known.losses, turn), secrets).value
