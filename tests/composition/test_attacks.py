"""Ways in which totals were once too small, or were refused for no reason, each with the truth it is held to."""

import math
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import polars as pl
import pytest

import pufferflow as pf
from pufferflow.composition import AccountCosts, forecast

BIT = pf.Secret("x", domain=[0, 1])
STAY = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
NEW_YEAR = datetime(2026, 1, 1)  # noqa: DTZ001 - a local time
LIMIT = pf.Pure(99.0)


def plans_of(scenario, frame, *filters):
    """Return a plan of ε = 1 for each filter."""
    return [pf.protect(frame, scenario).filter(one).private_sum("x").plan(pf.Pure(1.0)) for one in filters]


def ahead(scenario, plan, every, *spent, until=None):
    account = AccountCosts([scenario], LIMIT)
    for one in spent:
        account.add(one.cost)
    return forecast(account, plan.cost, every=every, until=until, limit=LIMIT)


@pytest.mark.parametrize("within", ["house", ("house", "person"), "person", ()])
def test_a_person_may_be_in_several_houses(within):
    """Under Presence the unit is the one that comes and goes: filters on houses do not keep its rows apart."""
    secret = pf.Presence("person", "x", domain=[0, 1], rows=2)
    scenario = pf.Scenario(secret, pf.Independent(), within=within, public=["person", "house"])
    frame = pl.DataFrame({"house": ["a", "a", "b", "b"], "person": [1] * 4, "x": [1] * 4})
    plans = plans_of(scenario, frame, pl.col("house") == "a", pl.col("house") == "b")
    assert pf.compose(plans, scenario).total >= 2.0 * (1 - 1e-12)


def test_people_that_are_named_apart_do_not_add():
    """Filters on the unit itself do keep units apart."""
    scenario = pf.Scenario(pf.Presence("person", "x", domain=[0, 1], rows=2), pf.Independent())
    frame = pl.DataFrame({"person": [1, 1, 2, 2], "x": [1] * 4})
    plans = plans_of(scenario, frame, pl.col("person") == 1, pl.col("person") == 2)
    assert pf.compose(plans, scenario).total == pytest.approx(1.0)


def test_a_literal_coarser_than_its_column_keeps_nothing_apart():
    """Polars compares both sides in the coarser unit, so a row may pass two filters that look disjoint."""
    scenario = pf.Scenario(BIT, pf.Independent(), public=["when"])
    frame = pl.DataFrame({"when": [NEW_YEAR + timedelta(microseconds=500)], "x": [1]})
    coarse = pl.lit(NEW_YEAR, dtype=pl.Datetime("ms"))
    plans = plans_of(scenario, frame, pl.col("when") <= coarse, pl.col("when") > NEW_YEAR)
    assert pf.compose(plans, scenario).total == pytest.approx(2.0)


