"""The aggregates: the sums each reads of a cell, its answer from noisy sums, and the error of that answer.

Counts, sums and histograms are the noisy sums themselves, even below 0, since clipping would bias totals.
"""

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final, cast, final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.queries.engine_interface import Tally
from pufferflow.queries.expressions.values import Values, Weight
from pufferflow.queries.expressions.weights import ones_like, with_weight
from pufferflow.queries.statistic import (
    Query,
    Size,
    at_least_one,
    ends_of_count,
    quotient,
    widened,
    within,
)

_FEWEST: Final = 10**6
_OF_VARIANCE: Final = 2
Counted = tuple[()] | tuple[Values | None]
"""The measure of the number of rows behind a query; empty where that number is public."""


@final
@dataclass(frozen=True)
class Count(Query):
    """Σ 1[x has the property]; without one, the number of rows."""

    whole = True

    @classmethod
    def of(cls, name: str, predicate: Values | None) -> "Count":
        words = (
            "the number of rows"
            if predicate is None
            else f"the number of rows with {predicate.words}"
        )
        return cls(name, (predicate,), words)


@final
@dataclass(frozen=True)
class Sum(Query):
    """Σ φ(x)."""

    @classmethod
    def of(cls, name: str, values: Values) -> "Sum":
        return cls(name, (values,), f"the sum of {values.words}")


