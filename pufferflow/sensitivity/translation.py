"""How far answers move if all rows of a group are translated with one value, or one row's columns (M15, M53).

Row r moves in column c by some share, from nothing to all, of its translation, and by at most the width of its domain.
For releases clamp values to the domain, column by column. The terms of an answer, over rows and columns, are each at
most their weight times the width. So the answer moves by at most the sum of its positive terms or that of its negative
ones, whichever is larger.

The columns of the secret row change by any vector of the product of intervals. Where covariances are products of those
of rows and those of columns each column follows its own change; the sums over columns then add. Otherwise sums without
limits are convex in the changes, so largest where all changes go from end to end, up or down. Terms that may exceed
the width count as the width, on both sides, since they may be largest in between.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final, cast, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import UNIT, lifted, products_above, sums_above
from pufferflow.distributions.coupling import Certainty
from pufferflow.models.domain import Interval, Product
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.covariance import Covariance, Matrix
from pufferflow.models.priors.gaussian import (
    Direction,
    GaussianPrior,
    hidden_direction,
    joint_shares,
    shares_of,
)
from pufferflow.models.secret import AnySecret, Secret
from pufferflow.queries.statistic import Kinds, Statistic
from pufferflow.sensitivity.movement import Movement, group_movement
from pufferflow.sensitivity.row_query import Jumps, Question, norms_above

_NOT_CERTAIN = 1 - 1e-9


@final
@dataclass(frozen=True, eq=False)
class Translation:
    """Rows that move with a secret one by c_ri·v, or less where values are clamped to the domain (M15).

    On an interval each row moves by a share of its translation, from nothing to all: one answer by at most
    max(Σ(w_r v_r)⁺, Σ(w_r v_r)⁻), each term at most |w_r|·(high − low). In classes it may cross borders either way.
    Movements of several answers are bounded one by one, and in classes also row by row.

    Rows in unknown cells, `open_cells`, may move one cell up and another down. Then both sums count, and no split of
    the rows into cells moves farther in the norms 1 and 2: both norms of a number that is split are at most the sum of
    its parts' sizes, for each answer.

    In classes rows with a correlation below `least` do not move, if it `fades`; otherwise they move as at `least`.
    """

    question: Question
    covariance: Covariance
    open_cells: bool = False
    least: float = 0.0
    fades: bool = False

    @cached_property
    def places(self) -> Floats:
        """The positions of the secrets."""
        return (
            np.array([self.question.start])
            if self.question.first
            else self.covariance.places(self.question.positions)
        )

    @cached_property
    def rows(self) -> Indices:
        """The row at each place, −1 if it is not queried; for classes of values also places between rows."""
        positions = self.question.positions
        nearest = np.minimum(np.searchsorted(positions, self.places), len(positions) - 1)
        rows = np.where(positions[nearest] == self.places, nearest, -1)
        if self.question.first or isinstance(self.question.domain, Interval):
            return rows
        between = self.covariance.between(positions, np.zeros((1, len(positions))), 0.0)
        return np.concatenate([rows, np.full(between.shape[1], -1)])

    @cached_property
    def steps(self) -> Floats:
        """How far each answer moves with the secret at each place: shape (answers, places)."""
        if isinstance(self.question.domain, Interval):
            return self._on_interval(self.question.domain)
        weights = np.abs(self.question.weights)
        own = products_above(weights, self.question.differences.max(axis=1, keepdims=True))
        others = np.zeros((len(weights), len(self.rows)))
        for heights, level in self._levels(self.jumps.of_answers):
            others += self._reach(weights * heights[:, None], level)
        return sums_above(self._at_places(own), self._round_up(others))

    @cached_property
    def jumps(self) -> Jumps:
        """The jumps of answers for movements between classes."""
        return Jumps.of(self.question)

    def lengths(self, norm: float) -> Floats:
        """Return how far all answers together move in a norm, for each place."""
        whole = norms_above(self.steps, norm)
        kinds = None if isinstance(self.question.domain, Interval) else self.jumps.of_kinds(norm)
        if kinds is None:
            return whole
        kind_of = self.question.kinds.of_row
        own = self.question.own(norm)[0][kind_of][None]
        others = np.zeros((1, len(self.rows)))
        for heights, level in self._levels(kinds):
            others += self._reach(heights[kind_of][None], level)
        return np.minimum(whole, sums_above(self._at_places(own), self._round_up(others))[0])

    def length(self, norm: float) -> float:
        """Return how far all answers together move, for the place where they move farthest."""
        return float(self.lengths(norm).max())

    def movement(self, prior: GaussianPrior) -> Movement:
        """Return the farthest movement over all places and pairs of values."""
        lengths = self.lengths(1)
        place = int(lengths.argmax())
        row = int(self.rows[place])
        certainty = Certainty.EXACT if self._attained(place) else Certainty.UPPER_BOUND
        single, question = self.question.answers == 1, self.question
        steps, length = (
            (lengths[[place]], None) if single else (self.steps.max(axis=1), self.length)
        )
        secrets, at = question.farthest[1], row if row >= 0 else None
        return Movement.of(prior, steps, length, certainty, secrets, at, question.group)

    def _on_interval(self, domain: Interval) -> Floats:
        """Return the larger of the sums of positive and negative terms; the row itself counts on its own side."""
        tables, positions = self.question.tables, self.question.positions
        rises = tables[:, 1:] - tables[:, :1]
        ends = products_above(
            self.question.weights,
            rises * (1 + 2 * UNIT) if (rises != np.rint(rises)).any() else rises,
        )
        signed = np.copysign(ends, self.question.weights * np.sign(rises))
        distance = self.question.farthest[0]
        share = min(distance / domain.width * (1 + 4 * UNIT), 1.0)
        cap = 1 / share * (1 + 2 * UNIT)
        if self.question.first:
            sides = self.covariance.sides_at(self.places, positions, signed, cap)
        else:
            sides = self.covariance.sides(positions, signed, cap)
        up, down = (side if share == 1 else lifted(side * share, 2 * UNIT) for side in sides)
        own = products_above(
            self.question.weights, self.question.differences.max(axis=1, keepdims=True)
        )
        plus_side, minus_side = np.where(signed > 0, own, 0.0), np.where(signed < 0, own, 0.0)
        above, below = (
            sums_above(self._at_places(plus_side), up),
            sums_above(self._at_places(minus_side), down),
        )
        return sums_above(above, below) if self.open_cells else np.maximum(above, below)

    def _levels(self, heights: Floats) -> list[tuple[Floats, float]]:
        """Return the increase of φ's jump from level to level, and the correlation at which it occurs."""
        distance = self.question.farthest[0]
        more = np.diff(heights, axis=-1, prepend=0.0)
        more = (
            np.where(more > 0, np.nextafter(more, np.inf), 0.0)
            if (heights != np.rint(heights)).any()
            else more
        )
        levels = self.jumps.gaps / distance * (1 - 16 * UNIT)
        levels = (
            np.maximum(levels, self.least)
            if self.fades
            else np.where(levels < self.least, 0.0, levels)
        )
        return [
            (more[..., k], float(level)) for k, level in enumerate(levels) if more[..., k].any()
        ]

    def _reach(self, heights: Floats, level: float) -> Floats:
        if self.question.first:
            return self.covariance.reached_at(self.places, self.question.positions, heights, level)
        at_rows = self.covariance.reached(self.question.positions, heights, level)
        return np.concatenate(
            [at_rows, self.covariance.between(self.question.positions, heights, level)], axis=1
        )

    def _at_places(self, values: Floats) -> Floats:
        return np.where(self.rows >= 0, values[:, self.rows], 0.0)

    def _round_up(self, sums: Floats) -> Floats:
        """Return sums over levels rounded up, with the products in them; those of whole numbers are exact."""
        numbers = self.question.weights, self.question.tables
        if (
            all((array == np.rint(array)).all() for array in numbers)
            and float(sums.max(initial=0.0)) < 2.0**52
        ):
            return sums
        return lifted(sums, 2 * (len(self.jumps.gaps) + 4) * UNIT)

    def _attained(self, place: int) -> bool:
        """Return whether the movement is exact for a single answer: no other row moves, or only an unconstrained one.

        Then the answer is monotone in that row, so the translation is the quantile coupling. A Gaussian with a variance
        above 0 has values that move all the way, and values that clamping keeps in place.
        """
        positions, at = self.question.positions, self.places[[min(place, len(self.places) - 1)]]
        if (
            self.open_cells
            or self.question.answers > 1
            or place >= len(self.places)
            or not np.isfinite(at[0])
        ):
            return False
        above, below = (side[0] for side in self.covariance.toward(at, positions))
        moves = (self.question.weights[0] != 0) & (positions != at[0]) & (above + below > 0)
        if not moves.any():
            return True
        if (
            moves.sum() > 1
            or not self.covariance.known
            or not isinstance(self.question.domain, Interval)
        ):
            return False
        other = int(moves.argmax())
        back = np.add(*self.covariance.toward(positions[[other]], at))[0, 0]
        row = int(self.rows[place])
        own = np.zeros(1) if row < 0 else self.question.weights[0, [row]]
        aligned = own[0] * self.question.weights[0, other] * (above - below)[other] >= 0
        only_row = (
            self.steps[0, place]
            == products_above(own, self.question.differences.max(keepdims=True)[0])[0]
        )
        return bool((aligned or only_row) and (above + below)[other] * back < _NOT_CERTAIN)


