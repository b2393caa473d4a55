"""Dominating pairs: from bounds on δ at finitely many ε, and of Gaussian and Laplace noise.

H(γ) = sup_S P(S) − γQ(S) is convex in γ = e^ε, with H(0) = 1. Let upper bounds of it be known at some γ. Then it lies
below their lower convex hull everywhere. The pair whose hockey stick is that hull dominates: its losses are the
corners. For γ < 1 the bounds are those of the other order: H(γ) = 1 − γ + γ·H'(1/γ).

The privacy losses of Gaussian and Laplace noise: closed forms, and atoms that dominate them where those are needed.

The loss of N(μ, 1) against N(0, 1) is normal with mean μ²/2 and variance μ² (M10). For Laplace noise moved by u scales
it is u with probability ½, and −u with probability e^(−u)/2. Between these it has density e^((ℓ−u)/2)/4 (M9).
"""

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.rounding import SMALLEST
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.tradeoff.losses import SLOP, Atoms, Loss

_CLOSE = 1e-6
_Corner = tuple[float, float]
"""A corner (ε, δ) of the hull, ε ≥ 0."""


def of_deltas(epsilons: Floats, deltas: Floats, others: Floats | None = None) -> Atoms:
    """Return the dominating pair of upper bounds of δ at growing ε ≥ 0, the first being 0.

    `others` are those of the other order at the same ε; the same ones, unless given. At larger ε than the last one the
    last δ holds.
    """
    back = deltas if others is None else others
    top = min(float(deltas[0]), float(back[0]))
    right = _hull(_spaced(epsilons, deltas, top))
    left = right if others is None else _hull(_spaced(epsilons, back, top))
    right, left = _joined(right, left, top)
    up = _masses(right)
    return _assembled(up, up if others is None else _masses(left))


def _spaced(epsilons: Floats, deltas: Floats, top: float) -> list[_Corner]:
    """Return the points without those just below another one, whose chord would blow rounding up."""
    wide = np.append(epsilons[1:-1] < epsilons[2:] * (1 - _CLOSE), True)[: len(epsilons) - 1]
    return [(0.0, top), *zip(epsilons[1:][wide].tolist(), deltas[1:][wide].tolist(), strict=True)]


def _hull(points: list[_Corner]) -> list[_Corner]:
    """Return the corners of the lower convex hull in γ = e^ε, down to the smallest δ."""
    least = min(delta for _, delta in points)
    while len(points) > 1 and points[-2][1] <= least:
        points.pop()
    hull: list[_Corner] = []
    for point in points:
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], point, hull[-2][0]):
            hull.pop()
        hull.append(point)
    return hull


def _slope(low: _Corner, high: _Corner, at: float | None = None) -> float:
    """Return the slope of a chord times e^at, `at` being the ε of its left end unless given."""
    base = low[0] if at is None else at
    rise = math.expm1(min(high[0] - low[0], 700.0)) * math.exp(min(low[0] - base, 700.0))
    return (high[1] - low[1]) / rise if rise > 0 else -math.inf


def _joined(
    right: list[_Corner], left: list[_Corner], top: float
) -> tuple[list[_Corner], list[_Corner]]:
    """Return both sides of γ = 1 so that the curve is convex there: a chord across, if the corner at 1 is above it."""
    i, j = 1, 1
    if len(right) == 1 or len(left) == 1 or _jump(right, left, top) >= 0:
        return right, left
    while True:
        top = _bridge(right[i], left[j])
        if i + 1 < len(right) and _slope(right[i], right[i + 1], 0.0) < _slope(
            (0.0, top), right[i]
        ):
            i += 1
        elif j + 1 < len(left) and _slope(left[j], left[j + 1], 0.0) < _slope((0.0, top), left[j]):
            j += 1
        else:
            return [(0.0, top), *right[i:]], [(0.0, top), *left[j:]]


