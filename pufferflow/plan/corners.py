"""What sums over an interval can be, jointly: the corners between which a row moves all of them (M7).

A row moves from x to x'. Between its knots each function is a line, so the norm of the movement, which is convex in x
and in x', is largest at knots or at limits there. A square is no line; it is taken to be at either end of its range
whatever the others are, which allows more than there is.
"""

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pufferflow.expressions import Lined
from pufferflow.release.bars import Floats

_MOST = 512
_SLACK = 2.0**-27
"""Rounding to steps moves each sum by up to one step more, and the longest movement has at least 2^28 steps."""


def corners(lined: Sequence[Lined | None]) -> Floats:
    """Return the values of all functions at the corners, in steps, of shape (functions, corners); None is always 1.

    Where functions have slopes the values are a hair larger than they are, which covers the rounding of all of them.
    Of very many corners only the ends of each function's range are kept, in every combination of two.
    """
    straight = [one for one in lined if one is not None and not one.square]
    knots = sorted({knot for one in straight for knot in one.pieces.knots})
    rows = [_at_corners(one, knots) for one in lined]
    squares = [place for place, one in enumerate(lined) if one is not None and one.square]
    columns = np.unique(np.array(rows, dtype=np.float64), axis=1)
    for place in squares:
        one = lined[place]
        ends = (one.low, one.high) if one is not None else (1, 1)
        columns = np.concatenate([_with(columns, place, end) for end in ends], axis=1)
    if columns.shape[1] > _MOST:
        columns = np.stack([columns.min(axis=1), columns.max(axis=1)], axis=1)
    sloped = any(one is not None and not one.pieces.flat for one in lined)
    return columns * (1 + len(lined) * _SLACK) if sloped else columns


def _at_corners(one: Lined | None, knots: Sequence[Fraction]) -> list[int]:
    """Return the steps at every knot, and at both ends of every gap between knots."""
    count = len(knots) + 2 * max(len(knots) - 1, 0)
    if one is None:
        return [1] * max(count, 1)
    if one.square:
        return [one.low] * max(count, 1)
    pieces = one.pieces.cut(knots)
    ends = [line.on(x) for line, gap in zip(pieces.lines, itertools.pairwise(pieces.knots), strict=True) for x in gap]
    return [round(value / one.unit) for value in (*pieces.at, *ends)]


def _with(columns: Floats, place: int, value: int) -> Floats:
    changed = columns.copy()
    changed[place] = value
    return changed
