"""Totals of windows along a chain against the joint law of all rows, with real plans (M62)."""

import itertools

import msgspec
import numpy as np
import polars as pl
import pytest

import pufferflow as pf

ALTERNATE = [[0.05, 0.95], [0.95, 0.05]]


def scenario_of(kernel, values=None, **options):
    domain = list(range(len(kernel))) if values is None else values
    secret = pf.Secret("on", domain=domain, missing=domain[0])
    return pf.Scenario(secret, pf.MarkovChain(kernel), order_by="t", **options)


def rows_of(count, **columns):
    return pl.DataFrame({"t": range(count), "on": [0] * count, **columns})


def plan_of(frame, scenario, epsilon, low, high, *weight):
    """Return a plan of a sum with the noise of group privacy, so that its scale is known."""
    rows = pf.protect(frame, scenario).filter(pl.col("t") >= low, pl.col("t") < high)
    term = pl.col("on") * pl.col(weight[0]) if weight else "on"
    return rows.private_sum(term, name="s").plan(pf.Pure(epsilon), bound=pf.Group())


def exact_loss(kernel, rows, sums, values=None):
    """Return the joint loss of sums (low, high, weights, scale) about any row, by adding up every path."""
    kernel = np.array(kernel)
    chances, vectors = np.linalg.eig(kernel.T)
    law = np.real(vectors[:, np.argmax(np.real(chances))])
    law = np.abs(law) / np.abs(law).sum()
    paths = np.array(list(itertools.product(range(len(kernel)), repeat=rows)))
    weight = law[paths[:, 0]] * np.prod(kernel[paths[:, :-1], paths[:, 1:]], axis=1)
    points = np.arange(len(kernel)) if values is None else np.array(values)
    likelihood = np.ones((len(paths), 1))
    for low, high, own, scale in sums:
        total = (points[paths[:, low:high]] * own).sum(axis=1)
        density = np.exp(-np.abs(total[:, None] - np.unique(total.round(9))[None, :]) / scale)
        likelihood = (likelihood[:, :, None] * density[:, None, :]).reshape(len(paths), -1)
    laws = [
        [
            (weight * (paths[:, row] == state)) @ likelihood / law[state]
            for state in range(len(kernel))
        ]
        for row in range(rows)
    ]
    return max(
        np.log(of_row[a] / of_row[b]).max()
        for of_row in laws
        for a, b in itertools.permutations(range(len(kernel)), 2)
    )


def test_two_windows_of_rows_that_alternate_fit_where_their_exposures_do_not():
    """They cost .365; by messages from row to row the second was refused at 4.51."""
    scenario, frame = scenario_of(ALTERNATE), rows_of(24)
    plans = [plan_of(frame, scenario, 6.0, at, at + 12) for at in (0, 12)]
    total = pf.compose(plans, scenario)
    assert total.total == pytest.approx(0.36491792, abs=1e-6)
    assert "M62" in total.rule
    older = [without_patterns(plan.cost) for plan in plans]
    assert pf.compose(older, scenario).total == pytest.approx(4.509606, abs=1e-3)


def without_patterns(cost):
    """Return a cost as ledgers of earlier versions have it."""
    rows = msgspec.structs.replace(cost.shape.rows, patterns=())
    return msgspec.structs.replace(cost, shape=msgspec.structs.replace(cost.shape, rows=rows))


@pytest.mark.parametrize("seed", range(12))
def test_no_schedule_reveals_more(seed):
    """Windows that overlap, leave rows out, and have unequal noise: the total is never below the joint loss."""
    rng = np.random.default_rng(seed)
    states, rows = (2, 9) if seed % 2 else (3, 7)
    kernel = rng.dirichlet(np.ones(states), states) * 0.9 + 0.1 / states
    scenario, frame = scenario_of(kernel.tolist()), rows_of(rows)
    plans, sums = [], []
    for _ in range(int(rng.integers(1, 4))):
        low, high = sorted(rng.choice(rows + 1, 2, replace=False).tolist())
        plan = plan_of(frame, scenario, float(rng.exponential(1.5)) + 0.2, low, high)
        plans.append(plan)
        sums.append((low, high, np.ones(high - low), plan.noises["s"].scale))
    total, true = pf.compose(plans, scenario).total, exact_loss(kernel, rows, sums)
    assert true <= total * (1 + 1e-9)
    older = pf.compose([without_patterns(plan.cost) for plan in plans], scenario).total
    assert total <= older * (1 + 1e-6)
    if states == 2:
        assert total <= max(true, 0.0) + 1e-5 or total <= min(older, true * 1.6)


def test_values_that_are_no_whole_numbers_have_laws_too():
    """Classes of readings: .45, 1.35, 2.25."""
    kernel, values = [[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]], [0.45, 1.35, 2.25]
    scenario, frame = scenario_of(kernel, values), rows_of(6).with_columns(on=pl.lit(0.45))
    plans = [plan_of(frame, scenario, 4.0, at, at + 3) for at in (0, 3)]
    scale = plans[0].noises["s"].scale
    true = exact_loss(kernel, 6, [(at, at + 3, np.ones(3), scale) for at in (0, 3)], values)
    total = pf.compose(plans, scenario)
    assert "M62" in total.rule
    assert true <= total.total <= true * 1.02 + 1e-6


def test_weighted_sums_are_not_taken_for_plain_ones():
    """A row with a weight of its own adds less than the largest: only its exposure is stored."""
    scenario = scenario_of(ALTERNATE, public=["w"])
    frame = rows_of(8, w=[1.0, 0.25] * 4)
    plan = plan_of(frame, scenario, 4.0, 0, 8, "w")
    assert plan.cost.shape.rows.patterns == ()
    scale = plan.noises["s"].scale
    true = exact_loss(ALTERNATE, 8, [(0, 8, np.array([1.0, 0.25] * 4), scale)])
    assert true <= pf.compose([plan], scenario).total


