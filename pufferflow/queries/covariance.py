"""The covariance of two columns whose tuples are the secret, from three noisy sums."""

from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.arrays import Floats
from pufferflow.expressions import Values
from pufferflow.queries.query import Query, Size, at_least_one, quotient, widened, within


@final
@dataclass(frozen=True)
class Covariance(Query):
    """Σ (x − c)(y − d)/n − (Σ (x − c)/n)(Σ (y − d)/n), not divided by n − 1; c and d are the middles of the ranges.

    The measures are the products and either column less its middle; the number of rows is public.
    """

    largest: float
    linear = False

    @classmethod
    def of(cls, name: str, products: Values, first: Values, second: Values, words: str) -> "Covariance":
        """Return the covariance; no two standard deviations are above half of the ranges."""
        widths = (float((one.high - one.low) * one.unit) for one in (first, second))
        largest = float(np.prod([width / 2 for width in widths]))
        return cls(name, (products, first, second), f"the covariance of {words}", largest)

    def finish(self, sums: Floats, size: Size) -> Floats:
        products, first, second = (sums / at_least_one(_public(size))[:, None]).T
        return np.clip(products - first * second, -self.largest, self.largest)[:, None]

    def ends(self, sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
        count = at_least_one(_public(size))
        products, first, second = (
            quotient(own - by, own + by, count, count) for own, by in zip(sums.T, half, strict=True)
        )
        corners = np.stack([a * b for a in first for b in second])
        low, high = products[0] - corners.max(axis=0), products[1] - corners.min(axis=0)
        ends = (np.clip(end, -self.largest, self.largest)[:, None] for end in (low, high))
        return widened((next(ends), next(ends)), _public(size) < 1, -self.largest, self.largest)

    def limits(self, size: Size) -> tuple[Floats, Floats]:
        return within(-self.largest, self.largest, size)


def _public(size: Size) -> Floats:
    """Return the number of rows of each cell, which is public wherever several columns are the secret."""
    return np.ones(1) if size is None else size
