"""Two laws of all outputs under a pair of secrets: exact, noisy, bounded by a coupling, or drawn from several.

*Noisy*: two laws of outputs with continuous noise, from the masses of cells. Losses are never below the true ones. In a
cell the log ratio of both densities moves by at most w, around the log of the ratio ρ of both masses. A hockey stick is
a convex function of the ratio. So it is at most its chord: that of two points a factor e^w apart with mean ρ. If e^ε is
within e^{±w} of ρ, their worst position gives (√P − √(e^ε·Q)·e^{−w/2})²/(1 − e^{−w}). Elsewhere the stick is that of
both masses. One pair of laws that is no better for any ε has the ratios ρe^w and ρe^{−w}: P splits in the shares
1/(1+e^{−w}) and 1/(1+e^w), and Q the other way round. If w = ∞ all of P is distinguished from all of Q.

*Coupled*: two laws of too many outputs to enumerate, by a coupling of the points read. Losses are never below the true
ones (M1). At two points x, x′ the releases lose, independently, two things: the pure loss e(x, x′) of those that have
one, and the loss of Gaussian ones for a shift μ(x, x′). Together the hockey stick at ε is at most δ_μ(ε − e). That of
both laws is at most its mean over any coupling of the points. The coupling here leaves common mass in place and moves
the rest, the cheapest movements first. The pure loss is the largest log ratio of means that such likelihoods can have
(M20's g).
"""

import abc
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import cast, final

import numpy as np

from pufferflow.core.arrays import Array, Floats
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import UNIT, float_above, largest, log_above, upwards
from pufferflow.distributions.coupling import Certainty
from pufferflow.distributions.markov.star import padded_log_ratio
from pufferflow.noise.gaussian import Gaussian

_SLACK = 8 * UNIT
_LARGEST = 700.0
"""The largest ε of a search; e^700 is near the largest float."""


class LawPair(InNotebooks, abc.ABC):
    """Base of the pairs of laws P and Q: δ(ε) = Σ(P − e^ε·Q)_+ (M31), and numbers that follow from it, rounded up."""

    @property
    def certainty(self) -> Certainty:
        """Whether the numbers are exact, rounded up, or bounds."""
        return Certainty.UPPER_BOUND

    @property
    def pure_certainty(self) -> Certainty:
        """The same of the pure loss."""
        return self.certainty

    @cached_property
    def pure(self) -> float:
        """The largest log P/Q; ∞ if P gives mass where Q gives none."""
        return self._pure()

    @abc.abstractmethod
    def _pure(self) -> float:
        """Return the largest log P/Q."""

    @abc.abstractmethod
    def delta(self, epsilon: float) -> float:
        """Return the least δ at ε."""

    def epsilon(self, delta: float) -> float:
        """Return the least ε ≥ 0 at δ; ∞ if there is none."""
        if self.delta(0.0) <= delta:
            return 0.0
        if delta == 0:
            return self.pure
        if self.delta(_LARGEST) > delta:
            return math.inf
        return math.nextafter(
            largest(lambda epsilon: self.delta(epsilon) > delta, _LARGEST + 1), math.inf
        )

    @abc.abstractmethod
    def atoms(self) -> tuple[Floats, Floats, float]:
        """Return the masses of outcomes under P and Q, and the relative error of their sums."""

    @cached_property
    def attack(self) -> "Attack":
        """The best attack at every threshold: the test of P against Q by their ratio (Neyman and Pearson)."""
        return Attack.of(*self.atoms())


@final
@dataclass(frozen=True, eq=False)
class Attack:
    """The trade-off curve of the likelihood-ratio test, by its vertices: errors of the first and the second kind.

    An error of the first kind takes P for Q. Both errors are at most those of the true laws, so the true attack is no
    better.
    """

    first: Floats
    second: Floats

    @classmethod
    def of(cls, p: Floats, q: Floats, off: float) -> "Attack":
        """Return the attack on atoms."""
        with np.errstate(divide="ignore"):
            order = np.argsort(np.log(p) - np.log(q), kind="stable")
        first = np.concatenate([[0.0], np.cumsum(p[order])])
        second = np.concatenate([np.cumsum(q[order][::-1])[::-1], [0.0]])
        slack = off + (len(p) + 4) * UNIT
        return cls(np.maximum(first - slack, 0.0), np.maximum(second - slack, 0.0))

    def second_error(self, levels: Floats) -> Floats:
        """Return the least error of the second kind of tests with an error of the first kind of at most a level."""
        return np.interp(levels, self.first, self.second)

    @property
    def area_below(self) -> float:
        """The area below the curve, rounded down."""
        area = float(np.sum((self.second[1:] + self.second[:-1]) / 2 * np.diff(self.first)))
        return max(area - len(self.first) * UNIT, 0.0)


