"""Public weights of rows that come and go: no more is lost than was guaranteed, by all rows that a unit can have."""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.core.errors import PufferflowError, UsageError
from pufferflow.engines.weighted_rows import weighted_tally
from pufferflow.queries.expressions.weights import bounds_of_product, factors_of

ANY, INDEPENDENT = pf.AnyCorrelation(), pf.Independent()
LISTED, INTERVAL = [-1, 0, 2], pf.Interval(-1, 2)
level, price, rate = pl.col("level"), pl.col("price"), pl.col("rate")
WEIGHTS = [None, math.nan, -math.inf, -0.3, 0.7, 5.0]
ROWS = list(itertools.product([-9, 0, 2, None], WEIGHTS, [None, 0.1, 9.0]))
"""Everything that a row can have: values and weights inside and outside of their bounds, and none."""
QUERIES = {
    "a sum": lambda batch: batch.private_sum(level * price.clip(-1, 1.3), name="s"),
    "a mean": lambda batch: batch.private_mean("level", weights=rate.clip(0.5, 4)),
    "sums of two weights and of none": lambda batch: (
        batch.private_sum(level * price.clip(0.5, 1.3), name="s")
        .private_sum((level - 1) * rate.clip(-3, 4) / 2, name="t")
        .private_sum("level", name="u")
    ),
    "a mean that shares its sum": lambda batch: batch.private_mean(
        "level", weights=rate.clip(0, 4)
    ).private_sum(level * rate.clip(0, 4), name="s"),
    "weights of both signs of a rising and a falling function": lambda batch: batch.private_sum(
        level * price.clip(-1, 1), name="s"
    ).private_sum((2 - level) * price.clip(-1, 1), name="t"),
}


def batch(frame, prior=INDEPENDENT, domain=LISTED, rows=2):
    secret = pf.Presence("unit", "level", domain, rows=rows)
    within = "unit" if prior is ANY else ()
    return pf.protect(
        frame, pf.Scenario(secret, prior, within=within, public=["row", "price", "rate"])
    )


def world():
    """A table in which every possible row is there once, under a number of its own."""
    levels, prices, rates = zip(*ROWS, strict=True)
    return pl.DataFrame(
        {
            "unit": range(len(ROWS)),
            "row": range(len(ROWS)),
            "level": pl.Series(levels, dtype=pl.Float64),
            "price": pl.Series(prices, dtype=pl.Float64),
            "rate": pl.Series(rates, dtype=pl.Float64),
        }
    )


def added(asked, domain):
    """What each possible row adds to the sums of a query, as the engine reads it: of shape (rows, sums)."""
    request = asked(batch(world(), domain=domain).group_by("row", keys=range(len(ROWS)))).request
    measures = [one for one in request.measures if one is not None]
    tally = weighted_tally(request.engine, request.selection, measures, {})
    counted = iter(tally.sums.T)
    return np.stack(
        [tally.rows if one is None else next(counted) for one in request.measures], 1
    ).astype(float)


def lost(moves, scales, prior):
    """The largest loss between a unit of two rows and none, or between any two of them where rows are replaced too."""
    pairs = np.array(
        [a + b for a, b in itertools.product(moves, repeat=2)] + [*moves, 0 * moves[0]]
    )
    noisy = pairs[:, scales > 0] / scales[scales > 0]
    if prior is INDEPENDENT:
        return np.abs(noisy).sum(axis=1).max()
    return max(np.abs(noisy - one).sum(axis=1).max() for one in np.unique(noisy, axis=0))


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("prior", [INDEPENDENT, ANY], ids=["independent", "any"])
@pytest.mark.parametrize("domain", thinned([LISTED, INTERVAL], 0.5), ids=["list", "interval"])
def test_no_unit_loses_more_than_is_promised(name, prior, domain):
    """By all rows of a unit, whatever they have: the guarantee holds, and would not with a tenth less noise."""
    asked = QUERIES[name]
    plan = asked(batch(world(), prior, domain)).plan(pf.Pure(1.0))
    units = np.array([float(unit) for unit in plan.mechanism.noise.public.weights.units])
    scales = np.array([noise.scale for noise in plan.mechanism.noise.noises_in_units]) / units
    true = lost(added(asked, domain), scales, prior)
    assert true <= 1.0
    assert true / 0.9 > 1.0


