"""How far apart expectations can lie under two rows of a kernel, of a function that changes little (M20).

`spread` maximises log(p·v / q·v) over v > 0 with v_e ≤ e^{D(e,f)}·v_f. In u = log v these are bounds on differences;
the maximum is taken at a vertex: a tree of constraints that hold with equality. The search walks from vertex to vertex
as the network simplex does, all pairs of rows at once, starting at the stars (all states tied to one), which are the
only vertices for up to three states.

Where it stops, the tree itself is the proof (linear programming duality). Cut it at an edge v_e = e^{D(e,f)} v_f, and
let C be the part without the root. With a = p·v and b = q·v spread over the states and normalised, no v does better
than (1 + kτ) times this one if a(C) ≥ (1 − τ)·b(C) wherever C holds the edge's e, and a(C) ≤ (1 + τ)·b(C) wherever it
holds f. Whatever τ is when the walk ends is measured, with the rounding of the sums, and added. So the result is never
below the maximum, however the walk went.
"""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pufferflow.messages.stretches import Whole
from pufferflow.rounding import UNIT

Floats = npt.NDArray[np.float64]
_TIE = 2.0**-40
_MOST_AT_ONCE = 1 << 20


def spread(top: Floats, bottom: Floats, limits: Floats) -> Floats:
    """Return max log(top·v / bottom·v) for every pair of rows, rounded up, over v with v_e ≤ e^{limits[e,f]}·v_f.

    `top` and `bottom` hold laws on k states, of shape (N, k); `limits` is a k×k matrix ≥ 0 with zeros on its diagonal.

    >>> spread(np.array([[0.9, 0.1]]), np.array([[0.1, 0.9]]), np.array([[0, 1.0], [1.0, 0]])).round(6)
    array([0.776137])
    """
    closed = shortest(limits)
    widest = float(closed.max())
    if widest == 0 or not len(top):
        return np.zeros(len(top))
    if widest == math.inf:
        return np.full(len(top), math.inf)
    apart = _untied(closed, widest)
    with np.errstate(divide="ignore"):
        log_top, log_bottom = np.log(top), np.log(bottom)
    rows = max(_MOST_AT_ONCE // closed.size, 1)
    found = [_walk(log_top[at : at + rows], log_bottom[at : at + rows], apart) for at in range(0, len(top), rows)]
    return np.minimum(np.concatenate(found), widest)


def shortest(limits: Floats) -> Floats:
    """Return the limits that follow from all limits together: shortest paths; rounded up."""
    closed = limits.copy()
    with np.errstate(over="ignore"):  # no path is longer than ∞
        for via in range(len(closed)):
            np.minimum(closed, (closed[:, via, None] + closed[None, via, :]) * (1 + UNIT), out=closed)
    return closed


def _untied(closed: Floats, widest: float) -> Floats:
    """Return limits a hair larger, so that no two paths are equally long: a walk cannot turn in circles.

    Every limit grows by 1 to 1.5 hairs, so a detour, which takes two, is longer than the way itself.
    """
    size = len(closed)
    hairs = 1 + np.random.default_rng(size).random((size, size)) / 2
    apart = closed + hairs * widest * _TIE
    np.fill_diagonal(apart, 0.0)
    return apart


@final
@dataclass(frozen=True, eq=False)
class _Trees:
    """Trees of constraints that hold: edge (e, f) says v_e = e^{D(e,f)} v_f; both parts have shape (N, k − 1)."""

    tails: Whole
    heads: Whole

    def at(self, index: npt.NDArray[Any]) -> "_Trees":
        """Return some of them."""
        return _Trees(self.tails[index], self.heads[index])

    def paths(self) -> Floats:
        """Return the signed edges on the way from state 0 to every state: shape (N, k, k − 1)."""
        count, edges = self.tails.shape
        matrix = np.zeros((count, edges + 1, edges + 1))
        row, column = np.indices(self.tails.shape)
        matrix[row, column, self.tails] = 1.0
        matrix[row, column, self.heads] = -1.0
        matrix[:, edges, 0] = 1.0
        return np.rint(np.linalg.inv(matrix))[:, :, :edges]


def _walk(log_top: Floats, log_bottom: Floats, limits: Floats) -> Floats:
    """Walk from the best star of each problem to its best vertex."""
    trees = _best_stars(log_top, log_bottom, limits)
    found = np.empty(len(log_top))
    active = np.arange(len(log_top))
    size = len(limits)
    tolerance, most = 4 * size * UNIT, 20 * size
    for step in range(most + 1):
        paths = trees.paths()
        u = (paths * limits[trees.tails, trees.heads][:, None, :]).sum(axis=2)
        first, second = log_top[active] + u, log_bottom[active] + u
        log_a, log_b = _log_sum(first), _log_sum(second)
        beyond = _imbalance(first - log_a[:, None], second - log_b[:, None], paths)
        worst = beyond.argmax(axis=1)
        most_beyond = beyond.max(axis=1)
        slack = 8 * size * UNIT * (1 + np.abs(u).max(axis=1))
        with np.errstate(over="ignore"):
            found[active] = log_a - log_b + np.log1p((size + 1) * np.maximum(most_beyond, tolerance)) + slack
        go = most_beyond > tolerance
        if step == most or not go.any():
            break
        active = active[go]
        trees = _pivot(trees.at(go), worst[go], paths[go], u[go], limits)
    return found


def _best_stars(log_top: Floats, log_bottom: Floats, limits: Floats) -> _Trees:
    """Return the star with the largest ratio for each problem."""
    size = len(limits)
    stars = np.concatenate([limits.T, -limits])  # all v as high as one state allows, or as low
    ratios = _log_sum(log_top[:, None, :] + stars) - _log_sum(log_bottom[:, None, :] + stars)
    best = ratios.argmax(axis=1)
    centre = best % size
    others = np.array([[state for state in range(size) if state != c] for c in range(size)], dtype=np.intp)[centre]
    middle = np.broadcast_to(centre[:, None], others.shape)
    high = (best < size)[:, None]
    return _Trees(np.where(high, others, middle), np.where(high, middle, others))


def _imbalance(log_a: Floats, log_b: Floats, paths: Floats) -> Floats:
    """Return for each edge by how much, relatively, the part it cuts off is on the wrong side: τ where above 0."""
    within = paths != 0
    a = _log_sum(np.where(within, log_a[:, :, None], -math.inf), axis=1)
    b = _log_sum(np.where(within, log_b[:, :, None], -math.inf), axis=1)
    holds_tail = paths.sum(axis=1) > 0
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.where(holds_tail, -np.expm1(a - b), np.expm1(a - b))
    return np.where(np.isnan(gap), 0.0, gap)  # neither row reaches the part


def _pivot(trees: _Trees, leaving: Whole, paths: Floats, u: Floats, limits: Floats) -> _Trees:
    """Let go of one edge of each tree, lift its head's side until another edge holds, and take that one."""
    rows = np.arange(len(leaving))
    column = paths[rows, :, leaving]
    cut_off = np.asarray(column != 0)
    lifted = np.where((column.sum(axis=1) > 0)[:, None], ~cut_off, cut_off)
    room = limits[None] - (u[:, :, None] - u[:, None, :])
    room = np.where(lifted[:, :, None] & ~lifted[:, None, :], room, math.inf)
    entering = room.reshape(len(rows), -1).argmin(axis=1)
    tails, heads = trees.tails.copy(), trees.heads.copy()
    tails[rows, leaving], heads[rows, leaving] = np.divmod(entering, len(limits))
    return _Trees(tails, heads)


def _log_sum(terms: Any, axis: int = -1) -> Floats:
    """Return the log of sums of exponentials; −∞ where there is nothing."""
    top = terms.max(axis=axis, keepdims=True)
    with np.errstate(divide="ignore", under="ignore"):
        total = np.log(np.exp(terms - np.where(np.isfinite(top), top, 0.0)).sum(axis=axis))
    return total + np.where(np.isfinite(top), top, 0.0).squeeze(axis)
