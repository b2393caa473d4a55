"""Rounding towards privacy: floats, and arrays of them, that are never below the exact values they stand for."""

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, cast

import msgspec
import numpy as np

from pufferflow.core.arrays import Array, Floats

UNIT = 2.0**-52
"""One unit in the last place of 1.0; a correctly rounded operation errs by at most half of it, relatively."""

SMALLEST = 5e-324
"""The smallest float above 0; what underflows to 0 is rounded up to it, so that nothing that can happen vanishes."""


_DECIMAL = re.compile(r"[0-9]+\.[0-9]+(?:e[-+]?[0-9]+)?|[0-9]+e[-+]?[0-9]+")
DIGITS = 1e-9
"""The relative difference within which numbers of two machines are equal up to rounding."""


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


def log_above(ratio: Fraction) -> float:
    """Return the log of a rational number ≥ 1 of any size, rounded up.

    >>> log_above(Fraction(1)), round(log_above(Fraction(3)), 6)
    (0.0, 1.098612)
    """
    if ratio == 1:
        return 0.0
    if ratio < 2:
        found = math.log1p(float_above(ratio - 1))
    else:  # the log of a quotient of whole numbers that no float holds
        shift = ratio.numerator.bit_length() - ratio.denominator.bit_length()
        found = math.log(float_above(ratio / 2**shift)) + shift * math.log(2)
    return math.nextafter(found * (1 + 4 * UNIT), math.inf)


def lifted(values: Array, relative: float = UNIT) -> Array:
    """Return floats not below any numbers within `relative` of `values` ≥ 0; zero and infinity stay."""
    with np.errstate(over="ignore"):
        return np.where(values > 0, np.nextafter(values * (1.0 + relative), np.inf), values)


def differences_outward(left: Floats, right: Floats) -> Floats:
    """Return left − right as the floats nearest to 0 that are not nearer to it than the exact difference.

    >>> float(differences_outward(np.array(1.0), np.array(1e-20)))
    1.0
    >>> float(differences_outward(np.array(1.0), np.array(-1e-20))) > 1
    True
    """
    with np.errstate(over="ignore", invalid="ignore"):
        steps = left - right
        back = steps - left  # Knuth's two-sum of left and −right: `lost` is the exact error of `steps`
        lost = (left - (steps - back)) + (-right - back)
        further = np.nextafter(steps, np.copysign(np.inf, steps))
    outward = np.sign(lost) == np.sign(steps)
    return np.where(outward & (lost != 0), further, steps)


def distances_above(left: Floats, right: Floats) -> Floats:
    """Return the smallest floats not below |left − right|."""
    return np.abs(differences_outward(left, right))


def products_above(left: Floats, right: Floats) -> Floats:
    """Return |left·right| rounded up, to the next float where the product is of moderate size; 0 only if a factor is.

    >>> products_above(np.array([0.1, 3.0, 1e-300]), np.array([3.0, 0.0, 1e-300])).tolist()
    [0.30000000000000004, 0.0, 5e-324]
    """
    left, right = np.abs(left), np.abs(right)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        product = left * right
        missing = _product_error(left, right, product)
        above = np.where(_moderate(left) & _moderate(right), missing > 0, (left != 0) & (right != 0))
        further = np.nextafter(product, np.inf)
    return np.where((left == 0) | (right == 0), 0.0, np.where(above, further, product))


def sums_above(own: Floats, others: Floats) -> Floats:
    """Return sums of floats ≥ 0, rounded up only where there is something to add."""
    with np.errstate(over="ignore"):
        total = own + others
        further = np.nextafter(total, np.inf)
    whole = (total == np.rint(total)) & (others == np.rint(others)) & (total < 2.0**52)
    return np.where((others == 0) | whole & (own == np.rint(own)), total, further)


_SPLITTER = 2.0**27 + 1
_MODERATE = 2.0**400
_OF_MODERATE_PRODUCTS = 2.0**200


def quotient_above(dividend: Array, divisor: float) -> Array:
    """Return the smallest floats not below dividend / divisor, for dividends ≥ 0 and a divisor > 0.

    >>> quotient_above(np.array([1.0, 49.0]), 2.0), bool(quotient_above(np.array(1.0), 3.0) > 1 / 3)
    (array([ 0.5, 24.5]), True)
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        quotient = dividend / divisor
        product = quotient * divisor
        missing = (dividend - product) - _product_error(quotient, divisor, product)
        moderate = (np.abs(np.log2(np.maximum(quotient, SMALLEST))) < 400) & (1 / _MODERATE < divisor < _MODERATE)
        above = np.where(moderate, missing > 0, dividend > 0)
        further = np.nextafter(quotient, np.inf)
    return np.where(above, further, quotient)


def _moderate(factor: Array) -> Array:
    """Return whether the errors of a product with another such factor are floats, and not the smallest ones."""
    return (factor < _OF_MODERATE_PRODUCTS) & ((factor > 1 / _OF_MODERATE_PRODUCTS) | (factor == 0))


def _product_error(left: Array, right: Array | float, product: Array) -> Array:
    """Return left·right − product exactly (Dekker's product), for factors of moderate size."""
    head, tail = _halves(left)
    other_head, other_tail = _halves(np.asarray(right))
    return tail * other_tail - (((product - head * other_head) - tail * other_head) - head * other_tail)


def _halves(number: Array) -> tuple[Array, Array]:
    """Return two floats of 26 bits each with the given sum (Veltkamp's split)."""
    under_model_error = number * _SPLITTER
    head = under_model_error - (under_model_error - number)
    return head, number - head


def agree(one: object, other: object) -> bool:
    """Return whether two plain values, or structs of such, are equal up to the last digits of their floats.

    >>> agree({"scale": 2.0, "rows": 3}, {"scale": 2.0 + 1e-12, "rows": 3}), agree(2.0, 2.0001), agree([1], [2])
    (True, False, False)
    """
    if isinstance(one, float) and isinstance(other, float):
        return one == other or math.isclose(one, other, rel_tol=DIGITS)
    if isinstance(one, msgspec.Struct):
        return type(one) is type(other) and agree(msgspec.structs.asdict(one), msgspec.structs.asdict(cast(Any, other)))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        ours, theirs = cast(Mapping[Any, Any], one), cast(Mapping[Any, Any], other)
        return ours.keys() == theirs.keys() and all(agree(value, theirs[name]) for name, value in ours.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        pair = cast(Sequence[Any], one), cast(Sequence[Any], other)
        return len(pair[0]) == len(pair[1]) and all(map(agree, *pair))
    return one == other


def agree_in_words(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether texts are equal up to the last digits of the numbers in them.

    >>> agree_in_words(["Pure(epsilon=0.3)"], ["Pure(epsilon=0.30000000000000004)"])
    True
    """
    pair = [[_DECIMAL.split(text) for text in texts] for texts in (one, other)]
    numbers = [[list(map(float, _DECIMAL.findall(text))) for text in texts] for texts in (one, other)]
    return pair[0] == pair[1] and agree(*numbers)
