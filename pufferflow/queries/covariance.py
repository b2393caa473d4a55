"""The covariance of two columns whose tuples are the secret, from noisy sums."""

from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.queries.expressions.values import Values
from pufferflow.queries.query import Query, Size, at_least_one, ends_of_count, quotient, widened, within


@final
@dataclass(frozen=True)
class Covariance(Query):
    """Σ (x − c)(y − d)/n − (Σ (x − c)/n)(Σ (y − d)/n), not divided by n − 1; c and d are the middles of the ranges.

    The measures are the products and either column less its middle; the number of rows is the fourth where it is
    private.
    """

    largest: float
    linear = False

    @classmethod
    def of(  # noqa: PLR0913 - the functions of both columns, and what is said of them
        cls, name: str, products: Values, first: Values, second: Values, words: str, *, counts_are_public: bool
    ) -> "Covariance":
        """Return the covariance; no two standard deviations are above half of the ranges."""
        widths = (float((one.high - one.low) * one.unit) for one in (first, second))
        measures = (products, first, second) if counts_are_public else (products, first, second, None)
        return cls(name, measures, f"the covariance of {words}", float(np.prod([width / 2 for width in widths])))

    def finish(self, sums: Floats, size: Size) -> Floats:
        count = at_least_one(sums[:, 3] if size is None else size)
        products, first, second = (sums[:, :3] / count[:, None]).T
        return np.clip(products - first * second, -self.largest, self.largest)[:, None]

    def ends(self, sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
        counts = ends_of_count(sums, half, size)
        least, most = (at_least_one(count) for count in counts)
        products, first, second = (
            quotient(own - by, own + by, least, most) for own, by in zip(sums.T[:3], half[:3], strict=True)
        )
        corners = np.stack([a * b for a in first for b in second])
        low, high = products[0] - corners.max(axis=0), products[1] - corners.min(axis=0)
        low, high = (np.clip(end, -self.largest, self.largest)[:, None] for end in (low, high))
        return widened((low, high), counts[0] < 1, -self.largest, self.largest)

    def limits(self, size: Size) -> tuple[Floats, Floats]:
        return within(-self.largest, self.largest, size)
