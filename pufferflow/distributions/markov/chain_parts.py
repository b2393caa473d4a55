"""The loss of a row's state along a chain that is cut into parts, each with releases of its own (M20, M62).

A unit has rows at some steps of each part, in one of several unknown ways. Messages grow with exposures and with the
messages before them. So the largest message over all ways, entry by entry, is passed on to the next part. The loss is
the largest over parts and ways, between messages that bound all ways around the part.

A way has the exposures of its rows, and the laws of its sums if they are known. Both bound the same loss. So the
smaller message and the smaller loss count: the likelihood of what comes after a part obeys both.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.chain_class import Chains
from pufferflow.distributions.markov.messages import MessageSteps, Run, SomeSteps, limit_of, run
from pufferflow.distributions.markov.state_loss import Exposures, Leak, Secrets
from pufferflow.distributions.markov.window_sums import WindowLaws, WindowSums

_GRAIN: Final = 2.0**-32
"""Messages between parts are rounded up to multiples of this, so that equal parts are computed once."""
_MOST_TURNS = 8
_PADS = tuple(4.0**power * 1e-9 for power in range(10))


@final
@dataclass(frozen=True, eq=False)
class Way:
    """The exposures of a part's rows, and its Laplace sums where their laws are known."""

    exposures: Exposures
    sums: WindowSums | None = None


@final
@dataclass(frozen=True, eq=False)
class ChainPart:
    """Consecutive rows from `first` on, in one of several `ways`.

    Parts that share one list of ways are computed once where their surroundings are equal too.
    """

    first: int
    ways: Sequence[Way]

    @property
    def end(self) -> int:
        """The row after the last."""
        return self.first + len(self.ways[0].exposures.kinds)


@final
@dataclass(frozen=True, eq=False)
class _Passage:
    """The messages at the rows of a part in every way, the message that it received, and the one that it passes on."""

    runs: Sequence[Run]
    received: Floats
    passed: Floats


def leak_of_parts(chain: Chain | Chains, parts: Sequence[ChainPart], secrets: Secrets) -> Leak:
    """Return the largest leak over all choices of one way in each part; the parts follow each other along the chain.

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(3, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> losses, pairs = (1 - np.eye(2))[None] * np.array([0.0, 0.4, 1.0])[:, None, None], np.array([[0, 1], [1, 0]])
    >>> ways = [Way(Exposures(losses, np.array([1, 1]))), Way(Exposures(losses, np.array([2, 0])))]
    >>> worst = leak_of_parts(chain, [ChainPart(0, ways), ChainPart(2, ways)], Secrets(pairs))
    >>> round(worst.value, 4), worst.row
    (1.6097, 0)
    """
    passages, nothing = _Passages(chain, secrets), np.zeros((chain.states, chain.states))
    futures, pasts = passages.futures(parts, nothing), passages.pasts(parts, nothing)
    return passages.largest(parts, pasts, futures)


def endless_leak_of_parts(
    turn: Chain, head: Sequence[ChainPart], turns: Sequence[ChainPart], secrets: Secrets
) -> float:
    """Return the leak where some parts are followed by others that are repeated without end; ∞ if it is unbounded.

    `turn` has one period of the kernels, and starts with its stationary law. The repeated parts follow the head, and
    their rows are a multiple of the period.
    """
    size, nothing = turns[-1].end - turns[0].first, np.zeros((turn.states, turn.states))
    passages = _Passages(turn.repeated(turns[-1].end + (_MOST_TURNS + 1) * size), secrets)
    later = _moved(turns, size)
    future = passages.standing(lambda after: passages.futures(later, after)[0].passed, nothing)
    every, pasts = [*head], passages.pasts(head, nothing)
    before = pasts[-1].passed if pasts else nothing
    standing = passages.standing(lambda one: passages.pasts(later, one)[-1].passed, before)
    for at in range(_MOST_TURNS):
        if future is None or standing is None:
            break
        moved = _moved(turns, at * size)
        below = bool((before <= standing).all())
        pasts += passages.pasts(moved, standing if below else before)
        every += moved
        if below:
            return passages.largest(every, pasts, passages.futures(every, future)).value
        before = pasts[-1].passed
    return math.inf


def _moved(parts: Sequence[ChainPart], rows: int) -> list[ChainPart]:
    """Return parts that stand so many rows later."""
    return [ChainPart(part.first + rows, part.ways) for part in parts]


