"""Which laws a row may have, in a chain whose kernels are only known to lie between bounds (M20, classes of chains).

A set of laws m is held by the least and the most that m(A) can be, for every set A of states: the number A, written in
binary, says which states are in it. One step on, m'(A) is the mean of P(·,A) under m. In layers, that is a sum of
P(·,A)'s drops times m of the sets where P(·,A) is largest; with m's bounds put in and P(·,A) at its own bounds, the sum
holds every member, whichever kernel it chooses at each step. All sums are rounded outwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pufferflow.messages.functions import members
from pufferflow.messages.stretches import Whole
from pufferflow.rounding import UNIT

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
_DOUBLINGS = 60
_MOST_TURNS = 1000
_STILL = 1e-14
_MOST_PADS = 40
_MOST_PAD = 1e-6
_PASSED = 1e-13


@final
@dataclass(frozen=True, eq=False)
class Marginals:
    """Laws m with `least[A]` ≤ m(A) ≤ `most[A]`, both of shape (…, 2^k)."""

    least: Floats
    most: Floats

    def after(self, step: "Between") -> "Marginals":
        """Return the laws one step on."""
        error = (self.least.shape[-1].bit_length() + 4) * UNIT  # a sum of k products, and their factors
        least = _mean(step.low_layers, self.least) * (1 - error)
        most = np.minimum(_mean(step.high_layers, self.most) * (1 + error), 1.0)
        return _pinned(np.maximum(least, (1 - most[..., ::-1]) * (1 - UNIT)), most)

    def along(self, steps: Sequence["Between"]) -> "Marginals":
        """Return the laws after several steps."""
        laws = self
        for step in steps:
            laws = laws.after(step)
        return laws

    def within(self, other: "Marginals", room: float = 0.0) -> bool:
        """Say whether all of these laws are among the others, their bounds widened by a share."""
        low = self.least >= other.least * (1 - room)
        return bool(low.all() and (self.most <= other.most * (1 + room)).all())

    def near(self, other: "Marginals", room: float) -> bool:
        """Say whether these laws, which hold the others, are not much more: by a share of what is most."""
        low = self.least >= other.least - room * other.most
        return bool(low.all() and (self.most <= other.most * (1 + room)).all())

    def wider(self, down: float, up: float) -> "Marginals":
        """Return more laws: bounds times these factors."""
        return _pinned(self.least * down, np.minimum(self.most * up, 1.0))

    def around(self, laws: "Marginals") -> "Marginals":
        """Return these laws, with bounds so much wider that they hold the others; no turn leads out of them either."""
        with np.errstate(divide="ignore", invalid="ignore"):
            down = np.where(self.least > laws.least, laws.least / self.least * (1 - UNIT), 1.0).min()
            up = np.where(self.most < laws.most, laws.most / self.most * (1 + UNIT), 1.0).max()
        return self if down == up else self.wider(float(down), float(up))


@final
@dataclass(frozen=True, eq=False)
class Between:
    """Kernels by what they give at least and at most to each set, from each state: shape (k, 2^k)."""

    least: Floats
    most: Floats

    @property
    def size(self) -> int:
        """How many states there are."""
        return len(self.least)

    @cached_property
    def low(self) -> Floats:
        """The least that each entry can be."""
        return self.least[:, 1 << np.arange(self.size)]

    @cached_property
    def high(self) -> Floats:
        """The most that each entry can be."""
        return self.most[:, 1 << np.arange(self.size)]

    @cached_property
    def low_layers(self) -> tuple[Floats, Whole]:
        """The drops of P(·,A) at its least, in falling order, and the sets above them."""
        return _layers(self.least)

    @cached_property
    def high_layers(self) -> tuple[Floats, Whole]:
        """The drops of P(·,A) at its most, in falling order, and the sets above them."""
        return _layers(self.most)

    def then(self, other: "Between") -> "Between":
        """Return the kernels of this step and another one together."""
        laws = Marginals(self.least, self.most).after(other)
        return Between(laws.least, laws.most)


def between(low: Floats, high: Floats) -> Between:
    """Return the kernels with entries between bounds, rows summing to 1.

    >>> kernels = between(np.array([[0.8, 0.0], [0.0, 0.7]]), np.array([[0.9, 1.0], [1.0, 0.9]]))
    >>> kernels.low.round(9).tolist(), kernels.high.round(9).tolist()
    ([[0.8, 0.1], [0.1, 0.7]], [[0.9, 0.2], [0.3, 0.9]])
    """
    inside = members(len(low)).T.astype(np.float64)
    low = low / np.maximum(low.sum(axis=1, keepdims=True), 1.0)  # rows that are known sum to 1 but for rounding
    high = high / np.minimum(high.sum(axis=1, keepdims=True), 1.0)
    error = 2 * len(low) * UNIT  # what subtracting from 1 loses, rounded outwards
    least = np.maximum(low @ inside, 1 - high @ (1 - inside) - error)
    most = np.minimum(high @ inside, 1 - low @ (1 - inside) + error)
    most = np.clip(most, 0.0, 1.0)
    laws = _pinned(np.clip(least, 0.0, most), most)
    return Between(laws.least, laws.most)


def among(laws: Any) -> Marginals:
    """Return what some laws, of shape (…, k), and their mixtures give to each set."""
    rows = np.atleast_2d(np.asarray(laws, dtype=np.float64))
    shares = rows / rows.sum(axis=1, keepdims=True) @ members(rows.shape[1]).T
    return _pinned(shares.min(axis=0), np.minimum(shares.max(axis=0), 1.0))


def resting(turn: Sequence[Between], passed: Flags | None = None) -> Marginals:
    """Return laws that hold every law which turns of kernels may leave as it is, and that no turn leads out of.

    A member's kernels C for one turn leave π as it is if and only if (1 + C)/2 does, whose powers soon forget where
    they began: so the start is what a long time leads to. From there single turns go on, and the outcome, made a little
    larger, is checked to hold what a further turn makes of it. With `passed`, the states that rows may have, nothing is
    said of others, and some room is left for states that rows only pass through.
    """
    states = np.ones(turn[0].size, dtype=np.bool_) if passed is None else passed
    whole = among(np.eye(turn[0].size)[states])
    far = _lazy(turn)
    for _ in range(_DOUBLINGS):
        far = far.then(far)
    laws = Marginals(far.least[states].min(axis=0), far.most[states].max(axis=0))
    left = laws.most == 0
    for _ in range(_MOST_TURNS):
        before, laws = laws, laws.along(turn)
        if laws.near(before, _STILL) and before.near(laws, _STILL):
            break
    if passed is not None:
        laws = Marginals(laws.least, np.where(left, _PASSED * whole.most, laws.most))
    pad = _STILL
    while pad < _MOST_PAD:
        closed = _closed(laws.wider(1 - pad, 1 + pad), turn, pad / 64)
        if closed is not None:
            return closed
        pad *= 4
    return whole


def _closed(laws: Marginals, turn: Sequence[Between], pad: float) -> Marginals | None:
    """Return laws that no turn leads out of, after some turns that each add a little; None if there are none so near.

    Where turns forget, laws no longer move once they add as much as is forgotten, and a turn that adds nothing falls
    short of them.
    """
    for _ in range(_MOST_PADS):
        following = laws.along(turn)
        if following.within(laws):
            return laws
        laws = following.wider(1 - pad, 1 + pad)
    return None


def _lazy(turn: Sequence[Between]) -> Between:
    """Return the kernels (1 + C)/2 of one turn."""
    whole = turn[0]
    for step in turn[1:]:
        whole = whole.then(step)
    stay = members(whole.size).T
    return Between((whole.least + stay) / 2, (whole.most + stay) / 2)


def _layers(values: Floats) -> tuple[Floats, Whole]:
    """Return, for functions in columns, their drops in falling order and the sets above each drop."""
    ranked = np.argsort(-values, axis=0, kind="stable")
    falling = np.take_along_axis(values, ranked, axis=0)
    drops = falling - np.concatenate([falling[1:], np.zeros((1, values.shape[1]))])
    return drops, np.cumsum(1 << ranked, axis=0)


def _mean(layers: tuple[Floats, Whole], shares: Floats) -> Floats:
    """Return the sum of drops times shares of the sets above them."""
    drops, sets = layers
    return np.asarray((drops * shares[..., sets]).sum(axis=-2))


def _pinned(least: Floats, most: Floats) -> Marginals:
    """Return bounds that know what the empty and the full set have."""
    least[..., 0] = most[..., 0] = 0.0
    least[..., -1] = most[..., -1] = 1.0
    return Marginals(least, most)