def by_shares(prior: Prior, question: Question, shares: Floats) -> Movement:
    """Return the movement if row r moves by at most shares[r] times the secret's difference, up or down (M14)."""
    distance, pair = question.farthest
    weights = np.abs(question.weights)
    start = question.starts
    own = products_above(weights[:, start], question.differences.max(axis=1, keepdims=True)).sum(
        axis=1
    )
    rest = weights[:, ~start], shares[~start]
    others = (
        _on_interval(question, *rest)
        if isinstance(question.domain, Interval)
        else _in_classes(question, *rest)
    )
    steps = sums_above(own, others)
    single = int((weights > 0).sum()) <= 1 and (
        isinstance(question.domain, Interval) or bool(start[weights[0] > 0].all())
    )
    certainty = Certainty.EXACT if single and question.answers == 1 else Certainty.UPPER_BOUND
    row = int(start.argmax()) if start.any() else None
    length = None if question.answers == 1 else partial(_length, question, steps, shares, distance)
    return Movement.of(prior, steps, length, certainty, pair, row, question.group)


def _on_interval(question: Question, weights: Floats, shares: Floats) -> Floats:
    reach = question.differences.max(axis=1, keepdims=True)
    return _total(products_above(products_above(weights, reach), shares[None]))


def _in_classes(question: Question, weights: Floats, shares: Floats) -> Floats:
    jumps = Jumps.of(question)
    level = jumps.level(shares * question.farthest[0])
    return _total(products_above(weights, jumps.of_answers[:, level]))


