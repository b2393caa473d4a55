"""Markov chains: the laws of sums by forward and backward steps (M18), and the chain itself for messages (M20).

For a class of chains no laws are listed: messages and group privacy hold for every member.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import NoReturn, cast, final

import numpy as np

from pufferflow.calibration.law_pairs import Pair, Witness
from pufferflow.calibration.laws import Laws, Reach, WorkEstimate
from pufferflow.core.arrays import Flags
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import float_above
from pufferflow.distributions.coupling import Certainty
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.chain_class import Chains
from pufferflow.distributions.markov.near_of_sums import nearest
from pufferflow.distributions.markov.state_loss import Secrets
from pufferflow.distributions.markov.sums import Farthest, Sums, lattice
from pufferflow.distributions.markov.winf_of_sums import farthest, listed, most_points, pair_of
from pufferflow.models.priors.markov import ChainsBetween, MarkovChain
from pufferflow.models.secret import AnySecret, Initial
from pufferflow.queries.statistic import Statistic, column_and_domain
from pufferflow.sensitivity.group import row_by_row
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.markov_rows import AlongLaws, ChainRows, value_places
from pufferflow.sensitivity.markov_sums import JointLaws, few_atoms, many_atoms, mean_difference, tail_loss

_MOST_LISTED = 20_000
_SLIGHT = 1e-9
_QUICKLY = 500
_A_MINUTE = 6e10
_EVALUATIONS = 40
_COARSE_EVALUATIONS = 10
_UNTIL_REST = 200
_SECONDS = 1e10


@implied.register(MarkovChain)
@row_by_row
def _(prior: MarkovChain, statistic: Statistic, secret: AnySecret) -> Laws:
    _, domain = column_and_domain(prior, statistic, secret)
    rows = ChainRows.of(statistic, domain, first=isinstance(secret, Initial))
    return ChainLaws(
        prior, prior.chain(rows.positions, statistic.start), rows, value_places(secret, domain), domain.points
    )


@final
class ChainLaws(AlongLaws[Chain]):
    """The laws of sums along a chain, whose pairs are listed only when they are iterated over."""

    @property
    def certainty(self) -> Certainty:
        """With several initial laws every pair of laws has to be indistinguishable, even if no mixture has both."""
        return Certainty.EXACT if len(self._chain.initial) == 1 else Certainty.UPPER_BOUND

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

    def least_winf(self, norm: float) -> Reach:
        """Return the largest difference between expected answers: W_∞ is at least that."""
        row = int(self._middle.argmax())
        pairs = self._pairs[Secrets(self._pairs, self._middle).possible(self._chain)]
        if self.dimension > 1 or len(pairs) == 0:
            return super().least_winf(norm)
        length = mean_difference(self._chain, self._sums.values, self._rows.kinds, row, pairs)
        place = self._place(0, self._pairs[0].tolist())
        return Reach(length * self._rows.unit * (1 - _SLIGHT), Certainty.UPPER_BOUND, place)

    def least_near(self, delta: float, norm: float) -> Reach:
        """Return a lower bound from one row in the middle of a chain; for a long chain, from expectations.

        If all but δ moves by at most z, expectations differ by at most z plus δ times the movement of the group.
        """
        if self._chain.length > _QUICKLY:
            mean = self.least_winf(norm)
            return replace(mean, length=max(mean.length - delta * self.span(norm).length, 0.0) * (1 - _SLIGHT))
        if self._jointly:
            return super().least_near(delta, norm)
        reach = self._reach(nearest(self._sums, self._pairs, delta, self._middle))
        return reach if reach.certainty == Certainty.EXACT else super().least_near(delta, norm)

    def least_loss(self, rate: float, witness: Witness) -> float:
        """Return a lower bound from the tails, given states of the witness's row, or of a row in the middle."""
        rows = {min(witness.row or 0, self._chain.length - 1), int(self._middle.argmax())}
        return max(self._tails(rate, row) for row in sorted(rows)) * (1 - _SLIGHT)

    def _tails(self, rate: float, row: int) -> float:
        here = Secrets(self._pairs, np.arange(self._chain.length) == row)
        pairs = self._pairs[here.possible(self._chain)]
        steps = rate * np.einsum("ok,os->ks", self._rows.weights, self._rows.tables)
        both = (tail_loss(self._chain, sign * steps, self._rows.kinds, row, pairs) for sign in (1, -1))
        return max(both) if len(pairs) else 0.0

    def at(self, witness: Witness) -> Pair | None:
        """Return the laws at a row and two states, by one forward and one backward pass."""
        if self._jointly or witness.secrets is None or witness.row is None:
            return None
        states = self._labels.index(witness.secrets[0]), self._labels.index(witness.secrets[1])
        mu, nu = (_times(law, self._rows.unit) for law in pair_of(self._sums, witness.row, states))
        return self._pair(mu, nu, witness.row, states)

    @cached_property
    def work(self) -> WorkEstimate:
        """The work of each method; messages are coarse where exact ones take long."""
        fine = self._fine_work
        long = fine.walk > _SECONDS
        return fine._replace(coarse=_coarse_work(self._chain.length, self._chain.states) if long else math.inf)

    @property
    def _fine_work(self) -> WorkEstimate:
        """The work row by row: each row has a law for every state, and convolves those before and after it."""
        rows, states = self._chain.length, self._chain.states
        secret = rows if self._rows.secret is None else int(self._rows.secret.sum())
        pairs, walk = float(len(self._pairs)), _walk_work(rows, states)
        if self._jointly:
            return self._joint_work(walk, secret * pairs)
        points = lattice(self._sums, most_points(self._sums)).size
        if points > most_points(self._sums):
            return WorkEstimate(walk, _A_MINUTE, _A_MINUTE, math.inf, math.inf, secret * pairs, points)
        laws = rows * 2e5 + secret * (3e5 + 250 * states * points * (1 + points / 4000))
        single_row = rows * (1e5 + 20 * states * states * points)
        return WorkEstimate(
            walk, laws, 1.5 * laws, laws + 1e3 * secret * pairs * points, single_row, secret * pairs, points
        )

    def _joint_work(self, walk: float, pairs: float) -> WorkEstimate:
        """Return the work of listed laws; vectors have the product of the numbers of values of their answers."""
        if self.dimension > 1 and many_atoms(self._chain, self._rows.disjoint_rows):
            return WorkEstimate(walk, pairs=math.inf, pair=math.inf, number=pairs)
        atoms = float(np.prod(1.0 + self._rows.disjoint_rows))
        compared = atoms * atoms if self.dimension > 1 else atoms
        listing = 1e3 * self._chain.length * self._chain.states * atoms
        return WorkEstimate(
            walk, listing + 300 * pairs * compared, listing + 300 * pairs * compared, listing, listing, pairs, atoms
        )

    @cached_property
    def small(self) -> bool:
        """Whether the joint laws can be listed and compared in a few seconds; otherwise all rows may change (M7)."""
        if not self._jointly:
            return True  # those that are too long to list refuse to be
        if self.dimension > 1 and many_atoms(self._chain, self._rows.disjoint_rows):
            return False
        try:
            return few_atoms(self.pairs)
        except Refused:
            return False

    @property
    def _jointly(self) -> bool:
        """Whether laws are listed to be compared: those of vectors, and of several initial laws."""
        return self.dimension > 1 or len(self._chain.initial) > 1

    @cached_property
    def _middle(self) -> Flags:
        """A flag at the middle secret row."""
        secret = np.arange(self._chain.length) if self._rows.secret is None else np.flatnonzero(self._rows.secret)
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
                f"Listing the laws of {count} pairs along a chain of {self._chain.length} rows.",
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
            for row, laws in JointLaws(self._chain, steps, self._rows.kinds).given(self._rows.secret)
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
        return reach if reach.length <= whole.length else replace(whole, certainty=Certainty.UPPER_BOUND)


