"""Accounts by Rényi losses of answers about single rows of a chain: what counts, and never below the joint law."""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from msgspec import structs
from scipy.stats import norm

import pufferflow as pf
from pufferflow.accounting.rules.base import UnitReleases
from pufferflow.accounting.rules.single_answers import SingleAnswersRule, one_row_in_each_cell
from pufferflow.accounting.rules.single_rows import SingleRowsRule

KERNEL = np.array([[0.9, 0.1], [0.3, 0.7]])
CHAIN = pf.MarkovChain(KERNEL)
SCENARIO = pf.Scenario(
    pf.Secret("on", domain=[0, 1]), CHAIN, order_by="hour", within="home", public=["hour", "x"]
)
KIND = pf.Approx.of(delta=1e-6)


def rows_of(hours, homes=2):
    return pl.DataFrame(
        {
            "home": np.repeat(np.arange(homes), hours),
            "hour": np.tile(np.arange(hours), homes),
            "on": np.zeros(hours * homes, dtype=int),
            "x": np.linspace(-1, 1, hours * homes),
        }
    )


def hourly(frame, *filters, noise=pf.Gaussian, scenario=SCENARIO):
    batch = pf.protect(frame, scenario)
    batch = batch.filter(*filters) if filters else batch
    return batch.group_by("hour").private_sum("on").plan(pf.Approx(1.0, 1e-6), noise=noise).cost


def later(cost, steps):
    return structs.replace(cost, offset=steps)


def total(costs, kind=KIND, scenario=SCENARIO):
    return SingleAnswersRule().by_own(UnitReleases(scenario, scenario.priors[0], costs), kind)


def test_answers_about_hours_cost_no_more_for_many_days_than_for_one():
    """Rows of their own each: what counts is the largest sum of squares of a row, here one release each."""
    cost = hourly(rows_of(24))
    days = [later(cost, 24 * day) for day in range(5)]
    once = total([cost])
    assert 0 < once < math.inf
    assert total(days) == once
    assert total(days[::-1]) == once
    assert total([cost, cost]) > 1.2 * once
    assert total([cost, cost, later(cost, 48)]) == total([cost, cost])


def test_two_releases_about_the_same_hours_count_as_one_with_less_noise():
    cost = hourly(rows_of(6))
    scale = cost.shape.noise.scale
    noise = pf.Gaussian(scale / math.sqrt(2)).stored()
    shape = structs.replace(cost.shape, stored_noise=noise)
    assert total([cost, cost]) == pytest.approx(
        total([structs.replace(cost, shape=shape)]), rel=1e-9
    )


def test_where_rows_stay_it_is_below_what_masses_of_single_rows_count():
    """Stay-probability .9, noise of 23.2515 deviations: (1, 1e-6) for ever, where M37 proves 1.7."""
    chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    scenario = pf.Scenario(
        pf.Secret("on", domain=[0, 1]), chain, order_by="hour", within="home", public=["hour"]
    )
    cost = hourly(rows_of(3), scenario=scenario)
    shape = structs.replace(cost.shape, stored_noise=pf.Gaussian(23.2515).stored())
    costs = [structs.replace(cost, shape=shape)]
    carried = SingleRowsRule().by_own(UnitReleases(scenario, chain, costs), KIND)
    assert carried > 1.5
    assert 0.9999 < total(costs, scenario=scenario) <= 1


def test_cells_with_several_rows_or_unknown_ones_do_not_count():
    frame = rows_of(6)
    whole = (
        pf.protect(frame, SCENARIO).private_sum("on").plan(pf.Approx(1.0, 1e-6), noise=pf.Gaussian)
    )
    uneven = frame.filter((pl.col("home") == 0) | (pl.col("hour") < 3))
    model = pf.learning.PrivateSGDRegressor(
        SCENARIO, pf.Approx(0.5, 1e-6), features=["x"], bounds={"x": (-1, 1)}
    )
    fitted, alone = model.plan(rows_of(12, homes=60), y="on").cost, hourly(frame)
    unknown = structs.replace(alone.shape, rows=structs.replace(alone.shape.rows, runs=None))
    for cost in (whole.cost, hourly(uneven), fitted, structs.replace(alone, shape=unknown)):
        assert not one_row_in_each_cell(cost.shape)
        assert total([cost]) == math.inf
        assert total([alone, cost]) == math.inf
    assert one_row_in_each_cell(alone.shape)


