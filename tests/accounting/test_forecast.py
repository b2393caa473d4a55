"""What a schedule will have cost is what it does cost, and never less for ever than for any number of releases."""

import math
from datetime import date, datetime, timedelta

import msgspec
import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.forecast import forecast
from pufferflow.accounting.methods import Methods
from pufferflow.accounting.rules import markov as messages

STAY = [[0.9, 0.1], [0.1, 0.9]]
HOURS = 24


def of(prior, **options):
    options = {"order_by": "hour", **options}
    return pf.Scenario(pf.Secret("on", [0, 1]), prior, **options)


def plan_of(scenario, first=0, hours=HOURS, epsilon=0.822639, **options):
    data = pl.DataFrame({"hour": range(first, first + hours), "on": [0] * hours})
    return pf.protect(data, scenario).private_sum("on").plan(pf.Pure(epsilon), **options)


def spent_of(scenario, limit, *costs):
    found = AccountCosts([scenario], pf.Pure(limit))
    for cost in costs:
        found.add(cost)
    return found


CHAINS = {
    "that stays": pf.MarkovChain(STAY),
    "that leaves": pf.MarkovChain([[0.3, 0.7], [0.6, 0.4]]),
    "with a period of its own": pf.MarkovChain([STAY, [[0.6, 0.4], [0.5, 0.5]], STAY], period=3),
    "that starts anywhere": pf.MarkovChain(STAY, initial="free"),
    "of a class": pf.MarkovChain.between(
        [[0.85, 0.05], [0.05, 0.85]], [[0.95, 0.15], [0.15, 0.95]]
    ),
    "of three states": pf.MarkovChain([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]]),
}


@pytest.mark.parametrize("prior", thinned(CHAINS.values(), 0.22), ids=CHAINS)
@pytest.mark.parametrize(("hours", "every"), [(4, 4), (4, 7), (6, 4)])
def test_for_ever_is_no_less_than_any_number_of_releases(prior, hours, every):
    """The endless total is above that of many releases, and near it where the chain forgets quickly."""
    states = len(prior.transition[0]) if isinstance(prior, pf.MarkovChain) else prior.states
    scenario = pf.Scenario(pf.Secret("on", list(range(states))), prior, order_by="hour")
    plan = plan_of(scenario, hours=hours, epsilon=1.0)
    head = plan_of(scenario, first=1, hours=9, epsilon=0.5)
    spent = spent_of(scenario, 99.0, head.cost)
    ever = forecast(spent, plan.cost, every=every, limit=pf.Pure(99.0))
    many = forecast(spent, plan.cost, every=every, until=every * 60, limit=pf.Pure(99.0))
    assert many.releases == 60
    assert many.total <= ever.total <= many.total * 1.01
    assert ever.fits == math.inf


def test_what_is_forecast_is_what_is_spent():
    """After the releases of a schedule the account has spent what was forecast, window by window."""
    scenario = of(pf.MarkovChain(STAY))
    plans = [plan_of(scenario, first=HOURS * day) for day in range(5)]
    empty = spent_of(scenario, 2.0)
    for days in (1, 3, 5):
        ahead = forecast(empty, plans[0].cost, every=HOURS, until=HOURS * days, limit=pf.Pure(2.0))
        assert spent_of(
            scenario, 2.0, *(plan.cost for plan in plans[:days])
        ).total().total == pytest.approx(ahead.total)


def test_a_schedule_goes_on_where_it_is():
    """What a schedule costs for ever does not depend on how much of it is made already."""
    scenario = of(pf.MarkovChain(STAY))
    plans = [plan_of(scenario, first=HOURS * day) for day in range(3)]
    for made in range(4):
        spent = spent_of(scenario, 2.0, *(plan.cost for plan in plans[:made]))
        for plan in (plans[0], plans[2]):
            found = forecast(spent, plan.cost, every=HOURS, limit=pf.Pure(2.0))
            assert found.total == pytest.approx(0.8724409, abs=1e-6)


