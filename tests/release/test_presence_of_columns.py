"""Several columns of rows that come and go: means, sums and covariances that share noise, by all rows there can be."""

import itertools

import numpy as np
import polars as pl
import pytest

import pufferflow as pf

HOURS, WAGE = [-1, 0, 2], pf.Bins([0, 10, 20, 40], values=[5, 15, 30])
ROWS = list(itertools.product([-9, 0, 2, None], [-3.0, 12.0, 99.0, None]))
QUERIES = {
    "a mean and its sum": lambda batch: batch.private_mean("hours").private_sum("hours"),
    "means and sums of both, and how many": lambda batch: (
        batch.private_mean("hours").private_sum("hours").private_mean("wage").private_count()
    ),
    "a covariance": lambda batch: batch.private_covariance("hours", "wage"),
    "a covariance beside what it is made of": lambda batch: (
        batch.private_covariance("hours", "wage")
        .private_mean("wage")
        .private_variance("hours")
        .private_count()
    ),
}


def batch(frame, prior, rows=2):
    secret = pf.Presence("unit", ["hours", "wage"], [HOURS, WAGE], rows=rows)
    return pf.protect(frame, pf.Scenario(secret, prior, within="unit", public=["row"]))


def world():
    """A table in which every possible row is there once, under a number of its own."""
    hours, wages = zip(*ROWS, strict=True)
    return pl.DataFrame(
        {"unit": range(len(ROWS)), "row": range(len(ROWS)), "hours": hours, "wage": wages}
    )


def added(asked, prior):
    """What each possible row adds to the sums of a batch, as the engine reads it: of shape (rows, sums)."""
    request = asked(batch(world(), prior).group_by("row", keys=range(len(ROWS)))).request
    measures = [one for one in request.measures if one is not None]
    tally = request.engine.tally(request.selection, measures)
    counted = iter(tally.sums.T)
    return np.stack(
        [tally.rows if one is None else next(counted) for one in request.measures], 1
    ).astype(float)


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(
    "prior", [pf.Independent(), pf.AnyCorrelation()], ids=["independent", "any"]
)
def test_no_unit_loses_more_than_is_promised(name, prior):
    """Two rows of any values, against none.

    The loss is what is guaranteed, and would be more with a tenth less noise.
    """
    plan = QUERIES[name](batch(world(), prior)).plan(pf.Pure(1.0))
    units = np.array([float(unit) for unit in plan.mechanism.noise.public.weights.units])
    scales = np.array([noise.scale for noise in plan.mechanism.noise.noises_in_units]) / units
    moves = added(QUERIES[name], prior)
    pairs = np.array([first + second for first, second in itertools.product(moves, repeat=2)])
    true = np.abs(pairs / scales).sum(axis=1).max()
    assert true <= 1.0
    if isinstance(prior, pf.Independent):
        assert true / 0.9 > 1.0


def test_a_mean_beside_its_sum_costs_one_of_them():
    """A mean, its sum and how many rows there are need two noises, whatever other columns there are."""
    frame, prior = world(), pf.Independent()
    together = batch(frame, prior).private_mean("hours").private_sum("hours").private_count()
    assert len(together.request.measures) == 2
    both = together.private_mean("wage").private_covariance("hours", "wage")
    assert len(both.request.measures) == 5
    released = both.release(epsilon=1e7).frame.row(0, named=True)
    read = [(max(min(hours, 2), -1) if hours is not None else -1) for hours, _ in ROWS]
    wages = [{-3.0: 5, 12.0: 15, 99.0: 30, None: 5}[wage] for _, wage in ROWS]
    assert released["hours_mean"] == pytest.approx(np.mean(read), abs=1e-3)
    assert released["wage_mean"] == pytest.approx(np.mean(wages), abs=1e-3)
    assert released["hours_wage_covariance"] == pytest.approx(
        np.cov(read, wages, ddof=0)[0, 1], abs=1e-2
    )


def test_people_whose_age_and_hours_are_told_of(tables):
    """On real people: means, sums and the covariance by sex are near the truth, and most bars cover it."""
    adult = pl.read_parquet(tables / "adult_train.parquet").rename(
        lambda name: name.replace("-", "_")
    )
    adult = adult.with_row_index("person").with_columns(
        pl.col("age", "hours_per_week").cast(pl.Float64)
    )
    secret = pf.Presence(
        "person",
        ["age", "hours_per_week"],
        [list(range(0, 100, 10)), list(range(0, 100, 10))],
        rows=1,
    )
    keys = sorted(adult["sex"].unique())
    asked = pf.protect(adult, pf.Scenario(secret, pf.Independent(), public=["sex"])).group_by(
        "sex", keys=keys
    )
    asked = asked.private_mean("age", "age").private_sum("hours_per_week", "hours")
    asked = asked.private_covariance("age", "hours_per_week", "both").private_count(name="n")
    release = asked.release(epsilon=4.0)
    nearest = [
        ((pl.col(name) / 10 - 0.5).ceil() * 10).clip(0, 90) for name in ("age", "hours_per_week")
    ]
    read = (
        adult.with_columns(nearest)
        .group_by("sex")
        .agg(
            age=pl.col("age").mean(),
            hours=pl.col("hours_per_week").sum(),
            both=pl.cov("age", "hours_per_week", ddof=0),
            n=pl.len(),
        )
    )
    covered = 0
    for name in ("age", "hours", "both", "n"):
        truth = read.sort("sex")[name]
        low, high = release.intervals[f"{name}_low"], release.intervals[f"{name}_high"]
        covered += int(((low <= truth) & (truth <= high)).sum())
        assert ((release.frame[name] - truth).abs() <= 4 * (high - low)).all()
    assert covered >= 5
