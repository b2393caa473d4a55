"""Tables too large to be read whole have the patterns that they have when read whole, to the last digit."""

import datetime as dt
import itertools
from contextlib import contextmanager

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thinned import thinned

import pufferflow as pf
from pufferflow.core.errors import UsageError
from pufferflow.engines import groups
from pufferflow.engines import groups as fingerprints
from pufferflow.engines import groups_in_cells as cell_sizes
from pufferflow.engines import patterns as ordered
from pufferflow.engines import patterns as unordered
from pufferflow.engines.connect import engine_of
from pufferflow.engines.pattern_columns import PublicRows
from pufferflow.engines.patterns import find_patterns
from pufferflow.queries.engine_interface import PositionMode, Selection

SIZES = {"whole": (2**16, 2**20), "a group of each kind": (0, 2**20), "kinds": (0, 0)}
ORDERS = [
    PositionMode(ordered=True),
    PositionMode(ordered=True, period=1),
    PositionMode(ordered=True, period=3),
    PositionMode(ordered=False),
]


@contextmanager
def sizes(name, most):
    """Tables count as large from fewer rows, and patterns as too many from fewer on."""
    with pytest.MonkeyPatch.context() as patch:
        small, readable = SIZES[name]
        patch.setattr(fingerprints, "READABLE", readable)
        for module in (ordered, unordered):
            patch.setattr(module, "SMALL", small)
        for module in (groups, ordered, fingerprints, unordered, cell_sizes):
            patch.setattr(module, "MOST", most)
        yield


def facts(frame, name, most=64, by=(), flag=None, **options):
    """Return the patterns in all orders as plain values."""
    given = {"order_by": "t", "within": ["g", "h"], **options}
    scenario = pf.Scenario(pf.Secret("x", domain=[0, 1]), pf.Independent(), **given)
    with sizes(name, most):
        patterns = find_patterns(
            PublicRows(frame.lazy(), by, flag), scenario, ORDERS, pl.LazyFrame.collect
        )
    return {order: plain(own) for order, own in patterns.items()}


def plain(patterns):
    if isinstance(patterns, UsageError):
        return str(patterns)
    distinct = [
        [None if own is None else own.tolist() for own in (one.cells, one.counts, one.positions)]
        + [one.start, one.groups, one.covers]
        for one in patterns.distinct
    ]
    return distinct, patterns.groups, patterns.selected, patterns.reach, patterns.clock


CLOCKS = {
    "numbers": (lambda t: t, 1),
    "late": (lambda t: t * 10 + 7, 10),
    "quarters": (lambda t: t, 4),
    "floats": (lambda t: t * 0.3, 1),
    "nearly whole": (lambda t: t * 0.1 + t * 0.2 + t * 0.7, 1),
    "hours": (lambda t: pl.lit(dt.datetime(2026, 1, 1, 0, 30)) + pl.duration(hours=t), "1h"),  # noqa: DTZ001 - local time
    "days": (lambda t: pl.lit(dt.date(2026, 1, 1)) + pl.duration(days=t), "1d"),
}


SHAPES = [[0, 1, 2, 3], [0, 1, 2, 5], [0, 2, 3, 5], [4]]
SHIFTS = [0, 3, 4]
PAINTS = [[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 0, 0]]
MEMBERS = list(itertools.product(SHAPES, SHIFTS, PAINTS, PAINTS))


def table(members):
    """Rows of groups that have much in common: shapes, shifts, selections, and columns that vary in a group or not."""
    rows = [
        {
            "g": g,
            "h": "a" if g % 2 else None,
            "t": t + shift,
            "i": i,
            "paint": paint[i] or None,
            "room": 10 * g + paint[i],
        }
        | {
            "owner": g,
            "listed": [paint[i]],
            "share": float("nan") if paint[i] else 0.0,
            "chosen": not dropped[i],
        }
        for g, (shape, shift, paint, dropped) in enumerate(members)
        for i, t in enumerate(shape)
    ]
    types = {
        "g": pl.Int32,
        "h": pl.String,
        "t": pl.Int64,
        "i": pl.Int64,
        "paint": pl.Int8,
        "room": pl.Int64,
        "owner": pl.Int64,
    }
    return pl.DataFrame(
        rows, types | {"listed": pl.List(pl.Int64), "share": pl.Float64, "chosen": pl.Boolean}
    )


