"""The variance of a column's values, or of a function of them, over the rows of a cell."""

from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.expressions import Values
from pufferflow.queries.query import Floats, Query, Size, at_least_one, quotient, widened, within


@final
@dataclass(frozen=True)
class Variance(Query):
    """Σ (φ(x) − c)²/n − (Σ (φ(x) − c)/n)², the mean squared distance from the mean (not divided by n − 1).

    The measures are squares and values less their middle c, whose squares are smaller; the number of rows is the third
    where it is private.
    """

    largest: float
    linear = False

    @classmethod
    def of(cls, name: str, centered: Values, squares: Values, words: str, *, sized: bool) -> "Variance":
        """Return the query for one function, less its middle, and its square."""
        measures = (squares, centered) if sized else (squares, centered, None)
        largest = float((centered.high - centered.low) * centered.unit / 2) ** 2
        return cls(name, measures, f"the variance of {words}", largest)

    def finish(self, sums: Floats, size: Size) -> Floats:
        """Return the variance, between 0 and that of a coin between the two ends."""
        count = at_least_one(sums[:, 2] if size is None else size)
        found = sums[:, 0] / count - (sums[:, 1] / count) ** 2
        return np.clip(found, 0.0, self.largest)[:, None]

    def ends(self, sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
        """Return the ends of mean square less squared mean; all there can be where there are, or may be, no rows."""
        counts = [sums[:, 2] - half[2], sums[:, 2] + half[2]] if size is None else [size, size]
        least, most = (at_least_one(count) for count in counts)
        squares = quotient(sums[:, 0] - half[0], sums[:, 0] + half[0], least, most)
        means = quotient(sums[:, 1] - half[1], sums[:, 1] + half[1], least, most)
        sizes = np.abs(means)
        nearest = np.where((means[0] <= 0) & (means[1] >= 0), 0.0, sizes.min(axis=0))
        low, high = squares[0] - sizes.max(axis=0) ** 2, squares[1] - nearest**2
        ends = np.clip(low, 0.0, self.largest)[:, None], np.clip(high, 0.0, self.largest)[:, None]
        return widened(ends, counts[0] < 1, 0.0, self.largest)

    def limits(self, size: Size) -> tuple[Floats, Floats]:
        """Return 0 and the variance of a coin between the two ends."""
        return within(0.0, self.largest, size)
