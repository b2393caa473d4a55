"""The largest log ratio of the means of one function under two laws (M20's g), known exactly or up to a region.

Three methods for known laws maximise log(p·v / q·v) over functions v > 0 with v_e ≤ e^{D(e,f)}·v_f. D is closed under
paths, and many pairs of laws (p, q) are solved at once. No result is ever below the maximum. In u = log v the
constraints are bounds on differences.

*Vertices* (`largest_log_ratio`). The maximum is taken at a vertex: a tree of constraints that hold with equality. The
search walks from vertex to vertex as the network simplex does. It starts at the stars (all states joined to one), the
only vertices for up to three states. Where it stops, the tree itself is the proof (linear programming duality). Cut it
at an edge v_e = e^{D(e,f)} v_f, and let C be the part without the root. Let a = p·v and b = q·v, spread over the states
and normalised. Suppose a(C) ≥ (1 − τ)·b(C) wherever C holds the edge's e, and a(C) ≤ (1 + τ)·b(C) wherever it holds f.
Then no v does better than (1 + kτ) times this one. The τ at the end of the walk is computed, with the rounding of the
sums, and added.

*Plans* (`bounds_by_plans`), for many states. The slope in u is a − b, so the next u to try is the dual of a transport
problem: carry a to b at costs D. Repeating that step is Newton's method on a piecewise linear program. It ends after a
few steps, at the maximum, when a plan uses only limits that hold with equality. POT solves each transport problem. Any
plan is a proof. Let s(e, ·) be the shares in which a plan carries e's mass. Let λ be the largest Σ_e p_e s(e,f)
e^{D(e,f)} / q_f. Then p·v = Σ p_e s(e,f) v_e ≤ Σ_f v_f Σ_e p_e s(e,f) e^{D(e,f)} ≤ λ·q·v. So log λ, rounded up, is
never below the maximum, for any plan.

*Extreme points* (`extreme_log_ratios`), all of them, for a few states. With D closed under paths, one limit can replace
two consecutive ones of a tree. So every state is only above its neighbours in the tree, or only below them: trees
between two sets of states suffice.

Laws may also be known up to a region: every cell lies between two bounds, and the law near a centre in total variation.
All results bound every member of the regions, the two laws of a pair chosen independently. A member gives a set A of
states at least P̲(A) and at most P̄(A): by the bounds of the cells inside, of those outside, and by the centre, from
which its total variation is at most `radius`.

*A few states* (`MOST_STATES`). For one pair of laws the ratio is largest at an extreme v. So all members are bounded by
the largest mean of an extreme v over its least mean. In layers, a mean of v is Σ (v_i − v_{i+1}) P(A_i) over the sets
A_i where v is largest. With P̄ or P̲ in it, the sum bounds every member.

*Up to `_MOST_ON_LINE`.* The states stand in a line, and only the limits between neighbours are kept. That allows more
v, all of them means of those that rise or fall as far as allowed at every step. The bound is as sharp where limits add
up along the line, as those of one sum with Laplace noise do.

*Up to `_MOST_IN_SETS`.* Any v lies between e^{−r} and 1, with r the largest limit. The extreme ones are 1 on a set A
and e^{−r} elsewhere.

*Any number.* p·v/q·v = (p·v/p°·v)·(p°·v/q°·v)·(q°·v/q·v) for the centres p°, q°. Let v be largest at i, and r_i the
largest limit ℓ(i, x). Then v_i − min v ≤ v_i(1 − e^{−r_i}) and p°·v ≥ v_i Σ p°_x e^{−ℓ(i,x)}. A member p carries at
most its radius τ from anywhere to i. So p·v/p°·v ≤ 1 + s, with s the largest over i of τ(1 − e^{−r_i})/Σ p°_x
e^{−ℓ(i,x)}. In the same way q·v/q°·v ≥ 1 − s'.

No ratio is larger than the largest limit. States without a limit above 0 between them count as one: v is the same.
"""

import itertools
import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices, log_sum
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.emd import small_plans

