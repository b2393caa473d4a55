"""How far answers about several cells move if every row of a group may change (M7), without an array of all answers."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np

from pufferflow.inference.presence import with_nothing
from pufferflow.inference.question import Floats, norms_above, rounded_up
from pufferflow.priors import AnyCorrelation, Prior
from pufferflow.queries.pattern import Pattern
from pufferflow.rounding import float_above, upwards
from pufferflow.secrets import AnySecret, Presence

Whole = Any


@final
@dataclass(frozen=True, eq=False)
class Cells:
    """`sizes[c]` rows are asked about in cell c; one row moves the answers about its cell by one of `moves`, or less.

    `moves` has a row for each answer about a cell and a column for each way to move.
    """

    sizes: Whole
    moves: Floats

    @classmethod
    def of(cls, pattern: Pattern, moves: Floats, *, open_cells: bool) -> "Cells":
        """Return the cells of a pattern; a single one with all rows if it is open which cells they are in."""
        asked = pattern.cells >= 0
        places = np.where(open_cells, 0, pattern.cells[asked])
        sizes = np.zeros(1 if open_cells else max(pattern.answers, 1), dtype=np.int64)
        np.add.at(sizes, places, pattern.counts[asked])
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
        """Return the norm of the sizes, rounded up; in whole numbers, for squares of many rows are beyond floats."""
        sizes, cells = (found.tolist() for found in np.unique(self.sizes, return_counts=True))
        if norm == math.inf:
            return float(max(sizes))
        if norm == 1:
            return float_above(sum(n * m for n, m in zip(sizes, cells, strict=True)))
        square = sum(n * n * m for n, m in zip(sizes, cells, strict=True))
        root = math.isqrt(square)
        return float(root) if root * root == square else upwards(math.sqrt(square))


def moves_of(prior: Prior, secret: AnySecret, tables: Floats) -> Floats:
    """Return how one row moves the answers about its cell: from any value to any other, or from nothing to any value.

    Rows that come and go are replaced as well where they depend on each other in unknown ways.
    """
    if isinstance(secret, Presence) and not isinstance(prior, AnyCorrelation):
        return np.abs(tables)
    points = with_nothing(tables) if isinstance(secret, Presence) else tables
    first, second = np.triu_indices(points.shape[1], 1)
    return rounded_up(lambda a, b: abs(a - b), points[:, first], points[:, second])
