"""Schedules that never end, or meet themselves or what is spent."""

import math
from datetime import datetime, timedelta

import polars as pl
import pytest

import pufferflow as pf
from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.forecast import forecast

BIT = pf.Secret("x", domain=[0, 1])
NEW_YEAR = datetime(2026, 1, 1)  # noqa: DTZ001 - a local time
LIMIT = pf.Pure(99.0)


def plans_of(scenario, frame, *filters):
    """Return a plan of ε = 1 for each filter."""
    return [
        pf.protect(frame, scenario).filter(one).private_sum("x").plan(pf.Pure(1.0))
        for one in filters
    ]


def ahead(scenario, plan, every, *spent, until=None):
    account = AccountCosts([scenario], LIMIT)
    for one in spent:
        account.add(one.cost)
    return forecast(account, plan.cost, every=every, until=until, limit=LIMIT)


@pytest.mark.parametrize("start", [0, 1, 5])
@pytest.mark.parametrize("every", [2, 3])
def test_a_class_of_one_chain_is_that_chain(every, start):
    """An endless schedule costs the same under a chain with a period and under a class that has only this member."""
    kernels = [[[0.6, 0.4], [0.4, 0.6]], [[0.98, 0.02], [0.02, 0.98]]]
    totals = []
    for prior in (
        pf.MarkovChain(kernels, period=2),
        pf.MarkovChain.between(kernels, kernels, period=2),
    ):
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
        scenario,
        frame,
        pl.col("t").is_in([0, 3]),
        pl.col("t") == 0,
        pl.col("t") == 7,
        pl.col("t") >= 0,
    )
    assert ahead(scenario, scattered, 1).total == pytest.approx(2.0)
    assert ahead(scenario, first, 1).total == pytest.approx(1.0)
    assert ahead(scenario, first, 1, later).total == pytest.approx(2.0)
    assert ahead(scenario, first, 1, whole).total == pytest.approx(2.0)
    assert ahead(scenario, first, 1, whole, later).total == pytest.approx(3.0)
    assert math.isinf(ahead(scenario, whole, 1).total)


def test_filters_that_name_two_moving_columns():
    """A schedule that moves along two columns meets what was spent in either of them."""
    scenario = pf.Scenario(BIT, pf.Independent(), order_by="t", step="1h", public=["d"])
    hours = [NEW_YEAR + timedelta(hours=hour) for hour in range(24 * 14)]
    frame = pl.DataFrame({"t": hours, "d": [hour.date() for hour in hours], "x": [0] * len(hours)})
    first = (
        (pl.col("t") >= NEW_YEAR)
        & (pl.col("t") < NEW_YEAR + timedelta(days=1))
        & (pl.col("d") == NEW_YEAR.date())
    )
    tenth = pl.col("d") == NEW_YEAR.date() + timedelta(days=9)
    daily, spent = plans_of(scenario, frame, first, tenth)
    assert ahead(scenario, daily, "1d", spent).total == pytest.approx(2.0)
    assert ahead(scenario, daily, "1d", spent, until="14d").total == pytest.approx(2.0)