@st.composite
def tables(draw):
    """Some groups in any order; sometimes two rows are at one place, or a row at none."""
    frame = table(draw(st.lists(st.sampled_from(MEMBERS), max_size=12)))
    if frame.height and draw(st.integers(0, 5)) == 0:
        twice = frame.sample(1, seed=draw(st.integers(0, 9)))
        frame = pl.concat(
            [frame, draw(st.sampled_from([twice, twice.with_columns(t=None).cast(frame.schema)]))]
        )
    return frame.sample(fraction=1, shuffle=True, seed=draw(st.integers(0, 9)))


@pytest.mark.parametrize(
    "by",
    thinned([[], ["paint"], ["room"], ["owner", "share"], ["listed", "room"]], 0.4),
    ids=" ".join,
)
@pytest.mark.parametrize("flag", [None, "chosen"])
def test_every_kind_of_group_is_told_from_all_others(by, flag):
    """Groups that differ in one place, one cell, or one selected row alone, and as many as are alike."""
    random = np.random.default_rng(4)
    twice = [MEMBERS[place] for place in random.integers(0, len(MEMBERS), 40)]
    alone = [0, 9], 0, [0, 0], [1, 1]
    frame = table([*MEMBERS, *twice, alone]).sample(fraction=1, shuffle=True, seed=3)
    for most, step in ((2, 1), (30, 1), (1000, 1), (2, 4)):
        known = facts(frame, "whole", most, by, flag, step=step)
        assert facts(frame, "a group of each kind", most, by, flag, step=step) == known
        assert facts(frame, "kinds", most, by, flag, step=step) == known


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    tables(),
    st.lists(
        st.sampled_from(["g", "paint", "room", "owner", "listed", "share"]), unique=True, max_size=3
    ),
    st.sampled_from([None, "chosen"]),
    st.sampled_from(sorted(CLOCKS)),
    st.sampled_from([1, 2, 3, 64]),
)
def test_patterns_do_not_depend_on_the_size_of_the_table(frame, by, flag, clock, most):
    """Whether a table is read whole, by a group of each kind, or by kinds alone: patterns and errors are the same."""
    convert, step = CLOCKS[clock]
    frame = frame.with_columns(convert(pl.col("t")).alias("t"))
    known = facts(frame, "whole", most, by, flag, step=step)
    assert facts(frame, "a group of each kind", most, by, flag, step=step) == known
    assert facts(frame, "kinds", most, by, flag, step=step) == known


def test_groups_in_one_cell_and_in_several_are_too_many_together():
    """Each of the two sorts has few kinds, and both together more than may be told apart."""
    whole, halves = (
        ([0, 1, 2, 3], 0, [0, 0, 0, 0], [0] * 4),
        ([0, 1, 2, 3], 0, [0, 0, 1, 1], [0] * 4),
    )
    frame = table([whole, halves])
    known = facts(frame, "whole", most=1, by=["paint"])
    assert facts(frame, "kinds", most=1, by=["paint"]) == known


def test_rows_before_the_start_are_refused_in_large_tables():
    """Only those of groups with a selected row matter, as in small ones."""
    frame = pl.DataFrame({"g": [1, 2, 3], "h": "", "t": [-1, 4, 5], "chosen": [True, True, False]})
    for size in SIZES:
        placed, shifted, *_ = facts(frame, size, most=1, flag="chosen").values()
        assert "rows before the start" in placed
        assert shifted[1] == 2
        placed, *_ = facts(frame, size, most=1, by=["h"], flag="chosen", start=-1).values()
        assert placed[1:4] == (2, 2, (-1.0, 5.0))


def test_groups_without_selected_rows_place_nothing():
    """They may have rows before the start, and what covers the other groups does not reach as far as they."""
    frame = pl.DataFrame({"g": [1, 2, 2, 3, 3], "h": "", "t": [4, 4, 6, -3, 20]})
    frame = frame.with_columns(chosen=pl.col("g") < 3)
    known = facts(frame, "whole", most=1, flag="chosen")
    for patterns in (known[ORDERS[0]], known[ORDERS[1]]):
        ((_, _, positions, *_),), groups, selected, reach, _ = patterns
        assert (groups, selected, reach) == (2, 3, (-3.0, 20.0))
        assert positions[-1] - positions[0] == 2
    for size in SIZES:
        assert facts(frame, size, most=1, flag="chosen") == known


