"""Laws of which only a movement is known: how far the answer moves from one secret value to the other (M1, M7)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np

from pufferflow.calibration.laws import DependentRows, Laws, Pair, Reach, WorkEstimate
from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.rounding import UNIT, float_above, upwards
from pufferflow.distributions import common_units
from pufferflow.distributions.coupling import Certainty
from pufferflow.distributions.finite_law import Law


@final
@dataclass(frozen=True, eq=False)
class Movement:
    """How far the answers move: each of them by at most `steps`, all together in a norm by `length(norm)`."""

    steps: Floats
    length: Callable[[float], float]
    certainty: Certainty
    secrets: tuple[Any, Any]
    row: int | None = None

    @classmethod
    def of_one(
        cls, length: float, certainty: Certainty, secrets: tuple[Any, Any], row: int | None = None
    ) -> "Movement":
        """Return the movement of a single answer, whose length is the same in every norm."""
        return cls(np.array([length]), lambda _: length, certainty, secrets, row)


def two_points(steps: Floats, prior: Any, secrets: tuple[Any, Any] | None, row: int | None = None) -> Pair:
    """Return two points as far apart as the answers move: the pair that represents laws given by a movement only."""
    return Pair(Law.point(np.zeros(len(steps))), Law.point(steps), prior, secrets, row)


@final
class MovementLaws(Laws):
    """One pair of points that lie as far apart as the answers move; in R^d coordinate by coordinate the farthest."""

    movement_only = True

    def __init__(self, prior: Any, movement: Movement, group: Callable[[float], float] | None = None) -> None:
        self._prior, self._movement = prior, movement
        self._group = group or movement.length

    @cached_property
    def pairs(self) -> Sequence[Pair]:
        return [two_points(self._movement.steps, self._prior, self._movement.secrets, self._movement.row)]

    @property
    def dimension(self) -> int:
        return len(self._movement.steps)

    @property
    def certainty(self) -> Certainty:
        return self._movement.certainty

    def winf(self, norm: float) -> Reach:
        return Reach(self._movement.length(norm), self.certainty, self.pairs[0])

    def least_winf(self, norm: float) -> Reach:
        return self.winf(norm) if self.certainty == Certainty.EXACT else super().least_winf(norm)

    def near(self, delta: float, norm: float) -> Reach:
        """Return the length: how much of the mass moves less is not known."""
        return replace(self.winf(norm), certainty=Certainty.UPPER_BOUND)

    def span(self, norm: float) -> Reach:
        certainty = Certainty.EXACT if self.dimension == 1 else Certainty.UPPER_BOUND
        return Reach(self._group(norm), certainty, self.pairs[0])


@final
class ConstantLaws(Laws):
    """Pairs of constant answers: one row's contributions under two values, all else being independent of it (M2)."""

    constant = True

    def __init__(self, pairs: list[Pair], lengths: Callable[[float], Floats]) -> None:
        self._pairs, self._lengths = pairs, lengths

    @cached_property
    def pairs(self) -> Sequence[Pair]:
        return self._pairs

    @property
    def dimension(self) -> int:
        return self._pairs[0].dimension

    def winf(self, norm: float) -> Reach:
        lengths = self._lengths(norm)
        place = int(lengths.argmax())
        return Reach(float(lengths[place]), Certainty.EXACT, self._pairs[place])

    least_winf = span = winf

    def near(self, delta: float, norm: float) -> Reach:
        """Return the longest displacement: two constants differ with certainty, and delta is below 1."""
        return self.winf(norm)


