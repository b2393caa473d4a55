"""Rounding towards privacy: floats never below what they stand for, and searches that end on the private side."""

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, cast

import msgspec
import numpy as np

from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import InternalError
from pufferflow.core.progress import check_time

UNIT = 2.0**-52
"""One unit in the last place of 1.0; a correctly rounded operation errs by at most half of it, relatively."""

SMALLEST = 5e-324
"""The smallest float above 0; what underflows to 0 is rounded up to it, so that nothing that can happen vanishes."""


_DECIMAL = re.compile(r"[0-9]+\.[0-9]+(?:e[-+]?[0-9]+)?|[0-9]+e[-+]?[0-9]+")
DIGITS = 1e-9
"""The relative difference within which numbers of two machines are equal up to rounding."""


def upwards(value: float, error: float = UNIT) -> float:
    """Return a float that is at least every number within relative `error` of `value` ≥ 0; zero and infinity stay."""
    return math.nextafter(value * (1.0 + error), math.inf) if value else value


def float_above(exact: Fraction | int) -> float:
    """Return the smallest float that is at least a rational number.

    >>> float_above(Fraction(1, 10)) == 0.1, float_above(Fraction(3, 10)) == 0.3
    (True, False)
    """
    try:
        nearest = float(exact)
    except OverflowError:
        return (
            math.inf if exact > 0 else -math.nextafter(math.inf, 0)
        )  # the float next above −10⁴⁰⁰
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


def float_below(exact: Fraction | int) -> float:
    """Return the largest float that is at most a rational number."""
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
    """Return floats that are at least all numbers within `relative` of `values` ≥ 0; zero and infinity stay."""
    with np.errstate(over="ignore"):
        return np.where(values > 0, np.nextafter(values * (1.0 + relative), np.inf), values)


def differences_outward(left: Floats, right: Floats) -> Floats:
    """Return left − right, rounded away from 0 to the nearest floats.

    >>> float(differences_outward(np.array(1.0), np.array(1e-20)))
    1.0
    >>> float(differences_outward(np.array(1.0), np.array(-1e-20))) > 1
    True
    """
    with np.errstate(over="ignore", invalid="ignore"):
        steps = left - right
        back = (
            steps - left
        )  # Knuth's two-sum of left and −right: `lost` is the exact error of `steps`
        lost = (left - (steps - back)) + (-right - back)
        further = np.nextafter(steps, np.copysign(np.inf, steps))
    outward = np.sign(lost) == np.sign(steps)
    return np.where(outward & (lost != 0), further, steps)


def distances_above(left: Floats, right: Floats) -> Floats:
    """Return the smallest floats that are at least |left − right|."""
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
        above = np.where(
            _moderate(left) & _moderate(right), missing > 0, (left != 0) & (right != 0)
        )
        further = np.nextafter(product, np.inf)
    return np.where((left == 0) | (right == 0), 0.0, np.where(above, further, product))


def sums_above(own: Floats, others: Floats) -> Floats:
    """Return sums of floats ≥ 0, rounded up only if there is something to add."""
    with np.errstate(over="ignore"):
        total = own + others
        further = np.nextafter(total, np.inf)
    whole = (total == np.rint(total)) & (others == np.rint(others)) & (total < 2.0**52)
    return np.where((others == 0) | whole & (own == np.rint(own)), total, further)


_SPLITTER = 2.0**27 + 1
_MODERATE = 2.0**400
_OF_MODERATE_PRODUCTS = 2.0**200


