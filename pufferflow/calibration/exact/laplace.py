"""Laplace noise: densities that are sums of two exponentials between atoms, known from prefix sums on R."""

import itertools
import math
from collections.abc import Callable
from typing import Self, cast, final

import numpy as np

from pufferflow.calibration.exact.quadrature import Mixture, PairAtoms, UniformField
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT
from pufferflow.noise.base import Noise

_MOST_VERTICES = 2_000_000
_STRETCH = 200.0
_MOST_STRETCHES = 4096
_DEEP = 600.0
_LARGEST_EXPONENT = 700.0
_FEW = 1000
_SMALLEST_LOG = -690.0
_BLOCK = 256


@final
class LaplaceField(UniformField):
    """Both densities; on R each evaluation takes O(1) after an O(n) preparation."""

    def __init__(self, atoms: PairAtoms, noise: Noise) -> None:
        super().__init__(atoms, noise)
        self.lines = (PrefixSums(self.p), PrefixSums(self.q)) if self.dimension == 1 else None

    @property
    def effort(self) -> int:
        return super().effort if self.lines is None else 4

    def swapped(self) -> Self:
        other = super().swapped()
        other.lines = self.lines and self.lines[::-1]
        return other

    def log_densities(self, points: Floats) -> tuple[Floats, Floats]:
        if self.lines is None:
            return super().log_densities(points)
        return self.lines[0].log_density(points[:, 0]), self.lines[1].log_density(points[:, 0])

    def cells(self, alpha: float) -> tuple[list[Floats], list[Floats], list[Floats], float]:
        """Return the gaps between atoms; beyond the outermost f falls like e^{−distance}, so a tail weighs 1."""
        centres: list[Floats] = []
        halves: list[Floats] = []
        measures: list[Floats] = []
        for knots in self.knots:
            gaps = np.diff(knots)
            centres.append(np.concatenate([knots[:1], knots[:-1] + gaps / 2, knots[-1:]]))
            halves.append(np.concatenate([[0.0], gaps / 2, [0.0]]))
            measures.append(np.concatenate([[1.0], gaps, [1.0]]))
        return centres, halves, measures, -math.inf

    def log_growth(self, centres: Floats, sizes: Floats) -> Floats:
        """Return Σ|ω|: between atoms each term is an exponential of ±ω."""
        return sizes.sum(axis=1)

    def blur(self, log_densities: Floats) -> Floats:
        """Return the effect of moving atoms by an ulp on a function of slope 1 (and the prefix sums' rounding)."""
        sums = 0.0 if self.lines is None else max(line.rounding for line in self.lines)
        return np.full(len(log_densities), 4 * UNIT * self.range * self.dimension + sums)


@final
class PrefixSums:
    """The density Σ w e^{−|y − x|}/2 on R, from sums over the atoms on either side of every atom."""

    def __init__(self, mixture: Mixture) -> None:
        self.atoms = mixture.atoms[:, 0]
        self.left, first = _decaying_sums(mixture.log_weights, self.atoms)
        right, second = _decaying_sums(mixture.log_weights[::-1], -self.atoms[::-1])
        self.right = right[::-1]
        self.rounding = max(first, second)

    def from_left(self, points: Floats) -> Floats:
        """Return the log of Σ w e^{−(y − x)} over atoms x ≤ y."""
        at = np.searchsorted(self.atoms, points, side="right") - 1
        return np.where(at >= 0, self.left[at] - (points - self.atoms[at]), -math.inf)

    def from_right(self, points: Floats, *, inclusive: bool = False) -> Floats:
        """Return the log of Σ w e^{−(x − y)} over atoms x > y, or x ≥ y."""
        at = np.searchsorted(self.atoms, points, side="left" if inclusive else "right")
        inside = np.minimum(at, len(self.atoms) - 1)
        return np.where(
            at < len(self.atoms), self.right[inside] - (self.atoms[inside] - points), -math.inf
        )

    def log_density(self, points: Floats) -> Floats:
        """Return the log density."""
        return np.logaddexp(self.from_left(points), self.from_right(points)) - math.log(2)


def _decaying_sums(log_weights: Floats, positions: Floats) -> tuple[Floats, float]:
    """Return log Σ_{j ≤ i} w_j e^{−(x_i − x_j)} for every i, and its rounding error.

    Few atoms are added one by one, L_i = w_i + e^{−gap}·L_{i−1}, which adds three roundings an atom. Many are summed
    within stretches short enough for floats, and the sum of earlier stretches is carried over.
    """
    if len(positions) <= _FEW and log_weights.min() > _SMALLEST_LOG:
        weights, decays = np.exp(log_weights).tolist(), np.exp(-np.diff(positions)).tolist()
        one_by_one = list(
            itertools.accumulate(
                range(1, len(weights)), _decay(weights, decays), initial=weights[0]
            )
        )
        return np.log(one_by_one), UNIT * (4 * len(positions) + 4)
    stretch = np.floor((positions - positions[0]) / _STRETCH)
    starts = np.flatnonzero(np.concatenate([[True], stretch[1:] != stretch[:-1]]))
    exponents = log_weights + positions
    if len(starts) > _MOST_STRETCHES:
        size = float(np.abs(exponents).max())
        return np.logaddexp.accumulate(exponents) - positions, (len(positions) + 4) * UNIT * (
            size + 1
        )
    sums = np.empty(len(positions))
    ends = np.append(starts[1:], len(positions))
    carry = -math.inf
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        inside, offsets = log_weights[start:end], positions[start:end] - positions[start]
        terms = inside + offsets
        top = float(terms.max())
        own = (
            np.logaddexp.accumulate(terms)
            if terms.min() < top - _DEEP
            else np.log(_sums(np.exp(terms - top))) + top
        )
        sums[start:end] = np.logaddexp(own, carry) - offsets
        if end < len(positions):
            carry = float(sums[end - 1]) - float(positions[end] - positions[end - 1])
    deep = log_weights.min() < -_DEEP / 2  # then a stretch may have been added up in logarithms
    roundings = int((ends - starts).max()) if deep else _BLOCK + len(positions) // _BLOCK
    return sums, UNIT * (roundings + 16 + 4 * (_STRETCH + float(np.abs(log_weights).max())))


