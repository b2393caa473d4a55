"""Where a long sequence repeats itself: what was worked out for one period then serves for all of them."""

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.intp]
LONG = 512
"""How many rows are worth looking for repetitions in."""
_TIMES = 8
_LONGEST_PERIOD = 400
_PROBE = 20_000


@final
@dataclass(frozen=True)
class Stretch:
    """Steps start … end − 1, which repeat with a period; period 0 if they do not, or are too few to matter."""

    start: int
    end: int
    period: int


def stretches(code: Whole) -> list[Stretch]:
    """Cut a sequence into stretches that repeat with one period, the least that serves half of it, and others."""
    if len(code) >= LONG:
        for period in range(1, min(_LONGEST_PERIOD, len(code) // 8) + 1):
            if period == 1 or _covered(_cut(code[-_PROBE:], period)) >= min(len(code), _PROBE) / 2:
                found = _cut(code, period)
                if _covered(found) >= len(code) / 2:
                    return found
    return [Stretch(0, len(code), 0)]


def _covered(found: list[Stretch]) -> int:
    return sum(stretch.end - stretch.start for stretch in found if stretch.period)


def _cut(code: Whole, period: int) -> list[Stretch]:
    """Return the stretches that repeat with a period, if they do so for long, and what is between them."""
    same = code[period:] == code[:-period]
    ends = np.flatnonzero(np.diff(np.concatenate([[0], same.astype(np.int8), [0]])))
    found: list[Stretch] = []
    at = 0
    for first, last in zip(ends[::2].tolist(), ends[1::2].tolist(), strict=True):
        start, end = max(first, at), last + period
        if end - start >= max(LONG, _TIMES * period):
            found += [Stretch(at, start, 0)] * (start > at)
            found.append(Stretch(start, end, period))
            at = end
    return found + [Stretch(at, len(code), 0)] * (at < len(code))
