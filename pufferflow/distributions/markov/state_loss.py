"""The loss of a row's state from outputs along a chain, B_t + ℓ_t + F_t, for finite and infinite chains (M20).

An infinite sequence has the exposures of a head, then a periodic turn of others. Messages about the future have no last
row to begin at. They begin with a message that a turn does not raise, and go back through the head from there, so they
are never below those of any finite sequence. Messages about the past begin at row 0. Once the laws of rows repeat, so
do the steps, and a bound on all further messages is checked in the same way.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.chain_class import Chains
from pufferflow.distributions.markov.periods import LONG, tile
from pufferflow.distributions.markov.recursion import Run, SomeSteps, run, settle

_TURNS = 16
_QUIET = np.errstate(over="ignore", invalid="ignore")
"""Losses beyond the largest float become infinite."""


@final
@dataclass(frozen=True)
class Leak:
    """The largest log-likelihood ratio of two states of a row, that row and the states; `tight` as in `Run`."""

    value: float
    row: int
    states: tuple[int, int]
    tight: bool


@final
@dataclass(frozen=True, eq=False)
class Secrets:
    """Pairs of states to be indistinguishable, of shape (S, 2), in both orders, and the secret rows; all if None."""

    pairs: Indices
    rows: Flags | None = None

    def possible(self, chain: Chain | Chains) -> Flags:
        """Return for each pair whether some secret row can have both its states."""
        rows = chain.mask_of if self.rows is None else chain.mask_of[self.rows]
        return np.asarray(chain.masks[np.unique(rows)][:, self.pairs].all(axis=2).any(axis=0))

    def largest(self, losses: Floats, possible: Flags) -> tuple[float, int, int]:
        """Return the largest loss among matrices of shape (U, k, k), with the places of the matrix and of the pair.

        A state that a row cannot have is no secret there.
        """
        values = losses[:, self.pairs[:, 0], self.pairs[:, 1]]
        values = np.where(possible[:, self.pairs].all(axis=2), values, 0.0)
        place, pair = np.unravel_index(int(values.argmax()), values.shape)
        return float(values[place, pair]), int(place), int(pair)


@final
@dataclass(frozen=True, eq=False)
class Exposures:
    """The largest losses of outputs about each row's state, given all other rows: `losses[kinds[t]]` at row t (ℓ_t)."""

    losses: Floats
    kinds: Indices


@_QUIET
def leak(chain: Chain | Chains, exposures: Exposures, secrets: Secrets) -> Leak:
    """Return max B_t(a,b) + ℓ_t(a,b) + F_t(a,b) over the rows t and pairs (a, b) of the secrets, rounded up.

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(8, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> steps = Exposures(0.5 * (1 - np.eye(2))[None], np.zeros(9, dtype=np.intp))
    >>> worst = leak(chain, steps, Secrets(np.array([[0, 1], [1, 0]])))
    >>> round(worst.value, 6), worst.row
    (2.635461, 4)
    """
    future = run(chain.forward, exposures.losses, exposures.kinds[::-1])
    past = run(chain.backward, exposures.losses, exposures.kinds)
    return _largest_leak(chain, past, future.backwards(), exposures, secrets)


def endless_leak(chain: Chain | Chains, exposures: Exposures, secrets: Secrets) -> Leak:
    """Return the leak of an infinite sequence; ∞ if its losses do not converge.

    `chain` gives one turn of the kernels and the laws of row 0; `exposures` one turn of the exposures.

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(1, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> steps = Exposures(0.1 * (1 - np.eye(2))[None], np.zeros(1, dtype=np.intp))
    >>> round(endless_leak(chain, steps, Secrets(np.array([[0, 1], [1, 0]]))).value, 4)
    0.8724
    """
    return continued_leak(chain, Exposures(exposures.losses, exposures.kinds[:0]), exposures, secrets)


@_QUIET
def continued_leak(chain: Chain | Chains, head: Exposures, turn: Exposures, secrets: Secrets) -> Leak:
    """Return the leak of an infinite sequence: a head of rows with their own exposures, then a repeated turn.

    Row t has `head.kinds[t]`, and from row len(head.kinds) on `turn.kinds[t % len(turn.kinds)]`: the turn is aligned
    with the number of the row. The secrets are those of all rows. ∞ if the losses do not converge.

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(1, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> steps = Exposures((1 - np.eye(2))[None] * np.array([0.1, 0.5])[:, None, None], np.zeros(1, dtype=np.intp))
    >>> first = Exposures(steps.losses, np.ones(3, dtype=np.intp))
    >>> round(continued_leak(chain, first, steps, Secrets(np.array([[0, 1], [1, 0]]))).value, 4)
    1.5893
    """
    schedule, start = _HeadAndTurns(chain, head.losses, head.kinds, turn.losses, turn.kinds), chain.settling()
    resting = schedule.resting()
    past = None if start is None or resting is None else schedule.past(max(len(head.kinds), start), resting)
    if resting is None or past is None:
        a, b = secrets.pairs[0].tolist()
        return Leak(math.inf, 0, (a, b), tight=True)
    rows = len(past.index)
    exposures = Exposures(schedule.losses, schedule.kinds(rows))
    return _largest_leak(chain.repeated(rows - 1), past, schedule.future(resting, rows), exposures, secrets)


