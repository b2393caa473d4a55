"""Limits of all orders, tests and trade-offs: ρ adds, μ adds in squares, both parts of a trade-off hold."""

import math

import numpy as np
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.accounting.methods import SUITED, Methods

ROWS = pl.DataFrame({"hour": range(4), "level": [0, 3, 1, 2]})
SECRET = pf.Secret("level", domain=[0, 1, 2, 3])


def plan_of(prior, promise, noise):
    scenario = pf.Scenario(SECRET, prior, order_by="hour")
    return pf.protect(ROWS, scenario).private_sum("level").plan(promise, noise=noise)


@pytest.fixture
def ledger(tmp_path):
    with pf.Ledger(tmp_path / "ledger.db") as opened:
        yield opened


def hockey_stick(mu, epsilon):
    return float(pf.Gaussian(1.0).delta(mu, epsilon))


def test_losses_of_all_orders_add_along_one_coupling():
    """Of Gaussian and Laplace noise about one movement ρ adds, and bounds the sum of exact losses of any order."""
    prior = pf.AnyCorrelation()
    plans = [plan_of(prior, pf.Zcdp(0.02), pf.Gaussian), plan_of(prior, pf.Pure(0.2), pf.Laplace)]
    scenario = plans[0].request.scenario
    total = pf.compose([plans[0], plans[1], plans[0]], scenario, pf.Zcdp)
    assert "M24" in total.rule
    assert total.total == pytest.approx(0.04 + 0.2 - 1 + math.exp(-0.2), rel=1e-6)
    noises = [plans[place].noises["level_sum"] for place in (0, 1, 0)]
    moved = 4 * 3.0  # all four rows from 0 to 3
    for alpha in (1.05, 2, 10):
        exact = sum(noise.renyi(moved, alpha) for noise in noises)
        less = sum(noise.at(0.9 * noise.scale).renyi(moved, alpha) for noise in noises)
        assert exact <= total.total * alpha
        assert alpha > 2 or less > total.total * alpha


def test_laplace_and_gaussian_noise_add_up_in_one_gaussian_curve():
    """Along one coupling μ add in squares whatever the noise; with nine tenths of it the exact errors are fewer."""
    plans = [
        plan_of(pf.AnyCorrelation(), pf.Gdp(0.5), noise) for noise in (pf.Laplace, pf.Gaussian)
    ]
    total = pf.compose([*plans, plans[0]], plans[0].request.scenario, pf.Gdp).total
    assert total == pytest.approx(0.5 * math.sqrt(3), rel=1e-6)
    shift = (
        12 / plans[0].noises["level_sum"].scale
    )  # of three answers moved by so much all hide as well as one curve
    losses = [
        noise.delta(shift * noise.scale, 0.0) for noise in (pf.Laplace(1.0), pf.Gaussian(1.0))
    ]
    assert losses[0] < hockey_stick(total, 0.0)
    assert losses[0] > hockey_stick(0.9 * 0.5, 0.0)


@pytest.mark.parametrize(
    "kind", [pf.Zcdp, pf.Gdp, pf.TradeOff.of(delta=1e-3, tv=0.5)], ids=["zcdp", "gdp", "tv"]
)
def test_the_total_is_that_of_one_gaussian_answer(kind):
    """So many Gaussian answers about one movement tell as much as one with the root of their squares; not .9 of it."""
    plan = plan_of(pf.AnyCorrelation(), pf.Gdp(0.2), pf.Gaussian)
    total = pf.compose([plan] * 9, plan.request.scenario, kind).guarantee
    mu = 3 * 12 / plan.noises["level_sum"].scale
    assert mu == pytest.approx(0.6, rel=1e-6)
    for wider, holds in ((mu, True), (mu / 0.9, False)):
        fits = {
            "Zcdp": wider**2 / 2 <= total.loss * (1 + 1e-6),
            "Gdp": wider <= total.loss * (1 + 1e-6),
            "TradeOff": hockey_stick(wider, total.loss) <= 1e-3 * (1 + 1e-6)
            and hockey_stick(wider, 0.0) <= 0.5,
        }
        assert fits[type(total).__name__] is holds


@pytest.mark.parametrize("kind", [pf.Zcdp, pf.Gdp])
def test_movements_along_a_sequence(kind, ledger):
    """Of answers about rows of an autoregressive sequence ρ and μ are those of M16's squares of movements, and a hair.

    The movement that bringing values onto their grid may add to every one of them has no end.
    """
    phi, days = 0.5, 12
    prior = pf.GaussianPrior(pf.AR1(phi), variance=1.0)
    scenario = pf.Scenario(
        pf.Secret("x", domain=pf.Interval(0, 1)), prior, order_by="hour", public=["hour"]
    )
    rows = pl.DataFrame({"hour": [0, 1, 2], "x": [0.1, 0.9, 0.4]})
    plan = (
        pf.protect(rows, scenario)
        .filter(pl.col("hour") == 1)
        .private_sum("x")
        .plan(kind(0.02), noise=pf.Gaussian)
    )
    account = ledger.open("x", scenario, limit=kind(1.0))
    total = account.forecast(plan, every=1, until=days).total
    scale = plan.noises["x_sum"].scale
    squares = max(sum(phi ** (2 * abs(t - s)) for t in range(days)) for s in range(days)) / scale**2
    exact = squares / 2 if kind is pf.Zcdp else math.sqrt(squares)
    assert exact <= total <= 1.03 * exact
    assert account.forecast(plan, every=1).total == math.inf


