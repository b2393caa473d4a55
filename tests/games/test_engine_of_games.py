"""The engine itself: exact probabilities, known numbers of fixed strategies, and violations that it must see."""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from games.measures import delta_of_gdp, hockey_stick, log_ratio, measures_of, renyi
from games.player import Player
from games.referee import Everything, LedgerReferee, Referee
from games.tables import below, noisy, together
from games.world import Pair, Release, World, release_of

import pufferflow as pf

NOISES = (
    *(pf.Laplace(0.7), pf.Gaussian(0.7), pf.Staircase(1.0, 2.0, 0.5), pf.Staircase(0.7, 0.3)),
    *(pf.GeneralizedCauchy(1.0, 3.0), pf.GeneralizedCauchy(0.4)),
)
ONE = World([0, 1], [Pair("0 against 1", np.array([1.0, 0.0]), np.array([0.0, 1.0]))])


@pytest.mark.parametrize("noise", NOISES)
def test_bins_have_the_probabilities_of_the_noise(noise):
    """They add up to one on every data set; tails are those of the noise."""
    assert np.allclose(noisy(noise, [0.0, 1.0, 2.5]).sum(axis=0), 1.0, atol=1e-12)
    places = np.array([-30.0, -3.0, -0.2, 0.0, 0.1, 4.0, 25.0])
    assert np.allclose(below(noise, -places), noise.tail(places), rtol=1e-9, atol=0)


def test_binned_laplace_noise_keeps_its_divergences():
    """Of one answer the log ratio is exact and so is δ at 0; a Rényi divergence is a lower bound, and close."""
    p, q = noisy(pf.Laplace(0.8), [0.0, 1.0], most=200).T
    assert log_ratio(1.0).gain(p, q).max() == pytest.approx(1.25)
    assert hockey_stick(0.0, 1.0).gain(p, q).sum() == pytest.approx(1 - math.exp(-1.25 / 2))
    told, truth = renyi(2, 1.0).value(renyi(2, 1.0).gain(p, q).sum()), pf.Laplace(0.8).renyi(1.0, 2)
    assert 0.98 * truth < told <= truth


def test_binned_gaussian_noise_keeps_its_curve():
    """δ at several ε, from below, and close."""
    p, q = noisy(pf.Gaussian(1.0), [0.0, 1.0], most=400).T
    for epsilon in (0.0, 0.5, 1.5):
        told, truth = hockey_stick(epsilon, 1.0).gain(p, q).sum(), delta_of_gdp(1.0, epsilon)
        assert 0.97 * truth < told <= truth * (1 + 1e-12)


def response(name, epsilon):
    """Return randomised response of one bit."""
    yes = math.exp(epsilon) / (1 + math.exp(epsilon))
    return Release(name, None, np.array([[yes, 1 - yes], [1 - yes, yes]]))


def test_strategies_of_two_steps_have_known_numbers():
    """Randomised response at 1, then by its answer another one or a reveal with probability .2103 (M26)."""
    coin, other, share = response("coin", 1.0), response("other", 1.0), 0.2103
    reveal = Release("reveal", None, np.array([[share, 0.0], [0.0, share], [1 - share, 1 - share]]))
    menu, measure = [coin, other, reveal], hockey_stick(1.5, 1.0)

    def best(*paths):
        return Player(menu, Everything(*paths)).best(ONE.pairs[0], measure).value

    assert best((coin, other)) == pytest.approx(0.21028837, abs=1e-8)
    assert best((coin, reveal)) == pytest.approx(0.2103, abs=1e-8)
    assert best((coin, other), (coin, reveal)) == pytest.approx(0.26684675, abs=1e-8)


def test_a_class_that_tells_which_filter_leaks_has_known_numbers():
    """K rare reveals, each about the secret for one value of U only, once U is known (M61)."""
    for many in (2, 3, 4):
        atoms = list(itertools.product(range(many), (0, 1)))
        first = Release(
            "tell", None, np.array([[float(u == k) for u, _ in atoms] for k in range(many)])
        )
        rare = [_rare(atoms, k, 0.02) for k in range(many)]
        world = World.given(atoms, np.ones(len(atoms)), [s for _, s in atoms])
        one = (
            Player([first, rare[0]], Everything((first, rare[0])))
            .best(world.pairs[0], hockey_stick(1.0, 1.0))
            .value
        )
        all_of_them = (
            Player([first, *rare], Everything(*((first, each) for each in rare)))
            .best(world.pairs[0], hockey_stick(1.0, 1.0))
            .value
        )
        assert (one, all_of_them) == pytest.approx((0.02 / many, 0.02))


