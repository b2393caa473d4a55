"""Reading the atoms and weights of a finite law, and putting them in order: validated once, merged, rational or float.

Weights are kept as `masses` over a `total`: whole numbers over a common denominator where the weights are rational, so
that sums and comparisons are exact at any length; floats over 1.0 otherwise.
"""

import math
import numbers
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from pufferflow.core.arrays import Array
from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import SMALLEST, UNIT
from pufferflow.core.validate import instance

L = TypeVar("L")
LARGEST_FLOAT_INTEGER = 2**53
LARGEST_MACHINE_TOTAL = 2**62
_SLACK = 1e-12
_FLOAT_BYTES = 8

_WEIGHTS_ALLOWED = "one number >= 0 per value, with sum 1 (floats: within 1e-12; Fractions: exactly)"


def read_values(values: object) -> Array:
    """Return the atoms as float64, or as Fractions where floats cannot represent all of them exactly."""
    raw = _as_array(values)
    if raw.dtype == object or (raw.dtype.kind == "f" and raw.dtype.itemsize > _FLOAT_BYTES):
        raw = _exact_values(raw.astype(object))
    elif raw.dtype.kind in "iu":
        beyond = raw.size and max(abs(int(raw.min())), abs(int(raw.max()))) > LARGEST_FLOAT_INTEGER
        raw = _exact_values(raw.astype(object)) if beyond else raw.astype(np.float64)
    elif raw.dtype.kind in "bf":
        raw = raw.astype(np.float64)
    else:
        raise _bad_values(f"The values have dtype {raw.dtype}.")
    if raw.ndim not in (1, 2) or raw.size == 0:
        raise _bad_values(f"The values have shape {raw.shape}.")
    if raw.dtype != object:
        if not np.isfinite(raw).all():
            raise _bad_values("Some value is NaN or infinite (a null reads as NaN).", "column.drop_nulls() first")
        raw = raw + 0.0  # −0.0 and 0.0 are one atom
    return raw[:, 0] if raw.ndim == 2 and raw.shape[1] == 1 else raw


def _as_array(values: object) -> Array:
    if type(values).__name__ in {"DataFrame", "LazyFrame", "dict"}:
        raise _bad_values(f"The values are a {type(values).__name__}.", "one column, or frame.to_numpy() for vectors")
    if isinstance(values, np.ma.MaskedArray):
        raise _bad_values("The values are masked.", "values.compressed()")
    try:
        raw = np.asarray(values)
        if raw.dtype.kind == "f" and isinstance(values, list | tuple) and (np.abs(raw) >= LARGEST_FLOAT_INTEGER).any():
            return np.asarray(values, dtype=object)  # whole numbers among the floats may have been rounded
    except ValueError as error:
        raise _bad_values("The values have rows of different lengths.") from error
    return raw


