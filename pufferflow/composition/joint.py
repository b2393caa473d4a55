"""All releases about one row as a single answer of many coordinates: the joint law of what they read (M23).

Losses of single releases do not add under a table: two columns that tell nothing each may together tell everything.
But how likely an output path is at one point x of all columns read together, against another point x', is bounded by
the losses of the noises at the steps between: ℓ(x, x') = Σ_k D_∞ of release k's noise at φ_k(x) − φ_k(x'). Hence by
M20's g the loss is the largest log(μ·v / ν·v) over v > 0 with v_x ≤ e^{ℓ(x,x')}·v_x', μ and ν being the joint laws
under the two secrets. No coupling gives less. The ratio at an output involves the queries asked on its path only, so
pure totals hold for queries chosen adaptively.

An answer without noise, or with noise that has no pure loss, may give its value away: the points are then split by it.
Where the secret moves the probability of a part, nothing is promised, whatever the ratio would be: it would be for the
prior alone to hide the secret.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from pufferflow.calibration import loss
from pufferflow.composition.cost import Floats
from pufferflow.composition.draws import Draws, Whole
from pufferflow.composition.rule import Asked, Rule
from pufferflow.errors import Refused
from pufferflow.guarantees import Kind
from pufferflow.law import Law
from pufferflow.messages.star import between
from pufferflow.noise import Noise
from pufferflow.priors.probabilities import Array
from pufferflow.priors.table import Values
from pufferflow.rounding import UNIT, float_above

_MOST_POINTS = 2000
_MOST_STATES = 48
_MOST_LISTED = 4000
_FAINT = 1e-290
_SAME = Fraction(1, 2**44)
"""Probabilities that differ by less, relatively, are equal but for the rounding of the floats they were given as."""


@final
@dataclass(frozen=True, eq=False)
class Part:
    """Some points, their laws under both secrets of every pair given that they are there, and how unequal shares are.

    Laws are of shape (pairs, points), one row for every pair whose secrets reach the points.
    """

    points: Whole
    tops: Array
    bottoms: Array
    unequal: Fraction


@final
class Joint(Rule):
    """A row that is one draw of all columns read; the queries may read any of them, each any number of times."""

    name = "the joint law of all answers about a row (M23)"

    def pure(self, asked: Asked) -> float:
        """Return the largest log ratio of the likelihoods of two secrets at any outputs, or more."""
        draws = Draws.of(asked)
        return math.inf if draws is None else pure_loss(draws)

    def fixed(self, asked: Asked, kind: Kind) -> float:
        """Return what the bounds on a vector make of all answers together, each in units of its noise."""
        draws = Draws.of(asked)
        return math.inf if draws is None else _vector_loss(draws, kind)


def pure_loss(draws: Draws) -> float:
    """Return the pure loss of all that is read of a row; ∞ if it is too much to be looked through."""
    (points,), laws = draws.laws(draws.columns)
    if len(points) > _MOST_POINTS:
        return math.inf
    limits = draws.limits(points)
    limits, first, alike = np.unique(limits, axis=0, return_index=True, return_inverse=True)
    merged = np.zeros((len(laws), len(first)), dtype=object)
    np.add.at(merged.T, alike.reshape(-1), laws.T)  # points that no output tells apart are one
    limits = limits[:, first]
    _, labels = np.unique(np.isfinite(limits), axis=0, return_inverse=True)
    parts = _split(draws, merged, labels.reshape(-1))
    return math.inf if parts is None else max((_of_part(part, limits) for part in parts), default=0.0)


def _split(draws: Draws, laws: Array, labels: Whole) -> list[Part] | None:
    """Return the points of each label; None if a secret moves the probability of a label."""
    tops, bottoms = laws[draws.pairs[:, 0]], laws[draws.pairs[:, 1]]
    found: list[Part] = []
    for label in range(int(labels.max()) + 1):
        points = np.flatnonzero(labels == label)
        shares, others = tops[:, points].sum(axis=1), bottoms[:, points].sum(axis=1)
        if ((shares > 0) != (others > 0)).any():
            return None
        there = np.flatnonzero(shares > 0)
        shares, others = shares[there], others[there]
        unequal = max([Fraction(0), *(shares / others - 1)])  # of both orders
        if unequal > (0 if draws.exact else _SAME):
            return None
        rows = np.ix_(there, points)
        found.append(Part(points, tops[rows] / shares[:, None], bottoms[rows] / others[:, None], unequal))
    return found


def _of_part(part: Part, limits: Floats) -> float:
    """Return the loss within a part, and what its shares tell themselves; rounded up."""
    differ = np.asarray(part.tops != part.bottoms).any(axis=1)
    inside = limits[np.ix_(part.points, part.points)]
    told = _told(part.tops[differ], part.bottoms[differ], inside) if differ.any() else 0.0
    return told + float_above(part.unequal) * (1 + UNIT) if part.unequal else told


def _told(tops: Array, bottoms: Array, limits: Floats) -> float:
    """Return g for the worst pair, or the longest step (M7), which no mass can escape."""
    masses = np.concatenate([tops[tops > 0], bottoms[bottoms > 0]]).astype(np.float64)
    if masses.min() < _FAINT or len(limits) > _MOST_STATES:
        possible = zip(tops > 0, bottoms > 0, strict=True)
        return max(float(limits[np.ix_(one, other)].max()) for one, other in possible)
    return float(between(tops.astype(np.float64), bottoms.astype(np.float64), limits).max())


def _vector_loss(draws: Draws, kind: Kind) -> float:
    """Return a loss of the vector of all answers, or ∞; answers without noise are known."""
    noises = {one.shape.noise.noise.at(1.0) for one in draws.readings if one.shape.noise.scale > 0}
    (points,), laws = draws.laws(draws.columns)
    steps = sum(one.times * len(one.shape.table) for one in draws.readings if one.shape.noise.scale > 0)
    if len(noises) > 1 or len(points) * max(steps, len(points)) * len(draws.pairs) > _MOST_LISTED:
        return math.inf
    still = [draws.heights(one, points).T for one in draws.readings if one.shape.noise.scale == 0]
    _, labels = np.unique(np.hstack([np.zeros((len(points), 1)), *still]), axis=0, return_inverse=True)
    parts = _split(draws, laws, labels.reshape(-1))
    if parts is None or any(part.unequal for part in parts):
        return math.inf
    if not noises:
        return 0.0
    return _loss(_pairs_of(parts, _in_units(draws, points)), noises.pop(), kind)


def _in_units(draws: Draws, points: Sequence[Values]) -> Array:
    """Return all answers' values at every point, each in units of its noise; exactly, of shape (points, answers)."""
    columns: list[list[Fraction]] = []
    for one in draws.readings:
        if one.shape.noise.scale > 0:
            scale = Fraction(one.shape.noise.scale)
            heights = [[Fraction(height) / scale for height in row] for row in draws.heights(one, points).tolist()]
            columns += heights * one.times
    return np.array(columns, dtype=object).T


def _pairs_of(parts: Sequence[Part], vectors: Array) -> list[tuple[Law, Law]]:
    """Return the pairs of laws of vectors (of numbers, if they have one coordinate) within each part."""
    atoms = vectors[:, 0] if vectors.shape[1] == 1 else vectors
    return [
        (Law(list(atoms[part.points]), list(top)), Law(list(atoms[part.points]), list(bottom)))
        for part in parts
        for top, bottom in zip(part.tops, part.bottoms, strict=True)
    ]


def _loss(pairs: Sequence[tuple[Law, Law]], noise: Noise, kind: Kind) -> float:
    try:
        return loss(pairs, noise, kind)
    except Refused:
        return math.inf
