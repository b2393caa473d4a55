"""Noise for guarantees about all orders and all tests: never less than exact divergences of random laws need."""

import math

import noisy
import numpy as np
import pytest
from laws import float_law_of, random_law
from thinned import thinned

import pufferflow as pf

FAMILIES = {"laplace": pf.Laplace, "gaussian": pf.Gaussian, "cauchy": pf.GeneralizedCauchy}
PROMISES = [pf.Zcdp(0.1), pf.Gdp(0.4), pf.TradeOff(0.5, 0.01, 0.12), pf.Tv(0.1)]
BOUNDS = [pf.Exact(), pf.DAGWM(), pf.GWM(), pf.Group()]
POINTS = pf.Law.point(0), pf.Law.point(1)
every_family = pytest.mark.parametrize(
    "family",
    [
        pytest.param(one, id=name, marks=[pytest.mark.slow] * (name == "cauchy"))
        for name, one in FAMILIES.items()
    ],
)
all_guarantees = pytest.mark.parametrize("promise", thinned(PROMISES, 0.34), ids=repr)


def pairs_of(seed, count):
    rng = np.random.default_rng(seed)
    return [(float_law_of(random_law(rng)), float_law_of(random_law(rng))) for _ in range(count)]


def share_used(pair, noise, promise):
    """Return the largest exact loss, computed slowly, over what the guarantee allows there."""
    match promise:
        case pf.Zcdp(rho):
            return max(
                noisy.renyi(*pair, noise, alpha) / (rho * alpha) for alpha in (1.05, 1.5, 3.0, 12.0)
            )
        case pf.Gdp(mu):
            allowed = {
                epsilon: float(pf.Gaussian(1.0).delta(mu, epsilon))
                for epsilon in (0.0, 0.1, 0.4, 0.8)
            }
        case pf.TradeOff(epsilon, delta, tv):
            allowed = {epsilon: delta, 0.0: tv}
        case pf.Approx(epsilon, delta):
            allowed = {epsilon: delta}
    return max(noisy.delta(*pair, noise, epsilon) / delta for epsilon, delta in allowed.items())


@every_family
@all_guarantees
def test_the_noise_keeps_the_promise(family, promise):
    """The exact loss of random laws is within the guarantee under every bound, and finer bounds need no more noise."""
    for pair in pairs_of(11, 2):
        found = [pf.calibrate([pair], promise, noise=family, bound=bound).noise for bound in BOUNDS]
        assert [noise.scale for noise in found] == sorted(noise.scale for noise in found)
        for noise in found[:3]:
            if noise.scale:
                assert share_used(pair, noise, promise) <= 1 + 1e-5


@pytest.mark.parametrize(
    ("family", "promise"), [*((pf.Gaussian, one) for one in PROMISES), (pf.Laplace, PROMISES[2])]
)
def test_a_tenth_less_noise_breaks_the_promise(family, promise):
    """Where one answer moves to another, and the loss of the noise is known exactly, nine tenths of it reveal more."""
    noise = pf.calibrate([POINTS], promise, noise=family).noise
    assert share_used(POINTS, noise, promise) <= 1 + 1e-6
    assert share_used(POINTS, family(0.9 * noise.scale), promise) > 1.01


@pytest.mark.parametrize("promise", PROMISES[:2], ids=repr)
def test_messages_along_a_chain_go_by_pure_losses(promise):
    """Of a shift Laplace noise loses less than any noise of its pure loss may; a chain's messages are pure losses."""
    noise = pf.calibrate([POINTS], promise, noise=pf.Laplace).noise
    assert not pf.Pure(1 / noise.scale).implies(promise)
    chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour")
    laws, kind = pf.laws(scenario, pf.Statistic.total(24)), type(promise)
    pure = pf.loss(laws, pf.Laplace(10.0), pf.Pure, bound=pf.Messages())
    assert pf.loss(laws, pf.Laplace(10.0), kind, bound=pf.Messages()) == kind(1.0).loss_from(
        pf.Pure(pure)
    )
    with pytest.raises(pf.Refused):
        pf.calibrate(laws, promise, noise=pf.Gaussian, bound=pf.Messages())


def test_a_loss_of_trade_offs_is_infinite_where_the_total_variation_is_larger():
    """Of noise whose total variation is known exactly: what is above it has an ε, what is below it has none."""
    tv = pf.Laplace(4.0).tv(1.0)
    kinds = [pf.TradeOff.of(delta=1e-3, tv=share * tv) for share in (0.9, 1.01)]
    none, some = (pf.loss([POINTS], pf.Laplace(4.0), kind, bound=pf.GWM()) for kind in kinds)
    assert none == math.inf
    assert some == pytest.approx(
        pf.loss([POINTS], pf.Laplace(4.0), pf.Approx.of(delta=1e-3)), rel=1e-9
    )


def test_gaussian_laws_have_exact_losses_of_all_orders():
    """With one covariance μ is the distance in standard deviations of law and noise; with two nothing is known."""
    pair = pf.GaussianLaw(0.0, 3.0), pf.GaussianLaw(2.0, 3.0)
    assert pf.loss([pair], pf.Gaussian(1.0), pf.Gdp, bound=pf.Exact()) == pytest.approx(
        1.0, rel=1e-12
    )
    assert pf.loss([pair], pf.Gaussian(1.0), pf.Zcdp, bound=pf.Exact()) == pytest.approx(
        0.5, rel=1e-12
    )
    assert pf.loss([pair], pf.Gaussian(1.0), pf.Zcdp, bound=pf.GWM()) == pytest.approx(
        2.0, rel=1e-12
    )
    assert (
        pf.loss([(pair[0], pf.GaussianLaw(2.0, 4.0))], pf.Gaussian(1.0), pf.Gdp, bound=pf.Exact())
        == math.inf
    )


def test_no_part_is_left_out_of_all_orders():
    """`pf.GAWM` leaves out a share of the laws, for which neither guarantee has room; a total variation has."""
    pair = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])
    for promise in PROMISES[:2]:
        with pytest.raises(pf.Refused, match="leaves out"):
            pf.calibrate([pair], promise, noise=pf.Gaussian, bound=pf.GAWM(0.003))
    noise = pf.calibrate([pair], PROMISES[2], noise=pf.Laplace, bound=pf.GAWM(0.003)).noise
    assert noise.scale < 49
    assert share_used(pair, noise, PROMISES[2]) <= 1 + 1e-6


def test_robustness_of_the_new_promises():
    """A prior that is off by a movement or a factor leaves guarantees that noise proves or conversions know."""
    for promise in PROMISES[:3]:
        made = pf.calibrate([POINTS], promise, noise=pf.Gaussian)
        left = pf.robustness(made, 0.5)
        assert type(left) is type(promise)
        assert share_used((pf.Law.point(0), pf.Law.point(2)), made.noise, left) <= 1 + 1e-6
    assert pf.robustness(pf.calibrate([POINTS], pf.Zcdp(0.5)), ratio=0.5).rho == pytest.approx(2.5)
    with pytest.raises(pf.Refused, match="Gdp"):
        pf.robustness(pf.calibrate([POINTS], pf.Gdp(0.5)), ratio=0.5)
