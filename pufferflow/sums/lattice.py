"""A lattice that the values of a sum lie on, or are brought to at a price that is known exactly.

W_∞ of two laws of the sum does not change when a constant is taken from all values of a row, so each row's least value
is its point 0. Where the values are whole multiples of a common step the lattice is exact. Otherwise every value moves
to the nearest point, and each of the two laws moves by at most the sum over the rows of the largest error.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from pufferflow.reading import decimal_reading
from pufferflow.rounding import float_above
from pufferflow.sums.statistic import Sums, Whole

_CLOSE = 10**9
_SMALL = 10**6
_TRIALS = 64
Rows = list[list[Fraction]]


@final
@dataclass(frozen=True, eq=False)
class Lattice:
    """Point p of a row stands for its `lows` + step·p: `points[kind, state]`.

    `errors` are the largest |value − point| of each kind of row, `error` is their sum over all rows.
    """

    step: Fraction
    points: Whole
    lows: list[Fraction]
    errors: list[Fraction]
    error: Fraction
    spans: Whole
    """The largest point of each row."""

    @property
    def size(self) -> int:
        """How many points the sum can be at."""
        return int(self.spans.sum()) + 1

    def length(self, steps: int, rows: int | None = None) -> float:
        """Return a distance in steps of two snapped laws as one of the true laws, rounded up.

        Where only the sum over some rows may differ, only their errors count.
        """
        error = self.error if rows is None else min(self.error, rows * max(self.errors))
        return float_above(steps * self.step + 2 * error)


def lattice(sums: Sums, most: int) -> Lattice:
    """Return the exact lattice if it has at most so many points, else one of about that many with an error."""
    counts = np.bincount(sums.kinds, minlength=len(sums.values)).tolist()
    rows, lows = _differences(sums, counts)
    spans = [max(row) for row in rows]
    total = sum((span * count for span, count in zip(spans, counts, strict=True)), Fraction(0))
    if total == 0:
        return _at(sums, rows, lows, counts, Fraction(1))
    step = _common([value for row in rows for value in row])
    if total / step < most:
        return _at(sums, rows, lows, counts, step)
    step = _nearly_common({value for row in rows for value in row}, max(spans) / _CLOSE)
    if total / step < most:
        found = _at(sums, rows, lows, counts, max(spans) / round(max(spans) / step))
        if found.error * _SMALL < total:
            return found
    steps = _even(max(spans), total, most)
    return min((_at(sums, rows, lows, counts, step) for step in steps), key=lambda found: found.error)


def _differences(sums: Sums, counts: list[int]) -> tuple[Rows, list[Fraction]]:
    """Return each kind's values above its least one, and that one; a kind that no row has counts for nothing."""
    numbers = {value: decimal_reading(value) for value in np.unique(sums.values).tolist()}
    read: Rows = [[numbers[value] for value in row] for row in sums.values.tolist()]
    lows = [min(row) for row in read]
    differences: Rows = [
        [value - low if count else Fraction(0) for value in row]
        for row, low, count in zip(read, lows, counts, strict=True)
    ]
    return differences, lows


def _common(values: Sequence[Fraction]) -> Fraction:
    """Return the largest step of which all values are whole multiples."""
    distinct = set(values)
    denominator = math.lcm(*(value.denominator for value in distinct))
    return Fraction(math.gcd(*(int(value * denominator) for value in distinct)), denominator)


def _even(span: Fraction, total: Fraction, most: int) -> list[Fraction]:
    """Return steps to try that divide the largest span evenly, into about as many parts as there may be."""
    parts = max(math.floor(span * most / total), 1)
    return [span / part for part in range(max(parts - _TRIALS, 1), parts + 1)]


def _nearly_common(values: set[Fraction], close: Fraction) -> Fraction:
    """Return Euclid's common measure of numbers, where what is left counts as nothing once it is small."""
    measure = Fraction(0)
    for value in values:
        while value > close:
            measure, value = value, abs(measure - value * round(measure / value))  # noqa: PLW2901 - Euclid's step
    return measure


def _at(sums: Sums, rows: Rows, lows: list[Fraction], counts: list[int], step: Fraction) -> Lattice:
    """Bring all values to the lattice of a step; the error is exact."""
    points = [[round(value / step) for value in row] for row in rows]
    errors = [
        max(abs(value - step * point) for value, point in zip(row, at, strict=True))
        for row, at in zip(rows, points, strict=True)
    ]
    error = sum((worst * count for worst, count in zip(errors, counts, strict=True)), Fraction(0))
    where = np.array(points, dtype=np.intp).reshape(sums.values.shape)
    return Lattice(step, where, lows, errors, error, where.max(axis=1)[sums.kinds])
