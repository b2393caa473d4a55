"""Public facts have one digest where noise and cost rest on the same, and another wherever they may differ."""

import datetime as dt
import itertools
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferflow as pf
from pufferflow.queries.engine_interface import (
    BY_POSITION,
    Pattern,
    Patterns,
    PositionMode,
    Snapshot,
)
from pufferflow.release.planning.public_metadata import digest_of_facts, digest_of_keys

ORDERS = {
    "none": (PositionMode(ordered=False),),
    "shifted": (PositionMode(ordered=True, period=1),),
    "placed": (BY_POSITION, PositionMode(ordered=True, period=3)),
}


def digest(patterns, keys=None, order=BY_POSITION):
    return digest_of_facts({order: patterns}, "" if keys is None else digest_of_keys(keys))


def of_rows(rows, orders):
    """The digest of rows with a house, an hour and a day, and how many are selected."""
    frame = pl.DataFrame(
        rows, schema={"house": pl.Int64, "hour": pl.Int64, "day": pl.Int64}, orient="row"
    )
    scenario = pf.Scenario(
        pf.Secret("on", [0, 1]),
        pf.AnyCorrelation(),
        order_by="hour",
        start=0,
        within="house",
        public=["day"],
    )
    batch = pf.protect(frame.with_columns(on=0), scenario).filter(pl.col("day") < 2).group_by("day")
    found = batch.request.engine.patterns(batch.request.selection, scenario, orders)
    return digest_of_facts(found), next(iter(found.values())).selected


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=25, unique=True),
    st.randoms(use_true_random=False),
    st.sampled_from(list(ORDERS)),
)
def test_groups_that_look_alike_do_not_count(places, random, name):
    """The order of rows, the names of houses, and how many houses have a pattern leave the digest as it is."""
    rows = [(house, hour, hour % 3) for house, hour in places]
    known = of_rows(rows, ORDERS[name])
    shuffled = random.sample(rows, len(rows))
    assert of_rows(shuffled, ORDERS[name]) == known
    renamed = [(-7 * house, hour, day) for house, hour, day in rows]
    twice = [*rows, *((house + 100, hour, day) for house, hour, day in rows)]
    assert of_rows(renamed, ORDERS[name]) == known
    doubled = of_rows(twice, ORDERS[name])
    assert doubled == (known[0], 2 * known[1])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), min_size=1, max_size=12, unique=True),
    st.data(),
)
def test_other_rows_have_another_digest_where_their_patterns_differ(places, data):
    """Two sets of rows share a digest exactly where the multiset of patterns without its counts is the same."""
    other = data.draw(
        st.lists(
            st.tuples(st.integers(0, 3), st.integers(0, 6)), min_size=1, max_size=12, unique=True
        )
    )
    rows = [[(house, hour, hour % 3) for house, hour in own] for own in (places, other)]
    same = len({placed(own) for own in rows}) == 1
    first, second = (of_rows(own, [BY_POSITION])[0] for own in rows)
    assert (first == second) == same


def placed(rows):
    """What matters of rows where they stand: the first and last hour, and hours and days of each kind of house."""
    asked = {house for house, _, day in rows if day < 2}
    kinds = {
        tuple(sorted((hour, day if day < 2 else None) for of, hour, day in rows if of == house))
        for house in asked
    }
    named = frozenset(
        tuple((hour, None if day is None else _first(kind, day)) for hour, day in kind)
        for kind in kinds
    )
    hours = [hour for _, hour, _ in rows]
    return named, min(hours), max(hours)


def _first(kind, day):
    return list(dict.fromkeys(known for _, known in kind if known is not None)).index(day)


def pattern(cells, positions=None, counts=None, **options):
    many = np.ones(len(cells), dtype=np.int64) if counts is None else np.array(counts)
    return Pattern(
        np.array(cells),
        many,
        None if positions is None else np.array(positions, dtype=float),
        **options,
    )


