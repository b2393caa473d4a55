"""Classes for histograms: every value is in exactly one of them."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferflow.errors import Misuse
from pufferflow.expressions import Lined, Tabled, indicators
from pufferflow.secrets import Bins, Interval
from pufferflow.secrets.domain import read_domain


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
        assert isinstance(values, Tabled)
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
        ([0, 0.1234567, 0.1234568, 10], ["0 to 0.1234567", "0.1234567 to 0.1234568", "0.1234568 to 10"]),
    ],
)
def test_classes_of_an_interval_say_where_they_lie_and_cover_it(edges, expected):
    assert labels(Interval(0, 10), edges=edges) == expected


@settings(max_examples=40)
@given(st.lists(st.integers(-3, 13), min_size=1, max_size=5, unique=True).map(sorted), st.floats(0, 10))
def test_every_value_is_in_one_class_and_edges_belong_to_the_class_they_begin(edges, number):
    found = indicators("x", Interval(0, 10), edges=edges)
    assert len({label for label, _ in found}) == len(found)
    assert all(isinstance(values, Lined) and values.boolean and values.unit == 1 for _, values in found)
    held = [0.0, 10.0, number, *(float(edge) for edge in edges if 0 <= edge <= 10)]
    frame = pl.DataFrame({"x": held}).select(values.read(pl.col("x")).alias(label) for label, values in found)
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
        (Interval(0, 1), [], "no list of numbers"),
        (Interval(0, 1), "01", "no list of numbers"),
        (Interval(0, 1), 3, "no list of numbers"),
        (Interval(0, 1), [0, 0, 1], "do not grow"),
        (Interval(0, 1), [1, 0], "do not grow"),
        (Interval(0, 1), [0, float("nan")], "edges is nan"),
        (Interval(0, 1), [0, "1"], "edges is of type str"),
        (read_domain([0, 1]), [0, 1], "values are listed"),
    ],
)
def test_edges_that_are_none_are_misuse(domain, edges, problem):
    with pytest.raises(Misuse, match=problem):
        indicators("x", domain, edges)
