"""Clocks: files that call one moment by two numbers, in many types, never get two positions for it on one clock."""

import itertools
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from thinned import nightly, thinned

import pufferflow as pf
from pufferflow.core.errors import UsageError
from pufferflow.engines.row_positions import positions_of
from pufferflow.models.fitting.sequences import read_sequences

CHAIN = pf.MarkovChain([[0.5, 0.5], [0.5, 0.5]])
LATE = [0.0, 1e-9, 4e-7, 1.4e-6, 1.6e-6, 2e-6, 5e-6, 1e-5, 1e-4, 9e-4, 0.3, 0.5]
EDGES = sorted({*LATE, *(-late for late in LATE)})


def scenario(step=1, **options):
    return pf.Scenario(
        pf.Secret("on", domain=[0, 1]), CHAIN, order_by="h", step=step, public=["h"], **options
    )


def placed(moments, step=1):
    """The clock of a file, and the position of each of its rows."""
    found = positions_of(pl.Series("h", moments), scenario(step))
    return found.clock, found.whole, found.positions(found.values).tolist()


def agree(one, other, step=1):
    """On one clock, the same moments have the same whole positions; rows between steps are on none."""
    (clock, whole, positions), (other_clock, other_whole, others) = (
        placed(one, step),
        placed(other, step),
    )
    return clock != other_clock or not (whole and other_whole) or positions == others


NEXT = [pair for pair in itertools.pairwise(EDGES) if pair[1] - pair[0] <= 1e-3]
FARTHER = [
    pair
    for pair in itertools.combinations(EDGES, 2)
    if pair[1] - pair[0] <= 1e-3 and pair not in NEXT
]


