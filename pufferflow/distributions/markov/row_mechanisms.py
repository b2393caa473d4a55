"""The loss of one row of a chain from mechanisms with a loss per row: losses with a δ (M37), Rényi losses (M38).

In a long stretch whose steps repeat, a message that a whole turn does not raise bounds all further ones. The search
guesses it from messages a turn apart, and then checks that a turn does not raise it.

M20 is for pure losses. For any mechanism that is (ε₀, δ₀)-private in each row, a mass η accompanies the message s. D =
s + ε₀ is a quasi-metric, and the part that exceeds D has at most the mass η. A step keeps E_s of it, the hockey stick
of its kernel's rows. All masses are proportional to δ₀, so they are measured in it. For a class of chains s is that of
its worst members, and so is E_s, each separately (M37). Releases of one row each, in row order, have Rényi losses.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices, log_sum
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.emd import small_plans
from pufferflow.distributions.markov.chain import (
    LONG,
    ROUNDING,
    Chain,
    Steps,
    Stretch,
    stretches,
    tile_into,
)
from pufferflow.distributions.markov.chain_class import Chains
from pufferflow.distributions.markov.hidden_chain import HiddenChain
from pufferflow.distributions.markov.state_loss import AnyChain, Secrets

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
    if len(order) >= LONG:
        parts = stretches(order)
    else:  # up to the last change, and the equal steps after it
        changes = np.flatnonzero(np.diff(order))
        steady = int(changes[-1]) + 1 if len(changes) else 0
        parts = [Stretch(0, steady, 0), Stretch(steady, len(order), 1)]
    for stretch in parts:
        rest = messages.along(order, stretch)
    return Walk(messages.pool, messages.index, rest, max(parts[-1].period, 1) if parts else 1)


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
                if self._rested(
                    order[stretch.start : stretch.start + turn],
                    turned,
                    at + 1,
                    stretch.end,
                    calm=calm,
                ):
                    return at + 1
                wanted = int(turns * _LATER) + 1
                calm_wanted = wanted if calm else calm_wanted
        return None

    def _rested(
        self, turn: Indices, turned: Sequence[M], first: int, end: int, *, calm: bool
    ) -> bool:
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


_CALM = 1e-10
_SPARE = 1e-9
_LARGE = 600.0
_QUIET = np.errstate(over="ignore", invalid="ignore", divide="ignore")


class RowLeak(NamedTuple):
    """The loss of a row of a chain, and the factor of its δ over that of each single row."""

    loss: float
    growth: float
    endless: bool
    """Whether messages converged from both ends, so that the loss holds for chains with any number of turns."""


class WeighedSteps(Protocol):
    """Steps of messages that also bound the share of a mass that a step keeps."""

    @property
    def order(self) -> Indices: ...
    def send(self, which: int, limits: Floats) -> Floats: ...
    def hockey(self, which: int, losses: Floats) -> Floats:
        """Return E_s(P(a,·) ‖ P(b,·)) for s = losses(a, b), rounded up."""
        ...


@final
@dataclass(frozen=True, eq=False)
class Masses:
    """A message `loss`, and the mass `beyond` that may exceed it, in units of δ₀, for every two states."""

    loss: Floats
    beyond: Floats


def leak_with_delta(
    chain: AnyChain, epsilon: float, delta: float, secrets: Secrets
) -> tuple[float, float]:
    """Return the (ε, δ) that a mechanism keeps for a row of a chain if it keeps (epsilon, delta) for each row (M37).

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(5, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> third = Secrets(np.array([[0, 1], [1, 0]]), np.arange(6) == 2)
    >>> [round(number, 8) for number in leak_with_delta(chain, 0.1, 0.001, third)]
    [0.43856576, 0.00523416]
    """
    found = leak_of_rows(chain, epsilon, secrets)
    return found.loss, min(found.growth * delta * (1 + 2 * UNIT), 1.0) if delta else 0.0


@_QUIET
def leak_of_rows(chain: AnyChain, epsilon: float, secrets: Secrets) -> RowLeak:
    """Return the ε of a row of a chain, and the factor of δ₀, if a mechanism keeps (epsilon, δ₀) for each row (M37).

    For each row of a hidden chain it keeps that about what the row shows, and so (e, κδ₀) about its state (M58).

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(4000, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> found = leak_of_rows(chain, 0.115734354, Secrets(np.array([[0, 1], [1, 0]])))
    >>> round(found.loss, 6), round(found.growth, 4), found.endless
    (1.0, 14.0042, True)
    """
    share = 1.0
    if isinstance(chain, HiddenChain):
        if not secrets.hidden:  # of what a row shows nothing is proved
            return RowLeak(math.inf, math.inf, endless=False)
        epsilon, share = chain.felt_with_delta(epsilon)
        chain = chain.along
    nothing, off = np.zeros((chain.states, chain.states)), 1 - np.eye(chain.states)
    own, start = Masses(epsilon * off, share * off), Masses(nothing, nothing)
    past, future = (
        walk(steps.order, start, _Deltas(steps, own)) for steps in (chain.backward, chain.forward)
    )
    loss = growth = 0.0
    for row, pairs in _rows(chain, secrets, past, future):
        before, after = past.at(row), future.at(chain.length - 1 - row)
        losses = (before.loss + own.loss + after.loss)[pairs]
        masses = _least_mass([before, own, after])[pairs]
        if np.isnan(losses).any() or np.isnan(masses).any():  # overflow: no bound
            return RowLeak(math.inf, math.inf, endless=False)
        loss, growth = (
            max(loss, float(losses.max(initial=0.0))),
            max(growth, float(masses.max(initial=0.0))),
        )
    return RowLeak(loss * (1 + 8 * UNIT), growth * (1 + 64 * UNIT), _endless(chain, past, future))


def leak_of_order(chain: Chain, losses: Floats, alpha: float, secrets: Secrets) -> float:
    """Return the Rényi loss of order alpha of a row of a chain, from releases of one row each in row order (M38).

    `losses` bounds the Rényi loss of each release between every two states of its row.

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(7, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> fourth = Secrets(np.array([[0, 1], [1, 0]]), np.arange(8) == 3)
    >>> round(leak_of_order(chain, 0.009958584 * (1 - np.eye(2)), 2.0, fourth), 7)
    0.0531159
    """
    nothing = np.zeros((chain.states, chain.states))
    past, future = (
        walk(steps.order, nothing, _Orders(steps, losses, alpha))
        for steps in (chain.backward, chain.forward)
    )
    largest = 0.0
    for row, pairs in _rows(chain, secrets, past, future):
        total = past.at(row) + losses + future.at(chain.length - 1 - row)
        largest = max(largest, float(total[pairs].max(initial=0.0)))
    return largest * (1 + 8 * UNIT)


def _rows(
    chain: Chain | Chains, secrets: Secrets, past: Walk[M], future: Walk[M]
) -> Iterator[tuple[int, tuple[Indices, Indices]]]:
    """Yield the secret rows that differ in messages or in possible states, and the pairs of states that they hide."""
    rows = np.arange(chain.length) if secrets.rows is None else np.flatnonzero(secrets.rows)
    places = past.index[rows], future.index[chain.length - 1 - rows], chain.mask_of[rows]
    _, first = np.unique(np.stack(places, axis=1), axis=0, return_index=True)
    for row in rows[first].tolist():
        possible = chain.masks[chain.mask_of[row]][secrets.pairs].all(axis=1)
        yield row, (secrets.pairs[possible, 0], secrets.pairs[possible, 1])


def _endless(chain: Chain | Chains, past: Walk[M], future: Walk[M]) -> bool:
    """Return whether messages of both sides are constant at some rows for at least a turn: longer chains add none."""
    if past.rest is None or future.rest is None:
        return False
    return past.rest + future.rest + 2 * max(past.turn, future.turn) <= chain.length


@final
@dataclass(frozen=True, eq=False)
class _Deltas:
    """Messages of a mechanism with (ε₀, δ₀) in each row."""

    steps: WeighedSteps
    own: Masses

    def send(self, which: int, message: Masses) -> Masses:
        loss = _quasi_metric(self.steps.send(which, message.loss + self.own.loss))
        return Masses(loss, self._beyond(which, loss, message))

    def _beyond(self, which: int, loss: Floats, message: Masses) -> Floats:
        """Return E_s of the kernel's rows times the mass beyond the message and the row's own loss."""
        node = np.minimum(
            self.own.beyond + _times(self.own.loss, message.beyond),
            message.beyond + _times(message.loss, self.own.beyond),
        )
        mass = float(np.max(node, where=_off(node) > 0, initial=0.0)) * (1 + 16 * UNIT)
        kept = self.steps.hockey(which, loss)
        return np.where((kept > 0) & (_off(loss) > 0), kept * mass if mass else 0.0, 0.0)

    def calm(self, before: Masses, after: Masses) -> bool:
        return _close(before.loss, after.loss) and _close(before.beyond, after.beyond)

    def guess(self, messages: Sequence[Masses]) -> Masses:
        return Masses(
            *(
                _leads_to(parts)
                for parts in zip(*((m.loss, m.beyond) for m in messages), strict=True)
            )
        )

    def above(self, guess: Masses, message: Masses) -> Masses:
        loss = _quasi_metric(np.maximum(guess.loss, message.loss))
        return Masses(loss, np.maximum(guess.beyond, message.beyond))

    def padded(self, message: Masses, pad: float) -> Masses:
        loss = message.loss + pad * max(float(message.loss.max()), ROUNDING) * _off(message.loss)
        return Masses(loss, message.beyond * (1 + pad))

    def keeps_below(self, which: int, message: Masses, above: Masses) -> bool:
        loss = self.send(which, message).loss
        beyond = self._beyond(which, above.loss, message)
        return bool((loss <= above.loss).all() and (beyond <= above.beyond).all())


@final
@dataclass(frozen=True, eq=False)
class _Orders:
    """Messages of releases of one row each, with Rényi losses of one order."""

    steps: Steps
    own: Floats
    alpha: float

    def send(self, which: int, message: Floats) -> Floats:
        """Return the least of a coupling's loss and of the Rényi divergence of the kernel's rows."""
        rows = self.steps.rows[which]
        losses = message + self.own
        return np.minimum(_coupled(rows, losses, self.alpha), _divergence(rows, self.alpha)) * _off(
            losses
        )

    def calm(self, before: Floats, after: Floats) -> bool:
        return _close(before, after)

    def guess(self, messages: Sequence[Floats]) -> Floats:
        return _leads_to(messages)

    def above(self, guess: Floats, message: Floats) -> Floats:
        return np.maximum(guess, message)

    def padded(self, message: Floats, pad: float) -> Floats:
        return message * (1 + pad)

    def keeps_below(self, which: int, message: Floats, above: Floats) -> bool:
        return bool((self.send(which, message) <= above).all())


def _leads_to(messages: Sequence[Floats]) -> Floats:
    """Return the limit of three arrays by geometric extrapolation of their changes."""
    first, second, third = messages
    before, change = second - first, third - second
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = change / before
        further = change * ratio / (1 - ratio)
    return np.maximum(
        third + np.where((ratio > 0) & (ratio < 1) & np.isfinite(further), further, 0.0), 0.0
    )


def _quasi_metric(loss: Floats) -> Floats:
    """Return losses that satisfy the triangle inequality: slightly enlarged, or all equal to the largest."""
    off = _off(loss)
    if (
        len(loss) > 2
        and (loss[:, None, :] > loss[:, :, None] + loss[None, :, :] + ROUNDING / 2).any()
    ):
        return float(loss.max()) * off
    return loss + ROUNDING * off


def _off(matrix: Floats) -> Floats:
    return 1 - np.eye(len(matrix))


def _close(before: Floats, after: Floats) -> bool:
    return float(np.abs(after - before).max()) <= _CALM * float(after.max())


def _between(rows: Floats) -> tuple[Floats, Floats]:
    """Return every two laws that two states may have: of shape (a, b, laws, laws, next states)."""
    return rows[:, None, :, None, :], rows[None, :, None, :, :]


def _divergence(rows: Floats, alpha: float) -> Floats:
    """Return D_α(P(a,·) ‖ P(b,·)), rounded up."""
    top, bottom = _between(rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(top > 0, alpha * np.log(top) + (1 - alpha) * np.log(bottom), -np.inf)
        total = np.maximum(log_sum(terms), 0.0) * (1 + 64 * UNIT) + 2 * alpha * ROUNDING
    return (total / (alpha - 1)).max(axis=(2, 3))


def _coupled(rows: Floats, losses: Floats, alpha: float) -> Floats:
    """Return log Σ π(u,v)·e^{(α−1)·loss(u,v)}/(α−1) for couplings π of every two laws, rounded up."""
    exponents = (alpha - 1) * losses * (1 + UNIT)
    if not float(exponents.max()) < _LARGE:
        return np.full_like(losses, float(losses.max()))
    gains = np.expm1(exponents)
    top, bottom = (
        np.broadcast_to(side, np.broadcast_shapes(*(s.shape for s in _between(rows))))
        for side in _between(rows)
    )
    shape, size = top.shape[:-1], top.shape[-1]
    mean = _mean_gain(top.reshape(-1, size), bottom.reshape(-1, size), gains)
    mean = mean.reshape(shape).max(axis=(2, 3)) * (1 + 64 * size * UNIT) + ROUNDING * float(
        gains.max()
    )
    return np.log1p(mean) / (alpha - 1) * (1 + 4 * UNIT)


def _mean_gain(top: Floats, bottom: Floats, gains: Floats) -> Floats:
    """Return E gain under couplings that leave common mass in place; for more than two states under cheap ones."""
    common = np.minimum(top, bottom)
    kept = common if len(gains) == 2 else np.zeros_like(top)
    total = np.zeros(len(top))
    left, right = top - kept, bottom - kept
    if (
        len(gains) > 2
    ):  # a plan is right to rounding only: use slightly less of it, and the product for the rest
        plans, _ = small_plans(top, bottom, gains)
        plans = plans * (1 - _SPARE)
        total = (plans * gains).sum(axis=(1, 2))
        left, right = (
            np.maximum(law - plans.sum(axis=axis), 0.0) for law, axis in ((top, 2), (bottom, 1))
        )
    rest = np.maximum(left.sum(axis=1), right.sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        product = np.where(rest > 0, np.einsum("iu,uv,iv->i", left, gains, right) / rest, 0.0)
    return total + product


def _least_mass(parts: Sequence[Masses]) -> Floats:
    """Return the least η₁ + e^{s₁}·η₂ + e^{s₁+s₂}·η₃ over the orders of three parts (M37)."""
    totals = [
        one.beyond + _times(one.loss, two.beyond) + _times(one.loss + two.loss, three.beyond)
        for one, two, three in itertools.permutations(parts)
    ]
    return np.min(totals, axis=0)


def _times(loss: Floats, beyond: Floats) -> Floats:
    """Return e^loss times a mass: 0 for a mass of 0, even at an infinite loss, and never NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(beyond > 0, np.exp(loss) * beyond, np.where(beyond == 0, 0.0, np.inf))
