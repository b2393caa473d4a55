"""Rounding towards privacy: a float that is never below the exact value it stands for."""

import math
from fractions import Fraction

UNIT = 2.0**-52
"""One unit in the last place of 1.0; a correctly rounded operation errs by at most half of it, relatively."""

SMALLEST = 5e-324
"""The smallest float above 0; what underflows to 0 is rounded up to it, so that nothing that can happen vanishes."""


def upwards(value: float, error: float = UNIT) -> float:
    """Return a float not below any number within relative `error` of `value` ≥ 0; zero and infinity stay."""
    return math.nextafter(value * (1.0 + error), math.inf) if value else value


def float_above(exact: Fraction | int) -> float:
    """Return the smallest float not below a rational number.

    >>> float_above(Fraction(1, 10)) == 0.1, float_above(Fraction(3, 10)) == 0.3
    (True, False)
    """
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.nextafter(math.inf, 0)  # the float next above −10⁴⁰⁰
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


def float_below(exact: Fraction | int) -> float:
    """Return the largest float not above a rational number."""
    return -float_above(-exact)
