"""Suggestions of priors: what is tried, what it costs, what speaks against it, and that nothing private is read."""

import numpy as np
import polars as pl
import pytest

import pufferflow as pf

RNG = np.random.default_rng(0)
FAMILY = np.repeat(np.arange(80), 4)
ALIKE = 68 + np.repeat(RNG.normal(0, 2, 80), 4) + RNG.normal(0, 2, 320)
STUDY = pl.DataFrame(
    {
        "family": FAMILY,
        "area": np.where(FAMILY % 2 == 0, "north", "south"),
        "hour": np.tile(np.arange(4), 80),
        "x": ALIKE,
    }
)
INTERVAL = pf.Interval(55, 80)
BINS = pf.Bins([55, 64, 68, 72, 80], values=[62, 66, 70, 75])


def batch(domain=INTERVAL, **options):
    scenario = pf.Scenario(
        pf.Secret("x", domain=domain), pf.Independent(), within="family", public=["area"], **options
    )
    rows = STUDY.head(40).with_columns(pl.col("x").round(0))
    return pf.protect(rows, scenario).private_sum("x")


def test_beliefs_cost_what_a_plan_under_them_does():
    """Each row's error is that of the plan with its prior, in growing order; group privacy has nothing to lose."""
    found = pf.suggest(pf.Reference("a study", STUDY), batch(), pf.Pure(2.0))
    assert [row.belief.partition(" (")[0] for row in found.rows] == [
        "rows are independent of each other",
        "rows of a group are Gaussian, equally correlated",
        "rows of a group may determine each other",
    ]
    errors = [row.error for row in found.rows]
    assert errors == sorted(errors)
    for row in found.rows:
        scenario = pf.Scenario(
            pf.Secret("x", domain=INTERVAL), row.prior, within="family", public=["area"]
        )
        plan = (
            pf.protect(STUDY.head(40).with_columns(pl.col("x").round(0)), scenario)
            .private_sum("x")
            .plan(pf.Pure(2.0))
        )
        assert row.error == pytest.approx(plan.summary()["expected_error"].max(), rel=1e-12)
    assert found.rows[-1].left is None
    assert found.rows[0].left > found.rows[1].left > 2.0


def test_what_speaks_against_a_belief_is_said():
    """Families that are alike speak against independence; rows drawn one by one do not."""
    found = pf.suggest(pf.Reference("a study", STUDY), batch())
    assert found.rows[0].against[0].startswith("rows of a group have a correlation between 0.")
    alone = STUDY.with_columns(x=pl.Series(np.random.default_rng(2).normal(68, 3, 320)))
    assert pf.suggest(pf.Reference("a study", alone), batch()).rows[0].against == ()


def test_rows_that_avoid_each_other_speak_against_independence_too():
    """A series that swings back at every step has a correlation below 0."""
    noise = np.random.default_rng(3).normal(0, 1, 600)
    swinging = np.zeros(600)
    for at in range(1, 600):
        swinging[at] = -0.8 * swinging[at - 1] + noise[at]
    rows = pl.DataFrame({"hour": range(600), "x": 68 + swinging})
    scenario = pf.Scenario(
        pf.Secret("x", domain=INTERVAL), pf.Independent(), order_by="hour", step=1
    )
    asked = pf.protect(rows.head(20), scenario).private_sum("x")
    (against,) = pf.suggest(pf.Reference("a series", rows), asked).rows[0].against
    assert against.startswith("neighbouring rows have a correlation between -0.")


@pytest.mark.slow
def test_orders_classes_and_states_are_tried_where_there_are_some():
    """With an order chains and autoregressions, with classes of values what groups share."""
    found = pf.suggest(pf.Reference("a study", STUDY), batch(BINS, order_by="hour"))
    beliefs = {row.belief.partition(" (")[0] for row in found.rows}
    assert beliefs == {
        "rows are independent of each other",
        "a row depends on the one before it",
        "rows are Gaussian, near ones correlated",
        "rows of a group are Gaussian, equally correlated",
        "rows of a group share a class, its 'area'",
        "rows of a group may determine each other",
    }
    (shared,) = [row for row in found.rows if "class" in row.belief and "area" in row.belief]
    assert any("beyond what their class explains" in one for one in shared.against)


def test_what_cannot_be_fitted_says_why():
    """A reference without groups of several rows gives no Gaussian, and says so."""
    single = STUDY.with_columns(family=pl.int_range(pl.len()))
    found = pf.suggest(pf.Reference("a study", single), batch())
    (gaussian,) = [row for row in found.rows if "Gaussian" in row.belief]
    assert (gaussian.fitted, gaussian.error) == (None, None)
    assert "has too few rows" in gaussian.note
    assert "no answer: The reference has too few rows" in str(found)


def test_texts_tables_and_pages_say_the_same(tmp_path):
    """All three name the reference, every prior and what speaks against it; names are escaped on the page."""
    found = pf.suggest(pf.Reference("a <study>", STUDY), batch())
    page = found.report(tmp_path / "beliefs.html").read_text(encoding="utf-8")
    assert "a &lt;study&gt;" in page
    assert "a <study>" not in page
    assert "figure-beliefs" in page
    assert found.table.columns == ["belief", "expected_error", "left_if_wrong", "against", "note"]
    for row in found.rows:
        assert row.belief in str(found)
        assert row.belief.partition(" (")[0] in page
        assert all(one in page for one in row.against)


def test_no_private_value_matters():
    """Other private values give the same suggestions."""
    first, second = (
        pf.suggest(
            pf.Reference("a study", STUDY),
            pf.protect(
                pl.DataFrame({"family": [1, 1, 2], "area": ["north"] * 3, "x": values}),
                pf.Scenario(
                    pf.Secret("x", domain=INTERVAL),
                    pf.Independent(),
                    within="family",
                    public=["area"],
                ),
            ).private_sum("x"),
        )
        for values in ([60.0, 61, 62], [70.0, 55, 80])
    )
    assert str(first) == str(second)


def test_wrong_questions_are_refused():
    """A bare frame, no queries, secrets that are no values, and the private frame as its own reference."""
    known = pf.Reference("a study", STUDY)
    scenario = pf.Scenario(pf.Secret("x", domain=INTERVAL), pf.Independent(), within="family")
    present = pf.Scenario(pf.Presence("family", "x", [0, 1], rows=2), pf.Independent())
    own = pf.protect(STUDY, scenario).private_sum("x")
    counted = pf.protect(STUDY.head(3), present).private_count(name="n")
    for reference, asked, says in (
        (STUDY, batch(), "DataFrame"),
        (known, pf.protect(STUDY.head(3), scenario), "has no query yet"),
        (known, own, "private frame itself"),
        (known, counted, "no value of a row"),
    ):
        with pytest.raises(pf.UsageError, match=says):
            pf.suggest(reference, asked)
