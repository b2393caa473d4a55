"""Regions: what provably shares no row; sets of releases are never smaller than the truth."""

import itertools
import time

import msgspec
import numpy as np
import pytest

from pufferflow.accounting import overlapping_regions as regions
from pufferflow.accounting.overlapping_regions import overlapping
from pufferflow.core.errors import UsageError
from pufferflow.published.cost import Region


def number(*labels):
    return Region("number", labels=labels)


def at(**apart):
    return apart


UNIVERSE = (None, -0.5, 0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5)


def inside(region, value):
    """Membership, written down once more."""
    if region.labels is not None:
        return any(label == value and (label is None) == (value is None) for label in region.labels)
    if value is None:
        return False
    low = region.low is None or value > region.low or (value == region.low and not region.low_open)
    high = (
        region.high is None
        or value < region.high
        or (value == region.high and not region.high_open)
    )
    return low and high


def random_region(rng):
    if rng.random() < 0.5:
        some = rng.choice(len(UNIVERSE), int(rng.integers(1, 4)), replace=False)
        return number(*(UNIVERSE[i] for i in some))
    low, high = (None if rng.random() < 0.2 else int(v) for v in rng.integers(0, 4, 2))
    return Region(
        "number",
        low=low,
        high=high,
        low_open=bool(rng.integers(2)),
        high_open=bool(rng.integers(2)),
    )


def test_two_regions_meet_exactly_where_a_value_is_in_both():
    """Meeting and intersection agree with membership, value by value."""
    rng = np.random.default_rng(0)
    for _ in range(600):
        one, other = random_region(rng), random_region(rng)
        common = [value for value in UNIVERSE if inside(one, value) and inside(other, value)]
        assert one.meets(other) == other.meets(one) == bool(common)
        assert [value for value in UNIVERSE if inside(one.both(other), value)] == common


@pytest.mark.parametrize(
    ("one", "other", "meets"),
    [
        (number(1), number(1.0), True),
        (number(2**53), number(2**53 + 1), False),
        (number(10**30), number(10**30 + 1), False),
        (number(1), Region("text", labels=("1",)), True),
        (Region("bool", labels=(True,)), Region("bool", labels=(False,)), False),
        (Region("bool", labels=(True,)), number(1), True),
        (Region("date", labels=(86400,)), Region("moment", labels=(0,)), True),
        (Region("moment", low=5), Region("moment", high=5, high_open=True), False),
        (Region("text", labels=("a", None)), Region("text", labels=(None,)), True),
        (Region("text", low="b"), Region("text", labels=(None, "a")), False),
        (number(), number(1), False),
        (number(), Region("text", labels=("a",)), False),
    ],
)
def test_values_compare_as_what_they_are(one, other, meets):
    """Numbers compare exactly, kinds never, null with itself only."""
    assert one.meets(other) == other.meets(one) == meets


def test_equal_regions_are_stored_alike():
    """Order, repetition and the type of a number leave no trace; what is stored comes back."""
    assert number(2, 1.0, 1) == number(1, 2.0)
    assert msgspec.json.encode(number(2.0, 1)) == msgspec.json.encode(number(1, 2))
    for region in (
        number(1, 0.5, None),
        Region("text", labels=("b", "a")),
        Region("moment", low=3, high_open=True),
    ):
        assert msgspec.json.decode(msgspec.json.encode(region), type=Region) == region


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "number", "labels": (float("nan"),)},
        {"kind": "number", "low": float("inf")},
        {"kind": "number", "labels": (True,)},
        {"kind": "text", "labels": (1,)},
        {"kind": "date", "labels": (0.5,)},
        {"kind": "colour", "labels": ("red",)},
        {"kind": "number", "labels": (1,), "low": 0},
    ],
)
def test_what_cannot_be_kept_is_refused(fields):
    """A region has finite values of one kind, listed or between ends."""
    with pytest.raises(UsageError):
        Region(**fields)