def _decay(weights: list[float], decays: list[float]) -> Callable[[float, int], float]:
    return lambda before, i: weights[i] + decays[i - 1] * before


def _sums(terms: Floats) -> Floats:
    """Return running sums, by blocks: their rounding grows with the root of their number only."""
    count = -(-len(terms) // _BLOCK)
    blocks = np.zeros((count, _BLOCK))
    blocks.ravel()[: len(terms)] = terms
    inside = blocks.cumsum(axis=1)
    before = np.concatenate([[0.0], inside[:-1, -1].cumsum()])
    return (inside + before[:, None]).ravel()[: len(terms)]


def pure(field: LaplaceField) -> tuple[float, float]:
    """Return sup log(p/q) and sup log(q/p), each attained where every coordinate is that of an atom (M6).

    Let t be one coordinate, between two neighbouring ones of atoms. Both densities are A·e^t + B·e^{−t} there, and the
    ratio of two such is monotone in e^{2t}. Beyond the outermost atoms it is constant. So any point can be moved to a
    corner without lowering the ratio.
    """
    axes = field.knots
    if math.prod(map(len, axes)) > _MOST_VERTICES * (50 if field.dimension == 1 else 1):
        raise Refused(
            f"{math.prod(map(len, axes))} corners are too many for the exact pure loss.",
            allowed=f"at most {_MOST_VERTICES} corners on R^{field.dimension}",
            instead="bound=pf.GWM()",
        )
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    log_p, log_q = field.log_densities(points)
    ratios = log_p - log_q
    rounding = 8 * UNIT * (float(np.abs(log_p).max() + np.abs(log_q).max()) + 16) + 2 * float(
        field.blur(log_p[:1])[0]
    )
    return max(float(ratios.max()) + rounding, 0.0), max(float(-ratios.min()) + rounding, 0.0)


def hockey_stick(field: LaplaceField, epsilon: float) -> float:
    """Return ∫ (p − e^ε q)_+ on R, in closed form gap by gap.

    On a gap of length g the integrand is a·e^{−t} + b·e^{−(g−t)}, with one change of sign at most.
    """
    first, second = cast(tuple[PrefixSums, PrefixSums], field.lines)
    knots = field.knots[0]
    gaps = np.diff(knots)
    with np.errstate(under="ignore"):
        p_left, p_right = (
            np.exp(first.from_left(knots[:-1])),
            np.exp(first.from_right(knots[1:], inclusive=True)),
        )
        q_left, q_right = (
            np.exp(np.minimum(logs + epsilon, _LARGEST_EXPONENT))
            for logs in (second.from_left(knots[:-1]), second.from_right(knots[1:], inclusive=True))
        )
        a, b = p_left - q_left, p_right - q_right
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        root = np.clip(0.5 * (gaps + np.log(-a / b)), 0.0, gaps)
    start = np.where((a < 0) & (b > 0), root, 0.0)
    end = np.where((a > 0) & (b < 0), root, gaps)
    end = np.where((a <= 0) & (b <= 0), start, end)
    with np.errstate(under="ignore"):
        inside = a * (np.exp(-start) - np.exp(-end)) + b * (
            np.exp(end - gaps) - np.exp(start - gaps)
        )
    ends = knots[[0, -1]]
    log_p, log_q = field.log_densities(ends[:, None])
    tails = np.exp(log_p) * -np.expm1(np.minimum(epsilon + log_q - log_p, 0.0))
    rounding = (
        16 * UNIT + 2 * (first.rounding + second.rounding) + 8 * UNIT * (field.range + epsilon)
    )
    # the rounding errors in gaps where p may exceed e^ε q: of p, and of e^ε q where it is less than p
    near_p = p_left + p_right
    open_gaps = (a > -rounding * near_p) | (b > -rounding * near_p)
    doubts = np.where(open_gaps, 2 * near_p * -np.expm1(-gaps), 0.0)
    open_tails = np.exp(np.where(log_p > log_q + epsilon - rounding, log_p, -math.inf))
    total = math.fsum(np.maximum(inside, 0.0)) / 2 + float(tails.sum())
    return min(total + rounding * (math.fsum(doubts) + float(open_tails.sum())), 1.0)