def quotient_above(dividend: Array, divisor: float) -> Array:
    """Return the smallest floats that are at least dividend / divisor, for dividends ≥ 0 and a divisor > 0.

    >>> quotient_above(np.array([1.0, 49.0]), 2.0), bool(quotient_above(np.array(1.0), 3.0) > 1 / 3)
    (array([ 0.5, 24.5]), True)
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        quotient = dividend / divisor
        product = quotient * divisor
        missing = (dividend - product) - _product_error(quotient, divisor, product)
        moderate = (np.abs(np.log2(np.maximum(quotient, SMALLEST))) < 400) & (
            1 / _MODERATE < divisor < _MODERATE
        )
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
    return tail * other_tail - (
        ((product - head * other_head) - tail * other_head) - head * other_tail
    )


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
        return type(one) is type(other) and agree(
            msgspec.structs.asdict(one), msgspec.structs.asdict(cast(Any, other))
        )
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        ours, theirs = cast(Mapping[Any, Any], one), cast(Mapping[Any, Any], other)
        return ours.keys() == theirs.keys() and all(
            agree(value, theirs[name]) for name, value in ours.items()
        )
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
    numbers = [
        [list(map(float, _DECIMAL.findall(text))) for text in texts] for texts in (one, other)
    ]
    return pair[0] == pair[1] and agree(*numbers)


_MOST_STEPS = 400
_OCTAVES = 60


def largest(holds: Callable[[float], bool], high: float = math.inf) -> float:
    """Return the largest float x ≥ 0 for which `holds(x)`, given that it holds from 0 up to some point below `high`.

    The ordering of floats is halved, so there is no tolerance: `holds` is true of the result and false of the float
    above it. If it holds for the largest finite float, that is the result.

    >>> largest(lambda x: x * x <= 2)
    1.414213562373095
    """
    low, above = 0, _position(high)
    if not holds(0.0):
        raise InternalError(
            "A loss is above 0 where nothing moves.", instead="reporting it to the maintainers"
        )
    while above - low > 1:
        middle = (low + above) // 2
        if holds(_float_at(middle)):
            low = middle
        else:
            above = middle
    return _float_at(low)


def smallest(excess: Callable[[float], float], high: float, tolerance: float) -> float:
    """Return an x ≤ `high` with excess(x) ≤ 0, within a relative `tolerance` of the least, for a falling `excess`.

    `high` has to be such an x. The bracket is closed by false position on log x, and halved where that is slow. The
    result is always its private end: an x for which the excess was computed and found to be at most 0.

    >>> round(smallest(lambda x: 2 / x - 1, high=64.0, tolerance=1e-12), 9)
    2.0
    """
    low, at_low, high, at_high = _bracket(excess, high)
    moved, slow = (
        0.0,
        0,
    )  # the end that a plain step has moved, and how often the bracket has hardly shrunk
    for _ in range(_MOST_STEPS):
        if low == 0 or high <= low * (1 + tolerance) or math.nextafter(low, math.inf) >= high:
            return high
        before = high / low
        guess = (
            _false_position(low, at_low, high, at_high)
            if slow < 3
            else math.sqrt(low) * math.sqrt(high)
        )
        doubled = moved > 0 and slow < 3
        if doubled:  # a step twice as long brings the other end near
            guess *= guess / moved
        nudge = 1 + tolerance / 2
        guess = min(max(guess, low * nudge), high / nudge)
        if not low < guess < high:
            return high
        check_time()
        at_guess = excess(guess)
        if at_guess <= 0:
            high, at_high = guess, at_guess
        else:
            low, at_low = guess, at_guess
        moved = 0.0 if doubled else guess
        slow = slow + 1 if math.log(high / low) > 0.5 * math.log(before) and slow < 3 else 0
    return high


def largest_without(excess: Callable[[float], float], start: float, tolerance: float) -> float:
    """Return an x > 0 with excess(x) ≤ 0, within a relative `tolerance` of the largest, for a rising `excess`.

    It is looked for from `start` on, which is near or above it; 0 if there is none within 60 octaves.

    >>> round(largest_without(lambda x: x / 2 - 1, start=64.0, tolerance=1e-12), 9)
    2.0
    """
    inverse = 1 / start
    while not excess(1 / inverse) <= 0:
        inverse *= 2
        if inverse > 2.0**_OCTAVES / start:
            return 0.0
    return 1 / smallest(lambda one: excess(1 / one), inverse, tolerance)


def _bracket(excess: Callable[[float], float], high: float) -> tuple[float, float, float, float]:
    """Return low with excess above 0, and the least x ≤ high met on the way whose excess is at most 0."""
    at_high, factor = excess(high), 2.0
    if not (at_high <= 0 and math.isfinite(high)):
        raise InternalError(
            "A search was started where the guarantee is not kept.",
            instead="reporting the call to the maintainers",
        )
    while True:
        low = high / factor
        if low == 0:
            return 0.0, math.inf, high, at_high
        at_low = excess(low)
        if not at_low <= 0:  # NaN is not kept
            return low, at_low, high, at_high
        high, at_high, factor = low, at_low, min(factor * factor, 2.0**64)


def _false_position(low: float, at_low: float, high: float, at_high: float) -> float:
    """Return where the line through both ends, over log x, crosses 0; their middle where there is no line."""
    if not (math.isfinite(at_low) and math.isfinite(at_high)) or at_low == at_high:
        return math.sqrt(low) * math.sqrt(high)
    share = at_low / (at_low - at_high)
    return low * math.exp(share * math.log(high / low))


def _position(number: float) -> int:
    """Return the place of a float ≥ 0 in the ordering of floats."""
    return struct.unpack("<q", struct.pack("<d", number))[0]


def _float_at(position: int) -> float:
    return struct.unpack("<d", struct.pack("<q", position))[0]
