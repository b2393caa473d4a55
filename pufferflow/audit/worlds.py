"""Two worlds: the answers under either value of a secret, drawn one by one, with the noise of a real release.

Rows may be generated: the states of one sequence given the state of one of its rows, summed as a batch sums them. Given
X_t the future is a chain, and so is the past, read backwards by Bayes. The law of several answers about a long sequence
has too many values to list, but draws are few numbers. Only answers about cells near the row are kept, and only rows
from the first to the last of them are drawn. Leaving out the rest is post-processing, under which the guarantee holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol, final

import numpy as np
import numpy.typing as npt

from pufferflow.calibration.laws import Witness
from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.validate import instance
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.gaussian_law import GaussianLaw
from pufferflow.distributions.markov.chain import Chain
from pufferflow.models.priors.hidden_markov import HiddenMarkov
from pufferflow.models.priors.markov import MarkovChain
from pufferflow.models.secret import Derived, Initial, Secret
from pufferflow.noise.base import Noise
from pufferflow.noise.sampler import Noisy
from pufferflow.release.explain.worst_pair import Origin
from pufferflow.release.planning.calibrated_noise import CalibratedNoise

Generator = np.random.Generator
_WHOLE = 2.0**53
_POINTS = 256


class World(Protocol):
    """The law of an answer without noise, from which answers can be drawn."""

    def draw(self, count: int, rng: Generator) -> Sequence[npt.NDArray[Any]]:
        """Return answers, an array of numbers for each coordinate."""
        ...

    def points(self) -> tuple[Floats, Floats]:
        """Return points of shape (m, d) and weights that approximate the law: they only choose likely events."""
        ...


@final
@dataclass(frozen=True, eq=False)
class Finite:
    """Answers of a finite law."""

    law: Law

    def draw(self, count: int, rng: Generator) -> Sequence[npt.NDArray[Any]]:
        """Return atoms as they are: whole numbers, floats or Fractions."""
        places = np.searchsorted(self._cumulated, rng.random(count), side="right")
        return [column[places] for column in self._columns]

    def points(self) -> tuple[Floats, Floats]:
        """Return the atoms."""
        return self.law.values.reshape(len(self.law), -1).astype(np.float64), self.law.probabilities

    @cached_property
    def _cumulated(self) -> Floats:
        total = np.cumsum(self.law.probabilities)
        return total[:-1] / total[-1]

    @cached_property
    def _columns(self) -> list[npt.NDArray[Any]]:
        return [plain(column) for column in self.law.values.reshape(len(self.law), -1).T]


@final
@dataclass(frozen=True, eq=False)
class Normal:
    """Answers of a Gaussian law."""

    law: GaussianLaw

    def draw(self, count: int, rng: Generator) -> Sequence[npt.NDArray[Any]]:
        """Return floats."""
        return list(
            (rng.standard_normal((count, len(self._root))) @ self._root.T + self.law.mean).T
        )

    def points(self) -> tuple[Floats, Floats]:
        """Return quantiles of equal weight; for vectors, draws with a fixed seed."""
        if len(self.law.mean) == 1:
            from scipy import special

            units = special.ndtri((np.arange(_POINTS) + 0.5) / _POINTS)[:, None]
        else:
            units = np.random.default_rng(1).standard_normal((_POINTS, len(self.law.mean)))
        return units @ self._root.T + self.law.mean, np.full(_POINTS, 1 / _POINTS)

    @cached_property
    def _root(self) -> Floats:
        sizes, directions = np.linalg.eigh(self.law.covariance)
        return directions * np.sqrt(np.maximum(sizes, 0.0))


@final
@dataclass(frozen=True, eq=False)
class Mechanism:
    """The noise of each coordinate, and its grid; None for the one that the noise chooses itself (M13)."""

    noises: tuple[Noise, ...]
    grids: tuple[Fraction | None, ...]

    @classmethod
    def of(cls, noise: Noise, dimension: int) -> "Mechanism":
        """Return one noise in every coordinate."""
        return cls((noise,) * dimension, (None,) * dimension)

    def release(self, answers: Sequence[npt.NDArray[Any]], rng: Generator | None) -> Floats:
        """Return answers with noise, of shape (n, d), drawn as a release draws them."""
        parts = zip(self.noises, self.grids, answers, strict=True)
        noisy: list[Noisy] = [noise.release(column, rng, grid) for noise, grid, column in parts]
        return np.stack([noisy_answers.values for noisy_answers in noisy], axis=1)


@final
@dataclass(frozen=True, eq=False)
class Duel:
    """Two worlds that a mechanism has to make indistinguishable.

    It has the `names` of both secrets, and a `note` on them.
    """

    worlds: tuple[World, World]
    mechanism: Mechanism
    names: tuple[str, str]
    prior: str = ""
    note: str = ""

    def draw(self, side: int, count: int, rng: Generator | None) -> Floats:
        """Return noisy answers of one world; without `rng`, noise is the operating system's randomness."""
        own = (
            np.random.default_rng() if rng is None else rng
        )  # which is seeded by the operating system
        return self.mechanism.release(self.worlds[side].draw(count, own), rng)

    def words(self, first: int) -> str:
        """Return in words which secret is distinguished from which."""
        return f"{self.names[first]} against {self.names[1 - first]}{self.prior}"


