"""Patterns of rows in order, against plain Python: positions, shifts by a period, cells along the way, covers."""

import datetime as dt
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferflow as pf
from pufferflow.core.errors import UsageError
from pufferflow.engines import groups
from pufferflow.engines import groups as alike
from pufferflow.engines import groups as codes
from pufferflow.engines import patterns as ordered
from pufferflow.engines.pattern_columns import PublicRows
from pufferflow.engines.patterns import find_patterns
from pufferflow.models.fitting.sequences import read_sequences
from pufferflow.queries.engine_interface import PositionMode


def patterns(frame, within, by=(), asked=None, period=1, **options):
    given = {"order_by": "t", "within": within, **options}
    scenario = pf.Scenario(secret=pf.Secret("x", domain=[0, 1]), prior=pf.Independent(), **given)
    collect = pl.LazyFrame.collect
    result = find_patterns(
        PublicRows(frame.lazy(), by, asked),
        scenario,
        [PositionMode(ordered=True, period=period)],
        collect,
    )
    (only,) = result.values()
    if isinstance(only, UsageError):
        raise only
    return only


def quoted(result):
    """How many groups have these positions, cells and start."""
    listed = Counter()
    for pattern in result.distinct:
        assert (pattern.counts.tolist(), pattern.covers) == ([1] * len(pattern.cells), False)
        listed[tuple(pattern.positions), tuple(pattern.cells), pattern.start] += pattern.groups
    assert len(listed) == len(result.distinct)
    assert sum(listed.values()) == result.groups
    return dict(listed)


