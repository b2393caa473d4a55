"""Laplace sums over a window of a chain: the exact law inside the window, and messages between windows (M62).

A row's exposure counts as if all other rows were known. The law of a whole sum knows more: where neighbours avoid each
other, a sum hardly moves with one of them. So the outputs of a window are bounded at once. Given the row before the
window, K(y)[u, v] is the density of the output y together with the last row's state v. What comes after it is known
only up to a message, v_e ≤ e^{F(e,f)} v_f. The largest log ratio of two rows of K(y)·v is the message before the
window.

Between the possible values of a sum, its Laplace likelihoods are A·e^{−y/b} + B·e^{y/b}. Their ratio is monotone there
and constant outside, one sum after another: so only possible values are examined. Messages span a cone. The ratio is
largest at one of its extreme rays, which are spanning trees of limits that hold with equality.

For two states the result is exact. For more states it is an upper bound. Everything is rounded up.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import cast, final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.markov.chain import SAME, Chain, Steps
from pufferflow.distributions.markov.law_regions import shortest
from pufferflow.distributions.markov.state_loss import Leak

MOST_STATES = 5
_MOST_POINTS = 4_000
_MOST_WORK = 1e8
_MOST_RATIOS = 3e7
_FINEST = 4_096
"""The most steps of a lattice between two values."""
_STEEPEST = 300.0
"""The largest log ratio of densities inside a window: beyond it, floats lose the smaller ones."""
_WIDEST = 100.0
_LOOSE = 1e-10
_DIGITS = 12
"""Rays whose logs agree in so many decimals are one."""
OFF = 1e-11
"""The most by which terms may be off their lattice, as a part of a step."""


@final
@dataclass(frozen=True, eq=False)
class NoisySum:
    """A sum with Laplace noise: row t in state x adds `terms[t, x]` whole steps, and a step costs `loss`."""

    terms: Indices
    loss: float

    @cached_property
    def largest(self) -> int:
        """The largest possible sum; the least is 0 or more."""
        return int(self.terms.max(axis=1).sum())


@final
@dataclass(frozen=True, eq=False)
class WindowSums:
    """All sums of one window, about the same consecutive rows."""

    sums: tuple[NoisySum, ...]
    known: "dict[object, PlainLaws]" = field(default_factory=dict[object, "PlainLaws"], repr=False)
    """Laws without noise, by chain and place."""

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The number of possible values of each sum."""
        return tuple(one.largest + 1 for one in self.sums)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.sums[0].terms)

    @property
    def steep(self) -> float:
        """The largest log ratio of two densities of the outputs."""
        return sum(one.largest * one.loss for one in self.sums)

    @property
    def few(self) -> bool:
        """Whether the laws inside the window can be computed in little time."""
        points, states = math.prod(self.shape), self.sums[0].terms.shape[1]
        work = self.rows * points**2 * states**3
        return states <= MOST_STATES and points <= _MOST_POINTS and work <= _MOST_WORK

    def at(self, losses: Sequence[float]) -> "WindowSums":
        """Return the same sums with other losses per step; their laws are computed once for all losses."""
        pairs = zip(self.sums, losses, strict=True)
        return replace(self, sums=tuple(replace(one, loss=loss) for one, loss in pairs))

    def along(self, chain: Chain, first: int, place: object = None) -> "WindowLaws | None":
        """Return the laws of a window that begins at a row of a chain; None if too many, too steep, or not unique.

        Equal places have the same kernels and possible states in and around the window.
        """
        past = chain.backward
        if not self.few or self.steep > _STEEPEST or past.rows.shape[2:3] not in {(1,), ()}:
            return None
        key = id(chain), first if place is None else place
        if key not in self.known:
            self.known[key] = PlainLaws(self, chain, past, first)
        return WindowLaws(self, self.known[key])

    def likelihoods(self, laws: Floats) -> Floats:
        """Return the likelihood of every output from laws of the sums, whose last axes are their values."""
        for axis, one in enumerate(self.sums, start=laws.ndim - len(self.sums)):
            values = np.arange(one.largest + 1)
            density = np.exp(-one.loss * np.abs(values[:, None] - values[None, :]))
            laws = np.moveaxis(np.tensordot(laws, density, (axis, 1)), -1, axis)
        return laws.reshape(*laws.shape[: laws.ndim - len(self.sums)], -1)

    def after(self, laws: Floats, row: int) -> Floats:
        """Return laws of shape (k, …) moved by what a row adds in each of its states."""
        moved = np.zeros_like(laws)
        for state, law in enumerate(laws):
            moved[state] = _moved(law, [int(one.terms[row, state]) for one in self.sums])
        return moved


