"""Error bars hold the answer without noise with probability 95 % or more, whatever is asked, of which rows."""

import math

import numpy as np
import polars as pl
import pytest
from alarms import alarms_twice
from thinned import thinned

import pufferflow as pf
from pufferflow.queries.aggregates import Quantile
from pufferflow.release.planning.accuracy import confidence_of_sum, half_widths, running_widths

WORLDS = 1200
LEAST = 0.95 - 4 * math.sqrt(0.05 * 0.95 / WORLDS)
"""A share of bars that hold this little is a chance of 1 in 30,000 if they hold in 95 of 100 cases."""
NOISES = {
    "Laplace": (pf.Laplace, pf.Pure(2.0)),
    "Gaussian": (pf.Gaussian, pf.Approx(2.0, 1e-6)),
    "Cauchy": (pf.GeneralizedCauchy.of(k=4), pf.Pure(2.0)),
}
SHAPES = {
    "even": np.ones,
    "skewed": lambda values: np.exp(-np.arange(values) / 2.0),
    "with gaps": lambda values: np.where(np.arange(values) % 3 == 1, 1.0, 0.0),
}
SHARES = (0.0, 0.05, 0.5, 0.9, 1.0)


def drawn(values, shape, rows, seed=1):
    """Values of so many rows in every world, by their place in the domain."""
    odds = SHAPES[shape](values)
    return np.random.default_rng(seed).choice(values, size=(WORLDS, rows), p=odds / odds.sum())


def asked(values, domain, *, presence=False):
    """A batch of the worlds: rows of values, one group a world."""
    rows = values.shape[1]
    frame = pl.DataFrame(
        {
            "world": np.repeat(np.arange(WORLDS), rows),
            "x": values.ravel(),
            "row": np.arange(values.size),
        }
    )
    secret = (
        pf.Presence("row", column="x", domain=domain, rows=1)
        if presence
        else pf.Secret("x", domain=domain)
    )
    scenario = pf.Scenario(secret, pf.Independent(), public=["world"])
    return pf.protect(frame, scenario).group_by("world", keys=list(range(WORLDS)))


def quantile(values, q):
    """The smallest value that a share q of the rows do not exceed."""
    return np.sort(values, axis=1)[:, max(math.ceil(q * values.shape[1] - 1e-9), 1) - 1]


def held(release, name, truth, bars=None):
    """How many of the bars hold the truth."""
    bars = release.intervals if bars is None else bars
    low, high = (bars[f"{name}_{end}"].to_numpy() for end in ("low", "high"))
    return ((low <= truth) & (truth <= high)).mean()


@pytest.mark.parametrize(
    "presence", thinned([False, True], 0.33), ids=["public sizes", "private sizes"]
)
@pytest.mark.parametrize("kind", NOISES)
def test_bars_of_one_batch(kind, presence):
    """Sums, means, counts, variances and quantiles asked together, under every noise, as they are and cut."""
    values = drawn(6, "skewed", 40)
    noise, promise = NOISES[kind]
    batch = asked(values, list(range(6)), presence=presence)
    batch = (
        batch.private_sum("x")
        .private_mean("x")
        .private_variance("x")
        .private_count(pl.col("x") > 1)
    )
    for q in SHARES:
        batch = batch.private_quantile("x", q)
    plan = batch.plan(promise, noise=noise)
    truth = {
        "x_sum": values.sum(axis=1),
        "x_mean": values.mean(axis=1),
        "x_variance": values.var(axis=1),
        "x_count": (values > 1).sum(axis=1),
        **{f"x_quantile_{q:g}": quantile(values, q) for q in SHARES},
    }

    def look(_turn):
        release = plan.release()
        cut = release.clipped().intervals
        for name, exact in truth.items():
            assert held(release, name, exact, cut) >= held(release, name, exact), name
        return [name for name, exact in truth.items() if held(release, name, exact) <= LEAST]

    assert not alarms_twice(look)


def test_bars_that_are_too_short_are_found():
    """Bars of three fifths of the length hold the answer too seldom, twice."""
    values = drawn(6, "skewed", 40)
    plan = asked(values, list(range(6))).private_sum("x").plan(pf.Pure(2.0))

    def look(_turn):
        bars = plan.release().intervals
        low, high = bars["x_sum_low"], bars["x_sum_high"]
        shorter = bars.with_columns(low + (high - low) / 5, high - (high - low) / 5)
        return held(None, "x_sum", values.sum(axis=1), shorter) <= LEAST

    assert alarms_twice(look)


@pytest.mark.parametrize(
    "presence", thinned([False, True], 0.22), ids=["public sizes", "private sizes"]
)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", thinned([2, 5, 50], 0.34))
def test_bars_of_quantiles(count, shape, presence):
    """Quantiles of few and many values, with ties, empty classes and long tails; and the number lies in its bar."""
    values = drawn(count, shape, 30)
    batch = asked(values, list(range(count)), presence=presence)

    def look(q):
        name = f"x_quantile_{q:g}"
        release = batch.private_quantile("x", q).release(epsilon=1.0)
        assert held(release, name, release.frame[name].to_numpy()) == 1.0
        return held(release, name, quantile(values, q)) <= LEAST

    for q in SHARES:
        assert not alarms_twice(lambda _turn, q=q: look(q)), q


