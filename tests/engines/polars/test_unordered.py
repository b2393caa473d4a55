"""Patterns of rows without order, against counting in plain Python, for key columns of every type."""

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from key_values import KEYS
from thinned import thinned

import pufferflow as pf
from pufferflow.engines import groups_in_cells as cell_sizes
from pufferflow.engines import patterns as unordered
from pufferflow.engines.pattern_columns import PublicRows
from pufferflow.engines.patterns import find_patterns
from pufferflow.queries.engine_interface import BY_POSITION, PositionMode

NO_ORDER = PositionMode(ordered=False)


def plain(value):
    """What tells values apart in Python as in Polars: NaN equals NaN, and lists can be keys."""
    return repr(0.0 if value == 0.0 else value)


def collect(lazy):
    return lazy.collect(engine="streaming")


def patterns(frame, within, by=(), asked=None, collecting=collect):
    scenario = pf.Scenario(
        secret=pf.Secret("x", domain=[0, 1]), prior=pf.AnyCorrelation(), within=within
    )
    return find_patterns(PublicRows(frame.lazy(), by, asked), scenario, [NO_ORDER], collecting)[
        NO_ORDER
    ]


def quoted(result):
    """How many groups have cells of these sizes (in falling order) and so many other rows."""
    listed = Counter()
    for pattern in result.distinct:
        inside = pattern.cells >= 0
        sizes = pattern.counts[inside].tolist()
        assert pattern.cells[inside].tolist() == list(range(len(sizes)))
        assert sizes == sorted(sizes, reverse=True)
        assert (pattern.positions is None, pattern.covers, pattern.start) == (True, False, 0.0)
        listed[tuple(sizes), int(pattern.counts[~inside].sum())] += pattern.groups
    assert len(listed) == len(result.distinct)
    assert sum(listed.values()) == result.groups
    return dict(listed)


def counted(frame, within, by, asked):
    """The same, row by row."""
    cells, others = {}, Counter()
    for row in frame.iter_rows(named=True):
        group = tuple(plain(row[name]) for name in within)
        cells.setdefault(group, Counter())
        if asked is None or row[asked]:
            cells[group][tuple(plain(row[name]) for name in by)] += 1
        else:
            others[group] += 1
    return dict(
        Counter(
            (tuple(sorted(sizes.values(), reverse=True)), others[group])
            for group, sizes in cells.items()
            if sizes
        )
    )


@st.composite
def frames(draw, rows=12):
    """Frames with keys of several types and a Boolean column."""
    height = draw(st.integers(0, rows))
    columns = {}
    for name in ("g", "h", "a", "b"):
        kind, values = KEYS[draw(st.sampled_from(sorted(KEYS)))]
        drawn = draw(st.lists(st.sampled_from([*values, None]), min_size=height, max_size=height))
        columns[name] = pl.Series(name, drawn, dtype=kind)
    flags = st.lists(st.sampled_from([True, True, False, None]), min_size=height, max_size=height)
    return pl.DataFrame({**columns, "asked": pl.Series(draw(flags), dtype=pl.Boolean)})


