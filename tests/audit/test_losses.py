"""What probabilities of events show: never more than is true, and all of it where the events are the right ones."""

import math

import numpy as np
import pytest

import pufferflow as pf
from pufferflow.audit.event_losses import of_events, of_nested

RNG = np.random.default_rng(4)
ORDERS = [1.2, 2.0, 4.0, 30.0]


def renyi(p, q, alpha):
    return math.log((p**alpha * q ** (1 - alpha)).sum()) / (alpha - 1)


def tails(masses):
    """The probabilities of the nested events {cell ≥ j}, j = 1 …"""
    return masses[::-1].cumsum()[::-1][1:]


@pytest.mark.parametrize("alpha", ORDERS)
def test_nested_events_show_no_more_than_is_true(alpha):
    """For random laws, in any order of their cells, and for probabilities that are too small and too large."""
    for _ in range(200):
        p, q = RNG.dirichlet(np.full(6, 0.5)), RNG.dirichlet(np.full(6, 0.8))
        exact = of_nested(pf.Renyi(alpha, 1.0), tails(p), tails(q))
        less = of_nested(pf.Renyi(alpha, 1.0), tails(p) * 0.9, 1 - 0.9 * (1 - tails(q)))
        assert 0 <= less <= exact <= renyi(p, q, alpha) + 1e-9


@pytest.mark.parametrize("alpha", ORDERS)
def test_level_sets_of_the_ratio_show_everything(alpha):
    """If the ratio rises from cell to cell, nested events give the divergence itself; cells at 0 do not matter."""
    for _ in range(50):
        p, q = RNG.dirichlet(np.ones(6)), RNG.dirichlet(np.ones(6))
        order = np.argsort(p / q)
        p, q = np.insert(p[order], 2, 0.0), np.insert(q[order], 2, 0.0)
        assert of_nested(pf.Renyi(alpha, 1.0), tails(p), tails(q)) == pytest.approx(
            renyi(p[p > 0], q[p > 0], alpha)
        )


@pytest.mark.parametrize("alpha", ORDERS)
def test_one_event_is_a_law_of_two_points(alpha):
    """One event shows the divergence of whether it happens, by either way; nothing if P is not above Q."""
    p, q = RNG.random(50), RNG.random(50)
    found = of_events(pf.Renyi(alpha, 1.0), p, q)
    for one, other, loss in zip(p, q, found, strict=True):
        truth = (
            renyi(np.array([one, 1 - one]), np.array([other, 1 - other]), alpha)
            if one > other
            else 0.0
        )
        assert loss == pytest.approx(truth, abs=1e-9)
        assert loss <= truth
        assert of_nested(pf.Renyi(alpha, 1.0), np.array([one]), np.array([other])) == pytest.approx(
            truth, abs=1e-9
        )


def test_pure_and_approximate_losses():
    """ln(P/Q), and ln((P − δ)/Q), at least 0 and rounded down."""
    p, q = np.array([0.5, 0.1, 0.2, 0.0]), np.array([0.25, 0.2, 0.0999, 0.1])
    assert of_events(pf.Pure(1.0), p, q) == pytest.approx(
        [math.log(2), 0, math.log(0.2 / 0.0999), 0]
    )
    assert of_events(pf.Approx(1.0, 0.1), p, q) == pytest.approx(
        [math.log(1.6), 0, math.log(0.1 / 0.0999), 0]
    )
    assert of_events(pf.Pure(1.0), p, q)[0] < math.log(2)


@pytest.mark.parametrize("alpha", ORDERS)
def test_a_share_that_may_be_left_out_counts_for_nothing(alpha):
    """Laws that differ in a share δ only, and else have the divergence ε, show no more than ε of (α, ε, δ)."""
    delta = 0.05
    for _ in range(100):
        p, q = RNG.dirichlet(np.ones(5)), RNG.dirichlet(np.ones(5))
        whole = [(1 - delta) * one + delta * RNG.dirichlet(np.full(5, 0.2)) for one in (p, q)]
        found = of_nested(pf.ApproxRenyi(alpha, 1.0, delta), tails(whole[0]), tails(whole[1]))
        assert found <= renyi(p, q, alpha) + 1e-9


def test_a_curve_is_many_promises():
    """A curve of orders is attacked order by order, any other guarantee as it is."""
    assert list(pf.RenyiCurve([2, 4], [0.5, 1.0]).singles) == [pf.Renyi(2, 0.5), pf.Renyi(4, 1.0)]
    assert list(pf.Pure(1.0).singles) == [pf.Pure(1.0)]
