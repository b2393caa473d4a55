"""`plan.check()` says of each number whether the noise leaves anything of it, before anything is spent."""

import numpy as np
import polars as pl
import pytest

import pufferflow as pf

ROWS = pl.DataFrame({"kw": [1.0, 2.0] * 500, "day": ["mon"] * 900 + ["sun"] * 100, "person": range(1000)})
SCENARIO = pf.Scenario(pf.Secret("kw", domain=pf.Interval(0, 11), missing=0), pf.Independent(), public=["day"])


def batch(rows=ROWS, scenario=SCENARIO):
    return pf.protect(rows.lazy(), scenario)


def verdicts(plan, signal=None):
    return plan.check(signal)["verdict"].to_list()


def test_a_mean_that_noise_covers_is_useless():
    """Of a mean of 1.46 kW, ± 8.4, nothing was said: the largest possible answer was larger still."""
    plan = batch(ROWS.head(3)).private_mean("kw").plan(pf.Pure(1.0))
    assert plan.too_noisy() == []
    found = plan.check()
    assert found.columns == ["query", "group", "interval_95", "signal", "verdict", "finding", "way_on"]
    assert found.row(0, named=True)["verdict"] == "useless"
    assert found["signal"].to_list() == [11 / 4]
    assert "this number says nothing" in found["finding"][0]
    assert found["way_on"][0].startswith("16 times the epsilon")


def test_the_way_on_makes_the_number_useful():
    plan = batch(ROWS.head(3)).private_mean("kw").plan(pf.Pure(1.0))
    times = int(plan.check()["way_on"][0].split()[0])
    assert verdicts(batch(ROWS.head(3)).private_mean("kw").plan(pf.Pure(float(times)))) == ["useful"]


def test_verdicts_are_by_group_and_by_the_difference_that_is_looked_for():
    plan = batch().group_by("day").private_mean("kw", name="mean").private_sum("kw", name="load").plan(pf.Pure(0.5))
    found = {(row["query"], row["group"]): row["verdict"] for row in plan.check().iter_rows(named=True)}
    assert found["mean", "day=mon"] == "useful"
    assert plan.check({"mean": 0.01}).filter(query="mean")["verdict"].to_list() == ["useless", "useless"]
    assert plan.check({"mean": 0.01}).filter(query="load")["verdict"].to_list() == ["useful", "useful"]
    assert set(plan.check(1e9)["verdict"]) == {"useful"}
    assert "fewer groups" in plan.check(1e-9)["way_on"][0]


def test_bins_have_an_equal_share_of_the_rows():
    plan = batch().private_histogram("kw", bins=np.linspace(0, 11, 101)).plan(pf.Pure(1.0))
    found = plan.check()
    assert set(found["signal"]) == {10.0}
    assert set(found["verdict"]) == {"weak"}


def test_where_row_counts_are_private_the_difference_has_to_be_given():
    scenario = pf.Scenario(pf.Presence("person", "kw", pf.Interval(0, 11), rows=1), pf.Independent())
    plan = batch(scenario=scenario).private_count().private_mean("kw").plan(pf.Pure(1.0))
    assert verdicts(plan) == [None, None]
    assert "give signal=" in plan.check()["finding"][0]
    assert plan.check({"count": 100.0})["verdict"].to_list() == ["useful", None]


@pytest.mark.parametrize("signal", [0, -1, float("nan"), "much", {"lod": 1.0}, {"load": 0}])
def test_what_is_no_difference_is_refused(signal):
    plan = batch().private_sum("kw", name="load").plan(pf.Pure(1.0))
    with pytest.raises(pf.Misuse):
        plan.check(signal)


def test_thousands_of_numbers_are_checked_at_once():
    days = pl.DataFrame({"kw": [1.0] * 20_000, "day": [f"d{place}" for place in range(20_000)]})
    plan = batch(days).group_by("day").private_sum("kw").plan(pf.Pure(1.0))
    assert plan.check().height == 20_000
