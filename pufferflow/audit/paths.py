"""Generated rows: the states of one sequence given the state of one of its rows, summed as a batch sums them.

Given X_t the future is a chain, and so is the past, read backwards by Bayes. Several answers about a long sequence are
too many for a law to list; drawn they are few numbers. Only answers about cells near the row are kept, and only rows
from the first to the last of them are drawn: what is left out is post-processing, and the promise holds without it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pufferflow.audit.worlds import Generator, World
from pufferflow.messages import Chain
from pufferflow.plan.origin import Origin
from pufferflow.plan.planned import Planned
from pufferflow.priors import MarkovChain
from pufferflow.secrets import Initial, Secret

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.intp]
_MOST_CELLS = 8
_MOST_ROWS = 400
_MOST_STARTS = 4
_SKETCH = 4096


@final
@dataclass(frozen=True, eq=False)
class Drawn:
    """Two worlds of rows that are drawn, and the measure of each of their answers."""

    worlds: tuple[World, World]
    measures: tuple[int, ...]
    note: str


@final
@dataclass(frozen=True, eq=False)
class Path:
    """Sums of a stretch of rows given one row's state: `cells` has the answer of each row, −1 for none."""

    kernels: Floats
    order: Whole
    law: Floats
    """The law of the first row of the stretch."""
    row: int
    state: int
    cells: Whole
    tables: Floats
    """What a row in each state adds to each measure, in whole steps: shape (measures, k)."""

    def draw(self, count: int, rng: Generator) -> Sequence[npt.NDArray[Any]]:
        """Return the sums of each cell, measure by measure."""
        sums = np.zeros((int(self.cells.max()) + 1, len(self.tables), count))
        start = np.full(count, self.state, dtype=np.intp)
        self._add(sums, self.row, start)
        states = start
        for row in range(self.row + 1, len(self.cells)):
            states = _next(self.kernels[self.order[row - 1]], states, rng)
            self._add(sums, row, states)
        states = start
        for row in range(self.row - 1, -1, -1):
            states = _next(self._backwards[row], states, rng)
            self._add(sums, row, states)
        return list(sums.reshape(-1, count).astype(np.int64))

    def points(self) -> tuple[Floats, Floats]:
        """Return sums that are drawn, always the same ones."""
        drawn = np.array(self.draw(_SKETCH, np.random.default_rng(1)), dtype=np.float64).T
        points, counts = np.unique(drawn, axis=0, return_counts=True)
        return points, counts / _SKETCH

    def _add(self, sums: Floats, row: int, states: Whole) -> None:
        if self.cells[row] >= 0:
            sums[self.cells[row]] += self.tables[:, states]

    @cached_property
    def _backwards(self) -> list[Floats]:
        """The kernels from each row but the first to the one before: P(X_t = u | X_{t+1} = x)."""
        law, found = self.law, list[Floats]()
        for kernel in self.order:
            joint = (law[:, None] * self.kernels[kernel]).T
            law = joint.sum(axis=1)
            found.append(joint / np.where(law > 0, law, 1.0)[:, None])
        return found


def paths(plan: Planned, origin: Origin) -> list[Drawn]:
    """Return worlds of rows of a chain, one for each law of its first row; nothing where they cannot be drawn.

    One answer alone has a law that can be listed, which is quicker.
    """
    prior, secret, pattern = origin.tables.prior, origin.tables.secret, origin.pattern
    if not isinstance(prior, MarkovChain) or pattern.covers or pattern.positions is None:
        return []
    if not isinstance(secret, Secret | Initial) or pattern.answers * len(plan.weights) < 2:
        return []
    positions, cells, row = pattern.positions, pattern.cells, plan.calibration.witness.row or 0
    if isinstance(secret, Initial):
        row = 0
        if positions[0] > pattern.start:
            positions, cells = np.append(pattern.start, positions), np.append(-1, cells)
    found = _stretch(cells, row)
    if found is None:
        return []
    chain = prior.chain(positions, pattern.start)
    states = [secret.domain.place(value, "a value") for value in plan.calibration.witness.secrets or ()]
    return _worlds(plan, origin, chain, found, (row, states[0], states[1]))


def _worlds(
    plan: Planned, origin: Origin, chain: Chain, stretch: tuple[int, Whole], at: tuple[int, int, int]
) -> list[Drawn]:
    """Return the worlds for every law of the first row under which both states can be."""
    (first, cells), (row, *states) = stretch, at
    measures = np.flatnonzero(plan.weights > 0)
    tables = origin.tables.values[measures]
    tables = tables - tables.min(axis=1, keepdims=True)
    order = chain.order[first : first + len(cells) - 1]
    found = list[Drawn]()
    for initial in chain.initial[:_MOST_STARTS]:
        law, middle = _moved(chain, initial, 0, first), _moved(chain, initial, 0, row)
        if (middle[states] > 0).all():
            one, other = (Path(chain.kernels, order, law, row - first, state, cells, tables) for state in states)
            kept = (*measures.tolist(),) * (int(cells.max()) + 1)
            found.append(Drawn((one, other), kept, _note(len(cells), int(cells.max()) + 1)))
    return found


def _stretch(cells: Whole, row: int) -> tuple[int, Whole] | None:
    """Return the first of the rows to draw and their answers, numbered anew; None if the row is far from any."""
    asked = np.flatnonzero(cells >= 0)
    if len(asked) == 0:
        return None
    near = asked[np.argsort(np.abs(asked - row), kind="stable")]
    distinct, place = np.unique(cells[near], return_index=True)
    nearest = distinct[np.argsort(place)]
    for many in range(min(_MOST_CELLS, len(nearest)), 0, -1):
        kept = np.flatnonzero(np.isin(cells, nearest[:many]))
        first, last = min(int(kept[0]), row), max(int(kept[-1]), row)
        if last - first < _MOST_ROWS:
            own = cells[first : last + 1]
            known = np.sort(nearest[:many])
            return first, np.where(np.isin(own, known), np.searchsorted(known, own), -1)
    return None


def _moved(chain: Chain, law: Floats, start: int, end: int) -> Floats:
    for kernel in chain.order[start:end]:
        law = law @ chain.kernels[kernel]
    return law


def _next(kernel: Floats, states: Whole, rng: Generator) -> Whole:
    """Return where each state goes in one step."""
    ends = kernel.cumsum(axis=1)
    ends = ends / ends[:, -1:]
    return (rng.random(len(states))[:, None] >= ends[states, :-1]).sum(axis=1)


def _note(rows: int, cells: int) -> str:
    return f"{rows} rows were generated from the prior, given the secret, and summed in {cells} cells"