@pytest.mark.parametrize(("one", "other"), [*NEXT, *nightly(FARTHER, unpack=True)])
def test_a_moment_has_one_position_on_one_clock(one, other):
    """However early or late two files write their moments by what numbers err by, they never lie one step apart."""
    hours = np.array([1.0, 2.0, 5.0, 400_000.0])
    assert agree(hours + one, hours + other)
    assert agree(24 * (hours + one), 24 * (hours + other), step=24)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=4, unique=True),
    st.floats(-0.999, 0.999),
    st.lists(st.floats(-3e-6, 3e-6), min_size=8, max_size=8),
    st.sampled_from([1, 2, 24, 1000]),
)
def test_moments_that_are_written_inexactly_have_one_position_on_one_clock(
    hours, late, errors, step
):
    """Any two files of the same moments, each number a little off: clocks differ, or positions agree."""
    exact = np.array(sorted(hours), dtype=np.float64) + late
    files = [(exact + np.array(errors[at : at + len(exact)])) * step for at in (0, 4)]
    assert agree(*files, step)
    assert agree(files[0], exact * step, step)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(-(2**60), 2**60), min_size=1, max_size=4, unique=True),
    st.sampled_from([1, 7, 24, 3600]),
)
def test_whole_numbers_are_counted_exactly_in_every_type(moments, step):
    """Integers, floats that hold them and decimals have one clock and one position each, beyond 2^53 too."""
    integers = pl.Series(sorted(moments), dtype=pl.Int64)
    assume(integers.max() - integers.min() < 2**61)
    found = placed(integers, step)
    assert placed(integers.cast(pl.Decimal(38, 0)), step) == found
    assert placed(integers.cast(pl.Decimal(38, 6)), step) == found
    if (integers.cast(pl.Float64).cast(pl.Int64) == integers).all():
        assert placed(integers.cast(pl.Float64), step) == found
    if found[1]:
        assert [float(moment // step) for moment in sorted(moments)] == found[2]


@pytest.mark.parametrize("moment", [2**53, 2**60])
def test_steps_that_floats_do_not_tell_apart_are_on_no_timeline(moment):
    """Two neighbouring steps so far from 0 would be one number: releases about them are not said to share a step."""
    frame = pl.DataFrame({"h": [moment, moment + 8], "on": [0, 1]})
    believed = pf.GaussianPrior(pf.AR1(0.5))
    far = pf.Scenario(pf.Secret("on", domain=pf.Interval(0, 1)), believed, order_by="h", public="h")
    rows = pf.protect(frame, far).private_sum("on").plan(epsilon=1.0).cost.shape.rows
    assert rows is not None
    assert rows.runs is None


def test_far_numbers_are_no_later_than_they_are():
    """The product of a float and a million would be rounded far from 0, and a row moved within its step."""
    far = np.array([1.7e12 + 0.25, 1.7e12 + 1.25])
    assert placed(far) == ("number, 1/4 late", True, [1.7e12, 1.7e12 + 1])
    assert placed(far - 0.25) == placed(np.array([1.7e12, 1.7e12 + 1], dtype=np.int64))


@pytest.mark.parametrize("early", [2e-6, 1e-5, 5e-4, -2e-6, -5e-4])
def test_rows_that_are_nearly_at_whole_steps_are_at_none(early):
    """Where numbers are inexact nobody knows which step is meant: chains refuse, and rounding is the way out."""
    frame = pl.DataFrame({"h": np.arange(1.0, 9.0) - early, "on": [0, 1] * 4})
    with pytest.raises(UsageError, match="not whole numbers of steps") as refused:
        pf.protect(frame, scenario()).private_sum("on").plan(epsilon=1.0)
    assert 'pl.col("hour").round()' in refused.value.instead
    rounded = frame.with_columns(pl.col("h").round())
    assert (
        pf.protect(rounded, scenario()).private_sum("on").plan(epsilon=1.0).cost.clock
        == "number, 0 late"
    )
    free = pf.Scenario(
        pf.Secret("on", domain=pf.Interval(0, 1)),
        pf.GaussianPrior(pf.AR1(0.5)),
        order_by="h",
        public="h",
    )
    assert pf.protect(frame, free).private_sum("on").plan(epsilon=1.0).rows == 8


def test_a_reference_whose_phases_are_not_clear_is_refused():
    """A row a little before a whole step would have the phase before; where there are no phases it does not matter."""
    frame = pl.DataFrame({"h": np.arange(8.0) - 2e-6, "on": [0, 1] * 4})
    with pytest.raises(UsageError, match="phase is not clear"):
        read_sequences(frame, "on", "h", [], period=2)
    assert read_sequences(frame, "on", "h", []).rows == 8
    at = read_sequences(frame.with_columns(pl.col("h").round()), "on", "h", [], period=2)
    assert at.positions.tolist() == list(range(8))


HOURS = pl.Series(range(24 * 20_000, 24 * 20_000 + 8))
FILES = {
    "int64": (HOURS, 1),
    "uint32": (HOURS.cast(pl.UInt32), 1),
    "float64": (HOURS.cast(pl.Float64), 1),
    "inexact": (HOURS.cast(pl.Float64) + pl.Series([1e-7, 0, -3e-7, 0, 2e-7, 0, 0, 4e-7]), 1),
    "decimal": (HOURS.cast(pl.Decimal(20, 3)), 1),
    "early": (HOURS.cast(pl.Float64) - 0.25, 1),
    "milliseconds": ((HOURS * 3_600_000).cast(pl.Datetime("ms")), "1h"),
    "microseconds": ((HOURS * 3_600_000_000).cast(pl.Datetime("us")), "1h"),
    "nanoseconds": ((HOURS * 3_600_000_000_000).cast(pl.Datetime("ns")), "1h"),
    "berlin": ((HOURS * 3_600_000_000).cast(pl.Datetime("us", "Europe/Berlin")), "1h"),
    "kolkata": ((HOURS * 3_600_000).cast(pl.Datetime("ms", "Asia/Kolkata")), "1h"),
    "a second early": ((HOURS * 3_600_000_000 - 10**6).cast(pl.Datetime("us")), "1h"),
    "dates": ((HOURS - HOURS[0] + 20_000).cast(pl.Int32).cast(pl.Date), "1d"),
    "midnights": (((HOURS - HOURS[0] + 20_000) * 86_400_000).cast(pl.Datetime("ms")), "1d"),
    "ends of days": (((HOURS - HOURS[0] + 20_001) * 86_400_000 - 1).cast(pl.Datetime("ms")), "1d"),
}
ONE_CLOCK = [
    {"int64", "uint32", "float64", "inexact", "decimal"},
    {"milliseconds", "microseconds", "nanoseconds"},
    {"berlin", "kolkata"},
    {"dates", "midnights"},
]


def costs(file, row):
    moments, step = FILES[file]
    frame = pl.DataFrame({"h": moments, "on": [0, 1] * 4}).with_row_index("row")
    declared = pf.Scenario(
        pf.Secret("on", domain=[0, 1]), CHAIN, order_by="h", step=step, public=["h", "row"]
    )
    asked = pf.protect(frame, declared).filter(pl.col("row") == row).private_sum("on")
    return asked.plan(epsilon=1.0), declared


PAIRS = [
    (one, other)
    for one, other in itertools.combinations_with_replacement(FILES, 2)
    if FILES[one][1] == FILES[other][1]
]


@pytest.mark.parametrize(("one", "other"), thinned(PAIRS, 0.25, unpack=True))
def test_an_hour_that_is_asked_about_twice_costs_twice(one, other):
    """Two releases about one row tell 2.0 of it, in whatever types two files write its moment; never 1.0."""
    first, declared = costs(one, 3)
    total = pf.compose([first, costs(other, 3)[0]], declared)
    assert total.total >= 2.0 * (1 - 1e-9)


@pytest.mark.parametrize(("one", "other"), thinned(PAIRS, 0.25, unpack=True))
def test_two_hours_cost_what_two_rows_cost(one, other):
    """Rows of this chain reveal nothing about each other: on one clock two hours cost 1.0, on two clocks 2.0."""
    first, declared = costs(one, 3)
    found = pf.compose([first, costs(other, 4)[0]], declared).total
    same = one == other or any({one, other} <= files for files in ONE_CLOCK)
    assert found == pytest.approx(1.0) if same else found >= 2.0 * (1 - 1e-9)


def test_rows_that_only_another_clock_has_are_rows_too():
    """What a release guarantees for two neighbouring values is no guarantee about rows before and behind these."""
    turns = pf.MarkovChain([[0.9, 0.05, 0.05], [0.05, 0.05, 0.9], [0.05, 0.9, 0.05]])
    secret = pf.Secret("on", domain=[0, 1, 2], pairs="adjacent")
    declared = pf.Scenario(secret, turns, order_by="h", within="house", public=["house"])

    def asked(house, late):
        frame = pl.DataFrame({"h": [2 + late], "house": [house], "on": [0]})
        return (
            pf.protect(frame, declared)
            .filter(pl.col("house") == house)
            .private_sum("on")
            .plan(epsilon=1.0)
        )

    assert pf.compose([asked(1, 0.0), asked(2, 0.0)], declared).total == pytest.approx(1.0)
    assert pf.compose([asked(1, 0.0), asked(2, 0.5)], declared).total > 1.5


def test_decimals_between_steps_are_not_mixed_up():
    """A quarter of an hour late is a quarter of an hour late, in decimals as in floats."""
    decimals = [Decimal("5.25"), Decimal("7.25")]
    assert placed(decimals) == placed([5.25, 7.25]) == ("number, 1/4 late", True, [5.0, 7.0])
