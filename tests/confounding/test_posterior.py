"""What an adversary comes to believe: against Bayes by enumeration, and the corrected Theorem 2 of DCP."""

import math

import numpy as np
import polars as pl
import pytest
from confounded import FIRST, SECOND, THREE, joint_of, random_channel, random_table
from thinned import thinned

import pufferflow as pf
from pufferflow.confounding import Additive, beliefs_after, cost, epsilon_of_ratio, posterior_ratio


@pytest.mark.parametrize("seed", thinned(range(6), 0.34))
def test_posteriors_by_enumeration(seed):
    """Ratio, Bayes factor and guesses are those of Bayes' rule at every outcome."""
    rng = np.random.default_rng(seed)
    table, joint = random_table(rng, secrets=3)
    channels = [random_channel(rng, "a", 3), random_channel(rng, "b", 2)]
    found, laws = cost(table, channels).posterior, joint_of(joint, channels)
    prior = joint.sum(axis=(1, 2))
    together = laws * prior[:, None]
    factors = together / together.sum(axis=0) / prior[:, None]
    assert found.ratio == pytest.approx(max(factors.max(), 1 / factors.min()), rel=1e-9)
    assert found.guess_after == pytest.approx(together.max(axis=0).sum(), rel=1e-9)
    assert found.gain == pytest.approx(together.max(axis=0).sum() / prior.max(), rel=1e-9)
    assert found.bayes_factor == pytest.approx(
        max((laws[i] / laws[j]).max() for i in range(3) for j in range(3))
    )


@pytest.mark.slow
def test_posteriors_of_noise():
    """With noise the bounds are above those of any rounding of it, and near those of a fine one."""
    table = THREE
    noise = pf.Laplace(1.0)
    grid = np.linspace(-9, 11, 161)
    rounded = cost(table, pf.confounding.Channel.of_noise("x", [0, 1, 2], grid, noise)).posterior
    found = cost(table, Additive("x", noise)).posterior
    assert rounded.ratio * (1 - 1e-11) <= found.ratio <= rounded.ratio * 1.05
    assert rounded.guess_after <= found.guess_after <= rounded.guess_after + 5e-3


def test_what_a_loss_allows_and_what_a_ratio_implies():
    """A pure ε allows posteriors within a ratio; that ratio implies this ε for two fair secrets, and never less."""
    both = cost(THREE, [FIRST, SECOND])
    assert both.posterior.ratio <= posterior_ratio(both.pure, 0.5)
    assert epsilon_of_ratio(both.posterior.ratio, [0.5, 0.5]) >= both.pure - 1e-12
    for chance in (0.01, 0.3, 0.5):
        assert epsilon_of_ratio(posterior_ratio(0.7, chance), [chance, 1 - chance]) >= 0.7 - 1e-12


@pytest.mark.parametrize(
    ("p", "tau", "tight"), [(0.5, 2.0, 1.0986122886681098), (0.01, 1.5, 0.4105284100647111)]
)
def test_dcp_theorem_2_corrected(p, tau, tight):
    """Two-sided posterior bounds give the reference ε of two secrets; one side alone gives log(1 + (τ − 1)/p)."""
    assert epsilon_of_ratio(tau, [p, 1 - p]) == pytest.approx(tight, abs=1e-12)
    assert epsilon_of_ratio(tau, [p, 1 - p], both_sides=False) == pytest.approx(
        math.log(1 + (tau - 1) / p), abs=1e-12
    )
    assert epsilon_of_ratio(1.2, [0.2, 0.3, 0.5]) == pytest.approx(2 * math.log(1.2), abs=1e-12)
    # as printed the theorem needs δτ ≥ 1: at δ = .02 and a fair secret that is ε ≥ 4.6
    for ratio, known in ((50, 4.59511985013459), (1e5, 12.206067645517674)):
        assert epsilon_of_ratio(ratio, [0.5, 0.5], both_sides=False) == pytest.approx(
            known, abs=1e-12
        )


@pytest.mark.parametrize("seed", range(3))
def test_beliefs_stay_where_a_pure_promise_keeps_them(seed):
    """No posterior of releases with a pure loss is outside; of two secrets and a fair coin some are at the ends."""
    rng = np.random.default_rng(seed)
    table, joint = random_table(rng, secrets=3)
    channels = [random_channel(rng, "a", 3), random_channel(rng, "b", 2)]
    loss, prior = cost(table, channels).pure, joint.sum(axis=(1, 2))
    together = joint_of(joint, channels) * prior[:, None]
    posteriors = together / together.sum(axis=0)
    for one, chances, before in zip(
        beliefs_after(table, loss, secret="s"), posteriors, prior, strict=True
    ):
        assert one.before == pytest.approx((before, before))
        assert one.after[0] <= chances.min()
        assert chances.max() <= one.after[1]
    fair = pf.Table({"s": [0, 1], "x": [0, 1], "probability": [0.3, 0.7]})
    response = pf.local.randomized_response([0, 1], 1.0)
    ends = [one / (one + 0.7 / 0.3) for one in (math.exp(-1), math.e)]
    assert beliefs_after(fair, response.epsilon, secret="s")[0].after == pytest.approx(tuple(ends))


@pytest.mark.slow
def test_plans_say_what_can_be_believed():
    """A plan about something behind the data says between what its probability stays; others say nothing of it."""
    law = {
        "ill": ["no", "no", "yes", "yes"],
        "b": [0, 1, 0, 1],
        "probability": [0.5, 0.2, 0.1, 0.2],
    }
    hidden = pf.Derived("ill", column="b", domain=[0, 1])
    rows = pl.DataFrame({"b": [0, 1]})
    line = "probability of ill = 'no' is between 0.585 and 0.794, prior 0.7; 'yes' is between"
    batch = pf.protect(rows, pf.Scenario(hidden, pf.Table(law)))
    assert line in batch.private_sum("b").plan(pf.Pure(0.5)).explain()
    assert line in batch.private_local("b").plan(pf.Pure(0.5)).explain()
    both = pf.protect(
        rows,
        pf.Scenario(hidden, [pf.Table(law), pf.Table(law | {"probability": [0.5, 0.1, 0.2, 0.2]})]),
    )
    assert "prior between 0.6 and 0.7" in both.private_sum("b").plan(pf.Pure(0.5)).explain()
    assert "Posterior" not in batch.private_sum("b").plan(pf.Approx(0.5, 1e-6)).explain()
    some = pf.Derived("ill", ["no", "yes"], pairs=[("no", "yes")], column="b", domain=[0, 1])
    assert (
        "Posterior"
        not in pf.protect(rows, pf.Scenario(some, pf.Table(law)))
        .private_sum("b")
        .plan(pf.Pure(1))
        .explain()
    )
    with pytest.raises(pf.Refused, match="need not be indistinguishable"):
        beliefs_after(THREE, 1.0, secret=pf.Secret("x", domain=[0, 1, 2], pairs="adjacent"))