def _moved(law: Floats, steps: Sequence[int]) -> Floats:
    """Return a law whose last axes are moved up by so many steps each."""
    lead = law.ndim - len(steps)
    target = np.zeros_like(law)
    source = (slice(None),) * lead
    into = source + tuple(slice(step, None) for step in steps)
    cut = source + tuple(
        slice(0, size - step) for step, size in zip(steps, law.shape[lead:], strict=True)
    )
    target[into] = law[cut]
    return target


@final
@dataclass(frozen=True, eq=False)
class PlainLaws:
    """The laws of a window's sums without noise, its ends and each of its rows, along a chain."""

    window: WindowSums
    chain: Chain
    past: Steps
    first: int

    @property
    def last(self) -> int:
        """The last row."""
        return self.first + self.window.rows - 1

    @property
    def states(self) -> int:
        """The number of states."""
        return self.chain.states

    def _point(self) -> Floats:
        """Return the law of each state of a row, given itself, before it adds anything: of shape (k, k, …)."""
        law = np.zeros((self.states, self.states, *self.window.shape))
        law[(np.arange(self.states), np.arange(self.states), *(0,) * len(self.window.shape))] = 1.0
        return law

    def _forth(self, row: int) -> Floats:
        """Return the kernel from a row to the next."""
        return np.asarray(self.chain.kernels[self.chain.order[row]])

    def _back(self, row: int) -> Floats:
        """Return the kernel from the row after a row back to it."""
        return np.asarray(self.past.rows[self.past.order[row], :, 0])

    @cached_property
    def _ahead(self) -> list[Floats]:
        """For each row, the law of the last row and of what later rows add: [state, last, sums]."""
        laws = [self._point()]
        for row in range(self.last - 1, self.first - 1, -1):
            added = self.window.after(laws[-1], row + 1 - self.first)
            laws.append(np.tensordot(self._forth(row), added, 1))
        return laws[::-1]

    @cached_property
    def _behind(self) -> list[Floats]:
        """For each row, the law of the first row and of what earlier rows add: [state, first, sums]."""
        laws = [self._point()]
        for row in range(self.first, self.last):
            added = self.window.after(laws[-1], row - self.first)
            laws.append(np.tensordot(self._back(row), added, 1))
        return laws

    @cached_property
    def future(self) -> Floats:
        """The law of the sums and of the window's last row v, given the row u before it: [u, v, sums]."""
        whole = self.window.after(self._ahead[0], 0)
        return np.asarray(np.tensordot(self._forth(self.first - 1), whole, 1))

    @cached_property
    def past_of_next(self) -> Floats:
        """The law of the sums and of the window's first row v, given the row u behind it: [u, v, sums]."""
        whole = self.window.after(self._behind[-1], self.window.rows - 1)
        return np.asarray(np.tensordot(self._back(self.last), whole, 1))

    @cached_property
    def inside(self) -> list[Floats]:
        """For each row, the law of the sums, the first row u and the last v, given its state: [state, u, v, sums]."""
        return [
            self.window.after(_both(behind, ahead, self.window.shape), row)
            for row, (behind, ahead) in enumerate(zip(self._behind, self._ahead, strict=True))
        ]

    def possible(self, row: int) -> Flags:
        """Return the states that a row can have."""
        return np.asarray(self.chain.masks[self.chain.mask_of[row]])


