"""A Markov chain along the rows of one sequence, and the steps of messages along it, in both directions (M20)."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.errors import Refused
from pufferflow.distributions.markov.message_steps import SAME, Steps
from pufferflow.distributions.markov.periods import Stretch, reachable_states, stretches, tile, tile_into

_MOST_TURNS = 200_000
_FAINT = 1e-280


class StateSequence(abc.ABC):
    """Rows 0 … n − 1, each in one of k states; `order[t]` names the kernel, or the bounds, from row t to row t + 1."""

    order: Indices

    @property
    @abc.abstractmethod
    def states(self) -> int:
        """The number of states."""

    @property
    def length(self) -> int:
        """The number of rows."""
        return len(self.order) + 1

    @cached_property
    @abc.abstractmethod
    def _possible(self) -> tuple[Flags, Indices]:
        """`masks` and `mask_of`."""

    @property
    def masks(self) -> Flags:
        """Sets of states, of shape (M, k)."""
        return self._possible[0]

    @property
    def mask_of(self) -> Indices:
        """The index in `masks` of the states that each row can have; for a class, under at least one member."""
        return self._possible[1]


@final
@dataclass(frozen=True, eq=False)
class Chain(StateSequence):
    """A chain on k states along n rows: `kernels[order[t]]` leads from row t to row t + 1.

    `initial` holds the laws that row 0 may have, or the extreme ones of them: of shape (1, k) if it is known. A gap
    between two rows is a power of the kernel.

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> Chain(stay, np.zeros(9, dtype=np.intp), np.array([[0.5, 0.5]])).length
    10
    """

    kernels: Floats
    order: Indices
    initial: Floats
    coarse: bool = False
    """Whether messages carry only the size of the largest difference."""

    @property
    def states(self) -> int:
        return self.kernels.shape[-1]

    def repeated(self, steps: int) -> "Chain":
        """Return the chain that repeats these steps."""
        return Chain(self.kernels, tile(self.order, steps), self.initial, self.coarse)

    def settling(self) -> int | None:
        """Return the number of rows after which laws repeat, if the steps do; None if that takes too long."""
        settled = self._settled(Stretch(0, len(self.order), len(self.order)))
        laws = self.initial
        for turn in range(_MOST_TURNS // len(self.order)):
            following = laws
            for kernel in self.order:
                following = following @ self.kernels[kernel]
            near = settled is not None and (np.abs(laws - settled[0]) <= SAME * settled[0]).all()
            if near or np.array_equal(following, laws):
                return turn * len(self.order)
            laws = following
        return None

    @cached_property
    def forward(self) -> Steps:
        """The steps of messages about the future, the last row first."""
        mask = np.ones(self.kernels.shape[:2], dtype=np.bool_)
        return Steps(self.kernels[:, :, None, :], self.order[::-1], mask, mask, coarse=self.coarse)

    @cached_property
    def backward(self) -> Steps:
        """The steps of messages about the past, and which states each row can have."""
        reversed_steps, order = _ReversedSteps(), np.empty(self.length - 1, dtype=np.intp)
        laws = self.initial
        for stretch in stretches(self.order):
            settled = self._settled(stretch)
            for at in range(stretch.start, stretch.end):
                starts = stretch.period and (at - stretch.start) % stretch.period == 0
                if starts and settled is not None and (np.abs(laws - settled[0]) <= SAME * settled[0]).all():
                    places = [
                        reversed_steps.place(kernel, law[None], self.kernels[kernel])
                        for kernel, law in zip(self.order[at : at + stretch.period], settled, strict=True)
                    ]
                    tile_into(order[at : stretch.end], np.array(places, dtype=np.intp))
                    laws = np.broadcast_to(settled[(stretch.end - at) % stretch.period], laws.shape)
                    break
                matrix = self.kernels[self.order[at]]
                order[at] = reversed_steps.place(self.order[at], laws, matrix)
                laws = _step(laws, matrix)
        return replace(reversed_steps.steps(order, self.states), coarse=self.coarse)

    @cached_property
    def _possible(self) -> tuple[Flags, Indices]:
        return reachable_states(self.kernels > 0, self.order, np.asarray((self.initial > 0).any(axis=0)))

    def _settled(self, stretch: Stretch) -> list[Floats] | None:
        """Return the stationary laws of a stretch, one for each phase; None unless they are unique.

        The largest relative distance to them never grows along the stretch, so laws near them stay near.
        """
        if not stretch.period:
            return None
        kernels = self.kernels[self.order[stretch.start : stretch.start + stretch.period]]
        law = stationary(kernels)
        if law is None:
            return None
        laws: list[Floats] = []
        for kernel in kernels:
            laws.append(law)
            law = law @ kernel
        return laws


class _ReversedSteps:
    """The distinct reversed kernels of a chain: `rows[i]` with its sources and targets `masks[i]`.

    `last` has for each kernel the latest laws that it was reversed for, and the place of the result: a row with the
    same laws reuses it.
    """

    def __init__(self) -> None:
        self.rows: list[Floats] = []
        self.masks: list[tuple[Flags, Flags]] = []
        self.last: dict[int, tuple[Floats, int]] = {}

    def place(self, kernel: int, laws: Floats, matrix: Floats) -> int:
        """Return the place of the reversal of a kernel from rows with these laws."""
        known = self.last.get(int(kernel))
        if known is not None and known[0].shape == laws.shape and (np.abs(laws - known[0]) <= SAME * known[0]).all():
            return known[1]
        joint = laws[:, :, None] * matrix[None]  # initial law, state u, state x
        reached = np.greater(joint.sum(axis=1), 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            reverse = (joint / joint.sum(axis=1, keepdims=True)).transpose(2, 0, 1)
        # a law that gives a state no mass is replaced by one that does
        choice = np.where(np.transpose(reached), np.arange(len(laws)), reached.argmax(axis=0)[:, None])
        rows = np.take_along_axis(reverse, choice[:, :, None], axis=1)
        targets = np.asarray(reached.any(axis=0))
        self.rows.append(np.where(targets[:, None, None], rows, 0.0))
        self.masks.append((np.asarray((laws > 0).any(axis=0)), targets))
        self.last[int(kernel)] = laws, len(self.rows) - 1
        return len(self.rows) - 1

    def steps(self, order: Indices, states: int) -> Steps:
        """Return everything as steps."""
        if not self.rows:
            none = np.zeros((0, states), dtype=np.bool_)
            return Steps(np.zeros((0, states, 1, states)), order, none, none)
        sources, targets = (np.array(masks) for masks in zip(*self.masks, strict=True))
        width = max(rows.shape[1] for rows in self.rows)
        rows = [np.concatenate([rows, rows[:, :1].repeat(width - rows.shape[1], axis=1)], axis=1) for rows in self.rows]
        return Steps(np.array(rows), order, sources, targets)


def _step(laws: Floats, matrix: Floats) -> Floats:
    """Return the laws one row on; refuse states that can occur, but with a probability too small for floats."""
    following = laws @ matrix
    faint = following < _FAINT
    if faint.any() and (((laws > 0).astype(np.intp) @ (matrix > 0) > 0) & faint).any():
        raise Refused(
            "A state of the chain stays possible, but its probability becomes too small for floats.",
            allowed="chains whose states all return, or fewer steps",
            instead="bound=pf.GWM() or pf.Group(), or initial='stationary'",
        )
    return following


def stationary(kernels: Sequence[Any] | Floats) -> Floats | None:
    """Return the stationary law of one period of kernels; None if there are several.

    >>> stationary([np.array([[0.9, 0.1], [0.3, 0.7]])])
    array([0.75, 0.25])
    """
    cycle = np.eye(len(kernels[0]))
    for kernel in kernels:
        cycle = cycle @ kernel
    reach = (cycle > 0) | np.eye(len(cycle), dtype=np.bool_)
    for _ in range(len(cycle).bit_length()):
        reach = (reach.astype(np.intp) @ reach.astype(np.intp)) > 0
    closed = np.flatnonzero(reach.all(axis=0))  # reached from every state: the only closed class
    if not len(closed):
        return None
    # Grassmann, Taksar and Heyman: elimination without subtraction keeps the relative accuracy of small weights
    reduced = cycle[np.ix_(closed, closed)]
    size = len(reduced)
    for last in range(size - 1, 0, -1):
        reduced[:last, last] /= reduced[last, :last].sum()
        reduced[:last, :last] += np.outer(reduced[:last, last], reduced[last, :last])
    inside = np.zeros(size)
    inside[0] = 1.0
    for state in range(1, size):
        inside[state] = inside[:state] @ reduced[:state, state]
    law = np.zeros(len(cycle))
    law[closed] = inside / inside.sum()
    return law
