"""Units with a limit on rows in each group, and on groups: which rows are read, and what they can move."""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.engines.one_pass import at_most
from pufferflow.queries.engine_interface import UnitLimit

DAYS, LEVELS = [1, 2, 3], [-1, 0, 2]
KEYS = {
    "days": (("day",), [1, 2, 3]),
    "two days": (("day",), [3, 1]),
    "halves of days": (("day", "half"), list(itertools.product(DAYS, "ab"))),
    "halves of one day": (("day", "half"), [(2, "a"), (2, "b")]),
    "halves, whatever the day": (("half",), ["a", "b"]),
    "nothing": ((), None),
}


def batch(frame, name, rows=2, groups=2, prior=None, where=None, **options):
    prior = pf.Independent() if prior is None else prior
    secret = pf.Presence("unit", "level", LEVELS, rows=rows, groups=groups, by="day", **options)
    scenario = pf.Scenario(secret, prior, order_by="time", public=["half"], within="unit")
    by, keys = KEYS[name]
    found = (
        pf.protect(frame, scenario) if where is None else pf.protect(frame, scenario).filter(where)
    )
    return found.group_by(*by, keys=keys) if by else found


def table(rows):
    types = {
        "unit": pl.Int64,
        "time": pl.Int64,
        "day": pl.Int64,
        "half": pl.String,
        "level": pl.Int64,
    }
    return pl.DataFrame(rows, schema=types, orient="row")


def moved(units, name, rows, groups):
    """What each unit adds to all sums and counts, as the engine reads it: of shape (units, sums and counts)."""
    listed = [
        (number, time, *row) for number, unit in enumerate(units) for time, row in enumerate(unit)
    ]
    by, keys = KEYS[name]
    cells = [
        (unit, *(key if isinstance(key, tuple) else (key,)))
        for unit in range(len(units))
        for key in keys or [()]
    ]
    asked = batch(table(listed), "nothing", rows, groups).group_by(
        "unit", *by, keys=cells if by else range(len(units))
    )
    request = asked.private_sum("level").request
    tally = request.engine.tally(request.selection, request.measures)
    parts = [part.reshape(len(units), -1) for part in (tally.sums, tally.rows)]
    return np.concatenate(parts, axis=1).astype(float)


def all_units(most, seed, count=150):
    """Units of up to so many rows on days and halves of days, those with the largest levels among them."""
    places = list(itertools.product(DAYS, "ab", [-1, 2]))
    rng = np.random.default_rng(seed)
    some = [
        [places[place] for place in rng.integers(0, len(places), rng.integers(1, most + 1))]
        for _ in range(count)
    ]
    far = [
        list(itertools.product(days, half, [2]))
        for days in itertools.product(DAYS, repeat=most)
        for half in "ab"
    ]
    return some + far