def test_limits_say_how_many_fit():
    """A limit between one release and all of them allows as many as stay below it."""
    scenario = of(pf.MarkovChain(STAY))
    plan, empty = plan_of(scenario), spent_of(scenario, 0.86)
    found = forecast(empty, plan.cost, every=HOURS, limit=pf.Pure(0.86))
    assert found.fits == 1
    fits = forecast(empty, plan.cost, every=HOURS, until=HOURS, limit=pf.Pure(0.86))
    assert (fits.total <= 0.86, fits.fits) == (True, 1)
    none = forecast(empty, plan.cost, every=HOURS, limit=pf.Pure(0.5))
    assert none.fits == 0


@pytest.mark.parametrize(
    "prior", [pf.MarkovChain([[1.0, 0.0], [0.0, 1.0]], initial=[0.5, 0.5]), pf.AnyCorrelation()]
)
def test_what_never_fades_has_no_end(prior):
    """A chain that never forgets, or rows that may be correlated for ever, cost without end, and it is said why."""
    scenario = of(prior)
    plan = plan_of(scenario, epsilon=0.5)
    found = forecast(spent_of(scenario, 2.0), plan.cost, every=HOURS, limit=pf.Pure(2.0))
    assert (found.total, found.guarantee) == (math.inf, None)
    assert found.note
    assert found.fits == 4


def test_rows_of_their_own_cost_once():
    """Independent rows of other days do not add, if the filter says that they are others; otherwise they do."""
    scenario = pf.Scenario(
        pf.Secret("on", [0, 1]), pf.Independent(), order_by="hour", step="1h", public=["day"]
    )
    start = datetime(2026, 1, 1)  # noqa: DTZ001 - local time
    data = pl.DataFrame(
        {"hour": [start + timedelta(hours=hour) for hour in range(48)], "on": [0] * 48}
    ).with_columns(day=pl.col("hour").dt.date())
    batch = pf.protect(data, scenario)
    daily = batch.filter(pl.col("day") == date(2026, 1, 1)).private_sum("on").plan(pf.Pure(1.0))
    hourly = batch.filter(
        pl.col("hour").is_between(start, start + timedelta(hours=1), closed="left")
    )
    whole = batch.private_sum("on").plan(pf.Pure(1.0))
    for plan, every in ((daily, "1d"), (hourly.private_sum("on").plan(pf.Pure(1.0)), "1h")):
        found = forecast(spent_of(scenario, 3.0), plan.cost, every=every, limit=pf.Pure(3.0))
        assert (found.total, found.fits) == (pytest.approx(1.0), math.inf)
    assert forecast(spent_of(scenario, 3.0), whole.cost, every="1d", limit=pf.Pure(3.0)).fits == 3


def test_windows_that_overlap_cost_more():
    """Windows of two days every day cost more than windows of one day, and less than twice as much."""
    scenario = of(pf.MarkovChain(STAY))
    noise = plan_of(scenario).noises["on_sum"].scale
    one = plan_of(scenario)
    two = plan_of(scenario, hours=2 * HOURS, epsilon=2 * HOURS / noise, bound=pf.Group())
    empty = spent_of(scenario, 9.0)
    single, double = (
        forecast(empty, plan.cost, every=HOURS, limit=pf.Pure(9.0)).total for plan in (one, two)
    )
    assert single < double < 2 * single * 1.01


def test_remaining_counts_the_same_rows_again():
    """How many more releases about the same rows fit is found exactly."""
    scenario = of(pf.AnyCorrelation())
    plan = plan_of(scenario, epsilon=0.5)
    spent = spent_of(scenario, 3.0, plan.cost)
    assert spent.remaining(plan.cost) == 5


