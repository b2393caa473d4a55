"""The mean of a column's values, or of a function of them, over the rows of a cell."""

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field, replace
from typing import cast, final

import numpy as np

from pufferflow.expressions import Values
from pufferflow.queries.query import Floats, Query, Size, at_least_one, quotient, widened, within


@final
@dataclass(frozen=True)
class Mean(Query):
    """Σ φ(x) / n, where the number n of rows is public."""

    @classmethod
    def of(cls, name: str, values: Values) -> "Mean":
        """Return the query for one function."""
        return cls(name, (values,), f"the mean of {values.words}")

    def factor(self, size: Size) -> Floats:
        """Return 1/n."""
        return 1 / at_least_one(np.ones(1) if size is None else size)

    def finish(self, sums: Floats, size: Size) -> Floats:
        """Return the noisy sum over the number of rows."""
        return sums * self.factor(size)[:, None]

    def ends(self, sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
        """Return the ends of the noise; where there are no rows, the whole range."""
        found = super().ends(sums, half, size)
        return found if size is None else widened(found, size == 0, *self._range)

    def limits(self, size: Size) -> tuple[Floats, Floats]:
        """Return the range of φ."""
        return within(*self._range, size)

    @property
    def _range(self) -> tuple[float, float]:
        values = cast(Values, self.measures[0])
        return float(values.low * values.unit), float(values.high * values.unit)


@final
@dataclass(frozen=True)
class MeanOfUnknown(Query):
    """A noisy Σ (φ(x) − center) over a noisy number of rows, where that number is private too."""

    center: float
    low: float
    high: float
    values: Values | None = field(default=None, repr=False)
    """φ itself."""
    linear = False

    def beside(self, graphs: Collection[Hashable]) -> "MeanOfUnknown":
        """Return the same made of Σ φ, if that is asked for by itself and so need not be paid for twice.

        Not where all values are far from 0: then the noisy number of rows would be multiplied by much.
        """
        if self.values is None or self.values.graph not in graphs or not self.low <= 0 <= self.high:
            return self
        return replace(self, measures=(self.values, None), center=0.0)

    def finish(self, sums: Floats, size: Size) -> Floats:
        """Return center + sum / count, within the range of φ."""
        del size
        found = self.center + sums[:, :1] / at_least_one(sums[:, 1:])
        return np.clip(found, self.low, self.high)

    def ends(self, sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
        """Return the ends of the quotient; the whole range where the noisy number of rows may stand for none."""
        del size
        least, most = at_least_one(sums[:, 1:] - half[1]), at_least_one(sums[:, 1:] + half[1])
        low, high = quotient(sums[:, :1] - half[0], sums[:, :1] + half[0], least, most)
        ends = (np.clip(self.center + end, self.low, self.high) for end in (low, high))
        return widened((next(ends), next(ends)), sums[:, 1] - half[1] < 1, self.low, self.high)

    def limits(self, size: Size) -> tuple[Floats, Floats]:
        """Return the range of φ."""
        return within(self.low, self.high, size)
