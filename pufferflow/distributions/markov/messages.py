"""The recursion of M20: messages from row to row bound the loss of a row's state from the outputs on one side of it.

In a long stretch where steps repeat, messages converge. From then on a D with g(D + ℓ) ≤ D bounds all of them. The
search for it (`limit_of`, Newton's method where steps take long) only guesses: its result is enlarged slightly
until a turn does not raise it. That is checked, since messages themselves stay below their limit.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.distributions.markov.chain import Stretch, stretches, tile_into
from pufferflow.distributions.markov.law_regions import Tangent

Turn = Callable[[Floats], Floats]
"""The map of a message to the one a turn later."""
ENDLESS = 1e5
"""The multiple of the largest exposure beyond which messages count as unbounded."""
_CLOSE_TO_REST = 1e-11
_ROUNDING = 1e-12
_MOST_CYCLES = 200
_BOLDEST = 8.0
_CLOSE = 1e-9
_LOOSE = 1e-6
_MOST_PAD = 1e-2
_MOST_SLOW = 20_000
_PATIENCE = 50_000
_FEWEST = 4
_PADS = 32
_NEWTON = 24
_SOLVED = 1e-7
_FLOOR = 1e-6


@final
@dataclass(frozen=True, eq=False)
class Run:
    """Messages at rows 0, 1, …: row i has `pool[index[i]]`; `tight` if none is much above what the rows alone allow."""

    pool: Floats
    index: Indices
    tight: bool

    @property
    def last(self) -> Floats:
        return self.pool[self.index[-1]]

    def backwards(self) -> "Run":
        return Run(self.pool, self.index[::-1], self.tight)

    def then(self, other: "Run") -> "Run":
        """Return these messages followed by others, whose first row is the last one here."""
        pool, index = np.concatenate([self.pool, other.pool]), other.index + len(self.pool)
        return Run(pool, np.concatenate([self.index[:-1], index]), self.tight and other.tight)


class MessageSteps(Protocol):
    """Steps of messages: step i is `order[i]`; `tight` as in `Run`."""

    @property
    def order(self) -> Indices: ...
    @property
    def tight(self) -> bool: ...

    def send(self, which: int, limits: Floats) -> Floats:
        """Return the message that a step makes of limits D, or a larger one: g_P(D)."""
        ...

    def tangent(self, which: int, limits: Floats, before: Tangent | None) -> Tangent | None:
        """Return a quicker approximation of `send` near these limits; None if `send` itself is quick.

        The search starts from the result `before` for limits near these.
        """
        ...


@final
@dataclass(frozen=True, eq=False)
class SomeSteps:
    """A selection of steps, in an order of its own."""

    whole: MessageSteps
    order: Indices

    @property
    def tight(self) -> bool:
        return self.whole.tight

    def send(self, which: int, limits: Floats) -> Floats:
        return self.whole.send(which, limits)

    def tangent(self, which: int, limits: Floats, before: Tangent | None) -> Tangent | None:
        return self.whole.tangent(which, limits, before)


def run(steps: MessageSteps, limits: Floats, kinds: Indices, start: Floats | None = None) -> Run:
    """Return the messages D_{i+1} = g_{order[i]}(D_i + limits[kinds[i]]) from a first one, 0 if None; or larger ones.

    In a long stretch where steps repeat, a bound on all messages replaces them once they are near it.
    """
    messages, index = _Messages(steps, limits, kinds), np.empty(len(steps.order) + 1, dtype=np.intp)
    message = np.zeros(limits.shape[1:]) if start is None else start
    index[0] = messages.add(message)
    for stretch in stretches(steps.order * len(limits) + kinds[: len(steps.order)]):
        message = messages.along(message, index, stretch)
    return Run(np.array(messages.pool), index, messages.tight and steps.tight)


def settle(
    steps: MessageSteps,
    limits: Floats,
    kinds: Indices,
    start: Floats | None = None,
    guess: Floats | None = None,
) -> Run | None:
    """Return the messages of some turns of the steps, the last of which bounds all further ones (M20).

    The first message is not below `start`; the search for the bound begins at a guess. The bound is a D that one turn
    was checked not to raise; None if the messages do not converge.
    """
    turn = Stretch(0, len(steps.order), len(steps.order))
    messages = _Messages(steps, limits, kinds)
    message = np.zeros(limits.shape[1:]) if start is None else start
    level = messages.level(turn, guess)
    if level is None:
        return None
    pool: list[Floats] = []
    standing = messages.standing(message, level, turn)
    for _ in range(max(_PATIENCE // (turn.period * message.size), _FEWEST)):
        if standing is not None:
            break
        *turned, after = messages.cycle(message, turn)
        pool += [message, *turned]
        message = after
        standing = messages.standing(message, level, turn)
    standing = messages.above(message, level, turn) if standing is None else standing
    if standing is None:
        return None
    pool += [standing, *messages.cycle(standing, Stretch(0, turn.end, turn.period - 1))]
    return Run(np.array(pool), np.arange(len(pool)), messages.tight and steps.tight)


@final
@dataclass
class _Messages:
    """The messages of a run so far, `pool`; `tight` as in `Run`."""

    steps: MessageSteps
    limits: Floats
    kinds: Indices
    pool: list[Floats] = field(default_factory=list[Floats])
    tight: bool = True

    def add(self, message: Floats) -> int:
        self.pool.append(message)
        return len(self.pool) - 1

    def step(self, message: Floats, at: int) -> Floats:
        return self.steps.send(int(self.steps.order[at]), message + self.limits[self.kinds[at]])

    def cycle(self, message: Floats, stretch: Stretch) -> list[Floats]:
        """Return the messages of one period after this one."""
        messages: list[Floats] = []
        for at in range(stretch.start, stretch.start + stretch.period):
            message = self.step(message, at)
            messages.append(message)
        return messages

    def along(self, message: Floats, index: Indices, stretch: Stretch) -> Floats:
        """Write the messages of a stretch and return the last."""
        rest = self._rest(message, stretch) if stretch.period else None
        for at in range(stretch.start, stretch.end):
            left = stretch.end - at
            if rest is not None and (at - stretch.start) % stretch.period == 0:
                steady = rest.steady(self, message, stretch, left)
                if steady is not None:
                    places = np.array([self.add(level) for level in steady], dtype=np.intp)
                    tile_into(index[at + 1 : stretch.end + 1], places)
                    return steady[(left - 1) % stretch.period]
            message = self.step(message, at)
            index[at + 1] = self.add(message)
        return message

    def level(self, turn: Stretch, guess: Floats | None) -> Floats | None:
        """Return a message that a turn does not raise, above all messages that start at 0; None if these are unbounded.

        It is twice as far above them as in finite runs, so that no finite run exceeds an endless one.
        """
        nothing = np.zeros(self.limits.shape[1:])
        if not self.limits[self.kinds[: turn.period]].any():
            return nothing
        rest = self._rest(nothing if guess is None else guess, turn, 2 * _CLOSE)
        return None if rest is None else rest.level

    def standing(self, message: Floats, level: Floats, turn: Stretch) -> Floats | None:
        """Return a fixed bound on a message and on all later ones, if one is known.

        The level is one for messages below it, and a message itself is one once turns only lower it: g is monotone.
        """
        if (message <= level).all():
            return level
        if self._is_lowered(message, turn):
            return message
        top = np.maximum(message, level)
        near = float((top - level).max()) <= _CLOSE * float(top.max())
        return top if near and self._is_lowered(top, turn) else None

    def above(self, message: Floats, level: Floats, turn: Stretch) -> Floats | None:
        """Return a bound far above a message and the level that a turn only lowers, if one is found."""
        self.tight = False
        top = np.maximum(message, level)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = float(np.nanmax(top / level))
        even = float(top.max()) * (1 - np.eye(len(top)))
        candidates = [
            top,
            even,
            *(level * ratio * 2**power for power in range(4) if ratio < np.inf),
        ]
        return next(
            (
                candidate
                for candidate in candidates
                if self._is_lowered(np.maximum(candidate, top), turn)
            ),
            None,
        )

    def _is_lowered(self, message: Floats, turn: Stretch) -> bool:
        return bool((self.cycle(message, turn)[-1] <= message).all())

    def _rest(self, message: Floats, stretch: Stretch, pad: float = _CLOSE) -> "_Rest | None":
        """Return the limit of messages, enlarged slightly until a period of a stretch does not raise it."""
        size = max(float(self.limits.max()), float(message.max()))
        solution = self._solve(message, stretch, size)
        if solution is None:
            return None
        message, rate, turn = solution
        size, pad = max(size, float(message.max())), pad if rate is not None else _SOLVED
        off = 1 - np.eye(len(message))
        while pad < _MOST_PAD:
            for padded in (self._raise_by(message, turn, pad * size * off), message * (1 + pad)):
                if self._is_lowered(padded, stretch):
                    self.tight = self.tight and pad <= _LOOSE
                    return _Rest(padded, 1.0 if rate is None else rate)
            pad *= 4
        return None

    def _raise_by(self, message: Floats, turn: Turn, pad: Floats) -> Floats:
        """Iterate turns that each add a pad: where limits add up along paths, a single pad is too little.

        D = g(D + ℓ) + pad leaves a margin for the remaining growth.
        """
        message = message + pad
        for _ in range(_PADS):
            following = turn(message)
            if (following <= message).all():
                break
            message = following + pad
        return message

    def _solve(
        self, message: Floats, stretch: Stretch, size: float
    ) -> tuple[Floats, float | None, Turn] | None:
        """Return the approximate limit of messages, the rate of convergence, and an approximation of a turn there.

        Where steps take long it uses Newton's method, without a rate: tangents are followed to their limit, and
        computed again there.
        """
        solution, off = None, 1 - np.eye(len(message))
        steps: list[Tangent | None] = [None] * stretch.period
        for _ in range(_NEWTON):
            # without limits there is no slope
            turn = self._tangents(np.maximum(message, _FLOOR * size * off), stretch, steps)
            if turn is None:
                plain: Turn = lambda start: self.cycle(start, stretch)[-1]  # noqa: E731
                resting = limit_of(plain, message, size)
                return None if resting is None else (*resting, plain)
            following = turn(message)
            solution = following, None, turn
            if np.abs(following - message).max() <= _SOLVED * max(size, float(following.max())):
                break
            resting = limit_of(turn, following, size)
            message = (
                _iterate_until_doubled(turn, following, size) if resting is None else resting[0]
            )
            if float(message.max()) > ENDLESS * max(size, 1.0):
                return None
        return solution

    def _tangents(
        self, message: Floats, stretch: Stretch, before: list[Tangent | None]
    ) -> Turn | None:
        """Return an approximation of one period of steps, for messages near this one."""
        tangents: list[tuple[Tangent, Floats]] = []
        for place, at in enumerate(range(stretch.start, stretch.start + stretch.period)):
            exposure = self.limits[self.kinds[at]]
            tangent = self.steps.tangent(
                int(self.steps.order[at]), message + exposure, before[place]
            )
            if tangent is None:
                return None
            tangents.append((tangent, exposure))
            before[place], message = tangent, tangent.message

        def turn(message: Floats) -> Floats:
            for tangent, exposure in tangents:
                message = tangent.send(message + exposure)
            return message

        return turn


@final
@dataclass(frozen=True, eq=False)
class _Rest:
    """A message that one period does not raise, and the rate at which others approach it."""

    level: Floats
    rate: float

    def steady(
        self, messages: _Messages, message: Floats, stretch: Stretch, left: int
    ) -> list[Floats] | None:
        """Return messages of one period that bound all remaining ones; None if that is too early."""
        top = np.maximum(message, self.level)
        size = float(top.max())
        near = float((top - message).max()) <= 2 * _CLOSE * size
        fast = self.rate ** (left / stretch.period / 2) <= _CLOSE
        slow = left > _MOST_SLOW
        low = bool((message <= self.level).all())
        if not (near or ((fast or slow) and low)):
            return None
        following = messages.cycle(top, stretch)
        if not (low or (following[-1] <= top).all()):
            return None
        if slow and not (near or fast):
            messages.tight = False
        return [*following[:-1], top]


def _iterate_until_doubled(turn: Turn, message: Floats, size: float) -> Floats:
    """Iterate turns until the message has doubled: unbounded tangents may flatten later."""
    most = 2 * float(message.max()) + size
    for _ in range(_MOST_CYCLES):
        following = turn(message)
        if float(following.max()) > most:
            break
        message = following
    return message


def limit_of(turn: Turn, message: Floats, size: float) -> tuple[Floats, float] | None:
    """Return the limit of turns, by geometric extrapolation of their changes, and the rate."""
    rate, calmest = 0.0, np.inf
    for _ in range(_MOST_CYCLES):
        second = turn(message)
        third = turn(second)
        before, after = float(np.abs(second - message).max()), float(np.abs(third - second).max())
        if after > 0 and before > _ROUNDING * size:
            rate = max(min(after / before, 1.0), rate / 2)
        message = third
        if after <= _CLOSE_TO_REST * max(size, float(third.max())):
            break
        if float(third.max()) > ENDLESS * max(size, 1.0):
            return None
        # a guess may add changes that are not geometric: let them decay before the next one
        if after < min(before, calmest):
            calmest = after
            guess = (third - second) * (after / (before - after))
            far = _BOLDEST * max(size, float(third.max())) / max(float(np.abs(guess).max()), size)
            message = np.maximum(third + guess * min(far, 1.0), 0.0)
    return message, rate
