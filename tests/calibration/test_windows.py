"""Answers in windows of a chain (M62) as a bound: against all paths, values known, other bounds, refusals, plans."""

import itertools
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.sensitivity.pattern import of_pattern
from tests.support.chains import kernel
from tests.support.patterns import pattern, values

AVOIDING, STAYING = [[0.1, 0.9], [0.9, 0.1]], [[0.9, 0.1], [0.1, 0.9]]


def random_question(seed, states):
    """Return a chain, its first law, a pattern of cells that lie apart or overlap, with gaps, and what rows add."""
    rng = np.random.default_rng([seed, states])
    rows = int(rng.integers(2, {2: 8, 3: 6, 4: 5}[states]))
    cells = np.sort(rng.integers(0, 3, rows)) if rng.random() < 0.6 else rng.integers(0, 2, rows)
    cells = np.unique(cells, return_inverse=True)[1]
    cells = np.where(rng.random(rows) < 0.2, -1, cells)
    cells[cells >= 0] = np.unique(cells[cells >= 0], return_inverse=True)[1]
    if (cells < 0).all():
        cells[0] = 0
    positions = np.cumsum(rng.integers(1, 3, rows)) - 1
    tables = rng.integers(0, 3, (int(rng.integers(1, 3)), states)).astype(float)
    tables[0] = np.arange(states) * rng.choice([1.0, 0.1, -0.5])
    return (
        kernel(rng, states),
        rng.dirichlet(np.ones(states)),
        pattern(cells, positions.astype(float)),
        tables,
    )


def path_loss(matrix, law, where, tables, scale, secret=None):
    """Return the loss about any row, or one, by adding up the likelihoods of all paths at all possible answers."""
    rows, states = len(where.cells), len(matrix)
    paths = np.array(list(itertools.product(range(states), repeat=rows)))
    steps = np.diff(where.positions, prepend=0).astype(int)
    weight = (law @ np.linalg.matrix_power(matrix, steps[0]))[paths[:, 0]]
    for row in range(1, rows):
        weight *= np.linalg.matrix_power(matrix, steps[row])[paths[:, row - 1], paths[:, row]]
    likelihood = weight[:, None]
    for cell, table in itertools.product(range(max(where.cells) + 1), tables):
        answer = table[paths[:, where.cells == cell]].sum(axis=1).round(9)
        density = np.exp(-np.abs(answer[:, None] - np.unique(answer)) / scale)
        likelihood = (likelihood[:, :, None] * density[:, None]).reshape(len(paths), -1)
    losses = []
    for row in range(rows) if secret is None else [secret]:
        owns = [paths[:, row] == state for state in range(states)]
        laws = [np.log(likelihood[own].sum(axis=0) / weight[own].sum()) for own in owns]
        losses += [np.abs(one - other).max() for one, other in itertools.combinations(laws, 2)]
    return max(losses)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("states", [2, 3, 4])
@pytest.mark.parametrize("covered", [False, True])
def test_no_loss_is_above_it(states, seed, covered, monkeypatch):
    """Answers in windows, listed together or bounded cell by cell: never below the exact loss, never above messages."""
    matrix, law, where, tables = random_question(seed, states)
    if covered:
        monkeypatch.setattr("pufferflow.sensitivity.pattern._MOST_COMPARED", 0.5)
    prior = pf.MarkovChain(matrix.tolist(), initial=law.tolist())
    laws = of_pattern(prior, values(states), where, tables, "x")
    truth = path_loss(matrix, law, where, tables, 1.5)
    by_rows = pf.loss(laws, pf.Laplace(1.5), pf.Pure, bound=pf.Messages())
    try:
        found = pf.loss(laws, pf.Laplace(1.5), pf.Pure, bound=pf.Windows())
    except pf.Refused:  # no answer is about several rows
        assert max(np.bincount(where.cells[where.cells >= 0])) == 1 or not laws.size.windows
        return
    assert truth <= found + 1e-12
    assert found <= by_rows * (1 + 1e-8)
    assert found <= 1.5 * truth + 1e-6
    if states == 2:
        assert found == pytest.approx(truth, abs=5e-8)


@pytest.mark.parametrize("seed", range(20))
def test_no_loss_about_the_first_value_is_above_it(seed):
    """The first value of a sequence is the secret, whether a row holds it or all rows come later."""
    matrix, law, where, tables = random_question(seed, 2 + seed % 2)
    where = replace(where, positions=where.positions - where.positions[0])
    later = replace(where, positions=where.positions + 1)
    whole = pattern([-1, *where.cells], [0, *later.positions])
    prior, secret = pf.MarkovChain(matrix.tolist(), initial=law.tolist()), list(range(len(matrix)))
    for rows, truth in ((where, where), (later, whole)):
        laws = of_pattern(prior, pf.Initial("x", domain=secret), rows, tables, "x")
        if laws.size.windows:
            found = pf.loss(laws, pf.Laplace(1.5), pf.Pure, bound=pf.Windows())
            assert path_loss(matrix, law, truth, tables, 1.5, 0) <= found + 1e-12


def of_total(matrix, rows):
    """Return the laws of the total of some rows of a chain."""
    on = pf.Secret("on", domain=list(range(len(matrix))))
    scenario = pf.Scenario(on, pf.MarkovChain(matrix), order_by="hour")
    return pf.laws(scenario, pf.Statistic.total(rows))


