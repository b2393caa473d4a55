"""Correlations of one number: by the lag (AR1, M16, or any function of it), or equal for all pairs of rows."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast, final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import SMALLEST, UNIT, lifted
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import finite_number, refuse_belief, set_fields
from pufferflow.models.priors.covariance import (
    Covariance,
    Sides,
    by_sign,
    fixed,
    semidefinite,
    summed_up,
    whole,
)
from pufferflow.models.priors.simulator import identity_of, name_of
from pufferflow.models.stored import stored_as

_SLACK = 1e-9
Span = float | tuple[float, float]
Given = float | Sequence[float]
_POWER = 8 * UNIT
"""What a power may err by, and the products and sums of a scan with it (a step of the scan rounds twice)."""


@final
@suggests_arguments
@dataclass(frozen=True)
class AR1(Covariance, kind="ar1"):
    """Rows at positions t and s have the correlation phi^|t−s|, |phi| < 1 (M16).

    phi may be a pair (low, high): a class of priors, of which the worst counts at every lag. A negative phi needs
    positions that are whole numbers of steps.

    >>> AR1(0.9).describe()
    'rows d steps apart have the correlation 0.9^d'
    """

    phi: Span
    stationary = True
    falls_off = True

    def __init__(self, phi: Given) -> None:
        allowed, instead = (
            "a number above -1 and below 1, or a pair (low, high) of them",
            "pf.AR1(0.9)",
        )
        set_fields(self, phi=read_span(phi, "phi", allowed=allowed, instead=instead))

    @property
    def known(self) -> bool:
        return isinstance(self.phi, float)

    def describe(self) -> str:
        low, high = spanned(self.phi)
        base = f"{low:g}^d" if self.known else f"phi^d, phi from {low:g} to {high:g}"
        return f"rows d steps apart have the correlation {base}"

    def check(self, positions: Floats) -> None:
        if spanned(self.phi)[0] < 0:  # it has no powers between steps
            whole(positions, "A negative phi")

    def toward(self, places: Floats, positions: Floats) -> Sides:
        lags = np.abs(places[:, None] - positions[None, :])
        low, high = spanned(self.phi)
        if low >= 0:
            return _power(high, lags), np.zeros_like(lags)
        even = lags % 2 == 0
        return (
            np.where(even, _power(self._size, lags), _power(max(high, 0.0), lags)),
            np.where(even, 0.0, _power(-low, lags)),
        )

    def sides(self, positions: Floats, weights: Floats, cap: float) -> Sides:
        """Return the sums by recursions from both ends, in O(n); `cap` ≥ 1 is not reached.

        With a negative phi even lags take the largest power, odd ones the largest of either sign. A secret row that is
        not queried adds no more, under each phi. Between two rows the sums are convex in its position, so they are
        largest at a row. There the row's own movement counts on the same side.
        """
        low, high = spanned(self.phi)
        signed, gaps = np.stack(by_sign(weights)), np.diff(positions)
        if low >= 0:
            up, down = both_ways(signed, _power(high, gaps))
            return up, down
        even = positions % 2 == 0
        if high < -low:
            sums = both_ways(np.where(even, signed, signed[::-1]), _power(-low, gaps))
            sums = np.where(even, sums, sums[::-1])
            more = _of_other_parity(signed, _power(max(high, 0.0), gaps), even)
        else:
            sums = both_ways(signed, _power(high, gaps))
            more = _of_other_parity(signed[::-1], _power(-low, gaps), even)
        up, down = lifted(sums + more, 2 * UNIT)
        return up, down

    def reached(self, positions: Floats, heights: Floats, level: float) -> Floats:
        # the rows within reach of a secret are a window: the lags at which |phi|^lag ≥ level
        limit = self._limit(level)
        if limit < 0:
            return np.zeros_like(heights)
        sums, slack = _running(heights)
        first, last = _windows(positions, limit)
        window = np.maximum(sums[:, last] - sums[:, first] - heights, 0.0)
        return np.where(last - first > 1, window + slack, 0.0)

    def between(self, positions: Floats, heights: Floats, level: float) -> Floats:
        """Return sums that are at least those for secret rows before, between and behind the positions.

        Such a row is taken to be next to both its neighbours, at whole steps if all positions are whole. There is none
        between rows one step apart.
        """
        limit, step = self._limit(level), 1.0 if (positions == np.rint(positions)).all() else 0.0
        if limit < step:
            return np.zeros((len(heights), len(positions) + 1))
        sums, slack = _running(heights)
        first, last = _windows(positions, limit - step)
        before = np.maximum(sums[:, 1:] - sums[:, first], 0.0)
        behind = np.maximum(sums[:, last] - sums[:, :-1], 0.0)
        inner = np.where(np.diff(positions) > step, before[:, :-1] + behind[:, 1:], 0.0)
        return np.concatenate([behind[:, :1], inner, before[:, -1:]], axis=1) + 2 * slack

    def _limit(self, level: float) -> float:
        """Return the largest lag at which |phi|^lag ≥ level, rounded up; below 0 if there is none."""
        if self._size == 0 or level > 1 + _POWER:
            return -1.0
        return (
            math.inf
            if level <= 0
            else math.log(min(level, 1.0)) / math.log(self._size) * (1 + 1e-12) + 1e-9
        )

    @property
    def _size(self) -> float:
        return max(map(abs, spanned(self.phi)))


def _windows(positions: Floats, reach: float) -> tuple[Indices, Indices]:
    """Return the first row within reach of each row, and the first behind it that is not."""
    size = len(positions)
    gaps = np.diff(positions)
    if size > 1 and bool((gaps == gaps[0]).all()):
        steps, rows = int(min(reach / gaps[0] * (1 + 4 * UNIT), size)), np.arange(size)
        return np.maximum(rows - steps, 0), np.minimum(rows + steps + 1, size)
    first = np.searchsorted(positions, positions - reach, side="left")
    return first, np.searchsorted(positions, positions + reach, side="right")


def _running(heights: Floats) -> Sides:
    """Return the sums of the first 0, 1, 2, … heights, and what they err by; nothing for whole numbers."""
    sums = np.concatenate([np.zeros((len(heights), 1)), np.cumsum(heights, axis=1)], axis=1)
    exact = summed_up(sums, heights) is sums
    return sums, np.zeros((len(heights), 1)) if exact else (heights.shape[1] + 4) * UNIT * sums[
        :, -1:
    ]


def _power(base: float, lags: Floats) -> Floats:
    """Return powers rounded up; one that underflows stays above 0."""
    if base == 0:
        return np.where(lags == 0, 1.0, 0.0)
    with np.errstate(under="ignore"):
        return np.where(lags == 0, 1.0, np.maximum(lifted(base**lags, _POWER), SMALLEST))


def _of_other_parity(weights: Floats, factors: Floats, even: Flags) -> Floats:
    """Return the sums over the rows at an odd lag from each row."""
    if not factors.any():
        return np.zeros_like(weights)
    over_even = both_ways(np.where(even, weights, 0.0), factors)
    over_odd = both_ways(np.where(even, 0.0, weights), factors)
    return np.where(even, over_odd, over_even)


@final
@suggests_arguments
@dataclass(frozen=True)
class Exchangeable(Covariance, kind="exchangeable"):
    """Every two rows of a group have the correlation rho: one shared cause, and noise of their own.

    rho is above −1 and below 1. It may be a pair (low, high): a class of priors, of which the worst counts. n rows
    cannot all have a correlation below −1/(n−1) with each other, so a single negative rho suits small groups only. Of a
    class, larger groups use the members that are possible for them.

    >>> Exchangeable(0.3).describe()
    'every two rows have the correlation 0.3'
    """

    rho: Span
    ordered = False
    stationary = True
    falls_off = True

    def __init__(self, rho: Given) -> None:
        allowed = "a correlation above -1 and below 1, or a pair (low, high) of them"
        set_fields(self, rho=read_span(rho, "rho", allowed=allowed, instead="pf.Exchangeable(0.3)"))

    @property
    def known(self) -> bool:
        return isinstance(self.rho, float)

    def describe(self) -> str:
        low, high = spanned(self.rho)
        return f"every two rows have the correlation {f'{low:g}' if self.known else f'between {low:g} and {high:g}'}"

    def check(self, positions: Floats) -> None:
        _, high = spanned(
            self.rho
        )  # of a class some member has to be possible; those that are not only add noise
        if high * (len(positions) - 1) < -1 - _SLACK:
            raise UsageError(
                f"{len(positions)} rows cannot all have the correlation {high:g} with each other.",
                allowed=f"rho >= -1/(n-1) for n rows: {-1 / (len(positions) - 1):.4g} here",
                instead="pf.Exchangeable((0, rho)), or smaller groups",
            )

    def toward(self, places: Floats, positions: Floats) -> Sides:
        same = places[:, None] == positions[None, :]
        above, below = self._factors
        return np.where(same, 1.0, above), np.where(same, 0.0, below)

    def sides(self, positions: Floats, weights: Floats, cap: float) -> Sides:
        """Return rho times the sums of all other weights of either sign; `cap` ≥ 1 is not reached.

        A secret row that is not queried adds no more. For rho ≥ 0 a queried row of that sign moves the others as far,
        and itself by its whole weight. For rho < 0, n queried rows and this one exist only if rho ≥ −1/n. Then
        |rho|·Σ|w| stays below the largest weight.
        """
        plus, minus = map(_without_one, by_sign(weights))
        above, below = self._factors
        return lifted(above * plus + below * minus, 4 * UNIT), lifted(
            above * minus + below * plus, 4 * UNIT
        )

    def reached(self, positions: Floats, heights: Floats, level: float) -> Floats:
        size = max(self._factors)
        return _without_one(heights) if 0 < size >= level else np.zeros_like(heights)

    def between(self, positions: Floats, heights: Floats, level: float) -> Floats:
        size = max(self._factors)
        total = summed_up(heights.sum(axis=1, keepdims=True), heights)
        return total if 0 < size >= level else np.zeros_like(total)

    @property
    def _factors(self) -> tuple[float, float]:
        low, high = spanned(self.rho)
        return max(high, 0.0), max(-low, 0.0)


def _without_one(terms: Floats) -> Floats:
    """Return the sums of all terms but one, rounded up."""
    total = terms.sum(axis=1, keepdims=True)
    rest = np.maximum(summed_up(total, terms) - terms, 0.0)
    if bool((terms == np.rint(terms)).all()) and float(total.max(initial=0.0)) < 2.0**52:
        return rest
    slack = np.where((terms > 0).sum(axis=1, keepdims=True) - (terms > 0) > 0, total * UNIT, 0.0)
    return np.where(slack > 0, rest + slack, 0.0)


def read_span(given: object, name: str, *, allowed: str, instead: str) -> Span:
    """Return one correlation or both bounds, each above −1 and below 1: at ±1 two rows would fix each other."""
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        return _correlation(given, name, allowed, instead)
    both = list(cast(Sequence[object], given))
    if len(both) != 2:
        raise UsageError(f"{name} has {len(both)} entries.", allowed=allowed, instead=instead)
    low, high = (
        _correlation(bound, f"{name}[{place}]", allowed, instead)
        for place, bound in enumerate(both)
    )
    if low > high:
        raise UsageError(
            f"{name} goes from {low:g} down to {high:g}.", allowed=allowed, instead=instead
        )
    return low if low == high else (low, high)


def spanned(span: Span) -> tuple[float, float]:
    """Return both bounds."""
    return span if isinstance(span, tuple) else (span, span)


def _correlation(given: object, name: str, allowed: str, instead: str) -> float:
    number = finite_number(given, name, allowed=allowed, instead=instead) + 0.0
    if abs(number) == 1:
        refuse_belief(fixed(f"{name} is {number:g}", "two rows", allowed))
    elif not -1 < number < 1:
        raise UsageError(f"{name} is {number:g}.", allowed=allowed, instead=instead)
    return number


def both_ways(weights: Floats, factors: Floats) -> Floats:
    """Return Σ over other rows of their weight times all factors on the way, along the last axis; rounded up.

    There is one factor for each step between neighbours. Factors must be a few units in the last place above the true
    ones, which makes up for the rounding of the recursion.

    >>> both_ways(np.array([[1.0, 0.0, 4.0]]), np.array([0.5, 0.25])).round(9)
    array([[0.5 , 1.5 , 0.125]])
    """
    ahead = _earlier(weights, factors)
    behind = _earlier(weights[..., ::-1], factors[::-1])[..., ::-1]
    return lifted(ahead + behind, 4 * UNIT)


def _earlier(weights: Floats, factors: Floats) -> Floats:
    """Return y with y_0 = 0, y_{t+1} = factors_t·(y_t + weights_t): in blocks side by side, then block to block."""
    size = weights.shape[-1]
    width = max(math.isqrt(size), 1)
    count = -(-size // width)
    flat = weights.reshape(-1, size)
    padded = _scan_blocks(flat, count, width)
    steps = _scan_blocks(factors[None], count, width)[:, 0]
    within, shares = np.zeros((width + 1, len(flat), count)), np.ones((width + 1, count))
    with np.errstate(under="ignore"):
        for at in range(width):
            within[at + 1] = steps[at] * (within[at] + padded[at])
            shares[at + 1] = shares[at] * steps[at]
        carried = np.zeros((len(flat), count))
        for block in range(1, count):
            carried[:, block] = (
                within[width, :, block - 1] + shares[width, block - 1] * carried[:, block - 1]
            )
        whole = within[:width] + shares[:width, None] * carried
    return whole.transpose(1, 2, 0).reshape(len(flat), -1)[:, :size].reshape(weights.shape)


def _scan_blocks(rows: Floats, count: int, width: int) -> Floats:
    """Return rows cut into blocks, padded with zeros: shape (width, rows, count)."""
    padded = np.zeros((len(rows), count * width))
    padded[:, : rows.shape[1]] = rows
    return np.ascontiguousarray(padded.reshape(len(rows), count, width).transpose(2, 0, 1))


Function = Callable[[Floats], Any]
_MOST_DIRECT = 1 << 22
_MOST_STEPS = 1 << 21
_FIRST = 1024
_MOST_FACTORED = 1500
_ALLOWED = "a function of an array of lags, or a list: a correlation above -1 and below 1 for each lag, but 1 at lag 0"
_INSTEAD = "pf.Kernel(lambda lag: np.exp(-((lag / 24) ** 2)))"


@final
@suggests_arguments
@dataclass(frozen=True)
class Kernel(Covariance, kind="kernel"):
    """Rows d whole steps apart have the correlation function(d); a list gives those of lags 0, 1, 2, …, and 0 beyond.

    A function serves plans and releases of one process. It must always return the same values, and no two functions
    share a fingerprint. Accounts, jobs and JSON need a list instead: the correlations of all lags up to twice as far as
    rows lie apart, such as `pf.Kernel(function(np.arange(1000.0)))`.

    No weighted sum of rows may get a negative variance. This is checked on the first 1,500 queried rows, which is no
    proof for more. The movement itself uses only that no correlation is above 1 or below −1.

    Secret rows that are not queried count too. The span is how far apart the first and last queried rows lie. Rows up
    to one span outside count with their own correlations. Farther rows count with the largest correlation of either
    sign at lags of one to two spans; no longer lag is assumed to exceed it.

    >>> Kernel([1, 0.5]).describe()
    'rows d steps apart have the correlation given for d by a list of 2'
    """

    function: Function | tuple[float, ...] = field(metadata=stored_as("correlations"))
    stationary = True

    def __init__(self, function: Function | Sequence[float]) -> None:
        set_fields(self, function=function if callable(function) else _listed(function))
        if self._table is None:
            self._correlations(
                np.array([_FIRST - 1.0])
            )  # a function that cannot be used is refused here

    @property
    def _table(self) -> tuple[float, ...] | None:
        given = cast(object, self.function)
        return cast(tuple[float, ...], given) if isinstance(given, tuple) else None

    def describe(self) -> str:
        table = self._table
        source = (
            f"the function {name_of(self.function)}" if table is None else f"a list of {len(table)}"
        )
        return f"rows d steps apart have the correlation given for d by {source}"

    def stored(self) -> dict[str, Any]:
        if self._table is None:
            raise UsageError(
                f"The kernel is the Python function {name_of(self.function)}, which cannot be stored.",
                allowed="a list of correlations at the lags 0, 1, 2, … up to twice as far as rows lie apart; or pf.AR1",
                instead="pf.Kernel(function(np.arange(1000.0)))",
            )
        return super().stored()

    def fingerprint(self) -> Any:
        if self._table is not None:
            return self.stored()
        return {
            "kind": self.kind,
            "function": name_of(self.function),
            "only": identity_of(self.function).token,
        }

    def check(self, positions: Floats) -> None:
        whole(positions, "A kernel")
        if positions[-1] - positions[0] > _MOST_STEPS:
            raise Refused(
                f"The kernel would cover rows up to {positions[-1] - positions[0]:.0f} steps apart.",
                allowed=f"at most {_MOST_STEPS} steps",
                instead="pf.AR1(phi), or a longer step",
            )
        rows = positions[:_MOST_FACTORED]
        if not semidefinite(self._correlations(np.abs(rows[:, None] - rows[None, :]))):
            raise UsageError(
                "The kernel gives a weighted sum of rows a negative variance: it is no correlation.",
                allowed="a positive semidefinite kernel",
                instead=_INSTEAD,
            )

    def places(self, positions: Floats) -> Floats:
        """Return all steps from one span before the first row to one span behind the last; and one place beyond."""
        far = _width(positions)
        steps = np.arange(-far, int(positions[-1] - positions[0]) + far + 1, dtype=np.float64)
        return np.concatenate([positions[0] + steps, np.full(1, np.inf)])

    def toward(self, places: Floats, positions: Floats) -> Sides:
        lags = np.abs(places[:, None] - positions[None, :])
        near = np.isfinite(lags)
        above, below = by_sign(self._correlations(np.where(near, lags, 0.0)))
        far = _width(positions)
        rise, fall = by_sign(self._correlations(np.arange(far, 2 * far + 1, dtype=np.float64)))
        return np.where(near, above, rise.max()), np.where(near, below, fall.max())

    def sides(self, positions: Floats, weights: Floats, cap: float) -> Sides:
        # as convolutions over all steps; `cap` ≥ 1 is not reached
        if len(positions) * len(self.places(positions)) <= _MOST_DIRECT:
            return super().sides(positions, weights, cap)
        lags = self._correlations(np.arange(2 * _width(positions) + 1, dtype=np.float64))
        (rise, fall), (plus, minus) = by_sign(lags), by_sign(weights)
        up = self._around(positions, plus, rise) + self._around(positions, minus, fall)
        down = self._around(positions, minus, rise) + self._around(positions, plus, fall)
        return up * (1 + UNIT), down * (1 + UNIT)

    def reached(self, positions: Floats, heights: Floats, level: float) -> Floats:
        if len(positions) * len(self.places(positions)) <= _MOST_DIRECT:
            return super().reached(positions, heights, level)
        size = np.abs(self._correlations(np.arange(2 * _width(positions) + 1, dtype=np.float64)))
        reach = np.where((size > 0) & (size >= level), 1.0, 0.0)
        return self._around(positions, heights, reach)

    def _around(self, positions: Floats, weights: Floats, table: Floats) -> Floats:
        """Return Σ_r w_r·table[lag] over other rows for all places, raised by the error of the Fourier transform."""
        from scipy.fft import irfft, next_fast_len, rfft

        far, steps = _width(positions), positions.astype(np.int64) - int(positions[0])
        last = int(steps[-1])
        around = np.concatenate([table[:0:-1], [0.0], table[1:]])
        size = next_fast_len(len(around) + last, real=True)
        bounds = np.zeros((len(weights), last + 2 * far + 2))
        if not around.any():
            return bounds
        transform, error = (
            rfft(around, size),
            32 * np.log2(size) * UNIT * float(np.linalg.norm(around)),
        )
        for answer in np.flatnonzero(weights.any(axis=1)):
            dense = np.zeros(last + 1)
            dense[steps] = weights[answer]
            sums = np.asarray(irfft(rfft(dense, size) * transform, size))[far : 3 * far + last + 1]
            bounds[answer, :-1] = np.maximum(sums, 0.0) + error * float(np.linalg.norm(dense))
        bounds[:, -1] = (
            table[far:].max() * weights.sum(axis=1) * (1 + (weights.shape[1] + 4) * UNIT)
        )
        return bounds

    def _correlations(self, lags: Floats) -> Floats:
        """Return the correlations at whole lags, checked."""
        if self._table is not None:
            table = np.array([*self._table, 0.0])
            return table[np.minimum(lags, len(table) - 1).astype(np.int64)]
        return self._given(int(lags.max(initial=0)) + 1)[lags.astype(np.int64)]

    def _given(self, count: int) -> Floats:
        """Return the correlations of the first lags; for a lag always the same, whatever the function closes over."""
        identity = identity_of(self.function)
        values = _called(cast(Function, self.function), np.arange(count, dtype=np.float64))
        given = identity.given
        shared = min(len(given), count)
        if (np.abs(values[:shared] - given[:shared]) > _SLACK).any():
            raise UsageError(
                f"The kernel's function {name_of(self.function)} gives another correlation for a lag than before.",
                allowed="a function that always gives the same",
                instead="a new function for another prior: pf.Kernel(lambda lag: np.exp(-((lag / 48) ** 2)))",
            )
        if shared < count:
            given = identity.given = np.append(given, values[shared:])
        return given[:count]


def _width(positions: Floats) -> int:
    return max(int(positions[-1] - positions[0]), 1)


def _listed(given: object) -> tuple[float, ...]:
    listed: list[Any] = [*cast(Any, given)] if isinstance(given, Sequence | np.ndarray) else []
    if not listed:
        kind = type(cast(object, given)).__name__
        raise UsageError(
            f"The kernel is of type {kind}, or empty.", allowed=_ALLOWED, instead=_INSTEAD
        )
    read = [
        finite_number(one, "a correlation", allowed=_ALLOWED, instead=_INSTEAD) for one in listed
    ]
    return tuple(_checked(np.array(read)).tolist())


def _called(function: Function, lags: Floats) -> Floats:
    try:
        values = np.asarray(function(lags), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"The kernel's function failed on an array of lags: {error}".partition("\n")[0],
            allowed=_ALLOWED,
            instead=_INSTEAD,
        ) from error
    if values.shape != lags.shape:
        raise UsageError(
            f"The kernel gives shape {values.shape} for {len(lags)} lags.",
            allowed=_ALLOWED,
            instead=_INSTEAD,
        )
    return _checked(values)


def _checked(values: Floats) -> Floats:
    """Return the correlations of the lags 0, 1, 2, …; only a row and itself have the correlation 1."""
    if not (np.abs(values) <= 1 + _SLACK).all():
        raise UsageError(
            "The kernel gives a NaN, or a number beyond 1.", allowed=_ALLOWED, instead=_INSTEAD
        )
    if abs(float(values[0]) - 1) > _SLACK:
        raise UsageError("The correlation at lag 0 is not 1.", allowed=_ALLOWED, instead=_INSTEAD)
    fixing = np.flatnonzero(np.abs(values) >= 1)
    if (beyond := fixing[fixing > 0]).size:
        lag = int(beyond[0])
        refuse_belief(
            fixed(
                f"The correlation at lag {lag} is {np.sign(values[lag]):g}",
                f"rows {lag} steps apart",
                _ALLOWED,
            )
        )
    return np.append(1.0, values[1:])
