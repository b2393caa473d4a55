"""Numbers of "Differential Confounding Privacy", item by item, as docs/evidence/papers-item-by-item.md lists them."""

import math

import numpy as np
import pytest
from confounded import FIRST, SECOND, THREE

import pufferflow as pf
from pufferflow.confounding import cost

OTHER = pf.Table(
    {
        "s": [0, 0, 0, 1, 1, 1],
        "x": [0, 1, 2, 0, 1, 2],
        "probability": [0.3, 0.15, 0.05, 0.1, 0.15, 0.25],
    }
)


def test_a_class_of_joint_laws_costs_what_its_worst_member_does():
    """The loss about Θ is the largest of its members, at every δ."""
    both = cost([THREE, OTHER], FIRST, secret=pf.Derived("s"))
    alone = [cost(table, FIRST) for table in (THREE, OTHER)]
    assert both.pure == max(one.pure for one in alone) > min(one.pure for one in alone)
    assert both.delta(0.05) == max(one.delta(0.05) for one in alone)


def test_adjacent_secrets_cost_less_than_all_pairs():
    """Of three ordered secrets, D(s, s') ≤ 1 leaves out the pair of the two ends."""
    table = pf.Table(
        {
            "s": [0, 0, 1, 1, 2, 2],
            "x": [0, 1, 0, 1, 0, 1],
            "probability": [0.3, 0.1, 0.2, 0.2, 0.05, 0.15],
        }
    )
    kept = pf.confounding.Channel("x", [0, 1], [0, 1], [[0.9, 0.1], [0.1, 0.9]])
    losses = {
        pairs: cost(table, kept, secret=pf.Derived("s", values=[0, 1, 2], pairs=pairs)).pure
        for pairs in ("all", "adjacent")
    }
    likely = {s: 0.1 + 0.8 * p for s, p in enumerate((0.75, 0.5, 0.25))}
    far = max(math.log(likely[0] / likely[2]), math.log((1 - likely[2]) / (1 - likely[0])))
    near = max(
        math.log(max(likely[a] / likely[b], (1 - likely[b]) / (1 - likely[a])))
        for a, b in ((0, 1), (1, 2))
    )
    assert losses["all"] == pytest.approx(far)
    assert losses["adjacent"] == pytest.approx(near)
    assert losses["adjacent"] < losses["all"]


def test_what_each_release_costs_and_both_together():
    """Equation (4): effective mechanisms have their own losses, and together they lose more than either."""
    both = cost(THREE, [FIRST, SECOND])
    assert [one.pure for one in both.alone] == [cost(THREE, one).pure for one in (FIRST, SECOND)]
    assert max(one.pure for one in both.alone) < both.pure == pytest.approx(0.6155889)
    assert [both.delta(epsilon) for epsilon in (0.0, 0.1, 0.3)] == pytest.approx(
        [0.192, 0.1537073, 0.0925353]
    )


def test_definition_1():
    """One channel: ε is 0.1201443 and δ(0.05) is 0.0359026."""
    one = cost(THREE, FIRST)
    assert (one.pure, one.delta(0.05)) == pytest.approx((0.1201443, 0.0359026), rel=1e-5)


def test_the_loss_is_the_sum_of_its_parts():
    """Equation (7): the average of the loss is that of the marginals and of the dependence, and is KL."""
    both = cost(THREE, [FIRST, SECOND])
    worst = both.dependence.worst
    assert sum(worst.marginals) + worst.dependence == pytest.approx(both.pure)


def test_a_comonotone_copula_of_a_channel_with_itself_tells_it_once():
    """Sklar's theorem with the upper Fréchet bound: both outputs are always equal."""
    tied = pf.confounding.tied_channels(FIRST, FIRST, np.minimum)
    assert cost(THREE, tied).pure == pytest.approx(cost(THREE, FIRST).pure)


def test_composition_of_independent_releases_is_the_optimal_one():
    """ε = 0.1 three times has δ(0.1) = 0.0262271, as Kairouz and others have it."""
    three = pf.tradeoff.compose(pf.tradeoff.Profile(0.1), 3)
    assert three.delta(0.1) == pytest.approx(0.0262271, rel=1e-5)


def test_theorem_2_iii():
    """τ = 1.5 and a prior probability of 0.2: log(1 + 0.5/0.2) for one side, 0.5389965 for both."""
    one, both = (
        pf.confounding.epsilon_of_ratio(1.5, [0.2, 0.8], both_sides=both) for both in (False, True)
    )
    assert (one, both) == pytest.approx((math.log(1 + 0.5 / 0.2), 0.5389965), rel=1e-6)
