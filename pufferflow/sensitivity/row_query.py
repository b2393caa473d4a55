"""The query about one group: the domain of its rows, and how far two values of one row move the answers.

For domains of classes it gives the jump of φ when a value moves by a given distance.

A list of numbers maps a value to the nearest of them, Bins to its class. A movement by v > 0, however small, may cross
one border. It crosses from class p to class q only if the classes between them are together at most v wide.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.rounding import UNIT, distances_above, float_above, lifted, products_above
from pufferflow.distributions import common_units
from pufferflow.models.domain import Bins, Domain, Interval, Label
from pufferflow.models.priors.base import Prior
from pufferflow.models.secret import Initial, Secret
from pufferflow.queries.statistic import Kinds, Statistic, column_and_domain
from pufferflow.sensitivity.movement import group_movement

_AT_ONCE = 1 << 22


@final
@dataclass(frozen=True, eq=False)
class Question:
    """Answers Σ_r weights[o, r]·φ_o(X_r), `tables` being φ at the points of the domain, and the pairs of the secret.

    On an interval φ is linear between the ends.
    """

    weights: Floats
    tables: Floats
    positions: Floats
    domain: Domain
    secret: Secret | Initial
    first: bool
    """Whether the secret is the value at `start`, not that of every row."""
    start: float
    counts: Any = None
    """The number of rows that each column of weights represents; None for one row each."""

    @classmethod
    def of(cls, prior: Prior, statistic: Statistic, secret: Secret | Initial) -> "Question":
        """Return the query of a statistic under a secret that is the value of a row."""
        _, domain = column_and_domain(prior, statistic, secret)
        first = isinstance(secret, Initial)
        return cls(
            statistic.weights,
            statistic.on(domain),
            statistic.positions,
            domain,
            secret,
            first=first,
            start=statistic.start,
            counts=statistic.counts,
        )

    @property
    def pairs(self) -> Sequence[tuple[Label, Label]]:
        """The pairs of values that must be indistinguishable."""
        return self.secret.value_pairs()

    @property
    def starts(self) -> npt.NDArray[np.bool_]:
        """Whether each row is the first of its sequence."""
        return self.positions == self.start

    @property
    def known_positions(self) -> Floats:
        """The positions at which a prior needs the law of values: the rows, and the start if the secret is there."""
        at_start = self.first and not self.starts.any()
        return np.concatenate([[self.start], self.positions]) if at_start else self.positions

    @property
    def answers(self) -> int:
        """How many answers there are."""
        return len(self.weights)

    @cached_property
    def kinds(self) -> Kinds:
        """The kinds of rows: rows with equal weights."""
        return Kinds.of(self.weights, self.counts)

    @cached_property
    def differences(self) -> Floats:
        """|φ(a) − φ(b)| for every answer and pair of values, rounded up: shape (answers, pairs)."""
        if isinstance(self.domain, Interval):
            span = Fraction(self.domain.high) - Fraction(self.domain.low)
            shares = [abs(Fraction(a) - Fraction(b)) / span for a, b in self.pairs]  # pyright: ignore[reportArgumentType] - numbers on an interval
            rises = [abs(Fraction(high) - Fraction(low)) for low, high in self.tables.tolist()]
            return np.array([[float_above(rise * share) for share in shares] for rise in rises])
        left, right = (self.tables[:, places] for places in self._places.T)
        return distances_above(left, right)

    @cached_property
    def _places(self) -> Indices:
        """The pairs by the places of their values in the domain, of shape (pairs, 2)."""
        if self.secret.domain == self.domain:
            return self.secret.pair_places
        return np.array(
            [[self._place(value) for value in pair] for pair in self.pairs], dtype=np.intp
        )

    @cached_property
    def distances(self) -> list[float]:
        """The largest distance between the two values of each pair, in the unit of the column; rounded up."""
        if isinstance(self.domain, Bins | Interval):
            return [self._distance(a, b) for a, b in self.pairs]
        left, right = (self.domain.numbers[places] for places in self._places.T)
        return distances_above(left, right).tolist()

    @property
    def farthest(self) -> tuple[float, tuple[Label, Label]]:
        """The pair of values that lie farthest apart, and how far."""
        place = int(np.argmax(self.distances))
        return self.distances[place], self.pairs[place]

    def group(self, norm: float) -> float:
        """Return the movement of all rows over all values (M7)."""
        return group_movement(self.kinds.columns, self.kinds.counts, self.tables, norm)

    def own(self, norm: float) -> tuple[Floats, Indices]:
        """Return how far a row of each kind alone moves the answers, in a norm, and between which pair of values."""
        return row_norms(self.kinds.columns, self.differences, norm)

    def _place(self, value: Label) -> int:
        return self.domain.place(value, "a value")

    def _distance(self, a: Label, b: Label) -> float:
        """Return |a − b|; of classes the distance of their outer ends, ∞ if one of them is open."""
        if not isinstance(self.domain, Bins):
            return float_above(abs(Fraction(a) - Fraction(b)))
        edges = (
            [-np.inf, *self.domain.edges, np.inf] if self.domain.open else list(self.domain.edges)
        )
        low, high = sorted((self._place(a), self._place(b)))
        ends = edges[low], edges[high + 1]
        return (
            np.inf if np.inf in np.abs(ends) else float_above(Fraction(ends[1]) - Fraction(ends[0]))
        )


def norms_above(steps: Floats, norm: float) -> Floats:
    """Return the norms along the first axis, rounded up."""
    if len(steps) == 1 or norm == np.inf:
        return np.abs(steps).max(axis=0)
    if norm == 1 and bool((steps == np.rint(steps)).all()):
        return np.abs(steps).sum(axis=0)
    return lifted(common_units.norms(steps, norm), (len(steps) + 8) * UNIT)


def row_norms(columns: Floats, moves: Floats, norm: float) -> tuple[Floats, Indices]:
    """Return the largest ‖w∘move‖ over the moves for each column w of weights, rounded up, and which move it is."""
    if len(columns) == 1:
        place = int(moves[0].argmax())
        longest = products_above(np.abs(columns[0]), moves[0, place])
        return longest, np.full(len(longest), place, dtype=np.intp)
    longest, which = np.empty(columns.shape[1]), np.empty(columns.shape[1], dtype=np.intp)
    width = max(_AT_ONCE // moves.size, 1)
    for start in range(0, columns.shape[1], width):
        block = slice(start, start + width)
        norms = norms_above(products_above(columns[:, block, None], moves[:, None, :]), norm)
        which[block] = norms.argmax(axis=1)
        longest[block] = norms.max(axis=1)
    return longest, which


_MOST_LEVELS = 64
_MOST_NORMS = 1 << 25
_SAME = 1e-9


@final
@dataclass(frozen=True, eq=False)
class Jumps:
    """Pairs of classes by the gap between them, gathered into levels: movements by gaps[k] reach level k."""

    question: Question
    first: Indices
    second: Indices
    starts: Indices
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
        return distances_above(tables[:, self.first], tables[:, self.second])

    @property
    def of_answers(self) -> Floats:
        """The largest jump of each answer's φ for each level: shape (answers, levels)."""
        return self._highest(self.moves)

    def of_kinds(self, norm: float) -> Floats | None:
        """Return the largest jump of all answers by a row of each kind, in a norm; None if that takes too long."""
        columns = self.question.kinds.columns
        if len(columns) == 1 or columns.size * len(self.first) > _MOST_NORMS:
            return None
        return self._highest(
            norms_above(products_above(columns[:, :, None], self.moves[:, None, :]), norm)
        )

    def level(self, distances: Floats) -> Indices:
        """Return the level that movements by some distances reach; an underflowed distance counts as above 0."""
        return np.searchsorted(self.gaps, distances * (1 + 4 * UNIT), side="right") - 1

    def _highest(self, values: Floats) -> Floats:
        ends = np.append(self.starts[1:], values.shape[-1]) - 1
        return np.maximum.accumulate(values, axis=-1)[..., ends]


def _classes(domain: Domain) -> tuple[Indices, Floats]:
    """Return the places of the classes from low to high, and the borders between neighbours."""
    if isinstance(domain, Bins):
        edges = np.array(domain.edges)
        return np.arange(len(domain.points)), edges if domain.open else edges[1:-1]
    order = np.argsort(domain.numbers, kind="stable")
    values = domain.numbers[order]
    return order, values[:-1] / 2 + values[1:] / 2


def _levels(gaps: Floats) -> Indices:
    """Return the starts of levels: gaps that differ by rounding only share one, and so do more if many remain."""
    starts: list[int] = [0]
    for place, gap in enumerate(gaps.tolist()):
        if gap > gaps[starts[-1]] * (1 + _SAME):
            starts.append(place)
    if len(starts) > _MOST_LEVELS:
        places: list[int] = np.linspace(0, len(starts) - 1, _MOST_LEVELS).astype(int).tolist()
        starts = [starts[place] for place in places]
    return np.array(starts, dtype=np.intp)
