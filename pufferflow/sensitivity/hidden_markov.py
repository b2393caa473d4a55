"""Hidden chains: laws of sums given a row's hidden state, or its symbol, and the chain for messages (M58).

Given a hidden state the laws are those along the unfolded chain, which has two rows for each row: its hidden state, and
state and symbol. Given a symbol a law is the mixture of those given state and symbol, and is listed where it is small.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import cast, final

import numpy as np

from pufferflow.calibration.laws import (
    LARGE,
    DependentChain,
    DependentRows,
    Laws,
    LawsSize,
    Pair,
    Reach,
    Witness,
)
from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.errors import Refused
from pufferflow.distributions.coupling import Certainty
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.hidden_chain import HiddenChain
from pufferflow.distributions.markov.state_loss import Secrets
from pufferflow.distributions.markov.sums import Sums, lattice
from pufferflow.distributions.markov.winf_of_sums import listed, most_points
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.hidden_markov import HiddenMarkov
from pufferflow.models.secret import AnySecret, Derived
from pufferflow.queries.statistic import Statistic, column_and_domain
from pufferflow.sensitivity.cells import row_by_row
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.markov import (
    ChainLaws,
    ChainRows,
    JointLaws,
    alike,
    times,
    value_places,
)

_MOST_LISTED = 20_000
_MOST_STEPS = 2_000_000
_UNTIL_REST = 200
"""After about so many rows messages repeat."""


def secrets_of(prior: Prior, secret: AnySecret, rows: Flags | None = None) -> Secrets:
    """Return which two states, or symbols, of which rows must be indistinguishable, both ways round."""
    if isinstance(prior, HiddenMarkov) and isinstance(secret, Derived):
        pairs = prior.hidden_pairs(secret)
        return Secrets(np.concatenate([pairs, pairs[:, ::-1]]), rows, hidden=True)
    pairs = value_places(secret)
    return Secrets(np.concatenate([pairs, pairs[:, ::-1]]), rows)


@implied.register(HiddenMarkov)
@row_by_row
def _(prior: HiddenMarkov, statistic: Statistic, secret: AnySecret) -> Laws:
    _, domain = column_and_domain(prior, statistic, secret)
    rows = ChainRows.of(statistic, domain, first=False)
    shifts, kind_of = alike(rows.shifts)
    walk = DependentChain(
        len(rows.tables),
        prior.hidden_chain(rows.positions, statistic.start),
        shifts,
        kind_of[rows.kinds],
        secrets_of(prior, secret),
        prior,
        tuple(prior.names if isinstance(secret, Derived) else domain.points),
        rows.single,
    )
    unfolded = UnfoldedRows(prior.hidden_chain(rows.positions, statistic.start), rows)
    if isinstance(secret, Derived):
        return HiddenStateLaws(walk, unfolded)
    return ShownLaws(walk, unfolded, value_places(secret, domain))


@final
class UnfoldedRows:
    """The rows of a statistic along the unfolded chain: rows of hidden states add nothing."""

    def __init__(self, chain: HiddenChain, rows: ChainRows) -> None:
        self.chain, self.symbols = chain.unfolded, chain.states
        hidden = len(chain.emission)
        nothing = rows.weights.shape[1]
        kinds = np.full(2 * chain.length, nothing, dtype=np.intp)
        kinds[1::2] = rows.kinds
        weights = np.concatenate([rows.weights, np.zeros((len(rows.weights), 1))], axis=1)
        places = np.arange(len(kinds), dtype=np.float64)
        self.rows = ChainRows(
            places, weights, kinds, np.tile(rows.tables, (1, hidden)), places % 2 == 0
        )

    @property
    def showing(self) -> Flags:
        """A flag at each row with state and symbol."""
        return np.arange(self.chain.length) % 2 == 1


class _ChainedLaws(Laws):
    """Laws along a hidden chain, with its messages and the movement of all its rows."""

    def __init__(self, walk: DependentChain) -> None:
        self._walk, self.dimension = walk, walk.answers

    def walks(self) -> Sequence[DependentRows]:
        return [self._walk]

    @property
    def _messages(self) -> tuple[float, float]:
        """The number of entries of messages that are compared along the rows, and that of coarse ones."""
        chain = cast(HiddenChain, self._walk.chain)
        rows, states = min(chain.length, _UNTIL_REST), len(chain.emission)
        shown = len(self._walk.shifts) + (0 if self._walk.secrets.hidden else rows)
        exact = rows * states**5 + shown * states**2 * chain.states**3
        coarse = 4.0 * (rows * states**3 + shown * states**2 * chain.states)
        return 4.0 * exact, coarse if 4.0 * exact > LARGE else math.inf


@final
class HiddenStateLaws(_ChainedLaws):
    """The laws of sums given two hidden states of a row: those along the unfolded chain, whose rows 2t are states."""

    def __init__(self, walk: DependentChain, unfolded: UnfoldedRows) -> None:
        super().__init__(walk)
        pairs, symbols = walk.secrets.pairs, unfolded.symbols
        once = pairs[: len(pairs) // 2] * symbols
        labels = [name for name in walk.labels for _ in range(symbols)]
        self._laws = ChainLaws(walk.prior, unfolded.chain, unfolded.rows, once, labels)
        self.certainty = self._laws.certainty

    @cached_property
    def pairs(self) -> Sequence[Pair]:
        return [_row_of(pair) for pair in self._laws.pairs]

    @cached_property
    def size(self) -> LawsSize:
        messages, coarse = self._messages
        return self._laws.size._replace(messages=messages, coarse=coarse, windows=0.0)

    @cached_property
    def small(self) -> bool:
        return self._laws.small

    def winf(self, norm: float) -> Reach:
        return _of_row(self._laws.winf(norm))

    def near(self, delta: float, norm: float) -> Reach:
        return _of_row(self._laws.near(delta, norm))

    def span(self, norm: float) -> Reach:
        return _of_row(self._laws.span(norm))

    def least(self, delta: float, norm: float) -> float:
        return self._laws.least(delta, norm)

    def least_loss(self, rate: float, witness: Witness) -> float:
        return self._laws.least_loss(rate, _doubled(witness))

    def at(self, witness: Witness) -> Pair | None:
        pair = self._laws.at(_doubled(witness))
        return None if pair is None else _row_of(pair)


@final
class ShownLaws(_ChainedLaws):
    """The laws of sums given two symbols of a row; where they are many, all rows may change (M7)."""

    def __init__(self, walk: DependentChain, unfolded: UnfoldedRows, pairs: Indices) -> None:
        super().__init__(walk)
        self._unfolded, self._pairs = unfolded, pairs
        if len(unfolded.chain.initial) > 1:
            self.certainty = Certainty.UPPER_BOUND

    @cached_property
    def pairs(self) -> Sequence[Pair]:
        chain, names = self._unfolded.chain, self._walk.labels
        count = chain.length // 2 * len(self._pairs)
        if count > _MOST_LISTED or count * chain.length > _MOST_STEPS:
            raise Refused(
                f"{count} pairs of laws along a chain of {chain.length // 2} rows are too many to list.",
                allowed=f"at most {_MOST_LISTED} pairs of short laws",
                instead="bound=pf.Messages(), which does not list them",
            )
        starts = [self._shown(replace(chain, initial=law[None])) for law in chain.initial]
        found = [
            Pair(mu, nu, self._walk.prior, (names[a], names[b]), row)
            for row in range(chain.length // 2)
            for a, b in cast(list[tuple[int, int]], self._pairs.tolist())
            for first, other in product(starts, repeat=2)
            if (mu := first[row].get(a)) is not None and (nu := other[row].get(b)) is not None
        ]
        return found or [self._nothing]

    @property
    def _nothing(self) -> Pair:
        """Two equal laws, where no row can show both symbols of a pair."""
        point = Law.point(0.0 if self.dimension == 1 else np.zeros(self.dimension))
        a, b = (self._walk.labels[place] for place in self._pairs[0].tolist())
        return Pair(point, point, self._walk.prior, (a, b), 0)

    def _shown(self, chain: Chain) -> list[dict[int, Law]]:
        """Return for each row the law of the answer given each symbol, if it can show several."""
        shown, symbols = list[dict[int, Law]](), self._unfolded.symbols
        unit = self._unfolded.rows.unit if self.dimension == 1 else 1.0
        pool, index = chain.row_laws
        for at, laws in zip(index[1::2], self._given(chain), strict=True):
            masses: Floats = pool[int(at)][0].reshape(-1, symbols)
            mixtures = {
                y: Law.mixture(
                    [laws[state * symbols + y] for state in np.flatnonzero(column).tolist()],
                    column[column > 0] / column.sum(),
                )
                for y, column in enumerate(masses.T)
                if column.any() and laws
            }
            shown.append({y: times(law, unit) for y, law in mixtures.items()})
        return shown

    def _given(self, chain: Chain) -> Iterator[dict[int, Law]]:
        """Yield for each row the law of the answer given each state with a symbol that it can have."""
        rows, showing = self._unfolded.rows, self._unfolded.showing
        if self.dimension > 1:
            steps = rows.weights.T[:, None, :] * rows.tables.T[None]
            for _, laws in JointLaws(chain, steps, rows.kinds).given(showing):
                yield {state: law[0] for state, law in enumerate(laws) if law}
            return
        found: list[dict[int, Law]] = [{} for _ in range(chain.length // 2)]
        every = np.argwhere(np.triu(np.ones((chain.states, chain.states), dtype=np.bool_), 1))
        for row, states, *both in listed(self._sums(chain), every, showing):
            found[row // 2] |= zip(states, both, strict=True)
        yield from found

    def _sums(self, chain: Chain) -> Sums:
        return Sums(chain, self._unfolded.rows.values, self._unfolded.rows.kinds)

    @cached_property
    def small(self) -> bool:
        """Whether the pairs can be listed and compared in a few seconds."""
        return self._comparable()

    @cached_property
    def size(self) -> LawsSize:
        messages, coarse = self._messages
        rows, length = self._unfolded.rows, self._unfolded.chain.length // 2
        if self.dimension > 1:
            atoms = float(np.prod(1.0 + rows.disjoint_rows))
        else:
            sums = self._sums(self._unfolded.chain)
            most = most_points(sums)
            points = lattice(sums, most).size
            atoms = math.inf if points > most else float(points)
        pairs, laws = length * len(self._pairs), length * self._unfolded.symbols
        return LawsSize(float(pairs), float(laws), atoms, messages, coarse)

    def winf(self, norm: float) -> Reach:
        return super().winf(norm) if self.small else self.span(norm)

    def near(self, delta: float, norm: float) -> Reach:
        return super().near(delta, norm) if self.small else self.span(norm)

    def span(self, norm: float) -> Reach:
        a, b = self._pairs[0].tolist()
        place = self._walk.place(0, (a, b))
        certainty = Certainty.EXACT if self.dimension == 1 else Certainty.UPPER_BOUND
        return Reach(self._unfolded.rows.group(norm), certainty, place)


def _row_of(pair: Pair) -> Pair:
    """Return a pair with the row of its hidden state."""
    return pair if pair.row is None else replace(pair, row=pair.row // 2)


def _of_row(reach: Reach) -> Reach:
    """Return a movement with the row of its hidden state."""
    witness = reach.witness
    if isinstance(witness, Pair):
        return replace(reach, witness=_row_of(witness))
    return replace(reach, witness=replace(witness, row=witness.row // 2))


def _doubled(witness: Witness) -> Witness:
    """Return a witness with the row of the unfolded chain that has its hidden state."""
    return replace(witness, row=2 * (witness.row or 0))
