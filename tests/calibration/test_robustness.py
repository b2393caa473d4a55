"""What is left of a guarantee when the prior is wrong (M30)."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferflow as pf
from pufferflow.calibration.laws import ListedLaws

POINTS = [(pf.Law.point(0), pf.Law.point(1))]


def test_a_gaussian_promise_grows_as_the_direct_bound_says():
    """The direct bound α(Δ+2Δ')²/(2σ²) holds: the references' 8.0 and .97745, below the paper's corollary (1.0796)."""
    unit = pf.calibrate(POINTS, pf.Renyi(4, 2.0), noise=pf.Gaussian)
    assert pf.robustness(unit, 0.5).epsilon == pytest.approx(8.0, rel=1e-9)
    alpha, p, q, moved, epsilon = 3.0, 4.0, 2.0, 0.3, 0.7
    sigma = math.sqrt(q * (alpha - 1 / p) / (2 * epsilon))
    promised = pf.calibrate(POINTS, pf.Renyi(alpha, alpha / (2 * sigma**2)), noise=pf.Gaussian)
    assert pf.robustness(promised, moved).epsilon == pytest.approx(0.9774545454545456, rel=1e-9)


def test_likelihood_ratios_cost_what_m30_says():
    """Pure: ε+2Δ; (ε,δ): (ε+2Δ, e^Δ·δ); Rényi: ε+Δ(2α−1)/(α−1)."""
    pure = pf.calibrate(POINTS, pf.Pure(1.0))
    assert pf.robustness(pure, ratio=0.25) == pf.Pure(1.5)
    approx = pf.robustness(pf.calibrate(POINTS, pf.Approx(1.0, 1e-3), noise=pf.Gaussian), ratio=0.5)
    assert approx.epsilon == 2.0
    assert approx.delta == pytest.approx(1e-3 * math.exp(0.5), rel=1e-12)
    renyi = pf.robustness(pf.calibrate(POINTS, pf.Renyi(3, 1.0)), ratio=0.5)
    assert renyi.epsilon == pytest.approx(1.0 + 0.5 * 5 / 2)


weights = st.lists(st.integers(1, 9), min_size=3, max_size=3).map(lambda w: np.array(w) / sum(w))


@pytest.mark.slow
@settings(max_examples=25)
@given(weights, weights, weights, weights)
def test_the_grown_promise_holds_for_the_wrong_prior(mu, nu, true_mu, true_nu):
    """Under the true laws the exact loss is never above what robustness guarantees for their distance."""
    check_grown_promise(mu, nu, true_mu, true_nu)


@pytest.mark.slow
@settings(max_examples=100)
@given(weights, weights, weights, weights)
def test_the_grown_promise_holds_for_many_wrong_priors(mu, nu, true_mu, true_nu):
    """The same for four times as many priors."""
    check_grown_promise(mu, nu, true_mu, true_nu)


def check_grown_promise(mu, nu, true_mu, true_nu):
    atoms = [0, 1, 3]
    believed = [pf.Law(atoms, mu), pf.Law(atoms, nu)]
    true = [pf.Law(atoms, true_mu), pf.Law(atoms, true_nu)]
    error = max(pf.winf(a, b) for a, b in zip(believed, true, strict=True))
    ratio = max(
        float(np.abs(np.log(a.probabilities / b.probabilities)).max())
        for a, b in zip(believed, true, strict=True)
    )
    for guarantee, kind in ((pf.Pure(1.0), pf.Pure), (pf.Renyi(3, 0.5), pf.Renyi.of(3))):
        promised = pf.calibrate([tuple(believed)], guarantee, bound=pf.DAGWM())
        if promised.noise.scale == 0:
            continue
        exact = pf.loss([tuple(true)], promised.noise, kind, bound=pf.Exact())
        assert exact <= pf.robustness(promised, error).epsilon * (1 + 1e-9)
        assert exact <= pf.robustness(promised, ratio=ratio).epsilon * (1 + 1e-9)


def test_messages_grow_by_the_noise_of_the_error():
    """A guarantee that messages prove has no movement to add to: the noise's own loss of the error counts twice."""
    scenario = pf.Scenario(
        secret=pf.Secret("on", domain=[0, 1]),
        prior=pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]),
        order_by="hour",
    )
    promised = pf.calibrate(
        pf.laws(scenario, pf.Statistic.total(50)), pf.Pure(1.0), bound=pf.Messages()
    )
    assert pf.robustness(promised, 2.0).epsilon == pytest.approx(
        1.0 + 2 * 2.0 / promised.noise.scale
    )


def test_a_share_left_out_stays_left_out():
    """GAWM's δ is part of the grown guarantee, and its loss is that of the longer movement."""
    pair = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])
    promised = pf.calibrate([pair], pf.ApproxRenyi(4, 1.0, 0.003), bound=pf.GAWM(0.003))
    grown = pf.robustness(promised, 0.5)
    assert isinstance(grown, pf.ApproxRenyi)
    assert grown.delta == 0.003
    assert grown.epsilon == pytest.approx(promised.noise.renyi(2.0, 4), rel=1e-9)


@pytest.mark.parametrize("bad", [-0.1, math.nan, "much"])
def test_errors_that_are_no_distance_are_refused(bad):
    """A negative, NaN or textual error is a misuse."""
    with pytest.raises(pf.UsageError):
        pf.robustness(pf.calibrate(POINTS, pf.Pure(1.0)), bad)


def test_gaussian_laws_move_by_more_than_their_means_alone_say():
    """With the exact loss of two Gaussian laws the error is added to their distance, so the guarantee only weakens."""
    pair = pf.GaussianLaw(0, 1), pf.GaussianLaw(10, 1)
    promised = pf.calibrate([pair], pf.Renyi(2, 1.0), noise=pf.Gaussian, bound=pf.Exact())
    assert pf.robustness(promised, 0.5).epsilon >= 1.21
    assert pf.robustness(promised, 0.0) == promised.guarantee


def test_a_share_left_out_for_one_prior_counts_for_all():
    """If one piece is proven by GAWM and the worst by GWM, GAWM's share is still part of the grown guarantee."""
    own = Fraction(15, 10000)
    first = pf.Law.point(0), pf.Law([Fraction(11, 10), 1000], [1 - own, own])
    second = pf.Law.point(0), pf.Law.point(Fraction(12, 10))
    pieces = [ListedLaws([pf.Pair(*first)]), ListedLaws([pf.Pair(*second)])]
    promised = pf.calibrate(
        pieces, pf.Approx(1.0, 0.003), noise=pf.Gaussian, bound=[pf.GAWM(0.0015), pf.GWM()]
    )
    grown = pf.robustness(promised, 1.0)
    part = pf.Gaussian(promised.noise.scale).delta(3.2, grown.epsilon)
    assert 0.0015 + (1 - 0.0015) * part <= 0.003 * (1 + 1e-6)


def test_large_errors_are_answered_or_refused():
    """A movement keeps the guarantee's δ; likelihood factors beyond floats are refused, not an overflow."""
    promised = pf.calibrate(POINTS, pf.Approx(1.0, 0.5), bound=pf.GWM())
    for error in (1.0, 10.0, 1000.0):
        assert pf.robustness(promised, error).delta == 0.5
    with pytest.raises(pf.Refused):
        pf.robustness(promised, ratio=1000.0)