def test_two_cells_of_one_row_each_are_not_one_cell_of_two():
    alone = hourly(rows_of(4))
    joined = structs.replace(alone.shape.rows, runs=((0, 1, 0), (1, 2, 1), (2, 3, 2), (3, 4, 0)))
    longer = structs.replace(alone.shape.rows, runs=((0, 2, 0), (2, 3, 1), (3, 4, 2)))
    for rows in (joined, longer):
        assert not one_row_in_each_cell(structs.replace(alone.shape, rows=rows))


def test_an_hour_alone_is_one_row():
    cost = hourly(rows_of(24), pl.col("hour") == 3)
    assert one_row_in_each_cell(cost.shape)
    assert total([cost]) < math.inf


def test_laplace_noise_counts_by_its_trade_off_and_others_do_not():
    frame = rows_of(6)
    gaussian, laplace = hourly(frame), hourly(frame, noise=pf.Laplace)
    assert total([gaussian]) < total([gaussian, laplace]) < math.inf
    cauchy = structs.replace(gaussian.shape, stored_noise=pf.GeneralizedCauchy(9.0, k=4).stored())
    assert total([structs.replace(gaussian, shape=cauchy)]) == math.inf


def test_only_chains_and_orders_have_such_totals():
    cost = hourly(rows_of(6))
    assert total([cost], pf.Renyi.of(alpha=3)) < math.inf
    assert total([cost], pf.Zcdp(1.0).kind) < math.inf
    assert total([cost], pf.Gdp(1.0).kind) == math.inf
    scenario = pf.Scenario(
        SCENARIO.secret, pf.AnyCorrelation(), order_by="hour", within="home", public=["hour", "x"]
    )
    assert total([cost], scenario=scenario) == math.inf


def joint_laws(hours, scales, row):
    """The densities of Gaussian answers about every hour, of given deviations, at a product grid."""
    law = np.array([0.75, 0.25])
    states = np.array(list(itertools.product(range(2), repeat=hours)))
    masses = law[states[:, 0]] * np.prod(KERNEL[states[:, :-1], states[:, 1:]], axis=1)
    grids = [np.linspace(-9 * scale, 9 * scale + 1, 161) for scale in scales]
    parts = [norm.pdf(grid - states[:, t, None], scale=scales[t]) for t, grid in enumerate(grids)]
    cell = np.prod([grid[1] - grid[0] for grid in grids])
    for state in range(2):
        own = np.where(states[:, row] == state, masses, 0.0)
        yield np.einsum("s,sa,sb,sc->abc", own / own.sum(), *parts) * cell


@pytest.mark.parametrize("row", range(3))
def test_the_joint_law_of_three_hours_asked_twice_loses_no_more(row):
    """All answers about an hour are as one with less noise: the hockey stick of all three is below δ."""
    cost, delta = hourly(rows_of(3)), 1e-3
    noise = pf.Gaussian(2.0).stored()
    shape = structs.replace(cost.shape, stored_noise=noise)
    costs = [structs.replace(cost, shape=shape)] * 2
    epsilon = total(costs, pf.Approx.of(delta=delta))
    alone = joint_laws(3, [2 / math.sqrt(2)] * 3, row)
    for p, q in itertools.permutations(alone, 2):
        assert p.sum() == pytest.approx(1, abs=1e-6)
        assert np.maximum(p - math.exp(epsilon) * q, 0).sum() <= delta
        loss = math.log((p**3 * q**-2.0).sum()) / 2
        assert loss <= total(costs, pf.Renyi.of(alpha=3))
        for alpha in (1.1, 6.0):
            loss = math.log((p**alpha * q ** (1 - alpha)).sum()) / (alpha - 1)
            assert loss <= alpha * total(costs, pf.Zcdp(1.0).kind)


