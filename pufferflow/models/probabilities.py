"""Reading of declared probabilities: rational ones stay rational, others are floats with sum 1."""

import math
import numbers
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np

from pufferflow.core.arrays import Array
from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.core.validate import finite_number

Probability = Fraction | float
TOLERANCE = 1e-9
_MARGIN = 1e-9
_ALLOWED = "numbers >= 0 with sum 1 (within 1e-9): floats, Fractions or Decimals"
_INSTEAD = "[0.25, 0.75], or [Fraction(1, 3), Fraction(2, 3)]"


def read_law(given: object, name: str) -> tuple[Probability, ...]:
    """Return one law: Fractions if every number is rational, floats otherwise.

    >>> read_law([0.25, 0.75], "weights"), read_law([Fraction(1, 3), Fraction(2, 3)], "weights")[0]
    ((0.25, 0.75), Fraction(1, 3))
    """
    listed = as_list(given, name)
    rational = all(isinstance(one, numbers.Rational | Decimal) for one in listed)
    read = [_number(one, name, rational=rational) for one in listed]
    if not read or min(read) < 0:
        raise _bad(name, "no entries" if not read else "a negative entry")
    total = sum(cast(list[Fraction], read), Fraction(0)) if rational else math.fsum(read)
    if not abs(total - 1) <= TOLERANCE:
        raise _bad(name, f"the sum {float(total):.12g}")
    rounding = 0 if rational else len(read) * UNIT  # what was normalised once stays as it is
    return tuple(read) if abs(total - 1) <= rounding else tuple(one / total for one in read)


def as_array(law: Sequence[Probability] | Sequence[Sequence[Probability]]) -> Array:
    """Return probabilities as an array: floats, or Fractions where all of them are."""
    array = np.array(law, dtype=object)
    return (
        array if all(isinstance(one, Fraction) for one in array.flat) else array.astype(np.float64)
    )


def least_of_law(law: Array) -> float:
    """Return the least probability above 0, with a margin for rounding."""
    known = np.asarray(law, dtype=np.float64)
    return float(known[known > 0].min(initial=1.0)) * (1 - _MARGIN)


def stored_law(law: Sequence[Probability]) -> list[float | str]:
    """Return probabilities for JSON: floats as they are, Fractions as "1/3"."""
    return [str(one) if isinstance(one, Fraction) else one for one in law]


def restored_law(stored: Sequence[float | str]) -> list[Probability]:
    """Return the stored value."""
    return [Fraction(one) if isinstance(one, str) else one for one in stored]


def as_list(given: Any, name: str) -> list[Any]:
    """Return the entries of a list, an array or a column."""
    for method in ("tolist", "to_list"):
        if hasattr(given, method):
            given = getattr(given, method)()
            break
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise _bad(name, f"the type {type(given).__name__}")
    return list(cast(Sequence[Any], given))


def _number(given: Any, name: str, *, rational: bool) -> Probability:
    number = finite_number(given, f"An entry of {name}", allowed=_ALLOWED, instead=_INSTEAD)
    whole = isinstance(given, numbers.Integral)
    return Fraction(int(given) if whole else given) if rational else number + 0.0


def _bad(name: str, what: str) -> UsageError:
    return UsageError(f"{name} has {what}.", allowed=_ALLOWED, instead=_INSTEAD)