def points_of(costs, columns):
    """All sets of costs at one point of a small universe, the maximal ones."""
    found = set()
    for point in itertools.product(UNIVERSE, repeat=len(columns)):
        there = frozenset(
            i
            for i, cost in enumerate(costs)
            if all(
                name not in cost or inside(cost[name], v)
                for name, v in zip(columns, point, strict=True)
            )
        )
        found.add(there)
    return {one for one in found if one and not any(one < other for other in found)}


@pytest.mark.parametrize("columns", [("a",), ("a", "b"), ("a", "b", "c")])
def test_sets_are_those_with_a_common_point(columns):
    """Against brute force over a small universe, with labels and ranges, which Helly's theorem does not cover."""
    rng = np.random.default_rng(len(columns))
    for _ in range(25):
        costs = [
            at(**{name: random_region(rng) for name in columns if rng.random() < 0.7})
            for _ in range(rng.integers(1, 7))
        ]
        found = {frozenset(some) for some in overlapping(costs, columns)}
        nowhere = {
            frozenset([i])
            for i, cost in enumerate(costs)
            if any(region.empty for region in cost.values())
        }
        assert {i for some in found for i in some} == set(range(len(costs)))
        assert {some for some in found if not any(some <= one for one in nowhere)} == points_of(
            costs, columns
        ) - nowhere


@pytest.mark.parametrize("most", [0, 5, 40])
def test_too_many_sets_are_joined_not_dropped(monkeypatch, most):
    """Whatever the budget, every set with a common point is in one of those returned."""
    monkeypatch.setattr(regions.Overlaps, "__init__", _with_budget(regions.Overlaps.__init__, most))
    rng = np.random.default_rng(5)
    for _ in range(20):
        costs = [at(a=random_region(rng), b=random_region(rng)) for _ in range(6)]
        found = [set(some) for some in overlapping(costs, ["a", "b"])]
        assert all(any(true <= some for some in found) for true in points_of(costs, ["a", "b"]))


def _with_budget(made, most):
    def init(self, *args):
        made(self, *args)
        self.left = most

    return init


def test_three_label_sets_that_meet_in_pairs_are_not_one_set():
    """{1,2}, {2,3}, {1,3} have no common value."""
    assert overlapping([at(a=number(1, 2)), at(a=number(2, 3)), at(a=number(1, 3))], ["a"]) == [
        [0, 1],
        [0, 2],
        [1, 2],
    ]


def test_kinds_do_not_separate():
    """A text and a number in one column may touch one row, two numbers not."""
    assert overlapping(
        [at(a=number(1)), at(a=number(2)), at(a=Region("text", labels=("x",)))], ["a"]
    ) == [
        [0, 2],
        [1, 2],
    ]


def test_columns_that_are_not_named_separate_nothing():
    """Only the columns given count; without any all costs are one set, and of no costs there is none."""
    costs = [at(a=number(1)), at(a=number(2))]
    assert overlapping(costs, []) == overlapping(costs, ["b"]) == [[0, 1]]
    assert overlapping([], ["a"]) == []


def test_single_labels_take_a_short_way_to_the_same_sets(monkeypatch):
    """One label each, some of them null, and costs without a region: as without the short way."""
    rng = np.random.default_rng(6)
    for _ in range(30):
        costs = [at(a=number(UNIVERSE[i])) if i < 4 else at() for i in rng.integers(0, 6, 7)]
        short = regions.overlapping(costs, ["a", "b"])
        with monkeypatch.context() as patch:
            patch.setattr(regions, "_single", lambda *_: None)
            assert short == regions.overlapping(costs, ["a", "b"])


def test_many_days_take_no_time():
    """Sets of 20 000 single days are found one by one, without comparing all with all."""
    costs = [at(day=Region("date", labels=(day,))) for day in range(20_000)]
    began = time.perf_counter()
    assert len(overlapping(costs, ["day"])) == len(costs)
    assert time.perf_counter() - began < 2.0