def _jump(right: list[_Corner], left: list[_Corner], top: float) -> float:
    """Return the mass at loss 0 that the slopes on both sides leave."""
    return 1 - top + _slope(right[0], right[1]) + _slope(left[0], left[1])


def _bridge(right: _Corner, left: _Corner) -> float:
    """Return the height at γ = 1 of the chord from e^ε to e^(−ε').

    With a = 1/(e^ε − 1), b = 1/(e^ε' − 1): slopes are (δ − t)a and (δ' − t)b, and 1 − t + (δ − t)a + (δ' − t)b = 0.
    """
    a, b = (1 / max(math.expm1(min(epsilon, 700.0)), SMALLEST) for epsilon in (right[0], left[0]))
    if math.isinf(a) or math.isinf(b):
        return min(right[1], left[1])
    return (1 + right[1] * a + left[1] * b) / (1 + a + b) * (1 + SLOP)


def _masses(corners: list[_Corner]) -> tuple[Floats, Floats, Floats, float]:
    """Return losses > 0 with their masses under P and Q, and what is revealed, whose curve is nowhere below a corner.

    From the last corner down: each mass is what lifts the curve to the next corner, so that rounding does not add up.
    """
    revealed = corners[-1][1]
    over, under = revealed, 0.0  # P's and Q's masses above the corner
    losses, first, second = list[float](), list[float](), list[float]()
    for (low, delta), (loss, _) in zip(corners[-2::-1], corners[:0:-1], strict=True):
        have = over - math.exp(low) * under if low < 700 else revealed
        want = delta * (1 + SLOP) + SLOP / 4 * (over - revealed)
        mass = max(want - have, 0.0) / -math.expm1(low - loss)
        over, under = over + mass, under + mass * math.exp(-loss)
        losses.append(loss)
        first.append(mass)
        second.append(mass * math.exp(-loss))
    return np.array(losses[::-1]), np.array(first[::-1]), np.array(second[::-1]), revealed


def _assembled(
    up: tuple[Floats, Floats, Floats, float], down: tuple[Floats, Floats, Floats, float]
) -> Atoms:
    """Return the pair with losses above 0 and, in the other order, below; the rest of both laws has loss 0."""
    own = math.fsum(up[1]) + math.fsum(down[2]) + up[3]
    other = math.fsum(up[2]) + math.fsum(down[1]) + down[3]
    rest = max(1 - own, 1 - other, 0.0)
    middle = np.array([rest]) if rest > 0 else np.zeros(0)
    return Atoms(
        np.concatenate([-down[0][::-1], np.zeros(len(middle)), up[0]]),
        np.concatenate([down[2][::-1], middle, up[1]]),
        np.concatenate([down[1][::-1], middle, up[2]]),
        up[3],
        down[3],
    )


NODES: Final = 4097
"""At how many ε a curve that is no polygon is taken; chords between them lie above it."""
_FARTHEST: Final = 9.0
"""The number of standard deviations with atoms of their own; the rest, 10⁻¹⁹, counts as revealed."""


@final
@dataclass(frozen=True)
class GaussianLoss(Loss):
    """N(μ, 1) against N(0, 1)."""

    mu: float

    @property
    def largest(self) -> float:
        return math.inf if self.mu else 0.0

    def discretised(self) -> Atoms:
        if self.mu == 0:
            return of_deltas(np.zeros(1), np.zeros(1))
        epsilons = np.linspace(0.0, self.mu * self.mu / 2 + _FARTHEST * self.mu, NODES)
        return of_deltas(epsilons, Gaussian(1.0).delta(np.full(NODES, self.mu), epsilons))


@final
@dataclass(frozen=True)
class LaplaceLoss(Loss):
    """Laplace noise moved by `units` scales."""

    units: float

    @property
    def largest(self) -> float:
        return self.units

    def discretised(self) -> Atoms:
        epsilons = np.linspace(0.0, self.units, NODES) if self.units else np.zeros(1)
        return of_deltas(epsilons, Laplace(1.0).delta(np.full(len(epsilons), self.units), epsilons))
