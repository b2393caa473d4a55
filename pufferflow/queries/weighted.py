"""The aggregates with public weights: the size of a cell is the sums of its positive and negative weights."""

import math
from dataclasses import dataclass
from typing import cast, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.queries.engine_interface import Tally
from pufferflow.queries.expressions.values import Values, Weight
from pufferflow.queries.query import Query, Size, widened, within


@dataclass(frozen=True)
class Weighted(Query):
    """Base: Σ w φ(x), where the weights w are public."""

    @property
    def values(self) -> Values:
        """φ, with its weight."""
        return cast(Values, self.measures[0])

    @property
    def weight(self) -> Weight:
        """The weight."""
        return cast(Weight, self.values.weight)

    def size_in(self, tally: Tally, *, counts_are_public: bool) -> Size:
        """Return the sums of positive and of negative weights of each cell, in two columns."""
        return tally.weights[self.weight.identity] if counts_are_public else None

    @property
    def no_rows(self) -> Size:
        return np.zeros((1, 2))

    @property
    def _range(self) -> tuple[float, float]:
        return float(self.values.low * self.values.unit), float(self.values.high * self.values.unit)


@final
@dataclass(frozen=True)
class WeightedSum(Weighted):
    """Σ w φ(x)."""

    @classmethod
    def of(cls, name: str, values: Values) -> "WeightedSum":
        return cls(name, (values,), f"the sum of {values.words}")

    def limits(self, size: Size) -> tuple[Floats, Floats]:
        """Return the least and largest sums, rounded outwards."""
        if size is None:
            return self._signs
        plus, minus = size.T
        low, high = self._range
        slack = 8 * UNIT * (plus - minus) * max(abs(low), abs(high))
        return (plus * low + minus * high - slack)[:, None], (plus * high + minus * low + slack)[:, None]

    @property
    def _signs(self) -> tuple[Floats, Floats]:
        """The least and largest sums of unknown rows: they follow from the signs of weights and values alone."""
        bounds = (-math.inf, math.inf) if self.weight.bounds is None else self.weight.bounds
        ends = [value * float(bound) for value in self._range for bound in bounds if value and bound]
        low, high = min(ends, default=0.0), max(ends, default=0.0)
        return np.array([[-math.inf if low < 0 else 0.0]]), np.array([[math.inf if high > 0 else 0.0]])


@final
@dataclass(frozen=True)
class WeightedMean(Weighted):
    """Σ w φ(x) / Σ w; a cell without rows is divided by the least Σ w of others, so that it is noise and not null."""

    @classmethod
    def of(cls, name: str, values: Values, words: str) -> "WeightedMean":
        """Return the query about a function described by `words`, without its weight."""
        weight = cast(Weight, values.weight)
        return cls(name, (values,), f"the mean of {words} weighted by {weight.words}")

    def check(self, tally: Tally) -> None:
        """Refuse negative weights, and cells with rows whose weights are all 0."""
        size = tally.weights[self.weight.identity]
        if (size[:, 1] < 0).any():
            raise Refused(
                f"The weight {self.weight.words} of the mean {self.name!r} is negative in some rows.",
                allowed="a mean with weights of 0 and above; sums take weights of both signs",
                instead="private_sum of the product, or a filter on the weight",
            )
        if (size[tally.rows > 0, 0] == 0).any():
            raise UsageError(
                f"The weights {self.weight.words} of a group are all 0: its mean {self.name!r} would be divided by 0.",
                allowed="groups that have a row with a weight above 0, or none",
                instead=f".filter(({self.weight.words}) > 0)",
            )

    def factor(self, size: Size) -> Floats:
        totals = self._totals(size)
        least = totals[totals > 0].min(initial=np.inf)
        return 1 / np.where(totals > 0, totals, least if np.isfinite(least) else 1.0)

    def finish(self, sums: Floats, size: Size) -> Floats:
        return sums * self.factor(size)[:, None]

    def ends(self, sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
        return widened(super().ends(sums, half, size), self._totals(size) == 0, *self._range)

    def limits(self, size: Size) -> tuple[Floats, Floats]:
        return within(*self._range, self._totals(size))

    @staticmethod
    def _totals(size: Size) -> Floats:
        return np.ones(1) if size is None else size[:, 0]
