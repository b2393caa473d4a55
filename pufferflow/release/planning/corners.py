"""Where a row moves all sums of a batch jointly on an interval: the corners of their functions (M7).

A row moves from x to x'. Between its knots each function is a line, so the norm of the movement, which is convex in x
and in x', is largest at knots or at limits there. A square is no line: it may be at either end of its
range whatever the others are, which bounds the movement from above.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.queries.expressions.interval import OnInterval
from pufferflow.queries.expressions.pieces import Line
from pufferflow.release.planning.folding import Folding

MOST_CORNERS: Final = 512


def corners(lined: Sequence[OnInterval | None], folding: Folding, *, from_nothing: bool) -> Floats:
    """Return the rows of all functions at the corners, in steps, of shape (rows, corners); None is always 1.

    Values are a little larger than they are (`_slack`), which covers the rounding of all of them. A set of functions of
    which few are above 0 at once moves as far as it can, whatever the others do. Of very many corners only the ends of
    each function's range are kept, all low and all high, and where rows come `from_nothing` (whose value is 0) also all
    of them as far from 0 as they can be.
    """
    alone = [lined[place] for place in folding.places]
    states = folding.states()
    columns = _columns(alone)
    if columns is None or columns.shape[1] * (states.shape[1] if len(states) else 1) > MOST_CORNERS:
        columns = ends_of(_ranges(alone), from_nothing=from_nothing)
        rows = np.concatenate([columns, states[:, [0, 1, 0][: columns.shape[1]]]])
    else:
        rows = with_states(columns, states)
    if rows.shape[1] == 1:
        rows = np.repeat(rows, 2, axis=1)  # two values of a secret that no sum distinguishes
    return rows * (1 + _slack(alone))


def with_states(columns: Floats, states: Floats) -> Floats:
    """Return every column with either state of the sets below it; the columns alone if there are no sets."""
    if not len(states):
        return columns
    points = columns.shape[1]
    return np.concatenate([np.tile(columns, 2), np.repeat(states, points, axis=1)])


def ends_of(columns: Floats, *, from_nothing: bool) -> Floats:
    """Return columns between which functions move at least as far: all low and all high, and as far from 0 as any."""
    if not len(columns):
        return np.zeros((0, 3 if from_nothing else 2))
    low, high = columns.min(axis=1), columns.max(axis=1)
    if not from_nothing:
        return np.stack([low, high], axis=1)
    farthest = np.maximum(np.abs(low), np.abs(high))
    return np.stack([np.minimum(low, 0), np.maximum(high, 0), farthest], axis=1)


def _columns(lined: Sequence[OnInterval | None]) -> Floats | None:
    """Return the different corners of some functions; None where they are too many."""
    own = [one for one in lined if one is not None and not one.square]
    knots = sorted({knot for one in own for knot in one.pieces.knots})
    if len(knots) > MOST_CORNERS:
        return None
    rank = {knot: place for place, knot in enumerate(knots)}
    table = np.array([_at_corners(one, knots, rank) for one in lined], dtype=np.float64)
    columns = np.unique(table, axis=1) if len(table) else np.zeros((0, 1))
    for place, one in enumerate(lined):
        if one is not None and one.square:
            low, high = columns.copy(), columns
            low[place], high[place] = one.low, one.high
            columns = np.concatenate([low, high], axis=1)
    return columns


def _ranges(lined: Sequence[OnInterval | None]) -> Floats:
    """Return the least and the largest value of each function."""
    ends = [(1, 1) if one is None else (one.low, one.high) for one in lined]
    return np.array(ends, dtype=np.float64).reshape(-1, 2)


def _slack(lined: Sequence[OnInterval | None]) -> float:
    """Return by how much the longest movement grows if each function is rounded to steps, relatively.

    A movement of r steps from end to end becomes at most two steps longer, and the longest of all functions together is
    no shorter than that of any one of them.
    """
    sloped = [one for one in lined if one is not None and not one.square and not one.pieces.flat]
    return sum(2 / max(one.high - one.low, 1) for one in sloped) * (1 + 2.0**-20)


def _at_corners(one: OnInterval | None, knots: Sequence[Fraction], rank: dict[Fraction, int]) -> Floats:
    """Return the steps at every knot, then at both ends of every gap between knots."""
    at_knots, in_gaps = np.ones(max(len(knots), 1)), np.ones((max(len(knots) - 1, 0), 2))
    if one is None or one.square:
        level = 1 if one is None else one.low
        return np.concatenate([at_knots, in_gaps.ravel()]) * level
    places = [rank[knot] for knot in one.pieces.knots]
    at_knots[places] = [round(value / one.unit) for value in one.pieces.at]
    for start, end, line in zip(places, places[1:], one.pieces.lines, strict=False):
        own = _on_line(line, knots[start : end + 1], one.unit)
        at_knots[start + 1 : end] = own[1:-1]
        in_gaps[start:end] = np.stack([own[:-1], own[1:]], axis=1)
    return np.concatenate([at_knots, in_gaps.ravel()])


def _on_line(line: Line, knots: Sequence[Fraction], unit: Fraction) -> Floats:
    """Return the steps of a line at some knots."""
    if not line.slope:
        return np.full(len(knots), float(round(line.intercept / unit)))
    return np.array([round(line.on(x) / unit) for x in knots], dtype=np.float64)
