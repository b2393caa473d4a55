"""Classes for histograms: every value is in exactly one of them."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferflow.core.errors import UsageError
from pufferflow.models.domain import Bins, Interval, read_domain
from pufferflow.queries.expressions.compiler import classes, indicators
from pufferflow.queries.expressions.on_interval import OnInterval
from pufferflow.queries.expressions.on_points import OnPoints


def labels(*asked, **also):
    return [label for label, _ in indicators("x", *asked, **also)]


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        (read_domain([0, 1.5, 2]), ["0", "1.5", "2"]),
        (read_domain(["north", "south"]), ["north", "south"]),
        (read_domain([False, True]), ["False", "True"]),
        (Bins([0, 1, 5], values=[0.5, 3]), ["0.5", "3"]),
    ],
)
def test_a_finite_domain_has_a_class_for_each_point(domain, expected):
    found = indicators("x", domain)
    assert [label for label, _ in found] == expected
    for place, (_, values) in enumerate(found):
        assert isinstance(values, OnPoints)
        assert values.boolean
        assert values.unit == 1
        assert values.steps == tuple(int(other == place) for other in range(len(found)))


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ([0, 1, 10], ["0 to 1", "1 to 10"]),
        ([0, 1, 5], ["0 to 1", "1 to 5", "5 and more"]),
        ([1, 10], ["below 1", "1 to 10"]),
        ([5], ["below 5", "5 and more"]),
        ([-5, 0.5, 20], ["-5 to 0.5", "0.5 to 20"]),
        (
            [0, 0.1234567, 0.1234568, 10],
            ["0 to 0.1234567", "0.1234567 to 0.1234568", "0.1234568 to 10"],
        ),
    ],
)
def test_classes_of_an_interval_say_where_they_lie_and_cover_it(edges, expected):
    assert labels(Interval(0, 10), bins=edges) == expected


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.lists(st.integers(-3, 13), min_size=1, max_size=5, unique=True).map(sorted), st.floats(0, 10)
)
def test_every_value_is_in_one_class_and_edges_belong_to_the_class_they_begin(edges, number):
    found = indicators("x", Interval(0, 10), bins=edges)
    assert len({label for label, _ in found}) == len(found)
    assert all(
        isinstance(values, OnInterval) and values.boolean and values.unit == 1
        for _, values in found
    )
    held = [0.0, 10.0, number, *(float(edge) for edge in edges if 0 <= edge <= 10)]
    frame = pl.DataFrame({"x": held}).select(
        values.read(pl.col("x")).alias(label) for label, values in found
    )
    for value, row in zip(held, frame.iter_rows(named=True), strict=True):
        inside = [label for label, flag in row.items() if flag]
        assert len(inside) == 1
        begins = [edge for edge in edges if edge <= value]
        if begins and begins[-1] != edges[-1]:
            assert inside[0].startswith(f"{begins[-1]} to")


@pytest.mark.parametrize(
    ("domain", "edges", "problem"),
    [
        (Interval(0, 1), None, "no classes of its own"),
        (Interval(0, 1), [], "not a list of numbers"),
        (Interval(0, 1), "01", "not a list of numbers"),
        (Interval(0, 1), 3, "not a list of numbers"),
        (Interval(0, 1), [0, 0, 1], "do not grow"),
        (Interval(0, 1), [1, 0], "do not grow"),
        (Interval(0, 1), [0, float("nan")], "an edge of bins is nan"),
        (Interval(0, 1), [0, "1"], "an edge of bins is of type str"),
        (read_domain([0, 1]), [0, 1], "domain is a list of values"),
    ],
)
def test_bins_that_are_none_are_misuse(domain, edges, problem):
    with pytest.raises(UsageError, match=problem):
        indicators("x", domain, edges)


@pytest.mark.parametrize(
    "bins", [pl.Series([0, 1, 5]), np.array([0.0, 1.0, 5.0]), (0, 1, 5), [np.int64(0), 1, 5]]
)
def test_bins_may_be_any_list_of_numbers(bins):
    assert labels(Interval(0, 10), bins) == ["0 to 1", "1 to 5", "5 and more"]
    assert classes("x", Interval(0, 10), bins)[0] == (0, 1, 5, 10)


@pytest.mark.parametrize(
    ("bins", "ends"),
    [
        ([2, 5], (0, 2, 5, 10)),
        ([5], (0, 5, 10)),
        ([0, 5, 10], (0, 5, 10)),
        ([-20, -10, 3, 12, 30], (0, 3, 10)),
        ([-5, 2, 10], (0, 2, 10)),
    ],
)
def test_classes_between_ends_cover_the_interval_whatever_the_bins_reach(bins, ends):
    found, bars = classes("x", Interval(0, 10), bins)
    assert found == ends
    assert len(bars) == len(found) - 1
    held = sorted({0.0, 10.0, *(end + side for end in ends[1:-1] for side in (-0.5, 0, 0.5))})
    frame = pl.DataFrame({"x": held}).select(
        bar.read(pl.col("x")).alias(str(at)) for at, bar in enumerate(bars)
    )
    for value, row in zip(held, frame.rows(), strict=True):
        assert sum(row) == 1
        place = row.index(1)
        assert found[place] <= value < found[place + 1] or value == found[-1]


@pytest.mark.parametrize("bins", [[0, 10], [-5, 0], [11, 12], [10]])
def test_bins_that_do_not_cut_the_interval_are_misuse(bins):
    with pytest.raises(UsageError, match="do not cut") as caught:
        classes("x", Interval(0, 10), bins)
    assert caught.value.instead == "bins=[5]"