def _largest_leak(chain: Chain | Chains, past: Run, future: Run, exposures: Exposures, secrets: Secrets) -> Leak:
    """Return the largest sum of the losses of past, row and future; equal rows are computed once."""
    rows = np.arange(chain.length) if secrets.rows is None else np.flatnonzero(secrets.rows)
    rows = _distinct_rows(rows, past.index, future.index, exposures.kinds, chain.mask_of)
    losses = past.pool[past.index[rows]] + exposures.losses[exposures.kinds[rows]] + future.pool[future.index[rows]]
    value, place, pair = secrets.largest(losses, chain.masks[chain.mask_of[rows]])
    a, b = secrets.pairs[pair].tolist()
    value = math.inf if math.isnan(value) else value  # sums beyond floats
    return Leak(value * (1 + 2 * UNIT), int(rows[place]), (a, b), tight=past.tight and future.tight)


def _distinct_rows(rows: Indices, *labels: Indices) -> Indices:
    """Return the first row of each combination of labels."""
    code = np.zeros(len(rows), dtype=np.int64)
    for label in labels:
        values = label[rows]
        code = code * (int(values.max()) + 1) + values
    candidates = rows[np.concatenate([[True], code[1:] != code[:-1]])]
    _, first = np.unique(code[np.searchsorted(rows, candidates)], return_index=True)
    return candidates[first]


@final
@dataclass(frozen=True, eq=False)
class _HeadAndTurns:
    """Row t has exposures `head[t]` of `first`, then `turn[t % len(turn)]` of `later`; `single_turn` of kernels."""

    single_turn: Chain | Chains
    first: Floats
    head: Indices
    later: Floats
    turn: Indices

    @cached_property
    def losses(self) -> Floats:
        return np.concatenate([self.first, self.later])

    @cached_property
    def period(self) -> int:
        """The number of rows after which both kernels and exposures repeat."""
        return math.lcm(len(self.single_turn.order), len(self.turn))

    def kinds(self, rows: int) -> Indices:
        """Return the index in `losses` for each of the first rows."""
        kinds = len(self.first) + tile(self.turn, rows)
        kinds[: len(self.head)] = self.head[:rows]
        return kinds

    def resting(self) -> Run | None:
        """Return messages about the future far from the head, rows in falling order from a multiple of the period."""
        far = len(self.first) + tile(self.turn, self.period + 1)[:0:-1]
        return settle(self._futurewards(self.period), self.losses, far)

    def future(self, resting: Run, rows: int) -> Run:
        """Return the messages about the future at the first rows."""
        length = len(self.head)
        phases = resting.index[-np.arange(length, rows) % self.period]
        kinds = self.kinds(length + 1)[:0:-1]
        head = run(self._futurewards(length), self.losses, kinds, resting.pool[phases[0]])
        return head.backwards().then(Run(resting.pool, phases, resting.tight))

    def past(self, settled: int, resting: Run) -> Run | None:
        """Return the messages about the past at rows 0, 1, …, if laws repeat from a row on; the last turn is repeated.

        They converge to a limit near that of the messages about the future.
        """
        turn = self.period
        settling = -(-max(2 * LONG, _TURNS * turn) // turn) * turn
        steps = self.single_turn.repeated(settled + settling).backward
        last = steps.order[-turn:]
        # the laws of a class count as repeating when its steps do
        begin = settled if np.array_equal(steps.order[settled : settled + turn], last) else settled + settling - turn
        kinds = self.kinds(begin + turn)
        first = run(SomeSteps(steps, steps.order[:begin]), self.losses, kinds)
        rest = settle(
            SomeSteps(steps, last), self.losses, kinds[begin:], first.last, resting.pool[resting.index[-begin % turn]]
        )
        return None if rest is None else first.then(rest)

    def _futurewards(self, row: int) -> SomeSteps:
        """Return the steps of messages about the future from a row to row 0."""
        return SomeSteps(self.single_turn.forward, tile(self.single_turn.order, row)[::-1])