def test_long_groups_are_checked_for_two_rows_at_one_place():
    """Places in several words of bits, far from each other, and next to the ends of words."""
    rows = pl.DataFrame(
        {"g": np.repeat([0, 1, 2], 200), "h": "", "t": np.tile(np.arange(200), 3) + 55}
    )
    rows = rows.filter((pl.col("t") * 7 + pl.col("g") * 3) % 11 > 0)
    known = facts(rows, "whole", most=1)
    assert facts(rows, "kinds", most=1) == known
    for place in (55, 63, 64, 127, 128, 254):
        twice = pl.concat([rows, rows.filter(t=place).head(1)])
        for size in SIZES:
            assert all("Two rows of a group" in one for one in facts(twice, size, most=1).values())


def test_a_column_that_varies_in_late_rows_only_is_noticed():
    """The first rows show a column with one value in each group; whether that holds for all groups is looked up."""
    frame = pl.DataFrame({"g": np.repeat(np.arange(200), 3), "h": "", "t": np.tile([0, 1, 2], 200)})
    later = pl.when(pl.col("g") < 175).then(pl.col("t") // 2).otherwise(pl.col("t") > 0)
    frame = frame.with_columns(c=pl.when(pl.col("g") < 150).then(pl.col("g")).otherwise(later))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordered, "SMALL", 30)
        scenario = pf.Scenario(
            pf.Secret("x", domain=[0, 1]), pf.Independent(), order_by="t", within="g"
        )
        (patterns,) = find_patterns(
            PublicRows(frame.lazy(), ["c"]), scenario, ORDERS[:1], pl.LazyFrame.collect
        ).values()
    known = [([0, 0, 0], 150), ([0, 0, 1], 25), ([0, 1, 1], 25)]
    assert [(one.cells.tolist(), one.groups) for one in patterns.distinct] == known


@pytest.mark.parametrize("most", [30, 1000])
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(
    "by", list(itertools.combinations(["part", "mixed", "turned"], 2)), ids=" ".join
)
def test_cells_that_follow_from_moments_need_no_comparison(by, replaced, most):
    """Columns made of the one that orders rows alone, of others too, and before it is itself replaced."""
    frame = table(MEMBERS).sample(fraction=1, shuffle=True, seed=3)
    derived = {
        "part": pl.col("t") // 2,
        "mixed": pl.col("part") + pl.col("paint").fill_null(0),
        "turned": pl.col("t") % 2,
    }
    if replaced:
        derived["t"] = pl.col("i")
    selection = Selection(
        public=("g", "h", "t", "i", "paint"),
        derived=tuple((name, one.alias(name)) for name, one in derived.items()),
        by=by,
    )
    scenario = pf.Scenario(
        pf.Secret("x", domain=[0, 1]), pf.Independent(), order_by="t", within=["g", "h"]
    )
    known = []
    for size in SIZES:
        with sizes(size, most):
            patterns = engine_of(frame).patterns(selection, scenario, ORDERS)
        known.append({order: plain(own) for order, own in patterns.items()})
    assert known[0] == known[1] == known[2]


def test_rows_that_change_while_they_are_read_are_refused():
    """A source that gives other rows each time is noticed where the rows of its kinds are read."""
    frame, turns = table(MEMBERS[:9]), itertools.count()
    scenario = pf.Scenario(
        pf.Secret("x", domain=[0, 1]), pf.Independent(), order_by="t", within="g"
    )

    def collect(lazy):
        last = next(turns) == 3  # after the first rows, which columns vary there, and the kinds
        return lazy.collect().head(1) if last else lazy.collect()

    with (
        sizes("a group of each kind", 64),
        pytest.raises(pf.SourceError, match="changed while they were read"),
    ):
        find_patterns(PublicRows(frame.lazy()), scenario, ORDERS[:1], collect)
