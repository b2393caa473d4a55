"""Totals that have to be proven: chains that leave a state, hardly any noise, rules that refuse, windows far apart."""

import math

import polars as pl
import pytest

import pufferflow as pf
from pufferflow.accounting.account_costs import AccountCosts

BIT = pf.Secret("x", domain=[0, 1])
STAY = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])


def plans_of(scenario, frame, *filters):
    """Return a plan of ε = 1 for each filter."""
    return [
        pf.protect(frame, scenario).filter(one).private_sum("x").plan(pf.Pure(1.0))
        for one in filters
    ]


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
        with pytest.raises(pf.UsageError, match="differs in more than its prior"):
            pf.compose([plan], other)
    weaker = pf.Scenario(pf.Secret(**levels, pairs="adjacent"), pf.Independent(), within="house")
    assert pf.compose([plan, plan], weaker).total <= 2.0


def test_a_state_that_is_always_left():
    """Sixty releases of one row compose along a chain that leaves a state at once."""
    scenario = pf.Scenario(BIT, pf.MarkovChain([[0.9, 0.1], [1.0, 0.0]]), order_by="t")
    plan = (
        pf.protect(pl.DataFrame({"t": range(3), "x": [0, 1, 0]}), scenario)
        .private_sum("x")
        .plan(pf.Pure(1.0))
    )
    assert math.isfinite(pf.compose([plan] * 60, scenario).total)


def test_hardly_any_noise_still_composes():
    """Where a chain hides its first value by itself, releases have some noise, and compose with others."""
    scenario = pf.Scenario(
        pf.Initial("x", [0, 1]), pf.MarkovChain([[0.6, 0.4], [0.4, 0.6]]), order_by="t", start=0
    )
    frame = pl.DataFrame({"t": range(6), "x": [0] * 6})
    late, early = plans_of(scenario, frame, pl.col("t") >= 3, pl.col("t") >= 0)
    assert late.noises["x_sum"].scale < 1e-3
    total = pf.compose([late, late], scenario).total
    assert total <= 2.0
    assert pf.compose([late, early], scenario).total <= total + 1.0 + 1e-6


def test_a_rule_that_refuses_leaves_others_to_speak():
    """One rule's refusal is not the end of a total that another rule proves."""
    scenario = pf.Scenario(BIT, pf.AnyCorrelation(), public=["part"])
    batch = (
        pf.protect(pl.DataFrame({"part": [0, 1], "x": [0, 1]}), scenario)
        .group_by("part")
        .private_sum("x")
    )
    plan = batch.plan(pf.Pure(1.0), noise=pf.GeneralizedCauchy.of(k=3))
    assert pf.compose([plan] * 2, scenario, pf.Renyi.of(alpha=1.5)).total <= 2.0


@pytest.mark.slow
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


@pytest.mark.parametrize(
    ("epsilon", "limit", "times"), [(0.1, 1.0, 10), (0.1, 0.3, 3), (0.05, 1.0, 20), (0.7, 2.1, 3)]
)
@pytest.mark.parametrize(
    "prior", [pf.AnyCorrelation(), pf.Independent()], ids=["any", "independent"]
)
def test_tenths_add_up_to_one(prior, epsilon, limit, times):
    """Guarantees that are no short binary fractions fill a limit as people expect."""
    scenario = pf.Scenario(BIT, prior)
    plan = pf.protect(pl.DataFrame({"x": [0, 1]}), scenario).private_sum("x").plan(pf.Pure(epsilon))
    assert AccountCosts([scenario], pf.Pure(limit)).remaining(plan.cost) == times
