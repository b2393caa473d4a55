"""Messages along rows that never end: first those of a head, then a turn of others over and over (M20).

Messages about the future have no last row to begin at. They begin where a turn does not raise them any more, and go
back through the head from there, so they are never below those of any finite sequence. Messages about the past begin at
row 0; once the laws of rows repeat, so do the steps, and what stands for all that follow is checked in the same way.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.messages.along import Part, Run, run, settle
from pufferflow.messages.chain import Chain, Floats
from pufferflow.messages.classes import Chains
from pufferflow.messages.stretches import LONG, Whole, repeated

_TURNS = 16


@final
@dataclass(frozen=True, eq=False)
class Schedule:
    """Row t has exposures `head[t]` of `first`, then `turn[t % len(turn)]` of `later`; `one` turn of kernels."""

    one: Chain | Chains
    first: Floats
    head: Whole
    later: Floats
    turn: Whole

    @cached_property
    def losses(self) -> Floats:
        """All exposures."""
        return np.concatenate([self.first, self.later])

    @cached_property
    def period(self) -> int:
        """After how many rows both kernels and exposures repeat."""
        return math.lcm(len(self.one.order), len(self.turn))

    def along(self, rows: int) -> Chain | Chains:
        """Return the chain along so many rows."""
        return self.one.repeated(rows - 1)

    def kinds(self, rows: int) -> Whole:
        """Return which of `losses` each of so many rows has."""
        found = len(self.first) + repeated(self.turn, rows)
        found[: len(self.head)] = self.head[:rows]
        return found

    def resting(self) -> Run | None:
        """Return messages about the future far from the head, rows in falling order from a multiple of the period."""
        far = len(self.first) + repeated(self.turn, self.period + 1)[:0:-1]
        return settle(self._futurewards(self.period), self.losses, far)

    def future(self, resting: Run, rows: int) -> Run:
        """Return the messages about the future of so many rows."""
        length = len(self.head)
        phases = resting.index[-np.arange(length, rows) % self.period]
        kinds = self.kinds(length + 1)[:0:-1]
        head = run(self._futurewards(length), self.losses, kinds, resting.pool[phases[0]])
        return head.backwards().then(Run(resting.pool, phases, resting.tight))

    def past(self, settled: int, resting: Run) -> Run | None:
        """Return the messages about the past of rows 0, 1, …, if laws repeat from a row on; the last turn goes on.

        They rest near to where those about the future do.
        """
        turn = self.period
        many = -(-max(2 * LONG, _TURNS * turn) // turn) * turn
        steps = self.along(settled + many + 1).backward
        last = steps.order[-turn:]
        # a class counts its laws as repeating when its steps do
        begin = settled if np.array_equal(steps.order[settled : settled + turn], last) else settled + many - turn
        kinds = self.kinds(begin + turn)
        first = run(Part(steps, steps.order[:begin]), self.losses, kinds)
        rest = settle(
            Part(steps, last), self.losses, kinds[begin:], first.last, resting.pool[resting.index[-begin % turn]]
        )
        return None if rest is None else first.then(rest)

    def _futurewards(self, row: int) -> Part:
        """Return the steps of messages about the future from a row to row 0."""
        return Part(self.one.forward, repeated(self.one.order, row)[::-1])
