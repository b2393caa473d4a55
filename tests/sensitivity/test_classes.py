"""Classes of chains: one guarantee for every member (M20)."""

import numpy as np
import pytest

import pufferflow as pf
from tests.support.chains import scenario

LOW, HIGH = [[0.8, 0.1], [0.1, 0.8]], [[0.9, 0.2], [0.2, 0.9]]


def _class(low=LOW, high=HIGH, **options):
    return pf.Scenario(
        secret=pf.Secret("level", domain=[0, 1]),
        prior=pf.MarkovChain.between(low, high, **options),
        order_by="hour",
    )


@pytest.mark.parametrize("positions", [range(40), [0, 1, 5, 6, 7, 20]], ids=["every step", "gaps"])
def test_every_member_is_within_the_promise(positions):
    """No chain between the bounds, corner or inside, needs more noise than the class does."""
    rng = np.random.default_rng(3)
    statistic = pf.Statistic(np.ones(len(positions)), positions=positions)
    promised = pf.calibrate(pf.laws(_class(), statistic), pf.Pure(1.0))
    worst = 0.0
    for _ in range(25):
        stay = 0.8 + 0.1 * (rng.integers(0, 2, 2) if rng.random() < 0.5 else rng.random(2))
        member = scenario([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]])
        worst = max(
            worst, pf.loss(pf.laws(member, statistic), promised.noise, pf.Pure, bound=pf.Messages())
        )
    assert 0.8 < worst <= 1.0
    assert promised.certainty == "upper_bound"


def test_a_class_of_one_is_that_chain():
    """With low = high the class asks for what the chain does."""
    matrix = [[0.9, 0.1], [0.3, 0.7]]
    statistic = pf.Statistic.total(60)
    single = pf.calibrate(pf.laws(scenario(matrix), statistic), pf.Pure(1.0), bound=pf.Messages())
    both = pf.calibrate(pf.laws(_class(matrix, matrix), statistic), pf.Pure(1.0))
    assert both.noise.scale == pytest.approx(single.noise.scale, rel=1e-4)


def test_far_positions_and_starts():
    """A class may start anywhere; the later the rows, the less a known start helps, and nothing fails."""
    near = pf.laws(_class(initial=[1.0, 0.0]), pf.Statistic.total(5))
    far = pf.laws(
        _class(initial=[1.0, 0.0]), pf.Statistic(np.ones(5), positions=np.arange(10**6, 10**6 + 5))
    )
    free = pf.laws(_class(initial="free"), pf.Statistic.total(5))
    losses = [pf.loss(laws, pf.Laplace(2.0), pf.Pure) for laws in (near, far, free)]
    assert losses[0] <= losses[2] * (1 + 1e-9)
    assert losses[1] <= losses[2] * (1 + 1e-9)


def test_what_a_class_cannot_answer_is_refused():
    """Listing laws, W_∞ and quilts of a class are refused; group privacy is not."""
    laws = pf.laws(_class(), pf.Statistic.total(10))
    assert laws
    for bound in (pf.GWM(), pf.Exact(), pf.DAGWM(), pf.Quilt()):
        with pytest.raises(pf.Refused):
            pf.calibrate(laws, pf.Pure(1.0), bound=bound)
    assert pf.calibrate(laws, pf.Pure(1.0), bound=pf.Group()).noise.scale == 10


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ([[0.9, 0.1], [0.1, 0.8]], [[0.8, 0.2], [0.2, 0.9]]),
        ([[0.9, 0.2], [0.1, 0.8]], [[0.9, 0.2], [0.2, 0.9]]),
        ([[0.1, 0.1], [0.1, 0.8]], [[0.2, 0.2], [0.2, 0.9]]),
        ([[0.1, 0.1]], [[0.2, 0.2]]),
        (LOW, [HIGH]),
        ([[-0.1, 0.1], [0.1, 0.8]], HIGH),
    ],
)
def test_bounds_without_a_member(low, high):
    """Bounds that cross, or that no row of probabilities meets, are a misuse."""
    with pytest.raises(pf.UsageError):
        pf.MarkovChain.between(low, high)


def test_it_survives_storing():
    """A class goes through JSON with a scenario."""
    one = _class(initial="free")
    assert pf.Scenario.from_json(one.to_json()) == one
    assert one.fingerprint != _class().fingerprint