@pytest.mark.parametrize("every", [0, -1, 1.5, True, None, "1d", "x"])
def test_bad_distances_are_refused(every):
    """`every` is a whole number of steps above 0; durations need steps that are durations."""
    scenario = of(pf.MarkovChain(STAY))
    plan = plan_of(scenario)
    with pytest.raises(pf.UsageError):
        forecast(spent_of(scenario, 2.0), plan.cost, every=every, limit=pf.Pure(2.0))


def test_durations_are_whole_steps():
    """A day is 24 hours; a duration that is no whole number of steps is refused."""
    scenario = of(pf.MarkovChain(STAY), step="1h")
    hours = [datetime(2026, 1, 1) + timedelta(hours=hour) for hour in range(HOURS)]  # noqa: DTZ001 - local time
    plan = (
        pf.protect(pl.DataFrame({"hour": hours, "on": [0] * HOURS}), scenario)
        .private_sum("on")
        .plan(pf.Pure(0.8))
    )
    spent = spent_of(scenario, 2.0)
    by_steps, by_days = (
        forecast(spent, plan.cost, every=every, limit=pf.Pure(2.0)) for every in (24, "1d")
    )
    assert by_steps.total == by_days.total
    with pytest.raises(pf.UsageError):
        forecast(spent, plan.cost, every="90m", limit=pf.Pure(2.0))


@pytest.mark.parametrize(
    "prior", [pf.MarkovChain(STAY), CHAINS["of a class"]], ids=["one chain", "a class"]
)
def test_one_more_release_is_allowed_without_a_look_at_all_steps(prior, monkeypatch):
    """Along chains that start at rest: where what steps tell for ever is below the limit, and losses added are not."""
    scenario, asked_for = of(prior), []
    cost = plan_of(scenario, hours=4, epsilon=0.3).cost
    days = [
        msgspec.structs.replace(cost, offset=4 * day, steps_seen=(0, 4 * day + 3))
        for day in range(9)
    ]
    monkeypatch.setattr(messages, "leak", lambda *given: asked_for.append(given))
    spent = spent_of(scenario, 1.6, *days[:8])
    assert spent.total([days[8]], enough=1.6).total < 1.6
    assert not asked_for


@pytest.mark.parametrize(
    "secret",
    thinned([pf.Secret("on", [0, 1]), pf.Derived("kind", column="on", domain=[0, 1])], 0.5),
)
def test_accounts_of_a_class_allow_what_was_foreseen(secret):
    """As many releases fit as `fits` and `remaining` say, with totals that were foreseen; for ever there is no end."""
    scenario = pf.Scenario(
        secret, pf.LatentClass([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]), within="house"
    )
    batch = pf.protect(pl.DataFrame({"house": ["a"] * 6, "on": [0, 1] * 3}), scenario).private_sum(
        "on"
    )
    cost, small = (batch.plan(pf.Pure(epsilon)).cost for epsilon in (0.3, 0.006))
    spent = spent_of(scenario, 2.0, small, cost)
    ever = forecast(spent, cost, every=1, limit=pf.Pure(2.0))
    assert ever.total == math.inf
    assert "may be about the same rows" in ever.note
    assert ever.fits == spent.remaining(cost) > 3
    ahead = forecast(spent, cost, every=1, until=int(ever.fits), limit=pf.Pure(2.0))
    for _ in range(int(ever.fits)):
        spent.add(cost)
    assert spent.total().total == ahead.total <= 2.0 < spent.total([cost]).total