FACTS = {
    "nothing": Patterns((), 0),
    "refused": pf.UsageError("too many steps"),
    "reach": Patterns((), 0, 0, (0.0, 5.0)),
    "a longer reach": Patterns((), 0, 0, (0.0, np.nextafter(5.0, 6.0))),
    "one row": Patterns((pattern([0]),), 1),
    "a row with a place": Patterns((pattern([0], [0]),), 1),
    "another place": Patterns((pattern([0], [1]),), 1),
    "the next float": Patterns((pattern([0], [np.nextafter(1.0, 2.0)]),), 1),
    "a clock": Patterns((pattern([0], [0]),), 1, 1, (0.0, 0.0), "time, 0 late"),
    "another clock": Patterns((pattern([0], [0]),), 1, 1, (0.0, 0.0), "time, 1/2 late"),
    "a start": Patterns((pattern([0], [0], start=-1.0),), 1),
    "a cover": Patterns((pattern([0], covers=True),), 1),
    "not asked": Patterns((pattern([-1]),), 1),
    "two rows": Patterns((pattern([0], counts=[2]),), 1),
    "two entries": Patterns((pattern([0, 0]),), 1),
    "two cells": Patterns((pattern([0, 1]),), 1),
    "two kinds": Patterns((pattern([0]), pattern([0, 0])), 2),
    "two other kinds": Patterns((pattern([0]), pattern([0, 1])), 2),
}


def test_every_fact_counts():
    """Each of the facts that noise or cost can rest on changes the digest, by itself."""
    assert len({digest(facts) for facts in FACTS.values()}) == len(FACTS)
    one = FACTS["one row"]
    assert digest(one, order=BY_POSITION) != digest(one, order=PositionMode(ordered=False))
    assert digest(one) != digest(one, pl.DataFrame({"day": [1]}))


def test_what_is_equal_has_one_digest():
    """The order of patterns, how many groups and rows have them, and signs of zeros are no facts."""
    kinds = pattern([0]), pattern([0, 1])
    assert digest(Patterns(kinds, 2, 3)) == digest(Patterns(kinds[::-1], 9, 30))
    assert digest(Patterns((pattern([0], [0.0], start=0.0),), 1)) == digest(
        Patterns((pattern([0], [-0.0], start=-0.0, groups=4),), 4)
    )


KEYS = {
    "numbers": pl.Series([1, 2, None]),
    "other numbers": pl.Series([1, 2, 0]),
    "short numbers": pl.Series([1, 2, None], dtype=pl.Int8),
    "long numbers": pl.Series([1, 2**100], dtype=pl.Int128),
    "floats": pl.Series([1.0, 2.0, None]),
    "floats, NaN": pl.Series([1.0, 2.0, float("nan")]),
    "texts": pl.Series(["ab", "c", None]),
    "texts that join alike": pl.Series(["a", "bc", None]),
    "an empty text": pl.Series(["ab", "c", ""]),
    "categories": pl.Series(["ab", "c"], dtype=pl.Enum(["ab", "c"])),
    "the same of more": pl.Series(["ab", "c"], dtype=pl.Enum(["x", "ab", "c"])),
    "truths": pl.Series([True, False, None]),
    "dates": pl.Series([dt.date(2026, 1, 1), None]),
    "times": pl.Series([dt.date(2026, 1, 1), None]).cast(pl.Datetime),
    "times elsewhere": pl.Series([dt.date(2026, 1, 1), None])
    .cast(pl.Datetime)
    .dt.replace_time_zone("Europe/Berlin"),
    "decimals": pl.Series([Decimal("0.10")]),
    "bytes": pl.Series([b"ab", b"c", None]),
    "lists": pl.Series([[1], [None]]),
    "structs": pl.Series([{"a": 1}, {"a": None}]),
    "no rows": pl.Series([], dtype=pl.Int64),
}


def test_keys_of_every_type():
    """Keys have a digest of their own for every name, type, value, null and order; chunks do not matter."""
    frames = [pl.DataFrame({"key": values}) for values in KEYS.values()]
    frames += [
        pl.DataFrame({"other": KEYS["numbers"]}),
        pl.DataFrame({"key": KEYS["numbers"].reverse()}),
    ]
    seen = [digest(FACTS["one row"], frame) for frame in frames]
    same = [
        pair
        for pair in itertools.combinations(range(len(frames)), 2)
        if seen[pair[0]] == seen[pair[1]]
    ]
    assert same == []
    for frame, known in zip(frames, seen, strict=True):
        parts = pl.concat(
            [frame[place : place + 1] for place in range(len(frame))] or [frame], rechunk=False
        )
        assert digest(FACTS["one row"], parts) == known


def test_keys_are_those_that_the_answer_would_have():
    """The keys that are compared are those of a release, in its order."""
    scenario = pf.Scenario(
        pf.Secret("on", [0, 1]), pf.AnyCorrelation(), within="house", public=["day"]
    )
    frame = pl.DataFrame({"house": [1, 2, 3], "day": ["b", None, "a"], "on": 0})
    batch = pf.protect(frame, scenario).group_by("day").private_sum("on")
    keys = batch.request.engine.tally(batch.request.selection).keys
    assert keys.equals(batch.release(epsilon=1.0).frame.select("day"))