def _walk_work(rows: int, states: int) -> float:
    """Return the work of messages: all pairs of states are searched, row by row, until messages converge."""
    step = 2e3 if states <= 3 else 4.0 * states**6
    return _EVALUATIONS * (1e6 + 2 * min(rows, _UNTIL_REST) * step)


def _coarse_work(rows: int, states: int) -> float:
    return _COARSE_EVALUATIONS * (1e6 + 2 * min(rows, _UNTIL_REST) * 40.0 * states**3)


def _times(law: Law, unit: float) -> Law:
    return law if unit == 1 else law.map(lambda values: values * unit)


@implied.register(ChainsBetween)
@row_by_row
def _(prior: ChainsBetween, statistic: Statistic, secret: AnySecret) -> Laws:
    _, domain = column_and_domain(prior, statistic, secret)
    rows = ChainRows.of(statistic, domain, first=isinstance(secret, Initial))
    chains, start = prior.along(rows.positions, statistic.start)
    return ClassLaws(prior, chains, rows.along(start, chains.length), value_places(secret, domain), domain.points)


@final
class ClassLaws(AlongLaws[Chains]):
    """The laws of sums under every chain of a class; they are never listed."""

    @cached_property
    def pairs(self) -> NoReturn:
        raise Refused(
            "The laws of a class of chains one by one: it has infinitely many members.",
            allowed="bound=pf.Messages(), which bounds all members at once, or bound=pf.Group()",
            instead="a list of single chains as prior, if the class has only a few",
        )
