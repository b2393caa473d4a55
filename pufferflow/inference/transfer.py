"""Transfer along a Markov chain: the laws of sums by forward and backward steps (M18), and the chain itself (M20)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast, final

import numpy as np

from pufferflow.bounds import ChainWalk, Laws, Pair, Place, Reach, Walk
from pufferflow.errors import InternalError, Refused
from pufferflow.inference.expected import mean_difference
from pufferflow.inference.implied import asked, implied
from pufferflow.inference.joint import Joint, few_atoms
from pufferflow.inference.movement import group_movement
from pufferflow.law import Law
from pufferflow.messages import Chain, Secrets
from pufferflow.messages.chain import Floats
from pufferflow.messages.stretches import Whole
from pufferflow.priors import MarkovChain
from pufferflow.queries import Statistic
from pufferflow.reading import decimal_reading
from pufferflow.rounding import UNIT, float_above
from pufferflow.secrets import AnySecret, Domain, Initial, Secret
from pufferflow.sums import Farthest, Sums, farthest, listed, nearest
from pufferflow.transport import Certainty

_MOST_LISTED = 20_000
_MOST_MULTIPLE = 10**6
_SLIGHT = 1e-9
_QUICKLY = 500


@implied.register
def _(prior: MarkovChain, statistic: Statistic, secret: AnySecret) -> Laws:
    _, domain = asked(prior, statistic, secret)
    rows = Rows.of(statistic, domain, first=isinstance(secret, Initial))
    return ChainLaws(
        prior, prior.chain(rows.positions, statistic.start), rows, value_places(secret, domain), domain.points
    )


def value_places(secret: AnySecret, domain: Domain) -> Whole:
    """Return the pairs of values that must look alike by their places in the domain, of shape (pairs, 2)."""
    if not isinstance(secret, Secret | Initial):
        raise InternalError("A chain was asked about a secret it had refused.", instead="reporting it")
    pairs = [[domain.place(value, "a value") for value in pair] for pair in secret.value_pairs()]
    return np.array(pairs, dtype=np.intp)


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a statistic along its sequence: rows with the same weights are of one kind."""

    positions: Floats
    weights: Floats
    """Of shape (answers, kinds)."""
    kinds: Whole
    tables: Floats
    """φ of each answer at each state."""
    secret: np.typing.NDArray[np.bool_] | None

    @classmethod
    def of(cls, statistic: Statistic, domain: Domain, *, first: bool) -> "Rows":
        """Return the rows of a statistic; if the first value is the secret, the first step is one of them."""
        positions, weights = statistic.positions, statistic.weights
        if first and positions[0] > statistic.start:
            positions = np.concatenate([[statistic.start], positions])
            weights = np.concatenate([np.zeros((len(weights), 1)), weights], axis=1)
        kinds_of, kinds = _kinds(weights)
        secret = None
        if first:
            secret = np.zeros(len(positions), dtype=np.bool_)
            secret[0] = True
        return cls(positions, kinds_of, kinds, statistic.on(domain), secret)

    def along(self, start: int, length: int) -> "Rows":
        """Return the same rows among all steps of a sequence; steps without a row count nothing and hide nothing."""
        steps = self.positions.astype(np.intp) - start
        weights = np.concatenate([self.weights, np.zeros((len(self.weights), 1))], axis=1)
        kinds = np.full(length, self.weights.shape[1], dtype=np.intp)
        kinds[steps] = self.kinds
        secret = np.zeros(length, dtype=np.bool_)
        secret[steps] = True if self.secret is None else self.secret
        return Rows(np.arange(start, start + length, dtype=np.float64), weights, kinds, self.tables, secret)

    def group(self, norm: float) -> float:
        """Return how far the answer moves if every row may change (M7)."""
        counts = np.bincount(self.kinds, minlength=self.weights.shape[1])
        return group_movement(self.weights, counts, self.tables, norm)

    @property
    def shifts(self) -> Floats:
        """How far a row of each kind moves the answers it touches between two states, of shape (kinds, …, k, k)."""
        moves = np.abs(self.tables[:, :, None] - self.tables[:, None, :])
        touched = (self.weights != 0) & np.asarray(moves.any(axis=(1, 2)))[:, None]
        most = max(int(touched.sum(axis=0).max()), 1)
        places = np.argsort(~touched, axis=0, kind="stable")[:most]
        weights = np.take_along_axis(np.abs(self.weights), places, axis=0)
        return (weights[:, :, None, None] * moves[places]).transpose(1, 0, 2, 3) * (1 + 4 * UNIT)

    @property
    def unit(self) -> float:
        """A weight that all others are whole multiples of; 1 if there is none."""
        sizes = np.abs(self.weights[self.weights != 0])
        least = Fraction(float(sizes.min(initial=np.inf))) if len(sizes) else Fraction(1)
        multiples = [Fraction(size) / least for size in sizes.tolist()]
        return float(least) if all(one.denominator == 1 and one <= _MOST_MULTIPLE for one in multiples) else 1.0

    @property
    def values(self) -> Floats:
        """What a row of each kind in each state adds to the one answer, in units, of shape (kinds, k)."""
        weights = [decimal_reading(weight) for weight in (self.weights[0] / self.unit).tolist()]
        table = [decimal_reading(value) for value in self.tables[0].tolist()]
        return np.array([[float(weight * value) for value in table] for weight in weights])


