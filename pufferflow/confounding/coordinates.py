"""Noisy answers as coordinates, each in units of its noise; Gaussian ones are as few as their answers span."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, cast, final

import numpy as np

from pufferflow.confounding.additive import Additive, Cells, cells_of
from pufferflow.confounding.reading import ProjectedTable
from pufferflow.confounding.steps import count_of_steps, staircase_cells
from pufferflow.confounding.tied import CopulaNoise, tied_cells
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.noise.base import Noise
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.staircase import Staircase

_MOST_CELLS = 1_000_000
_MOST_FLOATS = 60_000_000
_MOST_TIED = 700
_FEWEST = 24
_FARTHEST = 10**9


@final
@dataclass(frozen=True, eq=False)
class Coordinate:
    """Numbers of all points in units of a noise of scale 1, beginning at 0, and their error."""

    dimensions: ClassVar[int] = 1

    noise: Noise
    answers: Floats
    blurred: float = 0.0
    exact: tuple[Fraction, ...] = ()
    """The same as rational numbers, for staircases."""

    @property
    def least(self) -> int:
        """The number of cells that it needs: staircases have all of theirs, Laplace noise a knot for every answer."""
        return count_of_steps(self.exact) if isinstance(self.noise, Staircase) else len(np.unique(self.answers))

    def cells(self, most: int) -> Cells:
        """Return its cells."""
        if isinstance(self.noise, Staircase):
            return staircase_cells(self.noise, self.exact)
        return cells_of(self.noise, self.answers, most, self.blurred)


@final
@dataclass(frozen=True, eq=False)
class TiedCoordinates:
    """The same of two numbers whose noises are tied by a Gaussian copula."""

    dimensions: ClassVar[int] = 2

    noises: tuple[Noise, Noise]
    answers: tuple[Floats, Floats]
    correlation: float

    @property
    def least(self) -> int:
        """The number of cells that each of both numbers needs."""
        return max(len(np.unique(own)) for own in self.answers)

    def cells(self, most: int) -> Cells:
        """Return its cells: rectangles."""
        return tied_cells(self.noises, self.answers, self.correlation, min(most, _MOST_TIED))


def coordinates_of(
    seen: ProjectedTable, noisy: Sequence[Additive | CopulaNoise], *, spanned: bool = True
) -> list[Coordinate | TiedCoordinates]:
    """Return all noisy answers, Gaussian ones as few as they span."""
    others: list[Coordinate | TiedCoordinates] = []
    bells: list[Floats] = []
    for one in noisy:
        parts = (one.first, one.second) if isinstance(one, CopulaNoise) else (one,)
        noises = [part.noise for part in parts for _ in part.reads]
        exact = [_answers(seen, name, part.noise.scale) for part in parts for name in part.reads]
        answers = [np.array([float(value) for value in own]) for own in exact]
        if all(isinstance(noise, Gaussian) for noise in noises):
            bells += _independent(answers, one.correlation) if one.correlation else answers
        elif isinstance(one, CopulaNoise):
            units = noises[0].at(1.0), noises[1].at(1.0)
            others.append(TiedCoordinates(units, (answers[0], answers[1]), one.correlation))
        else:
            unit = one.noise.at(1.0)
            others += [Coordinate(unit, own, exact=whole) for own, whole in zip(answers, exact, strict=True)]
    if bells and spanned:
        return [*_spanned(np.stack(bells, axis=1)), *others]
    return [*(Coordinate(Gaussian(1.0), own - own.min()) for own in bells), *others]


def _independent(answers: list[Floats], share: float) -> list[Floats]:
    """Return two answers in coordinates in which correlated Gaussian noises are independent (M28)."""
    return [answers[0], (answers[1] - share * answers[0]) / np.sqrt((1 - share) * (1 + share))]


def _answers(seen: ProjectedTable, name: str, scale: float) -> tuple[Fraction, ...]:
    """Return a column in units of a scale, less its smallest value."""
    values = [point[seen.columns.index(name)] for point in seen.points]
    if not all(isinstance(one, int | float) for one in values):
        raise UsageError(
            f"Noise is added to {name!r}, which has labels.",
            allowed="columns of numbers",
            instead="a pf.confounding.Channel, or numbers for the labels",
        )
    exact = [Fraction(cast(float, one)) for one in values]
    least = min(exact)
    if max(exact) - least > _FARTHEST * Fraction(scale):
        raise Refused(
            f"The values of {name!r} lie more than {_FARTHEST} scales of the noise apart.",
            allowed="noise that hides some of them",
            instead="pf.confounding.Channel.revealing(reads, inputs), for what the noise does not hide",
        )
    return tuple((one - least) / Fraction(scale) for one in exact)


def _spanned(answers: Floats) -> list[Coordinate]:
    """Return Gaussian answers (points, coordinates) along the axes that they span; noise off these reveals nothing.

    The error of an answer is its remainder beside these axes, and all rounding.
    """
    centred = answers - answers[0]
    size = float(np.abs(centred).max())
    if size == 0:
        return [Coordinate(Gaussian(1.0), np.zeros(len(answers)))]
    _, stretches, axes = np.linalg.svd(centred, full_matrices=False)
    along_axes = axes[stretches > 1e-11 * stretches[0]]
    along = centred @ along_axes.T
    beside = float(np.abs(centred - along @ along_axes).max()) * np.sqrt(answers.shape[1])
    blurred = beside + 64 * UNIT * size * answers.shape[1]
    return [Coordinate(Gaussian(1.0), own - own.min(), blurred) for own in along.T]


def room_for(coordinates: Sequence[Coordinate | TiedCoordinates], points: int, outcomes: int, most: int) -> int:
    """Return the number of cells of each number; 0 if the cells that they need do not fit."""
    room = min(_MOST_CELLS, _MOST_FLOATS // points) // outcomes
    each = min(int(max(room, 1) ** (1 / sum(one.dimensions for one in coordinates))), most)
    least = max(one.least for one in coordinates)
    return each if each >= max(least, _FEWEST) else 0


def cells_that_fit(
    coordinates: Sequence[Coordinate | TiedCoordinates], points: int, outcomes: int, most: int
) -> list[Cells]:
    """Return cells of all coordinates, as many as fit."""
    each = room_for(coordinates, points, outcomes, most)
    if not each:
        raise Refused(
            f"{len(coordinates)} noisy answers of {points} points, with {outcomes} outputs of channels, need more than "
            f"{_MOST_CELLS} cells.",
            allowed="what bounds give: the cost itself, without the posterior and the cost as if independent",
            instead="one release of several queries less, coarser columns, or channels with few outputs",
        )
    return [one.cells(each) for one in coordinates]
