"""How far answers about several cells move, many or unknown ones, if every row of a group may change (M7).

No laws are listed, nor is there an array of all answers. Rows that may be absent count with the most that they can add
to the answers, against nothing.

For many or unknown cells, the movement of all rows of the group is a bound (M7, M20). Rounding rows one by one, as
answers about an interval need, adds at most a step for each row that moves (M1, M13).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial, wraps
from typing import Any, cast, final

import numpy as np

from pufferflow.calibration.laws import (
    DependentChain,
    DependentRows,
    Laws,
    LawsSize,
    ListedLaws,
    Pair,
    Place,
    Reach,
)
from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT, distances_above, float_above, products_above, upwards
from pufferflow.distributions.coupling import Certainty
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.markov.windows_of_answers import RowSums
from pufferflow.models.domain import Interval
from pufferflow.models.priors.base import Prior
from pufferflow.models.secret import AnySecret, Initial, Presence, Secret
from pufferflow.queries.engine_interface import Pattern
from pufferflow.queries.statistic import Kinds, Statistic, column_and_domain
from pufferflow.sensitivity.movement import Measure, Movement, group_movement, two_points
from pufferflow.sensitivity.row_query import Question, norms_above, row_norms

PRESENCE = ("there", "not there")


def with_nothing(tables: Floats) -> Floats:
    """Return φ with one more point, 0, for an absent row."""
    return np.concatenate([tables, np.zeros((len(tables), 1))], axis=1)


def columns_of(weights: Floats, rows: Any = None) -> tuple[Floats, Any]:
    """Return the distinct columns of weights, up to sign, and how many rows have each; a column may stand for many."""
    kinds = Kinds.of(np.abs(weights) if len(weights) == 1 else weights, rows)
    return kinds.columns, kinds.counts


def departure(prior: Prior, weights: Floats, tables: Floats, rows: Any = None) -> Movement:
    """Return max ‖Σ_r w_r∘φ(x_r)‖ over the values of all rows: the most that they add together.

    Exact for one answer; for several, the smaller bound of answers one by one and rows one by one. A column of weights
    stands for as many rows as `rows` says, or for one if it is None.
    """
    steps = np.array(
        [_most_added(row, table, rows) for row, table in zip(weights, tables, strict=True)]
    )
    if len(steps) == 1:
        return Movement.of(prior, steps, None, Certainty.EXACT, PRESENCE)
    length = partial(_most_added_together, steps, *columns_of(weights, rows), tables)
    return Movement.of(prior, steps, length, Certainty.UPPER_BOUND, PRESENCE)


def _most_added_together(
    steps: Floats, columns: Floats, counts: Any, tables: Floats, norm: float
) -> float:
    row_lengths, _ = row_norms(np.abs(columns), np.abs(tables), norm)
    total = float(np.dot(row_lengths, counts))
    whole = bool((row_lengths == np.rint(row_lengths)).all()) and total < 2.0**52
    return min(
        float(norms_above(steps, norm)),
        total if whole else upwards(total, (len(row_lengths) + 4) * UNIT),
    )


def _most_added(weights: Floats, table: Floats, rows: Any) -> float:
    """Return the largest |Σ_r w_r φ(x_r)|, rounded up once."""
    alike = Kinds.of(weights[None], rows)
    sums = [
        Fraction(weight) * count
        for weight, count in zip(alike.columns[0].tolist(), alike.counts.tolist(), strict=True)
    ]
    plus_sum, minus_sum = (
        sum((r for r in sums if r > 0), Fraction(0)),
        sum((-r for r in sums if r < 0), Fraction(0)),
    )
    low, high = Fraction(float(table.min())), Fraction(float(table.max()))
    return float_above(
        max(abs(plus_sum * high - minus_sum * low), abs(plus_sum * low - minus_sum * high))
    )


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


Method = Callable[[Any, Statistic, AnySecret], Laws]


def free(prior: Prior, statistic: Statistic, secret: AnySecret, certainty: Certainty) -> Laws:
    """Return the movement of all rows over all values; `certainty` says whether the prior allows it."""
    tables = tables_of(prior, statistic, secret)
    tables = with_nothing(tables) if isinstance(secret, Presence) else tables
    columns, counts = columns_of(statistic.weights, statistic.counts)
    steps = np.array(
        [group_movement(columns[[o]], counts, tables[[o]], 1) for o in range(len(tables))]
    )
    if len(tables) == 1:
        return Movement.of(prior, steps, None, certainty, values_of(secret))
    length = partial(group_movement, columns, counts, tables)
    return Movement.of(prior, steps, length, Certainty.UPPER_BOUND, values_of(secret))


def row_by_row(method: Method) -> Method:
    """Apply a method to every row by itself; where there are too many rows, all of them may change (M7)."""

    @wraps(method)
    def laws(prior: Any, statistic: Statistic, secret: AnySecret) -> Laws:
        listed = statistic.listed()
        if listed is None:
            return free(prior, statistic, secret, Certainty.UPPER_BOUND)
        return method(prior, listed, secret)

    return laws


def values_of(secret: AnySecret) -> tuple[Any, Any]:
    """Return two values of a secret that stand for all."""
    if isinstance(secret, Presence):
        return PRESENCE
    return (
        secret.value_pairs()[0]
        if isinstance(secret, Secret | Initial)
        else ("any value", "any other")
    )


def tables_of(prior: Prior, statistic: Statistic, secret: AnySecret) -> Floats:
    """Return φ at all points; where no column is named, the numbers that a row may add, 1 if none are given."""
    if secret.reads is not None or prior.columns or statistic.column is not None:
        _, domain = column_and_domain(prior, statistic, secret)
        return statistic.on(domain)
    given = statistic.values
    if given is None:
        if not isinstance(secret, Presence):
            raise UsageError(
                "The statistic adds up values of a column, but neither the secret nor the prior declares its domain.",
                allowed="a secret with a column and its domain, or the numbers that a row may add",
                instead="pf.Derived(name, column=..., domain=...), or pf.Statistic(weights, values=[0, 1])",
            )
        given = np.ones((1, 1))
    elif not isinstance(given, np.ndarray):
        given = np.array([[float(value) for value in given.values()]])
    table = np.atleast_2d(given)
    return np.broadcast_to(table, (statistic.answers, table.shape[1]))


_MOST_LISTED = 20_000


@final
class SingleRow:
    """Rows of which only the secret one moves (M2): every kind of row with every pair of values."""

    def __init__(self, prior: Prior, question: Question) -> None:
        self.prior, self.question = prior, question

    @cached_property
    def columns(self) -> Floats:
        """The distinct columns of weights that a secret row can have."""
        if not self.question.first:
            return self.question.kinds.columns
        start = self.question.starts
        return (
            self.question.weights[:, start] if start.any() else np.zeros((self.question.answers, 1))
        )

    @property
    def rows(self) -> Sequence[int]:
        """A row that has each of them."""
        return [0] if self.question.first else self.question.kinds.first.tolist()

    def laws(self) -> Laws:
        """Return the pairs one by one, or their longest movement if they are many."""
        if self.columns.size * len(self.question.pairs) > _MOST_LISTED:
            return self.movement()
        steps = products_above(self.columns[:, :, None], self.question.differences[:, None, :])
        signs = np.array([[float((b > a) - (b < a)) for a, b in pairs] for pairs in self._values])
        signed = np.copysign(steps, np.sign(self.columns)[:, :, None] * signs[:, None, :])
        flat = signed.reshape(len(signed), -1).T + 0.0
        leading = flat[np.arange(len(flat)), (flat != 0).argmax(axis=1)]
        _, chosen = np.unique(
            flat * np.where(leading < 0, -1.0, 1.0)[:, None], axis=0, return_index=True
        )
        if len(chosen) > 1:
            chosen = chosen[flat[chosen].any(axis=1)]
        chosen = np.sort(chosen)
        pairs = [self._pair(*divmod(int(place), len(self.question.pairs))) for place in chosen]
        lengths = np.abs(flat[chosen]).T
        return ListedLaws(pairs, partial(_lengths_above, lengths))

    def movement(self) -> Movement:
        """Return the longest movement of one row."""
        return Movement.of(self.prior, self.steps, self.length, Certainty.EXACT, *self.witness)

    @cached_property
    def steps(self) -> Floats:
        """How far one row moves each answer at most."""
        if self.question.answers == 1:
            return np.array([self.length(1)])
        return products_above(
            np.abs(self.columns).max(axis=1), self.question.differences.max(axis=1)
        )

    @property
    def witness(self) -> tuple[tuple[Any, Any], int]:
        """The values and the row that move all answers farthest."""
        longest, which = row_norms(self.columns, self.question.differences, 1)
        place = int(longest.argmax())
        return self.question.pairs[int(which[place])], self.rows[place]

    def length(self, norm: float) -> float:
        """Return the longest movement in a norm."""
        return float(row_norms(self.columns, self.question.differences, norm)[0].max())

    @cached_property
    def _values(self) -> list[list[tuple[Fraction, Fraction]]]:
        """φ at both values of every pair, exactly, for every answer."""
        domain = self.question.domain

        def at(table: Sequence[Fraction], value: Any) -> Fraction:
            if not isinstance(domain, Interval):
                return table[domain.place(value, "a value")]
            low, high = Fraction(domain.low), Fraction(domain.high)
            return table[0] + (table[1] - table[0]) * (Fraction(value) - low) / (high - low)

        tables = [[Fraction(value) for value in table] for table in self.question.tables.tolist()]
        return [[(at(table, a), at(table, b)) for a, b in self.question.pairs] for table in tables]

    def _pair(self, kind: int, pair: int) -> Pair:
        weights = [Fraction(weight) for weight in self.columns[:, kind].tolist()]
        mu, nu = (
            Law.point(
                [
                    weight * values[pair][end]
                    for weight, values in zip(weights, self._values, strict=True)
                ]
            )
            for end in (0, 1)
        )
        return Pair(mu, nu, self.prior, self.question.pairs[pair], self.rows[kind])


def _lengths_above(lengths: Floats, norm: float) -> Floats:
    """Return the distance in a norm between the answers of each pair, rounded up."""
    return np.atleast_1d(norms_above(lengths, norm))


_MOST_STEPS = 10_000


@final
@dataclass(frozen=True, eq=False)
class CoveringMovement:
    """Bounds for all patterns whose rows are among those given, in any cells.

    `of_one_cell` are the laws of all rows in a single cell. Its walks are valid for every split into cells. Outputs
    depend on a row only through its exposure ℓ_t, a sum over the answers that the row touches (M20). Each row touches
    the answers of one cell, with the same weights in all cells.

    The walks are valid for every smaller pattern, too. Rows that a pattern does not have, or that are not queried, have
    the exposure 0 along the same chain. Its kernels over gaps are products of its own, and its marginals do not depend
    on which rows are there. Messages grow with exposures, and there are fewer secret rows. So all groups have to begin
    at the same position, unless positions may be shifted (`Prior.repeats`). A star (M21) has no positions. There n rows
    reveal no more of the class than n queried rows. A secret row that is not queried leaves n − 1 others.

    Movements are those of the group (`Cells`), or of one cell where `scattered` says that no split moves farther. The
    place has the largest number of answers, if the cells of rows are unknown.
    """

    of_one_cell: Laws
    cells: Cells
    place: Place
    scattered: bool
    single: bool = False
    """Whether each cell is known to have at most one row."""
    cells_of_rows: Indices | None = None
    """The cell of each row, −1 for none; None where they are unknown."""

    @property
    def movement(self) -> Movement:
        """The movement of the answers about all cells."""
        moved = self.winf if self.scattered else self.span
        single = self.of_one_cell.size
        size = (
            single
            if self.scattered
            else LawsSize(messages=single.messages, coarse=single.coarse, windows=self._work)
        )
        return Movement(
            self.place.dimension,
            moved,
            self.span,
            self.points,
            dependence=self.walks,
            size=size,
            rates=self.of_one_cell.least_loss,
        )

    def winf(self, norm: float) -> Reach:
        """Return the movement of all cells together, at most that of one cell with all rows."""
        whole = self.span(norm)
        return replace(whole, length=min(whole.length, self.of_one_cell.winf(norm).length))

    def span(self, norm: float) -> Reach:
        """Return the movement of the group."""
        return Reach(self.cells.length(norm), Certainty.UPPER_BOUND, self.place)

    def points(self) -> list[Pair]:
        """Return two points; refuse where they would represent other numbers of answers."""
        if not self.place.dimension == len(self.cells.steps) <= _MOST_STEPS:
            raise Refused(
                f"The movements of up to {self.place.dimension} answers cannot be listed: their cells are unknown, or "
                "too many.",
                allowed=f"at most {_MOST_STEPS} answers, about cells that are known",
                instead="bound=pf.Messages(), pf.GWM() or pf.Group(), which need no list",
            )
        return [two_points(self.cells.steps, self.place.prior, self.place.secrets)]

    def walks(self) -> list[DependentRows]:
        """Return the walks of one cell for this number of answers, each with independent noise."""
        return [
            replace(
                walk,
                answers=self.place.dimension,
                single=self.single,
                sums=self._in_cells(walk.sums),
            )
            if isinstance(walk, DependentChain)
            else replace(cast(Any, walk), answers=self.place.dimension)
            for walk in self.of_one_cell.walks()
        ]

    def _in_cells(self, sums: RowSums | None) -> RowSums | None:
        """Return what rows add to the answers about their cells; rows before those of the pattern are in none."""
        if sums is None or self.cells_of_rows is None:
            return None
        before = len(sums.kinds) - len(self.cells_of_rows)
        return replace(sums, cells=np.pad(self.cells_of_rows, (before, 0), constant_values=-1))

    @property
    def _work(self) -> float:
        """The number of likelihoods of answers in windows; 0 where rows are in no order."""
        if self.cells_of_rows is None or not self.of_one_cell.size.messages:
            return 0.0
        every = (walk.sums for walk in self.walks() if isinstance(walk, DependentChain))
        return sum(sums.work for sums in every if sums is not None)


@final
@dataclass(frozen=True, eq=False)
class RoundedMovement:
    """Laws of linear φ whose rows are read as whole steps: k(x) is φ(x), rounded monotonically.

    A row that moves in the linear answers moves by up to a step more in the rounded ones,
    |k(a) − k(b)| ≤ |φ(a) − φ(b)| + 1 step; a row that does not move stays. So every coupling that moves the linear
    answers by z moves the rounded ones by at most z plus the rounding of all rows that can move (M1). They never move
    by more than the group, whose ends are whole steps: k and φ have the same ends. `growth` is the rounding, `group`
    the movement of all rows between the ends. Walks by movements of whole answers grow with them.
    """

    linear: Laws
    growth: Cells
    group: Cells

    @property
    def movement(self) -> Movement:
        """The movement of the rounded answers."""
        laws = self.linear
        moved, whole, but_for = (
            partial(self.grown, measure) for measure in (laws.winf, laws.span, laws.near)
        )
        return Movement(
            laws.dimension,
            moved,
            whole,
            self.points,
            laws.certainty,
            but_for,
            self.walks,
            laws.size,
        )

    def grown(self, measure: Measure, *at: float) -> Reach:
        """Return a movement of the linear answers, longer by the rounding."""
        reach, whole = measure(*at), self.group.length(at[-1])
        if reach.length >= whole:
            return replace(reach, length=whole)
        longer = float_above(Fraction(reach.length) + Fraction(self.growth.length(at[-1])))
        certainty = reach.certainty if longer == reach.length else Certainty.UPPER_BOUND
        return replace(reach, length=min(longer, whole), certainty=certainty)

    def points(self) -> list[Pair]:
        """Return two points as far apart as each linear answer moves in any pair, with its rounding."""
        linear = list(self.linear)
        moved = np.max([_distances(pair) for pair in linear], axis=0)
        steps = np.minimum(np.nextafter(moved + self.growth.steps, np.inf), self.group.steps)
        return [two_points(steps, linear[0].prior, linear[0].secrets, linear[0].row)]

    def walks(self) -> list[DependentRows]:
        """Return walks by movements of whole answers, longer by the rounding; refuse others."""
        return [walk.grown(self.growth.length, self.group.length) for walk in self.linear.walks()]


def _distances(pair: Pair) -> list[float]:
    """Return how far apart the points of a pair are, coordinate by coordinate, rounded up."""
    left, right = (np.atleast_1d(np.asarray(law.values)[0]) for law in pair if isinstance(law, Law))
    return [float_above(abs(Fraction(a) - Fraction(b))) for a, b in zip(left, right, strict=True)]
