"""Public weights on every machine: sums, weights and patterns are those that Polars has, to the last digit."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.engines.connect import engine_of, remote_engine
from pufferflow.engines.remote import RemoteEngine
from pufferflow.engines.weighted_rows import (
    WeightedRows,
    WeightsByPosition,
    grids_of,
    weighted_patterns,
    weighted_tally,
    weights_by_rank,
)
from pufferflow.release.planning.public_weights import PublicWeights

LEVEL = pf.Secret("level", domain=pf.Interval(0, 9))
SCENARIO = pf.Scenario(LEVEL, pf.AnyCorrelation(), within="house", public=["day", "price", "house"])


def frame():
    rng = np.random.default_rng(4)
    return pl.DataFrame(
        {
            "day": rng.choice(["a", "b", "ä"], 400),
            "house": rng.integers(0, 60, 400),
            "price": rng.normal(size=400) * rng.choice([0, 1, 1e-3, 1e3], 400),
            "level": rng.uniform(-1, 10, 400),
        }
    ).with_columns(pl.when(pl.col("level") > 0.2).then("level"))


def asked(rows, **keys):
    batch = pf.protect(rows, SCENARIO).filter(pl.col("house") > 3).group_by("day", **keys)
    return batch.private_sum(pl.col("level") * pl.col("price")).private_mean(
        "level", weights=pl.col("price").abs()
    )


def answers(engine, request):
    weights = [measure.values.weight for measure in request.measures]
    rows = WeightedRows.of(engine, request.selection, weights, also=request.scenario.within)
    grids = grids_of(rows)
    tally = weighted_tally(engine, request.selection, request.measures, grids)
    patterns = weighted_patterns(rows, request.scenario, request.measures, grids)
    kinds = [(own.cells.tolist(), own.counts.tolist(), own.groups) for own in patterns.distinct]
    totals = {name: sums.tolist() for name, sums in tally.weights.items()}
    return (
        [*grids.values()],
        tally.keys.to_dicts(),
        tally.rows.tolist(),
        tally.sums.tolist(),
        totals,
        kinds,
    )


def test_weighted_sums_are_equal_on_every_machine(put, machine):
    """Grids, keys, rows, sums, weights and patterns are equal, with the keys of the rows and with listed ones."""
    rows = frame()
    there = RemoteEngine(put(rows)) if machine == "polars" else remote_engine(put(rows))
    for keys in ({}, {"keys": ["ä", "none", "a"]}):
        first = answers(engine_of(rows.lazy()), asked(rows, **keys).request)
        assert first == answers(there, asked(rows, **keys).request)
        assert len(first[-1]) > 1


def test_weighted_releases_are_equal_on_every_machine(put, machine):
    """Plans have the same noise, and releases with hardly any noise the same answers."""
    if machine == "polars":
        pytest.skip("a machine for tests alone, which is asked without its self-test")
    rows = frame()
    here, there = (asked(table).plan(pf.Pure(1e6)) for table in (rows, put(rows)))
    assert {name: own.scale for name, own in here.noises.items()} == {
        name: own.scale for name, own in there.noises.items()
    }
    truth = rows.filter(pl.col("house") > 3).with_columns(pl.col("level").clip(0, 9).fill_null(0.0))
    expected = (
        truth.group_by("day")
        .agg((pl.col("level") * pl.col("price")).sum())
        .sort("day")["level"]
        .to_numpy()
    )
    for plan in (here, there):
        assert np.allclose(
            plan.release().frame["level_sum"].to_numpy(), expected, rtol=1e-6, atol=1.0
        )


def test_weights_by_position_and_by_rank_are_equal_on_every_machine(put, machine):
    """The largest weight at each hour, and by rank in a house: those of the rows, of Polars and of others."""
    rows = frame().with_columns(hour=pl.int_range(pl.len()).over("house"))
    public = ["day", "price", "house"]
    scenario = pf.Scenario(
        LEVEL, pf.GaussianPrior(pf.AR1(0.5)), within="house", order_by="hour", public=public
    )
    asked_there = (
        pf.protect(rows, scenario)
        .filter(pl.col("house") > 3)
        .private_sum(pl.col("level") * pl.col("price"))
    )
    request = asked_there.request
    there = RemoteEngine(put(rows)) if machine == "polars" else remote_engine(put(rows))
    weight = request.measures[0].values.weight
    chosen = rows.filter(pl.col("house") > 3).with_columns(size=pl.col("price").abs())
    by_hour = chosen.group_by("hour").agg(pl.col("size").max()).sort("hour")
    ranked = chosen.sort("size", descending=True).with_columns(
        rank=pl.int_range(pl.len()).over("house")
    )
    by_rank = ranked.group_by("rank").agg(pl.col("size").max()).sort("rank")["size"].to_numpy()
    for engine in (engine_of(rows.lazy()), there):
        weighted = WeightedRows.of(engine, request.selection, [weight], also=scenario.within)
        grids = grids_of(weighted)
        largest = float(grids[weight].largest * grids[weight].unit)
        steps = WeightsByPosition.of(engine, request.selection, scenario, grids)
        assert steps.positions.tolist() == by_hour["hour"].to_list()
        assert steps.shares[weight] * largest == pytest.approx(
            by_hour["size"].to_numpy(), abs=1e-8 * largest
        )
        shares, counts = weights_by_rank(weighted, scenario, grids)
        covered = np.repeat(shares, counts) * largest
        assert len(covered) == len(by_rank)
        assert (covered >= by_rank * (1 - 1e-9) - 1e-8 * largest).all()
        assert (covered <= np.maximum(by_rank * 1.126, largest / 31)).all()


def test_weights_with_bounds_are_equal_on_every_machine(put, machine):
    """Of rows that come and go: the same sums of the same rows, whatever is null, NaN, infinite or outside."""
    rows = frame().with_columns(time=pl.int_range(pl.len()), odd=pl.col("price") * 1e3)
    rows = rows.with_columns(pl.when(pl.col("time") % 7 > 0).then("price"))
    rows = rows.with_columns(
        odd=pl.when(pl.col("time") % 5 == 0).then(float("inf")).otherwise("odd")
    )
    rows = rows.with_columns(
        odd=pl.when(pl.col("time") % 11 == 0).then(float("nan")).otherwise("odd")
    )
    secret = pf.Presence("house", "level", pf.Interval(0, 9), rows=3)
    scenario = pf.Scenario(
        secret, pf.Independent(), order_by="time", public=["day", "price", "odd"]
    )
    batch = pf.protect(rows, scenario).filter(pl.col("price").is_null() | (pl.col("price") < 2))
    batch = batch.group_by("day", keys=["ä", "none", "a"])
    batch = batch.private_sum(pl.col("level") * pl.col("price").clip(-0.3, 0.7), name="s")
    batch = batch.private_mean("level", weights=pl.col("odd").clip(0.5, 4), name="m")
    batch = batch.private_sum(pl.col("level") * (pl.col("price") > 0), name="t")
    request = batch.request
    measures = [one for one in request.measures if one is not None]
    there = RemoteEngine(put(rows)) if machine == "polars" else remote_engine(put(rows))
    first, second = (
        weighted_tally(engine, request.selection, measures, {})
        for engine in (engine_of(rows.lazy()), there)
    )
    assert first.keys.equals(second.keys)
    assert first.rows.tolist() == second.rows.tolist()
    assert first.sums.tolist() == second.sums.tolist()
    assert first.sums[1].tolist() == [0] * len(measures)
    assert (first.sums[0] != 0).all()


def test_bounds_by_group_are_equal_on_every_machine(put, machine):
    """Sums of clipped values by group, other keys too; the kinds of rows of each unit, in order and without."""
    rows = frame().with_columns(hour=pl.int_range(pl.len()).over("house"), town=pl.col("house") % 3)
    secret, prior = pf.Secret("level", domain=pf.Interval(0, 9)), pf.GaussianPrior(pf.AR1(0.5))
    scenario = pf.Scenario(secret, prior, within="house", order_by="hour", public=["town"])
    batch = pf.protect(rows, scenario).group_by("town", keys=[1, 2], other=-1)
    request = batch.private_sum("level", bounds={1: (1, 2.5), 2: (0, 4)}).request
    there = RemoteEngine(put(rows)) if machine == "polars" else remote_engine(put(rows))
    clipped = rows.with_columns(pl.col("level").clip(0, 9).fill_null(0.0))
    found = []
    for engine in (engine_of(rows.lazy()), there):
        own = replace(request, engine=engine)
        weights = PublicWeights(own)
        tally = weighted_tally(engine, own.selection, own.measures, weights.grids)
        units = tally.sums * np.array([float(one) for one in weights.units])
        for place, (town, ends) in enumerate({1: (1, 2.5), 2: (0, 4), 0: (0, 9)}.items()):
            truth = clipped.filter(town=town).select(pl.col("level").clip(*ends).sum()).item()
            assert units[place].sum() == pytest.approx(truth, rel=1e-6)
        assert weights.patterns_by_kind is not None
        patterns = [
            (one.counts.tolist(), one.shares.tolist(), one.groups)
            for one in weights.of_groups.patterns.distinct
        ]
        found.append(
            (tally.rows.tolist(), tally.sums.tolist(), patterns, weights.patterns_by_kind.identity)
        )
    assert found[0] == found[1]
