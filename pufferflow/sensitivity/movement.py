"""Laws of which only a movement is known: how far the answer moves from one secret value to the other (M1, M7)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, final

import numpy as np

from pufferflow.calibration.laws import (
    SMALLEST,
    DependentRows,
    Laws,
    LawsSize,
    Pair,
    Reach,
    Witness,
)
from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.rounding import UNIT, float_above, upwards
from pufferflow.distributions import common_units
from pufferflow.distributions.coupling import Certainty
from pufferflow.distributions.finite_law import Law

Measure = Callable[..., Reach]
"""How far answers move, in the norm that is the last argument; before it a share δ may stand."""
Length = Callable[[float], float]
"""The length of a movement in a norm."""


@final
@dataclass(frozen=True, eq=False)
class Movement(Laws):
    """Laws of which only movements are known: `moved` by the prior, and `whole` if every row may change (M7).

    `but_for`, if given, measures the movement of all mass but δ. One pair of points stands for the laws, as far apart
    as the answers move; in R^d coordinate by coordinate the farthest. All fields pickle, for tasks of processes.
    """

    dimension: int
    moved: Measure
    whole: Measure
    stand_in: Callable[[], Sequence[Pair]]
    certainty: Certainty = Certainty.UPPER_BOUND
    but_for: Measure | None = None
    dependence: Callable[[], Sequence[DependentRows]] | None = None
    size: LawsSize = SMALLEST  # pyright: ignore[reportIncompatibleVariableOverride] - known when it is made
    movement_only: bool = True
    rates: Callable[[float, Witness], float] | None = None
    """A lower bound on the pure loss of Laplace noise, if one is known: as `least_loss`."""

    @classmethod
    def of(  # noqa: PLR0913, PLR0917 - a movement, and what has it
        cls,
        prior: Any,
        steps: Floats,
        length: Length | None,
        certainty: Certainty,
        secrets: tuple[Any, Any],
        row: int | None = None,
        group: Length | None = None,
    ) -> "Movement":
        """Return a movement of each answer by at most `steps`, of all together by `length`, of the group by `group`.

        A single answer needs no length: it is the same in every norm.
        """
        pair, known = two_points(steps, prior, secrets, row), length or float(steps[0])
        moved = partial(reach_of, known, certainty, pair)
        of_group = Certainty.EXACT if len(steps) == 1 else Certainty.UPPER_BOUND
        whole = partial(reach_of, group or known, of_group, pair)
        return cls(len(steps), moved, whole, partial(list[Pair], [pair]), certainty)

    @cached_property
    def pairs(self) -> Sequence[Pair]:
        return self.stand_in()

    def winf(self, norm: float) -> Reach:
        return self.moved(norm)

    def near(self, delta: float, norm: float) -> Reach:
        """Return the length, where it is not known how much of the mass moves less."""
        if self.but_for is not None:
            return self.but_for(delta, norm)
        return replace(self.moved(norm), certainty=Certainty.UPPER_BOUND)

    def span(self, norm: float) -> Reach:
        return self.whole(norm)

    def least_loss(self, rate: float, witness: Witness) -> float:
        return 0.0 if self.rates is None else self.rates(rate, witness)

    def walks(self) -> Sequence[DependentRows]:
        return super().walks() if self.dependence is None else self.dependence()


def two_points(
    steps: Floats, prior: Any, secrets: tuple[Any, Any] | None, row: int | None = None
) -> Pair:
    """Return two points as far apart as the answers move: the pair that represents laws given by a movement only."""
    return Pair(Law.point(np.zeros(len(steps))), Law.point(steps), prior, secrets, row)


def reach_of(length: Length | float, certainty: Certainty, witness: Witness, norm: float) -> Reach:
    """Return a movement of some length in a norm, or of one length in all norms."""
    return Reach(length(norm) if callable(length) else length, certainty, witness)


@final
@dataclass(frozen=True, eq=False)
class ShortestMovement:
    """Several upper bounds of one movement, of which the shortest counts."""

    ways: Sequence[Laws]

    @property
    def movement(self) -> Movement:
        """The shortest movement, with the walks of the first."""
        first = self.ways[0]
        moved, whole, but_for = (
            partial(self.shortest, [getattr(way, verb) for way in self.ways])
            for verb in ("winf", "span", "near")
        )
        return Movement(
            first.dimension,
            moved,
            whole,
            self.points,
            but_for=but_for,
            dependence=first.walks,
            size=self.size,
        )

    def shortest(self, measures: Sequence[Measure], *at: float) -> Reach:
        """Return the shortest of the movements that are measured."""
        found = min((measure(*at) for measure in measures), key=lambda reach: reach.length)
        return replace(found, certainty=Certainty.UPPER_BOUND)

    def points(self) -> Sequence[Pair]:
        """Return the pairs of the way that is the shortest in the sum of sizes."""
        return min(self.ways, key=lambda way: way.winf(1).length).pairs

    @property
    def size(self) -> LawsSize:
        """The sizes of the largest laws that are compared."""
        return max((way.size for way in self.ways), key=lambda size: size.laws * size.atoms)


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
    parts = [
        _together(weights, counts, tables, norm, labels == label)
        for label in range(int(labels.max()) + 1)
    ]
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
    links = csr_matrix(
        (np.ones(len(rows)), (rows, columns + answers)), shape=(answers + kinds, answers + kinds)
    )
    labels = np.asarray(connected_components(links, directed=False)[1], dtype=np.intp)
    return np.unique(labels[:answers], return_inverse=True)[1]


def _together(
    weights: Floats, counts: Indices, tables: Floats, norm: float, chosen: Flags
) -> float:
    """Return the bound for some answers that share rows."""
    kinds = np.asarray(weights[chosen].any(axis=0))
    weights, counts, tables = weights[chosen][:, kinds], counts[kinds], tables[chosen]
    steps = np.array(
        [_total(row, counts, table) for row, table in zip(weights, tables, strict=True)]
    )
    moves = (tables[:, :, None] - tables[:, None, :]).reshape(len(tables), -1)
    rows = [
        float(common_units.norms(np.abs(column[:, None] * moves), norm).max())
        for column in weights.T
    ]
    least = min(float(common_units.norms(steps, norm)), float(np.dot(rows, counts)))
    return upwards(least, (weights.size + len(tables) + 8) * UNIT)


def _total(weights: Floats, counts: Indices, table: Floats) -> float:
    """Return Σ_r |w_r| · (max φ − min φ), rounded up once."""
    if len(weights) > _MANY:
        rough = math.fsum((np.abs(weights) * counts).tolist()) * float(table.max() - table.min())
        return upwards(rough, 8 * UNIT)
    span = Fraction(float(table.max())) - Fraction(float(table.min()))
    rows = zip(np.abs(weights).tolist(), counts.tolist(), strict=True)
    return float_above(
        span * sum((Fraction(weight) * count for weight, count in rows), Fraction(0))
    )
