"""What is left of a guarantee if priors are within a Rényi divergence of finite order (M30), against exact divergences.

The truth shares nothing with the library: divergences of finite laws, atom by atom, and of Gaussian ones.
"""

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from thinned import thinned

import pufferflow as pf

ORDERS = np.array([1.1, 1.5, 2.0, 3.0, 5.0, 9.0, 20.0, 60.0])
ANY = pf.calibrate([(pf.Law.point(0), pf.Law.point(1))], pf.Pure(1.0))


def renyi(mu, nu, order):
    """Return D_order(mu‖nu) of laws with the same atoms."""
    return float(logsumexp(order * np.log(mu) + (1 - order) * np.log(nu)) / (order - 1))


def both_ways(mu, nu, order):
    return max(renyi(mu, nu, order), renyi(nu, mu, order))


def hockey_stick(mu, nu, epsilon):
    return max(np.maximum(a - math.exp(epsilon) * b, 0.0).sum() for a, b in ((mu, nu), (nu, mu)))


def four_laws(rng):
    """Return the laws of a scenario under two secrets, and true ones that are near, on a few atoms."""
    atoms = int(rng.integers(2, 6))
    inner = [rng.dirichlet(np.full(atoms, 2.0)) + 1e-3 for _ in range(2)]
    inner = [one / one.sum() for one in inner]
    moved = [one * np.exp(rng.normal(size=atoms) * rng.uniform(0, 0.8)) for one in inner]
    return *inner, *(one / one.sum() for one in moved)


def promised_by(guarantee):
    """Return a noise with a guarantee; what is asked here is about the guarantee alone."""
    return replace(ANY, guarantee=guarantee)


def left_at(promise, divergence, delta):
    """Return what is left at a δ; None where nothing is known."""
    with suppress(pf.Refused):
        return pf.robustness(promised_by(promise), divergence=divergence, delta=delta)
    return None


def divergence_of(laws, order):
    b, c, a, d = laws
    return max(both_ways(a, b, order), both_ways(d, c, order))


@pytest.mark.parametrize("seed", thinned(range(6), 0.2))
def test_one_order_is_never_exceeded(seed):
    """Random laws, a promise of one order, a divergence of one order: the loss of lower orders stays below."""
    rng = np.random.default_rng(seed)
    for _ in range(25):
        laws = b, c, a, d = four_laws(rng)
        own, between = (float(one) for one in rng.choice(ORDERS, 2))
        promise = promised_by(pf.Renyi(own, both_ways(b, c, own) * (1 + 1e-12)))
        divergence = pf.Renyi(between, divergence_of(laws, between) * (1 + 1e-12))
        most = own * between**2 / (between**2 + (own - 1) * (2 * between - 1))
        for share in (0.01, 0.3, 0.7, 0.99):
            order = 1 + share * (most - 1)
            left = pf.robustness(promise, divergence=divergence, order=order)
            assert left.alpha == order
            assert both_ways(a, d, order) <= left.epsilon
        with pytest.raises(pf.Refused, match="nothing is known at the order"):
            pf.robustness(promise, divergence=divergence, order=most * 1.001)


@pytest.mark.parametrize("seed", thinned(range(6), 0.2))
def test_curves_are_never_exceeded(seed):
    """Promises and divergences of several orders at once, and of all in proportion: no order loses more."""
    rng = np.random.default_rng(seed)
    fine = np.geomspace(1.001, 400, 500)
    for _ in range(2):
        laws = b, c, a, d = four_laws(rng)
        curve = pf.RenyiCurve(ORDERS, [both_ways(b, c, one) * (1 + 1e-12) for one in ORDERS])
        near = pf.RenyiCurve(ORDERS, [divergence_of(laws, one) * (1 + 1e-12) for one in ORDERS])
        rho = max(divergence_of(laws, one) / one for one in fine) * (1 + 1e-2)
        own_rho = max(both_ways(b, c, one) / one for one in fine) * (1 + 1e-2)
        promise = pf.Zcdp(own_rho) if seed % 2 else curve
        left = pf.robustness(
            promised_by(promise), divergence=pf.Zcdp(rho) if seed % 4 > 1 else near
        )
        assert len(left.alphas) > 2
        for order, epsilon in zip(left.alphas, left.epsilons, strict=True):
            if order < 300:
                assert both_ways(a, d, order) <= epsilon


