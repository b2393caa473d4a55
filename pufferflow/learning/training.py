"""Projected noisy gradient descent over the rows of a table; only the last iterate is published (M33, M34).

Rows are read in one public random order, the same in every pass, in batches whose sizes differ by at most one. A step
projects the iterate onto a ball, moves it against the mean gradient of its batch, and adds noise. Its result is rounded
to a grid, so the draw is a rounding of an iterate with Gaussian noise (M13). The movement of two iterates by this
rounding is counted.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.progress import working
from pufferflow.core.rounding import UNIT, upwards
from pufferflow.engines.model_rows import inverse
from pufferflow.learning.descent import Descent
from pufferflow.learning.displacements import Coupling, Displacements
from pufferflow.learning.iteration import DRAWN, FINE, fine_grid
from pufferflow.learning.model_columns import Objective, RowsInOrder, ScaledRows
from pufferflow.learning.model_plan import Carried, Fitting
from pufferflow.learning.shifts import deviations
from pufferflow.learning.sums import TYPICAL
from pufferflow.noise.gaussian import Gaussian
from pufferflow.published.certificate import NoisySum

_MOST_AT_ONCE: Final = 1 << 16
_NUMBERS: Final = 1 << 17
"""The number of numbers that are read at once: they stay in the processor's cache, and one thread adds them up."""
_ROUND: Final = 1 + 2.0**-36