@final
@dataclass(frozen=True)
class Mean(Query):
    """Σ φ(x) / n, where the number n of rows is public."""

    @classmethod
    def of(cls, name: str, values: Values) -> "Mean":
        return cls(name, (values,), f"the mean of {values.words}")

    def factor(self, size: Size) -> Floats:
        return 1 / at_least_one(np.ones(1) if size is None else size)

    def finish(self, sums: Floats, size: Size) -> Floats:
        return sums * self.factor(size)[:, None]

    def ends(self, sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
        bars = super().ends(sums, half, size)
        return bars if size is None else widened(bars, size == 0, *self._range)

    def limits(self, size: Size) -> tuple[Floats, Floats]:
        return within(*self._range, size)

    @property
    def _range(self) -> tuple[float, float]:
        return cast(Values, self.measures[0]).ends


@final
@dataclass(frozen=True)
class MeanOfUnknown(Query):
    """A noisy Σ (φ(x) − center) over a noisy number of rows, or of values that are there, where that is private too.

    With weights, which then have bounds, it is a noisy Σ w (φ(x) − center) over a noisy Σ w.
    """

    center: float
    low: float
    high: float
    values: Values | None = field(default=None, repr=False)
    """φ itself."""
    least: float = field(default=1.0, repr=False)
    """The least divisor: one row, or its least weight."""
    linear = False

    @classmethod
    def of(  # noqa: PLR0913, PLR0917 - the functions that are added up, and what is said of them
        cls,
        name: str,
        values: Values,
        center: float,
        centered: Values,
        present: Values | None,
        weight: Weight | None,
    ) -> "MeanOfUnknown":
        """Return the mean of φ, of which `centered` is φ less the middle of its range.

        `present` is 1 where a value is there; None where all are.
        """
        low, high = values.ends
        words = f"the mean of {values.words}"
        if weight is None:
            return cls(name, (centered, present), words, center, low, high, values)
        measures = with_weight(centered, weight), with_weight(present or ones_like(values), weight)
        words, least = f"{words} weighted by {weight.words}", _least_weight(name, weight)
        return cls(name, measures, words, center, low, high, with_weight(values, weight), least)

    def beside(self, graphs: Collection[Hashable]) -> "MeanOfUnknown":
        """Return the same mean made of Σ φ, if that sum is a query by itself, so that it is not charged twice.

        Not if all values are far from 0: then the noisy number of rows would be multiplied by a large number.
        """
        if self.values is None or self.values.graph not in graphs or not self.low <= 0 <= self.high:
            return self
        return replace(self, measures=(self.values, *self.measures[1:]), center=0.0)

    def finish(self, sums: Floats, size: Size) -> Floats:
        means = self.center + sums[:, :1] / np.maximum(sums[:, 1:], self.least)
        return np.clip(means, self.low, self.high)

    def ends(self, sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
        least, most = (np.maximum(sums[:, 1:] + by, self.least) for by in (-half[1], half[1]))
        ends = quotient(sums[:, :1] - half[0], sums[:, :1] + half[0], least, most)
        low, high = (np.clip(self.center + end, self.low, self.high) for end in ends)
        return widened((low, high), sums[:, 1] - half[1] < self.least, self.low, self.high)

    def limits(self, size: Size) -> tuple[Floats, Floats]:
        return within(self.low, self.high, size)


def _least_weight(name: str, weight: Weight) -> float:
    """Return the least weight of a row, a millionth of the largest if that is 0; refuse bounds that allow no mean."""
    low, high = cast(tuple[Fraction, Fraction], weight.bounds)
    if low < 0 or high == 0:
        raise Refused(
            f"The bounds of the weight {weight.words} of the mean {name!r} are {float(low):g} and {float(high):g}.",
            allowed="a mean with weights of 0 and above, not only 0; sums take weights of both signs",
            instead=f"({weight.words}).clip(0, {float(max(high, Fraction(1))):g}), or private_sum of the product",
        )
    return float(low or high / _FEWEST)


@final
@dataclass(frozen=True)
class Variance(Query):
    """Σ (φ(x) − c)²/n − (Σ (φ(x) − c)/n)², the mean squared distance from the mean (not divided by n − 1).

    The measures are squares and values less their middle c, which makes the squares smaller. If the number of rows, or
    of values that are there, is private, it is the third.
    """

    largest: float
    linear = False

    @classmethod
    def of(
        cls, name: str, centered: Values, squares: Values, words: str, count: Counted
    ) -> "Variance":
        low, high = centered.ends
        return cls(
            name, (squares, centered, *count), f"the variance of {words}", ((high - low) / 2) ** 2
        )

    @property
    def counts_values(self) -> bool:
        return len(self.measures) > _OF_VARIANCE

    def finish(self, sums: Floats, size: Size) -> Floats:
        count = at_least_one(sums[:, 2] if size is None else size)
        variances = sums[:, 0] / count - (sums[:, 1] / count) ** 2
        return np.clip(variances, 0.0, self.largest)[:, None]

    def ends(self, sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
        counts = ends_of_count(sums, half, size)
        least, most = (at_least_one(count) for count in counts)
        squares = quotient(sums[:, 0] - half[0], sums[:, 0] + half[0], least, most)
        means = quotient(sums[:, 1] - half[1], sums[:, 1] + half[1], least, most)
        sizes = np.abs(means)
        nearest = np.where((means[0] <= 0) & (means[1] >= 0), 0.0, sizes.min(axis=0))
        low, high = squares[0] - sizes.max(axis=0) ** 2, squares[1] - nearest**2
        ends = np.clip(low, 0.0, self.largest)[:, None], np.clip(high, 0.0, self.largest)[:, None]
        return widened(ends, counts[0] < 1, 0.0, self.largest)

    def limits(self, size: Size) -> tuple[Floats, Floats]:
        return within(0.0, self.largest, size)


@final
@dataclass(frozen=True)
class Histogram(Query):
    """Σ 1[x = v] for every value v, in a column each."""

    labels: tuple[str, ...]
    whole = True

    @classmethod
    def of(cls, name: str, bars: Sequence[tuple[str, Values]]) -> "Histogram":
        words = f"the number of rows in each of {len(bars)} classes"
        return cls(
            name, tuple(values for _, values in bars), words, tuple(label for label, _ in bars)
        )

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(f"{self.name}_{label}" for label in self.labels)


_RTOL = 1 - 2.0**-50


@final
@dataclass(frozen=True)
class Quantile(Query):
    """The smallest value that at least a share q of the rows do not exceed; for q = 0 the smallest value of all.

    So it is the value of a row: of n rows in growing order that of row ⌈q·n⌉, the first if that is 0. On a list of
    values the answer is one of them. On classes it is a point inside one, as if the values were spread evenly there.
    For columns of whole numbers it is a whole number in the class.

    The noisy counts are added up. If the number of rows is public, the total noise is subtracted again, evenly. If
    noise makes the sums fall, they are levelled between the running maximum from below and the running minimum from
    above.
    """

    q: float
    edges: tuple[float, ...]
    """The values in growing order; or, one more than there are counts, the ends of the classes."""
    whole_numbers: bool = field(default=False, repr=False)
    """Whether values are whole numbers; public, and no part of a query's digest in ledgers: it only reads sums."""
    counts_values: bool = field(default=False, repr=False)  # pyright: ignore[reportIncompatibleMethodOverride] - a field
    """Whether the classes leave out what is missing; their domain says so too."""
    linear = False

    @classmethod
    def of(  # noqa: PLR0913 - what a quantile is made of
        cls,
        name: str,
        q: float,
        bars: Sequence[Values],
        edges: Sequence[float],
        words: str,
        *,
        whole_numbers: bool = False,
        counts_values: bool = False,
    ) -> "Quantile":
        words = f"the {q:g}-quantile of {words}"
        return cls(name, tuple(bars), words, q, tuple(edges), whole_numbers, counts_values)

    def finish(self, sums: Floats, size: Size) -> Floats:
        levels, rank = self._levels(sums, size)
        place, edges = _first(levels >= rank), np.array(self.edges)
        if len(edges) == levels.shape[1]:
            return edges[place][:, None]
        cells = np.arange(len(levels))
        below = np.where(place > 0, levels[cells, place - 1], 0.0)
        inside = np.maximum(levels[cells, place] - below, 1e-12)
        share = np.clip((rank[:, 0] - below) / inside, 0.0, 1.0)
        if self.whole_numbers:
            first, last = (ends[place] for ends in self._whole_ends())
            count = np.maximum(last - first + 1, 1.0)
            return (first + np.clip(np.ceil(share * count) - 1, 0.0, count - 1))[:, None]
        return (edges[place] + share * (edges[place + 1] - edges[place]))[:, None]

    def running(self, *, counts_are_public: bool) -> Floats:
        """Return the share with the least error: that of the place, or q where the number of rows is private."""
        counts = len(self.measures)
        return np.arange(1, counts + 1) / counts if counts_are_public else np.full(counts, self.q)

    def ends(self, sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
        """Return the ends of all values that the running sums do not rule out.

        The k-th value is the quantile only if at least rank rows are up to it, and fewer than rank below it. Suppose
        that each of these two sums is off by more than its half to the wrong side with probability 2.5 % or less. Then
        the quantile is ruled out with 5 % or less: it is one place, so the two sums that count are the same whatever
        the noise. The last half is that of the total. If there are, or may be, no rows, nothing is ruled out.
        """
        at_least, below = self._known(sums, size)
        half, total = half[:-1], half[-1]
        if size is not None:
            half = np.maximum(
                half, 0.5
            )  # whole numbers of rows differ from halfway between them on, if not before
        may = at_least >= -half
        may[:, -1] = True
        may[:, 1:] &= below[:, :-1] <= half[:-1]
        levels, rank = self._levels(sums, size)
        own, last_one = _first(levels >= rank), may.shape[1] - 1
        may[np.arange(len(own)), own] = True
        no_rows = sums.sum(axis=1) - total < 1 if size is None else size == 0
        may[no_rows] = True
        first, last = _first(may), last_one - _first(may[:, ::-1])
        low, high = np.array(self.edges[: last_one + 1]), np.array(self.edges[-last_one - 1 :])
        if self.whole_numbers and len(self.edges) > last_one + 1:
            low, high = self._whole_ends()
        return low[first][:, None], high[last][:, None]

    def _whole_ends(self) -> tuple[Floats, Floats]:
        """Return the first and the last whole number in each class, whose upper end is in the next; the last has both.

        A class without a whole number, which can hold no row, has the next whole number.
        """
        edges = np.array(self.edges)
        first = np.minimum(np.ceil(edges[:-1]), np.floor(edges[-1]))
        last = np.append(np.ceil(edges[1:-1]) - 1, np.floor(edges[-1]))
        return first, np.maximum(first, last)

    def limits(self, size: Size) -> tuple[Floats, Floats]:
        return within(self.edges[0], self.edges[-1], size)

    def _known(self, sums: Floats, size: Size) -> tuple[Floats, Floats]:
        """Return running counts less the rank, and less the largest count below it: their signs place the quantile."""
        levels = np.cumsum(sums, axis=1)
        off = self.running(counts_are_public=size is not None) * levels[:, -1:]
        if size is None:
            return levels - off, levels - off
        rank = self._rank(size)[:, None]
        counts = levels - off + self.running(counts_are_public=True) * size[:, None]
        return counts - rank, counts - (rank - 1)

    def _levels(self, sums: Floats, size: Size) -> tuple[Floats, Floats]:
        """Return running counts that grow, and between which two whole numbers the rank begins."""
        levels = np.cumsum(sums, axis=1)
        if size is None:
            size = np.maximum(np.rint(levels[:, -1]), 1.0)
        else:
            levels = levels - self.running(counts_are_public=True) * (
                levels[:, -1:] - size[:, None]
            )
        return levelled(levels), self._rank(size)[:, None] - 0.5

    def _rank(self, size: Floats) -> Floats:
        """Return the rank of the row with the quantile; a product above a whole number by rounding is that number."""
        return np.maximum(np.ceil(self.q * size * _RTOL), 1.0)


def levelled(sums: Floats) -> Floats:
    """Return running sums made monotone and ≥ 0, between their running maximum and their running minimum from above."""
    upper = np.maximum.accumulate(sums, axis=1)
    lower = np.minimum.accumulate(sums[:, ::-1], axis=1)[:, ::-1]
    return np.maximum((upper + lower) / 2, 0.0)


def _first(holds: Flags) -> Indices:
    """Return the first place in each row where something holds, the last where it holds nowhere."""
    places: Indices = holds.argmax(axis=1)
    places[~holds.any(axis=1)] = holds.shape[1] - 1
    return places


@final
@dataclass(frozen=True)
class Covariance(Query):
    """Σ (x − c)(y − d)/n − (Σ (x − c)/n)(Σ (y − d)/n), not divided by n − 1.

    c and d are the middles of the ranges. The measures are the products and either column less its middle. If the
    number of rows is private, it is the fourth.
    """

    largest: float
    linear = False

    @classmethod
    def of(  # noqa: PLR0913 - the functions of both columns, and what is said of them
        cls,
        name: str,
        products: Values,
        first: Values,
        second: Values,
        words: str,
        *,
        counts_are_public: bool,
    ) -> "Covariance":
        """Return the covariance; no two standard deviations are above half of the ranges."""
        widths = (float((one.high - one.low) * one.unit) for one in (first, second))
        measures = (
            (products, first, second) if counts_are_public else (products, first, second, None)
        )
        return cls(
            name,
            measures,
            f"the covariance of {words}",
            float(np.prod([width / 2 for width in widths])),
        )

    def finish(self, sums: Floats, size: Size) -> Floats:
        count = at_least_one(sums[:, 3] if size is None else size)
        products, first, second = (sums[:, :3] / count[:, None]).T
        return np.clip(products - first * second, -self.largest, self.largest)[:, None]

    def ends(self, sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
        counts = ends_of_count(sums, half, size)
        least, most = (at_least_one(count) for count in counts)
        products, first, second = (
            quotient(own - by, own + by, least, most)
            for own, by in zip(sums.T[:3], half[:3], strict=True)
        )
        corners = np.stack([a * b for a in first for b in second])
        low, high = products[0] - corners.max(axis=0), products[1] - corners.min(axis=0)
        low, high = (np.clip(end, -self.largest, self.largest)[:, None] for end in (low, high))
        return widened((low, high), counts[0] < 1, -self.largest, self.largest)

    def limits(self, size: Size) -> tuple[Floats, Floats]:
        return within(-self.largest, self.largest, size)


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
        return (plus * low + minus * high - slack)[:, None], (plus * high + minus * low + slack)[
            :, None
        ]

    @property
    def _signs(self) -> tuple[Floats, Floats]:
        """The least and largest sums of unknown rows: they follow from the signs of weights and values alone."""
        bounds = (-math.inf, math.inf) if self.weight.bounds is None else self.weight.bounds
        ends = [
            value * float(bound) for value in self._range for bound in bounds if value and bound
        ]
        low, high = min(ends, default=0.0), max(ends, default=0.0)
        return np.array([[-math.inf if low < 0 else 0.0]]), np.array(
            [[math.inf if high > 0 else 0.0]]
        )


@final
@dataclass(frozen=True)
class WeightedMean(Weighted):
    """Σ w φ(x) / Σ w, where the weights w are public.

    A cell without rows is divided by the least Σ w of other cells, so that its answer is noise and not null.
    """

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
                allowed="groups without rows, or with a weight above 0 in some row",
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