@pytest.mark.parametrize("seed", thinned(range(6), 0.2))
def test_epsilon_at_a_delta_is_never_exceeded(seed):
    """Random laws: no event is more likely than what is left at a δ allows, for promises of three kinds."""
    rng, answered = np.random.default_rng(seed), 0
    for _ in range(4):
        laws = b, c, a, d = four_laws(rng)
        between = float(rng.choice(ORDERS[2:]))
        divergence = pf.Renyi(between, divergence_of(laws, between) * (1 + 1e-12))
        largest = float(np.abs(np.log(b / c)).max())
        epsilon = float(rng.uniform(0.9, 0.999)) * largest  # so that its own δ is small
        own = hockey_stick(b, c, epsilon) * (1 + 1e-12) + 1e-15
        promises = [pf.Approx(epsilon, own), pf.Renyi(5, both_ways(b, c, 5) * (1 + 1e-12))]
        promises += [pf.Pure(largest * (1 + 1e-12))]
        for promise in promises:
            for delta in (0.3, 0.05, 1e-3):
                left = left_at(promise, divergence, delta)
                assert left is not None or isinstance(promise, pf.Approx)
                if left is not None:
                    assert left.delta == delta
                    assert hockey_stick(a, d, left.epsilon) <= delta
                    answered += isinstance(promise, pf.Approx)
    assert answered >= 4, "of (ε, δ) alone"


