"""Certificates by draws (M8): never below the truth more often than guaranteed, and nothing but nearness."""

import math

import numpy as np
import pytest

import pufferflow as pf
from pufferflow.calibration.chain_bounds import Messages
from pufferflow.models.priors.simulator import Simulator
from pufferflow.models.secret import Derived, Secret
from pufferflow.queries.statistic import Statistic
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.samples import SampledLaws, slack

BIG = Statistic([1.0, 1.0])


def rare(value, row, statistic, draws, rng):
    """0, or 50 with a small probability that only the second value has; with a touch of the row."""
    del statistic
    return np.where(rng.random(draws) < 0.1 * value, 50.0, 0.0) + (0 if row is None else row)


def test_the_slack_is_that_of_the_theorem():
    """√(ln(1/β)(1/n+1/m)/2) with β divided over the pairs, rounded up."""
    for draws, confidence, pairs in ((1000, 0.99, 1), (10**6, 0.999, 12)):
        beta = (1 - confidence) / pairs
        assert slack(draws, confidence, pairs) == pytest.approx(
            math.sqrt(math.log(1 / beta) * (2 / draws) / 2), rel=1e-9
        )
    assert slack(1000, 0.9, 2) > slack(1000, 0.9, 1) > slack(2000, 0.9, 1)


@pytest.mark.parametrize(("delta", "z"), [(0.2, 0.0), (0.12, 50.0), (0.06, 50.0)])
def test_nearness_is_certified_with_its_slack(delta, z):
    """A share of .1 that moves by 50 is left out only by a δ that is larger by the slack."""
    laws = implied(
        Simulator(rare, draws=2000, confidence=0.99, seed=1), BIG, Derived("cause", [0, 1])
    )
    assert isinstance(laws, SampledLaws)
    reach = laws.near(delta, 1)
    assert (reach.length, reach.certainty, reach.witness.secrets) == (z, "upper_bound", (0, 1))


def test_empirical_nearness_alone_would_promise_too_much():
    """With the slack the true distance is undercut less often than 1 − confidence; without it, every other time."""
    prior = [Simulator(rare, draws=400, confidence=0.9, seed=seed) for seed in range(200)]
    delta = 0.0999  # the true laws are not (0, δ)-near
    certified = [implied(one, BIG, Derived("cause", [0, 1])).near(delta, 1).length for one in prior]
    bare = [
        np.mean(rare(1, None, None, 400, np.random.default_rng(seed))) / 50 <= delta
        for seed in range(200)
    ]
    assert sum(length < 50 for length in certified) <= 20
    assert sum(bare) > 60


def test_calibration_with_room_for_delta():
    """A guarantee with a delta is calibrated to the certified nearness."""
    prior = Simulator(rare, draws=20_000, confidence=0.999, seed=3)
    laws = implied(prior, BIG, Derived("cause", [0, 1]))
    found = pf.calibrate(laws, pf.Approx(1.0, 0.15), noise=pf.Laplace, bound=pf.GAWM(0.15))
    assert (found.noise.scale, found.certainty) == (0.0, "upper_bound")


def test_one_delta_for_each_set_of_draws():
    """M8 holds for a δ fixed before the draws: a second δ on the same draws is refused."""
    laws = implied(Simulator(rare, draws=2000, seed=1), BIG, Derived("cause", [0, 1]))
    assert laws.near(0.2, 1) == laws.near(0.2, 1)
    with pytest.raises(pf.Refused, match="fixed before"):
        laws.near(0.3, 1)


def test_nothing_else_is_certified():
    """W_∞, spans, losses and pairs of samples bound nothing, so they are refused."""
    laws = implied(Simulator(rare), BIG, Derived("cause", [0, 1]))
    for bound in (pf.GWM(), pf.DAGWM(), pf.Group(), pf.Exact(), Messages()):
        with pytest.raises(pf.Refused):
            pf.loss(laws, pf.Laplace(1.0), pf.Pure, bound=bound)
    with pytest.raises(pf.Refused, match="known by draws only"):
        list(laws)


def test_too_few_draws_say_how_many_it_takes():
    """A δ below the slack is refused with the number of draws, which is then enough."""
    laws = implied(Simulator(rare, draws=100, seed=1), BIG, Derived("cause", [0, 1]))
    with pytest.raises(pf.Refused, match=r"more than 6\.9e\+04"):
        laws.near(0.01, 1)
    assert slack(69_500, 0.999, 1) < 0.01 < slack(69_000, 0.999, 1)
    with pytest.raises(pf.Refused, match="no number is enough"):
        implied(Simulator(rare), BIG, Derived("cause", [0, 1])).near(0.0, 1)


def test_every_row_of_a_secret_column_is_drawn():
    """A row's secret is drawn in each row, and once for rows of one weight if they are exchangeable."""
    seen = []

    def answers(value, row, statistic, draws, rng):
        seen.append((value, row))
        return rng.normal(value, 1.0, (draws, statistic.answers))

    secret, statistic = Secret("x", [0, 1, 2]), Statistic([[1, 1, 2], [0, 0, 1]])
    laws = implied(Simulator(answers, draws=200, confidence=0.5), statistic, secret)
    assert len(laws) == 9
    laws.near(0.9, 2)
    assert sorted(seen) == [(value, row) for value in (0, 1, 2) for row in (0, 1, 2)]
    seen.clear()
    implied(
        Simulator(answers, draws=200, confidence=0.5, exchangeable=True), statistic, secret
    ).near(0.9, 2)
    assert sorted(seen) == [(value, row) for value in (0, 1, 2) for row in (0, 2)]