@final
class ChainLaws(Laws):
    """The laws of sums along a chain, whose pairs are listed only where somebody goes through them."""

    def __init__(self, prior: Any, chain: Chain, rows: Rows, pairs: Whole, labels: Sequence[Any]) -> None:
        self._prior, self._chain, self._rows, self._pairs = prior, chain, rows, pairs
        self._labels = tuple(labels)

    @property
    def dimension(self) -> int:
        """The number of coordinates of the answer."""
        return len(self._rows.tables)

    @property
    def certainty(self) -> Certainty:
        """With several initial laws every pair of their laws has to look alike, also where no mixture has both."""
        return Certainty.EXACT if len(self._chain.initial) == 1 else Certainty.UPPER_BOUND

    def walks(self) -> Sequence[Walk]:
        """Return the chain with the movements of its rows."""
        both = np.concatenate([self._pairs, self._pairs[:, ::-1]])
        secrets = Secrets(both, self._rows.secret)
        return [
            ChainWalk(
                self.dimension, self._chain, self._rows.shifts, self._rows.kinds, secrets, self._prior, self._labels
            )
        ]

    def span(self, norm: float) -> Reach:
        """Return the movement of all rows over all states (M7)."""
        certainty = Certainty.EXACT if self.dimension == 1 else Certainty.UPPER_BOUND
        return Reach(self._rows.group(norm), certainty, self._place(0, self._pairs[0]))

    def winf(self, norm: float) -> Reach:
        """Return the largest W_∞ over rows and pairs (M18): exact while that can be worked out, a bound beyond.

        Laws of vectors are compared while they are small; beyond that the movement of the group is the bound.
        """
        whole = self.span(norm)
        if self.dimension > 1 or len(self._chain.initial) > 1:
            return super().winf(norm) if self.small else whole
        found = self._reach(farthest(self._sums, self._pairs, self._rows.secret))
        return found if found.length <= whole.length else replace(whole, certainty=Certainty.UPPER_BOUND)

    def near(self, delta: float, norm: float) -> Reach:
        """Return the largest z at which a pair is (z, delta)-near, for chains of any length an upper bound."""
        if self.dimension > 1 or len(self._chain.initial) > 1:
            return super().near(delta, norm) if self.small else self.span(norm)
        found, whole = self._reach(nearest(self._sums, self._pairs, delta, self._rows.secret)), self.span(norm)
        return found if found.length <= whole.length else replace(whole, certainty=Certainty.UPPER_BOUND)

    def least_winf(self, norm: float) -> Reach:
        """Return the largest difference between expected answers, which no coupling can undercut."""
        del norm
        if self.dimension > 1:
            return Reach(0.0, Certainty.UPPER_BOUND, self._place(0, self._pairs[0]))
        pairs = self._pairs[self._hidden(self._pairs, self._middle)]
        if len(pairs) == 0:
            return Reach(0.0, Certainty.UPPER_BOUND, self._place(0, self._pairs[0]))
        length = mean_difference(self._chain, self._sums.values, self._rows.kinds, self._middle, pairs)
        return Reach(length * self._rows.unit * (1 - _SLIGHT), Certainty.UPPER_BOUND, self._place(0, self._pairs[0]))

    def least_near(self, delta: float, norm: float) -> Reach:
        """Return what one row in the middle of a chain that is not long asks for."""
        if self.dimension > 1 or len(self._chain.initial) > 1 or self._chain.length > _QUICKLY:
            return super().least_near(delta, norm)
        middle = np.zeros(self._chain.length, dtype=np.bool_)
        middle[self._middle] = True
        found = self._reach(nearest(self._sums, self._pairs, delta, middle))
        return found if found.certainty == Certainty.EXACT else replace(found, length=0.0)

    @cached_property
    def small(self) -> bool:
        """Whether the joint laws can be listed, and compared in a few seconds; else every row may change (M7)."""
        if self.dimension == 1 and len(self._chain.initial) == 1:
            return True  # those that are too long to list refuse to be
        try:
            return few_atoms(self._every)
        except Refused:
            return False

    def _hidden(self, pairs: Whole, row: int | None) -> np.typing.NDArray[np.bool_]:
        """Say which pairs of states are both possible at a row, or at any secret row."""
        which = self._chain.mask_of if self._rows.secret is None else self._chain.mask_of[self._rows.secret]
        masks = self._chain.masks[np.unique(which) if row is None else self._chain.mask_of[[row]]]
        return np.asarray(masks[:, pairs].all(axis=2).any(axis=0))

    @property
    def _middle(self) -> int:
        """A secret row that much hangs on."""
        return self._chain.length // 2 if self._rows.secret is None else int(self._rows.secret.argmax())

    def __len__(self) -> int:
        """Return how many pairs there are."""
        rows = self._chain.length if self._rows.secret is None else int(self._rows.secret.sum())
        return rows * len(self._pairs)

    def __getitem__(self, place: int) -> Pair:  # pyright: ignore[reportIncompatibleMethodOverride] - no slices here
        """Return one pair."""
        return self._every[place]

    def __iter__(self) -> Iterator[Pair]:
        """Give all pairs, row by row."""
        return iter(self._every)

    @cached_property
    def _sums(self) -> Sums:
        return Sums(self._chain, self._rows.values, self._rows.kinds)

    @cached_property
    def _every(self) -> list[Pair]:
        if not self._hidden(self._pairs, None).any():
            nothing = Law.point(0.0 if self.dimension == 1 else np.zeros(self.dimension))
            a, b = self._pairs[0].tolist()
            return [self._pair(nothing, nothing, 0, (a, b))]
        if self.dimension > 1 or len(self._chain.initial) > 1:
            return self._joint()
        if len(self) > _MOST_LISTED or len(self) * self._chain.length > 100 * _MOST_LISTED:
            raise Refused(
                f"Listing the laws of {len(self)} pairs along a chain of {self._chain.length} rows.",
                allowed=f"at most {_MOST_LISTED} pairs of short laws",
                instead="bound=pf.Messages() or pf.GWM(), which do not list them",
            )
        unit = self._rows.unit
        return [
            self._pair(_times(mu, unit), _times(nu, unit), row, states)
            for row, states, mu, nu in listed(self._sums, self._pairs, self._rows.secret)
        ]

    def _joint(self) -> list[Pair]:
        steps = self._rows.weights.T[:, None, :] * self._rows.tables.T[None]
        return [
            self._pair(mu, nu, row, (a, b))
            for row, laws in Joint(self._chain, steps, self._rows.kinds).given(self._rows.secret)
            for a, b in cast(list[tuple[int, int]], self._pairs.tolist())
            for mu in laws[a]
            for nu in laws[b]
        ]

    def _pair(self, mu: Law, nu: Law, row: int, states: tuple[int, int]) -> Pair:
        return Pair(mu, nu, self._prior, (self._labels[states[0]], self._labels[states[1]]), row)

    def _reach(self, found: Farthest) -> Reach:
        certainty = Certainty.EXACT if found.exact else Certainty.UPPER_BOUND
        length = float_above(Fraction(found.length) * Fraction(self._rows.unit))
        return Reach(length, certainty, self._place(found.row, np.array(found.states)))

    def _place(self, row: int, pair: Whole) -> Place:
        first, second = (self._labels[state] for state in pair.tolist())
        return Place(self.dimension, self._prior, (first, second), row)


def _kinds(weights: Floats) -> tuple[Floats, Whole]:
    """Return the distinct columns of weights, and which of them each row has."""
    if len(weights) == 1:
        distinct, kinds = np.unique(weights[0], return_inverse=True)
        return distinct[None], kinds
    distinct, kinds = np.unique(weights, axis=1, return_inverse=True)
    return distinct, kinds.reshape(-1)


def _times(law: Law, unit: float) -> Law:
    return law if unit == 1 else law.map(lambda values: values * unit)