@pytest.mark.parametrize("name", thinned(KEYS, 0.4))
@pytest.mark.parametrize(
    ("rows", "groups"), thinned([(1, 2), (2, 2), (2, 3), (3, 1)], 0.5, unpack=True)
)
def test_noise_is_for_the_rows_that_a_unit_may_have_in_cells(name, rows, groups):
    """By all units: no sum and count together move farther, in either norm, and some unit moves as far as is said."""
    plans = {
        norm: batch(table([]), name, rows, groups)
        .private_sum("level")
        .private_count()
        .plan(promise, noise=noise)
        for norm, promise, noise in ((1, pf.Pure(1.0), pf.Laplace), (2, pf.Zcdp(0.5), pf.Gaussian))
    }
    found = moved(all_units(rows * groups, rows), name, rows, groups)
    for norm, plan in plans.items():
        scales = np.repeat([noise.scale for noise in plan.noises.values()], found.shape[1] // 2)
        lengths = np.linalg.norm(found / scales, norm, axis=1)
        assert lengths.max() <= 1.0
        if rows * groups <= 4 or "one" in name:
            assert lengths.max() / 0.9 > 1.0


def test_a_row_in_each_of_some_groups_needs_the_noise_of_their_root():
    """Gaussian noise of a row on each of 4 days is half of that of four rows anywhere; of Laplace noise the same."""
    days = ("day",), list(range(9))
    frame = table([])
    four = pf.Presence("unit", "level", LEVELS, rows=4)
    each = pf.Presence("unit", "level", LEVELS, rows=1, groups=4, by="day")
    scales = {
        (secret.groups, noise): pf.protect(
            frame, pf.Scenario(secret, pf.Independent(), public=["day"])
        )
        .group_by(*days[0], keys=days[1])
        .private_sum("level")
        .plan(promise, noise=noise)
        .noises["level_sum"]
        .scale
        for secret in (four, each)
        for noise, promise in ((pf.Gaussian, pf.Approx(1.0, 1e-6)), (pf.Laplace, pf.Pure(1.0)))
    }
    assert scales[4, pf.Gaussian] == pytest.approx(scales[None, pf.Gaussian] / 2, rel=1e-6)
    assert scales[4, pf.Laplace] == pytest.approx(scales[None, pf.Laplace], rel=1e-6)


@pytest.mark.parametrize(
    ("name", "where", "expected"),
    [
        ("nothing", pl.col("day") == 1, 2),
        ("nothing", pl.col("day").is_in([1, 2]), 4),
        ("nothing", pl.col("day") >= 1, 6),
        ("halves, whatever the day", pl.col("day") == 1, 2),
        ("two days", None, 4),
        ("days", pl.col("day") == 1, 2),
        ("nothing", pl.col("day").is_null(), 2),
    ],
)
def test_releases_about_few_groups_have_less_noise(name, where, expected):
    """Only rows in the groups that filters and keys leave are moved, of either noise."""
    plan = batch(table([]), name, 2, 3, where=where).private_count().plan(pf.Pure(1.0))
    assert plan.noises["count"].scale == pytest.approx(expected)


def reference(rows, limit):
    """The rows that are read, one unit after the other."""
    chosen = []
    for unit in dict.fromkeys(row[0] for row in rows):
        own = [(place_of(day), time) for of, time, day in rows if of == unit]
        for day in sorted({day for day, _ in own})[: limit.groups]:
            chosen += sorted(time for of, time in own if of == day)[: limit.rows]
    return sorted(chosen)


def place_of(day):
    """What days are sorted by."""
    return (0, 0.0) if day is None else (2, 0.0) if math.isnan(day) else (1, day + 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_the_first_rows_of_the_first_groups_are_read(seed):
    """As listed one by one: nulls first, NaN last, both zeros one group; on frames that say they are sorted, too."""
    rng = np.random.default_rng(seed)
    days = [None, math.nan, 0.0, -0.0, 1.5, -2.0]
    rows = [(int(rng.integers(4)), time, days[rng.integers(len(days))]) for time in range(60)]
    units = [(None if unit == 3 else unit, time, day) for unit, time, day in rows]
    shuffled = [units[place] for place in rng.permutation(60)]
    frame = pl.DataFrame(
        shuffled, schema={"unit": pl.Int64, "time": pl.Int64, "day": pl.Float64}, orient="row"
    )
    limit = UnitLimit("unit", int(rng.integers(1, 4)), ("time",), ("day",), int(rng.integers(1, 5)))
    assert sorted(at_most(frame.lazy(), limit).collect()["time"].to_list()) == reference(
        units, limit
    )
    flagged = frame.lazy().with_columns(pl.col("day").set_sorted())
    assert sorted(at_most(flagged, limit).collect()["time"].to_list()) == reference(units, limit)


def test_accounts_add_releases_of_units_in_several_groups():
    """Rows of a unit on different days are in different releases: all count, also of a table that stays as it is."""
    frame = table([(1, 0, 1, "a", 2), (1, 1, 2, "a", 2), (2, 0, 1, "b", 0)])
    for options in ({}, {"once": True}):
        plans = [
            batch(frame, "nothing", 1, 2, where=pl.col("day") == day, **options).private_sum(
                "level"
            )
            for day in (1, 2)
        ]
        plans = [one.plan(pf.Pure(0.5)) for one in plans]
        assert [plan.noises["level_sum"].scale for plan in plans] == pytest.approx([4.0, 4.0])
        scenario = plans[0].request.scenario
        assert pf.compose(plans, scenario).total == pytest.approx(1.0)
        assert pf.Scenario.from_json(scenario.to_json()) == scenario
        assert (
            scenario.fingerprint
            != batch(frame, "nothing", 1, 3, **options).request.scenario.fingerprint
        )
    assert "at most 1 row each in each of at most 2 groups of equal 'day'" in plans[0].explain()
    assert "in each of its first 2 groups by" in plans[0].explain()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"groups": 3}, "not given together"),
        ({"rows": 3, "groups": 3}, "not given together"),
        ({"rows": 3, "by": "day"}, "not given together"),
        ({"groups": 3, "by": "day"}, "not given together"),
        ({"rows": 1, "groups": 0, "by": "day"}, "groups"),
        ({"rows": 1, "groups": 1.5, "by": "day"}, "groups"),
        ({"rows": 1, "groups": 1, "by": "unit"}, "by names the unit"),
        ({"rows": 1, "groups": 1, "by": ["day", "day"]}, "by names the unit"),
        ({"rows": 1, "groups": 1, "by": [3]}, "by is 3"),
        ({"rows": 1, "groups": 1, "by": 3}, "by is 3"),
        ({"rows": 1, "groups": 1, "by": pl.col("day")}, 'by="day"'),
        ({"rows": 1, "max_groups": 3}, "groups=7"),
    ],
)
def test_limits_that_are_none_are_refused(options, words):
    """With what to write instead."""
    with pytest.raises((pf.PufferflowError, TypeError), match=words):
        pf.Presence("unit", **options)
