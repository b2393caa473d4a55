"""A plan says when noise is larger than any answer can be: from public sizes, once for each query, and only then."""

import polars as pl
import pytest

import pufferflow as pf

LEVELS = pf.Secret("level", domain=[0, 1, 2, 3])
ROWS = pl.DataFrame({"street": ["a"] * 6 + ["b"] * 2, "level": [0, 1, 2, 3, 0, 1, 2, 3]})


def batch(secret=LEVELS, **more):
    return pf.protect(ROWS, pf.Scenario(secret, pf.Independent(), public=["street"], **more))


@pytest.mark.parametrize("epsilon", [0.05, 0.12, 0.13, 1.0])
def test_a_line_stands_where_the_error_is_larger_than_any_answer(epsilon):
    """The expected error of the summary against eight rows of at most 3."""
    plan = batch().private_sum("level").plan(pf.Pure(epsilon))
    error = plan.summary()["expected_error"].item()
    assert bool(plan.too_noisy()) == (error > 24)
    if error > 24:
        (line,) = plan.too_noisy()
        assert line.startswith("noise on level_sum is larger than the largest possible answer (24): expected error ")
        assert float(line.rpartition(" ")[2]) == pytest.approx(error, rel=1e-3)


def test_groups_and_classes_are_counted_in_one_line():
    """Of several numbers of one query some may drown and others not; groups without rows do not count."""
    asked = batch().group_by("street", keys=["a", "b", "nobody"]).private_sum("level")
    (line,) = asked.plan(pf.Pure(0.3)).too_noisy()
    assert line == (
        "noise on level_sum is larger than the largest possible answer (6): expected error 10, for 1 of its 2 numbers"
    )
    (line,) = asked.plan(pf.Pure(0.1)).too_noisy()
    assert line.endswith("(18): expected error 30, for all of its 2 numbers")
    (line,) = batch().private_histogram("level").plan(pf.Pure(0.1)).too_noisy()
    assert line.startswith("noise on level_histogram is larger than the largest possible answer (8)")
    assert line.endswith("for all of its 4 numbers")


def test_every_query_has_its_own_line_and_unknown_sizes_have_none():
    """Means are measured by their range; what has no size beforehand, or a private one, is not spoken of."""
    plan = batch().private_mean("level").private_count(pl.col("level") > 1, name="n").private_variance("level")
    lines = plan.plan(pf.Pure(0.1)).too_noisy()
    assert [line.split()[2] for line in lines] == ["level_mean", "n"]
    presence = pf.Presence("street", "level", [0, 1, 2, 3], rows=6)
    hidden = pf.Scenario(presence, pf.Independent(), within="street")
    assert pf.protect(ROWS, hidden).private_sum("level").plan(pf.Pure(0.01)).too_noisy() == []


def test_it_is_said_in_the_sentence_and_in_the_evidence():
    """The sentence to sign has each line once, and a page gets the same lines."""
    plan = batch().private_sum("level").plan(pf.Pure(0.1))
    (line,) = plan.too_noisy()
    assert plan.explain().count(f"Note: {line}.") == plan.explain().count(line) == 1
    assert plan.evidence().too_noisy == (line,)
    assert "larger than" not in batch().private_sum("level").plan(pf.Pure(1.0)).explain()
