"""`plan.check()` says of each number whether the noise leaves anything of it, before anything is spent."""

import numpy as np
import polars as pl
import pytest

import pufferflow as pf

ROWS = pl.DataFrame(
    {"kw": [1.0, 2.0] * 500, "day": ["mon"] * 900 + ["sun"] * 100, "person": range(1000)}
)
SCENARIO = pf.Scenario(
    pf.Secret("kw", domain=pf.Interval(0, 11), missing=0), pf.Independent(), public=["day"]
)


def batch(rows=ROWS, scenario=SCENARIO):
    return pf.protect(rows.lazy(), scenario)


def verdicts(plan, signal=None):
    return plan.check(signal)["verdict"].to_list()


def test_a_mean_that_noise_covers_is_useless():
    """Of a mean of 1.46 kW, ± 8.4, nothing was said: the largest possible answer was larger still."""
    plan = batch(ROWS.head(3)).private_mean("kw").plan(pf.Pure(1.0))
    found = plan.check()
    assert found.columns == [
        "query",
        "group",
        "interval_95",
        "signal",
        "verdict",
        "finding",
        "way_on",
    ]
    assert found.row(0, named=True)["verdict"] == "useless"
    assert found["signal"].to_list() == [11 / 4]
    assert "this number says nothing" in found["finding"][0]
    assert found["way_on"][0].startswith("16 times the epsilon")


def test_the_way_on_makes_the_number_useful():
    plan = batch(ROWS.head(3)).private_mean("kw").plan(pf.Pure(1.0))
    times = int(plan.check()["way_on"][0].split()[0])
    assert verdicts(batch(ROWS.head(3)).private_mean("kw").plan(pf.Pure(float(times)))) == [
        "useful"
    ]


def test_verdicts_are_by_group_and_by_the_difference_that_is_looked_for():
    plan = (
        batch()
        .group_by("day")
        .private_mean("kw", name="mean")
        .private_sum("kw", name="load")
        .plan(pf.Pure(0.5))
    )
    found = {
        (row["query"], row["group"]): row["verdict"] for row in plan.check().iter_rows(named=True)
    }
    assert found["mean", "day=mon"] == "useful"
    assert plan.check({"mean": 0.01}).filter(query="mean")["verdict"].to_list() == [
        "useless",
        "useless",
    ]
    assert plan.check({"mean": 0.01}).filter(query="load")["verdict"].to_list() == [
        "useful",
        "useful",
    ]
    assert set(plan.check(1e9)["verdict"]) == {"useful"}
    assert "fewer groups" in plan.check(1e-9)["way_on"][0]


def test_bins_have_an_equal_share_of_the_rows():
    plan = batch().private_histogram("kw", bins=np.linspace(0, 11, 101)).plan(pf.Pure(1.0))
    found = plan.check()
    assert set(found["signal"]) == {10.0}
    assert set(found["verdict"]) == {"weak"}


def test_where_row_counts_are_private_the_difference_has_to_be_given():
    scenario = pf.Scenario(
        pf.Presence("person", "kw", pf.Interval(0, 11), rows=1), pf.Independent()
    )
    plan = batch(scenario=scenario).private_count().private_mean("kw").plan(pf.Pure(1.0))
    assert verdicts(plan) == [None, None]
    assert "give signal=" in plan.check()["finding"][0]
    assert plan.check({"count": 100.0})["verdict"].to_list() == ["useful", None]


@pytest.mark.parametrize("signal", [0, -1, float("nan"), "much", {"lod": 1.0}, {"load": 0}])
def test_what_is_no_difference_is_refused(signal):
    plan = batch().private_sum("kw", name="load").plan(pf.Pure(1.0))
    with pytest.raises(pf.UsageError):
        plan.check(signal)


def test_thousands_of_numbers_are_checked_at_once():
    days = pl.DataFrame({"kw": [1.0] * 20_000, "day": [f"d{place}" for place in range(20_000)]})
    plan = batch(days).group_by("day").private_sum("kw").plan(pf.Pure(1.0))
    assert plan.check().height == 20_000


def said(plan):
    return plan.evidence().findings


def test_findings_have_a_sentence_for_each_query():
    """Of several numbers of one query some may say nothing; groups without rows do not count, nor what is unknown."""
    rows = pl.DataFrame({"street": ["a"] * 600 + ["b"] * 2, "level": [0, 3] * 301})
    scenario = pf.Scenario(
        pf.Secret("level", domain=[0, 1, 2, 3], missing=0), pf.Independent(), public=["street"]
    )
    asked = (
        pf.protect(rows, scenario)
        .group_by("street", keys=["a", "b", "nobody"])
        .private_sum("level")
    )
    assert said(asked.plan(pf.Pure(1.0))) == (
        "level_sum says nothing in 1 of 3 groups, such as street=b: noise of ± 8.99 hides a difference of 1.5",
    )
    bars = (
        pf.protect(rows, scenario)
        .group_by("street")
        .private_histogram("level")
        .private_mean("level")
    )
    first, second = said(bars.plan(pf.Pure(1.0)))
    assert first.startswith(
        "level_histogram says nothing in 4 of 8 numbers, such as level_histogram_0 in street=b: "
    )
    assert second.startswith("level_mean says nothing in 1 of 2 groups")
    unknown = pf.Scenario(pf.Presence("street", "level", [0, 1, 2, 3], 0, rows=6), pf.Independent())
    assert said(pf.protect(rows, unknown).private_sum("level").plan(pf.Pure(0.01))) == ()


def test_the_sentence_has_them_once():
    plan = batch(ROWS.head(3)).private_mean("kw").plan(pf.Pure(1.0))
    (line,) = said(plan)
    assert plan.explain().count(f"Note: {line}.") == plan.explain().count(line) == 1
    assert "says nothing" not in batch(ROWS).private_mean("kw").plan(pf.Pure(1000.0)).explain()


@pytest.mark.slow
def test_thousands_of_bins_are_looked_at_at_once():
    """One sentence for all of them."""
    scenario = pf.Scenario(pf.Secret("kw", domain=pf.Interval(0, 100), missing=0), pf.Independent())
    bins = [place / 50 for place in range(5001)]
    plan = pf.protect(ROWS, scenario).private_histogram("kw", bins=bins).plan(pf.Pure(1.0))
    (line,) = said(plan)
    assert "in 5,000 of 5,000 numbers" in line
    assert plan.check().height == 5000
