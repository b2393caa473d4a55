"""Tables: what they take, what they refuse, and that they come back as they were stored."""

import json
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferflow as pf
from pufferflow.models.domain import Interval
from pufferflow.models.priors.table import Table
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Derived, Initial, Presence, Secret

FRAME = {"ill": ["no", "no", "yes"], "score": [0, 1, 1], "probability": [0.5, 0.25, 0.25]}
labels = st.one_of(
    st.lists(st.integers(-5, 5), min_size=3, max_size=3),
    st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=3),
    st.lists(st.text(max_size=3), min_size=3, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
)


@pytest.mark.slow
@settings(max_examples=20)
@given(
    labels,
    labels,
    st.lists(st.integers(1, 50), min_size=3, max_size=3),
    st.booleans(),
    st.sampled_from(["a", ()]),
)
def test_a_table_comes_back_from_json(first, second, parts, rational, shared):
    """What is stored as JSON restores an equal table, rational or not."""
    masses = [Fraction(part, sum(parts)) for part in parts]
    masses = masses if rational else [float(mass) for mass in masses]
    table = Table({"a": first, "b": second, "probability": masses}, shared)
    back = Table.restored(json.loads(json.dumps(table.stored())))
    assert back == table
    assert hash(back) == hash(table)


def test_the_order_of_rows_does_not_matter():
    """Equal rows add up, rows that never occur are left out, and tables in another order are equal."""
    table = Table(
        {
            "ill": ["yes", "no", "no", "no"],
            "score": [1, 0, 1, 1],
            "probability": [0.25, 0.5, 0.125, 0.125],
        }
    )
    assert (
        table
        == Table(pl.DataFrame(FRAME))
        == Table({**FRAME, "probability": np.array(FRAME["probability"])})
    )
    never = Table({"ill": ["no", "yes", "so"], "score": [0, 1, 1], "probability": [0.5, 0.5, 0.0]})
    assert never.values("ill") == ("no", "yes")


def test_rational_probabilities_stay_rational():
    """Fractions and Decimals are kept exactly; floats within 1e-9 of 1 are normalised."""
    third = Fraction(1, 3)
    table = Table({"x": [0, 1, 2], "probability": [third] * 3})
    assert table.joint(["x"])[1].tolist() == [third] * 3
    near = Table({"x": [0, 1], "probability": [0.5, 0.5 + 5e-10]})
    assert sum(near.probabilities) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        ({"x": [0, 1], "probability": [0.5, 0.4]}, "the sum 0.9"),
        ({"x": [0, 1], "probability": [1.5, -0.5]}, "a negative entry"),
        ({"x": [0, 1], "probability": [0.5, float("nan")]}, "is nan"),
        ({"x": [0, 1], "probability": ["a", "b"]}, "of type str"),
        ({"x": [0, 1], "probability": [1.0]}, "different lengths"),
        ({"x": [0, None], "probability": [0.5, 0.5]}, "NoneType"),
        ({"x": [0.0, float("inf")], "probability": [0.5, 0.5]}, "finite"),
        ({"x": [0, "one"], "probability": [0.5, 0.5]}, "types"),
        ({"x": [0, 1]}, "the columns"),
        ({"probability": [1.0]}, "the columns"),
        ({"x": [], "probability": []}, "0 rows"),
        (pl.LazyFrame(FRAME), "LazyFrame"),
        (3, "does not take"),
    ],
)
def test_bad_tables_are_refused(frame, says):
    """What is no joint law is said so at once."""
    with pytest.raises(pf.UsageError, match=says):
        Table(frame)


def test_shared_columns_have_to_exist():
    """A shared column that the table does not have is refused."""
    with pytest.raises(pf.UsageError, match="no column of the table"):
        Table(FRAME, shared=["score", "cause"])


@pytest.mark.parametrize(
    ("secret", "says"),
    [
        (Secret("age", [0, 1]), "no column 'age'"),
        (Secret("ill", ["no", "yes", "maybe"]), "never produces ill = 'maybe'"),
        (Secret("score", [1, 2]), "does not list score = 0"),
        (Secret("score", Interval(0, 1)), "an interval"),
        (Derived("cause"), "no column 'cause'"),
        (Derived("ill", ["no", "maybe"]), "never produces ill = 'maybe'"),
        (Derived("ill", column="score", domain=[1, 2]), "does not list score = 0"),
        (Initial("score", [0, 1]), "pf.Initial"),
        (Presence("person"), "pf.Presence"),
    ],
)
def test_secrets_that_a_table_knows_nothing_of_are_refused(secret, says):
    """A scenario with such a secret fails before anything is read."""
    with pytest.raises(pf.UsageError, match=says):
        Table(FRAME).check(secret)


def test_secrets_that_a_table_knows_are_taken():
    """A column with all its values, a derived column, and a wider domain of the column asked about."""
    for secret in (
        Secret("ill", ["yes", "no"]),
        Secret("score", [0.0, 1.0]),
        Derived("ill", column="score", domain=[0, 1, 2]),
    ):
        assert Scenario(secret, Table(FRAME)).priors == (Table(FRAME),)


def test_numbers_that_floats_mix_up_are_refused():
    """Two neighbouring whole numbers beyond 2^53 would be one value, and their difference would need no noise."""
    table = Table({"s": [2**60, 2**60 + 1], "x": [2**60, 2**60 + 1], "probability": [0.5, 0.5]})
    with pytest.raises(pf.UsageError):
        _ = table.columns
