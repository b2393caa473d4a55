"""Laws of sums over independent rows, added on whole numbers so that equal sums are one atom.

Weights and values are read as the decimals they print as, so that every sum is exactly a base plus a whole number of
steps. A law whose float masses could underflow is refused, not truncated (M8).

Sums of very many rows are `Dense`: laws on 0, 1, … N − 1 whose masses lie on planes of growing exponents, so that none
underflows and W_∞ includes the farthest tails. They become a `Law` only if all masses fit floats.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, cast, final

import numpy as np

from pufferflow.core.arrays import Array, Floats, Indices
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT, float_above
from pufferflow.core.validate import decimal_reading
from pufferflow.distributions.finite_law import Law, as_fractions
from pufferflow.distributions.lattice import (
    SPAN,
    DistanceInterval,
    Precision,
    convolve,
    gap,
    levels,
    rescale,
)
from pufferflow.models.domain import Domain
from pufferflow.queries.statistic import Kinds, Statistic

NEGLIGIBLE = 1e-290
"""Below this a mass may have been an underflow."""
_LEAST_GIVEN = 2.0**-900


@final
@dataclass(frozen=True, eq=False)
class Dense:
    """A law on 0, 1, … N − 1: Σ_l planes[l] · 2^(−900·l), of shape (L, N)."""

    planes: Floats

    @classmethod
    def of(cls, points: Array, masses: Floats) -> "Dense":
        """Return the law of one row: masses at whole numbers, equal ones added up."""
        if masses[masses > 0].min() < _LEAST_GIVEN:
            raise faint()
        row = np.zeros(int(points.max()) + 1)
        np.add.at(row, points.astype(np.intp), masses)
        return cls(rescale(row[None]).planes)

    @classmethod
    def mixture(cls, laws: "Sequence[Dense]", weights: Floats) -> "Dense":
        """Return the law of a draw from one of the laws."""
        if weights.min() < _LEAST_GIVEN:
            raise faint()
        planes = np.zeros((max(len(law.planes) for law in laws), max(map(len, laws))))
        for law, weight in zip(laws, weights.tolist(), strict=True):
            planes[: len(law.planes), : len(law)] += law.planes * weight
        return cls(rescale(planes).planes)

    def __len__(self) -> int:
        """Return the number of points."""
        return self.planes.shape[1]

    @property
    def faint(self) -> bool:
        """Whether some mass is too small for a float."""
        return len(self.planes) > 1 and bool(
            ((self._floats < NEGLIGIBLE) & self.planes.any(axis=0)).any()
        )

    @property
    def _floats(self) -> Floats:
        return self.planes[0] + (self.planes[1] / SPAN if len(self.planes) > 1 else 0.0)

    def convolve(self, other: "Dense") -> "Dense":
        """Return the law of a sum."""
        return Dense(rescale(convolve(self.planes, other.planes)).planes)

    def law(self) -> Law:
        """Return the law as a `Law`; refuse if a mass would be lost."""
        if self.faint:
            raise faint()
        return self.most()

    def most(self) -> Law:
        """Return the law as a `Law` without masses too small for floats: a share below 1e-280."""
        masses = self._floats
        held = masses >= NEGLIGIBLE
        return Law(np.flatnonzero(held), masses[held] / masses.sum())

    def winf(self, other: "Dense", error: int) -> DistanceInterval:
        """Return W_∞ in steps, for masses known to `error` half units in the last place."""
        coarse = max(len(self.planes), len(other.planes)).bit_length()
        by = Precision(error, coarse, (2 * (error + 1) >> coarse) + 2)
        return gap(
            levels(self.planes, 0, by),
            levels(other.planes, 0, by),
            by,
            DistanceInterval(-1, -1, -1),
        )


def rounding(error: int) -> float:
    """Return the most mass that rounding can move between two laws with such an error."""
    return 2 * (error + 1) * UNIT


def faint() -> Refused:
    """Return the refusal of float masses that could be lost."""
    return Refused(
        "Some answers have a probability below 1e-290, where floats lose it.",
        allowed="fewer rows in a group, or probabilities given as Fractions",
        instead="bound=pf.Messages(), pf.GWM() or pf.Group(), which need no list of answers",
    )


AnySum = Law | Dense
_DENSE = 1 << 17
_MOST_DENSE = 6e9
_MOST_SPARSE = 3e7
_MOST_BITS = 4e9
_MOST_PRODUCT = 2 * 10**7
_decimals: Any = np.frompyfunc(decimal_reading, 1, 1)


@final
@dataclass(frozen=True, eq=False)
class RowTerms:
    """Contributions of rows to the answers: a row of kind j at point x adds `exact[j, o, x]` to answer o.

    Rows with the same weights are of one kind: `counts` of them, the first of which is row `first`.
    """

    exact: Array
    counts: Indices
    first: Indices

    @classmethod
    def of(cls, statistic: Statistic, domain: Domain) -> "RowTerms":
        """Return the terms of a statistic of a column with a domain."""
        kinds = Kinds.of(statistic.weights + 0.0, statistic.counts)
        exact = _decimals(kinds.columns.T)[:, :, None] * _decimals(statistic.on(domain))[None]
        return cls(exact, kinds.counts.astype(np.intp), kinds.first.astype(np.intp))

    @property
    def answers(self) -> int:
        """How many answers there are."""
        return self.exact.shape[1]

    @cached_property
    def lattice(self) -> "Lattice":
        """The terms as whole numbers of steps."""
        base = self.exact.min(axis=2)
        above = self.exact - base[:, :, None]
        steps = [_common_step(above[:, answer]) for answer in range(self.answers)]
        whole = above / np.array(steps, dtype=object)[None, :, None]
        return Lattice(
            self, base, np.array(steps, dtype=object), np.vectorize(int, otypes=[object])(whole)
        )


@final
@dataclass(frozen=True, eq=False)
class Lattice:
    """Terms as `base[j] + step · whole[j]`, coordinate by coordinate."""

    terms: RowTerms
    base: Array
    step: Array
    whole: Array

    def row(self, kind: int, masses: Array) -> AnySum:
        """Return the law of one row's whole numbers."""
        if self.dense and masses.dtype != object:
            return Dense.of(self.whole[kind, 0], masses)
        return self.row_law(kind, masses)

    def row_law(self, kind: int, masses: Array) -> Law:
        """Return the law of one row as a list of its own points."""
        return Law(self.whole[kind].T, masses)

    def placed(self, law: Law, kind: int | None) -> Law:
        """Return the law of the answers from that of whole numbers: all rows', or those of one row of a kind.

        On a line atoms are the nearest floats; distances are computed on the whole numbers, where they are exact.
        """
        base = (
            self.base[kind]
            if kind is not None
            else (self.base * self.terms.counts[:, None]).sum(axis=0)
        )
        if self.terms.answers == 1:
            return law.map(
                lambda values: (as_fractions(values) * self.step[0] + base[0]).astype(np.float64)
            )
        return law.map(lambda values: as_fractions(values) * self.step + base)

    def length(self, steps: float) -> float:
        """Return a number of steps on a line as a distance, rounded up."""
        return float_above(Fraction(steps) * self.step[0])

    def total(self, masses: Array) -> AnySum:
        """Return the law of the sum of all rows, each with these masses at the points."""
        return self._sum(
            *(self._power(kind, masses, int(count)) for kind, count in enumerate(self.terms.counts))
        )

    def others(self, masses: Array) -> list[AnySum]:
        """Return for each kind the law of the sum of all rows but one of that kind."""
        counts = self.terms.counts.tolist()
        fewer = [self._power(kind, masses, count - 1) for kind, count in enumerate(counts)]
        if len(counts) == 1:
            return fewer
        parts = [self._sum(law, self.row(kind, masses)) for kind, law in enumerate(fewer)]
        before, after = [self._nothing(masses)], [self._nothing(masses)]
        for law in parts[:-1]:
            before.append(self._sum(before[-1], law))
        for law in parts[:0:-1]:
            after.append(self._sum(after[-1], law))
        return [self._sum(a, law, b) for a, law, b in zip(before, fewer, after[::-1], strict=True)]

    def check(self, masses: Array, *, every_row: bool) -> None:
        """Refuse sums with too many atoms; `every_row`: of all rows but one of each kind."""
        if self.work(masses, every_row=every_row) > 1:
            raise _too_many(self.terms)

    def error(self, masses: Array) -> int:
        """Return the relative error of float masses of sums, in half units in the last place.

        Each convolution adds the number of points of its shorter law; squaring doubles the error before it.
        """
        rows, size = int(self.terms.counts.sum()), min(self.volume, _DENSE)
        rounds = 2 * rows.bit_length() + 2 * len(self.terms.counts) + 6
        return 2 * rows * (masses.shape[1] + 4) + size * rounds + 4 * len(masses) + 16

    def work(self, masses: Array, *, every_row: bool) -> float:
        """Estimate the time of the convolution as a share of the limit."""
        rounds = len(masses) * (2 * len(self.terms.counts) if every_row else 1)
        bits = 0  # the size of rational masses; 0 for floats
        if masses.dtype == object:
            longest = max(
                math.lcm(*(Fraction(mass).denominator for mass in law)).bit_length()
                for law in masses
            )
            bits = longest * int(self.terms.counts.sum())
        if self.dense:
            size = float(self.volume)
            limbs = 1 + bits / 128  # half of the bits of the number of rows on average
            return rounds * size * size / 2 * (1.0 if not bits else 50 * limbs) / _MOST_DENSE
        atoms = float(min(self.volume, self._compositions))
        if bits and atoms * bits > _MOST_BITS:
            return math.inf
        steps = float(self.terms.counts.sum()) * self.whole.shape[2]
        return rounds * steps * atoms * (10.0 if bits else 1.0) / _MOST_SPARSE

    @cached_property
    def volume(self) -> int:
        """The number of points that the sums can have."""
        reach = (self.whole.max(axis=2) * self.terms.counts[:, None]).sum(axis=0)
        return math.prod(int(steps) + 1 for steps in reach)

    @cached_property
    def _compositions(self) -> int:
        """The number of ways to spread rows over different terms."""
        different = [len({tuple(point) for point in kind.T}) for kind in self.whole]
        return math.prod(
            math.comb(n + m - 1, n)
            for n, m in zip(self.terms.counts.tolist(), different, strict=True)
        )

    @property
    def dense(self) -> bool:
        """Whether all points between the least and the largest sum can be kept."""
        return self.terms.answers == 1 and self.volume <= _DENSE

    def _nothing(self, masses: Array) -> AnySum:
        """Return the law of the sum of no rows."""
        if self.dense and masses.dtype != object:
            return Dense(np.ones((1, 1)))
        return Law.point(0 if self.terms.answers == 1 else [0] * self.terms.answers)

    def _sum(self, *laws: AnySum) -> AnySum:
        """Add laws up, the short ones first."""
        total, *rest = sorted(laws, key=len)
        for law in rest:
            if not self.dense and len(total) * len(law) > _MOST_PRODUCT:
                raise _too_many(self.terms)
            total = added(total, law)
        return total

    def _power(self, kind: int, masses: Array, count: int) -> AnySum:
        """Return the law of the sum of a number of rows of a kind: by squaring on a line, otherwise one by one."""
        row, law = self.row(kind, masses), self._nothing(masses)
        if not self.dense:
            for _ in range(count):
                law = self._sum(law, row)
            return law
        for digit in f"{count:b}":
            law = self._sum(law, law)
            law = self._sum(law, row) if digit == "1" else law
        return law