@pytest.mark.parametrize("prior", [INDEPENDENT, ANY], ids=["independent", "any"])
@pytest.mark.parametrize("domain", thinned([LISTED, INTERVAL], 0.5), ids=["list", "interval"])
def test_a_weight_of_one_costs_nothing(prior, domain):
    """A weight that is always 1 needs the noise of the same question without it, a mean as well as a sum."""
    frame = world()
    for asked, plain in (
        (
            lambda b: b.private_sum(level * price.clip(1, 1), name="it"),
            lambda b: b.private_sum("level", name="it"),
        ),
        (
            lambda b: b.private_mean("level", weights=price.clip(1, 1)),
            lambda b: b.private_mean("level"),
        ),
    ):
        plans = [ask(batch(frame, prior, domain)).plan(pf.Pure(1.0)) for ask in (asked, plain)]
        own, other = (
            [noise.scale for noise in plan.mechanism.noise.noises_in_units] for plan in plans
        )
        assert own == pytest.approx(other, rel=1e-3)


def test_sums_and_means_are_of_weights_as_they_are_read():
    """Weights outside are the nearest bound, null and NaN are 0; of many columns, factors and divisors too."""
    frame = pl.DataFrame(
        {
            "unit": [1, 2, 3, 4, 5, 6],
            "row": [0, 0, 0, 0, 1, 1],
            "level": [2, 2, -1, 2, 2, 0],
            "price": [0.5, 9.0, -7.0, None, math.nan, math.inf],
            "rate": [1.0, 2.0, 4.0, 8.0, 0.0, 1.0],
        }
    )
    asked = batch(frame).group_by("row", keys=[0, 1, 7])
    asked = asked.private_sum(level * price.clip(-2, 3) / rate.clip(1, 4), name="s")
    asked = asked.private_sum(level * (rate > 1), name="t").private_mean(
        "level", weights=price.clip(0.1, 3), name="m"
    )
    plan = asked.plan(pf.Pure(1e8))
    sums = [2 * 0.5 + 2 * 3 / 2 + 2 / 4, 0.0, 0.0]
    means = [(2 * 0.5 + 2 * 3 - 0.1) / 3.6, 0.0, 0.5]
    released = plan.release()
    assert released.frame["s"].to_list() == pytest.approx(sums, abs=1e-4)
    assert released.frame["t"].to_list() == pytest.approx([3.0, 0.0, 0.0], abs=1e-4)
    assert released.frame["m"].to_list() == pytest.approx(means, abs=1e-2)
    assert released.intervals.row(2, named=True)["m_low"] == -1.0
    assert (
        "price.clip(-2, 3) / rate.clip(1, 4) is a weight from -2 to 3, and 0 where it is null or NaN"
        in plan.explain()
    )
    assert released.clipped().frame.height == 3


