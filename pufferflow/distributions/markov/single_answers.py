"""Rényi losses of many orders at once about a row of a chain, from answers that are about one row each (M38 (i)).

Noise is fresh, and on every path of answers a row loses at most ρ_α of order α by all answers about it. For Gaussian
noise ρ_α = α·μ²/2, with μ the root of the sum of squared deviations by which the row moves them.

The message of a row is a gain e^{(α−1)·F} − 1 for every order and every two states. A step is then a mean of gains
under a coupling of the kernel's rows: common mass stays in place, and the rest is coupled independently. For two and
three states no other plan leaves the common mass in place. For more it is one plan of many, so the result is larger. No
step exceeds the Rényi divergence of the kernel's rows.

Answers may come in any order, and earlier ones may choose the next row. Let p_c be the law of all answers if rows l … t
are c. It is a mean over the next state u. So ∫p_c^α·p_d^{1−α} is at most its mean over coupled states u and v. Or all
later rows are revealed, which multiplies it by e^{(α−1)·D_α} of the kernel's rows. The same holds for earlier rows. In
the end all rows are fixed, and those that differ lose ρ_α each.

Where steps repeat, a message that a whole turn does not raise bounds all further ones. For orders without one the
divergence of the kernel's rows takes its place.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices, log_sum
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.markov.chain import ROUNDING, Chain, Steps, Stretch, stretches
from pufferflow.distributions.markov.state_loss import Secrets

_MOST_STATES = 12
_MOST_GAINS = 12_000
"""The most gains of an order, of all steps and states: of more a search for noise would take minutes."""
_HUGE = 1e250
"""An order with a gain as large is given up, before sums overflow."""
_MOST_EXPONENT = 250.0
_CALM = 1e-12
_PAD = 1e-9
_FIRST_CHECK = 8
_LAST_CHECK = 64
_TURNS_FROM_ABOVE = 16
_AT_ONCE = 256
_GUESSES = 3
_QUIET = np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore")


class AnswersLosses(NamedTuple):
    """The Rényi loss of each order, ∞ where none is known."""

    losses: Floats
    endless: bool
    """Whether messages came to rest on both sides, so that losses hold for any number of further turns."""


@_QUIET
def losses_of_answers(
    chain: Chain, rows: Floats, orders: Floats, secrets: Secrets, *, longer: bool = False
) -> AnswersLosses:
    """Return the Rényi losses about any row, from losses `rows[i]` of order `orders[i]` of each row.

    With `longer` the losses are ∞ unless they also hold for chains with any number of further turns.

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(1024, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> pairs, orders = Secrets(np.array([[0, 1], [1, 0]])), np.array([2.0, 8.0])
    >>> losses_of_answers(chain, np.array([0.01, 0.02]), orders, pairs, longer=True).losses.round(6).tolist()
    [0.092062, 0.282581]
    """
    nothing = AnswersLosses(np.full(len(orders), math.inf), endless=False)
    if chain.states > _MOST_STATES or _distinct_steps(chain) * chain.states**2 > _MOST_GAINS:
        return nothing
    try:
        past, future = (
            _messages(_Gains(steps, rows, orders), longer=longer)
            for steps in (chain.backward, chain.forward)
        )
    except Refused:  # a state with a probability too small for a float
        return nothing
    endless = past.rest is not None and future.rest is not None
    if past.rest is not None and future.rest is not None:
        needed = past.rest + future.rest + 2 * max(past.turn, future.turn)
        endless = needed <= chain.length
    if longer and not endless:
        return nothing
    total = (_both_sides(chain, secrets, past, future) + rows) * (1 + 16 * UNIT)
    known = past.known & future.known & np.isfinite(total)
    return AnswersLosses(np.where(known, total, math.inf), endless)


def _distinct_steps(chain: Chain) -> int:
    """Return about how many steps have messages of their own."""
    parts = _parts(chain.order)
    lengths = [(8 * part.period, part.end - part.start) for part in parts]
    return sum(min(turns, rows) if turns else rows for turns, rows in lengths)


def _both_sides(chain: Chain, secrets: Secrets, past: "_Messages", future: "_Messages") -> Floats:
    """Return for every order the largest sum of both messages at a secret row, between two states that it can have."""
    rows = np.arange(chain.length) if secrets.rows is None else np.flatnonzero(secrets.rows)
    places = past.index[rows], future.index[chain.length - 1 - rows], chain.mask_of[rows]
    before, after, masks = np.unique(np.stack(places, axis=1), axis=0).T
    largest = np.zeros(len(past.orders))
    for mask in np.unique(masks).tolist():
        pairs = secrets.pairs[chain.masks[mask][secrets.pairs].all(axis=1)]
        which = pairs[:, 0] * chain.states + pairs[:, 1]
        some = np.flatnonzero(masks == mask)
        for part in np.array_split(some, len(some) // _AT_ONCE + 1):
            sums = past.losses[before[part]] + future.losses[after[part]]
            largest = np.maximum(largest, sums[..., which].max(axis=(0, 2), initial=0.0))
    return largest


@final
@dataclass(frozen=True, eq=False)
class _Messages:
    """The gains at rows 0, 1, …: row i has `pool[index[i]]`; from `rest` on, one turn of them bounds all."""

    pool: list[Floats]
    index: Indices
    orders: Floats
    rest: int | None = None
    turn: int = 1

    @cached_property
    def losses(self) -> Floats:
        """The messages as Rényi losses, of shape (messages, orders, pairs)."""
        excess = (self.orders - 1)[None, :, None]
        return np.log1p(np.array(self.pool)) / excess * (1 + 4 * UNIT)

    @cached_property
    def known(self) -> Flags:
        """The orders whose gains stayed far from the ends of floats."""
        return np.asarray((np.array(self.pool) < _HUGE).all(axis=(0, 2)))


def _messages(sender: "_Gains", *, longer: bool) -> _Messages:
    """Return the gains row by row; the first row has none."""
    order, size = sender.steps.order, sender.steps.rows.shape[1]
    pool = [np.zeros((len(sender.orders), size * size))]
    index, rest, turn = np.zeros(len(order) + 1, dtype=np.intp), None, 1
    for part in _parts(order):
        rest, turn = None, max(part.period, 1)
        turned = [pool[int(index[part.start])]]
        latest = max(len(order) // (2 * turn) - 2, 1) if longer else 2 * _LAST_CHECK
        for at in range(part.start, part.end):
            pool.append(sender.send(int(order[at]), pool[int(index[at])]))
            index[at + 1] = len(pool) - 1
            turns, within = divmod(at + 1 - part.start, turn)
            if not part.period or within:
                continue
            turned = [*turned[-2:], pool[-1]]
            steps = order[part.start : part.start + turn]
            resting = sender.rest(steps, turned, turns, latest)
            if resting is not None:
                index[at + 1 : part.end + 1] = len(pool) + np.arange(part.end - at) % turn
                pool.extend(resting)
                rest = at + 1
                break
    return _Messages(pool, index, sender.orders, rest, turn)


def _parts(order: Indices) -> list[Stretch]:
    """Return stretches that repeat; of a short chain the equal steps at its end."""
    found = stretches(order)
    if any(part.period for part in found) or not len(order):
        return found
    changes = np.flatnonzero(np.diff(order))
    steady = int(changes[-1]) + 1 if len(changes) else 0
    return [Stretch(0, steady, 0), Stretch(steady, len(order), 1)]


@final
@dataclass(frozen=True, eq=False)
class _Gains:
    """Steps of gains of releases of one row each."""

    steps: Steps
    rows: Floats
    orders: Floats

    @cached_property
    def _own(self) -> Floats:
        """e^{(α−1)ρ} − 1 for every order, rounded up; huge where it would overflow."""
        exponents = (self.orders - 1) * self.rows * (1 + 4 * UNIT)
        gains = np.expm1(np.minimum(exponents, _MOST_EXPONENT)) * (1 + 4 * UNIT)
        return np.where(exponents < _MOST_EXPONENT, gains, _HUGE)[:, None]

    @cached_property
    def _known(self) -> dict[int, tuple[Floats, Floats]]:
        return {}

    @cached_property
    def _raised(self) -> Floats:
        return self._off * (1 + 8 * UNIT)

    @cached_property
    def _off(self) -> Floats:
        return (1 - np.eye(self.steps.rows.shape[1])).ravel()

    def send(self, which: int, gains: Floats) -> Floats:
        """Return the gains one row on, rounded up and at most `_HUGE`."""
        plans, caps = self._step(which)
        before = np.minimum((self._own + gains * (1 + self._own)) * self._raised, _HUGE)
        largest = before.max(axis=1, keepdims=True)
        mean = (before @ plans).max(axis=0) * (1 + (self._off.size + 8) * UNIT)
        after = np.minimum(mean + ROUNDING * largest, caps)
        return np.where(largest < _HUGE, np.minimum(after, _HUGE), _HUGE) * self._off

    def rest(
        self, turn: Indices, turned: list[Floats], turns: int, latest: int
    ) -> list[Floats] | None:
        """Return the messages of a turn that bounds all further ones; None before it is time to look for one.

        After `latest` turns there is always one.
        """
        if len(turned) < 3:
            return None
        calm = bool((np.abs(turned[-1] - turned[-2]) <= _CALM * turned[-1]).all())
        if not (calm or (turns >= _FIRST_CHECK and turns & (turns - 1) == 0) or turns == latest):
            return None
        guess = self._guess(turn, turned, 0 if calm else _GUESSES)
        closed = (self._around(turn, guess)[-1] <= guess).all(axis=1)
        if not closed.all():
            growing = (np.diff(turned, 2, axis=0)[0] > 0).any(axis=1)
            if turns < min(latest, _LAST_CHECK) and not (closed | growing).all():
                return None
            guess[~closed] = self._from_above(turn, turned[-1])[~closed]
        return [guess, *self._around(turn, guess)[:-1]]

    def _guess(self, turn: Indices, turned: list[Floats], times: int) -> Floats:
        """Return slightly more than the limit of some messages, each a turn after the one before."""
        guess = _limit(turned)
        for _ in range(times):
            first = self._around(turn, guess)[-1]
            guess = _limit([guess, first, self._around(turn, first)[-1]])
        padded = guess * (1 + _PAD) + 2 * ROUNDING * guess.max(axis=1, keepdims=True) * self._off
        return np.minimum(np.maximum(padded, turned[-1]), _HUGE)

    def _from_above(self, turn: Indices, gains: Floats) -> Floats:
        """Return messages that a turn does not raise: after some turns from the most that the last kernel allows."""
        caps = np.maximum(self._step(int(turn[-1]))[1], gains)
        found = np.minimum(caps, _HUGE) * self._off
        for _ in range(max(_TURNS_FROM_ABOVE // len(turn), 2)):
            after = np.maximum(self._around(turn, found)[-1], gains)
            better = (self._around(turn, after)[-1] <= after).all(axis=1, keepdims=True)
            found = np.where(better, after, found)
        return found

    def _around(self, turn: Indices, gains: Floats) -> list[Floats]:
        """Return the messages after each step of a turn."""
        after = list[Floats]()
        for which in turn.tolist():
            gains = self.send(which, gains)
            after.append(gains)
        return after

    def _step(self, which: int) -> tuple[Floats, Floats]:
        """Return couplings of every two of the kernel's rows, and the gains that their divergences allow."""
        if which not in self._known:
            rows = self.steps.rows[which]
            self._known[which] = _couplings(rows), _caps(rows, self.orders)
        return self._known[which]


def _limit(messages: list[Floats]) -> Floats:
    """Return the limit of three arrays by geometric extrapolation of their changes, at least the last one."""
    first, second, third = messages
    before, change = second - first, third - second
    ratio = change / before
    further = change * ratio / (1 - ratio)
    good = (ratio > 0) & (ratio < 1) & np.isfinite(further)
    return np.minimum(third + np.where(good, further, 0.0), _HUGE)


def _couplings(rows: Floats) -> Floats:
    """Return for all laws of every two states a coupling, of shape (laws, pairs of next states, pairs of states)."""
    size, laws = rows.shape[0], rows.shape[1]
    top, bottom = rows[:, None, :, None, :], rows[None, :, None, :, :]
    common = np.minimum(top, bottom)
    left, right = top - common, bottom - common
    rest = np.maximum(left.sum(axis=-1), right.sum(axis=-1))[..., None, None]
    product = left[..., :, None] * right[..., None, :]
    plan = np.where(rest > 0, product / rest, 0.0) * (1 + 8 * UNIT)
    # rest is the larger sum, so masses may be lost in rounding only; `send` adds more than that
    return plan.transpose(2, 3, 4, 5, 0, 1).reshape(laws * laws, size * size, size * size)


def _caps(rows: Floats, orders: Floats) -> Floats:
    """Return e^{(α−1)·D_α(P(a,·) ‖ P(b,·))} − 1 for every order and two states, rounded up."""
    top, bottom = rows[:, None, :, None, :], rows[None, :, None, :, :]
    alpha = orders.reshape(-1, 1, 1, 1, 1)
    terms = alpha[..., None] * np.log(top) + (1 - alpha[..., None]) * np.log(bottom)
    total = log_sum(np.where(top > 0, terms, -np.inf))
    total = np.maximum(total, 0.0) * (1 + 64 * UNIT) + 2 * alpha * ROUNDING
    caps = np.expm1(total.max(axis=(3, 4))).reshape(len(orders), -1) * (1 + 4 * UNIT)
    return np.where(np.isnan(caps), np.inf, caps)
