"""Numbers of "Total Variation Meets Differential Privacy", as docs/evidence/papers-item-by-item.md lists them."""

import math

import numpy as np
import pytest

import pufferflow as pf
from pufferflow.tradeoff import Profile, compose

LEVELS = np.linspace(0.02, 0.98, 8)


def test_theorem_1_and_figure_1():
    """The least misses of an (ε, δ)-private release are the larger of two lines."""
    curve = compose(Profile(1.0, 0.05)).curve(LEVELS)
    lines = np.maximum.reduce(
        [
            1 - 0.05 - math.e * LEVELS,
            (1 - 0.05 - LEVELS) / math.e,
            np.zeros_like(LEVELS),
        ]
    )
    assert curve == pytest.approx(lines, abs=1e-9)


def test_corollary_1_and_figure_2():
    """A total variation below the largest adds a third line, 1 − η − level."""
    curve = compose(Profile(1.0, 0.05, tv=0.3)).curve(LEVELS)
    lines = np.maximum.reduce(
        [
            1 - 0.05 - math.e * LEVELS,
            (1 - 0.05 - LEVELS) / math.e,
            1 - 0.3 - LEVELS,
            np.zeros_like(LEVELS),
        ]
    )
    assert curve == pytest.approx(lines, abs=1e-9)


def test_remark_1_the_largest_total_variation():
    """(1, 0.05) allows δ + (1 − δ)·tanh(ε/2)."""
    assert compose(Profile(1.0, 0.05)).tv == pytest.approx(0.05 + 0.95 * math.tanh(0.5))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_section_vi_a_and_vi_b_closed_forms(epsilon):
    """η is 1 − e^(−ε/2) of Laplace noise, and 2Φ(μ/2) − 1 of Gaussian noise."""
    assert pf.Laplace(1 / epsilon).tv(1.0) == pytest.approx(1 - math.exp(-epsilon / 2))
    truth = math.erf(epsilon / 2 / math.sqrt(2))
    assert pf.Gaussian(1 / epsilon).tv(1.0) == pytest.approx(truth)


def test_section_iii_b_1_bayes_security():
    """η = 0.3 is a Bayes security of 0.7; four releases of which only η is known have 1 − 0.7⁴."""
    one = compose(Profile(50.0, 0.0, tv=0.3))
    assert (one.bayes_security, one.advantage) == pytest.approx((0.7, 0.3))
    assert compose(Profile(50.0, 0.0, tv=0.3), 4).tv == pytest.approx(1 - 0.7**4)


def test_theorem_3_the_limit_of_many_releases():
    """Many small releases tend to Gaussian privacy with μ² = 2·Σ εη, which is no bound."""
    n, strength = 20_000, 1.0
    epsilon = strength / math.sqrt(n)
    limit = compose(Profile(epsilon, 0.0, tv=math.tanh(epsilon / 2)), n).gaussian_limit
    assert limit == pytest.approx(strength, rel=1e-4)


def test_section_vi_c_staircase_of_a_plan_is_best():
    """γ = 1/(1 + e^(ε/2)) has the least expected error, and `traded` keeps a total variation too."""
    found = pf.calibrate([(pf.Law.point(0), pf.Law.point(1))], pf.Pure(1.0), noise=pf.Staircase)
    assert found.noise.gamma == pytest.approx(1 / (1 + math.exp(0.5)))
    traded = pf.Staircase.traded(1.0, 1.0, 0.35)
    assert traded.tv(1.0) <= 0.35
    assert traded.tv(1.0) == pytest.approx(0.35)


def test_equation_27_the_right_way_up():
    """The largest η of an ε-private channel is tanh(ε/2); printed is its inverse, above 1."""
    assert pf.local.largest_tv(1.0) == pytest.approx(math.tanh(0.5))
