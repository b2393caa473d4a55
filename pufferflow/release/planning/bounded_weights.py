"""The sums of rows that may be absent, with their weights, as tables: φ at every point times the bounds of the weight.

What a row adds to the sums, w∘φ(x), is linear in each weight. So between two rows, and between a row and none, the
norm of the movement is largest where every weight is at one of its bounds, or is 0: where it is missing (M7).
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.engines.bounded_weights import BoundedGrid, bounded_grids
from pufferflow.queries.engine_interface import Measure
from pufferflow.queries.expressions.values import Weight
from pufferflow.release.planning.corners import MOST_CORNERS, ends_of

_DIGITS: Final = 40
_FEWEST_DIGITS: Final = 10


def with_bounds(measures: Sequence[Measure | None], values: Floats) -> Floats:
    """Return the functions at all points with all weights at either bound, in steps of both grids.

    Of very many such corners only the ends of each function's range are kept (`ends_of`).
    """
    grids = bounded_grids(measures)
    if not grids:
        return values
    factors = {weight: _factors(measures, weight, grid) for weight, grid in grids.items()}
    if values.shape[1] * 2 ** len(grids) > MOST_CORNERS:
        return _ends(values, list(factors.values()))
    for own in factors.values():
        values = np.concatenate([values * own[:, [0]], values * own[:, [1]]], axis=1)
    values = np.unique(values, axis=1)
    return np.repeat(values, 2, axis=1) if values.shape[1] == 1 else values


def width(measure: Measure | None) -> Fraction:
    """Return the width of the steps in which a sum is counted."""
    if measure is None:
        return Fraction(1)
    weight = measure.values.weight
    bounds = None if weight is None else weight.bounds
    return measure.values.unit * (1 if bounds is None else BoundedGrid.of(bounds).unit)


def _factors(measures: Sequence[Measure | None], weight: Weight, grid: BoundedGrid) -> Floats:
    """Return the bounds of a weight for the sums that have it, in steps and with 0 between them, and 1 for others."""
    factors = np.ones((len(measures), 2))
    for place, measure in enumerate(measures):
        if measure is not None and measure.values.weight == weight:
            bits = max(abs(measure.values.low), abs(measure.values.high)).bit_length()
            digits = max(_DIGITS - bits, _FEWEST_DIGITS)
            factors[place] = -_short(max(-grid.least, 0), digits), _short(max(grid.most, 0), digits)
    return factors


def _short(steps: int, digits: int) -> float:
    """Return a whole number rounded up to few digits, so that products of it with others are exact floats."""
    cut = max(steps.bit_length() - digits, 0)
    return float(-(-steps >> cut) << cut)


def _ends(values: Floats, factors: Sequence[Floats]) -> Floats:
    low, high = values.min(axis=1), values.max(axis=1)
    for own in factors:
        products = np.stack([end * own[:, side] for end in (low, high) for side in (0, 1)])
        low, high = products.min(axis=0), products.max(axis=0)
    return ends_of(np.stack([low, high], axis=1), from_nothing=True)
