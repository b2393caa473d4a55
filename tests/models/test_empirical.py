"""Public references and the priors read from them."""

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferflow as pf
from pufferflow.models.priors.table import Empirical
from pufferflow.models.reference import Reference, read_reference
from pufferflow.models.secret import Derived, Presence, Secret

PUPILS = {"paid": ["no", "no", "yes", None, "yes"], "grade": [8.0, 9.0, 9.0, 7.0, float("nan")]}
ASKED = {"secret": "paid", "released": "grade"}


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(-3, 3)), min_size=1, max_size=12))
def test_an_empirical_prior_comes_back_from_json(rows):
    """What is stored as JSON restores an equal prior, with its provenance and without the reference."""
    frame = pl.DataFrame([("a", 0), ("b", 0), *rows], schema=["paid", "grade"], orient="row")
    prior = Empirical(Reference("made up", frame), **ASKED)
    back = Empirical.restored(json.loads(json.dumps(prior.stored())))
    assert back == prior
    assert back.describe() == prior.describe()
    assert back.table == prior.table


def test_rows_without_a_value_are_left_out_and_noted():
    """Nulls and NaN count as missing, and the provenance says how many rows that were."""
    prior = Empirical(Reference("pupils", PUPILS), **ASKED)
    assert prior.provenance.rows == 3
    assert prior.provenance.notes == ("2 rows without paid or grade were left out",)
    assert dict(zip(prior.pairs, prior.counts, strict=True)) == {
        ("no", 8.0): 1,
        ("no", 9.0): 1,
        ("yes", 9.0): 1,
    }


@pytest.mark.parametrize(
    ("frame", "names", "says"),
    [
        (PUPILS, ("paid", "age"), "has no column 'age'"),
        (PUPILS, ("paid", "paid"), "two different columns"),
        ({"s": ["a", "a"], "x": [0, 1]}, ("s", "x"), "fewer than two values"),
        ({"s": ["a", "b"], "x": [[0], [1]]}, ("s", "x"), "of type List"),
        ({"s": ["a", "b"], "x": [0.0, float("inf")]}, ("s", "x"), "not finite"),
        ({"s": ["a", "b"], "probability": [0, 1]}, ("s", "probability"), "named 'probability'"),
        ({"s": [None, None], "x": [0, 1]}, ("s", "x"), "fewer than two values|of type Null"),
    ],
)
def test_columns_that_give_no_laws_are_refused(frame, names, says):
    """Missing columns, a secret of one value, and values that are no labels."""
    with pytest.raises(pf.UsageError, match=says):
        Empirical(Reference("here", frame), secret=names[0], released=names[1])


def test_only_its_columns_are_secrets():
    """The secret has to be a column of it, with the values that the reference has."""
    prior = Empirical(Reference("pupils", PUPILS), **ASKED)
    prior.check(Derived("paid"))
    prior.check(Secret("paid", ["no", "yes"]))
    for secret in (Derived("race"), Secret("paid", ["no", "yes", "part"]), Presence("school")):
        with pytest.raises(pf.UsageError):
            prior.check(secret)


def test_a_bare_frame_is_no_reference():
    """Nobody has declared a bare frame to be public; the error says how to."""
    with pytest.raises(pf.UsageError, match=r'pf\.Reference\("census 2020", frame\)'):
        read_reference(pl.DataFrame(PUPILS))
    for name, frame in (("", PUPILS), ("here", "file.csv"), ("here", 3), (None, PUPILS)):
        with pytest.raises(pf.UsageError):
            Reference(name, frame)


def test_a_reference_reads_only_what_is_asked():
    """Frames of any kind give the same rows and digest; the digest tells values, nulls and names apart."""
    lazy, eager = Reference("a", pl.LazyFrame(PUPILS)), Reference("b", pl.DataFrame(PUPILS))
    assert lazy.read(["grade"]).columns == ["grade"]
    assert (
        lazy.digest(["paid"]) == eager.digest(["paid"]) == Reference("c", PUPILS).digest(["paid"])
    )
    digests = {
        Reference("d", {name: column}).digest([name])
        for name, column in (
            ("x", ["a", None]),
            ("x", ["a", ""]),
            ("x", ["a", "b"]),
            ("y", ["a", "b"]),
        )
    }
    assert len(digests) == 4


def test_a_reference_that_cannot_be_read_says_so():
    """A file that is not there is a failed source, with the reference's name."""
    with pytest.raises(pf.SourceError, match="'census'"):
        Reference("census", pl.scan_parquet(Path("nowhere") / "census.parquet")).read(["x"])
