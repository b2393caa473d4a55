"""Units: which releases may be about the rows of one person, group or sequence, and which rows they see."""

import polars as pl
import pytest

import pufferflow as pf
from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.forecast import forecast

BIT = pf.Secret("x", domain=[0, 1])
STAY = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
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
    """A release about many cells, made twice, costs at most twice what it guarantees."""
    scenario = pf.Scenario(pf.Secret("x", pf.Interval(0, 10)), prior, order_by="t")
    batch = (
        pf.protect(pl.DataFrame({"t": range(6), "x": [5.0] * 6}), scenario)
        .group_by("t")
        .private_sum("x")
    )
    plan = batch.plan(pf.Pure(1.0))
    assert pf.compose([plan] * 2, scenario).total <= 2.0 * (1 + 1e-6)


def test_many_kinds_of_houses_have_a_cost():
    """More than 64 kinds of houses, in cells that do not follow from them, are covered and still released."""
    houses = [(house, hour) for house in range(70) for hour in range(3 + house)]
    frame = pl.DataFrame(houses, schema=["house", "t"], orient="row").with_columns(
        x=pl.lit(0), part=pl.col("t") % 3
    )
    scenario = pf.Scenario(BIT, STAY, order_by="t", within="house", public=["part"])
    plan = pf.protect(frame, scenario).group_by("part").private_sum("x").plan(pf.Pure(1.0))
    assert plan.cost.shape.rows.covers
    assert plan.release().frame.height == 3


def test_rows_that_a_release_did_not_see_are_hidden_too():
    """Where only some pairs are hidden, a row of another file may be told more of than the rows of this one."""
    kernel = [[0.9, 0.05, 0.05], [0.3, 0.4, 0.3], [0.05, 0.9, 0.05]]
    secret = pf.Secret("x", domain=[0, 1, 2], pairs=[(0, 1)])
    scenario = pf.Scenario(secret, pf.MarkovChain(kernel), order_by="t", within="h")

    def rows(hours):
        return pl.DataFrame(
            {"h": ["a"] * hours + ["b"] * hours, "t": [*range(hours)] * 2, "x": [0] * 2 * hours}
        )

    told = (
        pf.protect(rows(1), scenario)
        .filter(pl.col("h") == "b")
        .private_sum(pl.col("x") * pl.col("x"))
    )
    other = pf.protect(rows(2), scenario).filter(pl.col("h") == "a").private_count(pl.col("x") == 1)
    none = pf.protect(rows(2), scenario).filter(pl.col("h") == "c").private_count(pl.col("x") == 1)
    plan = told.plan(pf.Pure(0.5))
    for second in (other, none):
        assert pf.compose([plan, second.plan(pf.Pure(0.1))], scenario).total >= 1.2979


def test_a_release_about_no_row_costs_nothing():
    """What asks about no row is noise alone: it costs nothing, and does not stand in the way of other rules."""
    scenario = pf.Scenario(BIT, STAY, order_by="t")
    frame = pl.DataFrame({"t": range(9), "x": [0] * 9})
    none, some = plans_of(scenario, frame, pl.col("t") > 99, pl.col("t") < 4)
    assert pf.compose([none], scenario).total == 0
    assert pf.compose([none, some], scenario).total == pf.compose([some], scenario).total
    assert ahead(scenario, none, 4, some).total == pytest.approx(pf.compose([some], scenario).total)
    assert "chain" in pf.compose([none, some, some], scenario).rule
