"""Weights of rows whose presence is the secret: read within declared bounds, since they are as private as the rows.

A weight outside is read as the nearest bound, null and NaN as 0: such a row adds nothing. Whatever rows there are,
nothing fails, and what a row adds to a sum is a whole number of steps between those of the bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np

from pufferflow.core.arrays import Array, Floats
from pufferflow.core.rounding import float_above, float_below
from pufferflow.queries.engine_interface import Measure
from pufferflow.queries.expressions.values import Weight, fitting_unit

_BITS: Final = 30


@final
@dataclass(frozen=True)
class BoundedGrid:
    """The grid of a weight with bounds, and these in steps."""

    unit: Fraction
    least: int
    most: int

    @classmethod
    def of(cls, bounds: tuple[Fraction, Fraction]) -> "BoundedGrid":
        """Return the grid of 2^30 steps for the bound that is farther from 0; of 1 for bounds that are 0.

        >>> BoundedGrid.of((Fraction(0), Fraction(1))).steps(np.array([0.5, 7.0, -1.0, np.nan])) / 2**30
        array([0.5, 1. , 0. , 0. ])
        """
        unit = fitting_unit(max(map(abs, bounds)), _BITS)
        return cls(unit, round(bounds[0] / unit), round(bounds[1] / unit))

    def steps(self, weights: Floats) -> Array:
        """Return weights in whole steps, each rounded to the nearest within the bounds; NaN is 0."""
        exponent = self.unit.numerator.bit_length() - self.unit.denominator.bit_length()
        ends = float_below(self.least * self.unit), float_above(self.most * self.unit)
        inside = np.clip(np.nan_to_num(weights, nan=0.0, posinf=np.inf, neginf=-np.inf), *ends)
        steps = np.clip(np.rint(np.ldexp(inside, -exponent)), self.least, self.most)
        return np.where(np.isnan(weights), 0, steps).astype(np.int64)


def bounded_grids(measures: Sequence[Measure | None]) -> dict[Weight, BoundedGrid]:
    """Return the grids of the weights that have declared bounds."""
    found = (measure.values.weight for measure in measures if measure is not None)
    return {one: BoundedGrid.of(one.bounds) for one in found if one is not None and one.bounds is not None}