def read_masses(weights: object, count: int) -> tuple[Array, int]:
    """Return the weights as (masses, total): whole numbers over their sum, or floats over 1."""
    try:
        raw = np.asarray(weights)
    except ValueError as error:
        raise _bad_weights("The weights have rows of different lengths.") from error
    if raw.shape != (count,):
        raise _bad_weights(f"The weights have shape {raw.shape} for {count} values.")
    if raw.dtype.kind in "iu" or (raw.dtype == object and all(isinstance(w, numbers.Rational | Decimal) for w in raw)):
        return _rational_masses(raw.tolist())
    if raw.dtype.kind not in "fO" or (raw.dtype == object and not all(_is_number(w) for w in raw)):
        raise _bad_weights(f"The weights have dtype {raw.dtype}.")
    try:
        return _float_masses(raw.astype(np.float64)), 1
    except (OverflowError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise _bad_weights("Some weight does not fit a float.") from error


def read_counts(counts: object, length: int) -> Array:
    """Return how often each value occurred, as whole numbers."""
    raw = np.asarray(counts)
    instead = "pf.Law(values, weights) for weights that are no counts"
    if raw.shape != (length,):
        raise _bad_counts(f"The counts have shape {raw.shape} for {length} values.", instead)
    if raw.dtype.kind not in "iu":
        raise _bad_counts(f"The counts have dtype {raw.dtype}.", instead)
    if (raw < 0).any() or not raw.any():
        raise _bad_counts("Some count is negative, or all are 0.", "checking where the counts come from")
    exact: list[int] = raw.tolist()
    return whole(exact, sum(exact))


def merge(values: Array, masses: Array, total: int) -> tuple[Array, Array, int]:
    """Return atoms sorted and distinct, without atoms of mass 0, with the masses of equal atoms added."""
    positive = masses > 0
    if not positive.all():
        values, masses = values[positive], masses[positive]
    ordered = values.ndim == 1 and bool((values[1:] > values[:-1]).all())
    if not ordered:
        order = _sort_order(values)
        values, masses = values[order], masses[order]
        differs = values[1:] != values[:-1]
        first = np.concatenate([[True], differs if values.ndim == 1 else differs.any(axis=1)])
        if not first.all():
            values, masses = values[first], np.add.reduceat(masses, np.flatnonzero(first))
    if masses.dtype != np.float64:
        divisor = math.gcd(int(np.gcd.reduce(masses)), total)  # machine integers wherever they fit
        masses, total = whole(masses // divisor, total // divisor), total // divisor
    values, masses = np.ascontiguousarray(values), np.ascontiguousarray(masses)
    values.flags.writeable = masses.flags.writeable = False
    return values, masses, total


def as_fractions(floats: Array) -> Array:
    """Return numbers as Fractions, exactly."""
    return np.vectorize(Fraction, otypes=[object])(floats)


def of_kind(law: object, kind: type[L]) -> L:
    """Return a law of the kind that an operation needs; refuse others, and name that kind."""
    name = f"pf.{kind.__name__}"
    return instance(law, kind, "A law", allowed=f"{name}, on both sides", instead=f"help({name}) for how to make one")


def whole(masses: Sequence[int] | Array, total: int) -> Array:
    """Return whole masses as machine integers where their total allows, as Python integers otherwise."""
    return np.asarray(masses, dtype=np.int64 if total < LARGEST_MACHINE_TOTAL else object)


def normalise_masses(masses: Array) -> Array:
    """Return float masses with sum 1; those that miss it by no more than rounding explains are left as they are."""
    total = float(masses.sum())
    if abs(total - 1) <= len(masses) * UNIT:
        return masses
    return np.where(masses > 0, above_zero(masses / total), 0.0)


def log_quotient(dividend: int, divisor: int) -> float:
    """Return log(dividend/divisor) for whole numbers > 0 of any size, to a few units in the last place.

    >>> round(log_quotient(1, 10**400), 9) == round(-400 * math.log(10), 9)
    True
    """
    places = divisor.bit_length() - dividend.bit_length()
    near_one = (dividend << places) / divisor if places >= 0 else dividend / (divisor << -places)
    return math.log(near_one) - places * math.log(2)


def above_zero(masses: Array) -> Array:
    """Return float masses without underflow: an atom that can occur keeps at least the smallest float."""
    return np.maximum(masses, SMALLEST)


def _sort_order(values: Array) -> Array:
    if values.ndim == 1:
        return np.argsort(values, kind="stable")
    if values.dtype == object:
        return np.array(sorted(range(len(values)), key=lambda i: tuple(values[i])), dtype=np.intp)
    return np.lexsort(values.T[::-1])


def _exact_values(raw: Array) -> Array:
    if any(value is None for value in raw.flat):
        raise _bad_values("Some value is null.", "column.drop_nulls() first")
    if not all(_is_number(value) for value in raw.flat):
        raise _bad_values("Some value is not a number.")
    if all(_fits_float(value) for value in raw.flat):
        return raw.astype(np.float64)
    try:
        exact = [Fraction(*value.as_integer_ratio()) for value in raw.flat]
    except (ValueError, OverflowError) as error:
        raise _bad_values("Some value is NaN or infinite.") from error
    result = np.empty(raw.size, dtype=object)
    result[:] = exact
    return result.reshape(raw.shape)


def _rational_masses(given: list[Any]) -> tuple[Array, int]:
    try:
        weights = [Fraction(weight) for weight in given]
    except (ValueError, OverflowError) as error:  # a Decimal may be no number, or infinite
        raise _bad_weights("Some weight is NaN or infinite.") from error
    if min(weights) < 0:
        raise _bad_weights(f"Some weight is negative: {_readable(min(weights))}.")
    total = sum(weights, Fraction(0))
    if total != 1:
        raise _bad_sum(_readable(total))
    denominator = math.lcm(*(weight.denominator for weight in weights))
    return whole(
        [weight.numerator * (denominator // weight.denominator) for weight in weights], denominator
    ), denominator


def _float_masses(weights: Array) -> Array:
    if not np.isfinite(weights).all():
        raise _bad_weights("Some weight is NaN or infinite.")
    if weights.min() < 0:
        raise _bad_weights(f"Some weight is negative: {weights.min():.3g}.")
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if not abs(total - 1) <= _SLACK:
        raise _bad_sum(f"{total:.17g}")
    return normalise_masses(weights)


def _fits_float(value: Any) -> bool:
    try:
        return isinstance(value, float) or value == float(value)
    except (OverflowError, ValueError):  # too large, or a signalling NaN
        return False


def _readable(number: Fraction) -> str:
    return f"{float(number):.17g}" if abs(number) < LARGEST_FLOAT_INTEGER else "beyond 2^53"


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real | Decimal)


def _bad_values(problem: str, instead: str = "pf.Law([0, 1], [0.5, 0.5])") -> UsageError:
    return UsageError(problem, allowed="finite numbers, of shape (n,) or (n, d), at least one", instead=instead)


def _bad_counts(problem: str, instead: str) -> UsageError:
    return UsageError(problem, allowed="one whole number >= 0 per value, not all of them 0", instead=instead)


def _bad_weights(problem: str, instead: str = "pf.Law([0, 1], [0.5, 0.5])") -> UsageError:
    return UsageError(problem, allowed=_WEIGHTS_ALLOWED, instead=instead)


def _bad_sum(total: str) -> UsageError:
    return _bad_weights(
        f"The weights have sum {total}.", "weights / weights.sum(), or pf.Law.empirical(values, counts=...) for counts"
    )
