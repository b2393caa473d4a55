"""Projected noisy gradient descent on rows in a public order: movements of its steps, from public constants (M33)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import UNIT
from pufferflow.core.validate import in_few_digits, instance, number_above, set_fields
from pufferflow.learning.displacements import (
    Displacements,
    listed,
    read_array,
    read_count,
    read_size,
    read_sizes,
)
from pufferflow.learning.iteration import Iteration
from pufferflow.noise.gaussian import Gaussian

_SLACK = 1 + 8 * UNIT
_MOVED = "rows that move, in rising order, and a distance >= 0 for each"
_SOME = "[([3, 7], [2.0, 1.0])]"


@final
@dataclass(frozen=True)
class Descent(InNotebooks):
    """W_t = ψ_t(Π(W_{t−1})) + N(0, noise²), ψ_t(v) = v − step_size · (mean gradient over the rows of batch t, at v).

    Rows are visited in a public order, `batch_size` at a time, in the same order in each of `passes`. The last batch of
    a pass may be smaller. Iterates are projected onto a public convex set K *before* each gradient: noise leads out of
    K, and gradients are never taken there.

    On K the loss of each row is convex in w, with second derivatives from `strong_convexity` to `smoothness`. Its
    gradient has at most the length `lipschitz`, and changes by at most `data_lipschitz` · ‖x − x′‖ with the row. A
    penalty that is the same for all rows counts in the convexities, not in these two. Such a step is a contraction if
    step_size ≤ 2/smoothness. If losses are not `convex`, it expands by up to 1 + step_size · smoothness. All constants
    are declared, never derived from the rows.

    >>> import pufferflow as pf
    >>> descent = pf.learning.Descent(rows=10, step_size=0.5, noise=1.0, lipschitz=1.0, smoothness=1.0)
    >>> descent.iteration.steps, descent.displacements_of([([9], [math.inf])]).sizes
    (10, array([1.]))
    """

    rows: int
    step_size: float
    noise: float
    lipschitz: float
    smoothness: float
    data_lipschitz: float = math.inf
    batch_size: int = 1
    passes: int = 1
    strong_convexity: float = 0.0
    convex: bool = True

    def __post_init__(self) -> None:
        for name in ("rows", "batch_size", "passes"):
            set_fields(self, **{name: read_count(getattr(self, name), name)})
        for name in ("step_size", "noise", "smoothness"):
            set_fields(self, **{name: number_above(getattr(self, name), name, 0.0, f"{name}=0.1")})
        for name in ("lipschitz", "data_lipschitz", "strong_convexity"):
            set_fields(self, **{name: read_size(getattr(self, name), name, f"{name}=1.0")})
        instance(self.convex, bool, "convex", allowed="True or False", instead="convex=False")
        self._check_constants()

    def _check_constants(self) -> None:
        """Refuse constants that give no bound on a step."""
        read_count(self.rows * self.passes, "rows times passes")
        if self.strong_convexity > self.smoothness:
            raise UsageError(
                f"strong_convexity is {in_few_digits(self.strong_convexity)}, above smoothness.",
                allowed="a number from 0 to smoothness",
                instead="strong_convexity=0.0",
            )
        if self.lipschitz == math.inf and self.data_lipschitz == math.inf:
            raise UsageError(
                "Neither lipschitz nor data_lipschitz is finite: a row may move a step by any amount.",
                allowed="a bound on gradients over the projection's set, or on how they change with a row",
                instead="lipschitz=1.0, with clipped rows",
            )
        if self.convex and self.step_size * self.smoothness > 2:
            most = 2 / self.smoothness
            raise UsageError(
                f"step_size is {in_few_digits(self.step_size)}, above 2/smoothness = {most:g}: steps do not contract.",
                allowed="a step size up to 2/smoothness",
                instead=f"step_size={most / 2:g}",
            )
        if not self.convex and self.strong_convexity:
            raise UsageError(
                "strong_convexity is above 0, and convex is False.",
                allowed="one of them",
                instead="convex=True",
            )

    @property
    def steps_per_pass(self) -> int:
        """The number of batches of a pass."""
        return -(-self.rows // self.batch_size)

    @property
    def contraction(self) -> float:
        """The Lipschitz constant of a step: max(|1 − ηm|, |1 − ηβ|), or 1 + ηβ without convexity; rounded up."""
        bent = self.step_size * self.smoothness
        if not self.convex:
            return 1 + bent * _SLACK
        least = self.step_size * self.strong_convexity * (1 - UNIT)
        return max(1 - least + (2 * UNIT if least else 0.0), abs(1 - bent) + 4 * UNIT)

    @property
    def iteration(self) -> Iteration:
        """The steps, their noise and their contraction."""
        return Iteration(self.steps_per_pass * self.passes, Gaussian(self.noise), self.contraction)

    def check(self, iteration: Iteration) -> None:
        """Refuse an iteration whose steps are not those of the descent, by number, norm or contraction.

        Steps that contract less than the descent's do are allowed: they bound it as well.
        """
        steps = self.steps_per_pass * self.passes
        if iteration.steps != steps:
            raise UsageError(
                f"The iteration has {iteration.steps} steps, and the descent has {steps}.",
                allowed="the same steps, with any noise",
                instead="descent.iteration",
            )
        if float(iteration.contractions.min()) < self.contraction:
            raise UsageError(
                f"An iteration with the contraction {in_few_digits(float(iteration.contractions.min()))}, and steps of "
                f"the descent have {in_few_digits(self.contraction)}.",
                allowed="contractions of at least the descent's",
                instead="descent.iteration, or contraction=descent.contraction",
            )
        if iteration.dimension > 1 and not iteration.gaussian:
            raise Refused(
                "A descent in several dimensions needs Gaussian noise, whose norm is that of gradients.",
                allowed="pf.Gaussian noise, or dimension=1",
                instead="descent.iteration",
            )

    def displacements(self, distances: Any) -> Displacements:
        """Return how far steps move if rows move by these distances: of shape (rows,) or (pairs of secrets, rows).

        A row that stays has the distance 0; ∞ stands for every distance. A step moves by the mean over its batch of
        min(2·step_size·lipschitz, step_size·data_lipschitz·distance), in every pass.
        """
        allowed = f"numbers >= 0, one for each of the {self.rows} rows"
        read = np.atleast_2d(
            read_sizes(distances, "The distances", allowed, "distances=[0.0, 2.0, …]")
        )
        if read.ndim != 2 or read.shape[1] != self.rows:
            raise UsageError(
                f"distances has shape {read.shape}.",
                allowed=allowed,
                instead="distances=[0.0, 2.0, …]",
            )
        moving = [np.flatnonzero(row) for row in read]
        return self.displacements_of(
            [(rows, row[rows]) for rows, row in zip(moving, read, strict=True)]
        )

    def displacements_of(self, moved: Sequence[tuple[Any, Any]]) -> Displacements:
        """Return the same, given only the rows that move, each once and in rising order, with their distances."""
        pairs = [
            listed(one, "A pair of rows and distances", _MOVED, _SOME)
            for one in listed(moved, "moved", _MOVED, _SOME)
        ]
        if not pairs or any(len(pair) != 2 for pair in pairs):
            raise UsageError("No row and distance is given.", allowed=_MOVED, instead=_SOME)
        return Displacements.of_parts([self._steps_moved(*pair) for pair in pairs])

    def independent_rows(self, distance: float = math.inf) -> Displacements:
        """Return the displacement that loses most if one row moves by up to a distance: that of the last row."""
        return self.displacements_of([([self.rows - 1], [distance])])

    def all_rows(self, distance: float = math.inf) -> Displacements:
        """Return the displacement if all rows move by up to a distance (M7)."""
        farthest = read_size(distance, "The distance", "distance=1.0")
        return self.displacements_of([(np.arange(self.rows), np.full(self.rows, farthest))])

    def _steps_moved(self, given: Any, distances: Any) -> tuple[Indices, Floats]:
        rows = read_array(given, "The rows", _MOVED, _SOME)
        lengths = read_sizes(distances, "The distances", _MOVED, _SOME)
        whole = rows.dtype.kind in "iu" and rows.ndim == 1 and rows.shape == lengths.shape
        if not whole or (np.diff(rows) <= 0).any() or (rows < 0).any() or (rows >= self.rows).any():
            raise UsageError(
                "A moved row is not a row of the descent, is given twice, or is out of order.",
                allowed=f"rising numbers from 0 to {self.rows - 1}, and a distance for each",
                instead=_SOME,
            )
        batches, place = np.unique(rows // self.batch_size, return_inverse=True)
        sums = np.bincount(place, self.moves(lengths), minlength=len(batches))
        counts = np.minimum((batches + 1) * self.batch_size, self.rows) - batches * self.batch_size
        sizes = sums / counts * (1 + (self.batch_size + 4) * UNIT)
        starts = np.arange(self.passes)[:, None] * self.steps_per_pass
        return (starts + batches).ravel(), np.tile(sizes, self.passes)

    @property
    def rows_at_the_end(self) -> int:
        """The number of rows of the last batch of a pass."""
        return self.rows - (self.steps_per_pass - 1) * self.batch_size

    def capped(self, distance: float) -> bool:
        """Whether a row that moves by this distance moves its step as far as any row can."""
        return bool(self.data_lipschitz * distance > 2 * self.lipschitz)

    def each_row(self, rows: Indices, distance: float) -> Displacements:
        """Return the displacements of rows that move one at a time, by up to a distance."""
        batches = rows // self.batch_size
        counts = np.minimum((batches + 1) * self.batch_size, self.rows) - batches * self.batch_size
        sizes = self.moves(np.full(len(rows), distance)) / counts * (1 + UNIT)
        at = batches[:, None] + np.arange(self.passes) * self.steps_per_pass
        first = np.arange(len(rows) + 1) * (self.passes if sizes.any() else 0)
        return (
            Displacements(first, at.ravel(), np.repeat(sizes, self.passes))
            if sizes.any()
            else Displacements(first, at.ravel()[:0], sizes[:0])
        )

    def moves(self, distances: Floats) -> Floats:
        """Return the movement of a step by one row: min(2ηL, ηC·distance), rounded up; ∞ times 0 is 0."""
        with np.errstate(invalid="ignore", over="ignore"):
            bent = np.where(distances == 0, 0.0, self.data_lipschitz * distances)
            bent = np.where(np.isnan(bent), 0.0, bent)  # gradients that do not depend on the row
            return self.step_size * np.minimum(2 * self.lipschitz, bent) * _SLACK


def read_places(rows: Any, positions: Any, most: int) -> tuple[Indices, Floats]:
    """Return the places of some rows among those of a descent (all, if none are named), and their positions."""
    places = (
        np.arange(most)
        if rows is None
        else read_array(rows, "The rows", "places of rows", "rows=[0, 1, 2]")
    )
    if places.ndim != 1 or not len(places) or places.dtype.kind not in "iu":
        raise UsageError(
            "The rows are not a list of whole numbers.",
            allowed="places of rows",
            instead="rows=[0, 1, 2]",
        )
    if len(np.unique(places)) != len(places) or places.min() < 0 or places.max() >= most:
        raise UsageError(
            f"A row is not among the {most} rows of the descent, or is given twice.",
            allowed=f"different whole numbers from 0 to {most - 1}",
            instead="rows=[0, 1, 2]",
        )
    allowed, instead = "a rising number for each row", "positions=[0, 1]"
    given = (
        np.arange(len(places))
        if positions is None
        else read_array(positions, "The positions", allowed, instead)
    )
    times = given.astype(np.float64) if given.dtype.kind in "iuf" else np.zeros(0)
    if (
        times.shape != places.shape
        or not np.isfinite(times).all()
        or not (np.diff(times) > 0).all()
    ):
        raise UsageError("The positions are not in rising order.", allowed=allowed, instead=instead)
    return places.astype(np.intp), times
