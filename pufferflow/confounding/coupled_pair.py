"""Two laws of too many outputs to enumerate, by a coupling of the points read: never below the true losses (M1).

At two points x, x′ the releases lose, independently, a pure loss e(x, x′) of those that have one, and the loss of
Gaussian ones for a shift μ(x, x′): together the hockey stick at ε is at most δ_μ(ε − e). That of both laws is at most
its mean over any coupling of the points. The coupling here leaves common mass in place and moves the rest, the cheapest
movements first. The pure loss is the largest log ratio of means that such likelihoods can have (M20's g).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.confounding.law_pair import LawPair
from pufferflow.core.arrays import Array, Floats
from pufferflow.core.rounding import UNIT, upwards
from pufferflow.distributions.markov.star import padded_log_ratio
from pufferflow.noise.gaussian import Gaussian

_MOST_STATES = 48
_LARGEST = 40.0
_KNOTS = 161


@final
@dataclass(frozen=True, eq=False)
class CoupledPair(LawPair):
    """Laws of points, in whole numbers of which `total` make 1, and for any two points the losses of all releases."""

    p: Array
    q: Array
    total: int
    steps: Floats
    """The pure losses e(x, x′), rounded up."""
    shifts: Floats
    """The shifts μ(x, x′) of Gaussian releases, rounded up."""

    @cached_property
    def _coupling(self) -> tuple[Floats, Floats, Floats]:
        """The masses that move, and the losses of each movement: the cheapest movements first, exactly all mass."""
        common = np.minimum(self.p, self.q)
        left, right = (self.p - common).tolist(), (self.q - common).tolist()
        costs = self.steps + self.shifts * (1 + self.shifts)
        moved: list[tuple[int, int, int]] = []
        for flat in np.argsort(costs, axis=None, kind="stable").tolist():
            one, other = divmod(flat, len(right))
            mass = min(left[one], right[other])
            if mass:
                left[one], right[other] = left[one] - mass, right[other] - mass
                moved.append((mass, one, other))
        masses = np.array([upwards(mass / self.total) for mass, *_ in moved])
        places = np.array([pair for _, *pair in moved], dtype=np.intp).reshape(-1, 2)
        return masses, self.steps[places[:, 0], places[:, 1]], self.shifts[places[:, 0], places[:, 1]]

    def _pure(self) -> float:
        if (self.p == self.q).all():
            return 0.0
        limits = np.where(self.shifts > 0, math.inf, self.steps)
        farthest = float(limits[np.ix_(self.p > 0, self.q > 0)].max())
        there = np.flatnonzero((self.p > 0) | (self.q > 0))
        limits = limits[np.ix_(there, there)]
        if np.isinf(limits).any() or len(limits) > _MOST_STATES:
            return farthest
        tops, bottoms = (np.array([[one / self.total for one in law[there].tolist()]]) for law in (self.p, self.q))
        return min(farthest, float(padded_log_ratio(tops, bottoms, limits).max()))

    def delta(self, epsilon: float) -> float:
        if epsilon >= self.pure:
            return 0.0
        return self._at(epsilon)

    def _at(self, epsilon: float) -> float:
        """Return the mean of δ_μ(ε − e); below 0, 1 − e^ε + e^ε·δ_μ(−ε), as both orders of a shift lose the same."""
        masses, steps, shifts = self._coupling
        bell, left = Gaussian(1.0), np.maximum(epsilon - steps, -700.0)
        deltas = bell.delta(shifts, np.abs(left))
        deltas = np.where(left >= 0, deltas, -np.expm1(np.minimum(left, 0.0)) + np.exp(np.minimum(left, 0.0)) * deltas)
        return min(upwards(float((masses * deltas).sum()), (len(masses) + 64) * UNIT), 1.0)

    def atoms(self) -> tuple[Floats, Floats, float]:
        """Return a pair of laws that loses no less: δ is convex in t = e^ε, and so at most the hull of its bounds."""
        reach = min(self.pure, _LARGEST)
        logs = np.linspace(0, reach, _KNOTS)
        above = np.array([self.delta(one) for one in logs.tolist()])
        below = [-math.expm1(-one) + math.exp(-one) * known for one, known in zip(logs, above.tolist(), strict=True)]
        knots = np.concatenate([[0.0], np.exp(-logs[:0:-1]), np.exp(logs)])
        values = np.concatenate([[1.0], np.minimum(below[:0:-1], 1.0), above])
        knots, values = _hull(knots, values)
        slopes = np.append(np.diff(values) / np.diff(knots), 0.0)
        q = np.maximum(np.diff(slopes), 0.0)
        p = q * knots[1:]
        alone = max(1 - float(q.sum()), 0.0)
        p, q = np.concatenate([p, [values[-1], 0.0]]), np.concatenate([q, [0.0, alone]])
        there = (p > 0) | (q > 0)
        return p[there], q[there], 1e-9


def _hull(at: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return the lower convex hull of points: a convex function that is at most these values is at most the hull."""
    kept: list[tuple[float, float]] = []
    for x, y in zip(at.tolist(), values.tolist(), strict=True):
        while len(kept) > 1 and _turns_down(kept[-2], kept[-1], (x, y)):
            kept.pop()
        kept.append((x, y))
    hull = np.array(kept)
    return hull[:, 0], hull[:, 1]


def _turns_down(first: tuple[float, float], middle: tuple[float, float], last: tuple[float, float]) -> bool:
    (a, u), (b, v), (c, w) = first, middle, last
    return (v - u) * (c - b) >= (w - v) * (b - a)