def added(left: AnySum, right: AnySum) -> AnySum:
    """Return the law of X + Y, unless a mass could be lost."""
    if isinstance(left, Dense) or isinstance(right, Dense):
        return cast(Dense, left).convolve(cast(Dense, right))
    return _check_atoms(left.convolve(right))


def mixed(laws: Sequence[AnySum], masses: Array) -> AnySum:
    """Return the law of a draw from one of the laws, unless a mass could be lost."""
    if isinstance(laws[0], Dense):
        return Dense.mixture(cast(Sequence[Dense], laws), masses)
    return _check_atoms(Law.mixture(cast(Sequence[Law], laws), masses))


def _check_atoms(law: Law) -> Law:
    if not law.exact and law.probabilities.min() < NEGLIGIBLE:
        raise faint()
    return law


def _too_many(terms: RowTerms) -> Refused:
    return Refused(
        f"The law of a sum of {int(terms.counts.sum())} rows has too many atoms to list.",
        allowed="weights and values that are multiples of one number, and fewer rows or answers",
        instead="bound=pf.Messages() or pf.Group(), which need no list",
    )


def _common_step(above: Array) -> Fraction:
    """Return the largest number of which all numbers are multiples; 1 if all are 0."""
    values: list[Any] = [value for value in above.ravel().tolist() if value]
    if not values:
        return Fraction(1)
    denominator = math.lcm(*(value.denominator for value in values))
    return Fraction(math.gcd(*(int(value * denominator) for value in values)), denominator)
