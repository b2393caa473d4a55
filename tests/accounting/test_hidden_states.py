"""Accounts about hidden states and what they show: exposures of all releases add before they pass through the state."""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from hidden_chains import (
    LEVELS,
    SHOWS,
    STAY,
    closed_form,
    joint,
    random_chain,
    scenario_of,
    worst_product,
)
from thinned import thinned

import pufferflow as pf
from pufferflow.accounting.rules.markov import temporal_leakage
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.hidden_chain import HiddenChain
from pufferflow.distributions.markov.row_mechanisms import leak_with_delta
from pufferflow.distributions.markov.state_loss import Secrets

SAME = 1e-7
ROWS = pl.DataFrame({"t": range(4), "x": [0, 1, 2, 3]})


@pytest.mark.parametrize(
    ("exposure", "own", "forever"), [(0.5, 0.39700333, 2.69920095), (1e5, None, 6.35957088)]
)
def test_published_totals_for_ever(exposure, own, forever):
    """Stay .9, an error of a tenth: the closed form of M58, finite even if all rows are published as they are."""
    kernel, emission = [[0.9, 0.1], [0.1, 0.9]], [[0.9, 0.1], [0.1, 0.9]]
    found = temporal_leakage(kernel, exposure, emission=emission)
    assert found == pytest.approx(forever, abs=1e-8 * 3)
    assert temporal_leakage(kernel, exposure, steps=1, emission=emission) == pytest.approx(
        own or math.log(9), abs=1e-8
    )
    if own:
        assert closed_form(0.9, 0.1, exposure) == pytest.approx((own, forever), abs=1e-7)


@pytest.mark.parametrize(("stay", "error"), [(0.5, 0.2), (0.7, 0.0), (0.97, 0.4), (0.9, 0.5)])
def test_the_closed_form_for_ever(stay, error):
    """Symmetric hidden chains of two states, any exposure; an error of a half reveals nothing."""
    for exposure in (0.01, 0.3, 3.0):
        found = temporal_leakage(
            [[stay, 1 - stay], [1 - stay, stay]],
            exposure,
            emission=[[1 - error, error], [error, 1 - error]],
        )
        assert found == pytest.approx(closed_form(stay, error, exposure)[1], rel=1e-6, abs=1e-9)


def test_raw_rows_of_the_example_for_ever():
    """All levels published as they are, for ever: 8.09072764 about the hidden state."""
    assert temporal_leakage(STAY, 1e5, emission=SHOWS) == pytest.approx(8.09072764, abs=SAME)
    symmetric = [[0.9, 0.1], [0.1, 0.9]]
    nine = temporal_leakage(symmetric, 1e5, steps=9, emission=symmetric)
    assert nine == pytest.approx(6.35758640, abs=SAME)


def test_where_an_emission_has_zeros_raw_rows_reveal_the_state():
    """The loss grows with the exposure without end, but noise keeps it finite."""
    losses = [
        temporal_leakage(STAY, exposure, emission=[[1.0, 0.0], [0.5, 0.5]])
        for exposure in (1.0, 10.0, 100.0)
    ]
    assert losses == sorted(losses)
    assert losses[2] > 100
    assert losses[0] < 7


@pytest.mark.parametrize("hidden", [True, False], ids=["state", "symbol"])
def test_a_sum_of_the_example_for_every_row_for_ever(hidden, tmp_path):
    """A forecast has the numbers of M58, and so has an account with a year of them; reading it back changes nothing."""
    scenario = scenario_of(pf.HiddenMarkov(STAY, SHOWS), LEVELS, hidden=hidden)
    plan = pf.protect(ROWS.filter(pl.col("t") == 0), scenario).private_sum("x")
    plan = plan.plan(pf.Pure(_own(10.0, hidden)), bound=pf.Messages())
    assert plan.noises["x_sum"].scale == pytest.approx(10.0, rel=1e-5)
    with pf.Ledger(str(tmp_path / "ledger.db")) as ledger:
        account = ledger.open("levels", scenario, limit=pf.Pure(2.0))
        forecast = account.forecast(plan, every=1)
        assert forecast.total == pytest.approx(1.19303524 if hidden else 1.13530231, abs=1e-4)
        assert forecast.fits == math.inf
        plan.release(account)
        spent = account.spent()
    with pf.Ledger(str(tmp_path / "ledger.db")) as ledger:
        account = ledger.open("levels", scenario, limit=pf.Pure(2.0))
        assert account.spent() == spent
        assert account.forecast(plan, every=1).total == pytest.approx(forecast.total, rel=1e-9)


def _own(scale, hidden):
    """Return the loss of a sum about one row with noise of this scale."""
    laws = pf.laws(
        scenario_of(pf.HiddenMarkov(STAY, SHOWS), LEVELS, hidden=hidden), pf.Statistic.total(1)
    )
    return pf.loss(laws, pf.Laplace(scale), pf.Pure)


