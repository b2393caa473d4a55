"""How far answers about several cells move if every row of a group may change (M7), without an array of all answers.

For rows that may be absent: the most that they can add to the answers, compared with nothing.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.rounding import UNIT, distances_above, float_above, upwards
from pufferflow.distributions.coupling import Certainty
from pufferflow.models.priors.base import Prior
from pufferflow.models.secret import AnySecret, Presence
from pufferflow.queries.engine_interface import Pattern
from pufferflow.queries.statistic import Kinds
from pufferflow.sensitivity.movement import Movement
from pufferflow.sensitivity.row_query import norms_above, row_norms

PRESENCE = ("there", "not there")


def with_nothing(tables: Floats) -> Floats:
    """Return φ with one more point, 0, for an absent row."""
    return np.concatenate([tables, np.zeros((len(tables), 1))], axis=1)


def columns_of(weights: Floats, rows: Any = None) -> tuple[Floats, Any]:
    """Return the distinct columns of weights, up to sign, and how many rows have each; a column may stand for many."""
    kinds = Kinds.of(np.abs(weights) if len(weights) == 1 else weights, rows)
    return kinds.columns, kinds.counts


def departure(weights: Floats, tables: Floats, rows: Any = None) -> Movement:
    """Return max ‖Σ_r w_r∘φ(x_r)‖ over the values of all rows: the most that they add together.

    Exact for one answer; for several, the smaller bound of answers one by one and rows one by one. A column of weights
    stands for as many rows as `rows` says, or for one if it is None.
    """
    steps = np.array([_most_added(row, table, rows) for row, table in zip(weights, tables, strict=True)])
    if len(steps) == 1:
        return Movement.of_one(float(steps[0]), Certainty.EXACT, PRESENCE)
    columns, counts = columns_of(weights, rows)

    def length(norm: float) -> float:
        row_lengths, _ = row_norms(np.abs(columns), np.abs(tables), norm)
        total = float(np.dot(row_lengths, counts))
        whole = bool((row_lengths == np.rint(row_lengths)).all()) and total < 2.0**52
        return min(float(norms_above(steps, norm)), total if whole else upwards(total, (len(row_lengths) + 4) * UNIT))

    return Movement(steps, length, Certainty.UPPER_BOUND, PRESENCE)


def _most_added(weights: Floats, table: Floats, rows: Any) -> float:
    """Return the largest |Σ_r w_r φ(x_r)|, rounded up once."""
    alike = Kinds.of(weights[None], rows)
    sums = [
        Fraction(weight) * count for weight, count in zip(alike.columns[0].tolist(), alike.counts.tolist(), strict=True)
    ]
    plus_sum, minus_sum = sum((r for r in sums if r > 0), Fraction(0)), sum((-r for r in sums if r < 0), Fraction(0))
    low, high = Fraction(float(table.min())), Fraction(float(table.max()))
    return float_above(max(abs(plus_sum * high - minus_sum * low), abs(plus_sum * low - minus_sum * high)))


Whole = Any


@final
@dataclass(frozen=True, eq=False)
class Cells:
    """`sizes[c]` rows are in cell c; one row moves the answers about its cell by one of `moves`, or less.

    `moves` has a row for each answer about a cell and a column for each way to move.
    """

    sizes: Whole
    moves: Floats

    @classmethod
    def of(cls, pattern: Pattern, moves: Floats, *, open_cells: bool) -> "Cells":
        """Return the cells of a pattern; a single one with all rows if the cells of rows are unknown."""
        counted = pattern.cells >= 0
        places = np.where(open_cells, 0, pattern.cells[counted])
        sizes = np.zeros(1 if open_cells else max(pattern.answers, 1), dtype=np.int64)
        np.add.at(sizes, places, pattern.counts[counted])
        return cls(sizes, moves)

    def length(self, norm: float) -> float:
        """Return the largest movement of all answers in a norm, rounded up: ρ·‖sizes‖, ρ the longest of `moves`.

        n rows move a cell by no more than n·ρ, and by that if all of them make the longest move. A single cell with all
        rows moves farthest: ‖(n_c)‖ ≤ Σ n_c in every norm, whatever the split.
        """
        row = Fraction(float(norms_above(self.moves, norm).max(initial=0.0)))
        return float_above(row * Fraction(self._size(norm)))

    @property
    def steps(self) -> Floats:
        """How far each answer moves, cell by cell."""
        return np.outer(self.sizes, self.moves.max(axis=1, initial=0.0)).ravel()

    def _size(self, norm: float) -> float:
        """Return the norm of the sizes, rounded up; in whole numbers, since floats may not hold their squares."""
        sizes, cells = (column.tolist() for column in np.unique(self.sizes, return_counts=True))
        if norm == math.inf:
            return float(max(sizes))
        if norm == 1:
            return float_above(sum(n * m for n, m in zip(sizes, cells, strict=True)))
        square = sum(n * n * m for n, m in zip(sizes, cells, strict=True))
        root = math.isqrt(square)
        return float(root) if root * root == square else upwards(math.sqrt(square))


def moves_of(prior: Prior, secret: AnySecret, tables: Floats) -> Floats:
    """Return how one row moves the answers about its cell: from any value to any other, or from nothing to any value.

    Rows that may be absent are replaced as well where their correlation is unknown.
    """
    if isinstance(secret, Presence) and not prior.any_correlation:
        return np.abs(tables)
    points = with_nothing(tables) if isinstance(secret, Presence) else tables
    first, second = np.triu_indices(points.shape[1], 1)
    return distances_above(points[:, first], points[:, second])
