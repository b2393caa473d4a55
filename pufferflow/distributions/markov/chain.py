"""A Markov chain along the rows of one sequence, its periods, and the steps of messages along it (M20)."""

import abc
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.errors import Refused
from pufferflow.distributions.markov.law_regions import (
    FLAT,
    FLATTEST,
    MOST_STATES,
    WIDEST,
    Tangent,
    bounds_by_plans,
    bounds_by_plans_or_vertices,
    extreme_log_ratios,
    largest_log_ratio,
    shortest,
)

LONG = 512
"""The least number of rows in which repetitions are searched."""
LONGEST_PERIOD = 400
"""The longest period that is found."""
_TIMES = 8
_PROBE = 20_000


@final
@dataclass(frozen=True)
class Stretch:
    """Steps start … end − 1, which repeat with a period; period 0 if they do not, or are too few to matter."""

    start: int
    end: int
    period: int


def stretches(code: Indices) -> list[Stretch]:
    """Cut a sequence into stretches that repeat with one period, the least that covers half of it, and others."""
    if len(code) >= LONG:
        for period in range(1, min(LONGEST_PERIOD, len(code) // 8) + 1):
            if (
                period == 1
                or _periodic_length(_cut_by_period(code[-_PROBE:], period))
                >= min(len(code), _PROBE) / 2
            ):
                cut = _cut_by_period(code, period)
                if _periodic_length(cut) >= len(code) / 2:
                    return cut
    return [Stretch(0, len(code), 0)]


def _periodic_length(cut: list[Stretch]) -> int:
    return sum(stretch.end - stretch.start for stretch in cut if stretch.period)


def _cut_by_period(code: Indices, period: int) -> list[Stretch]:
    """Return the long stretches that repeat with a period, and the stretches between them."""
    same = code[period:] == code[:-period]
    ends = np.flatnonzero(np.diff(np.concatenate([[0], same.astype(np.int8), [0]])))
    cut: list[Stretch] = []
    at = 0
    for first, last in zip(ends[::2].tolist(), ends[1::2].tolist(), strict=True):
        start, end = max(first, at), last + period
        if end - start >= max(LONG, _TIMES * period):
            cut += [Stretch(at, start, 0)] * (start > at)
            cut.append(Stretch(start, end, period))
            at = end
    return cut + [Stretch(at, len(code), 0)] * (at < len(code))


def reachable_states(links: Flags, order: Indices, first: Flags) -> tuple[Flags, Indices]:
    """Follow the states that row 0 can have through links `links[order[t]]`: sets of states, and each row's set."""
    places, masks = dict[bytes, int](), list[Flags]()
    mask_of = np.empty(len(order) + 1, dtype=np.intp)

    def write(mask: Flags, at: int) -> Flags:
        mask_of[at] = places.setdefault(mask.tobytes(), len(masks))
        if mask_of[at] == len(masks):
            masks.append(mask)
        return mask

    mask = write(first, 0)
    for stretch in stretches(order):
        period = stretch.period
        for at in range(stretch.start, stretch.end):
            mask = write(np.asarray(links[order[at]][mask].any(axis=0)), at + 1)
            done = at + 1 - stretch.start
            if period and done >= period and mask_of[at + 1] == mask_of[at + 1 - period]:
                tile_into(
                    mask_of[at + 2 : stretch.end + 1], mask_of[at + 2 - period : at + 2].copy()
                )
                mask = masks[int(mask_of[stretch.end])]
                break
    return np.array(masks), mask_of


def tile_into(target: Indices, places: Indices) -> None:
    """Fill an array with repetitions of a few numbers, in order."""
    turns = len(target) // len(places)
    whole = turns * len(places)
    target[:whole].reshape(turns, len(places))[:] = places
    target[whole:] = places[: len(target) - whole]


def tile(places: Indices, length: int) -> Indices:
    """Return a few numbers repeated in order up to a length; faster than `np.resize` where they are many.

    >>> tile(np.array([5, 7]), 5).tolist()
    [5, 7, 5, 7, 5]
    """
    tiled = np.empty(length, dtype=np.intp)
    tile_into(tiled, places)
    return tiled


_MODERATE = 300.0
_NEAR_END = 5.0
_MANY_STATES = 10
_MOST_STATES = 24
ROUNDING = 1e-12
"""The most by which rounding of a kernel's rows lowers a hockey stick, or breaks a triangle inequality."""
SAME = 1e-13
"""Marginals within this relative difference share a reversed kernel; every message is raised accordingly."""


@final
@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of messages: `rows[order[i]]` has, for each state, the possible laws of the next state.

    Of shape (K, k, r, k), r laws for each state: the worst pair of them counts. `sources` are the next states that can
    occur, `targets` the states that have laws.
    """

    rows: Floats
    order: Indices
    sources: Flags
    targets: Flags
    tight: bool = True
    coarse: bool = False

    @cached_property
    def _two_rows(self) -> list[tuple[float, float, float, float] | None]:
        """The laws of two states after each of them; None where a step has more states or laws."""
        whole = self.rows.shape[2] == 1 and self.sources.shape[-1] == 2
        both = np.asarray(self.sources.all(axis=1)) & np.asarray(self.targets.all(axis=1))
        laws: list[tuple[float, float, float, float]] = [
            (
                *(float(rows[0, 0, 0]), float(rows[0, 0, 1])),
                *(float(rows[1, 0, 0]), float(rows[1, 0, 1])),
            )
            for rows in (self.rows if whole else ())
        ]
        return [
            law if possible else None
            for law, possible in zip(laws or [None] * len(both), both.tolist(), strict=True)
        ]

    @cached_property
    def _heights(self) -> dict[int, Floats]:
        """The best functions of the last search for each step, from which the next one starts."""
        return {}

    def send(self, which: int, limits: Floats) -> Floats:
        """Return g_P(D), rounded up: the largest log ratio of means of functions within the limits for two states."""
        size = self.rows.shape[1]
        laws = self._two_rows[which] if size == 2 else None
        if laws is not None:
            both = _two_state_message(laws, float(limits[0, 1]), float(limits[1, 0]))
            if both is not None:
                return np.array([[0.0, both[0]], [both[1], 0.0]])
        message, step = np.zeros((size, size)), self._step(which, limits)
        if step.widest == 0 or len(step.targets) < 2:
            return message
        if self.coarse:
            message[step.pairs] = step.pad(
                step.between_laws(partial(_flat_log_ratio, widest=step.widest))
            )
            return message
        if len(step.sources) <= MOST_STATES and step.widest <= WIDEST:
            ratios = extreme_log_ratios(step.rows, step.within)
            message[np.ix_(step.targets, step.targets)] = step.pad(np.maximum(ratios, 0.0))
            np.fill_diagonal(message, 0.0)
            return message
        if step.many:
            bounds = bounds_by_plans_or_vertices(
                *step.laws, shortest(step.within), self._heights.get(which)
            )
            self._heights[which] = bounds.heights
            message[step.pairs] = step.pad(bounds.above)
            return message
        message[step.pairs] = step.pad(
            step.between_laws(partial(largest_log_ratio, limits=step.within))
        )
        return message

    def tangent(self, which: int, limits: Floats, before: Tangent | None) -> Tangent | None:
        """Return a linear approximation of `send` near these limits; None for few states, or without useful plans."""
        from scipy.sparse import csr_matrix  # takes longer to import than all else here

        step = self._step(which, limits)
        if step.widest == 0 or len(step.targets) < 2 or not step.many or self.coarse:
            return None
        closed = shortest(step.within)
        bounds = bounds_by_plans(
            *step.laws, closed, None if before is None else before.heights, sweeps=1
        )
        self._heights[which] = bounds.heights
        message = np.zeros(limits.shape)
        message[step.pairs] = np.maximum(bounds.below, 0.0)
        slopes = csr_matrix(bounds.slopes)  # plans use few limits
        return Tangent(message, step.pairs, step.sources, closed, bounds.heights, slopes)

    def hockey(self, which: int, losses: Floats) -> Floats:
        """Return E_s(P(a,·) ‖ P(b,·)) of a kernel's rows for s = losses(a, b), rounded up (M37); 0 of no targets."""
        rows: Floats = self.rows[which]
        top: Floats = rows[:, None, :, None, :]
        bottom: Floats = rows[None, :, None, :, :]
        with np.errstate(over="ignore", invalid="ignore"):
            factors: Floats = np.exp(losses)[:, :, None, None, None]
            excess: Floats = np.where(bottom > 0, top - factors * bottom, top)
        shares = np.maximum(excess, 0.0).sum(axis=-1).max(axis=(2, 3))
        there = np.outer(self.targets[which], self.targets[which])
        return np.where(there, np.minimum(shares + ROUNDING * (rows.max() > 0), 1.0), 0.0)

    def _step(self, which: int, limits: Floats) -> "_Step":
        sources, targets = np.flatnonzero(self.sources[which]), np.flatnonzero(self.targets[which])
        rows = self.rows[which][targets][:, :, sources]
        return _Step(rows, sources, targets, limits[np.ix_(sources, sources)])


@final
@dataclass(frozen=True, eq=False)
class _Step:
    """A step among the states that can occur."""

    rows: Floats
    sources: Indices
    targets: Indices
    within: Floats

    @cached_property
    def widest(self) -> float:
        """The largest limit: no message is larger."""
        return float(self.within.max(initial=0.0))

    @property
    def many(self) -> bool:
        """Whether there are so many states that plans are quicker than vertices."""
        count = len(self.sources)
        most = FLAT if count <= _MOST_STATES else FLATTEST
        return count > _MANY_STATES and self.rows.shape[1] == 1 and self.widest <= most

    @cached_property
    def places(self) -> tuple[Indices, Indices]:
        """Every two different targets, by their places."""
        first, second = np.nonzero(~np.eye(len(self.targets), dtype=np.bool_))
        return first, second

    @property
    def pairs(self) -> tuple[Indices, Indices]:
        """Every two different targets."""
        first, second = self.places
        return self.targets[first], self.targets[second]

    @property
    def laws(self) -> tuple[Floats, Floats]:
        """The laws of every two different targets, if each has a single one."""
        first, second = self.places
        return self.rows[first, 0], self.rows[second, 0]

    def between_laws(self, largest: Callable[[Floats, Floats], Floats]) -> Floats:
        """Return the largest log ratio for every two different targets, over all of their laws."""
        first, second = self.places
        top, bottom = np.broadcast_arrays(
            self.rows[first][:, :, None, :], self.rows[second][:, None, :, :]
        )
        ratios = largest(top.reshape(-1, top.shape[3]), bottom.reshape(-1, top.shape[3]))
        return np.asarray(ratios.reshape(top.shape[:3]).max(axis=(1, 2)))

    def pad(self, message: Floats) -> Floats:
        """Return a message, raised since its marginals are only approximately those of its rows."""
        return np.minimum(message + 8 * SAME * min(self.widest, 1.0), self.widest)


def _flat_log_ratio(top: Floats, bottom: Floats, widest: float) -> Floats:
    """Return max log(p·v / q·v) for pairs of laws over v between 1 and e^widest: v is large where p/q is.

    These include all functions within the limits.
    """
    if widest > WIDEST:
        return np.full(len(top), widest)
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where(bottom > 0, top / bottom, np.inf), axis=1)
    p, q = (np.take_along_axis(rows, order, axis=1).cumsum(axis=1) for rows in (top, bottom))
    rise = np.expm1(widest)
    return np.asarray((np.log1p(p * rise) - np.log1p(q * rise)).max(axis=1))


def _two_state_message(
    laws: tuple[float, float, float, float], up: float, down: float
) -> tuple[float, float] | None:
    """Return g_P(D) of two states in closed form, rounded up; None where e^D is too large for it.

    With r = v₀/v₁ between e^{−D₁₀} and e^{D₀₁} the ratio of means is monotone in r: its ends are the extremes.
    """
    if max(up, down) > _MODERATE:
        return None
    logs = [_log_ratio(laws, end) for end in (up, -down)]
    pad = 8 * SAME * min(max(up, down), 1.0)
    widest = max(up, down)
    return min(max(logs) + pad, widest) if max(logs) > 0 else pad, min(
        max(-min(logs), 0.0) + pad, widest
    )


def _log_ratio(laws: tuple[float, float, float, float], end: float) -> float:
    """Return log((p₁ + p₀·e^end)/(q₁ + q₀·e^end)), with relative accuracy where `end` is small.

    Far ends need all four probabilities: what is left of 1 says too little about a tiny one.
    """
    p0, p1, q0, q1 = laws
    if abs(end) <= _NEAR_END:
        return math.log1p((p0 - q0) * math.expm1(end) / (q1 + q0 * math.exp(end)))
    above, below = p1 + p0 * math.exp(end), q1 + q0 * math.exp(end)
    return math.log(above) - math.log(below) if above > 0 else -math.inf


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


def _near(laws: Floats, others: Floats) -> bool:
    """Return whether laws share a reversed kernel with others."""
    return bool((np.abs(laws - others) <= SAME * others).all())


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
            near = settled is not None and _near(laws, settled[0])
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
        reversed_steps, order = ReversedSteps(), np.empty(self.length - 1, dtype=np.intp)
        for first, end, laws in self._laws_along():
            if first == self.length - 1:  # no step leads on from the last row
                break
            places = [
                reversed_steps.place(kernel, law, self.kernels[kernel])
                for kernel, law in zip(self.order[first : first + len(laws)], laws, strict=True)
            ]
            tile_into(order[first:end], np.array(places, dtype=np.intp))
        return replace(reversed_steps.steps(order, self.states), coarse=self.coarse)

    @cached_property
    def row_laws(self) -> tuple[list[Floats], Indices]:
        """The distinct laws of rows, of shape (laws of row 0, k), or (1, k) once they are settled; each row's index."""
        pool, index = list[Floats](), np.empty(self.length, dtype=np.intp)
        for first, end, laws in self._laws_along():
            tile_into(index[first:end], len(pool) + np.arange(len(laws)))
            pool += laws
        return pool, index

    def _laws_along(self) -> Iterator[tuple[int, int, list[Floats]]]:
        """Yield rows first … end − 1 with their laws: one row, or all rows of a stretch that repeat settled laws."""
        laws = self.initial
        for stretch in stretches(self.order):
            settled = self._settled(stretch)
            for at in range(stretch.start, stretch.end):
                starts = stretch.period and (at - stretch.start) % stretch.period == 0
                if starts and settled is not None and _near(laws, settled[0]):
                    yield at, stretch.end, [law[None] for law in settled]
                    laws = np.broadcast_to(settled[(stretch.end - at) % stretch.period], laws.shape)
                    break
                yield at, at + 1, [laws]
                laws = _step(laws, self.kernels[self.order[at]])
        yield self.length - 1, self.length, [laws]

    @cached_property
    def _possible(self) -> tuple[Flags, Indices]:
        return reachable_states(
            self.kernels > 0, self.order, np.asarray((self.initial > 0).any(axis=0))
        )

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


class ReversedSteps:
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
        if known is not None and known[0].shape == laws.shape and _near(laws, known[0]):
            return known[1]
        joint = laws[:, :, None] * matrix[None]  # initial law, state u, state x
        reached = np.greater(joint.sum(axis=1), 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            reverse = (joint / joint.sum(axis=1, keepdims=True)).transpose(2, 0, 1)
        # a law that gives a state no mass is replaced by one that does
        choice = np.where(
            np.transpose(reached), np.arange(len(laws)), reached.argmax(axis=0)[:, None]
        )
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
        rows = [
            np.concatenate([rows, rows[:, :1].repeat(width - rows.shape[1], axis=1)], axis=1)
            for rows in self.rows
        ]
        return Steps(np.array(rows), order, sources, targets)


def _step(laws: Floats, matrix: Floats) -> Floats:
    """Return the laws one row on; refuse states that can occur, but with a probability too small for floats."""
    following = laws @ matrix
    faint = following < _FAINT
    if faint.any() and (((laws > 0).astype(np.intp) @ (matrix > 0) > 0) & faint).any():
        raise Refused(
            "A state of the chain stays possible, but its probability becomes too small for floats.",
            allowed="chains that can return to each of their states, or fewer steps",
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
