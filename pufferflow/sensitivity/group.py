"""Bounds by movement alone: of all rows of a group, whatever the prior (M7), and of one independent row (M2)."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property, partial, wraps
from typing import Any, final

import numpy as np

from pufferflow.calibration.law_pairs import Pair
from pufferflow.calibration.laws import Laws
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import products_above
from pufferflow.distributions.coupling import Certainty
from pufferflow.distributions.finite_law import Law
from pufferflow.models.domain import Interval
from pufferflow.models.priors.base import Prior
from pufferflow.models.secret import AnySecret, Initial, Presence, Secret
from pufferflow.queries.statistic import Statistic, column_and_domain
from pufferflow.sensitivity.cells import PRESENCE, columns_of, with_nothing
from pufferflow.sensitivity.movement import ConstantLaws, Movement, MovementLaws, group_movement
from pufferflow.sensitivity.row_query import Question, norms_above, row_norms

Method = Callable[[Any, Statistic, AnySecret], Laws]


def free(prior: Prior, statistic: Statistic, secret: AnySecret, certainty: Certainty) -> Laws:
    """Return the movement of all rows over all values; `certainty` says whether the prior allows it."""
    tables = tables_of(prior, statistic, secret)
    tables = with_nothing(tables) if isinstance(secret, Presence) else tables
    columns, counts = columns_of(statistic.weights, statistic.counts)

    def length(norm: float) -> float:
        return group_movement(columns, counts, tables, norm)

    if len(tables) == 1:
        return MovementLaws(prior, Movement.of_one(length(1), certainty, values_of(secret)))
    steps = [group_movement(columns[[o]], counts, tables[[o]], 1) for o in range(len(tables))]
    return MovementLaws(prior, Movement(np.array(steps), length, Certainty.UPPER_BOUND, values_of(secret)))


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
    return secret.value_pairs()[0] if isinstance(secret, Secret | Initial) else ("any value", "any other")


def tables_of(prior: Prior, statistic: Statistic, secret: AnySecret) -> Floats:
    """Return φ at all points; where no column is named, the numbers that a row may add, 1 if none are given."""
    if secret.reads is not None or prior.columns or statistic.column is not None:
        _, domain = column_and_domain(prior, statistic, secret)
        return statistic.on(domain)
    given = statistic.values
    if given is None:
        if not isinstance(secret, Presence):
            raise UsageError(
                "The statistic adds up values of a column, and neither secret nor prior declare its domain.",
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
        return self.question.weights[:, start] if start.any() else np.zeros((self.question.answers, 1))

    @property
    def rows(self) -> Sequence[int]:
        """A row that has each of them."""
        return [0] if self.question.first else self.question.kinds.first.tolist()

    def laws(self) -> Laws:
        """Return the pairs one by one, or their longest movement if they are many."""
        if self.columns.size * len(self.question.pairs) > _MOST_LISTED:
            return MovementLaws(self.prior, self.movement())
        steps = products_above(self.columns[:, :, None], self.question.differences[:, None, :])
        signs = np.array([[float((b > a) - (b < a)) for a, b in pairs] for pairs in self._values])
        signed = np.copysign(steps, np.sign(self.columns)[:, :, None] * signs[:, None, :])
        flat = signed.reshape(len(signed), -1).T + 0.0
        leading = flat[np.arange(len(flat)), (flat != 0).argmax(axis=1)]
        _, chosen = np.unique(flat * np.where(leading < 0, -1.0, 1.0)[:, None], axis=0, return_index=True)
        if len(chosen) > 1:
            chosen = chosen[flat[chosen].any(axis=1)]
        chosen = np.sort(chosen)
        pairs = [self._pair(*divmod(int(place), len(self.question.pairs))) for place in chosen]
        lengths = np.abs(flat[chosen]).T
        return ConstantLaws(pairs, partial(_lengths_above, lengths))

    def movement(self) -> Movement:
        """Return the longest movement of one row."""
        longest, which = row_norms(self.columns, self.question.differences, 1)
        place = int(longest.argmax())
        witness = self.question.pairs[int(which[place])], self.rows[place]
        if self.question.answers == 1:
            return Movement.of_one(float(longest[place]), Certainty.EXACT, *witness)
        steps = products_above(np.abs(self.columns).max(axis=1), self.question.differences.max(axis=1))
        return Movement(steps, self.length, Certainty.EXACT, *witness)

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
            Law.point([weight * values[pair][end] for weight, values in zip(weights, self._values, strict=True)])
            for end in (0, 1)
        )
        return Pair(mu, nu, self.prior, self.question.pairs[pair], self.rows[kind])


def _lengths_above(lengths: Floats, norm: float) -> Floats:
    """Return the distance in a norm between the answers of each pair, rounded up."""
    return np.atleast_1d(norms_above(lengths, norm))
