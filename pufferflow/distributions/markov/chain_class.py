"""Classes of Markov chains: kernels between bounds, and the steps of messages that hold for all members (M20).

A member may choose another kernel within the bounds at every step. For the future, the kernel's rows are used as they
are. For the past, they are reversed: w/Σw with w_u = m(u)·P(u,x), m any law that the earlier row may have. The
kernel's own bounds do not bound them. So sets of laws that contain those of each row are computed from the first on.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.errors import UsageError
from pufferflow.distributions.markov.bounded_steps import (
    Extremes,
    KernelBounds,
    Marginals,
    future_extremes,
    invariant_marginals,
    kernels_between,
    marginals_hull,
    past_extremes,
)
from pufferflow.distributions.markov.chain import StateSequence
from pufferflow.distributions.markov.lipschitz_ratio import MOST_STATES, Tangent
from pufferflow.distributions.markov.message_steps import SAME
from pufferflow.distributions.markov.periods import (
    LONGEST_PERIOD,
    Stretch,
    reachable_states,
    stretches,
    tile,
    tile_into,
)

_MOST_STATES = 10
_CLOSE = 1e-11
_LOOSE = 1e-6
_PATIENCE = 1000


@final
@dataclass(frozen=True, eq=False)
class Chains(StateSequence):
    """All chains on k states whose kernel from row t to row t + 1 is between `low[order[t]]` and `high[order[t]]`.

    `initial` holds the laws that row 0 may have, or the extreme ones of them, of shape (j, k); np.eye(k) allows any.
    With None it is any law that is stationary under one turn of all kernels, from the first to the last.

    >>> low, high = np.array([[[0.8, 0.1], [0.1, 0.8]]]), np.array([[[0.9, 0.2], [0.2, 0.9]]])
    >>> Chains(low, high, np.zeros(9, dtype=np.intp)).length
    10
    """

    low: Floats
    high: Floats
    order: Indices
    initial: Floats | None = None

    def __post_init__(self) -> None:
        if self.states > _MOST_STATES:
            raise UsageError(
                f"Bounds on the kernels of chains with {self.states} states.",
                allowed=f"at most {_MOST_STATES} states",
                instead="fewer states, or a list of single chains",
            )
        low, high = self.low.sum(axis=-1).max(), self.high.sum(axis=-1).min()
        if not ((self.low >= 0) & (self.low <= self.high)).all() or low > 1 + SAME or high < 1 - SAME:
            raise UsageError(
                "No kernel lies between the bounds.",
                allowed="0 <= low <= high, and every row of low sums to at most 1, of high to at least 1",
            )

    @property
    def states(self) -> int:
        return self.low.shape[-1]

    def repeated(self, steps: int) -> "Chains":
        return Chains(self.low, self.high, tile(self.order, steps), self.initial)

    def settling(self) -> int | None:
        """Return the number of rows after which the laws of rows repeat, or count as repeating, if the steps do.

        None for a turn that is too long to be found in a sequence.
        """
        turn = len(self.order)
        if turn > LONGEST_PERIOD:
            return None
        stretch = Stretch(0, turn, turn)
        laws, rest = self._first, self.rest(stretch)
        for at in range(0, _PATIENCE, turn):
            if rest.around(laws).near(laws, _CLOSE):
                return at
            laws = laws.along(self.turn(stretch))
        return -(-_PATIENCE // turn) * turn

    @cached_property
    def forward(self) -> "BoundedSteps":
        """The steps of messages about the future, the last row first."""
        return BoundedSteps(
            [future_extremes(step) for step in self.kernels], self.order[::-1], tight=self.states <= MOST_STATES
        )

    @cached_property
    def backward(self) -> "BoundedSteps":
        """The steps of messages about the past."""
        reversed_steps, laws = _ReversedBounds(self), self._first
        for stretch in stretches(self.order):
            laws = reversed_steps.follow(laws, stretch)
        return BoundedSteps(reversed_steps.pool, reversed_steps.order, tight=reversed_steps.tight)

    @cached_property
    def kernels(self) -> list[KernelBounds]:
        """The kernels, by their bounds on sets of states."""
        return [kernels_between(low, high) for low, high in zip(self.low, self.high, strict=True)]

    @cached_property
    def _first(self) -> Marginals:
        return invariant_marginals(self.kernels) if self.initial is None else marginals_hull(self.initial)

    @cached_property
    def _possible(self) -> tuple[Flags, Indices]:
        links = np.array([step.high > 0 for step in self.kernels])
        return reachable_states(links, self.order, self._first.most[1 << np.arange(self.states)] > 0)

    def turn(self, stretch: Stretch) -> list[KernelBounds]:
        return [self.kernels[int(which)] for which in self.order[stretch.start : stretch.start + stretch.period]]

    def rest(self, stretch: Stretch) -> Marginals:
        """Return a set of laws that is closed under every period of a stretch."""
        occurring = np.unique(self.mask_of[stretch.start : stretch.end + 1])
        return invariant_marginals(self.turn(stretch), np.asarray(self.masks[occurring].any(axis=0)))


@final
@dataclass(frozen=True, eq=False)
class BoundedSteps:
    """Steps of messages among the extreme rows; `tight` if they use all limits, not only the largest."""

    pool: list[Extremes]
    order: Indices
    tight: bool

    def send(self, which: int, limits: Floats) -> Floats:
        return self.pool[which].send(limits)

    def hockey(self, which: int, losses: Floats) -> Floats:
        return self.pool[which].hockey(losses)

    def tangent(self, which: int, limits: Floats, before: Tangent | None) -> None:
        return None


class _ReversedBounds:
    """The distinct reversed steps of a class of chains, `pool`, and which of them each row has, `order`.

    `last` has for each kernel and set of states the latest laws that it was reversed for, and the place of the result:
    a row with the same laws reuses it. `tight` says that no laws much wider than the row's own are used.
    """

    def __init__(self, chains: Chains) -> None:
        self.chains = chains
        self.order = np.empty(len(chains.order), dtype=np.intp)
        self.pool: list[Extremes] = []
        self.tight = chains.states <= MOST_STATES
        self.last: dict[tuple[int, int], tuple[Marginals, int]] = {}

    def follow(self, laws: Marginals, stretch: Stretch) -> Marginals:
        """Write the steps of a stretch and return the laws after it.

        Once the laws are near a set that is closed under a period, that set is used for all following rows.
        """
        rest = self.chains.rest(stretch) if stretch.period else None
        for at in range(stretch.start, stretch.end):
            if rest is not None and (at - stretch.start) % stretch.period == 0:
                hull, masks = rest.around(laws), self.chains.mask_of[at : stretch.end + 1]
                near = at - stretch.start >= _PATIENCE or hull.near(laws, _CLOSE)  # or the search took too long
                if near and np.array_equal(masks[stretch.period :], masks[: -stretch.period]):
                    self.tight = self.tight and hull.near(laws, _LOOSE)
                    return self._repeat(hull, stretch, at)
            self.order[at] = self.place(at, laws)
            laws = laws.after(self.chains.kernels[int(self.chains.order[at])])
        return laws

    def _repeat(self, laws: Marginals, stretch: Stretch, at: int) -> Marginals:
        """Write one period repeatedly, and return the laws at the end of the stretch."""
        left = stretch.end - at
        phases, places = [laws], list[int]()
        for row in range(at, min(at + stretch.period, stretch.end)):
            places.append(self.place(row, phases[-1]))
            phases.append(phases[-1].after(self.chains.kernels[int(self.chains.order[row])]))
        tile_into(self.order[at : stretch.end], np.array(places, dtype=np.intp))
        return phases[left % stretch.period]

    def place(self, at: int, laws: Marginals) -> int:
        """Return the place of the reversal of the step from a row with these laws."""
        kernel, mask = int(self.chains.order[at]), int(self.chains.mask_of[at])
        known = self.last.get((kernel, mask))
        if known is not None and laws.within(known[0], SAME) and known[0].near(laws, SAME):
            return known[1]
        sources, targets = self.chains.masks[self.chains.mask_of[at : at + 2]]
        self.pool.append(past_extremes(laws, self.chains.kernels[kernel], sources, targets))
        self.last[kernel, mask] = laws, len(self.pool) - 1
        return len(self.pool) - 1