def test_chains_count_by_messages(ledger):
    """Along a chain with Laplace noise ρ and μ follow from the pure loss of the messages, also of days for ever."""
    rows = pl.DataFrame({"hour": range(48), "day": [0] * 24 + [1] * 24, "on": [0, 1] * 24})
    chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour", public=["day"])
    days = [
        pf.protect(rows, scenario).filter(day=day).private_sum("on").plan(pf.Pure(0.4))
        for day in (0, 1)
    ]
    pure = pf.compose(days, scenario).guarantee
    endless = (
        ledger.open("pure", scenario, limit=pf.Pure(2.0)).forecast(days[0], every=24).guarantee
    )
    for kind in (pf.Zcdp, pf.Gdp):
        total = pf.compose(days, scenario, kind)
        assert total.total == pytest.approx(kind(1.0).loss_from(pure), rel=1e-9)
        assert "M20" in total.rule
        account = ledger.open(kind.__name__, scenario, limit=kind(1.0), separate=True)
        ahead = account.forecast(days[0], every=24)
        assert ahead.guarantee == kind(ahead.total)
        methods = Methods({"pure": SUITED})
        expected = methods.whole("pure", kind(1.0).kind, kind(1.0).loss_from(endless))
        assert ahead.total == pytest.approx(expected, rel=1e-4)
        assert ahead.fits == math.inf


def test_accounts_refuse_what_passes_the_limit(ledger):
    """An account of each kind says how much is left in its own measure, and charges nothing when it refuses."""
    for place, kind in enumerate((pf.Zcdp, pf.Gdp)):
        plan = plan_of(pf.AnyCorrelation(), kind(0.3), pf.Gaussian)
        account = ledger.open(
            f"levels {place}", plan.request.scenario, limit=kind(0.7), separate=True
        )
        fits = 2 if kind is pf.Zcdp else 5
        assert account.remaining(plan) == fits
        for _ in range(fits):
            plan.release(account)
        spent = account.spent()
        assert spent.loss == pytest.approx(0.6 if kind is pf.Zcdp else 0.3 * math.sqrt(5), rel=1e-6)
        with pytest.raises(pf.LimitReached, match=f"to {kind.measure} "):
            plan.release(account)
        assert account.spent() == spent
        assert f"{kind.measure} " in account.explain().splitlines()[0]


@pytest.mark.slow
def test_a_trade_off_limit_bounds_the_total_variation(ledger):
    """Releases that keep ε and δ but may pass tv are refused as beyond the limit; so are profiles reserved for them."""
    plan = plan_of(pf.AnyCorrelation(), pf.TradeOff(0.6, 1e-3, 0.15), pf.Gaussian)
    limit = pf.TradeOff(9.0, 1e-2, 0.2)
    account = ledger.open("levels", plan.request.scenario, limit=limit)
    fits = account.remaining(plan)
    scale = plan.noises["level_sum"].scale
    assert hockey_stick(12 * math.sqrt(fits) / scale, 0.0) <= 0.2
    assert hockey_stick(12 * math.sqrt(fits + 1) / scale, 0.0) > 0.2
    for _ in range(fits):
        plan.release(account)
    with pytest.raises(pf.LimitReached, match="total variation"):
        plan.release(account)
    assert account.spent().implies(limit)
    with pytest.raises(pf.LimitReached, match="total variation"):
        ledger.open("more", plan.request.scenario, limit=limit, reserve=[(plan, 40)], separate=True)
    wide = pf.TradeOff(9.0, 1e-2, 0.9)
    reserving = ledger.open(
        "much", plan.request.scenario, limit=wide, reserve=[(plan, 40)], separate=True
    )
    plan.release(reserving)
    assert hockey_stick(12 * math.sqrt(40) / scale, reserving.spent().epsilon) <= 1e-2
    assert hockey_stick(12 * math.sqrt(40) / scale, 0.0) <= reserving.spent().tv <= 0.9


def test_promises_of_several_kinds_need_to_be_told_which():
    """Odds go together; ρ and μ are counted with others only in a kind that is named."""
    plans = [
        plan_of(pf.AnyCorrelation(), one, pf.Laplace)
        for one in (pf.Pure(0.1), pf.TradeOff(0.1, 1e-6, 0.04))
    ]
    scenario = plans[0].request.scenario
    assert type(pf.compose(plans, scenario).guarantee) is pf.Approx
    with pytest.raises(pf.UsageError, match="several kinds"):
        pf.compose([plans[0], plan_of(pf.AnyCorrelation(), pf.Zcdp(0.1), pf.Laplace)], scenario)
    assert np.isfinite(pf.compose(plans, scenario, pf.Gdp).total)
