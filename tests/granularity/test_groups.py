"""Totals of releases about groups, in closed form: reference numbers, and the enumeration of small classes."""

import itertools
import math

import numpy as np
import pytest
from small_classes import tables
from thinned import thinned

import pufferflow as pf
from pufferflow.granularity import (
    Overlapping,
    Part,
    Partition,
    Space,
    at_distance,
    bounded,
    in_place,
    k_rows,
    sensitivity,
    sum_sensitivity,
    together,
    unbounded,
)

SEVEN = [0.3, 0.7, 0.5, 0.2, 0.9, 0.1, 0.4]
REFERENCE = [
    (Partition(3), SEVEN[:3], unbounded, "pure", 0.7),
    (Overlapping(7, most=1), SEVEN, unbounded, "pure", 0.9),
    (Overlapping(7, most=1), SEVEN, bounded, "pure", 1.6),
    (Overlapping(7, most=1), SEVEN, bounded, "gdp", 1.140175425099138),
    (Overlapping(7, most=2), SEVEN, unbounded, "pure", 1.6),
    (Overlapping(7, most=2), SEVEN, unbounded, "gdp", 1.140175425099138),
    (Overlapping(7, most=2), SEVEN, bounded, "pure", 2.5),
    (Overlapping(7, most=3), SEVEN, bounded, "pure", 3.0),
    (Overlapping(7, most=3), SEVEN, bounded, "gdp", 1.3564659966250536),
]


@pytest.mark.parametrize(("groups", "losses", "notion", "kind", "value"), REFERENCE)
def test_totals_are_the_reference_numbers(groups, losses, notion, kind, value):
    """The largest losses that a change touches, added up (for GDP their squares)."""
    assert groups.total(losses, notion, kind) == pytest.approx(value, rel=1e-12)


KINDS = {
    **dict.fromkeys(["pure", "zcdp", "gdp"], float),
    "Approx": lambda number: pf.Approx(number, number / 100),
    "Zcdp": pf.Zcdp,
    "Gdp": pf.Gdp,
}
GROUPS = {
    "partition": Partition(["a", "b", "cd"]),
    "not all rows": Partition(["a", "b"]),
    "overlapping": Overlapping(["ab", "bc", "acd", "d"]),
}


