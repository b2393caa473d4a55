"""Markov chains and classes of them: laws of sums by forward and backward steps (M18), the chain for messages (M20).

For a class of chains no laws are listed: messages and group privacy hold for every member.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast, final

import numpy as np

from pufferflow.calibration.laws import (
    LARGE,
    MOST_COMPARED,
    DependentChain,
    DependentRows,
    Laws,
    LawsSize,
    Pair,
    Place,
    Reach,
    Witness,
)
from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.errors import InternalError, Refused
from pufferflow.core.rounding import UNIT, float_above
from pufferflow.core.validate import decimal_reading
from pufferflow.distributions.coupling import Certainty
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.chain_class import Chains
from pufferflow.distributions.markov.near_of_sums import nearest
from pufferflow.distributions.markov.state_loss import Secrets
from pufferflow.distributions.markov.sums import Farthest, Sums, lattice
from pufferflow.distributions.markov.windows_of_answers import RowSums
from pufferflow.distributions.markov.winf_of_sums import farthest, listed, most_points, pair_of
from pufferflow.models.domain import Domain
from pufferflow.models.priors.markov import ChainsBetween, MarkovChain
from pufferflow.models.secret import AnySecret, Initial, Secret
from pufferflow.queries.statistic import Kinds, Statistic, column_and_domain
from pufferflow.sensitivity.cells import row_by_row
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.movement import group_movement

_MOST_MULTIPLE = 10**6


def value_places(secret: AnySecret, domain: Domain | None = None) -> Indices:
    """Return the pairs of values that must be indistinguishable by their places in the domain, of shape (pairs, 2).

    It is the secret's own domain if none is given.
    """
    if not isinstance(secret, Secret | Initial):
        raise InternalError(
            "A chain was given a secret that it had refused.", instead="reporting it"
        )
    if domain is None or secret.domain == domain:
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
    _, first, same = np.unique(
        shifts.reshape(len(shifts), -1), axis=0, return_index=True, return_inverse=True
    )
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
        return ChainRows(
            np.arange(start, start + length, dtype=np.float64), weights, kinds, self.tables, secret
        )

    def group(self, norm: float) -> float:
        """Return how far the answer moves if every row may change (M7)."""
        counts = np.bincount(self.kinds, minlength=self.weights.shape[1])
        return group_movement(self.weights, counts, self.tables, norm)

    @property
    def single(self) -> bool:
        """Whether each answer is about at most one row."""
        counts = np.bincount(self.kinds, minlength=self.weights.shape[1])
        return bool((((self.weights != 0) * counts).sum(axis=1) <= 1).all())

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

    @cached_property
    def sums(self) -> RowSums:
        """What each row adds to each answer, but for constants, which would cost digits."""
        tables = self.tables - self.tables.min(axis=1, keepdims=True)
        adds: Floats = np.einsum("ok,os->kos", self.weights, tables)
        return RowSums(adds, self.kinds)

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
            if all(
                multiple.denominator == 1 and multiple <= _MOST_MULTIPLE for multiple in multiples
            )
            else 1.0
        )

    @property
    def values(self) -> Floats:
        """The contribution of a row of each kind and state to a single answer, in units, of shape (kinds, k)."""
        weights = [decimal_reading(weight) for weight in (self.weights[0] / self.unit).tolist()]
        table = [decimal_reading(value) for value in self.tables[0].tolist()]
        return np.array([[float(weight * value) for value in table] for weight in weights])


_MOST_ATOMS = 20_000
_MOST_WORK = 30_000_000
_LEAST_MASS = 1e-290


@final
class JointLaws:
    """Vectors Σ_t steps[kinds[t], X_t] along a chain: their laws given the state of any one row.

    Where the first row may have several laws, a state has a law of the past for each of them. Any mixture of these is
    then possible. W_∞ of two mixtures is at most that of their worst parts.
    """

    def __init__(self, chain: Chain, steps: Floats, kinds: Indices) -> None:
        self._chain, self._steps, self._kinds = chain, steps, kinds
        self._work = 0

    def given(self, rows: Flags | None) -> Iterator[tuple[int, list[list[Law]]]]:
        """Yield each row with the laws of the answer for each of its states; a state it cannot have has none."""
        futures = self._futures()
        possible = self._chain.masks[self._chain.mask_of]
        for row, past in enumerate(self._pasts()):
            if rows is not None and not rows[row]:
                continue
            yield (
                row,
                [
                    [self._total(before, futures[row][state], row, state) for before in past[state]]
                    if possible[row, state]
                    else []
                    for state in range(self._chain.states)
                ],
            )

    def _total(self, before: Law, after: Law, row: int, state: int) -> Law:
        self._count(len(before) * len(after))
        return self._check_size(before.convolve(after).shift(self._step(row, state)))

    def _futures(self) -> list[list[Law]]:
        laws = [[self._nothing()] * self._chain.states]
        for row in range(self._chain.length - 1, 0, -1):
            kernel = self._chain.kernels[self._chain.order[row - 1]]
            moved = [law.shift(self._step(row, state)) for state, law in enumerate(laws[-1])]
            laws.append([self._mix(moved, weights) for weights in kernel])
        return laws[::-1]

    def _pasts(self) -> Iterator[list[list[Law]]]:
        """Yield for each row and state the laws of the sum before it, one for each law of the first row."""
        law, before = (
            self._chain.initial,
            [[self._nothing()] * self._chain.states for _ in self._chain.initial],
        )
        yield self._by_state(law, before, first=True)
        for row, kernel in enumerate(self._chain.order):
            matrix = self._chain.kernels[kernel]
            following: list[list[Law]] = []
            for weights, laws in zip(law, before, strict=True):
                moved = [past.shift(self._step(row, state)) for state, past in enumerate(laws)]
                joint = weights[:, None] * matrix
                following.append([self._mix(moved, column) for column in joint.T])
            law, before = law @ matrix, following
            yield self._by_state(law, before, first=False)

    def _by_state(self, law: Floats, before: list[list[Law]], *, first: bool) -> list[list[Law]]:
        """Return the laws of the past that a state can have; the first row has none before it."""
        if first:
            return [[self._nothing()] for _ in range(self._chain.states)]
        return [
            list(dict.fromkeys(before[i][state] for i in range(len(law)) if law[i, state] > 0))
            for state in range(self._chain.states)
        ]

    def _mix(self, laws: list[Law], weights: Floats) -> Law:
        """Return the mixture with these weights, which need not add up to 1; the law of 0 where they are all 0."""
        total = weights.sum()
        if total == 0:
            return self._nothing()
        used = [
            (law, weight)
            for law, weight in zip(laws, (weights / total).tolist(), strict=True)
            if weight > 0
        ]
        self._count(sum(len(law) for law, _ in used))
        return self._check_size(
            Law.mixture([law for law, _ in used], [weight for _, weight in used])
        )

    def _check_size(self, law: Law) -> Law:
        if len(law) > _MOST_ATOMS or law.probabilities.min() < _LEAST_MASS:
            raise _too_large()
        return law

    def _count(self, steps: int) -> None:
        self._work += steps
        if self._work > _MOST_WORK:
            raise _too_large()

    def _step(self, row: int, state: int) -> object:
        step = self._steps[self._kinds[row], state]
        return float(step[0]) if len(step) == 1 else step

    def _nothing(self) -> Law:
        width = self._steps.shape[2]
        return Law.point(0.0 if width == 1 else np.zeros(width))


def many_atoms(chain: Chain, disjoint_rows: Indices) -> bool:
    """Return whether laws are too large to be compared, before any is listed.

    `disjoint_rows` counts the rows of each of some answers that share no row. n such rows have n + 1 sums or more, one
    less given a row of them. Answers together have the product. Only impossible transitions make these numbers smaller.
    """
    log_atoms = float(np.log1p(disjoint_rows).sum()) - math.log(2)
    every = bool((chain.kernels > 0).all())
    return every and 2 * log_atoms + math.log(chain.length) > math.log(MOST_COMPARED)


def _too_large() -> Refused:
    return Refused(
        "The joint law of these answers along a chain has too many values, or some too unlikely for a float.",
        allowed="joint laws of at most 20000 values",
        instead="bound=pf.Messages() for a pure guarantee (which also keeps a Rényi or (epsilon, delta) one), "
        "or pf.Group()",
    )


_NOTHING = 1e-12


def mean_difference(
    chain: Chain, values: Floats, kinds: Indices, row: int, pairs: Indices
) -> float:
    """Return max |E[sum | X_row = a] − E[sum | X_row = b]| over pairs (a, b): W_∞ is not below it (Jensen).

    It only rules out bounds that cannot improve, so influences that fall by 1e-12 are left out.
    """
    own = values[kinds[row]]
    back = chain.backward
    ahead = _side(
        ((chain.kernels[chain.order[i]], kinds[i + 1]) for i in range(row, len(chain.order))),
        values,
    )
    behind = _side(
        ((back.rows[back.order[i]][:, 0, :], kinds[i]) for i in range(row - 1, -1, -1)), values
    )
    total = own + ahead + behind
    return float(np.abs(total[pairs[:, 0]] - total[pairs[:, 1]]).max())


def tail_loss(chain: Chain, values: Floats, kinds: Indices, row: int, pairs: Indices) -> float:
    """Return max |log E[e^sum | X_row = a] − log E[e^sum | X_row = b]| over pairs (a, b) that the row can have.

    It only rules out bounds that cannot improve, as `mean_difference` does.
    """
    with np.errstate(under="ignore"):
        grown, back = np.exp(values - values.max(axis=1, keepdims=True)), chain.backward
    ahead = _grown(
        ((chain.kernels[chain.order[i]], kinds[i + 1]) for i in range(row, len(chain.order))), grown
    )
    behind = _grown(
        ((back.rows[back.order[i]][:, 0, :], kinds[i]) for i in range(row - 1, -1, -1)), grown
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        total = values[kinds[row]] + np.log(ahead) + np.log(behind)
        differences = np.abs(total[pairs[:, 0]] - total[pairs[:, 1]])
    return float(differences.max()) if np.isfinite(differences).all() else 0.0


@np.errstate(under="ignore")
def _grown(steps: Iterable[tuple[Floats, int]], grown: Floats) -> Floats:
    """Return E e^sum of the rows on one side for each state, up to a common factor."""
    product = np.eye(grown.shape[1])
    for kernel, kind in steps:
        product = product @ (kernel * grown[kind])
        known = product[product.any(axis=1)]  # without states that underflow or cannot occur
        if not len(known):
            break
        product, known = product / known.max(), known / known.max()
        shares = known / known.sum(axis=1, keepdims=True)
        if np.ptp(shares, axis=0).max() < _NOTHING:
            break
    return np.asarray(product.sum(axis=1))


def _side(steps: Iterable[tuple[Floats, int]], values: Floats) -> Floats:
    """Return the expected sum of the rows on one side, for each state."""
    states = values.shape[1]
    law, total = np.eye(states), np.zeros(states)
    for kernel, kind in steps:
        law = law @ kernel
        total += law @ values[kind]
        if np.ptp(law, axis=0).max() < _NOTHING:
            break
    return total


_MOST_LISTED = 20_000
_SLIGHT = 1e-9
_QUICKLY = 500
_UNTIL_REST = 200
"""After about so many rows messages repeat."""


@implied.register(MarkovChain)
@row_by_row
def _(prior: MarkovChain, statistic: Statistic, secret: AnySecret) -> Laws:
    _, domain = column_and_domain(prior, statistic, secret)
    rows = ChainRows.of(statistic, domain, first=isinstance(secret, Initial))
    return ChainLaws(
        prior,
        prior.chain(rows.positions, statistic.start),
        rows,
        value_places(secret, domain),
        domain.points,
    )


@final
class ChainLaws(Laws):
    """The laws of sums along a chain given two states of one of its rows; pairs are listed only when iterated over.

    Those of a class of chains are never listed. With several initial laws every pair of laws has to be
    indistinguishable, even if no mixture has both.
    """

    def __init__(
        self,
        prior: Any,
        chain: Chain | Chains,
        rows: ChainRows,
        pairs: Indices,
        labels: Sequence[Any],
    ) -> None:
        self._prior, self._along, self._rows, self._pairs = prior, chain, rows, pairs
        self._labels = tuple(labels)
        self.dimension, self._of_class = len(rows.tables), isinstance(chain, Chains)
        if isinstance(chain, Chain) and len(chain.initial) > 1:
            self.certainty = Certainty.UPPER_BOUND

    @property
    def _chain(self) -> Chain:
        """The chain; refused of a class of chains."""
        if isinstance(self._along, Chain):
            return self._along
        raise Refused(
            "The laws of a class of chains cannot be listed: it has infinitely many members.",
            allowed="bound=pf.Messages(), which bounds all members at once, or bound=pf.Group()",
            instead="a list of single chains as prior, if the class has only a few",
        )

    def walks(self) -> Sequence[DependentRows]:
        rows, both = self._rows, np.concatenate([self._pairs, self._pairs[:, ::-1]])
        secrets, (shifts, kind_of) = Secrets(both, rows.secret), alike(rows.shifts)
        return [
            DependentChain(
                self.dimension,
                self._along,
                shifts,
                kind_of[rows.kinds],
                secrets,
                self._prior,
                self._labels,
                rows.single,
                rows.sums,
            )
        ]

    def span(self, norm: float) -> Reach:
        certainty = Certainty.EXACT if self.dimension == 1 else Certainty.UPPER_BOUND
        return Reach(self._rows.group(norm), certainty, self._place(0, self._pairs[0].tolist()))

    def _place(self, row: int, states: Sequence[int]) -> Place:
        first, second = (self._labels[state] for state in states)
        return Place(self.dimension, self._prior, (first, second), row)

    def winf(self, norm: float) -> Reach:
        """Return the largest W_∞ over rows and pairs (M18): exact while that is computable, otherwise a bound.

        Laws of vectors are compared while they are small; otherwise the movement of the group is the bound.
        """
        if self._jointly:
            return super().winf(norm) if self.small else self.span(norm)
        return self._at_most(norm, farthest(self._sums, self._pairs, self._rows.secret))

    def near(self, delta: float, norm: float) -> Reach:
        """Return the largest z at which a pair is (z, delta)-near; an upper bound for chains of any length."""
        if self._jointly:
            return super().near(delta, norm) if self.small else self.span(norm)
        return self._at_most(norm, nearest(self._sums, self._pairs, delta, self._rows.secret))

    def least(self, delta: float, norm: float) -> float:
        """Return a lower bound from one row in the middle of a chain; of W_∞ and of a long chain, from expectations.

        If all but δ moves by at most z, expectations differ by at most z plus δ times the movement of the group.
        """
        if self._of_class or self.dimension > 1:
            return 0.0
        if delta == 0 or self._chain.length > _QUICKLY:
            row, pairs = (
                int(self._middle.argmax()),
                self._pairs[Secrets(self._pairs, self._middle).possible(self._chain)],
            )
            apart = (
                mean_difference(self._chain, self._sums.values, self._rows.kinds, row, pairs)
                if len(pairs)
                else 0.0
            )
            mean = apart * self._rows.unit * (1 - _SLIGHT)
            return (
                mean
                if delta == 0
                else max(mean - delta * self.span(norm).length, 0.0) * (1 - _SLIGHT)
            )
        if self._jointly:
            return 0.0
        reach = self._reach(nearest(self._sums, self._pairs, delta, self._middle))
        return reach.length if reach.certainty == Certainty.EXACT else 0.0

    def least_loss(self, rate: float, witness: Witness) -> float:
        """Return a lower bound from the tails, given states of the witness's row, or of a row in the middle."""
        if self._of_class:
            return 0.0
        rows = {min(witness.row or 0, self._chain.length - 1), int(self._middle.argmax())}
        return max(self._tails(rate, row) for row in sorted(rows)) * (1 - _SLIGHT)

    def _tails(self, rate: float, row: int) -> float:
        here = Secrets(self._pairs, np.arange(self._chain.length) == row)
        pairs = self._pairs[here.possible(self._chain)]
        steps = rate * np.einsum("ok,os->ks", self._rows.weights, self._rows.tables)
        both = (
            tail_loss(self._chain, sign * steps, self._rows.kinds, row, pairs) for sign in (1, -1)
        )
        return max(both) if len(pairs) else 0.0

    def at(self, witness: Witness) -> Pair | None:
        """Return the laws at a row and two states, by one forward and one backward pass."""
        if self._of_class or self._jointly or witness.secrets is None or witness.row is None:
            return None
        states = self._labels.index(witness.secrets[0]), self._labels.index(witness.secrets[1])
        mu, nu = (times(law, self._rows.unit) for law in pair_of(self._sums, witness.row, states))
        return self._pair(mu, nu, witness.row, states)

    @cached_property
    def size(self) -> LawsSize:
        """The sizes of the laws of every secret row; messages are coarse where exact ones are too large."""
        if self._of_class:
            return LawsSize()
        rows, states, length = (
            min(self._chain.length, _UNTIL_REST),
            self._chain.states,
            self._chain.length,
        )
        secret = length if self._rows.secret is None else int(self._rows.secret.sum())
        messages = 4.0 * rows * states**5
        coarse = 4.0 * rows * states**3 if messages > LARGE else math.inf
        return LawsSize(
            float(secret * len(self._pairs)),
            float(length * states),
            self._atoms,
            messages,
            coarse,
            self._rows.sums.work,
        )

    @property
    def _atoms(self) -> float:
        """The number of values of a law, infinite where laws are not listed; vectors have the product of answers'."""
        if self._jointly:
            many = self.dimension > 1 and many_atoms(self._chain, self._rows.disjoint_rows)
            return math.inf if many else float(np.prod(1.0 + self._rows.disjoint_rows))
        points = lattice(self._sums, most_points(self._sums)).size
        return math.inf if points > most_points(self._sums) else float(points)

    @cached_property
    def small(self) -> bool:
        """Whether the joint laws can be listed and compared in a few seconds; otherwise all rows may change (M7)."""
        if not self._jointly:
            return True  # those that are too long to list refuse to be
        if self.dimension > 1 and many_atoms(self._chain, self._rows.disjoint_rows):
            return False
        return self._comparable()

    @property
    def _jointly(self) -> bool:
        """Whether laws are listed to be compared: those of vectors, and of several initial laws."""
        return self.dimension > 1 or len(self._chain.initial) > 1

    @cached_property
    def _middle(self) -> Flags:
        """A flag at the middle secret row."""
        secret = (
            np.arange(self._chain.length)
            if self._rows.secret is None
            else np.flatnonzero(self._rows.secret)
        )
        return np.arange(self._chain.length) == secret[len(secret) // 2]

    @cached_property
    def _sums(self) -> Sums:
        return Sums(self._chain, self._rows.values, self._rows.kinds)

    @cached_property
    def pairs(self) -> Sequence[Pair]:
        if not Secrets(self._pairs, self._rows.secret).possible(self._chain).any():
            nothing = Law.point(0.0 if self.dimension == 1 else np.zeros(self.dimension))
            a, b = self._pairs[0].tolist()
            return [self._pair(nothing, nothing, 0, (a, b))]
        if self._jointly:
            return self._joint()
        rows = self._chain.length if self._rows.secret is None else int(self._rows.secret.sum())
        count = rows * len(self._pairs)
        if count > _MOST_LISTED or count * self._chain.length > 100 * _MOST_LISTED:
            raise Refused(
                f"{count} pairs of laws along a chain of {self._chain.length} rows are too many to list.",
                allowed=f"at most {_MOST_LISTED} pairs of short laws",
                instead="bound=pf.Messages() or pf.GWM(), which do not list them",
            )
        unit = self._rows.unit
        return [
            self._pair(times(mu, unit), times(nu, unit), row, states)
            for row, states, mu, nu in listed(self._sums, self._pairs, self._rows.secret)
        ]

    def _joint(self) -> list[Pair]:
        steps = self._rows.weights.T[:, None, :] * self._rows.tables.T[None]
        return [
            self._pair(mu, nu, row, (a, b))
            for row, laws in JointLaws(self._chain, steps, self._rows.kinds).given(
                self._rows.secret
            )
            for a, b in cast(list[tuple[int, int]], self._pairs.tolist())
            for mu in laws[a]
            for nu in laws[b]
        ]

    def _pair(self, mu: Law, nu: Law, row: int, states: tuple[int, int]) -> Pair:
        return Pair(mu, nu, self._prior, (self._labels[states[0]], self._labels[states[1]]), row)

    def _reach(self, farthest_pair: Farthest) -> Reach:
        certainty = Certainty.EXACT if farthest_pair.exact else Certainty.UPPER_BOUND
        length = float_above(Fraction(farthest_pair.length) * Fraction(self._rows.unit))
        return Reach(length, certainty, self._place(farthest_pair.row, farthest_pair.states))

    def _at_most(self, norm: float, farthest_pair: Farthest) -> Reach:
        """Return a computed distance; if it is only a bound, at most the movement of the group."""
        reach = self._reach(farthest_pair)
        if reach.certainty == Certainty.EXACT:
            return reach
        whole = self.span(norm)
        return (
            reach
            if reach.length <= whole.length
            else replace(whole, certainty=Certainty.UPPER_BOUND)
        )


def times(law: Law, unit: float) -> Law:
    """Return the law of so many times the number."""
    return law if unit == 1 else law.map(lambda values: values * unit)


@implied.register(ChainsBetween)
@row_by_row
def _(prior: ChainsBetween, statistic: Statistic, secret: AnySecret) -> Laws:
    _, domain = column_and_domain(prior, statistic, secret)
    rows = ChainRows.of(statistic, domain, first=isinstance(secret, Initial))
    chains, start = prior.along(rows.positions, statistic.start)
    return ChainLaws(
        prior, chains, rows.along(start, chains.length), value_places(secret, domain), domain.points
    )
