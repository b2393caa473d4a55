"""The steps by which messages travel from row to row: one linear program for each two states (M20)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.distributions.markov.lipschitz_ratio import (
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

_MODERATE = 300.0
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
    def _first_of_two(self) -> list[tuple[float, float] | None]:
        """The probability that the first of two states follows each; None where a step has more states or laws."""
        whole = self.rows.shape[2] == 1 and self.sources.shape[-1] == 2
        both = np.asarray(self.sources.all(axis=1)) & np.asarray(self.targets.all(axis=1))
        firsts: list[tuple[float, float]] = [(float(rows[0, 0, 0]), float(rows[1, 0, 0])) for rows in self.rows]
        return [pair if whole and possible else None for pair, possible in zip(firsts, both.tolist(), strict=True)]

    @cached_property
    def _heights(self) -> dict[int, Floats]:
        """The best functions of the last search for each step, from which the next one starts."""
        return {}

    def send(self, which: int, limits: Floats) -> Floats:
        """Return g_P(D), rounded up: the largest log ratio of means of functions within the limits for two states."""
        size = self.rows.shape[1]
        firsts = self._first_of_two[which] if size == 2 else None
        if firsts is not None:
            both = _two_state_message(*firsts, float(limits[0, 1]), float(limits[1, 0]))
            if both is not None:
                return np.array([[0.0, both[0]], [both[1], 0.0]])
        message, step = np.zeros((size, size)), self._step(which, limits)
        if step.widest == 0 or len(step.targets) < 2:
            return message
        if self.coarse:
            message[step.pairs] = step.pad(step.between_laws(partial(_flat_log_ratio, widest=step.widest)))
            return message
        if len(step.sources) <= MOST_STATES and step.widest <= WIDEST:
            ratios = extreme_log_ratios(step.rows, step.within)
            message[np.ix_(step.targets, step.targets)] = step.pad(np.maximum(ratios, 0.0))
            np.fill_diagonal(message, 0.0)
            return message
        if step.many:
            bounds = bounds_by_plans_or_vertices(*step.laws, shortest(step.within), self._heights.get(which))
            self._heights[which] = bounds.heights
            message[step.pairs] = step.pad(bounds.above)
            return message
        message[step.pairs] = step.pad(step.between_laws(partial(largest_log_ratio, limits=step.within)))
        return message

    def tangent(self, which: int, limits: Floats, before: Tangent | None) -> Tangent | None:
        """Return a linear approximation of `send` near these limits; None for few states, or without useful plans."""
        from scipy.sparse import csr_matrix  # takes longer to import than all else here

        step = self._step(which, limits)
        if step.widest == 0 or len(step.targets) < 2 or not step.many or self.coarse:
            return None
        closed = shortest(step.within)
        bounds = bounds_by_plans(*step.laws, closed, None if before is None else before.heights, sweeps=1)
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
        top, bottom = np.broadcast_arrays(self.rows[first][:, :, None, :], self.rows[second][:, None, :, :])
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


def _two_state_message(first: float, second: float, up: float, down: float) -> tuple[float, float] | None:
    """Return g_P(D) of two states in closed form, rounded up; None where e^D is too large for it.

    With r = v₀/v₁ between e^{−D₁₀} and e^{D₀₁} the ratio of means is monotone in r: its ends are the extremes.
    """
    if max(up, down) > _MODERATE:
        return None
    logs = [_log_ratio(first, second, end) for end in (up, -down)]
    pad = 8 * SAME * min(max(up, down), 1.0)
    widest = max(up, down)
    return min(max(logs) + pad, widest) if max(logs) > 0 else pad, min(max(-min(logs), 0.0) + pad, widest)


def _log_ratio(first: float, second: float, end: float) -> float:
    """Return log((1 − p + p·e^end)/(1 − q + q·e^end)), with relative accuracy also near 0 and far below it."""
    ratio = (first - second) * math.expm1(end) / ((1 - second) + second * math.exp(end))  # a sum without cancelling
    if ratio > -0.5:
        return math.log1p(ratio)
    above, below = ((1 - share) + share * math.exp(end) for share in (first, second))
    return math.log(above) - math.log(below) if above > 0 else -math.inf