@final
@dataclass(frozen=True, eq=False)
class WindowLaws:
    """The laws of a window's noisy sums: what they reveal about its rows, and of what lies beyond."""

    window: WindowSums
    plain: PlainLaws

    @property
    def pad(self) -> float:
        """The most by which rounding moves a log ratio."""
        rows, points = self.window.rows, math.prod(self.window.shape)
        operations = rows * (self.plain.states + 4) + 4 * points + 40
        steep, kernels = self.window.steep, 4 * rows * SAME
        return (4 * operations + 8 * steep) * UNIT + kernels + 2 * steep * OFF + 2.0 * 10**-_DIGITS

    @cached_property
    def _future(self) -> Floats:
        """K(y)[u, v]: u the row before the window, v its last row; of shape (k, k, outputs)."""
        return self.window.likelihoods(self.plain.future)

    @cached_property
    def _past(self) -> Floats:
        """K(y)[u, v]: u the row behind the window, v its first row."""
        return self.window.likelihoods(self.plain.past_of_next)

    @cached_property
    def _inside(self) -> list[Floats]:
        """For each row J(y)[a, u, v]: a its state, u the first row, v the last; of shape (k, k, k, outputs)."""
        return [self.window.likelihoods(law) for law in self.plain.inside]

    def future_message(self, limits: Floats) -> Floats:
        """Return the message about the future at the row before the window, from one at its last row."""
        everything = np.ones(self.plain.states, dtype=np.bool_)
        return self._message(self._future, limits, everything, everything)

    def past_message(self, limits: Floats) -> Floats:
        """Return the message about the past at the row behind the window, from one at its first row."""
        return self._message(
            self._past,
            limits,
            self.plain.possible(self.plain.first),
            self.plain.possible(self.plain.last + 1),
        )

    def _message(self, kernel: Floats, limits: Floats, sources: Flags, targets: Flags) -> Floats:
        """Return the largest log ratio of two rows of K(y)·v over all outputs y and rays v."""
        rays = extreme_rays(limits, sources)
        if rays is None:
            return np.full((self.plain.states, self.plain.states), math.inf)
        message, places = np.zeros((self.plain.states, self.plain.states)), np.flatnonzero(targets)
        ratios = _largest_ratios(np.tensordot(kernel[targets], rays, (1, 1)))
        message[np.ix_(places, places)] = np.maximum(ratios, 0.0) + self.pad
        np.fill_diagonal(message, 0.0)
        return message

    def worst(self, past: Floats, future: Floats, pairs: Indices, rows: Indices) -> Leak:
        """Return the largest loss about pairs of states of some rows, between messages; ∞ where that takes long."""
        before = extreme_rays(past, self.plain.possible(self.plain.first))
        after = extreme_rays(future, np.ones(self.plain.states, dtype=np.bool_))
        a, b = pairs[0].tolist()
        points = math.prod(self.window.shape) * self.plain.states * len(rows)
        if before is None or after is None or len(before) * len(after) * points > _MOST_RATIOS:
            return Leak(math.inf, int(rows[0]), (a, b))
        largest = Leak(0.0, int(rows[0]), (a, b))
        for row in cast(list[int], rows.tolist()):
            known = pairs[self.plain.possible(row)[pairs].all(axis=1)]
            if not len(known):
                continue
            own: Floats = np.tensordot(self._inside[row - self.plain.first], before, (1, 1))
            ratios = _largest_ratios(np.tensordot(own, after, (1, 1)))[known[:, 0], known[:, 1]]
            place = int(ratios.argmax())
            if not float(ratios[place]) + self.pad <= largest.value:
                a, b = known[place].tolist()
                largest = Leak(float(ratios[place]) + self.pad, row, (a, b))
        return largest


def lattice_of(values: Floats) -> tuple[Indices, float] | None:
    """Return values as whole steps, and the width of a step; None if they are on no lattice of few steps.

    Values are off by less than `OFF` of a step, which the pad of a window's losses covers.

    >>> lattice_of(np.array([0.0, 0.5, 1.5]))[0].tolist(), lattice_of(np.array([0.0, 1.0, np.sqrt(2)]))
    ([0, 1, 3], None)
    """
    ordered = np.unique(values)
    gaps = np.array([right - left for left, right in itertools.pairwise(ordered.tolist())])
    if not len(gaps):
        return np.zeros(len(values), dtype=np.int64), 0.0
    above, widest = values - ordered[0], float(ordered[-1] - ordered[0])
    for share in range(1, 65):
        most = np.rint(widest / float(gaps.min()) * share)
        if most > _FINEST:
            return None
        unit = widest / float(most)
        steps = np.rint(above / unit)
        if np.abs(steps * unit - above).max() <= OFF * unit:
            return steps.astype(np.int64), unit
    return None