def test_a_plan_in_concentrated_losses_uses_it_too():
    """Of a month of hours, where all rows of a group move together: a fifth of the noise of group privacy."""
    frame = rows_of(720, homes=1)
    batch = pf.protect(frame, SCENARIO).group_by("hour").private_sum("on")
    plan = batch.plan(pf.Zcdp(1.0), noise=pf.Gaussian)
    assert repr(plan.calibration.bound) == "Messages()"
    group = batch.plan(pf.Zcdp(1.0), noise=pf.Gaussian, bound=pf.Group()).calibration.noise.scale
    assert 1 < plan.calibration.noise.scale < group / 5


def test_a_plan_of_hours_uses_it_where_it_needs_less_noise():
    """A week of hours: 23.25 for ever, where all rows of a group together need 54.8; hours that differ do not."""
    chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    scenario = pf.Scenario(
        pf.Secret("on", domain=[0, 1]), chain, order_by="hour", within="home", public=["hour"]
    )
    week = rows_of(168)
    plan = (
        pf.protect(week, scenario)
        .group_by("hour")
        .private_sum("on")
        .plan(pf.Approx(1.0, 1e-6), noise=pf.Gaussian)
    )
    assert repr(plan.calibration.bound) == "Messages()"
    assert plan.calibration.noise.scale == pytest.approx(23.251429, rel=1e-5)
    days = pf.protect(
        week.with_columns(day=pl.col("hour") // 24),
        pf.Scenario(scenario.secret, chain, order_by="hour", within="home", public=["hour", "day"]),
    )
    by_day = days.group_by("day").private_sum("on").plan(pf.Approx(1.0, 1e-6), noise=pf.Gaussian)
    assert by_day.calibration.noise.scale > 30


@pytest.mark.parametrize("known", [{"covers": True}, {"runs": None}, {"runs": ()}])
def test_rows_that_are_not_certain_do_not_count(known):
    cost = hourly(rows_of(6))
    rows = structs.replace(cost.shape.rows, **known)
    assert not one_row_in_each_cell(structs.replace(cost.shape, rows=rows))
    assert not one_row_in_each_cell(structs.replace(cost.shape, row_movement=1.0))
    assert not one_row_in_each_cell(structs.replace(cost.shape, row_by_row=True))


@pytest.mark.parametrize("weights", [[[1, 1, 0], [0, 0, 1]], [[1, 1, 1]], [[1, 0, 0], [0, 1, 0.5]]])
def test_messages_do_not_take_sums_of_several_rows_with_gaussian_noise(weights):
    laws = pf.laws(SCENARIO, pf.Statistic(weights))
    with pytest.raises(pf.Refused):
        pf.calibrate(laws, pf.Approx(1.0, 1e-6), noise=pf.Gaussian, bound=pf.Messages())


@pytest.mark.parametrize("promise", [pf.Approx(1.0, 1e-3), pf.Renyi(3, 0.4)], ids=repr)
def test_noise_on_rows_themselves_keeps_the_promise(promise):
    """Each answer is one row times its weight: the noise by messages against the joint law of all three."""
    laws = pf.laws(SCENARIO, pf.Statistic(np.diag([1.0, 0.5, 1.0])))
    found = pf.calibrate(laws, promise, noise=pf.Gaussian, bound=pf.Messages())
    scale = found.noise.scale
    for row in range(3):
        for p, q in itertools.permutations(joint_laws(3, [scale, 2 * scale, scale], row), 2):
            assert np.maximum(p - math.exp(1.0) * q, 0).sum() <= 1e-3
            assert math.log((p**3 * q**-2.0).sum()) / 2 <= 0.4 or isinstance(promise, pf.Approx)