def likelihood_below(epsilon: float) -> Fraction:
    """Return a rational number not above e^ε, within 1e-14 of it, relatively; a smaller one makes δ larger."""
    if epsilon == 0:
        return Fraction(1)
    if epsilon > _LARGEST:  # e^700 ≤ e^ε
        return Fraction(math.exp(_LARGEST)) * (1 - Fraction(_SLACK))
    return Fraction(math.exp(epsilon)) * (1 - Fraction(_SLACK))


@final
@dataclass(frozen=True, eq=False)
class ExactPair(LawPair):
    """Masses of the outputs under both secrets, in whole numbers of which `total` make 1."""

    p: Array
    q: Array
    total: int

    @property
    def certainty(self) -> Certainty:
        return Certainty.EXACT

    @cached_property
    def largest_ratio(self) -> tuple[int, Fraction | None]:
        """The output with the largest P/Q, and that ratio; None where Q is 0."""
        possible = np.flatnonzero(self.p > 0)
        if not len(possible):
            return 0, Fraction(0)
        alone = possible[self.q[possible] == 0]
        if len(alone):
            return int(alone[np.argmax(self.p[alone])]), None
        logs = np.array(
            [
                math.log(p) - math.log(q)
                for p, q in zip(self.p[possible], self.q[possible], strict=True)
            ]
        )
        near = possible[logs >= logs.max() - 1e-9]
        ratios = [
            Fraction(int(self.p[at]), int(self.q[at])) for at in cast(list[int], near.tolist())
        ]
        best = max(range(len(near)), key=ratios.__getitem__)
        return int(near[best]), ratios[best]

    def _pure(self) -> float:
        ratio = self.largest_ratio[1]
        return math.inf if ratio is None else log_above(max(ratio, Fraction(1)))

    def delta(self, epsilon: float) -> float:
        return float_above(self.delta_at(likelihood_below(epsilon)))

    def delta_at(self, likelihood: Fraction) -> Fraction:
        """Return Σ(P − t·Q)_+ for a rational t, exactly."""
        over, under = likelihood.numerator, likelihood.denominator
        excess = self.p * under - self.q * over
        return Fraction(int(excess[excess > 0].sum()), self.total * under)

    def epsilon(self, delta: float) -> float:
        likelihood = self.least_likelihood(Fraction(delta))
        return math.inf if likelihood is None else log_above(likelihood)

    def least_likelihood(self, delta: Fraction) -> Fraction | None:
        """Return the least t ≥ 1 with Σ(P − t·Q)_+ ≤ δ; None if there is none.

        The sum is convex in t and linear between ratios, so Newton's steps from below end at t itself.
        """
        allowed, likelihood = delta * self.total, Fraction(1)
        while True:
            above = self.p * likelihood.denominator > self.q * likelihood.numerator
            more, less = int(self.p[above].sum()), int(self.q[above].sum())
            if more - likelihood * less <= allowed:
                return likelihood
            if less == 0:
                return None
            likelihood = (more - allowed) / less

    def atoms(self) -> tuple[Floats, Floats, float]:
        p, q = (
            np.array([one / self.total for one in masses.tolist()]) for masses in (self.p, self.q)
        )
        there = (p > 0) | (q > 0)
        return p[there], q[there], 2 * UNIT


_FAINT = 1e-270
"""Smaller masses may be rounded to any other: those of Q count as 0, and as much is added to P."""