@pytest.mark.parametrize("seed", thinned(range(8), 0.3))
def test_a_delta_of_rows_is_never_below_the_exact_one(seed):
    """Rows that respond at random, or with a small chance as they are: (ε, δ) about a hidden state (M37, M58)."""
    rng = np.random.default_rng([9, seed])
    states, symbols, rows = rng.integers(2, 4, 3)
    kernel, emission, start = random_chain(rng, states, symbols)
    epsilon, delta = rng.choice([0.1, 0.5, 1.5]), rng.choice([0.01, 0.1])
    steps = Chain(kernel[None], np.zeros(rows - 1, dtype=np.intp), start[None])
    response = 1 + math.expm1(epsilon) * np.eye(symbols)
    response = (1 - delta) * response / response.sum(axis=1, keepdims=True)
    shown = emission @ np.concatenate([response, delta * np.eye(symbols)], axis=1)
    paths, _, masses = joint(kernel, np.ones((states, 1)), start, range(rows))
    outputs = np.array(list(itertools.product(range(2 * symbols), repeat=rows)))
    likelihood = shown[paths[:, None, :], outputs[None]].prod(axis=2)
    for row in range(rows):
        flags = np.arange(rows) == row
        pairs = Secrets(np.argwhere(~np.eye(states, dtype=np.bool_)), flags, hidden=True)
        loss, left = leak_with_delta(HiddenChain(steps, emission), epsilon, delta, pairs)
        laws = [
            (masses * (paths[:, [row]] == state) * likelihood).sum(axis=0)
            for state in range(states)
        ]
        for p, q in itertools.permutations([law / law.sum() for law in laws], 2):
            assert np.maximum(p - math.exp(loss) * q, 0).sum() <= left + 1e-13


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [True, False], ids=["state", "symbol"])
def test_gaussian_sums_about_states_are_forgotten(hidden, tmp_path):
    """A sum a row, for ever, is finite about the state (M37); about symbols nothing but group privacy is known."""
    scenario = scenario_of(pf.HiddenMarkov(STAY, SHOWS), LEVELS, hidden=hidden)
    batch = pf.protect(ROWS.head(1), scenario).private_sum("x")
    plan = batch.plan(pf.Approx(0.02, 1e-9), noise=pf.Gaussian)
    with pf.Ledger(str(tmp_path / "ledger.db")) as ledger:
        account = ledger.open("levels", scenario, limit=pf.Approx(9.0, 1e-6))
        forecast = account.forecast(plan, every=1)
    assert (forecast.total < 9) == hidden


@pytest.mark.parametrize("hidden", [True, False], ids=["state", "symbol"])
@pytest.mark.parametrize("seed", thinned(range(8), 0.3))
def test_totals_are_never_below_all_likelihoods_of_rows(seed, hidden):
    """Several sums over overlapping rows: exposures add, then pass through the states; rows that respond attain it."""
    rng = np.random.default_rng([5, seed])
    kernel, emission, start = random_chain(rng, 2 + seed % 2, 2)
    prior = pf.HiddenMarkov(kernel, emission, start)
    scenario = scenario_of(prior, [0, 1], hidden=hidden, start=0)
    subsets = [s for n in (1, 2, 3) for s in itertools.combinations(range(3), n)]
    asked = [subsets[place] for place in rng.integers(0, len(subsets), 3)]
    plans = [
        pf.protect(ROWS.head(3), scenario)
        .filter(pl.col("t").is_in(list(some)))
        .private_sum("x")
        .plan(pf.Pure(0.4), noise=pf.Laplace, bound=pf.Messages())
        for some in asked
    ]
    limits = np.zeros(3)
    for some, plan in zip(asked, plans, strict=True):
        limits[list(some)] += 1 / plan.noises["x_sum"].scale
    total = pf.compose(plans, scenario, pf.Pure).total
    states, symbols, masses = joint(kernel, emission, start, range(3))
    worst = worst_product(states, symbols, masses, limits, hidden=hidden)
    assert worst <= total * (1 + 1e-9)
    if seed % 2 == 0 and total < sum(plan.guarantee.epsilon for plan in plans) * 0.999:
        assert worst == pytest.approx(total, rel=1e-6)


@pytest.mark.slow
def test_a_refused_total_names_only_the_methods_that_are_left(tmp_path):
    """Laplace noise first keeps pure losses alone, which Gaussian noise has not; group privacy counts either noise."""
    table = pl.DataFrame({"t": range(6), "x": [0, 1, 2, 1, 0, 2]})
    prior = pf.HiddenMarkov([[0.9, 0.1], [0.25, 0.75]], [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    scenario = pf.Scenario(pf.Secret("x", [0, 1, 2]), prior, order_by="t")
    rows = pf.protect(table, scenario)
    first, second = rows.filter(pl.col("t") < 3), rows.filter(pl.col("t") >= 2)

    def plan(part, noise):
        return part.private_sum("x").plan(pf.Zcdp(0.2), noise=noise, row_privacy=False)

    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("laplace", scenario, limit=pf.Zcdp(5))
        plan(first, pf.Laplace).release(account)
        with pytest.raises(
            pf.Refused, match=r"by pure losses, the(.|\n)*noise=pf\.Laplace in every"
        ):
            plan(second, pf.Gaussian).release(account)
        plan(second, pf.Laplace).release(account)
        other = ledger.open("any", scenario, limit=pf.Zcdp(5), methods="zcdp", dataset="other")
        plan(first, pf.Laplace).release(other)
        plan(second, pf.Gaussian).release(other)
        assert other.spent().rho < 5
