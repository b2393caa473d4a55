"""What channels read and publish: names of columns, labels, and rows of probabilities."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np

from pufferflow.core.errors import UsageError
from pufferflow.core.validate import decimal_reading, finite_number, quoted

Label = str | int | float | bool
Values = tuple[Label, ...]
_TOLERANCE = Fraction(1, 10**9)
_LONGEST = 4000
INSTEAD: Final = (
    'pf.confounding.Channel("x", inputs=[0, 1], outputs=["no", "yes"], probabilities=[[0.7, 0.3], [0.3, 0.7]])'
)


def columns_of(reads: Any) -> tuple[str, ...]:
    """Return the names of the columns that something reads."""
    listed = cast(Sequence[Any], reads) if isinstance(reads, list | tuple) else [reads]
    names: tuple[Any, ...] = tuple(listed)
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise UsageError(
            f"reads is {quoted(cast(object, reads))}.",
            allowed="the name of a column, or a list of different ones",
            instead='reads="score", or reads=["first", "second"]',
        )
    return cast(tuple[str, ...], names)


def label(given: Any, name: str) -> Any:
    """Return a label: a text, a number or a truth value, or a tuple of such."""
    plain = as_plain(given)
    if isinstance(plain, list | tuple):
        return tuple(label(one, name) for one in cast(Sequence[Any], plain))
    if not isinstance(plain, str | int | float) or (isinstance(plain, float) and not math.isfinite(plain)):
        raise UsageError(
            f"{name} is {quoted(cast(object, given))}.",
            allowed="texts and finite numbers, or tuples of them",
            instead='"yes", or 3',
        )
    return plain


def read_inputs(given: Any, columns: int) -> tuple[Values, ...]:
    """Return what is read as tuples, with a value for each of so many columns."""
    try:
        plain: Any = given.tolist() if hasattr(given, "tolist") else given
        listed: list[Any] = [label(one, "An input") for one in plain]
    except TypeError:
        raise UsageError(
            f"inputs is {quoted(given)}.", allowed="a list of values", instead="inputs=[0, 1, 2]"
        ) from None
    points = tuple(cast(Values, one if isinstance(one, tuple) else (one,)) for one in listed)
    if any(len(point) != columns for point in points):
        raise UsageError(
            f"An input has not {columns} values, one for each column that is read.",
            allowed="a value for every column that is read",
            instead="tuples in the order of reads",
        )
    return points


def unwrapped(points: Sequence[Values]) -> tuple[Any, ...]:
    """Return the values of a single column as they are, of several as tuples."""
    return tuple(point[0] if len(point) == 1 else point for point in points)


def listed(given: Any, name: str) -> list[Any]:
    """Return a list; a single label stands for itself."""
    if isinstance(given, str | int | float | Fraction):
        return [given]
    try:
        return list(given.tolist() if hasattr(given, "tolist") else given)
    except TypeError:
        raise UsageError(f"{name} is of type {type(given).__name__}.", allowed="a list", instead=INSTEAD) from None


def read_rows(given: Any, inputs: int, outputs: int) -> tuple[tuple[Fraction, ...], ...]:
    """Return the rows of probabilities as rationals with sum 1."""
    rows = [listed(row, "A row of probabilities") for row in listed(given, "probabilities")]
    if len(rows) != inputs or any(len(row) != outputs for row in rows):
        raise UsageError(
            f"probabilities has {len(rows)} rows of {sorted({len(row) for row in rows})} numbers, for {inputs} inputs "
            f"and {outputs} outputs.",
            allowed="a row for every input, and in it a number for every output",
            instead=INSTEAD,
        )
    return tuple(_read_row(row) for row in rows)


def _read_row(given: list[Any]) -> tuple[Fraction, ...]:
    allowed = "numbers >= 0, with sum 1 in every row (within 1e-9)"
    for one in given:
        finite_number(as_plain(one), "A probability", allowed=allowed, instead=INSTEAD, fits=lambda p: p >= 0)
    row = [decimal_reading(as_plain(one)) for one in given]
    total = sum(row, Fraction(0))
    if abs(total - 1) > _TOLERANCE:
        raise UsageError(f"A row of probabilities has the sum {float(total):.12g}.", allowed=allowed, instead=INSTEAD)
    return tuple(row) if total == 1 else tuple(one / total for one in row)


def as_plain(given: Any) -> Any:
    """Return a number of NumPy as one of Python."""
    return cast(Any, given).item() if isinstance(given, np.generic) else given


def stored_probability(text: str) -> Fraction:
    """Return a stored probability: digits over digits, of limited length."""
    if len(text) > _LONGEST or not set(text) <= set("0123456789/"):
        raise ValueError
    return Fraction(text)
