"""Releases about rows that tell nothing of each other: what they tell of one row's value adds up (M24, M27).

Then only releases about one and the same row add, those about disjoint rows do not: sets of the former are made
beforehand. Between two values of the row every sum moves by a known step, so losses are those of this pair of values,
not of the worst pair of each release, and they add whatever made somebody ask. A row's public values are taken to stay
what they are: one that is later filed under another of them may meet releases that were thought disjoint.

There is no such refinement for `pf.Presence` with at most so many rows: each release leaves rows out after its own
filters, so a unit may be in any number of disjoint ones.
"""

import math
from collections import Counter
from collections.abc import Callable
from typing import final

import numpy as np
import numpy.typing as npt

from pufferflow.composition.cost import Floats, Shape
from pufferflow.composition.rule import Asked, Rule
from pufferflow.inference.question import rounded_up
from pufferflow.noise import Gaussian, Noise
from pufferflow.priors import Independent
from pufferflow.rounding import UNIT
from pufferflow.secrets import Initial, Secret

Loss = Callable[[Noise, Floats], Floats]
Places = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]


@final
class Granularity(Rule):
    """A row known but for two of its values: losses of all sums it adds to, pair by pair."""

    name = "disjoint groups of independent rows (M27)"

    def pure(self, asked: Asked) -> float:
        """Return the largest sum of pure losses over the pairs of values."""
        return _largest(asked, lambda noise, moves: np.asarray(noise.pure(moves)))

    def renyi(self, asked: Asked, alpha: float) -> float:
        """Return the largest sum of Rényi losses over the pairs of values."""
        return _largest(asked, lambda noise, moves: np.asarray(noise.renyi(moves, alpha)))

    def gaussian(self, asked: Asked) -> float:
        """Return the root of the largest sum of squared movements, each over its noise's standard deviation."""
        squares = _largest(asked, _squares)
        return math.sqrt(squares) * (1 + UNIT) if squares else squares


def _squares(noise: Noise, moves: Floats) -> Floats:
    """Return the squared movements in standard deviations, D_2 of Gaussian noise; ∞ for others that are moved (M10)."""
    if noise.scale > 0 and not isinstance(noise, Gaussian):
        return np.where(moves > 0, math.inf, 0.0)
    return np.asarray(noise.renyi(moves, 2.0))


def _largest(asked: Asked, loss: Loss) -> float:
    """Return the largest total over the pairs of values, rounded up; ∞ where movements are not known."""
    secret = asked.scenario.secret
    if not isinstance(asked.prior, Independent) or not isinstance(secret, Secret | Initial):
        return math.inf
    known = {cost.shape.digest: cost.shape for cost in asked.costs}
    often = Counter(cost.shape.digest for cost in asked.costs)
    ends, totals, terms = _ends(secret), np.zeros(1), 0
    for digest, shape in known.items():
        moves = _moves(shape, secret, ends)
        if moves is None:
            return math.inf
        totals = totals + often[digest] * loss(shape.noise.noise, moves).sum(axis=0)
        terms += len(moves) + (often[digest] > 1)
    return float(totals.max()) * (1 + max(terms - 1, 0) * UNIT)


def _ends(secret: Secret | Initial) -> Places:
    """Return the places of both values of every pair; of an interval's, those of the two that stand for all."""
    if not secret.domain.finite:
        return np.array([0]), np.array([1])
    return secret.pair_places[:, 0], secret.pair_places[:, 1]


def _moves(shape: Shape, secret: Secret | Initial, ends: Places) -> Floats | None:
    """Return how far every sum moves between the values of each pair, rounded up: of shape (sums, pairs)."""
    table = shape.values if secret.domain.finite else shape.alone
    points = len(secret.domain.points) if secret.domain.finite else 2
    if table is None or shape.column not in {None, secret.column} or any(len(row) != points for row in table):
        return None
    found = np.array(table, dtype=np.float64).reshape(-1, points)
    return rounded_up(lambda a, b: abs(a - b), found[:, ends[0]], found[:, ends[1]])
