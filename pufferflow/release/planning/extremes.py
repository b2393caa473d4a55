"""The points between which a row moves the sums farthest: pairs of points that others dominate are left out.

A movement is dominated by another one if no sum moves farther in it. Under noise that is independent from sum to sum,
with densities that fall to both sides, it costs no more. So the pairs of points that no other dominates are enough.
"""

from typing import Final

import numpy as np

from pufferflow.core.arrays import Floats, Indices

_MOST_MOVES: Final = 1 << 22
"""Numbers of all movements that are compared at once."""
_MOST_ROUNDS: Final = 256


def undominated(moves: Floats) -> Indices:
    """Return the places of movements, of shape (sums, movements), that no other one dominates; each movement once.

    >>> undominated(np.array([[1.0, 2.0, 1.0, 2.0], [3.0, 1.0, 2.0, 1.0]])).tolist()
    [0, 1]
    """
    distinct, first = np.unique(moves, axis=1, return_index=True)
    order = np.argsort(-distinct.sum(axis=0), kind="stable")
    left, kept = distinct[:, order], list[int]()
    places = first[order]
    while len(places) and len(kept) < _MOST_ROUNDS:
        kept.append(int(places[0]))
        beyond = (left > left[:, [0]]).any(axis=0)
        left, places = left[:, beyond], places[beyond]
    return np.sort(np.array([*kept, *places.tolist()], dtype=np.intp))


def extreme_points(table: Floats, *, from_nothing: bool = False) -> Indices | None:
    """Return the places of points between which a row moves the sums as far as between any two.

    With `from_nothing` a row may also come and go, whose value is then 0. None if there are too many points.
    """
    if len(table) == 0:
        return np.zeros(1, dtype=np.intp)
    if len(table) == 1:
        return np.unique([int(table[0].argmin()), int(table[0].argmax())])
    distinct, first = np.unique(table, axis=1, return_index=True)
    points = np.pad(distinct, ((0, 0), (0, 1))) if from_nothing else distinct
    if points.shape[1] ** 2 * len(points) > 2 * _MOST_MOVES:
        return None
    left, right = np.triu_indices(points.shape[1], 1)
    pairs = undominated(np.abs(points[:, left] - points[:, right])) if len(left) else np.zeros(0, dtype=np.intp)
    chosen = np.unique([*left[pairs].tolist(), *right[pairs].tolist(), 0])
    return np.sort(first[chosen[chosen < len(first)]])
