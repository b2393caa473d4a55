"""The loss of a row's state where each stretch of a chain has any one of several outputs (M20).

A unit has rows at some steps of each stretch, in one of several unknown ways. Messages grow with exposures and with
the messages before them. So the largest message over all ways, entry by entry, is passed on to the next stretch. The
loss is the largest over stretches and ways, between messages that bound all ways around the stretch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.chain_class import Chains
from pufferflow.distributions.markov.recursion import MessageSteps, Run, SomeSteps, run
from pufferflow.distributions.markov.state_loss import Exposures, Secrets

_GRAIN: Final = 2.0**-32
"""Messages between stretches are rounded up to multiples of this, so that equal stretches are computed once."""


@final
@dataclass(frozen=True, eq=False)
class AnyOf:
    """Consecutive rows from `first` on, and their possible exposures: one of the `ways` for all of them.

    Parts that share one list of ways are computed once where their surroundings are equal too.
    """

    first: int
    ways: Sequence[Exposures]

    @property
    def end(self) -> int:
        """The row after the last."""
        return self.first + len(self.ways[0].kinds)


def leak_of_any(chain: Chain | Chains, parts: Sequence[AnyOf], secrets: Secrets) -> float:
    """Return the largest leak over all choices of one way in each part; the parts follow each other along the chain.

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(3, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> losses, pairs = (1 - np.eye(2))[None] * np.array([0.0, 0.4, 1.0])[:, None, None], np.array([[0, 1], [1, 0]])
    >>> ways = [Exposures(losses, np.array([1, 1])), Exposures(losses, np.array([2, 0]))]
    >>> round(leak_of_any(chain, [AnyOf(0, ways), AnyOf(2, ways)], Secrets(pairs)), 4)
    1.6097
    """
    futures = _messages(chain, parts[::-1], future=True)[::-1]
    pasts, largest = _messages(chain, parts, future=False), dict[tuple[object, ...], float]()
    for part, past, future in zip(parts, pasts, futures, strict=True):
        rows = slice(part.first, part.end)
        secret = b"" if secrets.rows is None else secrets.rows[rows].tobytes()
        key = id(part.ways), id(past), id(future), chain.mask_of[rows].tobytes(), secret
        if key not in largest:
            largest[key] = max(
                _largest(chain, part, way, behind, ahead.backwards(), secrets)
                for way, behind, ahead in zip(part.ways, past, future, strict=True)
            )
    return max(largest.values())


def _messages(chain: Chain | Chains, parts: Sequence[AnyOf], *, future: bool) -> list[list[Run]]:
    """Return the messages at the rows of every part, in every way, from a bound on all parts before it.

    Equal parts after equal messages share one list.
    """
    steps: MessageSteps = chain.forward if future else chain.backward
    known, found = dict[tuple[object, ...], list[Run]](), list[list[Run]]()
    start = np.zeros((chain.states, chain.states))
    for part in parts:
        low, high = (chain.length - part.end, chain.length - part.first) if future else (part.first, part.end)
        order = steps.order[low:high]
        key = id(part.ways), start.tobytes(), order.tobytes()
        if key not in known:
            known[key] = [
                run(SomeSteps(steps, order), way.losses, way.kinds[::-1] if future else way.kinds, start)
                for way in part.ways
            ]
        found.append(known[key])
        start = np.ceil(np.max([one.last for one in known[key]], axis=0) / _GRAIN) * _GRAIN
    return found


def _largest(  # noqa: PLR0913, PLR0917 - a part in one way, and the bounds around it
    chain: Chain | Chains, part: AnyOf, exposures: Exposures, past: Run, future: Run, secrets: Secrets
) -> float:
    """Return the largest leak of a part's rows; messages may include one further row, of another part."""
    rows: Indices = np.arange(part.first, part.end)
    if secrets.rows is not None:
        rows = rows[secrets.rows[rows]]
    if not len(rows):
        return 0.0
    at, ahead = rows - part.first, len(future.index) - len(exposures.kinds)
    losses: Floats = past.pool[past.index[at]] + exposures.losses[exposures.kinds[at]]
    losses = losses + future.pool[future.index[at + ahead]]
    value, _, _ = secrets.largest(losses, chain.masks[chain.mask_of[rows]])
    return float("inf") if np.isnan(value) else value * (1 + 2 * UNIT)
