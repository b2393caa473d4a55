"""Functions that limits tie together: the extreme points of g's linear programs, all of them, for a few states (M20).

A linear-fractional program over {v > 0, v_e ≤ e^{D(e,f)}·v_f} is solved at an extreme ray: a v whose states are joined
by a tree of limits that hold with equality. With D closed under paths, two limits in a row can give way to one, so
every state is only above its neighbours in the tree, or only below them: trees between two sets of states suffice.
"""

import itertools
from functools import cache
from typing import Any

import numpy as np

from pufferflow.messages.stretches import Flags, Whole
from pufferflow.rounding import UNIT

Floats = np.typing.NDArray[np.float64]
MOST_STATES = 5
WIDEST = 600.0
"""Limits beyond this are not for plain exponentials."""


def members(size: int) -> Flags:
    """Return which states are in each set: shape (2^k, k).

    >>> members(2).astype(int).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    return np.asarray((np.arange(1 << size)[:, None] >> np.arange(size)) & 1 == 1)


def listed(rows: Floats, within: Floats) -> Floats:
    """Return the largest log ratio of means of an extreme function, laws of shape (targets, candidates, sources)."""
    u = _extreme(within)
    means = np.log1p(rows @ np.expm1(u).T) if within.max() <= 1 else np.log(rows @ np.exp(u).T)
    return np.asarray((means.max(axis=1)[:, None, :] - means.min(axis=1)[None, :, :]).max(axis=2))


def _extreme(within: Floats) -> Floats:
    """Return the logs of all extreme functions within the limits, each at most 0.

    Rounding may not lose one, so limits count as kept up to a few units.
    """
    closed = within.copy()
    for via in range(len(closed)):
        np.minimum(closed, (closed[:, via, None] + closed[None, via, :]) * (1 + UNIT), out=closed)
    tails, heads, paths = _trees(len(closed))
    u = (paths @ closed[tails, heads][:, :, None])[:, :, 0]
    room = 16 * len(closed) * UNIT * closed.max()
    u = u[(u[:, :, None] - u[:, None, :] <= closed + room).all(axis=(1, 2))]
    return u - u.max(axis=1, keepdims=True)


@cache
def _trees(size: int) -> tuple[Whole, Whole, Floats]:
    """Return all trees from upper to lower states: tails, heads, and the signed edges on the way from state 0."""
    trees: list[Any] = []
    for upper in members(size)[1:-1]:
        pairs = [(e, f) for e in np.flatnonzero(upper) for f in np.flatnonzero(~upper)]
        trees += itertools.combinations(pairs, size - 1)
    tails, heads = np.array(trees, dtype=np.intp).transpose(2, 0, 1)
    matrix = np.zeros((len(tails), size, size))
    each, edge = np.arange(len(tails))[:, None], np.arange(size - 1)
    matrix[each, edge, tails], matrix[each, edge, heads] = 1.0, -1.0
    matrix[:, -1, 0] = 1.0
    whole = np.abs(np.linalg.det(matrix)) > 0.5  # ±1 for a tree, 0 if edges close a circle
    return tails[whole], heads[whole], np.rint(np.linalg.inv(matrix[whole]))[:, :, :-1]
