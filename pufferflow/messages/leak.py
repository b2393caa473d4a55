"""What outputs along a chain tell of the state of one of its rows (M20)."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.messages.along import Run, run
from pufferflow.messages.chain import Chain, Flags, Floats
from pufferflow.messages.classes import Chains
from pufferflow.messages.schedule import Schedule
from pufferflow.messages.stretches import Whole
from pufferflow.rounding import UNIT

_QUIET = np.errstate(over="ignore", invalid="ignore")
"""Losses beyond all floats become infinite, which is what they are as far as anybody can tell."""


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
    """Which two states of a row must look alike: pairs of shape (S, 2), both orders, and the rows; all if None."""

    pairs: Whole
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
    """What outputs tell at most of each row's state, were the other rows known: row t has `losses[kinds[t]]` (ℓ_t)."""

    losses: Floats
    kinds: Whole


@_QUIET
def leak(chain: Chain | Chains, exposures: Exposures, secrets: Secrets) -> Leak:
    """Return max B_t(a,b) + ℓ_t(a,b) + F_t(a,b) over the rows t and pairs (a, b) of the secrets, rounded up.

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(8, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> steps = Exposures(0.5 * (1 - np.eye(2))[None], np.zeros(9, dtype=np.intp))
    >>> found = leak(chain, steps, Secrets(np.array([[0, 1], [1, 0]])))
    >>> round(found.value, 6), found.row
    (2.635461, 4)
    """
    future = run(chain.forward, exposures.losses, exposures.kinds[::-1])
    past = run(chain.backward, exposures.losses, exposures.kinds)
    return _largest(chain, past, future.backwards(), exposures, secrets)


def endless(chain: Chain | Chains, exposures: Exposures, secrets: Secrets) -> Leak:
    """Return the same for a sequence that never ends; ∞ if its losses do not come to rest.

    `chain` gives one turn of the kernels and the laws of row 0; `exposures` one turn of the exposures.

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(1, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> steps = Exposures(0.1 * (1 - np.eye(2))[None], np.zeros(1, dtype=np.intp))
    >>> round(endless(chain, steps, Secrets(np.array([[0, 1], [1, 0]]))).value, 4)
    0.8724
    """
    return continued(chain, Exposures(exposures.losses, exposures.kinds[:0]), exposures, secrets)


@_QUIET
def continued(chain: Chain | Chains, head: Exposures, turn: Exposures, secrets: Secrets) -> Leak:
    """Return the same for first rows with exposures of their own, and then a turn of others for ever.

    Row t has `head.kinds[t]`, and from row len(head.kinds) on `turn.kinds[t % len(turn.kinds)]`: whatever takes turns
    is lined up with the number of the row. The secrets are those of all rows. ∞ if the losses do not come to rest.

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(1, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> steps = Exposures((1 - np.eye(2))[None] * np.array([0.1, 0.5])[:, None, None], np.zeros(1, dtype=np.intp))
    >>> first = Exposures(steps.losses, np.ones(3, dtype=np.intp))
    >>> round(continued(chain, first, steps, Secrets(np.array([[0, 1], [1, 0]]))).value, 4)
    1.5893
    """
    schedule, start = Schedule(chain, head.losses, head.kinds, turn.losses, turn.kinds), chain.settling()
    resting = schedule.resting()
    past = None if start is None or resting is None else schedule.past(max(len(head.kinds), start), resting)
    if resting is None or past is None:
        a, b = secrets.pairs[0].tolist()
        return Leak(math.inf, 0, (a, b), tight=True)
    rows = len(past.index)
    exposures = Exposures(schedule.losses, schedule.kinds(rows))
    return _largest(schedule.along(rows), past, schedule.future(resting, rows), exposures, secrets)


def _largest(chain: Chain | Chains, past: Run, future: Run, exposures: Exposures, secrets: Secrets) -> Leak:
    """Return the largest sum of what past, row and future tell, looking once at rows that agree in everything."""
    rows = np.arange(chain.length) if secrets.rows is None else np.flatnonzero(secrets.rows)
    rows = _different(rows, past.index, future.index, exposures.kinds, chain.mask_of)
    losses = past.pool[past.index[rows]] + exposures.losses[exposures.kinds[rows]] + future.pool[future.index[rows]]
    value, place, pair = secrets.largest(losses, chain.masks[chain.mask_of[rows]])
    a, b = secrets.pairs[pair].tolist()
    value = math.inf if math.isnan(value) else value  # sums beyond floats
    return Leak(value * (1 + 2 * UNIT), int(rows[place]), (a, b), tight=past.tight and future.tight)


def _different(rows: Whole, *labels: Whole) -> Whole:
    """Return the first of all rows that agree in every label."""
    code = np.zeros(len(rows), dtype=np.int64)
    for label in labels:
        some = label[rows]
        code = code * (int(some.max()) + 1) + some
    news = rows[np.concatenate([[True], code[1:] != code[:-1]])]
    _, first = np.unique(code[np.searchsorted(rows, news)], return_index=True)
    return news[first]