def _largest_ratios(likelihoods: Floats) -> Floats:
    """Return the largest log ratio of every two states, over all other axes; ∞ where floats lose a likelihood."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(likelihoods.reshape(len(likelihoods), -1))
        ratios = (logs[:, None] - logs[None, :]).max(axis=2)
    return np.where(np.isnan(ratios), math.inf, ratios)


def _both(behind: Floats, ahead: Floats, shape: tuple[int, ...]) -> Floats:
    """Return the law of what rows before and after a row add, given its state: [state, first, last, sums]."""
    total = np.zeros((len(behind), behind.shape[1], ahead.shape[1], *shape))
    forward = len(np.flatnonzero(behind.any(axis=(0, 1)))) <= len(
        np.flatnonzero(ahead.any(axis=(0, 1)))
    )
    few, many = (behind, ahead) if forward else (ahead, behind)
    for point in np.argwhere(few.any(axis=(0, 1))):
        weight = few[(..., *point)]
        moved = _moved(many, point.tolist())
        wide = (slice(None), slice(None), None) if forward else (slice(None), None, slice(None))
        other = (slice(None), None) if forward else (slice(None), slice(None), None)
        total += weight[(*wide, *(None,) * len(shape))] * moved[other]
    return total


@lru_cache(maxsize=8)
def _trees(states: int) -> tuple[Indices, Indices]:
    """Return every spanning tree of some states in every orientation: edges (e, f), of shape (trees, states − 1)."""
    every = [
        edges
        for edges in itertools.combinations(itertools.combinations(range(states), 2), states - 1)
        if _connects(edges, states)
    ]
    turned = [
        [edge if keep else edge[::-1] for edge, keep in zip(edges, kept, strict=True)]
        for edges in every
        for kept in itertools.product((True, False), repeat=states - 1)
    ]
    listed = np.array(turned, dtype=np.intp).reshape(len(turned), states - 1, 2)
    return listed[..., 0], listed[..., 1]


def _connects(edges: Sequence[tuple[int, int]], states: int) -> bool:
    """Return whether edges connect all states."""
    found = {0}
    for _ in range(states):
        found |= {end for edge in edges if found & set(edge) for end in edge}
    return len(found) == states


@lru_cache(maxsize=8)
def _paths(states: int) -> Floats:
    """Return the log of each state over that of state 0, by the limits of a tree's edges: (trees, k, k − 1)."""
    first, second = _trees(states)
    matrix = np.zeros((len(first), states, states))
    row, column = np.indices(first.shape)
    matrix[row, column, first], matrix[row, column, second] = 1.0, -1.0
    matrix[:, states - 1, 0] = 1.0
    return np.rint(np.linalg.inv(matrix))[:, :, : states - 1]


def extreme_rays(limits: Floats, states: Flags) -> Floats | None:
    """Return the extreme rays of {v: v_e ≤ e^{limits[e,f]} v_f} over some states, others 0; None beyond floats.

    A few more rays may be among them, whose entries pass a limit by a tiny part.

    >>> extreme_rays(np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([True, True])).round(4).tolist()
    [[1.0, 0.3679], [0.1353, 1.0]]
    """
    places = np.flatnonzero(states)
    closed = shortest(limits[np.ix_(places, places)])
    widest = float(closed.max(initial=0.0))
    if not widest <= _WIDEST:
        return None
    rays = np.zeros((1, len(limits)))
    if widest == 0:
        rays[0, places] = 1.0
        return rays
    if len(places) == 2:
        rays = np.zeros((2, len(limits)))
        rays[:, places] = np.exp(-closed)
        return rays
    first, second = _trees(len(places))
    logs: Floats = np.einsum("tse,te->ts", _paths(len(places)), closed[first, second])
    slack = logs[:, :, None] - logs[:, None, :] - closed
    within: Floats = logs[(slack <= _LOOSE * (1 + widest)).all(axis=(1, 2))]
    scaled = (within - within.max(axis=1, keepdims=True)).round(_DIGITS)
    unique: Floats = np.unique(scaled, axis=0)
    rays = np.zeros((len(unique), len(limits)))
    rays[:, places] = np.exp(unique)
    return rays