@final
@dataclass(frozen=True, eq=False)
class _Passages:
    """The messages through parts of a chain; equal parts after equal messages are computed once."""

    chain: Chain | Chains
    secrets: Secrets
    _known: dict[tuple[object, ...], _Passage] = field(
        default_factory=dict[tuple[object, ...], _Passage]
    )
    _laws: dict[tuple[object, ...], tuple[WindowSums, WindowLaws | None]] = field(
        default_factory=dict[tuple[object, ...], tuple[WindowSums, WindowLaws | None]]
    )

    def futures(self, parts: Sequence[ChainPart], start: Floats) -> list[_Passage]:
        """Return the passages of messages about the future, from one at the last row of the last part."""
        found = list[_Passage]()
        for part in reversed(parts):
            low, high = self.chain.length - part.end, self.chain.length - part.first
            found.append(
                self._through(
                    part,
                    SomeSteps(self.chain.forward, self.chain.forward.order[low:high]),
                    start,
                    future=True,
                )
            )
            start = found[-1].passed
        return found[::-1]

    def pasts(self, parts: Sequence[ChainPart], start: Floats) -> list[_Passage]:
        """Return the passages of messages about the past, from one at the first row of the first part."""
        found = list[_Passage]()
        for part in parts:
            found.append(
                self._through(
                    part,
                    SomeSteps(
                        self.chain.backward, self.chain.backward.order[part.first : part.end]
                    ),
                    start,
                    future=False,
                )
            )
            start = found[-1].passed
        return found

    def _through(
        self, part: ChainPart, steps: SomeSteps, start: Floats, *, future: bool
    ) -> _Passage:
        """Return the passage of a message through a part."""
        key = (id(part.ways), start.tobytes(), steps.order.tobytes(), future, self._around(part))
        if key not in self._known:
            runs = [_run_of(way.exposures, steps, start, future=future) for way in part.ways]
            messages = [
                np.minimum(one.last, self._of_sums(part, way, start, future=future))
                for way, one in zip(part.ways, runs, strict=True)
            ]
            passed = np.ceil(np.max(messages, axis=0) / _GRAIN) * _GRAIN
            self._known[key] = _Passage(runs, start, passed)
        return self._known[key]

    def _around(self, part: ChainPart) -> bytes:
        """Return the states that the rows of a part, and the one behind it, can have."""
        if all(way.sums is None for way in part.ways):
            return b""
        return self.chain.mask_of[part.first : part.end + 1].tobytes()

    def _of_sums(self, part: ChainPart, way: Way, start: Floats, *, future: bool) -> Floats | float:
        """Return the message that the laws of a part's sums pass on; ∞ where they are unknown, or no row is left."""
        outside = part.first == 0 if future else part.end >= self.chain.length
        laws = None if outside else self._laws_of(part, way)
        if laws is None:
            return math.inf
        return laws.future_message(start) if future else laws.past_message(start)

    def _laws_of(self, part: ChainPart, way: Way) -> WindowLaws | None:
        """Return the laws of a part's sums along the chain, if they are known."""
        if way.sums is None or not isinstance(self.chain, Chain):
            return None
        steps = slice(max(part.first - 1, 0), part.end)
        orders = self.chain.order[steps].tobytes(), self.chain.backward.order[steps].tobytes()
        key = (id(way.sums), part.first == 0, *orders, self._around(part))
        if key not in self._laws:
            laws = way.sums.along(self.chain, part.first, key[1:])
            self._laws[key] = way.sums, laws
        return self._laws[key][1]

    def standing(self, turn: Callable[[Floats], Floats], start: Floats) -> Floats | None:
        """Return a message that a turn does not raise, near the limit of turns from a first one; None if unbounded."""
        resting = limit_of(turn, start, max(float(start.max()), 1.0))
        if resting is None:
            return None
        off = 1 - np.eye(self.chain.states)
        for pad in _PADS:
            level = np.ceil((resting[0] * (1 + pad) + pad * off) / _GRAIN) * _GRAIN
            if (turn(level) <= level).all():
                return level
        return None

    def largest(
        self, parts: Sequence[ChainPart], pasts: Sequence[_Passage], futures: Sequence[_Passage]
    ) -> Leak:
        """Return the largest leak of any part in any way, between its messages."""
        found = dict[tuple[object, ...], Leak]()
        for part, past, future in zip(parts, pasts, futures, strict=True):
            rows = slice(part.first, part.end)
            secret = b"" if self.secrets.rows is None else self.secrets.rows[rows].tobytes()
            masks = self.chain.mask_of[rows].tobytes()
            key = id(part.ways), id(past), id(future), masks, secret
            if key not in found:
                ways = range(len(part.ways))
                found[key] = _most(self._of_way(part, place, past, future) for place in ways)
        return _most(found.values())

    def _of_way(self, part: ChainPart, place: int, past: _Passage, future: _Passage) -> Leak:
        """Return the largest leak of a part's rows in one way."""
        rows: Indices = np.arange(part.first, part.end)
        if self.secrets.rows is not None:
            rows = rows[self.secrets.rows[rows]]
        if not len(rows):
            a, b = self.secrets.pairs[0].tolist()
            return Leak(0.0, part.first, (a, b))
        way, behind, ahead = part.ways[place], past.runs[place], future.runs[place].backwards()
        by_rows, laws = (
            self._by_rows(part, way.exposures, behind, ahead, rows),
            self._laws_of(part, way),
        )
        if laws is None:
            return by_rows
        moved = part.first - laws.plain.first  # laws may be those of an equal part
        own = laws.worst(past.received, future.received, self.secrets.pairs, rows - moved)
        return min(by_rows, replace(own, row=own.row + moved), key=lambda one: one.value)

    def _by_rows(
        self, part: ChainPart, exposures: Exposures, past: Run, future: Run, rows: Indices
    ) -> Leak:
        """Return the largest leak of some rows, by exposures; messages may include one further row, of another part."""
        at, further = rows - part.first, len(future.index) - len(exposures.kinds)
        losses: Floats = past.pool[past.index[at]] + exposures.losses[exposures.kinds[at]]
        losses = losses + future.pool[future.index[at + further]]
        possible = self.chain.masks[self.chain.mask_of[rows]]
        value, place, pair = self.secrets.largest(losses, possible)
        a, b = self.secrets.pairs[pair].tolist()
        value = math.inf if math.isnan(value) else value * (1 + 2 * UNIT)
        return Leak(value, int(rows[place]), (a, b))


def _most(leaks: Iterable[Leak]) -> Leak:
    """Return the largest leak."""
    return max(leaks, key=lambda one: one.value)


def _run_of(exposures: Exposures, steps: MessageSteps, start: Floats, *, future: bool) -> Run:
    """Return the messages at the rows of a part, by exposures."""
    kinds = exposures.kinds[::-1] if future else exposures.kinds
    return run(steps, exposures.losses, kinds, start)
