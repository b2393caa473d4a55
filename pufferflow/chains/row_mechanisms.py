"""What mechanisms with a loss per row tell of one row of a chain: losses with a δ (M37), Rényi losses (M38).

M20 is for pure losses. A mechanism that is (ε₀, δ₀)-private in each row, whatever it makes of the rows, carries a mass
η beside the message s: with D = s + ε₀ a quasi-metric, what does not fit into D has at most the mass η, and a step
keeps E_s of it, the hockey stick of its kernel's rows. Releases of one row each, in row order, carry Rényi losses.

Messages rise from row to row. Where kernels no longer change, a message that a step does not raise stands for all later
ones; that it does not is checked.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, final

import numpy as np

from pufferflow.arrays import Floats, Indices, log_sum
from pufferflow.chains.chain import Chain
from pufferflow.chains.leak import Secrets
from pufferflow.chains.message_steps import Steps
from pufferflow.rounding import UNIT
from pufferflow.transport import small_plans

M = TypeVar("M")
_ROUNDING = 1e-12
"""What rounding may take from a triangle inequality, and marginals of a kernel's rows from a hockey stick."""
_PADS = (1e-9, 1e-7, 1e-5, 1e-3)
_CALM = 1e-10
_SPARE = 1e-9
_LARGE = 600.0


@final
@dataclass(frozen=True, eq=False)
class Masses:
    """A message `loss`, and the mass `beyond` that may not fit into it, for every two states."""

    loss: Floats
    beyond: Floats


def leak_with_delta(chain: Chain, epsilon: float, delta: float, secrets: Secrets) -> tuple[float, float]:
    """Return the (ε, δ) that a mechanism keeps for a row of a chain if it keeps (epsilon, delta) for each row (M37).

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(5, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> third = Secrets(np.array([[0, 1], [1, 0]]), np.arange(6) == 2)
    >>> [round(number, 8) for number in leak_with_delta(chain, 0.1, 0.001, third)]
    [0.43856576, 0.00523416]
    """
    nothing = np.zeros((chain.states, chain.states))
    own = Masses(epsilon * (1 - np.eye(chain.states)), delta * (1 - np.eye(chain.states)))
    past, future = (_walk(steps, Masses(nothing, nothing), _Deltas(steps, own)) for steps in _both(chain))
    largest = 0.0, 0.0
    for row, pairs in _rows(chain, secrets, len(past), len(future)):
        before, after = past[min(row, len(past) - 1)], future[min(chain.length - 1 - row, len(future) - 1)]
        loss = (before.loss + own.loss + after.loss)[pairs]
        mass = _least_mass([before, own, after])[pairs]
        largest = max(largest[0], float(loss.max(initial=0.0))), max(largest[1], float(mass.max(initial=0.0)))
    return largest[0] * (1 + 8 * UNIT), min(largest[1] * (1 + 64 * UNIT), 1.0)


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
    past, future = (_walk(steps, nothing, _Orders(steps, losses, alpha)) for steps in _both(chain))
    largest = 0.0
    for row, pairs in _rows(chain, secrets, len(past), len(future)):
        total = past[min(row, len(past) - 1)] + losses + future[min(chain.length - 1 - row, len(future) - 1)]
        largest = max(largest, float(total[pairs].max(initial=0.0)))
    return largest * (1 + 8 * UNIT)


def _both(chain: Chain) -> tuple[Steps, Steps]:
    """Return the steps of messages about the past and about the future."""
    return chain.backward, chain.forward


def _rows(chain: Chain, secrets: Secrets, past: int, future: int) -> Iterator[tuple[int, tuple[Indices, Indices]]]:
    """Yield the secret rows that differ in messages or in possible states, and the pairs of states that they hide."""
    rows = np.arange(chain.length) if secrets.rows is None else np.flatnonzero(secrets.rows)
    places = np.minimum(rows, past - 1), np.minimum(chain.length - 1 - rows, future - 1), chain.mask_of[rows]
    _, first = np.unique(np.stack(places, axis=1), axis=0, return_index=True)
    for row in rows[first].tolist():
        possible = chain.masks[chain.mask_of[row]][secrets.pairs].all(axis=1)
        yield row, (secrets.pairs[possible, 0], secrets.pairs[possible, 1])


def _walk(steps: Steps, start: M, sender: "_Sender[M]") -> list[M]:
    """Return the messages row by row; the last one stands for all rows after it."""
    messages = [start]
    changes = np.flatnonzero(np.diff(steps.order))
    steady = int(changes[-1]) + 1 if len(changes) else 0
    for at, which in enumerate(steps.order.tolist()):
        following = sender.send(which, messages[-1])
        messages.append(following)
        if at >= steady and at + 1 < len(steps.order) and sender.calm(messages[-2], following):
            rest = sender.rest(which, following)
            if rest is not None:
                return [*messages, rest]
    return messages


class _Sender(Protocol[M]):
    """How messages of a kind go one row on."""

    def send(self, which: int, message: M) -> M: ...
    def calm(self, before: M, after: M) -> bool:
        """Whether a step hardly changes the message any more."""
        ...

    def rest(self, which: int, message: M) -> M | None:
        """Return a message above this one that the step does not raise, if one is found."""
        ...


