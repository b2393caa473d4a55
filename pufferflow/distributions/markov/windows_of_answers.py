"""Answers about the rows of a chain, cut into windows: each part of the chain has the sums about its rows (M62).

The answers of one release are about known rows. Answers whose rows lie apart are in windows of their own, with messages
between them; those whose rows overlap share a window. What rows add to an answer does not depend on the noise. So the
windows and their laws without noise are found once, for all scales that a calibration tries.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.chain_parts import ChainPart, Way, leak_of_parts
from pufferflow.distributions.markov.state_loss import Exposures, Leak, Secrets
from pufferflow.distributions.markov.window_sums import (
    NoisySum,
    WindowSums,
    lattice_of,
)

_MOST_WINDOWS = 4_000
_RAYS = (1, 1, 2, 6, 20, 70)
"""The most extreme rays of a message, by the number of states."""
_MARGIN = 1e-9
"""Where exposures say as much as laws, as for two states that stay, the simpler bound is to carry the proof."""


class LatticeSum(NamedTuple):
    """An answer about some rows: row `first` + i in state x adds `terms[i, x]` steps of width `unit`."""

    first: int
    terms: Indices
    unit: float

    @property
    def end(self) -> int:
        """The row after the last."""
        return self.first + len(self.terms)

    def among(self, first: int, end: int) -> "LatticeSum":
        """Return the same answer about more rows, which add nothing."""
        around = (self.first - first, end - self.end), (0, 0)
        return LatticeSum(first, np.pad(self.terms, around), self.unit)


class Window(NamedTuple):
    """Consecutive rows and the answers about them: sums with a loss of 1 per step, and the widths of these steps."""

    first: int
    sums: WindowSums
    units: tuple[float, ...]

    @property
    def end(self) -> int:
        """The row after the last."""
        return self.first + self.sums.rows


@final
@dataclass(frozen=True, eq=False)
class RowSums:
    """What rows add: row t in state x adds `adds[kinds[t], o, x]` to answer o about its cell.

    Without `cells` all rows are in one cell. A row in cell −1 adds nothing.
    """

    adds: Floats
    kinds: Indices
    cells: Indices | None = None

    @cached_property
    def windows(self) -> Sequence[Window]:
        """The windows in the order of their rows; equal ones share their sums.

        There are none if no window has several rows and few values, if they are too many, or on no lattice.
        """
        known, found = dict[tuple[object, ...], WindowSums](), list[Window]()
        for first, end, answers in _together(self._answers()):
            every = [one.among(first, end) for one in answers]
            key = tuple((one.terms.tobytes(), one.unit) for one in every)
            if key not in known:
                known[key] = WindowSums(tuple(NoisySum(one.terms, 1.0) for one in every))
            found.append(Window(first, known[key], tuple(one.unit for one in every)))
        return found if any(one.sums.rows > 1 and one.sums.few for one in found) else ()

    def _answers(self) -> list[LatticeSum]:
        """Return the answers that some row moves, by cells; none if one is on no lattice, or they are many."""
        moves = self.adds - self.adds.min(axis=2, keepdims=True)
        found = list[LatticeSum]()
        for answer in range(moves.shape[1]):
            lattice = lattice_of(np.append(moves[:, answer], 0.0))
            if lattice is None:
                return []
            steps = lattice[0][:-1].reshape(len(moves), -1)
            moving: Flags = np.asarray(steps.any(axis=1))
            for rows in self._rows_by_cell(moving[self.kinds]):
                first, end = int(rows[0]), int(rows[-1]) + 1
                terms = np.zeros((end - first, steps.shape[1]), dtype=np.int64)
                terms[rows - first] = steps[self.kinds[rows]]
                found.append(LatticeSum(first, terms, lattice[1]))
                if len(found) > _MOST_WINDOWS:
                    return []
        return found

    def _rows_by_cell(self, moving: Flags) -> Iterator[Indices]:
        """Yield the rows of each cell among those that move an answer."""
        rows = np.flatnonzero(moving)
        if self.cells is None:
            if len(rows):
                yield rows
            return
        rows = rows[self.cells[rows] >= 0]
        rows = rows[np.argsort(self.cells[rows], kind="stable")]
        starts = np.flatnonzero(np.diff(self.cells[rows])) + 1
        yield from (one for one in np.split(rows, starts) if len(one))

    @property
    def work(self) -> float:
        """The number of likelihoods that are compared for one scale; 0 where there are no windows."""
        total, states = 0, int(self.adds.shape[2])
        for one in {id(one.sums): one.sums for one in self.windows}.values():
            points = math.prod(one.shape)
            each = points * states**3 + _RAYS[states] ** 2 if one.few else 0
            total += one.rows * points * each
        return float(total)


def _together(answers: Sequence[LatticeSum]) -> Iterator[tuple[int, int, list[LatticeSum]]]:
    """Yield the first row, the row after the last, and the answers of windows; answers that overlap share one."""
    some, end = list[LatticeSum](), 0
    for one in sorted(answers, key=lambda answer: (answer.first, answer.end)):
        if some and one.first >= end:
            yield some[0].first, end, some
            some = []
        some, end = [*some, one], max(end, one.end) if some else one.end
    if some:
        yield some[0].first, end, some


@final
@dataclass(frozen=True, eq=False)
class AnswersInWindows:
    """Noisy answers along a chain, whose rows have `kinds` of exposures, and sums in `windows`."""

    chain: Chain
    windows: Sequence[Window]
    kinds: Indices
    secrets: Secrets

    def leak(self, losses: Floats, step_loss: Callable[[float], float]) -> Leak:
        """Return the largest leak about a row, from the losses of each kind of row, and the loss of a sum's step."""
        known, parts, at = dict[tuple[bytes, int], list[Way]](), list[ChainPart](), 0
        for window in [*self.windows, None]:
            first = self.chain.length if window is None else window.first
            if first > at:
                kinds = self.kinds[at:first]
                silent = known.setdefault((kinds.tobytes(), 0), [Way(Exposures(losses, kinds))])
                parts.append(ChainPart(at, silent))
            if window is not None:
                kinds = self.kinds[first : window.end]
                key = kinds.tobytes(), id(window.sums)
                if key not in known:
                    sums = window.sums.at([step_loss(unit) for unit in window.units])
                    known[key] = [Way(Exposures(losses, kinds), sums)]
                parts.append(ChainPart(first, known[key]))
                at = window.end
        worst = leak_of_parts(self.chain, parts, self.secrets)
        return replace(worst, value=worst.value * (1 + _MARGIN))