def test_an_account_stays_with_its_way_of_counting():
    """Under a limit that is not pure, totals are always worked out by the way that suited the first release."""
    scenario = pf.Scenario(
        pf.Secret("x", pf.Interval(0, 1)), pf.GaussianPrior(pf.AR1(0.5)), order_by="hour"
    )
    data = pl.DataFrame({"hour": range(4), "x": np.linspace(0, 1, 4)})
    limit = pf.Approx(4.0, 1e-6)
    batch = pf.protect(data, scenario).private_sum("x")
    gaussian = batch.plan(pf.Approx(1.0, 1e-6), noise=pf.Gaussian)
    laplace = batch.plan(pf.Pure(1.0))
    first = AccountCosts([scenario], limit).total([gaussian.cost])
    assert first.method == "gaussian"
    spent = AccountCosts([scenario], limit, Methods.only("gaussian"))
    spent.add(gaussian.cost)
    assert spent.total([gaussian.cost]).total < 2.0 < spent.total([laplace.cost]).total
    with pytest.raises(pf.Refused):
        spent.total([batch.plan(pf.Pure(1.0), noise=pf.GeneralizedCauchy).cost])
    assert AccountCosts([scenario], limit).total([laplace.cost]).method == "pure"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_quick_total_is_never_below_the_tightest(seed):
    """What says yes quickly is an upper bound of the total, for windows in any order that overlap in any way."""
    rng = np.random.default_rng(seed)
    scenario, many = (of(pf.MarkovChain(STAY)), 30) if seed < 6 else (of(CHAINS["of a class"]), 8)
    plans = [
        plan_of(scenario, hours=hours, epsilon=0.05 * hours, bound=pf.Group())
        for hours in (3, 5, 9)
    ]
    costs = [
        msgspec.structs.replace(plans[kind].cost, offset=first, steps_seen=(0, 80))
        for kind, first in zip(
            rng.integers(0, 3, many).tolist(), rng.integers(0, 60, many).tolist(), strict=True
        )
    ]
    costs = sorted(costs, key=lambda cost: cost.offset) if seed % 2 else costs
    spent = spent_of(scenario, 99.0)
    for cost in costs:
        quick, tight = spent.total([cost], enough=99.0), AccountCosts([scenario], pf.Pure(99.0))
        for one in (*spent.costs, cost):
            tight.add(one)
        assert tight.total().total <= quick.total * (1 + 1e-9)
        spent.add(cost)
    assert spent.total(enough=99.0).total >= spent.total().total * (1 - 1e-9)


def test_a_forecast_says_that_releases_overlap(tmp_path):
    """A month of 31 days, repeated every 30: the total doubles, and the note says why."""
    hours = pl.DataFrame({"hour": range(31 * 24), "on": [0, 1] * (31 * 12)})
    chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    counted = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour")
    start = pl.datetime(2024, 1, 1)
    moments = hours.with_columns(start.dt.offset_by(pl.format("{}h", "hour")).alias("hour"))
    timed = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour", step="1h")
    for frame, scenario, every, whole in (
        (hours, counted, 30 * 24, 31 * 24),
        (moments, timed, "30d", "31d"),
    ):
        plan = pf.protect(frame, scenario).private_sum("on").plan(pf.Pure(0.5))
        account = pf.Ledger(tmp_path / f"{whole}.db").open("a", scenario, limit=pf.Pure(20.0))
        note = account.forecast(plan, every=every).note
        assert ("24 steps" if scenario is counted else "1d") in note
        assert f"every={whole}" in note.replace('"', "")
        assert "every" not in account.forecast(plan, every=whole).note


@pytest.mark.parametrize(("every", "instead"), [("1mo", "31d"), ("1y", "366d"), ("month", "31d")])
def test_months_are_not_of_one_length(every, instead, tmp_path):
    scenario = pf.Scenario(
        pf.Secret("on", domain=[0, 1]),
        pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]),
        order_by="hour",
        step="1h",
    )
    frame = pl.DataFrame({"hour": [pl.select(pl.datetime(2024, 1, 1)).item()], "on": [1]})
    plan = pf.protect(frame, scenario).private_sum("on").plan(pf.Pure(0.5))
    account = pf.Ledger(tmp_path / "a.db").open("a", scenario, limit=pf.Pure(20.0))
    with pytest.raises(pf.UsageError, match="differ in length") as refused:
        account.forecast(plan, every=every)
    assert refused.value.instead == f'every="{instead}"'
