"""`summary()` says which outputs share one noisy sum; a guarantee that keeps next to nothing is called that."""

import polars as pl
import pytest

import pufferflow as pf

ROWS = pl.DataFrame({"level": [0, 3, 10, 5, 7] * 100, "hour": range(500)})
SCENARIO = pf.Scenario(pf.Secret("level", domain=list(range(11)), missing=0), pf.Independent())


def shared(plan):
    """Return what outputs share, by their names."""
    return {
        row["query"]: (row["same_noise_as"], row["correlated_with"])
        for row in plan.summary().iter_rows(named=True)
    }


def batch():
    return pf.protect(ROWS, SCENARIO)


def test_a_sum_and_a_mean_of_one_column_have_one_noise():
    """Whoever averages both counts one noise twice."""
    plan = (
        batch()
        .private_sum("level")
        .private_mean("level")
        .private_count(pl.col("level") > 4, name="high")
        .plan(pf.Pure(1.0))
    )
    assert shared(plan) == {
        "level_sum": ("level_mean", None),
        "level_mean": ("level_sum", None),
        "high": (None, None),
    }
    frame = plan.release().frame
    assert frame["level_mean"][0] * 500 == pytest.approx(frame["level_sum"][0])


def test_a_median_shares_the_noise_of_bins():
    plan = (
        batch().private_median("level", name="median").private_histogram("level").plan(pf.Pure(1.0))
    )
    found = shared(plan)
    assert found.pop("median") == (", ".join([*list(found)[:5], "6 more outputs"]), None)
    assert {same for same, _ in found.values()} == {"median"}


def test_joint_noise_is_correlated():
    plan = (
        batch()
        .private_sum("level")
        .private_count(pl.col("level") >= 5, name="high")
        .plan(pf.Gdp(0.5), noise="joint")
    )
    assert plan.certificate.correlations[0][1]
    assert shared(plan) == {"level_sum": (None, "high"), "high": (None, "level_sum")}


def test_a_loss_that_protects_nothing_is_called_that():
    """ "Still keeps epsilon 250" reads as if something was kept."""
    chain = pf.MarkovChain([[0.6, 0.4], [0.4, 0.6]])
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour")
    rows = pl.DataFrame({"on": [0, 1] * 100, "hour": range(200)})
    words = pf.protect(rows, scenario).private_sum("on").plan(pf.Pure(1.0)).explain()
    assert "the same noise keeps practically no protection (epsilon " in words
    few = pf.protect(rows.head(4), scenario).private_sum("on").plan(pf.Pure(1.0)).explain()
    assert "the same noise still keeps epsilon " in few
    assert "practically no protection" not in few