@pytest.mark.parametrize(
    "name", ["rows.csv", "a, b.csv", "a].csv", "a\nb.csv", "a,b.csv", "naïve.csv"]
)
def test_files_are_never_taken_for_others(name, tmp_path, monkeypatch):
    """A frame holds still only if the versions of all its files are known; odd names are read as what they are."""
    monkeypatch.setattr("pufferflow.queries.engine_interface.SETTLED", 0)
    (tmp_path / "b.csv").write_text("x\n1\n")
    (tmp_path / name).write_text("x\n1\n")
    found = Snapshot.of(pl.scan_csv(tmp_path / name))
    known = {str(tmp_path / name)} == set(found.versions) and found.holds
    assert known or not found.complete
    assert known == (name in {"rows.csv", "a,b.csv", "naïve.csv"})


def test_several_files_do_not_hold_still(tmp_path, monkeypatch):
    """Of folders Polars does not name all files, so that nothing is known of more than one."""
    monkeypatch.setattr("pufferflow.queries.engine_interface.SETTLED", 0)
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text("x\n1\n")
    assert not Snapshot.of(pl.scan_csv(tmp_path / "*.csv")).complete
    (tmp_path / "c.csv").unlink()
    assert not Snapshot.of(pl.scan_csv(tmp_path / "*.csv")).complete
    (tmp_path / "b.csv").unlink()
    assert Snapshot.of(pl.scan_csv(tmp_path / "*.csv")).holds


ROWS = pl.DataFrame(
    {
        "house": [number // 6 for number in range(36)],
        "hour": [*range(6)] * 6,
        "day": [number % 6 // 3 + (number > 30) for number in range(36)],
        "price": [1.0, 2.0, 4.0] * 12,
        "level": [0, 1, 2] * 12,
    }
)
PRIORS = {
    "independent": pf.Independent(),
    "any correlation": pf.AnyCorrelation(),
    "chain": pf.MarkovChain([[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.0, 0.1, 0.9]]),
    "classes": pf.LatentClass([0.5, 0.5], rows=[[0.6, 0.2, 0.2], [0.2, 0.3, 0.5]]),
}
QUERIES = {
    "sum": lambda batch: batch.group_by("day").private_sum("level"),
    "listed days": lambda batch: batch.group_by("day", keys=[0, 1, 2]).private_mean("level"),
    "price": lambda batch: batch.group_by("day").private_sum(pl.col("level") * pl.col("price")),
    "bounds": lambda batch: batch.group_by("day").private_sum(
        "level", bounds={0: (0, 1), 1: (0, 2), 2: (0, 2)}
    ),
}
NAMES = {
    ("independent", "sum"): "2:27e305fec958",
    ("independent", "listed days"): "2:184e9f249403",
    ("independent", "price"): "2:ba60a94ecc4c",
    ("independent", "bounds"): "2:141867a4fdd9",
    ("any correlation", "sum"): "2:5ee804ec5831",
    ("any correlation", "listed days"): "2:4cfca0fa766f",
    ("any correlation", "price"): "2:624274c1f243",
    ("any correlation", "bounds"): "2:ef30aa17ae21",
    ("chain", "sum"): "2:2e02c632bfe5",
    ("chain", "listed days"): "2:455592014dd8",
    ("chain", "price"): "2:0eac265a06bc",
    ("chain", "bounds"): "2:9af521be1162",
    ("classes", "sum"): "2:c9aa11a5d4f0",
    ("classes", "listed days"): "2:c2c72233cc6a",
    ("classes", "price"): "2:4426dbf22dcd",
    ("classes", "bounds"): "2:cbc1bbffefed",
}


@pytest.mark.parametrize("queries", QUERIES)
@pytest.mark.parametrize("prior", PRIORS)
def test_plans_have_the_names_that_older_ledgers_keep(prior, queries):
    """The name of a plan, of which its public facts are a part, stays what it was: a stored release is found by it."""
    scenario = pf.Scenario(
        pf.Secret("level", [0, 1, 2]),
        PRIORS[prior],
        order_by="hour",
        start=0,
        within="house",
        public=["day", "price"],
    )
    plan = QUERIES[queries](pf.protect(ROWS, scenario)).plan(pf.Pure(1.0))
    assert plan.name.startswith(NAMES[prior, queries])
