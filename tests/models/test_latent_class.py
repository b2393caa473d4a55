"""Latent classes: what they take, what they refuse, and that they come back as they were stored."""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pufferflow as pf
from pufferflow.models.domain import Bins, Interval
from pufferflow.models.priors.latent_class import LatentClass
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Derived, Initial, Presence, Secret

HALF = Fraction(1, 2)


@given(
    st.lists(st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3), min_size=1, max_size=4),
    st.booleans(),
)
def test_a_latent_class_comes_back_from_json(parts, rational):
    """What is stored as JSON restores an equal prior, rational or not."""
    rows = [[Fraction(x) for x in row] if rational else row for row in parts]
    laws = [[x / sum(row) for x in row] for row in rows]
    weights = [Fraction(1, len(laws)) if rational else 1 / len(laws)] * len(laws)
    prior = LatentClass(weights, laws)
    assert LatentClass.restored(json.loads(json.dumps(prior.stored()))) == prior


def test_fractions_and_floats_are_kept_apart():
    """All Fractions make exact arrays; a single float makes floats of all."""
    weights, rows = LatentClass([HALF, HALF], [[HALF, HALF], [1, 0]]).arrays
    assert (weights.dtype, rows.dtype, rows.tolist()[1]) == (object, object, [1, 0])
    assert LatentClass(np.array([0.5, 0.5]), [[HALF, HALF], [1, 0]]).arrays[1].dtype == np.float64


@pytest.mark.parametrize(
    ("weights", "rows"),
    [
        ([0.5, 0.4], [[1, 0], [0, 1]]),
        ([0.5, 0.5], [[1, 0], [0, 0.9]]),
        ([0.5, 0.5], [[1, 0]]),
        ([0.5, 0.5], [[1, 0], [0, 1, 0]]),
        ([1.0], [[1.0]]),
        ([1.0], [["a", "b"]]),
        ([1.0], 3),
        ([], []),
        ([0.5, float("nan")], [[1, 0], [0, 1]]),
        ([1.5, -0.5], [[1, 0], [0, 1]]),
        ([0.5, HALF, True], [[1, 0]] * 3),
        ("half", [[1, 0]]),
    ],
)
def test_what_is_no_law_is_refused(weights, rows):
    """Sums other than 1, negative entries, NaN and wrong shapes are said at once."""
    with pytest.raises(pf.UsageError):
        LatentClass(weights, rows)


@pytest.mark.parametrize(
    ("secret", "says"),
    [
        (Secret("x", [0, 1]), "have 3 entries, and the domain 2 points"),
        (Secret("x", Interval(0, 1)), "all points of an interval"),
        (Secret("x", [0, 1, 2]), "never produces x = 2"),
        (Derived("class"), "needs a column"),
        (Initial("x", [0, 1, 2]), "no first one"),
        (
            Derived("class", ["a", "b", "c"], column="x", domain=[0, 1, 2]),
            "3 values, and the prior 2 classes",
        ),
        (Presence("home", "x", [0, 1, 2]), "pf.Presence"),
    ],
)
def test_secrets_that_a_latent_class_knows_nothing_of_are_refused(secret, says):
    """A scenario with such a secret fails before anything is read."""
    with pytest.raises(pf.UsageError, match=says):
        LatentClass([0.5, 0.5], [[0.5, 0.5, 0], [1, 0, 0]]).check(secret)


def test_secrets_that_a_latent_class_knows_are_taken():
    """The column by values or in bins, and the class with names or without."""
    prior = LatentClass([0.5, 0.5], [[0.5, 0.5], [1, 0]])
    for secret in (
        Secret("x", ["low", "high"]),
        Secret("x", Bins([0, 1, 2], values=[0.5, 1.5])),
        Derived("class", column="x", domain=[0, 1]),
        Derived("class", ["good", "bad"], column="x", domain=[0, 1]),
    ):
        assert Scenario(secret, prior).priors == (prior,)
