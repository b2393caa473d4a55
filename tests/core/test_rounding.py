"""Rounding towards privacy, against exact fractions: of floats of every size, and of those that nearly cancel."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from pufferflow.core.rounding import (
    SMALLEST,
    distances_above,
    products_above,
    quotient_above,
    sums_above,
)

LARGEST = 1.7976931348623157e308
ENDS = [0.0, SMALLEST, 1e-300, 0.1, 0.3, 1.0, 3.0, 2.0**53, 1e160, LARGEST]


def pairs():
    rng = np.random.default_rng(3)
    sizes = np.concatenate([rng.integers(-1074, 1024, 1500), rng.integers(-60, 60, 1500)])
    some = np.ldexp(rng.uniform(0.5, 1, 3000), sizes)
    others = np.where(
        rng.random(3000) < 0.5,
        some * (1 + rng.integers(-3, 4, 3000) * 2.0**-52),
        rng.permutation(some),
    )
    ends = np.array(list(itertools.product(ENDS, repeat=2)))
    return np.concatenate([ends[:, 0], some]), np.concatenate(
        [ends[:, 1], np.minimum(others, LARGEST)]
    )


def above(exact):
    """Return the smallest float that is not below a fraction."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def test_distances_are_the_smallest_floats_that_are_not_below():
    left, right = pairs()
    for signs in (1, -1):
        exact = [
            above(abs(Fraction(a) - signs * Fraction(b))) for a, b in zip(left, right, strict=True)
        ]
        assert distances_above(left, signs * right).tolist() == exact


@pytest.mark.parametrize(
    ("rounded", "exactly"),
    [
        (products_above, lambda a, b: a * b),
        (sums_above, lambda a, b: a + b),
        (
            lambda a, b: np.stack([quotient_above(x, y or 1.0) for x, y in zip(a, b, strict=True)]),
            lambda a, b: a / (b or 1),
        ),
    ],
    ids=["products", "sums", "quotients"],
)
def test_others_are_not_below_and_one_step_up_at_most(rounded, exactly):
    """Nor do they warn where they are beyond all floats."""
    left, right = pairs()
    found = rounded(left, right)
    for a, b, value in zip(map(Fraction, left), map(Fraction, right), found.tolist(), strict=True):
        least = above(exactly(a, b))
        assert value in {least, math.nextafter(least, math.inf)}