def normal(frame, within, period, step=1):
    """The rows of each group with their positions in normal form, row by row."""
    rows = frame.rows(named=True)
    places = [Fraction(row["t"], step) for row in rows]
    if len({place % 1 for place in places}) == 1:
        places = [Fraction(place // 1) for place in places]
    listed = {}
    for place, row in sorted(zip(places, rows, strict=True), key=lambda pair: pair[0]):
        listed.setdefault(tuple(row[name] for name in within), []).append((place, row))
    for members in listed.values():
        first = members[0][0]
        away = 0 if period is None else first - first % period
        members[:] = [(float(place - away), row) for place, row in members]
    return listed


def listed_one_by_one(frame, within, by, asked, period, step=1):
    """The patterns, group by group."""
    known = Counter()
    for members in normal(frame, within, period, step).values():
        numbers = {}
        cells = tuple(
            numbers.setdefault(tuple(row[name] for name in by), len(numbers))
            if not asked or row[asked]
            else -1
            for _, row in members
        )
        if numbers:
            places = tuple(place for place, _ in members)
            known[places, cells, 0.0 if period is None else places[0]] += 1
    return dict(known)


@st.composite
def frames(draw):
    """Rows of a few groups, no two of a group at one position."""
    keys = st.tuples(st.integers(0, 1), st.sampled_from(["a", None]), st.integers(0, 12))
    rows = draw(st.lists(keys, unique=True, max_size=16))
    drawn = {
        name: draw(st.lists(values, min_size=len(rows), max_size=len(rows)))
        for name, values in [
            ("c", st.integers(0, 2)),
            ("d", st.sampled_from(["x", "y", None])),
            ("asked", st.sampled_from([True, True, False, None])),
        ]
    }
    schema = {"g": pl.Int32, "h": pl.String, "t": pl.Int64}
    types = {"c": pl.Int8, "d": pl.Categorical, "asked": pl.Boolean}
    return pl.DataFrame(rows, schema, orient="row").with_columns(
        pl.Series(name, values, dtype=types[name]) for name, values in drawn.items()
    )


@pytest.mark.slow
@settings(max_examples=60)
@given(
    frames(),
    st.lists(st.sampled_from("gcd"), unique=True),
    st.sampled_from([None, "asked"]),
    st.sampled_from([None, 1, 2, 5]),
    st.sampled_from([(1, 1, 0), (10, 10, 7), (3, 3, 0), (1, 4, 0), (2, 3, 1)]),
)
def test_patterns_are_those_listed_group_by_group(frame, by, asked, period, clock):
    """Gaps, filters, cells that come back, late rows, fractions of steps and shifts are all told apart, and no more."""
    scale, step, late = clock
    frame = frame.with_columns(pl.col("t") * scale + late)
    assert quoted(patterns(frame, ["g", "h"], by, asked, period, step=step)) == listed_one_by_one(
        frame, ["g", "h"], by, asked, period, step
    )


@pytest.mark.slow
@settings(max_examples=40)
@given(
    frames(),
    st.sampled_from([None, "asked"]),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([1, 4]),
)
def test_a_cover_has_a_row_wherever_a_group_has_one(frame, asked, period, step):
    """Whole steps without gaps, or all positions that there are; with its first row as its start, or that of all."""
    every = listed_one_by_one(frame, ["g", "h"], ["c"], asked, period, step)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordered, "MOST", 1)
        result = patterns(frame, ["g", "h"], ["c"], asked, period, step=step)
    assert result.groups == sum(every.values())
    if len(every) <= 1:
        assert quoted(result) == every
        return
    (cover,) = result.distinct
    places = {place for positions, _, _ in every for place in positions}
    late = {place % step for place in frame["t"]}
    known = np.arange(min(places), max(places) + 1) if len(late) == 1 else sorted(places)
    assert cover.positions.tolist() == list(known)
    assert (cover.cells == 0).all()
    assert (cover.counts == 1).all()
    assert (cover.covers, cover.groups, cover.answers) == (True, result.groups, 1)
    assert cover.start == (0.0 if period is None else min(places))


HOURS = {
    "small numbers": (lambda t: t.cast(pl.Int16), 1),
    "numbers by tens": (lambda t: 10 * t + 3, 10),
    "fractions": (lambda t: 0.1 * t + 0.7 * t + 0.2 * t, 1),
    "decimals": (lambda t: t.cast(pl.Decimal(10, 2)), 1),
    "datetimes": (lambda t: pl.lit(dt.datetime(1970, 1, 1)) + pl.duration(hours=t), "1h"),  # noqa: DTZ001
    "late in the hour": (
        lambda t: pl.lit(dt.datetime(1970, 1, 1, 0, 59)) + pl.duration(hours=t),  # noqa: DTZ001
        "60m",
    ),
    "milliseconds": (lambda t: (3_600_000 * t).cast(pl.Datetime("ms")), "1h"),
    "nanoseconds": (lambda t: (t + 0).cast(pl.Datetime("ns")), "1ns"),
    "with a time zone": (
        lambda t: (3_600_000_000 * t).cast(pl.Datetime("us", "Asia/Kolkata")),
        dt.timedelta(hours=1),
    ),
    "dates": (lambda t: t.cast(pl.Int32).cast(pl.Date), "1d"),
    "local days": (
        lambda t: (86_400_000 * t).cast(pl.Datetime("ms")).dt.replace_time_zone("America/New_York"),
        "1d",
    ),
    "weeks of Mondays": (lambda t: (4 + 7 * t).cast(pl.Int32).cast(pl.Date), "1w"),
    "times of a day": (lambda t: (60 * 10**9 * t).cast(pl.Time), "1m"),
}


@pytest.mark.parametrize("kind", HOURS)
@pytest.mark.parametrize("period", [None, 24])
def test_any_kind_of_order_gives_the_same_patterns(kind, period):
    """Positions are values in steps, from 0 or from 1970, for numbers and times of every type."""
    rng = np.random.default_rng(2)
    kept = np.sort(rng.permutation(900)[:600])
    frame = pl.DataFrame({"g": kept // 90, "t": kept % 90 + kept // 90 * 24, "c": kept % 90 // 24})
    convert, step = HOURS[kind]
    other = frame.with_columns(convert(pl.col("t")).alias("t")).sample(
        fraction=1, shuffle=True, seed=1
    )
    assert quoted(patterns(other, "g", ["c"], period=period, step=step)) == listed_one_by_one(
        frame, ["g"], ["c"], None, period
    )


def test_positions_agree_with_those_of_fitted_chains():
    """The phases that a prior was fitted with are those that it is used with."""
    for kind in ("numbers by tens", "fractions", "late in the hour", "dates", "weeks of Mondays"):
        convert, step = HOURS[kind]
        frame = pl.DataFrame({"t": [3, 4, 7, 50]}).with_columns(
            convert(pl.col("t")).alias("t"), x=pl.Series([0, 1, 0, 1])
        )
        (pattern,) = patterns(frame, (), period=None, step=step).distinct
        assert (
            read_sequences(frame, "x", "t", [], step=step).positions.tolist()
            == pattern.positions.tolist()
        )
    near = pl.DataFrame({"t": [0.9999994, 2.0, 3.0000006, 4.0], "x": [0, 1, 0, 1]})
    (pattern,) = patterns(near, (), period=None).distinct
    assert (
        read_sequences(near, "x", "t", []).positions.tolist()
        == pattern.positions.tolist()
        == [1, 2, 3, 4]
    )


def test_days_are_those_of_local_clocks():
    """Days that are 23 or 25 hours long are one step; in steps of an hour every hour of theirs is one."""
    days = pl.datetime_range(dt.datetime(2026, 3, 1), dt.datetime(2026, 11, 30), "1d", eager=True)  # noqa: DTZ001
    local = pl.DataFrame({"t": days.dt.replace_time_zone("Europe/Berlin")})
    (pattern,) = patterns(local, (), period=7, step="1d").distinct
    assert np.diff(pattern.positions).tolist() == [1] * (len(days) - 1)
    assert pattern.start == (dt.date(2026, 3, 1) - dt.date(1970, 1, 1)).days % 7
    ends = (
        dt.datetime(2026, 10, 24, 22, tzinfo=dt.UTC),
        dt.datetime(2026, 10, 25, 23, tzinfo=dt.UTC),
    )
    hours = pl.DataFrame(
        {"t": pl.datetime_range(*ends, "1h", eager=True).dt.convert_time_zone("Europe/Berlin")}
    )
    (pattern,) = patterns(hours, (), step="1h").distinct
    assert np.diff(pattern.positions).tolist() == [1] * 25


def test_fractions_of_steps_are_kept_where_they_differ():
    """Floats keep all their digits, through shifts too; times are divided once."""
    frame = pl.DataFrame({"g": [1, 1, 2, 2], "t": [0.25, 1.0000000001, 7.25, 8.0000000002]})
    kinds = quoted(patterns(frame, "g", period=7))
    assert kinds == {
        ((0.25, 1.0000000001), (0, 0), 0.25): 1,
        ((0.25, 8.0000000002 - 7), (0, 0), 0.25): 1,
    }
    times = pl.DataFrame({"t": [dt.datetime(1970, 1, 8), dt.datetime(1970, 1, 8, 0, 20)]})  # noqa: DTZ001
    assert quoted(patterns(times, (), step="1h", period=24)) == {((0.0, 1 / 3), (0, 0), 0.0): 1}
    decimals = pl.DataFrame({"t": [Decimal("-0.5"), Decimal("0.75")]})
    assert quoted(patterns(decimals, (), period=2)) == {((1.5, 2.75), (0, 0), 1.5): 1}


def test_absolute_positions_begin_where_all_sequences_do():
    """Without a period the start is the scenario's; the part of a step that all rows are late is left out of it too."""
    frame = pl.DataFrame({"t": [5, 7]})
    assert quoted(patterns(frame, (), period=None)) == {((5.0, 7.0), (0, 0), 0.0): 1}
    assert quoted(patterns(frame, (), period=None, start=2)) == {((5.0, 7.0), (0, 0), 2.0): 1}
    late = pl.DataFrame({"t": [dt.datetime(1970, 1, 1, 5, 30), dt.datetime(1970, 1, 1, 7, 30)]})  # noqa: DTZ001
    known = {((5.0, 7.0), (0, 0), 2.0): 1}
    assert quoted(patterns(late, (), period=None, step="1h", start="1970-01-01T02:30")) == known
    assert quoted(patterns(late, (), period=None, step="1h", start="1970-01-01T02:00")) == known
    early = pl.DataFrame({"t": [dt.date(1969, 12, 30), dt.date(1970, 1, 2)]})
    known = {((-2.0, 1.0), (0, 0), -3.0): 1}
    assert quoted(patterns(early, (), period=None, step="1d", start="1969-12-29")) == known
    assert quoted(patterns(early, (), period=7, step="1d")) == {((5.0, 8.0), (0, 0), 5.0): 1}


def refused(frame, *arguments, **options):
    with pytest.raises(UsageError) as refusal:
        patterns(frame, *arguments, **options)
    text = str(refusal.value)
    assert len(text.splitlines()) <= 5
    assert "4711" not in text
    return text


def test_what_has_no_place_in_order_is_refused():
    """Rows without a position, two rows at one, rows before the start and other types are refused, without a value."""
    for values in ([4711, None], [4711.0, float("nan")], [4711.0, float("inf")]):
        assert "without a position" in refused(pl.DataFrame({"t": values}), ())
    for values in ([4711, 4711], [4711.0, 4711.00000001]):
        text = refused(pl.DataFrame({"t": values, "g": 1}), "g")
        assert "Two rows of a group have the same value of order_by: 't', within=['g']" in text
    assert len(patterns(pl.DataFrame({"t": [1, 1], "g": [1, 2]}), "g").distinct) == 1
    assert "rows before the start" in refused(pl.DataFrame({"t": [-4711, 1]}), (), period=None)
    assert "rows before the start" in refused(
        pl.DataFrame({"t": [1, 4711]}), (), period=None, start=2
    )
    days = pl.DataFrame({"t": [dt.date(1969, 12, 31)]})
    assert "rows before 1970-01-01" in refused(days, (), period=None, step="1d")
    assert "of type String" in refused(pl.DataFrame({"t": ["4711"]}), ())
    assert "order_by is missing" in refused(pl.DataFrame({"t": [4711]}), (), order_by=None)


def test_covers_that_are_too_long_are_refused():
    """What to do about it is said, and no position."""
    frame = pl.DataFrame({"g": [1, 2, 3, 1, 2, 3], "t": [0, 0, 0, 1, 2, 4711]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordered, "MOST", 2)
        assert patterns(frame, "g").distinct[0].rows == 4712
        patch.setattr(ordered, "LONGEST", 4700)
        assert "a longer step" in refused(frame, "g")
        floats = frame.with_columns(pl.col("t") * 0.3)
        assert patterns(floats, "g").distinct[0].rows == 4
        patch.setattr(ordered, "LONGEST", 3)
        assert "a longer step" in refused(floats, "g")


@pytest.mark.parametrize("period", [None, 1, 24])
@pytest.mark.parametrize(
    "times",
    [
        [-(2**62), 2**62],
        [-(2**63), 0],
        [0, 2**63 - 1],
        [-(2**63), -(2**63) + 1],
        [2**63 - 2, 2**63 - 1],
        [2**54, 2**54 + 1, 1],
    ],
    ids=str,
)
def test_rows_that_no_positions_tell_apart_are_refused_by_name(times, period):
    """Differences beyond 64 bits, and positions that are one float: the message names order_by."""
    with pytest.raises(UsageError, match="'t'"):
        patterns(pl.DataFrame({"g": [1] * len(times), "t": times}), "g", period=period)


def test_rows_far_apart_are_shifted_without_overflow():
    """As far from each other as places may be, after a shift by whole periods: the first row is in the first period."""
    frame = pl.DataFrame({"g": [1, 1, 2, 2], "t": [-(2**61) - 1, 2**61 - 2**12, 2**62 - 1, 2**62]})
    first, second = sorted(
        patterns(frame.filter(g=1), "g", period=7).distinct[0].positions.tolist()
    )
    assert first == (-(2**61) - 1) % 7
    assert second == float(2**62 + first - 2**12 + 1)


def test_no_rows_are_no_patterns():
    """An empty frame has none, nor has one in which no row is asked about."""
    empty = pl.DataFrame(schema={"g": pl.Int8, "t": pl.Int8, "asked": pl.Boolean})
    for frame in (empty, pl.DataFrame({"g": [1], "t": [1], "asked": [False]})):
        result = patterns(frame, "g", ["g"], "asked")
        assert (result.distinct, result.groups) == ((), 0)


@pytest.mark.slow
@settings(max_examples=30)
@given(frames())
def test_digests_never_decide(frame):
    """If all runs had the same digest, and numbers hardly any room, patterns would be the same."""
    arguments = (frame, ["g", "h"], ["c", "d"], "asked", 2)
    known = quoted(patterns(*arguments))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alike, "_digests", lambda runs: np.zeros(len(runs.bounds) - 1, np.uint64))
        patch.setattr(codes, "_by_digests", lambda _values, _digests: None)
        patch.setattr(codes, "LARGEST", 1)
        assert quoted(patterns(*arguments)) == known
        patch.setattr(groups, "LARGEST", 1)
        assert quoted(patterns(*arguments)) == known


def test_texts_with_one_digest_are_told_apart():
    """Sorting digests is given up where it would take two texts for one."""
    texts = pl.Series(["a", "b", None, "a"])
    for digests in (
        pl.Series([1, 1, 2, 1], dtype=pl.UInt64),
        pl.Series([1, 2, 1, 1], dtype=pl.UInt64),
    ):
        assert codes._by_digests(texts, digests) is None
    assert codes.codes_of(texts.to_frame("g"), ["g"]).dense().size == 3


def test_pairs_of_wide_codes_fit():
    """Codes from far apart are made dense before they are multiplied."""
    wide = pl.DataFrame({"a": [0, 2**60, 5], "b": [2**60, 0, 7]})
    left, right = codes.fitting(codes.codes_of(wide, ["a"]), codes.codes_of(wide, ["b"]))
    assert left.size * right.size <= codes.LARGEST
    assert codes.codes_of(wide, ["a", "b"]).dense().size == 3
    frame = wide.with_columns(t=pl.Series([2**60, 0, 2**59]))
    assert len(patterns(frame, ["a", "b"]).distinct) == 1


def test_a_year_of_a_hundred_meters_is_one_pattern():
    """Days along hours are the cells, whatever the order of the rows, and shifts by whole days do not matter."""
    hours = np.arange(100 * 1000)
    frame = pl.DataFrame(
        {"g": hours // 1000, "t": hours % 1000 + hours // 1000 % 7 * 24, "asked": hours % 2 == 0}
    )
    frame = frame.with_columns(day=pl.col("t") // 24).sample(fraction=1, shuffle=True, seed=0)
    ((pattern),) = patterns(frame, "g", ["day"], period=24).distinct
    assert (pattern.rows, pattern.answers, pattern.groups) == (1000, 42, 100)
    assert (pattern.cells == np.arange(1000) // 24).all()
    ((pattern),) = patterns(frame, "g", ["day"], "asked", period=24).distinct
    assert (pattern.cells == np.where(np.arange(1000) % 2 == 0, np.arange(1000) // 24, -1)).all()
