"""Messages of mechanisms with a loss per row, from row to row along a chain; where steps repeat they converge.

In a long stretch whose steps repeat, a message that a whole turn does not raise bounds all further ones. The search
for it only guesses, from messages a turn apart; that a turn does not raise it is checked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, final

import numpy as np

from pufferflow.core.arrays import Indices
from pufferflow.distributions.markov.periods import LONG, Stretch, stretches, tile_into

M = TypeVar("M")
_PADS = (1e-9, 1e-7, 1e-5, 1e-3)
_FINE_PADS = _PADS[:2]
_FIRST_GUESS = 6
_LATER = 1.5
_MOST_GUESSES = 12


class Sender(Protocol[M]):
    """A step of messages of one kind from row to row."""

    def send(self, which: int, message: M) -> M: ...
    def calm(self, before: M, after: M) -> bool:
        """Whether a turn hardly changes the message any more."""
        ...

    def guess(self, messages: Sequence[M]) -> M:
        """Return the extrapolated limit of three messages, each a turn after the one before."""
        ...

    def above(self, guess: M, message: M) -> M:
        """Return a message that is not below a guess, nor below another message."""
        ...

    def padded(self, message: M, pad: float) -> M:
        """Return a message that is larger by a share."""
        ...

    def keeps_below(self, which: int, message: M, above: M) -> bool:
        """Whether a step of the message gives one that is not above another one."""
        ...


@final
@dataclass(frozen=True, eq=False)
class Walk(Generic[M]):
    """The messages at rows 0, 1, …: row i has `pool[index[i]]`; from `rest` on, one turn of them bounds all."""

    pool: list[M]
    index: Indices
    rest: int | None
    turn: int = 1

    def at(self, row: int) -> M:
        """Return the message at a row."""
        return self.pool[int(self.index[row])]


def walk(order: Indices, start: M, sender: Sender[M]) -> Walk[M]:
    """Return the messages row by row, from a first one through steps in their order."""
    messages, rest = _Messages(sender, [start], np.zeros(len(order) + 1, dtype=np.intp)), None
    parts = stretches(order) if len(order) >= LONG else _short_stretches(order)
    for stretch in parts:
        rest = messages.along(order, stretch)
    return Walk(messages.pool, messages.index, rest, max(parts[-1].period, 1) if parts else 1)


def _short_stretches(order: Indices) -> list[Stretch]:
    """Return the steps up to the last change among a few steps, and the equal steps after it."""
    changes = np.flatnonzero(np.diff(order))
    steady = int(changes[-1]) + 1 if len(changes) else 0
    return [Stretch(0, steady, 0), Stretch(steady, len(order), 1)]


@final
@dataclass(frozen=True, eq=False)
class _Messages(Generic[M]):
    sender: Sender[M]
    pool: list[M]
    index: Indices

    def along(self, order: Indices, stretch: Stretch) -> int | None:
        """Write the messages of a stretch; return the row from which they are constant."""
        turn, turned = stretch.period, [self.pool[int(self.index[stretch.start])]]
        wanted, calm_wanted = _FIRST_GUESS, 1
        for at in range(stretch.start, stretch.end):
            self.pool.append(self.sender.send(int(order[at]), self.pool[int(self.index[at])]))
            self.index[at + 1] = len(self.pool) - 1
            if not turn or (at + 1 - stretch.start) % turn:
                continue
            turned, turns = [*turned[-2:], self.pool[-1]], (at + 1 - stretch.start) // turn
            calm = turns >= calm_wanted and self.sender.calm(*turned[-2:])
            if calm or turns >= wanted:
                if self._rested(order[stretch.start : stretch.start + turn], turned, at + 1, stretch.end, calm=calm):
                    return at + 1
                wanted = int(turns * _LATER) + 1
                calm_wanted = wanted if calm else calm_wanted
        return None

    def _rested(self, turn: Indices, turned: Sequence[M], first: int, end: int, *, calm: bool) -> bool:
        """Write a turn of messages that bounds all from a row to an end, if one is known."""
        guess = self._settled(turn, turned) if len(turned) > 2 else None
        guesses = [] if guess is None else [(self.sender.above(guess, turned[-1]), _FINE_PADS)]
        for known, pads in [*guesses, *([(turned[-1], _PADS)] if calm else [])]:
            for pad in pads:
                resting = self._closed(turn, self.sender.padded(known, pad))
                if resting is not None:
                    places = np.arange(len(self.pool), len(self.pool) + len(resting))
                    tile_into(self.index[first : end + 1], places)
                    self.pool.extend(resting)
                    return True
        return False

    def _settled(self, turn: Indices, turned: Sequence[M]) -> M | None:
        """Return a guess that a turn hardly changes, from guesses that are iterated for a turn or two each."""
        guess = self.sender.guess(turned)
        for _ in range(_MOST_GUESSES):
            first = self._after(turn, guess)
            following = self.sender.guess([guess, first, self._after(turn, first)])
            if self.sender.calm(guess, following):
                return following
            guess = following
        return None

    def _after(self, turn: Indices, message: M) -> M:
        for which in turn:
            message = self.sender.send(int(which), message)
        return message

    def _closed(self, turn: Indices, message: M) -> list[M] | None:
        """Return the messages of a turn, if it does not raise the first of them."""
        messages = [message]
        for which in turn[:-1]:
            messages.append(self.sender.send(int(which), messages[-1]))
        return messages if self.sender.keeps_below(int(turn[-1]), messages[-1], message) else None