def test_groups_with_other_rows_count_by_the_worst_of_their_patterns():
    """One meter has all rows, one every second: the second one's sum reveals more."""
    scenario = scenario_of(ALTERNATE, within="m")
    whole = rows_of(8, m=[1] * 8)
    half = rows_of(8, m=[2] * 8).filter(pl.col("t") % 2 == 0)
    both = pl.concat([whole, half])
    plan = plan_of(both, scenario, 4.0, 0, 8)
    assert len(plan.cost.shape.rows.patterns) == 2
    scale = plan.noises["s"].scale
    every = exact_loss(ALTERNATE, 8, [(0, 8, np.ones(8), scale)])
    second = exact_loss(ALTERNATE, 7, [(0, 7, np.array([1, 0] * 3 + [1]), scale)])
    total = pf.compose([plan], scenario).total
    assert max(every, second) <= total * (1 + 1e-9)
    assert total == pytest.approx(max(every, second), rel=1e-3)
    assert pf.compose([plan_of(whole, scenario, 4.0, 0, 8)], scenario).total < total


@pytest.mark.parametrize("per_group", [False, True])
@pytest.mark.parametrize("stay", [0.1, 0.9])
def test_windows_that_overlap_count_each_home_by_its_own_rows(per_group, stay):
    """The same six rows are published twice, those of a home of two rows too; a home has the noise of its town."""
    kernel = [[stay, 1 - stay], [1 - stay, stay]]
    scenario = scenario_of(kernel, within="home", public=["town"])
    homes = pl.concat(
        [rows_of(6, home=[0] * 6, town=["a"] * 6), rows_of(2, home=[1] * 2, town=["b"] * 2)]
    )
    batch = pf.protect(homes, scenario).group_by("town").private_sum("on", name="s")
    plan = batch.plan(pf.Pure(1.0), per_group=per_group)
    scales = {part.runs[0][1]: part.scale for part in plan.cost.shape.rows.parts}
    true = max(
        exact_loss(kernel, rows, [(0, rows, np.ones(rows), scale)] * 2)
        for rows in (6, 2)
        for scale in [scales.get(rows, plan.noises["s"].scale)]
    )
    total = pf.compose([plan, plan], scenario)
    assert true <= total.total * (1 + 1e-9)
    assert total.total <= true * 1.05


def test_an_endless_schedule_of_windows(tmp_path):
    """A window each day for ever costs .5, and an account that allows .51 never refuses one."""
    scenario, frame = scenario_of(ALTERNATE), rows_of(12 * 40)
    account = pf.Ledger(tmp_path / "a.db").open("a", scenario, limit=pf.Pure(0.51))
    plan = plan_of(frame, scenario, 6.0, 0, 12)
    forecast = account.forecast(plan, every=12)
    assert forecast.total == pytest.approx(0.5, abs=1e-5)
    assert forecast.fits == float("inf")
    for day in range(3):
        plan_of(frame, scenario, 6.0, 12 * day, 12 * (day + 1)).release(account, id=str(day))
    assert account.spent().epsilon == pytest.approx(0.41677731, abs=1e-5)


def test_the_first_row_of_sequences():
    """The secret is where a sequence started: later windows reveal less and less of it."""
    scenario = pf.Scenario(
        pf.Initial("on", domain=[0, 1]), pf.MarkovChain(ALTERNATE), order_by="t", start=0
    )
    frame = rows_of(12).with_columns(m=pl.lit(1))
    batches = [
        pf.protect(frame, scenario).filter(pl.col("t") >= low, pl.col("t") < low + 4)
        for low in (0, 4, 8)
    ]
    plans = [
        one.private_sum("on", name="s").plan(pf.Pure(2.0), bound=pf.Group()) for one in batches
    ]
    totals = [pf.compose(plans[:count], scenario).total for count in (1, 2, 3)]
    assert totals == sorted(totals)
    assert totals[2] <= totals[0] + 0.5


def test_a_reservation_of_an_earlier_version_is_completed(tmp_path, monkeypatch):
    """A process of an earlier version died between the charge and the answer: its stored cost has no patterns."""
    scenario, frame = scenario_of(ALTERNATE), rows_of(12)
    account = pf.Ledger(tmp_path / "a.db").open("a", scenario, limit=pf.Pure(20.0))
    with monkeypatch.context() as before:
        before.setattr("pufferflow.release.planning.cost._patterns", lambda *_: ())
        account.reserve(plan_of(frame, scenario, 6.0, 0, 12), "crashed")
    spent = account.spent()
    plan = plan_of(frame, scenario, 6.0, 0, 12)
    assert plan.cost.shape.rows.patterns
    release = plan.release(account, id="crashed")
    assert account.spent() == spent
    assert account.find("crashed") is not None
    assert release.frame.height == 1


@pytest.mark.parametrize("initial", [[1.0, 0.0], "stationary", "free"])
def test_no_finite_total_passes_the_endless_one(initial, tmp_path):
    """Where sequences start elsewhere than at rest, later turns have other laws than the first."""
    chain = pf.MarkovChain([[0.95, 0.05], [0.01, 0.99]], initial=initial)
    secret = pf.Secret("on", domain=[0, 1], missing=0)
    scenario = pf.Scenario(secret, chain, order_by="t", start=0)
    frame = rows_of(60)
    plans = [plan_of(frame, scenario, 1.0, at, at + 3) for at in range(0, 60, 3)]
    account = pf.Ledger(tmp_path / "a.db").open("a", scenario, limit=pf.Pure(100.0))
    finite = pf.compose(plans, scenario).total
    assert finite <= account.forecast(plans[0], every=3).total
