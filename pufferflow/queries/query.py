"""What every query owes: the sums it reads of each cell, and how noisy sums become its answer."""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pufferflow.expressions import Values

Floats = npt.NDArray[np.float64]
Size = Floats | None
"""How many rows each cell has, where everybody may know; None where that is private (`pf.Presence`)."""


@dataclass(frozen=True)
class Query(abc.ABC):
    """Base of the queries: `measures` are what is read of every cell, None among them being the number of its rows.

    To add one, write a frozen dataclass with what is abstract below in a file of its own, and a method of `pf.Batch`.
    """

    name: str
    measures: tuple[Values | None, ...]
    words: str
    """What is asked, for people."""

    linear: ClassVar[bool] = True
    """Whether each output is one measure times a public factor, so that its error is known before any release."""
    running: ClassVar[bool] = False
    """Whether what matters of the measures are their running sums."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the columns that the answer has."""
        return (self.name,)

    def factor(self, size: Size) -> Any:
        """Return what a sum is multiplied by in each cell to give the output: a number, or one for each cell."""
        del size
        return 1.0

    @abc.abstractmethod
    def finish(self, sums: Floats, size: Size) -> Floats:
        """Return the outputs, of shape (cells, outputs), from noisy sums of shape (cells, measures)."""

    def ends(self, sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
        """Return the least and largest outputs if each measure is off by at most `half` of its own.

        Of running sums `half` is how far all of them are off. Here for linear queries; others override it.
        """
        reach = np.abs(np.atleast_1d(self.factor(size))[:, None] * half)
        found = self.finish(sums, size)
        return found - reach, found + reach


def quotient(low: Floats, high: Floats, least: Floats, most: Floats) -> tuple[Floats, Floats]:
    """Return the ends of x/n for x in [low, high] and n in [least, most], which is above 0."""
    corners = np.stack([low / least, low / most, high / least, high / most])
    return corners.min(axis=0), corners.max(axis=0)


def at_least_one(size: Floats) -> Floats:
    """Return sizes to divide by: an empty cell counts as one row, so that its answer is noise and no gap."""
    return np.maximum(size, 1.0)
