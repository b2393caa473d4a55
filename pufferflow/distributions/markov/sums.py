"""A sum along the rows of a Markov chain, on a lattice, and its laws given the state of a row (M18).

Given that state, what comes before the row and what comes after it are independent (`PastAndFuture`).

Future: F_t(a, ·) = Σ_b P_t(a, b) · F_{t+1}(b, · − v_{t+1}(b)), the law of Σ_{u>t} v_u(X_u) given X_t = a.
Past:   G_{t+1}(b, ·) = Σ_a P_t(a, b) · G_t(a, · − v_t(a)), the joint law of Σ_{u<t} v_u(X_u) and X_t. Divided by its
total for each state it is the law given X_t = b.

Values lie on a lattice, or are rounded to one with an exactly known error (`lattice`). W_∞ of two laws of the sum stays
the same when a constant is subtracted from all values of a row. So each row's least value is its point 0. Where the
values are whole multiples of a common step the lattice is exact. Otherwise every value moves to the nearest point. Each
of the two laws then moves by at most the sum over the rows of the largest error.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import float_above
from pufferflow.core.validate import decimal_reading
from pufferflow.distributions.lattice import Masses, mix, rescale, shift
from pufferflow.distributions.markov.chain import Chain


@final
@dataclass(frozen=True, eq=False)
class Sums:
    """The statistic Σ_t values[kinds[t], X_t] along the n rows of a chain on k states.

    `values` has shape (K, k), `kinds` shape (n,). A float is read as the decimal it prints as.

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(9, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> Sums(chain, np.array([[0.0, 1.0]]), np.zeros(10, dtype=np.intp)).length
    10
    """

    chain: Chain
    values: Floats
    kinds: Indices

    def __post_init__(self) -> None:
        if (
            self.values.ndim != 2
            or self.values.shape[1] != self.chain.states
            or not np.isfinite(self.values).all()
        ):
            raise UsageError(
                f"The values have shape {self.values.shape}, or one of them is not finite.",
                allowed=f"finite numbers, one for each of {self.chain.states} states",
                instead="an array of shape (kinds of rows, states)",
            )
        if self.kinds.shape != (self.chain.length,) or not _within(self.kinds, len(self.values)):
            raise UsageError(
                f"The kinds of rows have shape {self.kinds.shape} for {self.chain.length} rows, or name no values.",
                allowed=f"one whole number from 0 to {len(self.values) - 1} for each row",
                instead="np.zeros(rows, dtype=np.intp) if all rows count in the same way",
            )

    @property
    def length(self) -> int:
        return self.chain.length


@final
@dataclass(frozen=True)
class Farthest:
    """The largest distance of two laws of a sum, the row and its two states, and its certainty.

    `rounding` is the relative width within which float masses count as equal. `exact` says that the length is the true
    one for every chain whose probabilities are within it. Otherwise it is an upper bound, for chains whose tied masses
    are equal if it depends on ties.
    """

    length: float
    row: int
    states: tuple[int, int]
    exact: bool
    rounding: float


@final
@dataclass(frozen=True, eq=False)
class SumSecrets:
    """The secrets: unordered pairs of states, and a flag for each row."""

    pairs: list[tuple[int, int]]
    rows: Flags

    @property
    def nothing(self) -> Farthest:
        """The distance 0, where there is no secret."""
        row = int(self.rows.argmax()) if len(self.rows) else 0
        return Farthest(0.0, row, self.pairs[0] if self.pairs else (0, 0), exact=True, rounding=0.0)

    def possible(self, states: Any) -> list[tuple[int, int]]:
        """Return the pairs both of whose states a row can have."""
        return [(a, b) for a, b in self.pairs if states[a] and states[b]]


def read_secrets(sums: Sums, pairs: Indices, rows: Flags | None) -> SumSecrets:
    """Read the secrets; W_∞ and nearness are symmetric, so one order of each pair is enough."""
    given = np.asarray(pairs, dtype=np.intp).reshape(-1, 2)
    if not _within(given, sums.chain.states):
        raise UsageError(
            "A pair names a state that the chain does not have.",
            allowed=f"states from 0 to {sums.chain.states - 1}",
            instead="an array of shape (pairs, 2)",
        )
    flags = (
        np.ones(sums.length, dtype=np.bool_) if rows is None else np.asarray(rows, dtype=np.bool_)
    )
    if flags.shape != (sums.length,):
        raise UsageError(
            f"The rows that are secret have shape {flags.shape} for {sums.length} rows.",
            allowed="one flag for each row, or None for all rows",
            instead="rows=None",
        )
    distinct = sorted({(min(a, b), max(a, b)) for a, b in given.tolist() if a != b})
    return SumSecrets(distinct, flags)


def _within(numbers: Indices, end: int) -> bool:
    return not len(numbers) or (int(numbers.min()) >= 0 and int(numbers.max()) < end)


_CLOSE = 10**9
_SMALL = 10**6
_TRIALS = 64
Rows = list[list[Fraction]]


@final
@dataclass(frozen=True, eq=False)
class SumLattice:
    """Point p of a row stands for its `lows` + step·p: `points[kind, state]`.

    `errors` are the largest |value − point| of each kind of row, `error` is their sum over all rows.
    """

    step: Fraction
    points: Indices
    lows: list[Fraction]
    errors: list[Fraction]
    error: Fraction
    spans: Indices
    """The largest point of each row."""

    @property
    def size(self) -> int:
        """The number of points of the sum."""
        return int(self.spans.sum()) + 1

    def length(self, steps: int, rows: int | None = None) -> float:
        """Return a distance in steps of two snapped laws as one of the true laws, rounded up.

        Where only the sum over some rows may differ, only their errors count.
        """
        error = self.error if rows is None else min(self.error, rows * max(self.errors))
        return float_above(steps * self.step + 2 * error)


def lattice(sums: Sums, most: int) -> SumLattice:
    """Return the exact lattice if it has at most so many points, else one of about that many with an error."""
    counts = np.bincount(sums.kinds, minlength=len(sums.values)).tolist()
    rows, lows = _differences(sums, counts)
    spans = [max(row) for row in rows]
    total = sum((span * count for span, count in zip(spans, counts, strict=True)), Fraction(0))
    if total == 0:
        return _snap(sums, rows, lows, counts, Fraction(1))
    values = {value for row in rows for value in row}
    denominator = math.lcm(*(value.denominator for value in values))
    step = Fraction(math.gcd(*(int(value * denominator) for value in values)), denominator)
    if total / step < most:
        return _snap(sums, rows, lows, counts, step)
    step = _nearly_common(values, max(spans) / _CLOSE)
    if total / step < most:
        candidate = _snap(sums, rows, lows, counts, max(spans) / round(max(spans) / step))
        if candidate.error * _SMALL < total:
            return candidate
    # steps that divide the largest span evenly, into about the allowed number of parts
    parts = max(math.floor(max(spans) * most / total), 1)
    tries = (max(spans) / part for part in range(max(parts - _TRIALS, 1), parts + 1))
    return min(
        (_snap(sums, rows, lows, counts, step) for step in tries),
        key=lambda candidate: candidate.error,
    )


def _differences(sums: Sums, counts: list[int]) -> tuple[Rows, list[Fraction]]:
    """Return each kind's values above its least one, and that one; a kind without rows has no effect."""
    numbers = {value: decimal_reading(value) for value in np.unique(sums.values).tolist()}
    read: Rows = [[numbers[value] for value in row] for row in sums.values.tolist()]
    lows = [min(row) for row in read]
    differences: Rows = [
        [value - low if count else Fraction(0) for value in row]
        for row, low, count in zip(read, lows, counts, strict=True)
    ]
    return differences, lows


def _nearly_common(values: set[Fraction], close: Fraction) -> Fraction:
    """Return Euclid's common measure of numbers; small remainders count as 0."""
    measure = Fraction(0)
    for value in values:
        while value > close:
            measure, value = value, abs(measure - value * round(measure / value))  # noqa: PLW2901 - Euclid's step
    return measure


def _snap(
    sums: Sums, rows: Rows, lows: list[Fraction], counts: list[int], step: Fraction
) -> SumLattice:
    """Round all values to the lattice of a step; the error is exact."""
    points = [[round(value / step) for value in row] for row in rows]
    errors = [
        max(abs(value - step * point) for value, point in zip(row, row_points, strict=True))
        for row, row_points in zip(rows, points, strict=True)
    ]
    error = sum((worst * count for worst, count in zip(errors, counts, strict=True)), Fraction(0))
    point_array = np.array(points, dtype=np.intp).reshape(sums.values.shape)
    return SumLattice(step, point_array, lows, errors, error, point_array.max(axis=1)[sums.kinds])


@final
class PastAndFuture:
    """Both recursions along the rows of a sum on a lattice."""

    def __init__(self, sums: Sums, lattice: SumLattice) -> None:
        self._chain, self._kinds, self._lattice = sums.chain, sums.kinds, lattice
        kernels: list[Floats] = list(sums.chain.kernels)
        self._forth: list[Masses] = [rescale(kernel[None]) for kernel in kernels]
        self._back: list[Masses] = [rescale(kernel.T[None].copy()) for kernel in kernels]

    def pasts(self, initial: Floats) -> Iterator[Masses]:
        """Yield G_t for t = 0, 1, …, from one initial law."""
        law = rescale(initial[None, :, None])
        yield law
        for row, kernel in enumerate(self._chain.order.tolist()):
            law = mix(self._back[int(kernel)], self._add_value(law, row))
            yield law

    def futures_back(self) -> Iterator[Masses]:
        """Yield F_t from the last row to the first."""
        return self._futures(
            Masses(np.ones((1, self._chain.states, 1)), 1.0), self._chain.length - 1, 0
        )

    def futures(self) -> Iterator[Masses]:
        """Yield F_t for t = 0, 1, …: every √n-th is kept on the way back, and those between are computed again."""
        rows = self._chain.length
        every = math.isqrt(rows - 1) + 1
        stored = {
            rows - 1 - i: law
            for i, law in enumerate(self.futures_back())
            if (rows - 1 - i) % every == 0 or i == 0
        }
        for start in range(0, rows, every):
            end = min(start + every, rows - 1)
            block = list(self._futures(stored[end], end, start))[::-1]
            yield from block[:-1]
        yield stored[rows - 1]

    def _futures(self, law: Masses, row: int, until: int) -> Iterator[Masses]:
        """Yield F_t from a row, whose law is given, back to another."""
        yield law
        for before in range(row - 1, until - 1, -1):
            law = mix(self._forth[int(self._chain.order[before])], self._add_value(law, before + 1))
            yield law

    def _add_value(self, law: Masses, row: int) -> Masses:
        """Add the value of a row to the sum, for each of its states."""
        return shift(law, self._lattice.points[self._kinds[row]], int(self._lattice.spans[row]))