@pytest.mark.slow
@settings(max_examples=60)
@given(
    frames(),
    st.lists(st.sampled_from("gh"), unique=True),
    st.lists(st.sampled_from("gab"), unique=True),
    st.sampled_from([None, "asked"]),
    st.sampled_from([0, 1, 4, 4096]),
    st.sampled_from([1, 4, 4096]),
)
def test_patterns_are_those_counted_row_by_row(frame, within, by, asked, small, at_once):
    """Groups, cells and rows that are not asked about are told apart for several keys of any type, with nulls.

    However much of a table its first rows show, and in however many parts it is counted.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unordered, "SMALL", small)
        patch.setattr(unordered, "AT_ONCE", at_once)
        assert quoted(patterns(frame, within, by, asked)) == counted(frame, within, by, asked)


@pytest.mark.parametrize("kind", thinned(KEYS, 0.06))
def test_groups_of_keys_of_every_type_stay_in_one_part(kind):
    """The rows of a group are counted together, whatever stands for the group, and none is counted twice."""
    dtype, values = KEYS[kind]
    rng = np.random.default_rng(2)
    keys = pl.Series(
        [[*values, None][place] for place in rng.integers(0, len(values) + 1, 90)], dtype=dtype
    )
    frame = pl.DataFrame({"key": keys, "n": rng.integers(0, 9, 90), "c": rng.integers(0, 3, 90)})
    frame = frame.with_columns(asked=pl.Series(rng.random(90) < 0.7))
    for cells in (["c"], ["c", "n"]):  # counted first, and row by row
        for within in (["key"], ["key", "n"]):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(unordered, "SMALL", 20)
                patch.setattr(unordered, "AT_ONCE", 9)
                assert quoted(patterns(frame, within, cells, "asked")) == counted(
                    frame, within, cells, "asked"
                )


@pytest.mark.parametrize("cells", [2, 50])
def test_large_tables_are_counted_in_parts_no_larger_than_allowed(cells):
    """Nothing as large as the table is in memory; kinds that come up in several parts add up."""
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"g": np.repeat(np.arange(1000), 12), "c": rng.integers(0, cells, 12_000)})
    read = []

    def listed(lazy):
        read.append(collect(lazy))
        return read[-1]

    known = patterns(frame, "g", ["c"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unordered, "SMALL", 100)
        patch.setattr(unordered, "AT_ONCE", 3000)
        own = patterns(frame, "g", ["c"], collecting=listed)
    assert quoted(own) == quoted(known)
    assert max(table.height for table in read) < 3600
    assert any("count" in table.columns for table in read) == (cells == 2)


@pytest.mark.parametrize("at_once", [1, 4096])
def test_groups_that_cross_cells_in_late_rows_are_noticed(at_once):
    """The first rows show groups of one cell each; a few others cross cells, and all are counted once."""
    frame = pl.DataFrame(
        {
            "g": np.repeat(np.arange(40), 3),
            "c": np.where(np.arange(120) < 100, 0, np.arange(120) % 3),
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unordered, "SMALL", 30)
        patch.setattr(unordered, "AT_ONCE", at_once)
        assert quoted(patterns(frame, "g", ["c"])) == counted(frame, ["g"], ["c"], None) | {
            ((3,), 0): 33
        }
        patch.setattr(cell_sizes, "MOST", 0)
        assert patterns(frame, "g", ["c"]).distinct[0].covers


def test_too_many_kinds_in_some_part_are_covered():
    """Each part may have few enough, and all together too many."""
    split = pl.DataFrame(
        {
            "g": np.repeat(np.arange(80), 130),
            "c": [row >= g for g in range(80) for row in range(130)],
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unordered, "SMALL", 400)
        patch.setattr(unordered, "AT_ONCE", 40)
        (cover,) = patterns(split, "g", ["c"]).distinct
        few = patterns(split.filter(pl.col("g") < 64), "g", ["c"]).distinct
    assert (cover.covers, cover.selected, cover.groups, len(few)) == (True, 130, 80, 64)


def test_rows_that_are_not_asked_about_do_not_tell_which_cells_a_group_has():
    """Two cells, null and 1, are two although a row that does not count makes up for the null."""
    frame = pl.DataFrame({"g": [1, 1, 1], "c": [1, None, 1], "asked": [True, True, False]})
    assert quoted(patterns(frame, "g", ["c"], "asked")) == {((1, 1), 1): 1}
    assert quoted(patterns(frame.with_columns(c=pl.Series([1, 1, 2])), "g", ["c"], "asked")) == {
        ((2,), 1): 1
    }


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("role", ["within", "by"])
def test_keys_of_every_type_tell_rows_apart(kind, role):
    """Each type stands for groups and for cells, with nulls, and with rows that are not asked about."""
    dtype, values = KEYS[kind]
    rng = np.random.default_rng(1)
    keys = pl.Series(
        [[*values, None][place] for place in rng.integers(0, len(values) + 1, 60)], dtype=dtype
    )
    frame = pl.DataFrame(
        {"key": keys, "other": rng.integers(0, 20, 60), "asked": rng.random(60) < 0.7}
    )
    within, by = (["key"], ["other"]) if role == "within" else (["other"], ["key"])
    for columns in ([], by):
        assert quoted(patterns(frame, within, columns, "asked")) == counted(
            frame, within, columns, "asked"
        )


@pytest.mark.slow
@settings(max_examples=40)
@given(frames(), st.sampled_from([None, "asked"]), st.sampled_from([(), ("a",)]))
def test_too_many_patterns_are_covered(frame, asked, by):
    """One pattern then has as many rows as any group, asked about in one cell or not at all, and says so."""
    every = counted(frame, ["g"], by, asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unordered, "MOST", 1)
        patch.setattr(cell_sizes, "MOST", 1)
        result = patterns(frame, ["g"], by, asked)
    assert result.groups == sum(every.values())
    if len(every) <= 1:
        assert quoted(result) == every
        return
    (cover,) = result.distinct
    most, others = max(sum(sizes) for sizes, _ in every), max(rest for _, rest in every)
    assert (cover.covers, cover.groups, cover.selected, cover.rows) == (
        True,
        result.groups,
        most,
        most + others,
    )
    assert cover.answers == 1


def test_sixty_four_patterns_are_listed_and_one_more_is_covered():
    """The limit counts patterns, whether they differ in size or in how they are split."""
    sizes = pl.DataFrame({"g": np.repeat(np.arange(65), np.arange(1, 66))})
    assert len(patterns(sizes.filter(pl.col("g") < 64), "g").distinct) == 64
    assert patterns(sizes, "g").distinct[0].covers
    split = pl.DataFrame(
        {
            "g": np.repeat(np.arange(65), 130),
            "c": [row >= g for g in range(65) for row in range(130)],
        }
    )
    assert len(patterns(split.filter(pl.col("g") < 64), "g", ["c"]).distinct) == 64
    assert patterns(split, "g", ["c"]).distinct[0].covers
    whole = pl.DataFrame({"g": np.repeat(np.arange(100, 200), 130), "c": True})
    assert patterns(pl.concat([split, whole]), "g", ["c"]).distinct[0].covers


def test_common_cases_take_one_query():
    """A small table is read once, and so is one group; of a large one the first rows are read beforehand."""
    queries = []
    frame = pl.DataFrame({"g": [1, 1, 2, 3], "cell": ["a", "a", None, "b"], "other": [2, 3, 3, 3]})

    def listed(lazy):
        queries.append(lazy)
        return collect(lazy)

    filtered = frame.with_columns(
        asked=pl.Series([True, False, True, True]), cell=pl.Series(["a", "z", None, "b"])
    )
    for within, by, large in [
        ("g", (), 2),
        ("g", ["g"], 2),
        ("g", ["cell"], 2),
        ((), ["other"], 1),
        ((), (), 1),
        ("g", ["other"], 3),
    ]:
        for small, most in ((2, large), (2**16, 1)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(unordered, "SMALL", small)
                queries.clear()
                patterns(frame, within, by, collecting=listed)
                assert len(queries) <= most
                queries.clear()
                patterns(filtered, within, by, "asked", listed)
                assert len(queries) <= most


def test_columns_may_have_any_names():
    """Names that the queries use themselves do no harm."""
    names = ["asked", "rows", "within 0", "cell 0", "cell 0 low", "one", "groups", "others"]
    frame = pl.DataFrame(
        {name: [1, 1, 2, 2, 2] for name in names} | {"len": [True, False, True, True, True]}
    )
    for name in names:
        others = [other for other in names if other != name]
        assert quoted(patterns(frame, name, others, "len")) == {((1,), 1): 1, ((3,), 0): 1}


def test_a_group_of_a_hundred_thousand_cells_is_kept_short():
    """All rows together have one entry for each cell, and a million rows are no million entries."""
    frame = pl.DataFrame({"c": np.arange(10**6) // 10})
    (pattern,) = patterns(frame, (), ["c"]).distinct
    assert (pattern.answers, len(pattern.counts), pattern.rows) == (10**5, 10**5, 10**6)
    half = frame.with_columns(asked=pl.col("c") < 5)
    assert quoted(patterns(half, (), ["c"], "asked")) == {((10,) * 5, 10**6 - 50): 1}
    assert not patterns(half.with_columns(asked=pl.lit(value=False)), (), ["c"], "asked").distinct


def test_many_groups_that_cross_cells_are_counted():
    """A hundred thousand rows give what counting cell by cell gives."""
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"g": rng.integers(0, 40_000, 10**5), "c": rng.integers(0, 3, 10**5)})
    sizes = frame.group_by("g", "c").len().group_by("g").agg(pl.col("len").sort(descending=True))
    known = Counter((tuple(row), 0) for row in sizes["len"].to_list())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_sizes, "MOST", 1000)
        assert quoted(patterns(frame, "g", ["c"])) == dict(known)


@pytest.mark.parametrize("at_once", [40, 4096])
def test_rows_and_groups_may_stand_for_several(at_once):
    """Counted rows of groups that each stand for some have the patterns of all rows of all groups."""
    rng = np.random.default_rng(5)
    rows = pl.DataFrame({"g": rng.integers(0, 60, 300), "c": rng.integers(0, 4, 300)}).unique(
        maintain_order=True
    )
    rows = rows.with_columns(
        n=rng.integers(1, 4, rows.height), asked=pl.Series(rng.random(rows.height) < 0.8)
    )
    rows = rows.with_columns(times=1 + pl.col("g") % 3)
    every = rows.select("g", "c", "asked", pl.col("n").repeat_by("n")).explode(
        "n", empty_as_null=True
    )
    every = pl.concat(
        [
            every.filter(pl.col("g") % 3 >= turn).with_columns(pl.col("g") + 100 * turn)
            for turn in range(3)
        ]
    )
    scenario = pf.Scenario(
        secret=pf.Secret("x", domain=[0, 1]), prior=pf.AnyCorrelation(), within="g"
    )
    for flag in (None, "asked"):
        public = PublicRows(rows.lazy(), ["c"], flag, times="times", counts="n")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cell_sizes, "MOST", 1000)
            known = quoted(patterns(every, "g", ["c"], flag))
            assert quoted(find_patterns(public, scenario, [NO_ORDER], collect)[NO_ORDER]) == known
            patch.setattr(unordered, "SMALL", 20)
            patch.setattr(unordered, "MOST", 1000)
            patch.setattr(unordered, "AT_ONCE", at_once)
            assert quoted(find_patterns(public, scenario, [NO_ORDER], collect)[NO_ORDER]) == known


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 90), st.integers(0, 12), st.integers(0, 3)),
        max_size=400,
        unique_by=lambda row: row[:2],
    ),
    st.booleans(),
    st.booleans(),
)
def test_patterns_without_order_follow_from_places(rows, grouped, filtered):
    """Rows that are read in order have the patterns without order that a query of its own finds, with their groups."""
    frame = pl.DataFrame(
        rows, schema={"house": pl.Int64, "hour": pl.Int64, "day": pl.Int64}, orient="row"
    )
    frame = frame.with_columns(asked=pl.col("day") > 0).lazy()
    scenario = pf.Scenario(
        pf.Secret("x", [0, 1]), pf.AnyCorrelation(), within="house", order_by="hour", start=0
    )
    by, asked = ["day"] if grouped else [], "asked" if filtered else None
    collect = lambda lazy: lazy.collect()  # noqa: E731
    alone = find_patterns(PublicRows(frame, by, asked), scenario, [NO_ORDER], collect)[NO_ORDER]
    beside = find_patterns(
        PublicRows(frame, by, asked), scenario, [BY_POSITION, NO_ORDER], collect
    )[NO_ORDER]
    assert (alone.groups, alone.selected) == (beside.groups, beside.selected)
    assert _listed(alone) == _listed(beside)


def _listed(patterns):
    return sorted(
        (one.cells.tolist(), one.counts.tolist(), one.groups, one.covers)
        for one in patterns.distinct
    )


@pytest.mark.parametrize(
    "lengths", [[3] * 90, list(range(1, 91))], ids=["one kind", "too many kinds"]
)
def test_too_many_kinds_in_order_may_be_few_without(lengths):
    """Where each group starts at a time of its own, patterns without order are counted for all groups."""
    rows = [
        (house, 7 * house + hour, hour % 2)
        for house, length in enumerate(lengths)
        for hour in range(length)
    ]
    frame = pl.LazyFrame(
        rows, schema={"house": pl.Int64, "hour": pl.Int64, "day": pl.Int64}, orient="row"
    )
    scenario = pf.Scenario(
        pf.Secret("x", [0, 1]), pf.AnyCorrelation(), within="house", order_by="hour", start=0
    )
    both = find_patterns(PublicRows(frame, ["day"]), scenario, [BY_POSITION, NO_ORDER], collect)
    alone = find_patterns(PublicRows(frame, ["day"]), scenario, [NO_ORDER], collect)[NO_ORDER]
    assert both[BY_POSITION].distinct[0].covers
    assert _listed(both[NO_ORDER]) == _listed(alone)
    assert (both[NO_ORDER].groups, both[NO_ORDER].selected) == (alone.groups, alone.selected)
