"""Rows that nothing else depends on: what one of them adds to the answers under two of its values (M2)."""

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, final

import numpy as np

from pufferflow.bounds import Laws, Pair
from pufferflow.inference.moved import Displaced, Moved, Movement
from pufferflow.inference.question import Floats, Question, norms_above, products, row_norms
from pufferflow.law import Law
from pufferflow.priors import Prior
from pufferflow.secrets import Interval
from pufferflow.transport import Certainty

_MOST_LISTED = 20_000


@final
class Alone:
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
            return Moved(self.prior, self.movement())
        steps = products(self.columns[:, :, None], self.question.differences[:, None, :])
        signed = np.copysign(steps, np.sign(self.columns)[:, :, None] * self._signs[:, None, :])
        flat = signed.reshape(len(signed), -1).T + 0.0
        leading = flat[np.arange(len(flat)), (flat != 0).argmax(axis=1)]
        _, chosen = np.unique(flat * np.where(leading < 0, -1.0, 1.0)[:, None], axis=0, return_index=True)
        if len(chosen) > 1:
            chosen = chosen[flat[chosen].any(axis=1)]
        chosen = np.sort(chosen)
        pairs = [self._pair(*divmod(int(place), len(self.question.pairs))) for place in chosen]
        return Displaced(pairs, partial(_norms, np.abs(flat[chosen]).T))

    def movement(self) -> Movement:
        """Return the longest movement of one row."""
        longest, which = row_norms(self.columns, self.question.differences, 1)
        place = int(longest.argmax())
        witness = self.question.pairs[int(which[place])], self.rows[place]
        if self.question.answers == 1:
            return Movement.of_one(float(longest[place]), Certainty.EXACT, *witness)
        steps = products(np.abs(self.columns).max(axis=1), self.question.differences.max(axis=1))
        return Movement(steps, self.length, Certainty.EXACT, *witness)

    def length(self, norm: float) -> float:
        """Return the longest movement in a norm."""
        return float(row_norms(self.columns, self.question.differences, norm)[0].max())

    @property
    def _signs(self) -> Floats:
        """The sign of φ(b) − φ(a) for every answer and pair of values."""
        return np.array([[float(_sign(b - a)) for a, b in self._values(o)] for o in range(self.question.answers)])

    def _values(self, answer: int) -> list[tuple[Fraction, Fraction]]:
        """Return φ at both values of every pair, exactly."""
        domain, table = self.question.domain, [Fraction(value) for value in self.question.tables[answer].tolist()]

        def at(value: Any) -> Fraction:
            if not isinstance(domain, Interval):
                return table[domain.place(value, "a value")]
            low, high = Fraction(domain.low), Fraction(domain.high)
            return table[0] + (table[1] - table[0]) * (Fraction(value) - low) / (high - low)

        return [(at(a), at(b)) for a, b in self.question.pairs]

    def _pair(self, kind: int, pair: int) -> Pair:
        weights = [Fraction(weight) for weight in self.columns[:, kind].tolist()]
        both = [self._listed[o][pair] for o in range(len(weights))]
        mu, nu = ([weight * side[end] for weight, side in zip(weights, both, strict=True)] for end in (0, 1))
        return Pair(Law.point(mu), Law.point(nu), self.prior, self.question.pairs[pair], self.rows[kind])

    @cached_property
    def _listed(self) -> list[list[tuple[Fraction, Fraction]]]:
        return [self._values(answer) for answer in range(self.question.answers)]


def _norms(steps: Floats, norm: float) -> Floats:
    return np.atleast_1d(norms_above(steps, norm))


def _sign(number: Fraction) -> int:
    return (number > 0) - (number < 0)