@final
@dataclass(frozen=True, eq=False)
class Training(Fitting):
    """A descent on rows with `hidden` columns (the target last), with noise calibrated for some priors."""

    objective: Objective
    penalty: float
    step_size: float
    batches: int
    passes: int
    intercept: bool = True
    row_norm: float = math.inf
    """The length to which the features of a row are cut."""
    proof = "the last iterate of a noisy descent, by shifts (M33, M34)"

    @property
    def descent(self) -> Descent:
        """The descent, with constants that follow from declared bounds; it checks the step size."""
        return replace(self._unscaled, noise=self.scale)

    @cached_property
    def scale(self) -> float:
        """σ: the standard deviation of the noise of each step, for each weight of a scaled column."""
        return upwards(max(one.scale for one in self.carried), 4 * UNIT) * DRAWN

    @property
    def carried(self) -> tuple[Carried, ...]:
        """The proof of each prior, with the noise that it needs."""
        spare, promise = self._by_grid, self.promise

        def length(coupling: Coupling) -> float:
            return self._deviations(coupling, 1.0)

        return tuple(
            belief.carried(length, promise, pure=False, spare=spare) for belief in self.beliefs
        )

    @property
    def noise(self) -> NoisySum:
        """The noise in words."""
        return NoisySum(
            f"each of {self._steps} steps", Gaussian.__name__, self.scale, str(self._grid)
        )

    @property
    def expected_error(self) -> float:
        """The error of predictions by the noise that remains after all steps, and by the distance that the steps leave.

        For features whose mean square is h, noise of variance σ² shrinks by 1 − ηh a step. So does the distance to
        coefficients of length 1. It shrinks less if gradients of rows with half of the steepest slope are cut.
        """
        typical = math.sqrt(self.intercept + TYPICAL * (len(self.hidden) - 1))
        left_of_slopes = min(2 * self.objective.clip / typical, 1.0)
        pull = (
            TYPICAL / (4 if self.objective.name == "logistic" else 1) * left_of_slopes
            + self.penalty
        )
        shrinks = max(1 - self.step_size * pull, 0.0)
        left = self.scale**2 * (1 - shrinks ** (2 * self._steps)) / (1 - shrinks**2)
        return math.sqrt(
            min(TYPICAL * (len(self.hidden) * left + shrinks ** (2 * self._steps)), TYPICAL)
        )

    def movement(self, coupling: Coupling) -> float:
        """Return the movement of the last iterate in deviations of one Gaussian."""
        return (self._deviations(coupling, self.scale) + self._by_grid) * _ROUND

    def displacements(self, coupling: Coupling) -> Displacements:
        """Return the movement of each step of all passes, for the secrets that lose most."""
        once = coupling.displacements(
            self.order, self.step_of, lambda shares: self._length(coupling, shares)
        )
        parts = [once.part(place) for place in range(once.count)] if self.passes > 1 else []
        starts = np.arange(self.passes)[:, None] * self.batches
        again = [((starts + at).ravel(), np.tile(sizes, self.passes)) for at, sizes in parts]
        return Displacements.of_parts(again) if again else once

    @cached_property
    def step_of(self) -> Indices:
        """The batch of each row: a random order that follows from public facts, and need not be secret."""
        seed = int.from_bytes(hashlib.sha256(self.order.digest.encode()).digest()[:8], "little")
        rows = self.order.rows
        if self.order.single_rows:  # they are shuffled as they are read
            return np.arange(rows) * self.batches // rows
        steps = np.empty(rows, dtype=np.intp)
        steps[np.random.default_rng(seed).permutation(rows)] = (
            np.arange(rows) * self.batches // rows
        )
        return steps

    @property
    def visits(self) -> Indices | None:
        """The place of each row in a pass; None for rows that are visited in their own order."""
        return None if self.order.single_rows else inverse(np.argsort(self.step_of, kind="stable"))

    def fit(self, rows: ScaledRows, start: Floats | None) -> Floats:
        """Return the last iterate, projected onto the ball, the intercept first."""
        with rows.in_order(self.visits) as visited:
            return self.last_iterate(visited, start)

    def last_iterate(self, rows: RowsInOrder, start: Floats | None) -> Floats:
        """Return the last iterate for rows in the order in which they are visited."""
        first = (
            np.zeros(rows.columns)
            if start is None
            else np.append(start[0] * self.intercept, start[1:])
        )
        weights = self._projected(first)
        with working("visiting rows", self._steps) as work:
            for step, noise in enumerate(self._noise(len(weights))):
                weights = self._step(rows, step % self.batches, weights, noise)
                work.advance()
        return self._projected(weights)

    def _step(self, rows: RowsInOrder, batch: int, weights: Floats, noise: Floats) -> Floats:
        """Return the next iterate; it is rounded to the grid before noise is added to it."""
        grid, here = float(self._grid), self._projected(weights)
        moved = here - self.step_size * self.penalty * np.append(0.0, here[1:])
        moved -= self.step_size / self._largest_batch * self._gradient(rows, batch, here)
        weights = (np.rint(moved / grid) + noise) * grid
        if not self.intercept:
            weights[0] = 0.0
        return weights

    def _gradient(self, rows: RowsInOrder, batch: int, here: Floats) -> Floats:
        """Return the sum of the gradients of a batch, read some rows at a time."""
        low, high = (-(-place * self.order.rows // self.batches) for place in (batch, batch + 1))
        size, total = max(_NUMBERS // rows.columns, 1), np.zeros(len(here))
        for start in range(low, high, size):
            some = rows.read(start, min(start + size, high))
            features = self._cut(some[:, :-1])
            slopes = self.objective.derivatives(
                features @ here[1:] + here[0], some[:, -1], self._lengths(features)
            )
            total[1:] += slopes @ features
            total[0] += slopes.sum()
        return total

    def _lengths(self, features: Floats) -> Floats | float:
        """Return the length of rows with the 1 of the intercept, rounded up; unused if gradients are not cut."""
        if self.objective.clip == math.inf:
            return 0.0
        return np.sqrt(np.einsum("ij,ij->i", features, features) + self.intercept) * _ROUND

    def _cut(self, features: Floats) -> Floats:
        """Return features cut to the length `row_norm`."""
        if self.row_norm == math.inf:
            return features
        lengths = np.sqrt(np.einsum("ij,ij->i", features, features))
        return features * (self.row_norm / np.maximum(lengths, self.row_norm))[:, None]

    def _noise(self, weights: int) -> Iterator[Floats]:
        """Yield the noise of each step in widths of the grid, drawn for many steps at once."""
        unit, at_once = Gaussian(self.scale / float(self._grid)), max(_MOST_AT_ONCE // weights, 1)
        for start in range(0, self._steps, at_once):
            size = min(at_once, self._steps - start), weights
            yield from unit.release(np.zeros(size, dtype=np.int64), grid=1).values

    def _projected(self, weights: Floats) -> Floats:
        length = math.sqrt(float(weights @ weights))
        return (
            weights * (self.objective.radius / length)
            if length > self.objective.radius
            else weights
        )

    def _length(self, coupling: Coupling, shares: Floats) -> Floats:
        """Return the movement of a step by a row that moves by some shares."""
        reach = np.where(self.hidden, 2 * coupling.columns, 0.0)
        # beyond the cap of one column others still grow: the lengths of all columns, each cut at 2
        squares = np.zeros(len(shares))
        for own in reach[:-1].tolist():
            squares += np.minimum(shares * own, 2.0) ** 2
        features = np.minimum(np.sqrt(squares), 2 * self.row_norm)
        moved = self.objective.moved(
            features * _ROUND, np.minimum(shares * reach[-1], 2.0) * _ROUND
        )
        return moved * (self.step_size / self._largest_batch) * _ROUND

    def _deviations(self, coupling: Coupling, scale: float) -> float:
        """Return the deviations of one Gaussian that the iteration is equivalent to with this noise."""
        key = id(coupling.prior), coupling.columns.tobytes(), coupling.single
        if key not in self.known_movements:
            iteration = self._unscaled.iteration
            self.known_movements[key] = float(
                deviations(iteration, self.displacements(coupling)).max(initial=0.0)
            )
        return self.known_movements[key] / scale * (1 + 2 * UNIT)

    @cached_property
    def _unscaled(self) -> Descent:
        size = self._largest_batch
        return Descent(
            rows=size * self.batches,
            step_size=self.step_size,
            noise=1.0,
            lipschitz=self.objective.lipschitz,
            smoothness=(self.objective.smoothness + self.penalty) * (1 + 4 * UNIT),
            batch_size=size,
            passes=self.passes,
            strong_convexity=0.0 if self.intercept else self.penalty,
        )

    @property
    def _steps(self) -> int:
        return self.batches * self.passes

    @property
    def _largest_batch(self) -> int:
        return -(-self.order.rows // self.batches)

    @property
    def _grid(self) -> Fraction:
        """The grid of iterates."""
        return fine_grid(self.scale)

    @property
    def _by_grid(self) -> float:
        """The deviations by which rounding moves iterates apart: by up to a width for each weight, twice in each step.

        It is hidden where it occurs, so it adds to a shift of that step. The root of Σ(a + e)² is at most √Σa² + e√T.
        """
        weights = len(self.hidden) - 1 + self.intercept
        return 2 * 2 / FINE * math.sqrt(weights * self._steps)