def _rare(atoms, k, delta):
    told = np.array([[delta * (u == k) * (s == t) for u, s in atoms] for t in (0, 1)])
    return Release(f"rare {k}", None, np.concatenate([told, 1 - told.sum(axis=0, keepdims=True)]))


TIGHT = [
    *(pf.Pure(1.0), pf.Approx(1.0, 0.05), pf.TradeOff(1.0, 0.05, tv=0.3), pf.Tv(0.3)),
    *(pf.Renyi(2, 0.5), pf.Zcdp(0.3), pf.Gdp(1.0)),
]


@pytest.mark.parametrize("limit", TIGHT, ids=repr)
def test_a_tenth_less_noise_is_seen(limit):
    """Two releases that fill an account up are within its limit, and beyond it with noise that is less wide."""
    scenario = pf.Scenario(pf.Secret("x", domain=[0, 1]), pf.AnyCorrelation())
    batch = pf.protect(pl.DataFrame({"x": [0]}), scenario).private_sum("x")
    half = {
        pf.Pure: lambda: pf.Pure(0.5),
        pf.Zcdp: lambda: pf.Zcdp(0.15),
        pf.Renyi: lambda: pf.Renyi(2, 0.25),
    }
    promise = half.get(type(limit), lambda: _half_of(limit))()
    plan = batch.plan(promise, noise=pf.Laplace if isinstance(limit, pf.Pure) else pf.Gaussian)
    referee = Referee(scenario, limit)
    for quieter, sound in ((1.0, True), (0.9, False)):
        menu = [release_of("sum", plan, [0.0, 1.0], most=400, quieter=quieter)]
        assert referee.admits(menu * 2)
        found = Player(menu, referee).best_of(
            [*ONE.pairs, ONE.pairs[0].reversed()], measures_of(limit)
        )
        assert (found.ratio <= 1 + 1e-9) is sound, found


def _half_of(limit):
    """Return the μ of which twice the square keeps a limit."""
    low, high = 0.0, 5.0
    for _ in range(50):
        middle = (low + high) / 2
        fits = limit.kind.loss_from(pf.Gdp(middle * math.sqrt(2))) <= limit.loss
        low, high = (middle, high) if fits else (low, middle)
    return pf.Gdp(low * (1 - 1e-6))


@pytest.mark.slow
def test_both_referees_admit_the_same():
    """The running total, asked as a ledger asks it, and a real account with releases."""
    scenario = pf.Scenario(
        pf.Secret("x", domain=[0, 1]), pf.MarkovChain([[0.8, 0.2], [0.3, 0.7]]), order_by="t"
    )
    batch = pf.protect(pl.DataFrame({"t": [0, 1], "x": [0, 1]}), scenario)
    plans = [
        batch.filter(pl.col("t") == row).private_sum("x").plan(pf.Renyi(2, size), noise=noise)
        for row, size, noise in ((0, 0.3, pf.Laplace), (1, 0.2, pf.Gaussian), (0, 0.5, pf.Laplace))
    ]
    menu = [Release(str(place), plan, None) for place, plan in enumerate(plans)]
    limit = pf.Renyi(2, 0.8)
    quick, real = Referee(scenario, limit), LedgerReferee(scenario, limit)
    paths = [path for size in (1, 2) for path in itertools.product(menu, repeat=size)]
    assert [quick.admits(path) for path in paths] == [real.admits(path) for path in paths]


def test_answers_of_several_numbers_are_independent_given_the_data():
    """The table of two is the product of both."""
    one, two = noisy(pf.Laplace(1.0), [0.0, 1.0]), noisy(pf.Gaussian(1.0), [0.0, 2.0])
    both = together([one, two])
    measure = renyi(3, 1.0)
    told = [measure.value(measure.gain(*table.T).sum()) for table in (one, two, both)]
    assert told[2] == pytest.approx(told[0] + told[1])
