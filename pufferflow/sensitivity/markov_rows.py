"""The common parts of laws along a chain or a class of chains: rows and their kinds, the walk, group movement."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar, final

import numpy as np

from pufferflow.calibration.dependent_rows import DependentChain, DependentRows
from pufferflow.calibration.law_pairs import Place
from pufferflow.calibration.laws import Laws, Reach
from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.errors import InternalError
from pufferflow.core.rounding import UNIT
from pufferflow.core.validate import decimal_reading
from pufferflow.distributions.coupling import Certainty
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.chain_class import Chains
from pufferflow.distributions.markov.state_loss import Secrets
from pufferflow.models.domain import Domain
from pufferflow.models.secret import AnySecret, Initial, Secret
from pufferflow.queries.statistic import Kinds, Statistic
from pufferflow.sensitivity.movement import group_movement

_MOST_MULTIPLE = 10**6
C = TypeVar("C", Chain, Chains)


def value_places(secret: AnySecret, domain: Domain) -> Indices:
    """Return the pairs of values that must be indistinguishable by their places in the domain, of shape (pairs, 2)."""
    if not isinstance(secret, Secret | Initial):
        raise InternalError("A chain was given a secret that it had refused.", instead="reporting it")
    if secret.domain == domain:
        return secret.pair_places
    pairs = [[domain.place(value, "a value") for value in pair] for pair in secret.value_pairs()]
    return np.array(pairs, dtype=np.intp)


def shifts_of(weights: Floats, tables: Floats) -> Floats:
    """Return how far rows with these weights move the answers they touch between two states: (kinds, …, k, k)."""
    moves = np.abs(tables[:, :, None] - tables[:, None, :])
    touched = (weights != 0) & np.asarray(moves.any(axis=(1, 2)))[:, None]
    most = max(int(touched.sum(axis=0).max()), 1)
    places = np.argsort(~touched, axis=0, kind="stable")[:most]
    sizes = np.take_along_axis(np.abs(weights), places, axis=0)
    return (sizes[:, :, None, None] * moves[places]).transpose(1, 0, 2, 3) * (1 + 4 * UNIT)


def alike(shifts: Floats) -> tuple[Floats, Indices]:
    """Return the distinct movements of kinds of rows, and which of them each kind has.

    Messages depend on how far a row moves answers, not on which ones (M20): windows of a sequence, each row in one of
    them, repeat along it as a single sum does.
    """
    _, first, same = np.unique(shifts.reshape(len(shifts), -1), axis=0, return_index=True, return_inverse=True)
    return shifts[first], same.reshape(-1)


@final
@dataclass(frozen=True, eq=False)
class ChainRows:
    """The rows of a statistic along its sequence: rows with the same weights are of one kind."""

    positions: Floats
    weights: Floats
    """Of shape (answers, kinds)."""
    kinds: Indices
    tables: Floats
    """φ of each answer at each state."""
    secret: Flags | None

    @classmethod
    def of(cls, statistic: Statistic, domain: Domain, *, first: bool) -> "ChainRows":
        """Return the rows of a statistic; if the first value is the secret, the first step is one of them."""
        positions, weights = statistic.positions, statistic.weights
        if first and positions[0] > statistic.start:
            positions = np.concatenate([[statistic.start], positions])
            weights = np.concatenate([np.zeros((len(weights), 1)), weights], axis=1)
        kinds = Kinds.of(weights)
        secret = None
        if first:
            secret = np.zeros(len(positions), dtype=np.bool_)
            secret[0] = True
        return cls(positions, kinds.columns, kinds.of_row, statistic.on(domain), secret)

    def along(self, start: int, length: int) -> "ChainRows":
        """Return the same rows among all steps of a sequence; steps without a row add nothing and hold no secret."""
        steps = self.positions.astype(np.intp) - start
        weights = np.concatenate([self.weights, np.zeros((len(self.weights), 1))], axis=1)
        kinds = np.full(length, self.weights.shape[1], dtype=np.intp)
        kinds[steps] = self.kinds
        secret = np.zeros(length, dtype=np.bool_)
        secret[steps] = True if self.secret is None else self.secret
        return ChainRows(np.arange(start, start + length, dtype=np.float64), weights, kinds, self.tables, secret)

    def group(self, norm: float) -> float:
        """Return how far the answer moves if every row may change (M7)."""
        counts = np.bincount(self.kinds, minlength=self.weights.shape[1])
        return group_movement(self.weights, counts, self.tables, norm)

    @property
    def disjoint_rows(self) -> Indices:
        """The number of rows of each of some answers that share no row."""
        counts = np.bincount(self.kinds, minlength=self.weights.shape[1])
        row_counts, free = list[int](), np.ones(len(counts), dtype=np.bool_)
        for weights, table in zip(self.weights, self.tables, strict=True):
            moving = weights != 0
            if np.ptp(table) > 0 and moving.any() and free[moving].all():
                row_counts.append(int(counts[moving].sum()))
                free &= ~moving
        return np.array(row_counts, dtype=np.intp)

    @property
    def shifts(self) -> Floats:
        """How far a row of each kind moves the answers it touches."""
        return shifts_of(self.weights, self.tables)

    @property
    def unit(self) -> float:
        """A weight of which all others are whole multiples; 1 if there is none."""
        sizes = np.abs(self.weights[self.weights != 0])
        least = Fraction(float(sizes.min(initial=np.inf))) if len(sizes) else Fraction(1)
        multiples = [Fraction(size) / least for size in sizes.tolist()]
        return (
            float(least)
            if all(multiple.denominator == 1 and multiple <= _MOST_MULTIPLE for multiple in multiples)
            else 1.0
        )

    @property
    def values(self) -> Floats:
        """The contribution of a row of each kind and state to a single answer, in units, of shape (kinds, k)."""
        weights = [decimal_reading(weight) for weight in (self.weights[0] / self.unit).tolist()]
        table = [decimal_reading(value) for value in self.tables[0].tolist()]
        return np.array([[float(weight * value) for value in table] for weight in weights])


class AlongLaws(Laws, abc.ABC, Generic[C]):
    """Laws of sums along a sequence, given two states of one of its rows."""

    def __init__(self, prior: Any, chain: C, rows: ChainRows, pairs: Indices, labels: Sequence[Any]) -> None:
        self._prior, self._chain, self._rows, self._pairs = prior, chain, rows, pairs
        self._labels = tuple(labels)

    @property
    def dimension(self) -> int:
        return len(self._rows.tables)

    def walks(self) -> Sequence[DependentRows]:
        rows, both = self._rows, np.concatenate([self._pairs, self._pairs[:, ::-1]])
        secrets, (shifts, kind_of) = Secrets(both, rows.secret), alike(rows.shifts)
        return [
            DependentChain(self.dimension, self._chain, shifts, kind_of[rows.kinds], secrets, self._prior, self._labels)
        ]

    def span(self, norm: float) -> Reach:
        certainty = Certainty.EXACT if self.dimension == 1 else Certainty.UPPER_BOUND
        return Reach(self._rows.group(norm), certainty, self._place(0, self._pairs[0].tolist()))

    def _place(self, row: int, states: Sequence[int]) -> Place:
        first, second = (self._labels[state] for state in states)
        return Place(self.dimension, self._prior, (first, second), row)