@pytest.mark.parametrize(
    ("matrix", "rows", "scale"),
    [([[0.4, 0.6], [0.7, 0.3]], 20, 0.789521), (AVOIDING, 24, 0.562752), (STAYING, 24, 8.152069)],
)
def test_the_least_noise_of_one_answer_about_two_states(matrix, rows, scale):
    """One window of two states needs the least noise that there is; where neighbours avoid each other, far less."""
    laws = of_total(matrix, rows)
    scales = [
        pf.calibrate(laws, pf.Pure(1.0), bound=bound).noise.scale
        for bound in (pf.Windows(), pf.Exact(), "auto")
    ]
    assert scales == pytest.approx([scale] * 3, rel=3e-6)


@pytest.mark.parametrize("least", [0.0, 1.7e9, 4e15])
def test_what_all_rows_add_anyway_costs_no_digits(least):
    """Values far from 0 lose as values near it."""
    on = pf.Secret("on", domain=[0, 1])
    scenario = pf.Scenario(on, pf.MarkovChain([[0.4, 0.6], [0.7, 0.3]]), order_by="hour")
    laws = pf.laws(scenario, pf.Statistic([[0.84] * 4], values=[least, least + 1]))
    found = pf.loss(laws, pf.Laplace(1.0), pf.Pure, bound=pf.Windows())
    assert found == pytest.approx(0.6524280, abs=1e-7)


def of_days(matrix, days, rows):
    """Return the laws of the totals of some days, one after another."""
    where = pattern(np.repeat(np.arange(days), rows), np.arange(float(days * rows)))
    prior = pf.MarkovChain(matrix)
    return of_pattern(prior, values(len(matrix)), where, np.arange(len(matrix) * 1.0)[None], "x")


@pytest.mark.parametrize(
    ("days", "loss"), [(1, 0.19211528), (2, 0.36491792), (3, 0.41677731), (8, 0.49729924)]
)
def test_days_of_a_chain_that_alternates(days, loss):
    """Twelve rows a day, neighbours equal with 5 %: the loss of some days; by their rows alone it is 4.5."""
    laws = of_days([[0.05, 0.95], [0.95, 0.05]], days, 12)
    found = pf.loss(laws, pf.Laplace(2.0), pf.Pure, bound=pf.Windows())
    assert found == pytest.approx(loss, abs=1e-7)
    assert pf.loss(laws, pf.Laplace(2.0), pf.Pure, bound=pf.Messages()) > 3.9


def test_a_slightly_wrong_chain_costs_no_more_than_with_messages():
    """Kernels off by a tenth of each entry: noise from windows is not broken sooner than noise from messages."""
    matrix = np.array([[0.4, 0.6], [0.7, 0.3]])
    laws, losses = of_total(matrix.tolist(), 20), {}
    for bound in (pf.Windows(), pf.Messages()):
        noise = pf.calibrate(laws, pf.Pure(1.0), bound=bound).noise
        signs = np.array(np.meshgrid(*[[-1, 1]] * 4)).reshape(4, -1).T.reshape(-1, 2, 2)
        off = [matrix * np.exp(0.1 * sign) for sign in signs]
        wrong = [of_total((one / one.sum(axis=1, keepdims=True)).tolist(), 20) for one in off]
        losses[bound] = max(pf.loss(one, noise, pf.Pure, bound=bound) for one in wrong)
    assert 1.0 < losses[pf.Windows()] <= losses[pf.Messages()] < 1.25


def hours(days, **options):
    """Return a table of hours in days, and a scenario of neighbours that avoid each other."""
    table = pl.DataFrame({"hour": range(24 * days)})
    table = table.with_columns(day=pl.col("hour") // 24, on=pl.col("hour") % 2)
    secret = pf.Secret("on", domain=[0, 1], missing=0)
    prior = pf.MarkovChain(AVOIDING)
    scenario = pf.Scenario(secret, prior, order_by="hour", public=["day"], **options)
    return table, scenario


def test_a_plan_of_a_week_is_proven_by_windows(tmp_path):
    """Daily sums of a week need noise for one row, not 8.6 times as much, and an account counts no more than that."""
    table, scenario = hours(7)
    query = table.lazy().puffer.protect(scenario).group_by("day").private_sum("on")
    plan, by_rows = query.plan(epsilon=1.0), query.plan(epsilon=1.0, bound="messages")
    assert plan.calibration.bound == pf.Windows()
    assert plan.calibration.noise.scale == pytest.approx(1.0)
    assert by_rows.calibration.noise.scale == pytest.approx(8.6405, abs=1e-3)
    assert "Windows()" in str(plan.compare())
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("meters", scenario, limit=pf.Pure(1.0))
        plan.release(account)
        assert account.spent().epsilon <= 1.0


@pytest.mark.parametrize(
    ("laws", "noise", "says"),
    [
        (of_total(AVOIDING, 4), pf.Gaussian, "Laplace noise"),
        (of_days(AVOIDING, 4, 1), pf.Laplace, "no windows with known laws"),
        (of_total(np.full((6, 6), 1 / 6).tolist(), 4), pf.Laplace, "no windows with known laws"),
        ([(pf.Law.point(0), pf.Law.point(1))], pf.Laplace, "do not come from a chain"),
    ],
)
def test_refusals_say_what_would_do(laws, noise, says):
    """Windows need Laplace noise, a chain of few states, and answers about several rows."""
    with pytest.raises(pf.Refused, match=says):
        pf.calibrate(laws, pf.Pure(1.0), noise=noise, bound=pf.Windows())