def by_enumeration(groups, losses, notion, kind, sizes):
    """Return the losses of all neighbours, of mechanisms that read one group each and are private for whole tables.

    In place rows are pairs of a key, which says the groups and stays, and a value.
    """
    keyed, databases = notion is in_place, tables("abcd", sizes)
    if keyed:
        bits = list(itertools.product("01", repeat=2))
        databases = [tuple(zip(keys, some, strict=True)) for keys in databases for some in bits]
    space = Space(databases, notion.steps)

    def read(members):
        return lambda table: tuple(row for row in table if (row[0] if keyed else row) in members)

    found = together(
        space,
        [Part(read(some), loss) for some, loss in zip(groups.members, losses, strict=True)],
        kind,
    )
    return [
        found.loss(one, other)
        for one, other in itertools.combinations(databases, 2)
        if notion.related(one, other)
        and (not keyed or [row[0] for row in one] == [row[0] for row in other])
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("notion", [unbounded, bounded, in_place], ids=lambda notion: notion.name)
@pytest.mark.parametrize("name", GROUPS)
def test_closed_forms_are_those_of_enumeration(name, notion, kind):
    """Mechanisms private for whole tables that read one group: the largest loss of all neighbours, exactly."""
    groups = GROUPS[name]
    losses = [KINDS[kind](number) for number in SEVEN[: len(groups)]]
    numbers, sizes = kind if kind.islower() else "pure", range(3) if notion is unbounded else [2]
    found, total = (
        by_enumeration(groups, losses, notion, numbers, sizes),
        groups.total(losses, notion, numbers),
    )
    if kind == "Approx":
        assert (total.epsilon, total.delta) == (
            max(one.epsilon for one in found),
            max(one.delta for one in found),
        )
    elif kind in {"Zcdp", "Gdp"}:
        plain = groups.total(SEVEN[: len(groups)], notion, kind.lower())
        assert type(total)(plain) == total == max(found, key=lambda one: one.approx_epsilon(1e-6))
    else:
        assert total == max(found)


@pytest.mark.parametrize("seed", thinned(range(4), 0.25))
@pytest.mark.parametrize("notion", [unbounded, bounded])
def test_units_of_several_rows_are_never_below_enumeration(notion, seed):
    """k rows in whatever groups: all in the costliest ones, since losses grow at least in proportion (kε, k²ρ, kμ)."""
    rng = np.random.default_rng(seed)
    groups = Overlapping(["ab", "bc", "c"])
    space = Space.of(tables("abc", [3]) if notion is bounded else tables("abc", range(4)), notion)
    losses = rng.uniform(0.1, 1.0, 3).tolist()
    for kind, many in itertools.product(("pure", "zcdp", "gdp"), (1, 2, 3)):
        found = together(
            space, [Part(groups.part(at), loss) for at, loss in enumerate(losses)], kind
        )
        wide = k_rows(many, notion)
        exact = max(
            found.loss(a, b)
            for a, b in itertools.combinations(space.databases, 2)
            if wide.related(a, b)
        )
        total = groups.total(losses, wide, kind)
        assert exact <= total == pytest.approx(exact)


def test_one_row_of_a_unit_after_another():
    """kε, δ(e^{kε} − 1)/(e^ε − 1), k²ρ, kμ, never below the exact sum (M27)."""
    assert at_distance(0.3, 4) == 1.2
    assert at_distance(0.3, 4, "zcdp") == pytest.approx(4.8)
    assert at_distance(0.3, 4, "gdp") == pytest.approx(1.2)
    for epsilon, steps in itertools.product((0.0, 1e-9, 0.1, 1.0, 2.5), (1, 2, 5)):
        exact = 1e-6 * math.fsum(math.exp(step * epsilon) for step in range(steps))
        assert exact <= at_distance(pf.Approx(epsilon, 1e-6), steps).delta <= exact * (1 + 1e-12)


@pytest.mark.parametrize(("low", "high"), [(0, 5), (-2, 3), (5, 9), (-9, -5), (-4, -4)])
def test_sums_move_as_far_as_their_clipped_values_do(low, high):
    """max(|L|, |U|) for a row more or less, U − L where it is replaced in its group, else the largest (M27)."""
    values = sorted({low, high, (low + high) // 2})
    rows = [(group, value) for group in "xy" for value in values]
    sums = {a + b + c for a, b, c in itertools.product([*values, 0], repeat=3)}
    line = Space(sums, lambda one, other: abs(one - other))

    def total(table):
        return sum(value for group, value in table if group == "x")

    for notion, sizes in ((unbounded, range(3)), (bounded, [2])):
        assert sensitivity(total, Space.of(tables(rows, sizes), notion), line) == sum_sensitivity(
            low, high, notion
        )
    keyed = [(("x", one), ("y", other)) for one, other in itertools.product(values, repeat=2)]
    assert sensitivity(total, Space.of(keyed, in_place), line) == sum_sensitivity(
        low, high, in_place
    )
    assert sum_sensitivity(low, high, k_rows(3)) == 3 * max(abs(low), abs(high))


def test_groups_have_names():
    """Losses by name, in any order; a replacement pays for two groups, for three only where rows are in several."""
    groups = Partition({"north": "ab", "south": "c"})
    assert groups.total({"south": pf.Pure(0.7), "north": pf.Pure(0.3)}) == pf.Pure(0.7)
    assert len(groups) == 2
    assert (
        Overlapping({"north": "ab", "south": "bc", "west": "d"}).total([1.0, 2.0, 4.0], bounded)
        == 7.0
    )
    assert (
        Overlapping({"north": "ab", "south": "bc", "west": "b"}).total([1.0, 2.0, 4.0], bounded)
        == 7.0
    )
    assert Overlapping([["a"], ["b"]]).total([1.0, 2.0]) == 2.0