@final
@dataclass(frozen=True, eq=False)
class NoisyPair(LawPair):
    """Masses of cells under both secrets, each within a relative error `off`, and the width of the log ratio in each.

    `sharp` says that the pure loss is that of the cells: for Laplace noise it is attained at an atom (M6).
    """

    p: Floats
    q: Floats
    width: Floats
    off: float
    sharp: bool
    doubt: float = 0.0
    """The error of sums of masses beside that: each has been moved by its part of it, P up and Q down."""

    @property
    def pure_certainty(self) -> Certainty:
        return Certainty.EXACT if self.sharp else Certainty.UPPER_BOUND

    @cached_property
    def _split(self) -> tuple[Floats, Floats]:
        wide = self.width > 0
        with np.errstate(over="ignore"):
            low = 1 / (1 + np.exp(self.width[wide]))
        high, p, q = 1 - low, self.p[wide], self.q[wide]
        return (
            np.concatenate([self.p[~wide], p * high, p * low]),
            np.concatenate([self.q[~wide], q * low, q * high]),
        )

    def _pure(self) -> float:
        p, q = self._split
        there = p > 0
        if (q[there] == 0).any():
            return math.inf
        ratio = float(np.max(np.log(p[there]) - np.log(q[there]), initial=0.0))
        return upwards(max(ratio, 0.0) + 3 * self.off + 4096 * UNIT)

    def delta(self, epsilon: float) -> float:
        """Return Σ(P − e^ε·Q)_+ with every mass moved by its error: P up, Q down; and the rounding of the sum."""
        if epsilon >= self.pure:
            return 0.0
        likelihood = math.exp(min(epsilon, 700.0)) * (1 - 4 * self.off - 16 * UNIT)
        rest = likelihood * np.where(self.q < _FAINT, 0.0, self.q)
        sticks = np.maximum(self.p - rest, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            near = (self.width > 0) & (np.abs(np.log(self.p) - np.log(rest)) <= self.width)
        p, width = self.p[near], self.width[near]
        sticks[near] = (np.sqrt(p) - np.sqrt(rest[near]) * np.exp(-width / 2)) ** 2 / -np.expm1(
            -width
        )
        return min(upwards(float(sticks.sum()) + _FAINT + 16 * UNIT, 4 * self.off + 64 * UNIT), 1.0)

    def atoms(self) -> tuple[Floats, Floats, float]:
        p, q = self._split
        there = (p > 0) | (q > 0)
        return p[there], q[there], 4 * self.off + 64 * UNIT + self.doubt


@final
@dataclass(frozen=True, eq=False)
class AveragedPair(LawPair):
    """The joint laws of an output and of which of several pairs was drawn, and the probability of each.

    The probabilities need not add up to 1: with the rest both laws are the same.
    """

    drawn: tuple[tuple[Fraction, LawPair], ...]

    @property
    def certainty(self) -> Certainty:
        exact = all(pair.certainty is Certainty.EXACT for _, pair in self.drawn)
        return Certainty.EXACT if exact else Certainty.UPPER_BOUND

    @property
    def pure_certainty(self) -> Certainty:
        exact = all(pair.pure_certainty is Certainty.EXACT for _, pair in self.drawn)
        return Certainty.EXACT if exact else Certainty.UPPER_BOUND

    def _pure(self) -> float:
        return max(pair.pure for _, pair in self.drawn)

    def delta(self, epsilon: float) -> float:
        """Return the mean of δ(ε)."""
        each = (chance * Fraction(pair.delta(epsilon)) for chance, pair in self.drawn)
        return min(float_above(sum(each, Fraction(0))), 1.0)

    def atoms(self) -> tuple[Floats, Floats, float]:
        rest = float(1 - sum(chance for chance, _ in self.drawn))
        p, q, off = [np.array([rest])], [np.array([rest])], 0.0
        for chance, pair in self.drawn:
            own = pair.atoms()
            p.append(float(chance) * own[0])
            q.append(float(chance) * own[1])
            off = max(off, own[2])
        tops, bottoms = np.concatenate(p), np.concatenate(q)
        there = (tops > 0) | (bottoms > 0)
        return tops[there], bottoms[there], off + 4 * UNIT


_MOST_STATES = 48
_LARGEST_COUPLED = 40.0
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
        return (
            masses,
            self.steps[places[:, 0], places[:, 1]],
            self.shifts[places[:, 0], places[:, 1]],
        )

    def _pure(self) -> float:
        if (self.p == self.q).all():
            return 0.0
        limits = np.where(self.shifts > 0, math.inf, self.steps)
        farthest = float(limits[np.ix_(self.p > 0, self.q > 0)].max())
        there = np.flatnonzero((self.p > 0) | (self.q > 0))
        limits = limits[np.ix_(there, there)]
        if np.isinf(limits).any() or len(limits) > _MOST_STATES:
            return farthest
        tops, bottoms = (
            np.array([[one / self.total for one in law[there].tolist()]])
            for law in (self.p, self.q)
        )
        return min(farthest, float(padded_log_ratio(tops, bottoms, limits).max()))

    def delta(self, epsilon: float) -> float:
        """Return the mean of δ_μ(ε − e); below 0, 1 − e^ε + e^ε·δ_μ(−ε), as both orders of a shift lose the same."""
        if epsilon >= self.pure:
            return 0.0
        masses, steps, shifts = self._coupling
        bell, left = Gaussian(1.0), np.maximum(epsilon - steps, -700.0)
        deltas = bell.delta(shifts, np.abs(left))
        deltas = np.where(
            left >= 0,
            deltas,
            -np.expm1(np.minimum(left, 0.0)) + np.exp(np.minimum(left, 0.0)) * deltas,
        )
        return min(upwards(float((masses * deltas).sum()), (len(masses) + 64) * UNIT), 1.0)

    def atoms(self) -> tuple[Floats, Floats, float]:
        """Return a pair of laws that loses no less: δ is convex in t = e^ε, and so at most the hull of its bounds."""
        reach = min(self.pure, _LARGEST_COUPLED)
        logs = np.linspace(0, reach, _KNOTS)
        above = np.array([self.delta(one) for one in logs.tolist()])
        below = [
            -math.expm1(-one) + math.exp(-one) * known
            for one, known in zip(logs, above.tolist(), strict=True)
        ]
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


def _turns_down(
    first: tuple[float, float], middle: tuple[float, float], last: tuple[float, float]
) -> bool:
    (a, u), (b, v), (c, w) = first, middle, last
    return (v - u) * (c - b) >= (w - v) * (b - a)
