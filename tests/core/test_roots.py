"""Monotone searches end on the side they guarantee."""

import math

import pytest

from pufferflow.core.rounding import largest, smallest


@pytest.mark.parametrize("root", [5e-324, 1e-300, 0.3, 1.0, 7e11, 1.7e308])
def test_largest_finds_the_very_float(root):
    """`largest` returns the last float for which the condition holds."""
    assert largest(lambda x: x <= root) == root


def test_largest_of_what_always_holds_is_the_largest_float():
    """Where the condition never fails, the search ends at the end of the floats."""
    assert largest(lambda x: x >= 0) == math.nextafter(math.inf, 0)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-12])
@pytest.mark.parametrize("root", [1e-200, 3e-7, 1.0, 41.25, 6e99])
@pytest.mark.parametrize("shape", ["inverse", "steep", "flat", "jump", "infinite"])
def test_smallest_ends_on_the_private_side(shape, root, tolerance):
    """`smallest` never returns a point above the allowed loss, and is within the tolerance of the least one."""
    shapes = {
        "inverse": lambda x: math.log(root) - math.log(x),
        "steep": lambda x: 40 * (math.log(root) - math.log(x)),
        "flat": lambda x: 1e-9 * (math.log(root) - math.log(x)) ** 3,
        "jump": lambda x: 1.0 if x < root else -1.0,
        "infinite": lambda x: math.inf if x < root else -math.inf,
    }
    excess = shapes[shape]
    found = smallest(excess, root * 1e6, tolerance)
    assert excess(found) <= 0
    assert found <= root * (1 + 1.01 * tolerance)


def test_smallest_of_what_is_always_private_is_tiny():
    """Where no noise is too little, the search goes down to the end of the floats."""
    assert smallest(lambda _: -1.0, 1.0, 1e-9) < 1e-300


def test_smallest_takes_few_steps():
    """A smooth excess is solved in a handful of evaluations, whatever the distance to the start."""
    calls = []
    smallest(lambda x: calls.append(x) or math.log(3.7 / x), 1e30, 1e-10)
    assert len(calls) < 40