def test_moments_with_and_without_a_zone_are_not_compared():
    """A local time and a moment in UTC may be one and the same row."""
    scenario = pf.Scenario(BIT, pf.Independent(), public=["when"])
    local = pl.DataFrame({"when": [NEW_YEAR + timedelta(minutes=30)], "x": [1]})
    aware = local.with_columns(pl.col("when").dt.replace_time_zone("Europe/Berlin"))
    (one,) = plans_of(scenario, local, pl.col("when") >= NEW_YEAR)
    (other,) = plans_of(scenario, aware, pl.col("when") < datetime(2026, 1, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")))
    assert pf.compose([one, other], scenario).total == pytest.approx(2.0)


@pytest.mark.parametrize("start", [0, 1, 5])
@pytest.mark.parametrize("every", [2, 3])
def test_a_class_of_one_chain_is_that_chain(every, start):
    """An endless schedule costs the same under a chain with a period and under a class that has only this member."""
    kernels = [[[0.6, 0.4], [0.4, 0.6]], [[0.98, 0.02], [0.02, 0.98]]]
    totals = []
    for prior in (pf.MarkovChain(kernels, period=2), pf.MarkovChain.between(kernels, kernels, period=2)):
        scenario = pf.Scenario(BIT, prior, order_by="t")
        frame = pl.DataFrame({"t": [start, start + 1], "x": [0, 1]})
        plan = pf.protect(frame, scenario).private_sum("x").plan(pf.Pure(1.0), bound=pf.Group())
        totals.append(ahead(scenario, plan, every).total)
        assert ahead(scenario, plan, every, until=12 * every).total <= totals[-1]
    assert totals[0] == pytest.approx(totals[1], rel=1e-6)


def test_schedules_that_meet_themselves_or_what_is_spent():
    """Rows of their own are those of no other release of the schedule, and of none that was made before."""
    scenario = pf.Scenario(BIT, pf.Independent(), order_by="t")
    frame = pl.DataFrame({"t": range(20), "x": [0] * 20})
    scattered, first, later, whole = plans_of(
        scenario, frame, pl.col("t").is_in([0, 3]), pl.col("t") == 0, pl.col("t") == 7, pl.col("t") >= 0
    )
    assert ahead(scenario, scattered, 1).total == pytest.approx(2.0)
    assert ahead(scenario, first, 1).total == pytest.approx(1.0)
    assert ahead(scenario, first, 1, later).total == pytest.approx(2.0)
    assert ahead(scenario, first, 1, whole).total == pytest.approx(2.0)
    assert ahead(scenario, first, 1, whole, later).total == pytest.approx(3.0)
    assert math.isinf(ahead(scenario, whole, 1).total)


@pytest.mark.parametrize("prior", [STAY, pf.GaussianPrior(pf.AR1(0.8))])
def test_rows_late_by_other_parts_of_a_step_have_no_steps_in_common(prior):
    """Steps are counted by file; those of files that are late by other parts of a step are not the same steps."""
    domain = [0, 1] if prior is STAY else pf.Interval(0, 10)
    scenario = pf.Scenario(pf.Secret("x", domain=domain), prior, order_by="t", step="1h")
    moments = NEW_YEAR + timedelta(hours=1), NEW_YEAR + timedelta(minutes=54)
    frames = [pl.DataFrame({"t": [moment], "x": [1]}) for moment in moments]
    plans = [pf.protect(frame, scenario).private_sum("x").plan(pf.Pure(1.0)) for frame in frames]
    assert pf.compose(plans, scenario).total >= (1.976 if prior is not STAY else 1.98)


def test_one_row_on_two_clocks_is_one_row():
    """A day in Berlin and the same moment in UTC are other steps of one row."""
    prior = pf.MarkovChain([[0.6, 0.4], [0.4, 0.6]])
    scenario = pf.Scenario(BIT, prior, order_by="t", step="1d")
    berlin = pl.DataFrame({"t": [datetime(2026, 1, 1)], "x": [1]}).with_columns(  # noqa: DTZ001 - replaced below
        pl.col("t").dt.replace_time_zone("Europe/Berlin")
    )
    frames = berlin, berlin.with_columns(pl.col("t").dt.convert_time_zone("UTC"))
    plans = [pf.protect(frame, scenario).private_sum("x").plan(pf.Pure(1.0)) for frame in frames]
    assert pf.compose(plans, scenario).total == pytest.approx(2.0)


def test_releases_of_another_scenario_are_refused():
    """What was planned for other secrets or other groups says nothing of these."""
    frame = pl.DataFrame({"house": [1, 2, 3], "x": [0, 1, 2]})
    levels = {"column": "x", "domain": [0, 1, 2]}
    made = pf.Scenario(pf.Secret(**levels, pairs="adjacent"), pf.AnyCorrelation(), within="house")
    plan = pf.protect(frame, made).private_sum("x").plan(pf.Pure(1.0))
    others = [
        pf.Scenario(pf.Secret(**levels), pf.AnyCorrelation(), within="house"),
        pf.Scenario(pf.Secret(**levels, pairs="adjacent"), pf.AnyCorrelation(), public="house"),
    ]
    for other in others:
        with pytest.raises(pf.Misuse, match="differs in more than its prior"):
            pf.compose([plan], other)
    weaker = pf.Scenario(pf.Secret(**levels, pairs="adjacent"), pf.Independent(), within="house")
    assert pf.compose([plan, plan], weaker).total <= 2.0


def test_a_state_that_is_always_left():
    """Sixty releases of one row compose along a chain that leaves a state at once."""
    scenario = pf.Scenario(BIT, pf.MarkovChain([[0.9, 0.1], [1.0, 0.0]]), order_by="t")
    plan = pf.protect(pl.DataFrame({"t": range(3), "x": [0, 1, 0]}), scenario).private_sum("x").plan(pf.Pure(1.0))
    assert math.isfinite(pf.compose([plan] * 60, scenario).total)


@pytest.mark.parametrize(
    "prior",
    [
        pf.WeaklyDependent(1.0),
        pf.GaussianPrior(pf.Exchangeable(0.5)),
        pf.GaussianPrior(pf.AR1(0.5)),
        pf.AnyCorrelation(),
    ],
    ids=["weak", "exchangeable", "autoregressive", "any"],
)
def test_cells_do_not_make_two_equal_releases_cost_more_than_twice(prior):
    """A release about many cells, made twice, costs at most twice what it promises."""
    scenario = pf.Scenario(pf.Secret("x", pf.Interval(0, 10)), prior, order_by="t")
    batch = pf.protect(pl.DataFrame({"t": range(6), "x": [5.0] * 6}), scenario).group_by("t").private_sum("x")
    plan = batch.plan(pf.Pure(1.0))
    assert pf.compose([plan] * 2, scenario).total <= 2.0 * (1 + 1e-6)


def test_many_kinds_of_houses_have_a_cost():
    """More than 64 kinds of houses, in cells that do not follow from them, are covered and still released."""
    houses = [(house, hour) for house in range(70) for hour in range(3 + house)]
    frame = pl.DataFrame(houses, schema=["house", "t"], orient="row").with_columns(x=pl.lit(0), part=pl.col("t") % 3)
    scenario = pf.Scenario(BIT, STAY, order_by="t", within="house", public=["part"])
    plan = pf.protect(frame, scenario).group_by("part").private_sum("x").plan(pf.Pure(1.0))
    assert plan.cost.shape.rows.covers
    assert plan.release().frame.height == 3


def test_hardly_any_noise_still_composes():
    """Where a chain hides its first value by itself, releases have some noise, and compose with others."""
    scenario = pf.Scenario(pf.Initial("x", [0, 1]), pf.MarkovChain([[0.6, 0.4], [0.4, 0.6]]), order_by="t", start=0)
    frame = pl.DataFrame({"t": range(6), "x": [0] * 6})
    late, early = plans_of(scenario, frame, pl.col("t") >= 3, pl.col("t") >= 0)
    assert late.noises["x_sum"].scale < 1e-3
    total = pf.compose([late, late], scenario).total
    assert total <= 2.0
    assert pf.compose([late, early], scenario).total <= total + 1.0 + 1e-6


def test_a_release_about_no_row_costs_nothing():
    """What asks about no row is noise alone: it costs nothing, and does not stand in the way of other rules."""
    scenario = pf.Scenario(BIT, STAY, order_by="t")
    frame = pl.DataFrame({"t": range(9), "x": [0] * 9})
    none, some = plans_of(scenario, frame, pl.col("t") > 99, pl.col("t") < 4)
    assert pf.compose([none], scenario).total == 0
    assert pf.compose([none, some], scenario).total == pf.compose([some], scenario).total
    assert ahead(scenario, none, 4, some).total == pytest.approx(pf.compose([some], scenario).total)
    assert "chain" in pf.compose([none, some, some], scenario).rule


def test_filters_that_name_two_moving_columns():
    """A schedule that moves along two columns meets what was spent in either of them."""
    scenario = pf.Scenario(BIT, pf.Independent(), order_by="t", step="1h", public=["d"])
    hours = [NEW_YEAR + timedelta(hours=hour) for hour in range(24 * 14)]
    frame = pl.DataFrame({"t": hours, "d": [hour.date() for hour in hours], "x": [0] * len(hours)})
    first = (pl.col("t") >= NEW_YEAR) & (pl.col("t") < NEW_YEAR + timedelta(days=1)) & (pl.col("d") == NEW_YEAR.date())
    tenth = pl.col("d") == NEW_YEAR.date() + timedelta(days=9)
    daily, spent = plans_of(scenario, frame, first, tenth)
    assert ahead(scenario, daily, "1d", spent).total == pytest.approx(2.0)
    assert ahead(scenario, daily, "1d", spent, until="14d").total == pytest.approx(2.0)


def test_quick_totals_keep_clocks_apart(tmp_path):
    """One row on two clocks is charged twice, also by the total that says yes quickly."""
    scenario = pf.Scenario(BIT, pf.MarkovChain([[0.5, 0.5], [0.5, 0.5]]), order_by="t", step="1d")
    midnight = pl.Series("t", [datetime(2026, 1, 2)]).dt.replace_time_zone("Europe/Berlin")  # noqa: DTZ001 - replaced
    berlin = pl.DataFrame({"t": midnight, "x": [0]})
    frames = berlin, berlin.with_columns(pl.col("t").dt.convert_time_zone("UTC"))
    first, second = (pf.protect(frame, scenario).private_sum("x").plan(pf.Pure(1.0)) for frame in frames)
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("days", scenario, limit=pf.Pure(1.5))
        first.release(account)
        assert account.remaining(second) == 0
        with pytest.raises(pf.LimitReached):
            second.release(account)


def test_rows_that_a_release_did_not_see_are_hidden_too():
    """Where only some pairs are hidden, a row of another file may be told more of than the rows of this one."""
    kernel = [[0.9, 0.05, 0.05], [0.3, 0.4, 0.3], [0.05, 0.9, 0.05]]
    secret = pf.Secret("x", domain=[0, 1, 2], pairs=[(0, 1)])
    scenario = pf.Scenario(secret, pf.MarkovChain(kernel), order_by="t", within="h")

    def rows(hours):
        return pl.DataFrame({"h": ["a"] * hours + ["b"] * hours, "t": [*range(hours)] * 2, "x": [0] * 2 * hours})

    told = pf.protect(rows(1), scenario).filter(pl.col("h") == "b").private_sum(pl.col("x") * pl.col("x"))
    other = pf.protect(rows(2), scenario).filter(pl.col("h") == "a").private_count(pl.col("x") == 1)
    none = pf.protect(rows(2), scenario).filter(pl.col("h") == "c").private_count(pl.col("x") == 1)
    plan = told.plan(pf.Pure(0.5))
    for second in (other, none):
        assert pf.compose([plan, second.plan(pf.Pure(0.1))], scenario).total >= 1.2979


def test_durations_and_times_are_not_one_clock():
    """Steps since the beginning of a sequence are not those since 1970."""
    scenario = pf.Scenario(BIT, STAY, order_by="t", step="1h")
    column = pl.Series("t", [3 * 3600 * 10**6])
    frames = [pl.DataFrame({"t": column.cast(kind), "x": [0]}) for kind in (pl.Datetime("us"), pl.Duration("us"))]
    plans = [pf.protect(frame, scenario).private_sum("x").plan(pf.Pure(1.0)) for frame in frames]
    assert plans[0].cost.clock != plans[1].cost.clock


def test_units_and_zones_do_not_matter_to_hours():
    """Hours are counted alike in microseconds and nanoseconds, in Berlin and in UTC."""
    scenario = pf.Scenario(BIT, STAY, order_by="t", step="1h")
    hours = pl.Series("t", [NEW_YEAR + timedelta(hours=hour) for hour in range(4)]).dt.replace_time_zone("UTC")
    columns = hours, hours.dt.cast_time_unit("ns"), hours.dt.convert_time_zone("Europe/Berlin")
    frames = [pl.DataFrame({"t": column, "x": [0] * 4}) for column in columns]
    plans = [pf.protect(frame, scenario).private_sum("x").plan(pf.Pure(1.0)) for frame in frames]
    assert len({(plan.cost.clock, plan.cost.offset) for plan in plans}) == 1


def test_a_rule_that_refuses_leaves_others_to_speak():
    """One rule's refusal is not the end of a total that another rule proves."""
    scenario = pf.Scenario(BIT, pf.AnyCorrelation(), public=["part"])
    batch = pf.protect(pl.DataFrame({"part": [0, 1], "x": [0, 1]}), scenario).group_by("part").private_sum("x")
    plan = batch.plan(pf.Pure(1.0), noise=pf.GeneralizedCauchy.of(k=3))
    assert pf.compose([plan] * 2, scenario, pf.Renyi.of(alpha=1.5)).total <= 2.0


def test_windows_too_far_apart_stop_no_count(tmp_path):
    """Windows so far apart that their steps are too many to list are charged like others, and forgotten by none."""
    scenario = pf.Scenario(BIT, STAY, order_by="t")

    def plan(first):
        frame = pl.DataFrame({"t": range(first, first + 24), "x": [0] * 24})
        return pf.protect(frame, scenario).private_sum("x").plan(pf.Pure(0.3))

    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("hours", scenario, limit=pf.Pure(1.5))
        for first in (0, 12, 9_000_000):
            plan(first).release(account)
    again = plan(0)
    accepted = 0
    for _ in range(10):
        with pf.Ledger(tmp_path / "ledger.db") as ledger:
            account = ledger.account("hours")
            assert account.spent().epsilon <= 1.5
            try:
                again.release(account)
            except pf.LimitReached:
                break
            accepted += 1
    assert accepted <= 4


@pytest.mark.parametrize(("epsilon", "limit", "times"), [(0.1, 1.0, 10), (0.1, 0.3, 3), (0.05, 1.0, 20), (0.7, 2.1, 3)])
@pytest.mark.parametrize("prior", [pf.AnyCorrelation(), pf.Independent()], ids=["any", "independent"])
def test_tenths_add_up_to_one(prior, epsilon, limit, times):
    """Promises that are no short binary fractions fill a limit as people expect."""
    scenario = pf.Scenario(BIT, prior)
    plan = pf.protect(pl.DataFrame({"x": [0, 1]}), scenario).private_sum("x").plan(pf.Pure(epsilon))
    assert AccountCosts([scenario], pf.Pure(limit)).remaining(plan.cost) == times
