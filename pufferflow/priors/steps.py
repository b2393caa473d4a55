"""Steps of a sequence: whole numbers, or durations counted in nanoseconds."""

import re
from datetime import timedelta

from pufferflow.errors import Misuse

UNITS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
    "w": 7 * 86400 * 10**9,
}
_DURATION = re.compile(r"(\d+)(ns|us|ms|s|m|h|d|w)")


def read_step(step: object) -> tuple[int, bool]:
    """Return a step as a whole number, and whether it counts nanoseconds.

    >>> read_step("1h30m"), read_step(2)
    ((5400000000000, True), (2, False))
    """
    if isinstance(step, int) and not isinstance(step, bool) and step > 0:
        return step, False
    size = 0
    if isinstance(step, timedelta):
        size = step // timedelta(microseconds=1) * 1000
    elif isinstance(step, str) and "".join(map("".join, _DURATION.findall(step))) == step:
        size = sum(int(count) * UNITS[unit] for count, unit in _DURATION.findall(step))
    if size > 0:
        return size, True
    shown = repr(step) if isinstance(step, str | int | float) else f"of type {type(step).__name__}"
    raise Misuse(
        f"step is {shown}.",
        allowed="a whole number > 0, or a duration such as '15m', '1h', '1d'",
        instead='step="1h"',
    )


def step_in_words(size: int) -> str:
    """Return nanoseconds as a duration that could be typed.

    >>> step_in_words(5400000000000)
    '90m'
    """
    unit = max((name for name in UNITS if size % UNITS[name] == 0), key=lambda name: UNITS[name])
    return f"{size // UNITS[unit]}{unit}"