@final
class ShortestMovement(Laws):
    """Laws given by several upper bounds of a movement: the shortest counts."""

    movement_only = True

    def __init__(self, ways: Sequence[Laws]) -> None:
        self._ways = ways

    @cached_property
    def pairs(self) -> Sequence[Pair]:
        return min(self._ways, key=lambda way: way.winf(1).length).pairs

    @property
    def dimension(self) -> int:
        return self._ways[0].dimension

    @property
    def certainty(self) -> Certainty:
        return Certainty.UPPER_BOUND

    def winf(self, norm: float) -> Reach:
        return self._shortest(lambda way: way.winf(norm))

    def near(self, delta: float, norm: float) -> Reach:
        return self._shortest(lambda way: way.near(delta, norm))

    def span(self, norm: float) -> Reach:
        return self._shortest(lambda way: way.span(norm))

    @cached_property
    def work(self) -> WorkEstimate:
        """The work of all movements together, for each method."""
        works = [way.work for way in self._ways]
        added = [sum(sizes) for sizes in zip(*(work[1:4] for work in works), strict=True)]
        return works[0]._replace(winf=added[0], near=added[1], pairs=added[2], number=1.0, atoms=1.0)

    def walks(self) -> Sequence[DependentRows]:
        """Return the walks of the first movement, if it has any."""
        return self._ways[0].walks()

    def _shortest(self, ask: Callable[[Laws], Reach]) -> Reach:
        shortest = min((ask(way) for way in self._ways), key=lambda reach: reach.length)
        return replace(shortest, certainty=Certainty.UPPER_BOUND)


_MANY = 4096


def group_movement(weights: Floats, counts: Indices, tables: Floats, norm: float) -> float:
    """Return a bound on ‖Σ_r w_r∘(φ(x_r) − φ(x'_r))‖ over all values of all rows, rounded up; exact for one answer.

    `weights` has a column for each kind of row, `counts` says how many rows are of it, `tables` is φ at the points.
    Answers that share no row, as those of different cells, move separately: the norm combines their movements. For
    answers that share rows it is the smaller of two bounds: rows one by one, and answers one by one, in the norm.
    """
    if len(tables) == 1:
        return _total(weights[0], counts, tables[0])
    labels = _sharing(weights != 0)
    parts = [_together(weights, counts, tables, norm, labels == label) for label in range(int(labels.max()) + 1)]
    if len(parts) == 1:
        return parts[0]
    return upwards(float(common_units.norms(np.array(parts), norm)), (len(parts) + 8) * UNIT)


def _sharing(touched: Flags) -> Indices:
    """Return a label for each answer: its connected component, where a row connects the answers that it touches."""
    answers, kinds = touched.shape
    if touched.all(axis=0).any():
        return np.zeros(len(touched), dtype=np.intp)
    from scipy.sparse import csr_matrix  # takes longer to import than all else here
    from scipy.sparse.csgraph import connected_components

    rows, columns = np.nonzero(touched)
    links = csr_matrix((np.ones(len(rows)), (rows, columns + answers)), shape=(answers + kinds, answers + kinds))
    labels = np.asarray(connected_components(links, directed=False)[1], dtype=np.intp)
    return np.unique(labels[:answers], return_inverse=True)[1]


def _together(weights: Floats, counts: Indices, tables: Floats, norm: float, chosen: Flags) -> float:
    """Return the bound for some answers that share rows."""
    kinds = np.asarray(weights[chosen].any(axis=0))
    weights, counts, tables = weights[chosen][:, kinds], counts[kinds], tables[chosen]
    steps = np.array([_total(row, counts, table) for row, table in zip(weights, tables, strict=True)])
    moves = (tables[:, :, None] - tables[:, None, :]).reshape(len(tables), -1)
    rows = [float(common_units.norms(np.abs(column[:, None] * moves), norm).max()) for column in weights.T]
    least = min(float(common_units.norms(steps, norm)), float(np.dot(rows, counts)))
    return upwards(least, (weights.size + len(tables) + 8) * UNIT)


def _total(weights: Floats, counts: Indices, table: Floats) -> float:
    """Return Σ_r |w_r| · (max φ − min φ), rounded up once."""
    if len(weights) > _MANY:
        rough = math.fsum((np.abs(weights) * counts).tolist()) * float(table.max() - table.min())
        return upwards(rough, 8 * UNIT)
    span = Fraction(float(table.max())) - Fraction(float(table.min()))
    rows = zip(np.abs(weights).tolist(), counts.tolist(), strict=True)
    return float_above(span * sum((Fraction(weight) * count for weight, count in rows), Fraction(0)))