def world_of(law: Law | GaussianLaw) -> World:
    """Return the world with this law of the answer."""
    return Finite(law) if isinstance(law, Law) else Normal(law)


def plain(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return numbers as integers if all of them are whole, which are released fastest."""
    floats = column.astype(np.float64)
    whole = (
        bool((column == np.floor(floats)).all()) and float(np.abs(floats).max(initial=0.0)) < _WHOLE
    )
    return floats.astype(np.int64) if whole else column


def read_rng(rng: object) -> Generator | None:
    """Return the generator, if it is one."""
    if rng is None:
        return None
    allowed = "None for the operating system's randomness, or a numpy.random.Generator for tests"
    return instance(
        rng, Generator, "rng", allowed=allowed, instead="rng=numpy.random.default_rng(1)"
    )


_MOST_CELLS = 8
_MOST_ROWS = 400
_MOST_STARTS = 4
_SKETCH = 4096


@final
@dataclass(frozen=True, eq=False)
class RowWorlds:
    """Two worlds of generated rows, and the measure of each of their answers."""

    worlds: tuple[World, World]
    measures: tuple[int, ...]
    note: str


@final
@dataclass(frozen=True, eq=False)
class Path:
    """Sums of a stretch of rows given one row's state: `cells` has the answer of each row, −1 for none."""

    kernels: Floats
    order: Indices
    law: Floats
    """The law of the first row of the stretch."""
    row: int
    state: int
    cells: Indices
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
        """Return sums of draws with a fixed seed."""
        drawn = np.array(self.draw(_SKETCH, np.random.default_rng(1)), dtype=np.float64).T
        points, counts = np.unique(drawn, axis=0, return_counts=True)
        return points, counts / _SKETCH

    def _add(self, sums: Floats, row: int, states: Indices) -> None:
        if self.cells[row] >= 0:
            sums[self.cells[row]] += self.tables[:, states]

    @cached_property
    def _backwards(self) -> list[Floats]:
        """The kernels from each row but the first to the one before: P(X_t = u | X_{t+1} = x)."""
        law, kernels = self.law, list[Floats]()
        for kernel in self.order:
            joint = (law[:, None] * self.kernels[kernel]).T
            law = joint.sum(axis=1)
            kernels.append(joint / np.where(law > 0, law, 1.0)[:, None])
        return kernels


def paths(plan: CalibratedNoise, origin: Origin) -> list[RowWorlds]:
    """Return worlds of rows of a chain, one for each law of its first row; none if they cannot be drawn.

    One answer alone has a law that can be listed, which is quicker.
    """
    pattern = origin.pattern
    if pattern.covers or pattern.positions is None or pattern.answers * len(plan.weights) < 2:
        return []
    drawn = _drawn(origin, plan.calibration.witness)
    return [] if drawn is None else _worlds(plan, origin, drawn)


@final
@dataclass(frozen=True, eq=False)
class _Drawn:
    """The rows of a chain that are drawn, the secret's row and its two states, and the cells of rows."""

    chain: Chain
    row: int
    states: list[int]
    cells: Indices
    per_row: int = 1
    """How many rows of the chain are drawn for a row of the data: two along a hidden chain, state and symbol."""


def _drawn(origin: Origin, witness: Witness) -> _Drawn | None:
    """Return the rows to draw; None where they are on no single chain, or the secret is no state of it."""
    prior, secret, pattern = origin.tables.prior, origin.tables.secret, origin.pattern
    values, row, cells = witness.secrets or (), witness.row or 0, pattern.cells
    positions = np.asarray(pattern.positions, dtype=np.float64)
    if isinstance(prior, HiddenMarkov) and isinstance(secret, Derived):
        hidden = prior.hidden_chain(positions, pattern.start)
        states = [prior.names.index(value) * hidden.states for value in values]
        apart = np.stack([np.full(len(cells), -1), cells], axis=1).reshape(-1)
        return _Drawn(hidden.unfolded, 2 * row, states, apart, per_row=2)
    if not isinstance(prior, MarkovChain) or not isinstance(secret, Secret | Initial):
        return None
    if isinstance(secret, Initial):
        row = 0
        if positions[0] > pattern.start:
            positions, cells = np.append(pattern.start, positions), np.append(-1, cells)
    states = [secret.domain.place(value, "a value") for value in values]
    return _Drawn(prior.chain(positions, pattern.start), row, states, cells)


def _worlds(plan: CalibratedNoise, origin: Origin, drawn: _Drawn) -> list[RowWorlds]:
    """Return the worlds for every law of the first row under which both states are possible."""
    stretch, chain = _stretch(drawn.cells, drawn.row), drawn.chain
    if stretch is None:
        return []
    first, cells = stretch
    measures = np.flatnonzero(plan.weights > 0)
    tables = np.array([origin.tables.row(measure) for measure in measures.tolist()])
    tables = tables - tables.min(axis=1, keepdims=True)
    tables = np.tile(tables, (1, chain.states // tables.shape[1]))
    order = chain.order[first : first + len(cells) - 1]
    worlds = list[RowWorlds]()
    for initial in chain.initial[:_MOST_STARTS]:
        law, middle = _law_after(chain, initial, first), _law_after(chain, initial, drawn.row)
        if (middle[drawn.states] > 0).all():
            path, other = (
                Path(chain.kernels, order, law, drawn.row - first, state, cells, tables)
                for state in drawn.states
            )
            count, rows = int(cells.max()) + 1, -(-len(cells) // drawn.per_row)
            note = f"{rows} rows were generated from the prior, given the secret, and summed in {count} cells"
            worlds.append(RowWorlds((path, other), (*measures.tolist(),) * count, note))
    return worlds


def _stretch(cells: Indices, row: int) -> tuple[int, Indices] | None:
    """Return the first row to draw and the answers, numbered anew; None if the row is far from all of them."""
    counted = np.flatnonzero(cells >= 0)
    if len(counted) == 0:
        return None
    near = counted[np.argsort(np.abs(counted - row), kind="stable")]
    distinct, place = np.unique(cells[near], return_index=True)
    nearest = distinct[np.argsort(place)]
    for many in range(min(_MOST_CELLS, len(nearest)), 0, -1):
        rows = np.flatnonzero(np.isin(cells, nearest[:many]))
        first, last = min(int(rows[0]), row), max(int(rows[-1]), row)
        if last - first < _MOST_ROWS:
            own = cells[first : last + 1]
            known = np.sort(nearest[:many])
            return first, np.where(np.isin(own, known), np.searchsorted(known, own), -1)
    return None


def _law_after(chain: Chain, law: Floats, end: int) -> Floats:
    for kernel in chain.order[:end]:
        law = law @ chain.kernels[kernel]
    return law


def _next(kernel: Floats, states: Indices, rng: Generator) -> Indices:
    """Return where each state goes in one step."""
    ends = kernel.cumsum(axis=1)
    ends = ends / ends[:, -1:]
    return (rng.random(len(states))[:, None] >= ends[states, :-1]).sum(axis=1)
