"""Accounts along a chain that count by what single rows tell: Gaussian sums and models, never below the joint law."""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

import pufferflow as pf
from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.methods import Methods

KERNEL = np.array([[0.9, 0.1], [0.3, 0.7]])
CHAIN = pf.MarkovChain(KERNEL)
SCENARIO = pf.Scenario(
    pf.Secret("on", domain=[0, 1]), CHAIN, order_by="hour", within="home", public=["x"]
)
RULE = "single rows, carried along the chain (M37, M38)"


def rows_of(hours, homes=1):
    return pl.DataFrame(
        {
            "home": np.repeat(np.arange(homes), hours),
            "hour": np.tile(np.arange(hours), homes),
            "on": np.zeros(hours * homes, dtype=int),
            "x": np.linspace(-1, 1, hours * homes),
        }
    )


def summed(frame, promise, *filters):
    batch = pf.protect(frame, SCENARIO).filter(*filters) if filters else pf.protect(frame, SCENARIO)
    return batch.private_sum("on").plan(promise, noise=pf.Gaussian)


def joint_hockey(hours, weights, sigmas, epsilon):
    """The largest hockey stick of two noisy sums together, over secret rows and both orders of the states."""
    law = np.array([0.75, 0.25])
    states = np.array(list(itertools.product(range(2), repeat=hours)))
    masses = law[states[:, 0]] * np.prod(KERNEL[states[:, :-1], states[:, 1:]], axis=1)
    sums = states @ np.array(weights, dtype=float).T
    grids = [np.linspace(-9 * s - 1, 9 * s + 1 + hours, 1201) for s in sigmas]
    cell, worst = np.prod([grid[1] - grid[0] for grid in grids]), 0.0
    parts = [norm.pdf(grid[:, None], sums[:, k], sigmas[k]) for k, grid in enumerate(grids)]
    for row in range(hours):
        laws = []
        for state in range(2):
            own = np.where(states[:, row] == state, masses, 0.0)
            laws.append((parts[0] * (own / own.sum())) @ parts[1].T)
        for p, q in (laws, laws[::-1]):
            worst = max(worst, np.maximum(p - math.exp(epsilon) * q, 0).sum() * cell)
    return worst


@pytest.mark.slow
@pytest.mark.parametrize("asked", [("all", "all"), ("all", "early"), ("early", "late")])
def test_two_gaussian_sums_lose_no_more_than_their_total(asked):
    frame, hours, delta = rows_of(4), 4, 1e-3
    filters = {"all": [], "early": [pl.col("hour") < 2], "late": [pl.col("hour") >= 2]}
    weights = {"all": [1, 1, 1, 1], "early": [1, 1, 0, 0], "late": [0, 0, 1, 1]}
    plans = [summed(frame, pf.Approx(1.0, delta), *filters[name]) for name in asked]
    total = pf.compose(plans, SCENARIO)
    sigmas = [float(next(iter(plan.noises.values())).scale) for plan in plans]
    assert total.guarantee.delta == delta
    exact = joint_hockey(hours, [weights[name] for name in asked], sigmas, total.guarantee.epsilon)
    assert exact <= delta


@pytest.mark.slow
def test_windows_that_share_no_row_add_up_less_than_the_same_one_twice():
    # disjoint windows are about other rows, which the chain ties together only in part
    frame, promise = rows_of(48), pf.Approx(0.5, 1e-5)
    early, late = (
        summed(frame, promise, one) for one in (pl.col("hour") < 4, pl.col("hour") >= 44)
    )
    account = AccountCosts([SCENARIO], pf.Approx(5.0, 1e-5), methods=Methods.only("rows"))
    once, apart, twice = (
        account.total(costs) for costs in ([early.cost], [early.cost, late.cost], [early.cost] * 2)
    )
    assert apart.rule == twice.rule == RULE
    assert once.total <= apart.total < twice.total