@pytest.mark.parametrize("moved", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("order", [1.5, 4.0, 30.0])
def test_gaussian_laws_lose_what_is_left(order, moved):
    """Means 1 apart, and true means `moved` beyond them on both sides: the loss is exact, to within the search."""
    left = pf.robustness(promised_by(pf.Zcdp(0.5)), divergence=pf.Zcdp(moved**2 / 2), order=order)
    truth = order * (1 + 2 * moved) ** 2 / 2
    assert truth * (1 - 1e-12) <= left.epsilon <= truth * 1.01


def test_a_divergence_of_a_large_order_costs_what_a_factor_does():
    """The order ∞ is M30's factor: ε + Δ(2α−1)/(α−1), and (ε + 2Δ, e^Δ·δ)."""
    far = pf.Renyi(1e9, 0.1)
    left = pf.robustness(promised_by(pf.Renyi(2, 0.5)), divergence=far, order=2 - 1e-6)
    assert left.epsilon == pytest.approx(0.8, rel=1e-5)
    approx = promised_by(pf.Approx(1.0, 1e-3))
    left = pf.robustness(approx, divergence=far, delta=1e-3 * math.exp(0.1) * (1 + 1e-6))
    assert left.epsilon == pytest.approx(1.2, rel=1e-4)


def test_the_loss_of_noise_under_a_wrong_prior():
    """Laplace noise for a scenario's laws: its exact loss under near ones is below what robustness says."""
    atoms, rng = [0, 1, 3], np.random.default_rng(5)
    for _ in range(4):
        laws = rng.dirichlet([4, 4, 4], 2)
        true = laws * np.exp(rng.normal(size=(2, 3)) * 0.2)
        true /= true.sum(axis=1, keepdims=True)
        gap = max(both_ways(one, other, 12.0) for one, other in zip(laws, true, strict=True))
        promise = pf.calibrate([tuple(pf.Law(atoms, one) for one in laws)], pf.Renyi(6, 0.5))
        left = pf.robustness(promise, divergence=pf.Renyi(12, gap * 1.001), order=2)
        pair = tuple(pf.Law(atoms, one) for one in true)
        assert pf.loss([pair], promise.noise, pf.Renyi.of(2), bound=pf.Exact()) <= left.epsilon


def test_equal_priors_leave_the_promise():
    """A divergence of 0 means the same laws: the promise is left as it is."""
    promise = promised_by(pf.Renyi(4, 1.0))
    assert pf.robustness(promise, divergence=pf.Renyi(2, 0.0), order=4) == pf.Renyi(4, 1.0)
    left = pf.robustness(promise, divergence=pf.Zcdp(0.0), delta=1e-3)
    assert left == pf.Renyi(4, 1.0).to_approx(1e-3)


@pytest.mark.slow
def test_plans_and_both_errors():
    """A plan's promise grows by a movement first, then by the divergence."""
    frame_plan = (
        pf.examples.district(meters=4, days=1)
        .puffer.protect(
            pf.Scenario(
                pf.Secret("level", [0, 1, 2, 3], missing=0), pf.Independent(), within="meter"
            )
        )
        .private_sum("level")
        .plan(pf.Renyi(8, 1.0))
    )
    alone = pf.robustness(frame_plan, divergence=pf.Renyi(20, 0.1), order=3)
    both = pf.robustness(frame_plan, 0.1, divergence=pf.Renyi(20, 0.1), order=3)
    assert 1.0 < alone.epsilon < both.epsilon


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"order": 2}, "without a divergence"),
        ({"delta": 1e-5}, "without a divergence"),
        ({"divergence": pf.Renyi(8, 0.1), "order": 2, "delta": 0.1}, "both given"),
        ({"divergence": 0.1, "order": 2}, "of type float"),
        ({"divergence": pf.Pure(0.1), "order": 2}, "of type Pure"),
        ({"divergence": pf.Renyi(8, 0.1), "order": 1.0}, "order"),
        ({"divergence": pf.Renyi(8, 0.1), "delta": 1.0}, "delta"),
        ({"divergence": pf.Renyi(8, 0.1), "order": math.nan}, "order"),
        ({"divergence": pf.Renyi(8, 0.1)}, "nothing is known at the order 4"),
        ({"divergence": pf.Renyi(8, 0.1), "delta": 0.0}, "nothing is known at delta"),
    ],
)
def test_what_has_no_answer_is_refused(options, says):
    """Orders that are too high, a δ of 0, and misuse: the error says what is allowed."""
    with pytest.raises(pf.PufferflowError, match=says):
        pf.robustness(promised_by(pf.Renyi(4, 1.0)), **options)


def test_a_promise_about_odds_has_no_order():
    """(ε, δ) bounds no Rényi divergence; an ε at a larger δ is left."""
    promise = promised_by(pf.Approx(1.0, 1e-6))
    with pytest.raises(pf.Refused, match="bounds no Rényi divergence"):
        pf.robustness(promise, divergence=pf.Renyi(8, 0.1), order=2)
    with pytest.raises(pf.Refused, match="well above"):
        pf.robustness(promise, divergence=pf.Renyi(8, 0.1), delta=1e-6)
    assert pf.robustness(promise, divergence=pf.Renyi(8, 0.1), delta=1e-4).epsilon > 1.0


@pytest.mark.parametrize("value", [1e-300, 1e6, 1e300])
def test_extreme_divergences_are_answered_or_refused(value):
    """Tiny and enormous divergences: a finite loss that is no smaller than the promise's, or an error."""
    promise = promised_by(pf.Renyi(8, 1.0))
    left = pf.robustness(promise, divergence=pf.Renyi(8, value), order=2)
    assert left.epsilon >= 1.0
    for delta in (0.5, 1e-9):
        left = left_at(pf.Renyi(8, 1.0), pf.Renyi(8, value), delta)
        assert left is None or 0 <= left.epsilon < math.inf
