"""Where a row moves all sums of a batch jointly on an interval: the corners of their functions (M7).

A row moves from x to x'. Between its knots each function is a line, so the norm of the movement, which is convex in x
and in x', is largest at knots or at limits there. A square is no line; it is taken to be at either end of its range
whatever the others are, which allows more than there is.
"""

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from pufferflow.arrays import Floats
from pufferflow.expressions import OnInterval

MOST_CORNERS: Final = 512


def corners(lined: Sequence[OnInterval | None], *, from_nothing: bool) -> Floats:
    """Return the values of all functions at the corners, in steps, of shape (functions, corners); None is always 1.

    Values are a little larger than they are (`_slack`), which covers the rounding of all of them. Of very many corners
    only the ends of each function's range are kept, all low and all high, and where rows come `from_nothing` (whose
    value is 0) also all of them as far from 0 as they can be.
    """
    knots = sorted({knot for one in lined if one is not None and not one.square for knot in one.pieces.knots})
    columns = np.unique(np.array([_at_corners(one, knots) for one in lined], dtype=np.float64), axis=1)
    for place, one in enumerate(lined):
        if one is not None and one.square:
            low, high = columns.copy(), columns
            low[place], high[place] = one.low, one.high
            columns = np.concatenate([low, high], axis=1)
    if columns.shape[1] > MOST_CORNERS:
        columns = ends_of(columns, from_nothing=from_nothing)
    if columns.shape[1] == 1:
        columns = np.repeat(columns, 2, axis=1)  # two values of a secret that no sum distinguishes
    return columns * (1 + _slack(lined))


def ends_of(columns: Floats, *, from_nothing: bool) -> Floats:
    """Return columns between which functions move at least as far: all low and all high, and as far from 0 as any."""
    low, high = columns.min(axis=1), columns.max(axis=1)
    if not from_nothing:
        return np.stack([low, high], axis=1)
    farthest = np.maximum(np.abs(low), np.abs(high))
    return np.stack([np.minimum(low, 0), np.maximum(high, 0), farthest], axis=1)


def _slack(lined: Sequence[OnInterval | None]) -> float:
    """Return by how much the longest movement grows if each function is rounded to steps, relatively.

    A movement of r steps from end to end becomes at most two steps longer, and the longest of all functions together is
    no shorter than that of any one of them.
    """
    sloped = [one for one in lined if one is not None and not one.square and not one.pieces.flat]
    return sum(2 / max(one.high - one.low, 1) for one in sloped) * (1 + 2.0**-20)


def _at_corners(one: OnInterval | None, knots: Sequence[Fraction]) -> list[int]:
    """Return the steps at every knot, and at both ends of every gap between knots."""
    count = len(knots) + 2 * max(len(knots) - 1, 0)
    if one is None:
        return [1] * max(count, 1)
    if one.square:
        return [one.low] * max(count, 1)
    pieces = one.pieces.cut(knots)
    ends = [line.on(x) for line, gap in zip(pieces.lines, itertools.pairwise(pieces.knots), strict=True) for x in gap]
    return [round(value / one.unit) for value in (*pieces.at, *ends)]