@pytest.mark.slow
def test_gaussian_sums_of_every_day_cost_no_more_for_many_days_than_for_one():
    # windows of their own rows: what one row tells stays what it is, however many days there are
    frame, days = rows_of(24 * 40), 40
    plans = [summed(frame, pf.Approx(0.5, 1e-6), pl.col("hour") // 24 == day) for day in (0, 20)]
    account = AccountCosts([SCENARIO], pf.Approx(5.0, 1e-5), methods=Methods.only("rows"))
    costs = list(_days(plans[0].cost, days))
    few, many = account.total(costs[:3]).total, account.total(costs).total
    assert many == pytest.approx(few, rel=1e-3)
    assert (
        AccountCosts([SCENARIO], pf.Approx(5.0, 1e-5), methods=Methods.only("gaussian"))
        .total(costs)
        .total
        > 3 * many
    )


def _days(cost, days):
    from msgspec import structs

    seen = (0, 24 * days - 1)
    return [
        structs.replace(cost, offset=24 * day, steps_seen=seen, regions={}) for day in range(days)
    ]


@pytest.mark.slow
def test_a_model_is_counted_beside_gaussian_and_laplace_sums(tmp_path):
    # an account whose first release is a model goes on row by row, and finds the same totals when it is opened again
    frame = rows_of(12, homes=60)
    model = pf.learning.PrivateSGDRegressor(
        SCENARIO, pf.Approx(0.5, 1e-6), features=["x"], bounds={"x": (-1, 1)}
    )
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("homes", SCENARIO, limit=pf.Approx(3.0, 1e-5))
        model.set_params(account=account).fit(frame, y="on", id="model")
        after_model = account.spent().epsilon
        assert 0 < after_model <= 0.5
        spents = [after_model]
        for noise, name in ((pf.Gaussian, "gaussian"), (pf.Laplace, "laplace")):
            plan = (
                pf.protect(frame, SCENARIO)
                .private_sum("on")
                .plan(pf.Approx(0.5, 1e-6), noise=noise)
            )
            plan.release(account, id=name)
            spents.append(account.spent().epsilon)
        assert spents == sorted(set(spents))
        assert spents[1] < 1
        spent = spents[-1]
        assert account.history()[-1].at_most_rule == RULE
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        again = ledger.open("homes", SCENARIO, limit=pf.Approx(3.0, 1e-5))
        assert again.spent().epsilon == spent


@pytest.mark.slow
def test_the_same_model_twice_costs_more_than_once():
    # squares add up before they are carried along the chain, pure losses do so as they are: then totals may exceed sums
    frame = rows_of(12, homes=60)
    for promise, limit, kind in (
        (pf.Approx(0.5, 1e-6), pf.Approx(9.0, 1e-5), pf.learning.PrivateSGDRegressor),
        (pf.Pure(0.5), pf.Pure(9.0), pf.learning.PrivateRidge),
    ):
        cost = (
            kind(SCENARIO, promise, features=["x"], bounds={"x": (-1, 1)}).plan(frame, y="on").cost
        )
        account = AccountCosts([SCENARIO], limit)
        once, twice = account.total([cost]).total, account.total([cost, cost]).total
        assert once < twice
        assert account.total([cost, cost]).rule == RULE
        if isinstance(promise, pf.Approx):
            assert twice < 2 * promise.epsilon


@pytest.mark.slow
def test_what_an_account_counts_does_not_depend_on_which_rows_were_seen():
    # spans may depend on earlier answers, and a proof must not: laws that repeat count for ever from the first release
    frame = rows_of(12, homes=60)
    model = pf.learning.PrivateSGDRegressor(
        SCENARIO, pf.Approx(0.5, 1e-6), features=["x"], bounds={"x": (-1, 1)}
    )
    cost = model.plan(frame, y="on").cost
    from msgspec import structs

    account = AccountCosts([SCENARIO], pf.Approx(9.0, 1e-5), methods=Methods.only("rows"))
    wide = structs.replace(cost, steps_seen=(0, 5000))
    assert account.total([cost, cost]).total == account.total([wide, wide]).total


@pytest.mark.slow
def test_windows_on_different_clocks_may_be_about_the_same_rows():
    # steps that are counted differently are never compared: both windows count at once
    frame, promise = rows_of(48), pf.Approx(0.5, 1e-5)
    early, late = (
        summed(frame, promise, one).cost for one in (pl.col("hour") < 4, pl.col("hour") >= 44)
    )
    from msgspec import structs

    account = AccountCosts([SCENARIO], pf.Approx(5.0, 1e-5), methods=Methods.only("rows"))
    other = structs.replace(late, clock="number, 1/2 late")
    assert account.total([early, other]).total == pytest.approx(
        account.total([early, early]).total, rel=1e-9
    )
    assert account.total([early, late]).total < account.total([early, other]).total


@pytest.mark.slow
def test_a_model_touches_the_last_of_its_rows():
    # a sum about the model's last hour alone is about a row that the model reads: squares add up there
    frame = rows_of(12, homes=60)
    model = pf.learning.PrivateSGDRegressor(
        SCENARIO, pf.Approx(0.5, 1e-6), features=["x"], bounds={"x": (-1, 1)}
    )
    cost = model.plan(frame, y="on").cost
    account = AccountCosts([SCENARIO], pf.Approx(9.0, 1e-5), methods=Methods.only("rows"))
    later = rows_of(24, homes=60)
    inside, beyond = (
        summed(later, pf.Approx(0.5, 1e-6), pl.col("hour") == hour).cost for hour in (11, 12)
    )
    assert account.total([cost, beyond]).total < account.total([cost, inside]).total


def test_costs_of_unknown_places_are_about_every_row():
    # a release that does not say where its rows are counts as if it touched all of them, for ever
    frame = rows_of(12, homes=60)
    model = pf.learning.PrivateSGDRegressor(
        SCENARIO, pf.Approx(0.5, 1e-6), features=["x"], bounds={"x": (-1, 1)}
    )
    known = model.plan(frame, y="on").cost
    from msgspec import structs

    rows = structs.replace(known.shape.rows, runs=None)
    unknown = structs.replace(known, shape=structs.replace(known.shape, rows=rows), steps_seen=None)
    account = AccountCosts([SCENARIO], pf.Approx(9.0, 1e-5), methods=Methods.only("rows"))
    assert account.total([known, known]).total <= account.total([unknown, unknown]).total
    assert account.total([unknown]).total < 1


def test_nothing_is_said_of_other_noises_nor_of_channels():
    # generalized Cauchy noise has no μ: such a release is not counted row by row
    frame = rows_of(6)
    cauchy = (
        pf.protect(frame, SCENARIO)
        .private_sum("on")
        .plan(pf.Pure(1.0), noise=pf.GeneralizedCauchy.of(k=4))
    )
    gaussian = summed(frame, pf.Approx(1.0, 1e-6))
    account = AccountCosts([SCENARIO], pf.Approx(9.0, 1e-5), methods=Methods.only("rows"))
    with pytest.raises(pf.Refused, match="single rows reveal"):
        account.total([gaussian.cost, cauchy.cost])


def test_beliefs_without_a_chain_are_counted_along_their_coupling_beside_it():
    # of a list of priors each is counted in its own way, and the worst one counts
    beliefs = pf.Scenario(
        pf.Secret("on", domain=[0, 1]),
        [CHAIN, pf.Independent()],
        order_by="hour",
        within="home",
        public=["x"],
    )
    frame = rows_of(12, homes=60)
    model = pf.learning.PrivateSGDRegressor(
        beliefs, pf.Approx(0.5, 1e-6), features=["x"], bounds={"x": (-1, 1)}
    )
    cost = model.plan(frame, y="on").cost
    both = AccountCosts([beliefs], pf.Approx(9.0, 1e-5)).total([cost, cost])
    alone = AccountCosts([SCENARIO], pf.Approx(9.0, 1e-5)).total([cost, cost])
    assert both.method == "rows"
    assert both.total == alone.total
    assert both.belief == CHAIN


@pytest.mark.slow
def test_a_chain_with_impossible_values_is_counted_beside_a_row_alone():
    # where nobody believes in a value there is nothing to hide; the row alone counts too, in the same account
    begun = pf.MarkovChain(KERNEL, initial=[1.0, 0.0])
    secret = pf.Secret("on", domain=[0, 1])
    scenario = pf.Scenario(secret, begun, order_by="hour", within="home", public=["x"], start=0)
    model = pf.learning.PrivateSGDRegressor(
        scenario, pf.Approx(0.5, 1e-6), features=["x"], bounds={"x": (-1, 1)}
    )
    cost = model.plan(rows_of(12, homes=60), y="on").cost
    total = AccountCosts([scenario], pf.Approx(9.0, 1e-5)).total([cost, cost])
    assert total.method == "rows"
    assert 0.3 < total.total < 1


@pytest.mark.slow
def test_gaussian_windows_that_share_no_row_have_an_end_for_ever(tmp_path):
    # a day's sum every day: the total for ever is that of many days, and is above that of each number of them
    frame = rows_of(24)
    plan = summed(frame, pf.Approx(0.5, 1e-6))
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("days", SCENARIO, limit=pf.Approx(9.0, 1e-5))
        for_ever = account.forecast(plan, every=24)
        assert for_ever.rule == RULE
        assert for_ever.fits == math.inf
        few = [account.forecast(plan, every=24, until=24 * days).total for days in (2, 5, 60)]
    assert few == sorted(few)
    assert few[-1] <= for_ever.total < 1.2 * few[1]
    overlapping = AccountCosts([SCENARIO], pf.Approx(9.0, 1e-5), methods=Methods.only("rows"))
    from pufferflow.accounting.forecast import forecast

    every_hour = forecast(overlapping, plan.cost, every=1, limit=pf.Approx(9.0, 1e-5))
    assert every_hour.total > 3 * for_ever.total
    assert not math.isinf(every_hour.total)
