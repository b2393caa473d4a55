"""How far φ can jump when a value that is read in classes moves by a given distance.

A list of numbers reads a value as the nearest of them, Bins as its class. A movement by v > 0, however small, may cross
one border; it crosses from class p to class q only if the classes between them are together no wider than v.
"""

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.inference.question import Floats, Question, Whole, norms_above, products, rounded_up
from pufferflow.rounding import UNIT
from pufferflow.secrets import Bins, Domain

_MOST_LEVELS = 64
_MOST_NORMS = 1 << 25
_SAME = 1e-9


@final
@dataclass(frozen=True, eq=False)
class Jumps:
    """Pairs of classes by the gap between them, gathered into levels: movements by gaps[k] reach level k."""

    question: Question
    first: Whole
    second: Whole
    starts: Whole
    gaps: Floats

    @classmethod
    def of(cls, question: Question) -> "Jumps":
        """Return the pairs of classes of a domain, nearest first; gaps are rounded down."""
        order, borders = _classes(question.domain)
        pairs = np.array(list(itertools.combinations(range(len(order)), 2)), dtype=np.intp)
        slack = 8 * UNIT * float(np.abs(borders).max())
        widths = np.maximum(borders[pairs[:, 1] - 1] - borders[pairs[:, 0]] - slack, 0.0)
        by_gap = np.argsort(widths, kind="stable")
        widths, pairs = widths[by_gap], order[pairs[by_gap]]
        starts = _levels(widths)
        return cls(question, pairs[:, 0], pairs[:, 1], starts, widths[starts])

    @cached_property
    def moves(self) -> Floats:
        """|φ(p) − φ(q)| for every answer and pair of classes, rounded up."""
        tables = self.question.tables
        return rounded_up(lambda a, b: abs(a - b), tables[:, self.first], tables[:, self.second])

    @property
    def of_answers(self) -> Floats:
        """The largest jump of each answer's φ for each level: shape (answers, levels)."""
        return self._highest(self.moves)

    def of_kinds(self, norm: float) -> Floats | None:
        """Return the largest jump of all answers that a row of each kind makes, in a norm; None if that is too long."""
        columns = self.question.kinds.columns
        if len(columns) == 1 or columns.size * len(self.first) > _MOST_NORMS:
            return None
        return self._highest(norms_above(products(columns[:, :, None], self.moves[:, None, :]), norm))

    def level(self, distances: Floats) -> Whole:
        """Return the level that movements by some distances reach; one that underflowed is above 0 still."""
        return np.searchsorted(self.gaps, distances * (1 + 4 * UNIT), side="right") - 1

    def _highest(self, values: Floats) -> Floats:
        ends = np.append(self.starts[1:], values.shape[-1]) - 1
        return np.maximum.accumulate(values, axis=-1)[..., ends]


def _classes(domain: Domain) -> tuple[Whole, Floats]:
    """Return the places of the classes from low to high, and the borders between neighbours."""
    if isinstance(domain, Bins):
        edges = np.array(domain.edges)
        return np.arange(len(domain.points)), edges if domain.open else edges[1:-1]
    order = np.argsort(domain.numbers, kind="stable")
    values = domain.numbers[order]
    return order, values[:-1] / 2 + values[1:] / 2


def _levels(gaps: Floats) -> Whole:
    """Return where levels start: gaps that rounding alone tells apart share one, and so do some more if many remain."""
    starts: list[int] = [0]
    for place, gap in enumerate(gaps.tolist()):
        if gap > gaps[starts[-1]] * (1 + _SAME):
            starts.append(place)
    if len(starts) > _MOST_LEVELS:
        kept: list[int] = np.linspace(0, len(starts) - 1, _MOST_LEVELS).astype(int).tolist()
        starts = [starts[place] for place in kept]
    return np.array(starts, dtype=np.intp)