@final
@dataclass(frozen=True, eq=False)
class _Deltas:
    """Messages of a mechanism with (ε₀, δ₀) in each row."""

    steps: Steps
    own: Masses

    def send(self, which: int, message: Masses) -> Masses:
        loss = self.steps.send(which, message.loss + self.own.loss)
        loss = loss + _ROUNDING * _off(loss)  # so that it stays a quasi-metric
        return Masses(loss, self._beyond(which, loss, message))

    def _beyond(self, which: int, loss: Floats, message: Masses) -> Floats:
        """Return E_s of the kernel's rows times the mass that is beyond the message and the row's own loss."""
        node = np.minimum(
            self.own.beyond + np.exp(self.own.loss) * message.beyond,
            message.beyond + np.exp(np.minimum(message.loss, _LARGE)) * self.own.beyond,
        )
        mass = min(float((node * _off(node)).max()) * (1 + 16 * UNIT), 1.0)
        return np.minimum(_hockey(self.steps.rows[which], loss) * mass, 1.0) * _off(loss)

    def calm(self, before: Masses, after: Masses) -> bool:
        return _close(before.loss, after.loss) and _close(before.beyond, after.beyond)

    def rest(self, which: int, message: Masses) -> Masses | None:
        for pad in _PADS:
            loss = message.loss + pad * max(float(message.loss.max()), _ROUNDING) * _off(message.loss)
            mass = message.beyond * (1 + pad)
            following = self.send(which, Masses(loss, mass))
            beyond = self._beyond(which, loss, Masses(loss, mass))
            if (following.loss <= loss).all() and (beyond <= mass).all():
                return Masses(loss, mass)
        return None


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
        return np.minimum(_coupled(rows, losses, self.alpha), _divergence(rows, self.alpha)) * _off(losses)

    def calm(self, before: Floats, after: Floats) -> bool:
        return _close(before, after)

    def rest(self, which: int, message: Floats) -> Floats | None:
        for pad in _PADS:
            padded = message * (1 + pad)
            if (self.send(which, padded) <= padded).all():
                return padded
        return None


def _off(matrix: Floats) -> Floats:
    return 1 - np.eye(len(matrix))


def _close(before: Floats, after: Floats) -> bool:
    return float(np.abs(after - before).max()) <= _CALM * float(after.max())


def _between(rows: Floats) -> tuple[Floats, Floats]:
    """Return every two laws that two states may have: of shape (a, b, laws, laws, next states)."""
    return rows[:, None, :, None, :], rows[None, :, None, :, :]


def _hockey(rows: Floats, loss: Floats) -> Floats:
    """Return E_s(P(a,·) ‖ P(b,·)) for s = loss(a, b), rounded up."""
    top, bottom = _between(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        factors = np.exp(loss)[:, :, None, None, None]
        excess = np.where(bottom > 0, top - factors * bottom, top)
    return np.minimum(np.maximum(excess, 0.0).sum(axis=-1).max(axis=(2, 3)) + _ROUNDING * (rows.max() > 0), 1.0)


def _divergence(rows: Floats, alpha: float) -> Floats:
    """Return D_α(P(a,·) ‖ P(b,·)), rounded up."""
    top, bottom = _between(rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(top > 0, alpha * np.log(top) + (1 - alpha) * np.log(bottom), -np.inf)
        total = np.maximum(log_sum(terms), 0.0) * (1 + 64 * UNIT) + 2 * alpha * _ROUNDING
    return (total / (alpha - 1)).max(axis=(2, 3))


def _coupled(rows: Floats, losses: Floats, alpha: float) -> Floats:
    """Return log Σ π(u,v)·e^{(α−1)·loss(u,v)}/(α−1) for couplings π of every two laws, rounded up."""
    exponents = (alpha - 1) * losses * (1 + UNIT)
    if not float(exponents.max()) < _LARGE:
        return np.full_like(losses, float(losses.max()))
    gains = np.expm1(exponents)
    top, bottom = (
        np.broadcast_to(side, np.broadcast_shapes(*(s.shape for s in _between(rows)))) for side in _between(rows)
    )
    shape, size = top.shape[:-1], top.shape[-1]
    mean = _mean_gain(top.reshape(-1, size), bottom.reshape(-1, size), gains)
    mean = mean.reshape(shape).max(axis=(2, 3)) * (1 + 64 * size * UNIT) + _ROUNDING * float(gains.max())
    return np.log1p(mean) / (alpha - 1) * (1 + 4 * UNIT)


def _mean_gain(top: Floats, bottom: Floats, gains: Floats) -> Floats:
    """Return E gain under couplings that leave common mass where it is; of more than two states under cheap ones."""
    common = np.minimum(top, bottom)
    kept = common if len(gains) == 2 else np.zeros_like(top)
    total = np.zeros(len(top))
    left, right = top - kept, bottom - kept
    if len(gains) > 2:  # a plan is right to rounding only: take a little less of it, and the rest by the product
        plans, _ = small_plans(top, bottom, gains)
        plans = plans * (1 - _SPARE)
        total = (plans * gains).sum(axis=(1, 2))
        left, right = (np.maximum(law - plans.sum(axis=axis), 0.0) for law, axis in ((top, 2), (bottom, 1)))
    rest = np.maximum(left.sum(axis=1), right.sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        product = np.where(rest > 0, np.einsum("iu,uv,iv->i", left, gains, right) / rest, 0.0)
    return total + product


def _least_mass(parts: Sequence[Masses]) -> Floats:
    """Return the least η₁ + e^{s₁}·η₂ + e^{s₁+s₂}·η₃ over the orders of three parts (M37)."""
    with np.errstate(over="ignore"):
        totals = [
            one.beyond + np.exp(one.loss) * two.beyond + np.exp(one.loss + two.loss) * three.beyond
            for one, two, three in itertools.permutations(parts)
        ]
    return np.min(totals, axis=0)
