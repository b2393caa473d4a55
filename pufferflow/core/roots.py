"""Monotone searches that end on the side they guarantee, whatever the tolerance."""

import math
import struct
from collections.abc import Callable

from pufferflow.core.errors import InternalError
from pufferflow.core.progress import check_time

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
        raise InternalError("A loss is above 0 where nothing moves.", instead="reporting it to the maintainers")
    while above - low > 1:
        middle = (low + above) // 2
        if holds(_float_at(middle)):
            low = middle
        else:
            above = middle
    return _float_at(low)


def smallest(excess: Callable[[float], float], high: float, tolerance: float) -> float:
    """Return an x ≤ `high` with excess(x) ≤ 0, within a relative `tolerance` of the least, for a falling `excess`.

    `high` has to be such an x. The bracket is closed by false position on log x, and halved where that is slow; what is
    returned is always its private end, an x for which the excess was computed and found to be no more than 0.

    >>> round(smallest(lambda x: 2 / x - 1, high=64.0, tolerance=1e-12), 9)
    2.0
    """
    low, at_low, high, at_high = _bracket(excess, high)
    moved, slow = 0.0, 0  # the end that a plain step has moved, and how often the bracket has hardly shrunk
    for _ in range(_MOST_STEPS):
        if low == 0 or high <= low * (1 + tolerance) or math.nextafter(low, math.inf) >= high:
            return high
        before = high / low
        guess = _false_position(low, at_low, high, at_high) if slow < 3 else math.sqrt(low) * math.sqrt(high)
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
    """Return low with excess above 0, and the least x ≤ high met on the way for which it is not."""
    at_high, factor = excess(high), 2.0
    if not (at_high <= 0 and math.isfinite(high)):
        raise InternalError(
            "A search was started where the guarantee is not kept.", instead="reporting the call to the maintainers"
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
