"""How far answers about several columns move if all rows are translated with the columns of one of them (M15, M53).

Row r moves in column c by some share, from nothing to all, of its translation, and by no more than its domain is wide:
releases clamp values to the domain, column by column. So an answer moves by at most the larger of the sums of its
positive and of its negative terms, over rows and columns, each at most its weight times the width.

The columns of the secret row change by any vector of the product of intervals. Where covariances are products of those
of rows and those of columns each column follows its own change; the sums over columns then add. Otherwise sums without
limits are convex in the changes, so largest where all changes go from end to end, up or down. Terms that may exceed
the width count as the width, on both sides, since they may be largest in between.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, cast, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import UNIT, lifted, products_above, sums_above
from pufferflow.distributions.coupling import Certainty
from pufferflow.models.priors.across import hidden_column, joint_shares, shares_of_column
from pufferflow.models.priors.covariance import Matrix
from pufferflow.models.priors.gaussian import GaussianPrior
from pufferflow.models.product import Product
from pufferflow.models.secret import AnySecret, Secret
from pufferflow.queries.statistic import Kinds, Statistic
from pufferflow.sensitivity.movement import Movement, group_movement
from pufferflow.sensitivity.row_query import norms_above

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
        return Movement(
            steps,
            lambda norm: min(float(self.lengths(norm).max()), self.group(norm)),
            Certainty.UPPER_BOUND,
            ends if self._column is None else self._ends_of_column,
            rows[0] if rows else None,
        )

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
            return np.arange(len(self.prior.covariance.places(self.statistic.positions)) // self._columns, dtype=float)
        return self.prior.covariance.places(self.statistic.positions)

    @property
    def _columns(self) -> int:
        return len(self.domain.columns)

    @cached_property
    def _column(self) -> int | None:
        """The column that is the secret, if it is a single one."""
        return hidden_column(self.secret, self.domain)

    @property
    def _ends_of_column(self) -> tuple[float, float]:
        low, *_, high = self.domain.domains[self._column or 0].numbers.tolist()
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
            low, high = (np.take(table, end, axis=column + 1).reshape(len(table), -1) for end in (0, 1))
            moved = high - low
            rises[:, column] = np.where(moved.sum(axis=1) < 0, -1, 1) * np.abs(moved).max(axis=1)
            if (np.ptp(moved, axis=1) > _SAME * np.abs(table).reshape(len(table), -1).max(axis=1)).any():
                raise UsageError(
                    "A function of several columns that is no sum of functions of each, under pf.GaussianPrior.",
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
        if self._column is not None and self.prior.across is not None:
            yield self._with_column(*shares_of_column(self.prior.across, self._column, self.domain))
            return
        moved = [self._larger(*self._sides(column, 1.0)) for column in range(self._columns)]
        if self._one_by_one:
            yield from moved
        else:
            read = np.stack(moved)
            total = read.sum(axis=0)
            yield np.where((read > 0).sum(axis=0) > 1, lifted(total, self._columns * UNIT), total)

    def _with_column(self, above: Floats, below: Floats) -> Floats:
        """Return the movements if all columns move with one, each by its share above 0, or by that below."""
        up, down = np.zeros((2, self.statistic.answers, len(self._places)))
        for column in range(self._columns):
            (rise, fall), (back, ahead) = (self._sides(column, float(side[column])) for side in (above, below))
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
            return np.zeros((len(signed), len(self._places))), np.zeros((len(signed), len(self._places)))
        cap = 1 / share * (1 + 2 * UNIT)
        if cap < 1 and len(positions) <= _MOST_LISTED:  # without limits other rows move farther: still a bound
            up, down = covariance.sides_at(self._places, positions, signed, cap)
        else:
            up, down = covariance.sides(positions, signed, max(cap, 1.0))
        at = np.minimum(np.searchsorted(positions, self._places), len(positions) - 1)
        own = np.where(positions[at] == self._places, signed[:, at], 0.0) * min(cap, 1.0)
        if share == 1:
            return sums_above(np.maximum(own, 0.0), up), sums_above(np.maximum(-own, 0.0), down)
        rise, fall = (
            lifted((side + np.maximum(part, 0.0)) * share, 4 * UNIT) for side, part in ((up, own), (down, -own))
        )
        return rise, fall

    def _joint(self) -> Iterator[Floats]:
        """Yield the movements under a matrix of all columns of all rows, for each way the columns may change."""
        shares = joint_shares(cast(Matrix, self.prior.covariance), self.domain, self._column)
        changes = _changes(1 if self._column is not None else self._columns, one_by_one=self._one_by_one)
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
        return np.copysign(products_above(self.statistic.weights, rises), self.statistic.weights * np.sign(rises))

    def _moved(self, weights: Floats, moved: Floats, wrong: Floats, change: Floats) -> Floats:
        """Return the larger sum for each answer and place, if the columns of the secret change as said."""
        toward = moved @ change
        farthest = np.abs(moved) @ np.abs(change) + wrong
        beyond = (farthest > 1) & (np.count_nonzero(change) > 1)
        sizes = [np.where(beyond, 1.0, np.clip(sign * toward + wrong, 0.0, 1.0)) for sign in (1, -1)]
        above, below = (size.transpose(2, 1, 0).reshape(weights.shape[1], -1) for size in sizes)
        plus, minus = np.maximum(weights, 0.0), np.maximum(-weights, 0.0)
        error = (2 * weights.shape[1] + 8) * UNIT
        return self._larger(lifted(plus @ above + minus @ below, error), lifted(plus @ below + minus @ above, error))

    def _larger(self, up: Floats, down: Floats) -> Floats:
        return lifted(up + down) if self.open_cells else np.maximum(up, down)


def _changes(columns: int, *, one_by_one: bool) -> list[Floats]:
    """Return how the columns of the secret may change, up to the sign: one at a time, or all from end to end."""
    if one_by_one:
        return list(np.eye(columns))
    return [np.array([1.0, *signs]) for signs in itertools.product((1.0, -1.0), repeat=columns - 1)]
