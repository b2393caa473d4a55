"""Weak dependence: twice the distance is needed, and what it means is checked on a law that needs it."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pufferflow as pf
from pufferflow.models.priors.simple import WeaklyDependent
from pufferflow.sensitivity.implied_laws import implied

LOW = {0: Fraction(3, 10), 1: Fraction(3, 10), 2: Fraction(4, 10)}
HIGH = {1: Fraction(2, 10), 2: Fraction(8, 10)}
"""X_2 given X_1 = 0 and X_1 = 1; X_1 is a fair coin."""


def law(weights):
    return pf.Law(list(weights), list(weights.values()))


def moved(distance, weights, domain, pairs="all", values=None):
    secret = pf.Secret("x", domain=domain, pairs=pairs)
    return implied(WeaklyDependent(distance), pf.Statistic(weights, values), secret)


def test_twice_the_distance_is_needed():
    """Each conditional law lies within 1 of independent rows, and the sum moves by 1 + 2·1: λ + Δ would not do."""
    together = pf.Law.mixture([law(LOW), law(HIGH)], [0.5, 0.5])
    assert (
        max(pf.winf(law(one), together) for one in (LOW, HIGH)) == 1
    )  # given X_1, which is fixed, X_2 moves by 1
    assert (
        pf.winf(pf.Law([0, 1], [0.5, 0.5]), pf.Law.point(0)) == 1
    )  # given X_2, X_1 moves by 1 at most
    true = pf.winf(law(LOW), law({1 + value: mass for value, mass in HIGH.items()}))
    assert true == 3
    found = moved(1.0, [1, 1], [0, 1, 2], pairs=[(0, 1)]).winf(1)
    assert found.length == 3
    assert found.length > 1 + 1.0
    assert found.certainty == pf.Certainty.UPPER_BOUND


def test_a_distance_of_0_is_independence():
    """Then one row alone moves, exactly."""
    found = moved(0.0, [1, -3, 2], [0, 1, 4])
    assert (found.winf(1).length, found.certainty) == (12, pf.Certainty.EXACT)
    assert found.winf(1).witness.row == 1


def test_the_steepest_row_carries_the_distance():
    """Own movement, and twice the distance times the largest |weight| times the largest slope of φ."""
    assert moved(0.25, [1, -3], pf.Interval(0, 10)).winf(1).length == 30 + 2 * 0.25 * 3
    assert moved(0.25, [1, 1, 1], [0, 1, 3], values=[0, 5, 6]).winf(1).length == 6 + 2 * 0.25 * 5
    assert (
        moved(0.25, [1, 1, 1], pf.Interval(0, 4), values=[8, 0]).winf(1).length == 8 + 2 * 0.25 * 2
    )


def test_no_more_than_all_rows_move():
    """A large distance says nothing: the movement is the group's."""
    assert moved(100.0, [1, 1, -1], [0, 1, 2]).winf(1).length == 6
    assert moved(100.0, [1, 1, -1], [0, 1, 2]).span(1).length == 6


@pytest.mark.slow
def test_rows_within_the_distance_never_move_an_answer_farther():
    """Two data sets that twice λ and one row apart allow: answers of several coordinates stay within the bound."""
    rng = np.random.default_rng(0)
    domain = np.array([0.0, 1.0, 2.0, 4.0])
    for norm, distance in itertools.product((1, 2, np.inf), (1.0, 2.0)):
        weights, values = (
            rng.integers(-2, 3, (2, 3)).astype(float),
            rng.integers(0, 5, (2, 4)).astype(float),
        )
        worst = 0.0
        sets = list(itertools.product(range(4), repeat=3))
        for x, y in itertools.product(sets, sets):
            apart = np.abs(domain[list(x)] - domain[list(y)])
            if (
                apart.sum() - apart.max()
            ) <= 2 * distance:  # the row with the largest change is the secret's
                step = sum(weights[:, r] * (values[:, x[r]] - values[:, y[r]]) for r in range(3))
                worst = max(worst, float(np.linalg.norm(step, norm)))
        assert worst <= moved(distance, weights, [0, 1, 2, 4], values=values).winf(norm).length * (
            1 + 1e-12
        )


@pytest.mark.parametrize("distance", [-1.0, math.nan, math.inf, "1", None])
def test_bad_distances_are_refused(distance):
    """A distance is a finite number, not below 0."""
    with pytest.raises(pf.UsageError):
        WeaklyDependent(distance)


@pytest.mark.parametrize(
    "secret", [pf.Presence("p"), pf.Derived("d"), pf.Secret("x", domain=["a", "b"])]
)
def test_other_secrets_are_refused(secret):
    """The distance is between rows of numbers, given the value of one of them."""
    with pytest.raises(pf.UsageError):
        WeaklyDependent(1.0).check(secret)


@given(st.floats(0, 1e6))
def test_what_is_stored_gives_an_equal_prior_back(distance):
    """Stored, restored and compared."""
    prior = WeaklyDependent(distance)
    assert WeaklyDependent.restored({"distance": prior.stored()["distance"]}) == prior
