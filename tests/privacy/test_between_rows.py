"""Guarantees between two rows: never below the divergence of random mechanisms, tight, and inverse to each other."""

import math

import numpy as np
import polars as pl
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import pufferflow as pf
from pufferflow.privacy.between_rows import delta_growth, epsilon_between, epsilon_within

MASSES = [0.0, 1e-18, 1e-6, 0.1, 0.3, 0.5]


def worlds(rng, values=3, outputs=4, spread=1.0):
    """Return a joint law of two rows, and a law of the output for each pair of their values."""
    joint = rng.dirichlet(np.full(values * values, 0.7)).reshape(values, values)
    answers = rng.dirichlet(np.full(outputs, 2.0))
    tilted = answers * np.exp(spread * rng.uniform(-1, 1, (values, values, outputs)))
    return joint, tilted / tilted.sum(axis=2, keepdims=True)


def given(joint, answers, row):
    """Return the law of the output for each value of a row, and the law of the row."""
    axis = 1 - row
    mass = joint.sum(axis=axis)
    return (joint[:, :, None] * answers).sum(axis=axis) / mass[:, None], mass


def hockey(p, q, epsilon):
    return np.maximum(p - math.exp(epsilon) * q, 0.0).sum()


def within(laws, measure):
    return max(measure(p, q) for p in laws for q in laws)


CASES = [np.random.default_rng(seed) for seed in range(24)]


@pytest.mark.parametrize("rng", CASES)
def test_no_random_mechanism_exceeds_what_follows(rng):
    """Of two dependent rows and any output: pure, approximate, zCDP, GDP and total variation, in both orders."""
    joint, answers = worlds(rng, spread=float(rng.choice([0.1, 1.0, 3.0])))
    (first, mass), (second, other) = (given(joint, answers, row) for row in (0, 1))
    least = min(mass.min(), other.min())
    pairs = [(p, q) for p in first for q in second] + [(q, p) for p in first for q in second]

    def both(measure):
        return max(within(first, measure), within(second, measure))

    pure = both(lambda p, q: np.log(p / q).max())
    cross = max(np.log(p / q).max() for p, q in pairs)
    assert cross <= pf.Pure(pure).between_rows(least).epsilon * (1 + 1e-12)
    for epsilon in (0.0, pure / 3):
        delta = both(lambda p, q: hockey(p, q, epsilon))  # noqa: B023 - used at once
        if delta * delta_growth(epsilon, least) < 1:
            left = pf.Approx(epsilon, delta).between_rows(least)
            assert max(hockey(p, q, left.epsilon) for p, q in pairs) <= left.delta + 1e-15
        left = pf.TradeOff(pure, 0.0, both(lambda p, q: hockey(p, q, 0.0))).between_rows(least)
        assert max(hockey(p, q, 0.0) for p, q in pairs) <= left.tv + 1e-15
    orders = (1.01, 1.5, 2.0, 4.0, 16.0, 200.0)

    def rho(p, q):
        return max(
            logsumexp(alpha * np.log(p) + (1 - alpha) * np.log(q)) / (alpha - 1) / alpha
            for alpha in orders
        )

    assert max(rho(p, q) for p, q in pairs) <= pf.Zcdp(both(rho)).between_rows(least).rho + 1e-12
    mu = pf.Pure(pure).gdp_mu()
    wide = pf.Gdp(mu).between_rows(least).mu
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        allowed = norm.cdf(wide / 2 - epsilon / wide) - math.exp(epsilon) * norm.cdf(
            -wide / 2 - epsilon / wide
        )
        assert max(hockey(p, q, epsilon) for p, q in pairs) <= allowed + 1e-12


@pytest.mark.parametrize(("epsilon", "m"), [(1.0, 0.1), (0.2, 0.3), (4.0, 0.02)])
def test_the_pure_loss_is_attained(epsilon, m):
    """Two independent rows, each alone told with loss ε: the ratio between rare values is what is stated."""
    rare = np.array([m, 1 - m])
    up = math.exp(epsilon)
    # an event that both rows make ε more likely, one by its rare value and the other by its common one
    first, second = np.array([up, 1.0]), np.array([1.0, up])
    event = first[:, None] * second[None, :]
    event /= event.max() * 2
    given_first = (event * rare[None, :]).sum(axis=1)
    given_second = (event * rare[:, None]).sum(axis=0)
    assert math.log(given_first[0] / given_second[0]) == pytest.approx(
        epsilon_between(epsilon, m), rel=1e-12
    )
    if (epsilon, m) == (1.0, 0.1):
        assert epsilon_between(epsilon, m) == pytest.approx(1.77613659, abs=1e-8)


@pytest.mark.parametrize("m", MASSES)
@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 0.3, 0.49999, 0.5, 1.0, 30.0, 700.0, 1e4])
def test_there_and_back_is_never_more(epsilon, m):
    """The loss of single rows that is found for a loss between rows gives no more, and nearly as much."""
    rows = epsilon_within(epsilon, m)
    assert epsilon / 2 * (1 - 1e-12) <= rows <= epsilon
    assert epsilon_between(rows, m) <= epsilon
    assert epsilon_between(rows * (1 + 1e-9), m) >= epsilon * (1 - 1e-9)
    assert epsilon <= epsilon_between(epsilon, m) <= 2 * epsilon


