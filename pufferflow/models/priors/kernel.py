"""Correlations that are a function of the lag, or a list for the first lags."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import finite_number, refuse_belief, set_fields
from pufferflow.models.priors.covariance import Covariance, Sides, by_sign, fixed, semidefinite, whole
from pufferflow.models.priors.simulator import identity_of, name_of
from pufferflow.models.stored import stored_as

Function = Callable[[Floats], Any]
_MOST_DIRECT = 1 << 22
_MOST_STEPS = 1 << 21
_FIRST = 1024
_MOST_FACTORED = 1500
_SLACK = 1e-9
_ALLOWED = "a function of an array of lags, or a list: a correlation above -1 and below 1 for each lag, but 1 at lag 0"
_INSTEAD = "pf.Kernel(lambda lag: np.exp(-((lag / 24) ** 2)))"


@final
@suggests_arguments
@dataclass(frozen=True)
class Kernel(Covariance, kind="kernel"):
    """Rows d whole steps apart have the correlation function(d); a list gives those of lags 0, 1, 2, …, and 0 beyond.

    A function is for plans and releases of one process: it is identified by itself, so that no two functions share a
    fingerprint, and it must always return the same. What is stored (accounts, jobs, JSON) needs a list of the lags up
    to twice as far as rows lie apart, such as `pf.Kernel(function(np.arange(1000.0)))`.

    A correlation function gives no weighted sum of rows a negative variance: this is checked on the queried rows (the
    first 1,500 of them, which is no proof for more); the movement itself uses only that no correlation is above 1 or
    below −1. Rows that are not queried are secret too: those up to one span of the queried rows outside them exactly,
    and farther ones by the largest correlations of either sign at lags of one to two spans, which no longer lag is
    assumed to exceed.

    >>> Kernel([1, 0.5]).describe()
    'rows d steps apart have the correlation given for d by a list of 2'
    """

    function: Function | tuple[float, ...] = field(metadata=stored_as("correlations"))
    stationary = True

    def __init__(self, function: Function | Sequence[float]) -> None:
        set_fields(self, function=function if callable(function) else _listed(function))
        if self._table is None:
            self._correlations(np.array([_FIRST - 1.0]))  # a function that cannot be used is refused here

    @property
    def _table(self) -> tuple[float, ...] | None:
        given = cast(object, self.function)
        return cast(tuple[float, ...], given) if isinstance(given, tuple) else None

    @property
    def _function(self) -> Function:
        return cast(Function, self.function)

    def describe(self) -> str:
        table = self._table
        source = f"the function {name_of(self.function)}" if table is None else f"a list of {len(table)}"
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
        return {"kind": self.kind, "function": name_of(self.function), "only": identity_of(self.function).token}

    def check(self, positions: Floats) -> None:
        whole(positions, "A kernel")
        if positions[-1] - positions[0] > _MOST_STEPS:
            raise Refused(
                f"A kernel for rows up to {positions[-1] - positions[0]:.0f} steps apart.",
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
        """Return Σ_r w_r·table[lag] over other rows for all places; the error of the Fourier transform is added."""
        from scipy.fft import irfft, next_fast_len, rfft

        far, steps = _width(positions), positions.astype(np.int64) - int(positions[0])
        last = int(steps[-1])
        around = np.concatenate([table[:0:-1], [0.0], table[1:]])
        size = next_fast_len(len(around) + last, real=True)
        bounds = np.zeros((len(weights), last + 2 * far + 2))
        if not around.any():
            return bounds
        transform, error = rfft(around, size), 32 * np.log2(size) * UNIT * float(np.linalg.norm(around))
        for answer in np.flatnonzero(weights.any(axis=1)):
            dense = np.zeros(last + 1)
            dense[steps] = weights[answer]
            sums = np.asarray(irfft(rfft(dense, size) * transform, size))[far : 3 * far + last + 1]
            bounds[answer, :-1] = np.maximum(sums, 0.0) + error * float(np.linalg.norm(dense))
        bounds[:, -1] = table[far:].max() * weights.sum(axis=1) * (1 + (weights.shape[1] + 4) * UNIT)
        return bounds

    def _correlations(self, lags: Floats) -> Floats:
        """Return the correlations at whole lags, checked."""
        if self._table is not None:
            table = np.array([*self._table, 0.0])
            return table[np.minimum(lags, len(table) - 1).astype(np.int64)]
        return self._given(int(lags.max(initial=0)) + 1)[lags.astype(np.int64)]

    def _given(self, count: int) -> Floats:
        """Return the correlations of the first lags; for a lag always the same, whatever the function closes over."""
        identity, values = identity_of(self.function), _called(self._function, np.arange(count, dtype=np.float64))
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
        raise UsageError(f"The kernel is of type {kind}, or empty.", allowed=_ALLOWED, instead=_INSTEAD)
    read = [finite_number(one, "a correlation", allowed=_ALLOWED, instead=_INSTEAD) for one in listed]
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
            f"The kernel gives shape {values.shape} for {len(lags)} lags.", allowed=_ALLOWED, instead=_INSTEAD
        )
    return _checked(values)


def _checked(values: Floats) -> Floats:
    """Return the correlations of the lags 0, 1, 2, …; only a row and itself have the correlation 1."""
    if not (np.abs(values) <= 1 + _SLACK).all():
        raise UsageError("The kernel gives a NaN, or a number beyond 1.", allowed=_ALLOWED, instead=_INSTEAD)
    if abs(float(values[0]) - 1) > _SLACK:
        raise UsageError("The correlation at lag 0 is not 1.", allowed=_ALLOWED, instead=_INSTEAD)
    fixing = np.flatnonzero(np.abs(values) >= 1)
    if (beyond := fixing[fixing > 0]).size:
        lag = int(beyond[0])
        refuse_belief(
            fixed(f"The correlation at lag {lag} is {np.sign(values[lag]):g}", f"rows {lag} steps apart", _ALLOWED)
        )
    return np.append(1.0, values[1:])