BOUNDS = {
    "clip": (price.clip(-1, 2), (-1, 2)),
    "a product": (price.clip(-1, 2) * rate.clip(-3, 1), (-6, 3)),
    "a sum, and less": (3 - price.clip(-1, 2) + 1, (2, 5)),
    "a predicate": (price > 1, (0, 1)),
    "a choice": (pl.when(price > 0).then(2.0).otherwise(rate.clip(-1, 1)), (-1, 2)),
    "no choice": (pl.when(price > 0).then(2.0), (0, 2)),
    "the size": (price.clip(-3, 2).abs(), (0, 3)),
    "what is below 0": (0 - price.clip(1, 2), (-2, -1)),
    "null": (price.clip(1, 2).fill_null(9), (1, 9)),
    "clip in clip": ((price.clip(-1, 8) * 2).clip(None, 5), (-2, 5)),
    "a quotient in clip": ((price / rate).clip(0, 5), (0, 5)),
    "a quotient": (price.clip(1, 2) / rate.clip(-4, -1), (-2, -0.25)),
    "any number": (price * 2, None),
    "no upper end": (price.clip(0), None),
    "the wrong way round": (price.clip(2, 1), None),
    "divided by what may be 0": (price.clip(1, 2) / rate.clip(0, 1), None),
    "infinite": (price.clip(0, math.inf), None),
    "bounds of a column": (price.clip(0, rate), None),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_are_those_that_are_written_down(name):
    """Whatever the rows have, an expression is within its bounds, null or NaN; without bounds it is refused."""
    expression, expected = BOUNDS[name]
    assert bounds_of_product(list(factors_of(expression)), {}) == expected
    asked = batch(world())
    if expected is None:
        with pytest.raises(UsageError, match="has no declared bounds"):
            asked.private_sum(level * expression)
        return
    found = world().select(it=expression.cast(pl.Float64))["it"].drop_nulls().drop_nans()
    assert found.is_between(expected[0] - 1e-9, expected[1] + 1e-9).all()
    assert (
        asked.private_sum(level * expression).request.measures[0].values.weight.bounds == expected
    )


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda b: b.private_mean("level", weights="price"), r"pl.col\('price'\).clip\(0, 100\)"),
        (lambda b: b.private_mean("level", weights=price.clip(-1, 1)), "are -1 and 1"),
        (lambda b: b.private_mean("level", weights=price.clip(0, 0)), "are 0 and 0"),
        (lambda b: b.private_sum(level * price.clip(0, 1e200)), "beyond 2"),
        (
            lambda b: b.private_sum(
                level * pl.col("unit").cast(pl.String).str.len_chars().clip(0, 9)
            ),
            "unit",
        ),
        (lambda b: b.private_sum(level * price.clip(0, 1) + 1), "is not a function of sensitive"),
    ],
)
def test_what_is_no_weight_is_refused(ask, words):
    """Before anything is read, and in words that say what to write."""
    with pytest.raises(PufferflowError, match=words):
        ask(batch(world()))


def test_accounts_count_sums_of_weights(tmp_path):
    """Two releases of other weights add up, and what is published names the weight."""
    asked = batch(world())
    plans = [
        asked.private_sum(level * one.clip(0, 1), name="it").plan(pf.Pure(0.5))
        for one in (price, rate)
    ]
    with pf.Ledger(str(tmp_path / "ledger.db")) as ledger:
        account = ledger.open("cost", asked.request.scenario, limit=pf.Pure(1.0))
        certificates = [plan.release(account).certificate for plan in plans]
        assert account.spent().epsilon == pytest.approx(1.0)
    assert certificates[1].sums[0].sum == "level * rate.clip(0, 1)"
    assert len({plan.request.digest for plan in plans}) == 2
    approximate = asked.private_sum(level * price.clip(0, 1), name="it").plan(
        pf.Approx(1.0, 1e-6), noise=pf.Gaussian
    )
    assert approximate.noises["it"].scale > 4.0


def test_survey_weights_of_real_people(tables):
    """Hours by sex weighted to the population, nobody known to be there: bars cover the truth, errors are small."""
    adult = pl.read_parquet(tables / "adult_train.parquet").rename(
        lambda name: name.replace("-", "_")
    )
    adult = adult.with_row_index("person").with_columns(
        pl.col("hours_per_week", "fnlwgt").cast(pl.Int64)
    )
    secret = pf.Presence("person", "hours_per_week", pf.Interval(0, 99), rows=1)
    scenario = pf.Scenario(secret, INDEPENDENT, public=["sex", "fnlwgt"])
    keys = sorted(adult["sex"].unique())
    asked = pf.protect(adult, scenario).group_by("sex", keys=keys)
    weight = pl.col("fnlwgt").clip(0, 500_000)
    release = asked.private_mean("hours_per_week", weights=weight, name="it").release(epsilon=1.0)
    truth = (
        adult.group_by("sex")
        .agg(it=(pl.col("hours_per_week") * weight).sum() / weight.sum())
        .sort("sex")["it"]
    )
    low, high = release.intervals["it_low"], release.intervals["it_high"]
    assert (release.frame["it"] - truth).abs().max() < 0.5
    assert ((low - 0.5 <= truth) & (truth <= high + 0.5)).all()
    assert (high - low).max() < 2.0