@pytest.mark.parametrize("m", MASSES)
def test_the_loss_is_rounded_up(m):
    """It is not below the same number with 60 digits."""
    from mpmath import mp, mpf

    mp.dps = 60
    for epsilon in (1e-12, 1e-3, 0.4, 0.6, 3.0, 40.0):
        e, mass = mp.exp(mpf(epsilon)), mpf(m)
        exact = mp.log((mass + (1 - mass) * e) / (mass + (1 - mass) / e))
        assert exact <= epsilon_between(epsilon, m) <= exact * (1 + mpf("1e-13"))
        growth = (1 - mass) * (1 + 1 / e) / (mass + (1 - mass) / e)
        assert growth <= delta_growth(epsilon, m) <= growth * (1 + mpf("1e-13"))


@pytest.mark.parametrize(
    "between", [pf.Pure(1.0), pf.Approx(1.0, 1e-6), pf.TradeOff(1.0, 1e-6, 0.3), pf.Gdp(1.0)]
)
@pytest.mark.parametrize("m", [0.0, 0.2, 0.5])
def test_every_number_of_a_guarantee_goes_there_and_back(between, m):
    """The guarantee of rows gives the wanted one between rows."""
    assert between.within_rows(m).between_rows(m).implies(between)


def test_a_scenario_knows_its_least_probability():
    """That of the least probable value that a row can have, at any step, under the worst prior."""
    secret = pf.Secret("on", domain=[0, 1])
    stay = pf.MarkovChain([[0.9, 0.1], [0.4, 0.6]])
    cases = {
        stay: 0.2,
        pf.MarkovChain([[0.9, 0.1], [0.4, 0.6]], initial=[0.95, 0.05]): 0.05,
        pf.MarkovChain([[0.9, 0.1], [0.4, 0.6]], initial=[0.5, 0.5]): 0.1,
        pf.MarkovChain([[1.0, 0.0], [0.4, 0.6]], initial=[0.5, 0.5]): 0.0,
        pf.MarkovChain([[0.9, 0.1], [0.4, 0.6]], initial="free"): 0.0,
        pf.MarkovChain([[[0.9, 0.1], [0.4, 0.6]], [[0.5, 0.5], [0.3, 0.7]]], period=2): 7 / 18,
        pf.LatentClass([0.5, 0.5], [[0.9, 0.1], [0.5, 0.5]]): 0.3,
        pf.Table({"on": [0, 1, 1], "x": [0, 0, 1], "probability": [0.3, 0.3, 0.4]}): 0.3,
        pf.MarkovChain.between([[0.8, 0.1], [0.1, 0.8]], [[0.9, 0.2], [0.2, 0.9]]): 0.0,
        pf.Independent(): 0.0,
    }
    for prior, least in cases.items():
        found = prior.least_probability(secret)
        assert found <= least, prior
        assert found == pytest.approx(least, abs=1e-5), prior
    both = pf.Scenario(secret, [stay, pf.Independent()], order_by="hour")
    assert pf.between_rows(both, pf.Pure(1.0)) == pf.Pure(2.0)


def test_the_total_of_an_account_says_what_two_rows_reveal(tmp_path):
    """Two sums of a chain: the likelihood ratio of both answers between different rows is below what is stated."""
    chain = pf.MarkovChain([[0.8, 0.2], [0.5, 0.5]])
    scenario = pf.Scenario(
        pf.Secret("on", domain=[0, 1], missing=0), chain, order_by="hour", public=["hour"]
    )
    frame = pl.DataFrame({"hour": [0, 1, 2], "on": [0, 1, 1]})
    plan = (
        pf.protect(frame, scenario).private_sum("on").plan(pf.row_guarantee(scenario, pf.Pure(1)))
    )
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("on", scenario, limit=pf.Pure(3.0))
        for name in ("a", "b"):
            plan.release(account, id=name)
        stated = pf.between_rows(scenario, account.spent()).epsilon
    scale, kernel, start = plan.calibration.noise.scale, chain.kernels[0], chain.initial_laws[0]
    paths = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    mass = {x: start[x[0]] * kernel[x[0], x[1]] * kernel[x[1], x[2]] for x in paths}
    sees = {x: math.exp(-2 * abs(3 - sum(x)) / scale) for x in paths}  # both answers far above

    def of(row, value):
        own = [x for x in paths if x[row] == value]
        return sum(mass[x] * sees[x] for x in own) / sum(mass[x] for x in own)

    values = [(i, a) for i in range(3) for a in (0, 1)]
    worst = max(math.log(of(*one) / of(*other)) for one in values for other in values)
    assert 0.5 < worst <= stated
    assert stated == pytest.approx(2.0, rel=0.2)


def test_secrets_and_guarantees_without_an_answer_are_refused():
    """Presence has no values; of some pairs nothing follows; one Rényi order gives none."""
    prior = pf.Independent()
    some = pf.Scenario(pf.Secret("x", domain=[0, 1, 2], pairs="adjacent"), prior)
    with pytest.raises(pf.Refused, match="Only some pairs"):
        pf.between_rows(some, pf.Pure(1.0))
    every = pf.Secret("x", domain=[0, 1], pairs=[(0, 1)])
    assert pf.between_rows(pf.Scenario(every, prior), pf.Pure(1.0)) == pf.Pure(2.0)
    interval = pf.Scenario(pf.Secret("x", domain=pf.Interval(0, 9)), prior)
    assert pf.between_rows(interval, pf.Zcdp(0.1)) == pf.Zcdp(0.4)
    with pytest.raises(pf.UsageError, match="no value of a row"):
        pf.between_rows(pf.Scenario(pf.Presence("person"), prior), pf.Pure(1.0))
    with pytest.raises(pf.Refused, match="not known what follows"):
        pf.between_rows(interval, pf.Renyi(4, 1.0))
    with pytest.raises(pf.Refused, match="delta"):
        pf.between_rows(interval, pf.Approx(1.0, 0.5))
    with pytest.raises(pf.UsageError, match="The guarantee"):
        pf.row_guarantee(interval, 1.0)
