"""Messages along a sequence: how much the outputs on one side of a row may tell of its state (M20)."""

from dataclasses import dataclass, field
from typing import Protocol, final

import numpy as np

from pufferflow.messages.chain import Floats
from pufferflow.messages.stretches import Stretch, Whole, repeat, stretches

_CLOSE = 1e-9
_LOOSE = 1e-6
_ROUNDING = 1e-12
_MOST_PAD = 1e-2
_MOST_CYCLES = 200
_MOST_SLOW = 20_000
_ENDLESS = 1e5


@final
@dataclass(frozen=True, eq=False)
class Run:
    """Messages at rows 0, 1, …: row i has `pool[index[i]]`; `tight` if none is much above what the rows alone allow."""

    pool: Floats
    index: Whole
    tight: bool


class Way(Protocol):
    """Steps of messages: step i is `order[i]`; `tight` as in `Run`."""

    @property
    def order(self) -> Whole:
        """Which step comes when."""
        ...

    @property
    def tight(self) -> bool:
        """Say whether what a step sends is near to what the rows alone allow."""
        ...

    def send(self, which: int, limits: Floats) -> Floats:
        """Return the message that a step makes of limits D, or a larger one: g_P(D)."""
        ...


def run(steps: Way, limits: Floats, kinds: Whole, *, endless: bool = False) -> Run | None:
    """Return the messages D_0 = 0, D_{i+1} = g_{order[i]}(D_i + limits[kinds[i]]), or larger ones (M20).

    In a long stretch where steps repeat, messages come to rest. From then on a D with g(D + ℓ) ≤ D stands for all of
    them: checked, not assumed, since messages themselves stay below their limit. An endless sequence repeats its last
    steps for ever; None if its messages do not come to rest.
    """
    book, index = _Book(steps, limits, kinds), np.empty(len(steps.order) + 1, dtype=np.intp)
    message = np.zeros(limits.shape[1:])
    index[0] = book.add(message)
    for stretch in stretches(steps.order * len(limits) + kinds[: len(steps.order)]):
        following = book.along(message, index, stretch, forced=endless and stretch.end == len(steps.order))
        if following is None:
            return None
        message = following
    return Run(np.array(book.pool), index, book.tight and steps.tight)


@final
@dataclass
class _Book:
    """All messages so far."""

    steps: Way
    limits: Floats
    kinds: Whole
    pool: list[Floats] = field(default_factory=list[Floats])
    tight: bool = True

    def add(self, message: Floats) -> int:
        """Keep a message and return its place."""
        self.pool.append(message)
        return len(self.pool) - 1

    def step(self, message: Floats, at: int) -> Floats:
        """Return the message one row on."""
        return self.steps.send(int(self.steps.order[at]), message + self.limits[self.kinds[at]])

    def cycle(self, message: Floats, stretch: Stretch) -> list[Floats]:
        """Return the messages of one period after this one."""
        found: list[Floats] = []
        for at in range(stretch.start, stretch.start + stretch.period):
            message = self.step(message, at)
            found.append(message)
        return found

    def along(self, message: Floats, index: Whole, stretch: Stretch, *, forced: bool) -> Floats | None:
        """Write the messages of a stretch and return the last."""
        rest = self._rest(message, stretch) if stretch.period else None
        if forced and rest is None:
            return None
        for at in range(stretch.start, stretch.end):
            left = stretch.end - at
            if rest is not None and (at - stretch.start) % stretch.period == 0:
                steady = rest.steady(self, message, stretch, left, forced=forced)
                if steady is not None:
                    places = np.array([self.add(one) for one in steady], dtype=np.intp)
                    repeat(index[at + 1 : stretch.end + 1], places)
                    return steady[(left - 1) % stretch.period]
            message = self.step(message, at)
            index[at + 1] = self.add(message)
        return message

    def _rest(self, message: Floats, stretch: Stretch) -> "_Rest | None":
        """Return where the messages of a stretch come to rest, by extrapolating what is geometric in their changes."""
        size = max(float(self.limits.max()), float(message.max()))
        rate, calmest = 0.0, np.inf
        for _ in range(_MOST_CYCLES):
            second = self.cycle(message, stretch)[-1]
            third = self.cycle(second, stretch)[-1]
            before, after = float(np.abs(second - message).max()), float(np.abs(third - second).max())
            if after > 0 and before > _ROUNDING * size:
                rate = max(min(after / before, 1.0), rate / 2)
            message = third
            if after <= _CLOSE / 100 * max(size, float(third.max())):
                break
            if float(third.max()) > _ENDLESS * max(size, 1.0):
                return None
            # a guess may stir up what is not geometric: let that die down before the next one
            if after < min(before, calmest):
                calmest = after
                message = np.maximum(third + (third - second) * (after / (before - after)), 0.0)
        size = max(size, float(message.max()))
        pad = _CLOSE
        while pad < _MOST_PAD:
            padded = message + pad * size * (1 - np.eye(len(message)))
            if (self.cycle(padded, stretch)[-1] <= padded).all():
                self.tight = self.tight and pad <= _LOOSE
                return _Rest(padded, rate)
            pad *= 4
        return None


@final
@dataclass(frozen=True, eq=False)
class _Rest:
    """A message that one period does not raise, and the rate at which others come near it."""

    level: Floats
    rate: float

    def steady(self, book: _Book, message: Floats, stretch: Stretch, left: int, *, forced: bool) -> list[Floats] | None:
        """Return messages of one period that stand for all that are left; None if that is too early."""
        top = np.maximum(message, self.level)
        size = float(top.max())
        near = float((top - message).max()) <= 2 * _CLOSE * size
        fast = self.rate ** (left / stretch.period / 2) <= _CLOSE
        slow = left > _MOST_SLOW
        low = bool((message <= self.level).all())
        if not (near or ((fast or slow or forced) and low)):
            return None
        following = book.cycle(top, stretch)
        if not (low or (following[-1] <= top).all()):
            return None
        if slow and not (near or fast or forced):
            book.tight = False
        return [*following[:-1], top]