def _total(terms: Floats) -> Floats:
    """Return sums of terms ≥ 0, rounded up."""
    total = terms.sum(axis=-1)
    whole = bool((terms == np.rint(terms)).all()) and float(terms.sum()) < 2.0**52
    single = (terms > 0).sum(axis=-1) <= 1
    return np.where(whole | single, total, lifted(total, (terms.shape[-1] + 2) * UNIT))


def _length(
    question: Question, steps: Floats, shares: Floats, distance: float, norm: float
) -> float:
    """Return the norm of the answers' movements, or in classes the sum of the rows' movements, if that is less."""
    whole = float(norms_above(steps, norm))
    if isinstance(question.domain, Interval):
        return whole
    jumps = Jumps.of(question)
    kinds = jumps.of_kinds(norm)
    if kinds is None:
        return whole
    start, kind_of = question.starts, question.kinds.of_row
    own = question.own(norm)[0][kind_of]
    row_lengths = np.where(start, own, kinds[kind_of, jumps.level(shares * distance)])
    return min(whole, float(_total(row_lengths[None])[0]))


_AT_ONCE: Final = 1 << 21
_MOST_LISTED: Final = 2_000
_SAME: Final = 1e-9


@final
@dataclass(frozen=True, eq=False)
class ColumnTranslation:
    """The movement of the answers of a statistic on a product of intervals.

    `open_cells`: rows may be in any cells, and move one cell up and another one down; then both sums count.
    """

    prior: GaussianPrior
    statistic: Statistic
    secret: AnySecret
    domain: Product
    open_cells: bool = False

    def movement(self) -> Movement:
        """Return the farthest movement over all places of the secret."""
        place = int(self.lengths(1).argmax())
        steps = np.stack([way.max(axis=1) for way in self._ways]).max(axis=0)
        rows: list[int] = np.flatnonzero(self.statistic.positions == self._places[place]).tolist()
        ends = self.domain.points[0], self.domain.points[-1]
        if self._direction is not None:
            ends = self._ends_of(self._direction)
        row = rows[0] if rows else None
        return Movement.of(
            self.prior, steps, self.length, Certainty.UPPER_BOUND, ends, row, self.group
        )

    def length(self, norm: float) -> float:
        """Return how far all answers together move, for the place where they move farthest."""
        return min(float(self.lengths(norm).max()), self.group(norm))

    def lengths(self, norm: float) -> Floats:
        """Return how far all answers together move in a norm, for each place."""
        return np.max([norms_above(way, norm) for way in self._ways], axis=0)

    def group(self, norm: float) -> float:
        """Return the movement of all rows over all values (M7)."""
        kinds = Kinds.of(self.statistic.weights, self.statistic.counts)
        return group_movement(kinds.columns, kinds.counts, self.statistic.on(self.domain), norm)

    @cached_property
    def _places(self) -> Floats:
        """The positions of the secrets."""
        if self.prior.across is None:
            return np.arange(
                len(self.prior.covariance.places(self.statistic.positions)) // self._columns,
                dtype=float,
            )
        return self.prior.covariance.places(self.statistic.positions)

    @property
    def _columns(self) -> int:
        return len(self.domain.columns)

    @cached_property
    def _direction(self) -> Direction | None:
        """The function of the columns that is the secret; None if all of them are."""
        return hidden_direction(self.secret, self.domain)

    def _ends_of(self, direction: Direction) -> tuple[float, float]:
        """Return two values of the secret that are as far apart as any pair."""
        if direction.column is None:
            return 0.0, direction.distance
        low, *_, high = self.domain.domains[direction.column].numbers.tolist()
        return low, high

    @property
    def _one_by_one(self) -> bool:
        """Whether a single column of the secret changes at a time."""
        return isinstance(self.secret, Secret) and self.secret.pairs != "all"

    @cached_property
    def _rises(self) -> Floats:
        """The change of each answer from end to end of each column: of shape (answers, columns)."""
        table = self.statistic.on(self.domain).reshape(-1, *(2,) * self._columns)
        rises = np.empty((len(table), self._columns))
        for column in range(self._columns):
            low, high = (
                np.take(table, end, axis=column + 1).reshape(len(table), -1) for end in (0, 1)
            )
            moved = high - low
            rises[:, column] = np.where(moved.sum(axis=1) < 0, -1, 1) * np.abs(moved).max(axis=1)
            if (
                np.ptp(moved, axis=1) > _SAME * np.abs(table).reshape(len(table), -1).max(axis=1)
            ).any():
                raise UsageError(
                    "Under pf.GaussianPrior a function of several columns must be a sum of functions of one column.",
                    allowed="functions of one column each, or sums of such",
                    instead="pf.AnyCorrelation() as the prior",
                )
        return rises if (rises == np.rint(rises)).all() else rises * (1 + 4 * UNIT)

    @cached_property
    def _ways(self) -> list[Floats]:
        """Movements of each answer for each place, for all ways in which the columns of the secret may change."""
        return list(self._joint() if self.prior.across is None else self._separable())

    def _separable(self) -> Iterator[Floats]:
        """Yield the movements under K(r, s)·C(c, d); each column adds its sums over rows."""
        if self._direction is not None and self.prior.across is not None:
            yield self._with_secret(*shares_of(self.prior.across, self._direction, self.domain))
            return
        moved = [self._larger(*self._sides(column, 1.0)) for column in range(self._columns)]
        if self._one_by_one:
            yield from moved
        else:
            read = np.stack(moved)
            total = read.sum(axis=0)
            yield np.where((read > 0).sum(axis=0) > 1, lifted(total, self._columns * UNIT), total)

    def _with_secret(self, above: Floats, below: Floats) -> Floats:
        """Return the movements if all columns move with the secret, each by its share above 0, or by that below."""
        up, down = np.zeros((2, self.statistic.answers, len(self._places)))
        for column in range(self._columns):
            (rise, fall), (back, ahead) = (
                self._sides(column, float(side[column])) for side in (above, below)
            )
            up, down = up + np.maximum(rise, ahead), down + np.maximum(fall, back)
        error = 2 * self._columns * UNIT
        return self._larger(lifted(up, error), lifted(down, error))

    def _sides(self, column: int, share: float) -> tuple[Floats, Floats]:
        """Return the sums of either sign in one column that moves by a share of its translation, own rows included."""
        positions, covariance = self.statistic.positions, self.prior.covariance
        rises = self._rises[:, [column]]
        size = products_above(self.statistic.weights, rises)
        signed = np.copysign(size, self.statistic.weights * np.sign(rises))
        if share == 0:
            return np.zeros((len(signed), len(self._places))), np.zeros(
                (len(signed), len(self._places))
            )
        cap = 1 / share * (1 + 2 * UNIT)
        if (
            cap < 1 and len(positions) <= _MOST_LISTED
        ):  # without limits other rows move farther: still a bound
            up, down = covariance.sides_at(self._places, positions, signed, cap)
        else:
            up, down = covariance.sides(positions, signed, max(cap, 1.0))
        at = np.minimum(np.searchsorted(positions, self._places), len(positions) - 1)
        own = np.where(positions[at] == self._places, signed[:, at], 0.0) * min(cap, 1.0)
        if share == 1:
            return sums_above(np.maximum(own, 0.0), up), sums_above(np.maximum(-own, 0.0), down)
        rise, fall = (
            lifted((side + np.maximum(part, 0.0)) * share, 4 * UNIT)
            for side, part in ((up, own), (down, -own))
        )
        return rise, fall

    def _joint(self) -> Iterator[Floats]:
        """Yield the movements under a matrix of all columns of all rows, for each way the columns may change."""
        shares = joint_shares(cast(Matrix, self.prior.covariance), self.domain, self._direction)
        changes = _changes(
            1 if self._direction is not None else self._columns, one_by_one=self._one_by_one
        )
        plus = np.concatenate([self._weights_of(column) for column in range(self._columns)], axis=1)
        ways = [np.empty((len(plus), len(self._places))) for _ in changes]
        width = max(_AT_ONCE // max(plus.shape[1] * self._columns, 1), 1)
        for start in range(0, len(self._places), width):
            block = slice(start, start + width)
            moved, wrong = shares(self._places[block], self.statistic.positions)
            for way, change in zip(ways, changes, strict=True):
                way[:, block] = self._moved(plus, moved, wrong, change)
        yield from ways

    def _weights_of(self, column: int) -> Floats:
        rises = self._rises[:, [column]]
        return np.copysign(
            products_above(self.statistic.weights, rises), self.statistic.weights * np.sign(rises)
        )

    def _moved(self, weights: Floats, moved: Floats, wrong: Floats, change: Floats) -> Floats:
        """Return the larger sum for each answer and place, if the columns of the secret change as said."""
        toward = moved @ change
        farthest = np.abs(moved) @ np.abs(change) + wrong
        beyond = (farthest > 1) & (np.count_nonzero(change) > 1)
        sizes = [
            np.where(beyond, 1.0, np.clip(sign * toward + wrong, 0.0, 1.0)) for sign in (1, -1)
        ]
        above, below = (size.transpose(2, 1, 0).reshape(weights.shape[1], -1) for size in sizes)
        plus, minus = np.maximum(weights, 0.0), np.maximum(-weights, 0.0)
        error = (2 * weights.shape[1] + 8) * UNIT
        return self._larger(
            lifted(plus @ above + minus @ below, error), lifted(plus @ below + minus @ above, error)
        )

    def _larger(self, up: Floats, down: Floats) -> Floats:
        return lifted(up + down) if self.open_cells else np.maximum(up, down)


def _changes(columns: int, *, one_by_one: bool) -> list[Floats]:
    """Return how the columns of the secret may change, up to the sign: one at a time, or all from end to end."""
    if one_by_one:
        return list(np.eye(columns))
    return [np.array([1.0, *signs]) for signs in itertools.product((1.0, -1.0), repeat=columns - 1)]