@pytest.mark.parametrize("epsilon", thinned([1.0, 1e6], 0.5))
@pytest.mark.parametrize("presence", [False, True], ids=["public sizes", "private sizes"])
def test_bars_of_quantiles_in_classes(presence, epsilon):
    """On an interval a quantile lies somewhere in its class: hardly any noise makes no bar shorter than a class."""
    rng = np.random.default_rng(3)
    values = 10 * rng.beta(0.3, 2.0, (WORLDS, 25))
    batch = asked(values, pf.Interval(0, 10), presence=presence)

    def look(q):
        release = batch.private_quantile("x", q, bins=[0, 1, 3, 6]).release(epsilon=epsilon)
        return held(release, f"x_quantile_{q:g}", quantile(values, q)) <= LEAST

    for q in SHARES:
        assert not alarms_twice(lambda _turn, q=q: look(q)), q


def test_bars_of_quantiles_are_no_wider_than_they_have_to_be():
    """With hardly any noise the bar of a quantile is the value alone, also where a share q ends with a value."""
    values = np.tile([0, 0, 1, 1, 2, 2, 3, 3], (WORLDS, 1))
    for q, exact in ((0.0, 0), (0.25, 0), (0.26, 1), (0.5, 1), (0.75, 2), (1.0, 3)):
        release = asked(values, [0, 1, 2, 3]).private_quantile("x", q).release(epsilon=1e6)
        columns = [release.frame.to_series(1), *release.intervals.get_columns()[1:]]
        assert {tuple(column.unique()) for column in columns} == {(exact,)}, q


def test_a_rank_is_a_whole_number():
    """A share of rows that floats put a hair above a whole number is that number of rows."""
    query = Quantile.of("q", 0.07, [None] * 3, [1.0, 2.0, 3.0], "x")
    assert 0.07 * 100 > 7
    assert query.finish(np.array([[7.0, 90.0, 3.0]]), np.array([100.0])).item() == 1.0


@pytest.mark.parametrize(
    "noise", [pf.Laplace(1), pf.Gaussian(1), pf.GeneralizedCauchy(1, k=4), pf.Staircase(1, 1.0)]
)
def test_widths_of_running_sums(noise):
    """Each running sum less its share of the total is within its width in 95 of 100 cases, and hardly in 97."""
    scales = np.array([1.0, 3.0, 0.5, 2.0])
    for shares in (np.arange(1, 5) / 4, np.full(4, 0.3)):
        widths = running_widths([noise.at(scale) for scale in scales.tolist()], shares, 0.95)
        rng = np.random.default_rng(5)
        draws = 40_000
        parts = [
            noise.reach((1 - rng.random(draws)) / 2) * rng.choice([-1, 1], draws) * scale
            for scale in scales
        ]
        sums = np.cumsum(parts, axis=0)
        moves = np.vstack([sums - shares[:, None] * sums[-1], sums[-1:]])
        inside = (np.abs(moves) <= widths[:, None]).mean(axis=1)
        assert (inside > 0.95).all()
        assert (inside[widths > 0.1] < 0.97).all()


def test_bars_of_means_that_may_rest_on_no_rows():
    """Where nobody may know whether rows are there, bars of what few rows make are the whole range, and say no more."""
    nobody = np.full((WORLDS, 1), 3)
    batch = asked(nobody, [0, 1, 2, 3, 4, 5], presence=True).filter(pl.col("world") < 0)
    batch = batch.private_mean("x").private_variance("x").private_quantile("x", 0.5)

    def look(_turn):
        release = batch.release(epsilon=0.5)
        assert not any("no rows" in note for note in release.certificate.notes)
        ends = {"x_mean": (0, 5), "x_variance": (0, 6.25), "x_quantile_0.5": (0, 5)}
        bars = {
            name: (release.intervals[f"{name}_low"], release.intervals[f"{name}_high"])
            for name in ends
        }
        whole = {
            name: (low == ends[name][0]) & (high == ends[name][1])
            for name, (low, high) in bars.items()
        }
        return [name for name, cells in whole.items() if cells.mean() <= LEAST]

    assert not alarms_twice(look)


@pytest.mark.parametrize("sums", [1, 2, 3, 7])
def test_bars_of_several_sums_share_what_may_miss(sums):
    """Sums of which an output is no linear function are all within their widths with the confidence of the output."""
    variance = pf.protect(
        pl.DataFrame({"x": [0, 1]}), pf.Scenario(pf.Secret("x", domain=[0, 1]), pf.Independent())
    )
    (query,) = variance.private_variance("x").request.queries
    assert not query.linear
    assert sums * (1 - confidence_of_sum(query, sums)) == pytest.approx(0.05)
    widths = half_widths(query, [pf.Laplace(1.0)] * sums)
    assert (widths >= -math.log(0.05 / sums)).all()
