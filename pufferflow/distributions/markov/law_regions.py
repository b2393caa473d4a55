"""M20's g for laws known up to a region: every cell between two bounds, and near a centre in total variation.

All results bound every member of the regions, the two laws of a pair chosen independently. A member gives a set A of
states at least P̲(A) and at most P̄(A): by the bounds of the cells inside, of those outside, and by the centre, from
which its total variation is at most `radius`.

*A few states* (`MOST_STATES`). For one pair of laws the ratio is largest at an extreme v, so for all members it is at
most that of the extreme v with the largest mean on top and the least below. In layers, a mean of v is Σ (v_i − v_{i+1})
P(A_i) over the sets A_i where v is largest; with P̄ or P̲ in it, it bounds every member.

*Up to `_MOST_ON_LINE`.* With the states in a line, limits between neighbours alone allow more v, all of which are means
of those that rise or fall as far as they may at every step. The bound is as sharp where limits add up along the line,
as those of one sum with Laplace noise do.

*Up to `_MOST_IN_SETS`.* Any v lies between e^{−r} and 1, r the largest limit; among those the extreme v are 1 on a set
A and e^{−r} elsewhere.

*Any number.* p·v/q·v = (p·v/p°·v)·(p°·v/q°·v)·(q°·v/q·v) for the centres p°, q°. Let v be largest at i, and r_i the
largest limit ℓ(i, x). Then v_i − min v ≤ v_i(1 − e^{−r_i}) and p°·v ≥ v_i Σ p°_x e^{−ℓ(i,x)}, so that a member p, which
carries no more than its radius τ from anywhere to i, has p·v/p°·v ≤ 1 + s with s the largest over i of
τ(1 − e^{−r_i})/Σ p°_x e^{−ℓ(i,x)}; likewise q·v/q°·v ≥ 1 − s'.

No ratio is larger than the largest limit. States without a limit above 0 between them count as one: v is the same.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.markov.lipschitz_ratio import (
    MOST_STATES,
    WIDEST,
    extreme_heights,
    largest_log_ratio,
    members,
    shortest,
)

_AT_ONCE = 1 << 21
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
    def of(cls, centre: Floats, low: Floats, high: Floats, radius: Floats | float = 1.0) -> "LawRegions":
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
        return LawRegions(self.centre[places], self.low[places], self.high[places], self.radius[places])

    @cached_property
    def key(self) -> bytes:
        """A byte string that identifies regions of one shape."""
        return b"".join(part.tobytes() for part in (self.centre, self.low, self.high, self.radius))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LawRegions) and self.centre.shape == other.centre.shape and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def lumped(self, groups: Indices) -> "LawRegions":
        """Return the regions of the laws of groups of states, which are numbered from 0."""
        inside: Floats = np.eye(int(groups.max()) + 1)[groups]
        low, high, centre = self.low @ inside, self.high @ inside, self.centre @ inside
        error = 4 * self.states * UNIT
        least = np.maximum(low, 1 - (self.high.sum(axis=1, keepdims=True) - high) - error).clip(0)
        most = np.minimum(high, 1 - (self.low.sum(axis=1, keepdims=True) - low) + error).clip(0, 1)
        return LawRegions.of(centre, np.minimum(least, centre), np.maximum(most, centre), self.radius)

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
    _, first, groups = np.unique((closed == 0) & (closed.T == 0), axis=0, return_index=True, return_inverse=True)
    if len(first) < len(closed):
        groups = groups.reshape(-1)
        return region_log_ratio(top.lumped(groups), bottom.lumped(groups), closed[np.ix_(first, first)])
    ratios = _bounds(top, bottom, closed, widest)
    # a few units for each state, since laws and sums are rounded; where the lower mean is 0 the limit counts
    padded = np.where(np.isfinite(ratios), ratios + 32 * (top.states + 4) * UNIT, np.inf)
    return np.clip(padded, 0.0, widest)


def region_log_ratio_of_few(top: LawRegions, bottom: LawRegions, limits: Floats, gains: Floats) -> Floats:
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
    width = max(_AT_ONCE // u.size, 1)
    for start in range(0, len(top), width):
        part = np.arange(start, min(start + width, len(top)))
        with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
            above = np.log(
                top.some(part).largest_mean(np.exp(np.maximum(u, -WIDEST) + np.maximum(gains - most, -WIDEST)))
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
    raised = np.maximum(u, -WIDEST)  # exponentials beyond floats are rounded up above, and down below
    ratios = np.empty(len(top))
    width = max(_AT_ONCE // u.size, 1)
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
    return np.where(regions.radius > 0, np.nan_to_num(moved, nan=0.0, posinf=np.inf).max(axis=1), 0.0)
