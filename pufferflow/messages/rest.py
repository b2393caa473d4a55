"""The search for where messages come to rest; what it finds is a guess, and checked by others (M20)."""

from collections.abc import Callable

import numpy as np

from pufferflow.messages.steps import Floats

Turn = Callable[[Floats], Floats]
"""What one turn makes of a message."""
ENDLESS = 1e5
"""How many times the largest exposure messages may grow before they count as growing for ever."""
_CLOSE = 1e-11
_ROUNDING = 1e-12
_MOST_CYCLES = 200
_BOLDEST = 8.0


def doubled(turn: Turn, message: Floats, size: float) -> Floats:
    """Return what turns make of a message until it is twice as large: tangents that grow for ever may flatten later."""
    most = 2 * float(message.max()) + size
    for _ in range(_MOST_CYCLES):
        following = turn(message)
        if float(following.max()) > most:
            break
        message = following
    return message


def still(turn: Turn, message: Floats, size: float) -> tuple[Floats, float] | None:
    """Return where turns come to rest, by extrapolating what is geometric in their changes, and the rate of it."""
    rate, calmest = 0.0, np.inf
    for _ in range(_MOST_CYCLES):
        second = turn(message)
        third = turn(second)
        before, after = float(np.abs(second - message).max()), float(np.abs(third - second).max())
        if after > 0 and before > _ROUNDING * size:
            rate = max(min(after / before, 1.0), rate / 2)
        message = third
        if after <= _CLOSE * max(size, float(third.max())):
            break
        if float(third.max()) > ENDLESS * max(size, 1.0):
            return None
        # a guess may stir up what is not geometric: let that die down before the next one
        if after < min(before, calmest):
            calmest = after
            guess = (third - second) * (after / (before - after))
            far = _BOLDEST * max(size, float(third.max())) / max(float(np.abs(guess).max()), size)
            message = np.maximum(third + guess * min(far, 1.0), 0.0)
    return message, rate
