"""Periodic stretches of a long sequence: results for one period hold for all of them."""

from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.core.arrays import Flags, Indices

LONG = 512
"""The least number of rows in which repetitions are searched."""
LONGEST_PERIOD = 400
"""The longest period that is found."""
_TIMES = 8
_PROBE = 20_000


@final
@dataclass(frozen=True)
class Stretch:
    """Steps start … end − 1, which repeat with a period; period 0 if they do not, or are too few to matter."""

    start: int
    end: int
    period: int


def stretches(code: Indices) -> list[Stretch]:
    """Cut a sequence into stretches that repeat with one period, the least that covers half of it, and others."""
    if len(code) >= LONG:
        for period in range(1, min(LONGEST_PERIOD, len(code) // 8) + 1):
            if period == 1 or _periodic_length(_cut_by_period(code[-_PROBE:], period)) >= min(len(code), _PROBE) / 2:
                cut = _cut_by_period(code, period)
                if _periodic_length(cut) >= len(code) / 2:
                    return cut
    return [Stretch(0, len(code), 0)]


def _periodic_length(cut: list[Stretch]) -> int:
    return sum(stretch.end - stretch.start for stretch in cut if stretch.period)


def _cut_by_period(code: Indices, period: int) -> list[Stretch]:
    """Return the long stretches that repeat with a period, and the stretches between them."""
    same = code[period:] == code[:-period]
    ends = np.flatnonzero(np.diff(np.concatenate([[0], same.astype(np.int8), [0]])))
    cut: list[Stretch] = []
    at = 0
    for first, last in zip(ends[::2].tolist(), ends[1::2].tolist(), strict=True):
        start, end = max(first, at), last + period
        if end - start >= max(LONG, _TIMES * period):
            cut += [Stretch(at, start, 0)] * (start > at)
            cut.append(Stretch(start, end, period))
            at = end
    return cut + [Stretch(at, len(code), 0)] * (at < len(code))


def reachable_states(links: Flags, order: Indices, first: Flags) -> tuple[Flags, Indices]:
    """Follow the states that row 0 can have through links `links[order[t]]`: sets of states, and each row's set."""
    places, masks = dict[bytes, int](), list[Flags]()
    mask_of = np.empty(len(order) + 1, dtype=np.intp)

    def write(mask: Flags, at: int) -> Flags:
        mask_of[at] = places.setdefault(mask.tobytes(), len(masks))
        if mask_of[at] == len(masks):
            masks.append(mask)
        return mask

    mask = write(first, 0)
    for stretch in stretches(order):
        period = stretch.period
        for at in range(stretch.start, stretch.end):
            mask = write(np.asarray(links[order[at]][mask].any(axis=0)), at + 1)
            done = at + 1 - stretch.start
            if period and done >= period and mask_of[at + 1] == mask_of[at + 1 - period]:
                tile_into(mask_of[at + 2 : stretch.end + 1], mask_of[at + 2 - period : at + 2].copy())
                mask = masks[int(mask_of[stretch.end])]
                break
    return np.array(masks), mask_of


def tile_into(target: Indices, places: Indices) -> None:
    """Fill an array with repetitions of a few numbers, in order."""
    turns = len(target) // len(places)
    whole = turns * len(places)
    target[:whole].reshape(turns, len(places))[:] = places
    target[whole:] = places[: len(target) - whole]


def tile(places: Indices, length: int) -> Indices:
    """Return a few numbers repeated in order up to a length; faster than `np.resize` where they are many.

    >>> tile(np.array([5, 7]), 5).tolist()
    [5, 7, 5, 7, 5]
    """
    tiled = np.empty(length, dtype=np.intp)
    tile_into(tiled, places)
    return tiled