_TIE = 2.0**-40
_MOST_AT_ONCE = 1 << 20


def largest_log_ratio(top: Floats, bottom: Floats, limits: Floats) -> Floats:
    """Return max log(top·v / bottom·v) for every pair of rows, rounded up, over v with v_e ≤ e^{limits[e,f]}·v_f.

    `top` and `bottom` hold laws on k states, of shape (N, k); `limits` is a k×k matrix ≥ 0 with zeros on its diagonal.

    >>> largest_log_ratio(np.array([[0.9, 0.1]]), np.array([[0.1, 0.9]]), np.array([[0, 1.0], [1.0, 0]])).round(6)
    array([0.776137])
    """
    closed = shortest(limits)
    widest = float(closed.max())
    if widest == 0 or not len(top):
        return np.zeros(len(top))
    if widest == math.inf:
        return np.full(len(top), math.inf)
    # limits larger by 1 to 1.5 times _TIE of the widest, so that no two paths are equally long and a walk cannot cycle:
    # a detour, which uses two limits, is longer than the direct one
    perturbed = (
        closed + (1 + np.random.default_rng(len(closed)).random(closed.shape) / 2) * widest * _TIE
    )
    np.fill_diagonal(perturbed, 0.0)
    with np.errstate(divide="ignore"):
        log_top, log_bottom = np.log(top), np.log(bottom)
    rows = max(_MOST_AT_ONCE // closed.size, 1)
    ratios = [
        _walk_to_vertices(log_top[at : at + rows], log_bottom[at : at + rows], perturbed)
        for at in range(0, len(top), rows)
    ]
    return np.minimum(np.concatenate(ratios), widest)


def shortest(limits: Floats) -> Floats:
    """Return the limits that follow from all limits together, by shortest paths; rounded up."""
    closed = limits.copy()
    with np.errstate(over="ignore"):  # no path is longer than ∞
        for via in range(len(closed)):
            np.minimum(
                closed, (closed[:, via, None] + closed[None, via, :]) * (1 + UNIT), out=closed
            )
    return closed


@final
@dataclass(frozen=True, eq=False)
class _Trees:
    """Trees of constraints that hold: edge (e, f) says v_e = e^{D(e,f)} v_f; both parts have shape (N, k − 1)."""

    tails: Indices
    heads: Indices

    def paths(self) -> Floats:
        """Return the signed edges on the way from state 0 to every state: shape (N, k, k − 1)."""
        count, edges = self.tails.shape
        matrix = np.zeros((count, edges + 1, edges + 1))
        row, column = np.indices(self.tails.shape)
        matrix[row, column, self.tails] = 1.0
        matrix[row, column, self.heads] = -1.0
        matrix[:, edges, 0] = 1.0
        return np.rint(np.linalg.inv(matrix))[:, :, :edges]


def _walk_to_vertices(log_top: Floats, log_bottom: Floats, limits: Floats) -> Floats:
    """Walk from the best star of each problem to its best vertex."""
    trees = _best_stars(log_top, log_bottom, limits)
    ratios = np.empty(len(log_top))
    active = np.arange(len(log_top))
    size = len(limits)
    tolerance, max_steps = 4 * size * UNIT, 20 * size
    for step in range(max_steps + 1):
        paths = trees.paths()
        u = (paths * limits[trees.tails, trees.heads][:, None, :]).sum(axis=2)
        first, second = log_top[active] + u, log_bottom[active] + u
        log_a, log_b = log_sum(first), log_sum(second)
        excesses = _cut_imbalance(first - log_a[:, None], second - log_b[:, None], paths)
        worst = excesses.argmax(axis=1)
        largest_excess = excesses.max(axis=1)
        slack = 8 * size * UNIT * (1 + np.abs(u).max(axis=1))
        with np.errstate(over="ignore"):
            ratios[active] = (
                log_a - log_b + np.log1p((size + 1) * np.maximum(largest_excess, tolerance)) + slack
            )
        unfinished = largest_excess > tolerance
        if step == max_steps or not unfinished.any():
            break
        active = active[unfinished]
        trees = _pivot(
            _Trees(trees.tails[unfinished], trees.heads[unfinished]),
            worst[unfinished],
            paths[unfinished],
            u[unfinished],
            limits,
        )
    return ratios


def _best_stars(log_top: Floats, log_bottom: Floats, limits: Floats) -> _Trees:
    """Return the star with the largest ratio for each problem."""
    size = len(limits)
    stars = np.concatenate([limits.T, -limits])  # all v as large as one state allows, or as small
    ratios = log_sum(log_top[:, None, :] + stars) - log_sum(log_bottom[:, None, :] + stars)
    best = ratios.argmax(axis=1)
    centre = best % size
    others = np.array(
        [[state for state in range(size) if state != c] for c in range(size)], dtype=np.intp
    )[centre]
    middle = np.broadcast_to(centre[:, None], others.shape)
    high = (best < size)[:, None]
    return _Trees(np.where(high, others, middle), np.where(high, middle, others))


def _cut_imbalance(log_a: Floats, log_b: Floats, paths: Floats) -> Floats:
    """Return for each edge the relative violation by the part that it cuts off: τ where above 0."""
    within = paths != 0
    a = log_sum(np.where(within, log_a[:, :, None], -math.inf), axis=1)
    b = log_sum(np.where(within, log_b[:, :, None], -math.inf), axis=1)
    holds_tail = paths.sum(axis=1) > 0
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.where(holds_tail, -np.expm1(a - b), np.expm1(a - b))
    return np.where(np.isnan(gap), 0.0, gap)  # neither row reaches the part


def _pivot(trees: _Trees, leaving: Indices, paths: Floats, u: Floats, limits: Floats) -> _Trees:
    """Exchange one edge of each tree: raise the side of its head until another limit holds, and use that edge."""
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


FLAT = 12.0
"""The largest limit at which plans are accurate in floats."""
FLATTEST = 100.0
"""Limits beyond this are not for plain exponentials."""
_MOST_WORK = 3e7
_LOOSE = 1e-8
_CLOSE = 1e-9
_MOST_SWEEPS = 24
_AT_ONCE = 1 << 22


@final
@dataclass(frozen=True, eq=False)
class Tangent:
    """A message as a linear function of the limits it was computed from, with the derivatives `slopes`."""

    message: Floats
    pairs: tuple[Indices, Indices]
    sources: Indices
    closed: Floats
    heights: Floats
    slopes: Any

    def send(self, limits: Floats) -> Floats:
        """Return the message of limits near those of the tangent, to first order."""
        message = self.message.copy()
        closed = shortest(limits[np.ix_(self.sources, self.sources)])
        message[self.pairs] += self.slopes @ (closed - self.closed).ravel()
        return np.maximum(message, 0.0)


@final
@dataclass(frozen=True, eq=False)
class PlanBounds:
    """The bounds found for some pairs of rows: `above` is proven, `below` attained, by functions with logs `heights`.

    `slopes` are the derivatives of a bound by each limit, of shape (N, k²): the plans.
    """

    above: Floats
    below: Floats
    heights: Floats
    slopes: Floats


def bounds_by_plans_or_vertices(
    top: Floats, bottom: Floats, closed: Floats, heights: Floats | None = None
) -> PlanBounds:
    """Return `bounds_by_plans`; where limits are too large for the accuracy of plans, use vertices.

    With too many states for that, bounds are proven, but may be far above the attained ones.
    """
    bounds = bounds_by_plans(top, bottom, closed, heights)
    widest, size = float(closed.max()), len(closed)
    rough = np.flatnonzero(bounds.above - bounds.below > _LOOSE * widest)
    if len(rough) and len(rough) * size**3 <= _MOST_WORK:
        bounds.above[rough] = np.minimum(
            bounds.above[rough], largest_log_ratio(top[rough], bottom[rough], closed)
        )
    return bounds


def bounds_by_plans(
    top: Floats,
    bottom: Floats,
    closed: Floats,
    heights: Floats | None = None,
    sweeps: int = _MOST_SWEEPS,
) -> PlanBounds:
    """Return bounds on max log(top·v / bottom·v) over v_e ≤ e^{closed[e,f]}·v_f, starting from logs of v, if given.

    >>> bounds = bounds_by_plans(np.array([[0.9, 0.1]]), np.array([[0.1, 0.9]]), np.array([[0, 1.0], [1.0, 0]]))
    >>> bounds.above.round(6), bool(bounds.above - bounds.below < 1e-9)
    (array([0.776137]), True)
    """
    count, size = len(top), len(closed)
    bounds = PlanBounds(
        np.full(count, np.inf),
        np.full(count, -np.inf),
        _fit_heights(np.zeros(top.shape) if heights is None else heights, closed),
        np.zeros((count, size * size)),
    )
    widest, active = float(closed.max()), np.arange(count, dtype=np.intp)
    for _ in range(sweeps):
        chunk = max(_AT_ONCE // (size * size), 1)
        for at in range(0, len(active), chunk):
            part = active[at : at + chunk]
            _improve_bounds(bounds, part, top[part], bottom[part], closed)
        active = active[(bounds.above - bounds.below)[active] > _CLOSE * widest]
        if not len(active):
            break
    return bounds


def _improve_bounds(
    bounds: PlanBounds, part: Indices, top: Floats, bottom: Floats, closed: Floats
) -> None:
    """Take one Newton step for the pairs `part`, and keep the better bounds."""
    a, b = (rows * np.exp(bounds.heights[part]) for rows in (top, bottom))
    plans, heights = small_plans(
        a / a.sum(axis=1, keepdims=True), b / b.sum(axis=1, keepdims=True), closed
    )
    heights = _fit_heights(heights, closed)
    above = _log_bounds_of_plans(top, bottom, plans, closed)
    with np.errstate(divide="ignore"):
        below = np.log((top * np.exp(heights)).sum(axis=1)) - np.log(
            (bottom * np.exp(heights)).sum(axis=1)
        )
    bounds.slopes[part] = plans.reshape(-1, closed.size)
    bounds.above[part] = np.minimum(above, bounds.above[part])
    bounds.below[part] = np.maximum(below, bounds.below[part])
    bounds.heights[part] = heights


def _fit_heights(heights: Floats, closed: Floats) -> Floats:
    """Return the largest functions that keep the limits below given ones, with 0 as their largest value."""
    fitted = np.stack([(row + heights).min(axis=1) for row in closed], axis=1)
    return fitted - fitted.max(axis=1, keepdims=True)


def _log_bounds_of_plans(top: Floats, bottom: Floats, plans: Floats, closed: Floats) -> Floats:
    """Return log λ of each plan, rounded up.

    A plan's entries have rounding errors, which matter where q is small. So no state receives more than its share; the
    rest goes to the state with the largest q.
    """
    size = len(closed)
    gains = np.exp(closed)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        whole = plans.sum(axis=2)
        carried = plans * np.where(whole > 0, top / whole, 0.0)[:, :, None]
        loads = np.einsum("nef,ef->nf", carried, gains)
        aim = (loads.sum(axis=1) / bottom.sum(axis=1))[:, None] * bottom
        carried *= np.where(loads > aim, aim / loads, 1.0)[:, None, :]
        left = np.maximum(top * (1 + 2 * size * UNIT) - carried.sum(axis=2), 0.0)
        largest = bottom.argmax(axis=1)
        loads = np.minimum(loads, aim)
        loads[np.arange(len(top)), largest] += (left * gains.T[largest]).sum(axis=1)
        # sums of k products of exponentials: off by a few units for each, rounded up
        rounded = (
            np.log(np.where(bottom > 0, loads / bottom, 0.0).max(axis=1)) + 8 * (size + 8) * UNIT
        )
    return np.where(np.isfinite(rounded), rounded, np.inf)


MOST_STATES = 5
WIDEST = 600.0
"""Limits beyond this are not for plain exponentials."""


def members(size: int) -> Flags:
    """Return the members of each set of states, as flags of shape (2^k, k).

    >>> members(2).astype(int).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    return np.asarray((np.arange(1 << size)[:, None] >> np.arange(size)) & 1 == 1)


def extreme_log_ratios(rows: Floats, within: Floats) -> Floats:
    """Return the largest log ratio of means of an extreme function, laws of shape (targets, candidates, sources)."""
    u = extreme_heights(within)
    means = np.log1p(rows @ np.expm1(u).T) if within.max() <= 1 else np.log(rows @ np.exp(u).T)
    return np.asarray((means.max(axis=1)[:, None, :] - means.min(axis=1)[None, :, :]).max(axis=2))


def extreme_heights(within: Floats) -> Floats:
    """Return the logs of all extreme functions within the limits, each at most 0.

    Limits count as kept up to a few units, so that rounding loses none.
    """
    closed = shortest(within)
    tails, heads, paths = _trees(len(closed))
    u = (paths @ closed[tails, heads][:, :, None])[:, :, 0]
    room = 16 * len(closed) * UNIT * closed.max()
    u = u[(u[:, :, None] - u[:, None, :] <= closed + room).all(axis=(1, 2))]
    return u - u.max(axis=1, keepdims=True)


@cache
def _trees(size: int) -> tuple[Indices, Indices, Floats]:
    """Return all trees from upper to lower states: tails, heads, and the signed edges on the way from state 0."""
    trees: list[Any] = []
    for upper in members(size)[1:-1]:
        pairs = [(e, f) for e in np.flatnonzero(upper) for f in np.flatnonzero(~upper)]
        trees += itertools.combinations(pairs, size - 1)
    tails, heads = np.array(trees, dtype=np.intp).transpose(2, 0, 1)
    matrix = np.zeros((len(tails), size, size))
    rows, edge = np.arange(len(tails))[:, None], np.arange(size - 1)
    matrix[rows, edge, tails], matrix[rows, edge, heads] = 1.0, -1.0
    matrix[:, -1, 0] = 1.0
    spanning = np.abs(np.linalg.det(matrix)) > 0.5  # ±1 for a tree, 0 if edges close a cycle
    return tails[spanning], heads[spanning], np.rint(np.linalg.inv(matrix[spanning]))[:, :, :-1]


_MOST_REGIONS_AT_ONCE = 1 << 21
_MOST_ON_LINE = 13
_MOST_IN_SETS = 10


@final
@dataclass(frozen=True, eq=False)
class LawRegions:
    """Laws p with `low` ≤ p ≤ `high` no farther than `radius` from `centre`: arrays (laws, states), radius (laws,)."""

    centre: Floats
    low: Floats
    high: Floats
    radius: Floats

    @classmethod
    def of(
        cls, centre: Floats, low: Floats, high: Floats, radius: Floats | float = 1.0
    ) -> "LawRegions":
        """Return regions; no law between bounds is farther from the centre than either side allows.

        >>> LawRegions.of(np.array([[0.5, 0.5]]), np.array([[0.4, 0.3]]), np.array([[0.6, 0.9]])).radius.round(6)
        array([0.3])
        """
        reach = np.minimum((high - centre).clip(0).sum(axis=1), (centre - low).clip(0).sum(axis=1))
        reach *= 1 + 4 * centre.shape[1] * UNIT
        wide = np.minimum(reach + 4 * centre.shape[1] * UNIT, radius)
        return cls(centre, low, high, np.minimum(np.where(reach > 0, wide, 0.0), 1.0))

    @classmethod
    def known(cls, laws: Floats) -> "LawRegions":
        """Return the regions of laws that are known: one member each."""
        return cls(laws, laws, laws, np.zeros(len(laws)))

    def __len__(self) -> int:
        return len(self.centre)

    @property
    def states(self) -> int:
        """The number of states."""
        return self.centre.shape[1]

    def some(self, places: Indices) -> "LawRegions":
        """Return some of the regions, in the given order."""
        return LawRegions(
            self.centre[places], self.low[places], self.high[places], self.radius[places]
        )

    @cached_property
    def key(self) -> bytes:
        """A byte string that identifies regions of one shape."""
        return b"".join(part.tobytes() for part in (self.centre, self.low, self.high, self.radius))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LawRegions)
            and self.centre.shape == other.centre.shape
            and self.key == other.key
        )

    def __hash__(self) -> int:
        return hash(self.key)

    def lumped(self, groups: Indices) -> "LawRegions":
        """Return the regions of the laws of groups of states, which are numbered from 0."""
        inside: Floats = np.eye(int(groups.max()) + 1)[groups]
        low, high, centre = self.low @ inside, self.high @ inside, self.centre @ inside
        error = 4 * self.states * UNIT
        least = np.maximum(low, 1 - (self.high.sum(axis=1, keepdims=True) - high) - error).clip(0)
        most = np.minimum(high, 1 - (self.low.sum(axis=1, keepdims=True) - low) + error).clip(0, 1)
        return LawRegions.of(
            centre, np.minimum(least, centre), np.maximum(most, centre), self.radius
        )

    def largest_mean(self, heights: Floats) -> Floats:
        """Return upper bounds on the means of functions of the state under every member: of shape (laws, functions)."""
        return self._mean(heights, most=True)

    def least_mean(self, heights: Floats) -> Floats:
        """Return lower bounds on the means of functions of the state under every member."""
        return self._mean(heights, most=False)

    def _mean(self, heights: Floats, *, most: bool) -> Floats:
        order = np.argsort(-heights, axis=1)
        falling = np.take_along_axis(heights, order, axis=1)
        drops = falling[:, :-1] - falling[:, 1:]
        parts = self.low, self.high, self.centre
        low, high, centre = (np.cumsum(part[:, order], axis=2, dtype=np.float64) for part in parts)
        error = 4 * self.states * UNIT  # the rounding error of subtracting, outwards
        radius = self.radius[:, None, None] + error
        if most:
            rest = 1 - (low[..., -1:] - low) + error
            sets = np.minimum(np.minimum(high, rest), np.minimum(centre + radius, 1.0))
        else:
            rest = 1 - (high[..., -1:] - high) - error
            sets = np.maximum(np.maximum(low, rest), np.maximum(centre - radius, 0.0))
        return (sets[..., :-1] * drops).sum(axis=2) + falling[:, -1]


def region_log_ratio(top: LawRegions, bottom: LawRegions, limits: Floats) -> Floats:
    """Return a bound on max log(p·v / q·v) over members p, q of pairs of regions and v_e ≤ e^{limits[e,f]}·v_f.

    >>> near = LawRegions.of(np.array([[0.5, 0.5]]), np.array([[0.4, 0.4]]), np.array([[0.6, 0.6]]))
    >>> region_log_ratio(near, near, np.array([[0, 1.0], [1.0, 0]])).round(6)
    array([0.185376])
    """
    closed = shortest(limits)
    widest = float(closed.max(initial=0.0))
    if widest == 0 or not len(top):
        return np.zeros(len(top))
    _, first, groups = np.unique(
        (closed == 0) & (closed.T == 0), axis=0, return_index=True, return_inverse=True
    )
    if len(first) < len(closed):
        groups = groups.reshape(-1)
        return region_log_ratio(
            top.lumped(groups), bottom.lumped(groups), closed[np.ix_(first, first)]
        )
    ratios = _bounds(top, bottom, closed, widest)
    # a few units for each state, since laws and sums are rounded; where the lower mean is 0 the limit counts
    padded = np.where(np.isfinite(ratios), ratios + 32 * (top.states + 4) * UNIT, np.inf)
    return np.clip(padded, 0.0, widest)


def region_log_ratio_of_few(
    top: LawRegions, bottom: LawRegions, limits: Floats, gains: Floats
) -> Floats:
    """Return the same of a few states where likelihoods also grow by `gains`, logs: max log(Σ p_e·e^{g_e}·v_e / q·v).

    >>> known = LawRegions.known(np.array([[0.5, 0.5]]))
    >>> region_log_ratio_of_few(known, known, np.array([[0, 1.0], [1.0, 0]]), np.array([0.2, 0.2])).round(9)
    array([0.2])
    """
    if not np.isfinite(gains).all() or not np.isfinite(limits).all():
        return np.full(len(top), np.inf)
    most = float(gains.max())
    u = extreme_heights(limits) if len(limits) > 1 else np.zeros((1, 1))
    ratios = np.empty(len(top))
    width = max(_MOST_REGIONS_AT_ONCE // u.size, 1)
    for start in range(0, len(top), width):
        part = np.arange(start, min(start + width, len(top)))
        with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
            above = np.log(
                top.some(part).largest_mean(
                    np.exp(np.maximum(u, -WIDEST) + np.maximum(gains - most, -WIDEST))
                )
            )
            below = np.log(bottom.some(part).least_mean(np.exp(u)))
            ratios[part] = np.nan_to_num(above - below, nan=np.inf, posinf=np.inf).max(axis=1)
    return np.maximum(most + ratios + 32 * (top.states + 4) * UNIT * (1 + most), 0.0)


def _bounds(top: LawRegions, bottom: LawRegions, closed: Floats, widest: float) -> Floats:
    """Return the smallest of the bounds available for this number of states."""
    if top.states <= MOST_STATES:
        return _at_extremes(top, bottom, extreme_heights(closed))
    ratios = _around_centres(top, bottom, closed)
    if top.states <= _MOST_ON_LINE:
        ratios = np.minimum(ratios, _at_extremes(top, bottom, _zigzags(closed)))
    if top.states <= _MOST_IN_SETS:
        inside = members(top.states)[1:-1]
        ratios = np.minimum(ratios, _at_extremes(top, bottom, np.where(inside, 0.0, -widest)))
    return ratios


def _zigzags(closed: Floats) -> Floats:
    """Return the logs of all functions that rise or fall as far as they may from state to state, from one end on."""
    order = np.argsort(closed[int(closed.max(axis=1).argmax())], kind="stable")
    rises, falls = closed[order[1:], order[:-1]], closed[order[:-1], order[1:]]
    steps = np.where(members(len(order) - 1), rises, -falls)
    heights = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
    u = np.empty_like(heights)
    u[:, order] = heights - heights.max(axis=1, keepdims=True)
    return u


def _at_extremes(top: LawRegions, bottom: LawRegions, u: Floats) -> Floats:
    means, logs = (np.expm1, np.log1p) if u.min() >= -1 else (np.exp, np.log)
    raised = np.maximum(
        u, -WIDEST
    )  # exponentials beyond floats are rounded up above, and down below
    ratios = np.empty(len(top))
    width = max(_MOST_REGIONS_AT_ONCE // u.size, 1)
    for start in range(0, len(top), width):
        part = np.arange(start, min(start + width, len(top)))
        with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
            most = logs(top.some(part).largest_mean(means(raised)))
            least = logs(bottom.some(part).least_mean(means(u)))
            ratios[part] = np.nan_to_num(most - least, nan=np.inf, posinf=np.inf).max(axis=1)
    return ratios


def _around_centres(top: LawRegions, bottom: LawRegions, limits: Floats) -> Floats:
    between = largest_log_ratio(top.centre, bottom.centre, limits)
    above, below = (_moved(regions, limits) for regions in (top, bottom))
    with np.errstate(divide="ignore"):
        return between + np.log1p(above) - np.log1p(-np.minimum(below, 1.0))


def _moved(regions: LawRegions, limits: Floats) -> Floats:
    """Return the largest share by which a member's mean of any v differs from the centre's."""
    shares = -np.expm1(-limits.max(axis=1))
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        moved = shares * regions.radius[:, None] / (regions.centre @ np.exp(-limits).T)
    return np.where(
        regions.radius > 0, np.nan_to_num(moved, nan=0.0, posinf=np.inf).max(axis=1), 0.0
    )
