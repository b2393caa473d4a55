"""Read the arguments of public calls: types, and numbers within their ranges; or raise an error that says what fits.

Every reader takes the name of an argument, as errors begin with it, and what is `allowed` and what to try `instead`.
"""

import math
import numbers
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeVar, cast

from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import float_above

T = TypeVar("T")
_LONGEST, _LONGEST_INT = 40, 8192
_refusals: Final[ContextVar[list[str] | None]] = ContextVar(
    "refusals of a stored prior", default=None
)


def quoted(value: object) -> str:
    """Return what was given, for an error: short texts and numbers as they are, otherwise only the type.

    >>> quoted("level"), quoted([1, 2])
    ("'level'", 'of type list')
    """
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > _LONGEST_INT:
        return f"a number of {value.bit_length()} bits"  # Python would refuse to write it down
    if isinstance(value, str | int | float):
        text = repr(value)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f"of type {type(value).__name__}"


def in_few_digits(number: float) -> str:
    """Return a number in few digits where they suffice, so that different numbers have different texts."""
    brief = f"{number:g}"
    return brief if float(brief) == number else repr(number)


def set_fields(value: object, **fields: object) -> None:
    """Set fields of a frozen dataclass, as its `__init__` has read them."""
    vars(value).update(fields)


@contextmanager
def stored_belief() -> Generator[list[str]]:
    """Let priors be restored that are refused today; the list collects what is wrong with them.

    A ledger of an older version may depend on them, and has to stay readable.
    """
    refusals = list[str]()
    token = _refusals.set(refusals)
    try:
        yield refusals
    finally:
        _refusals.reset(token)


def refuse_belief(refusal: UsageError) -> None:
    """Refuse a prior that hides nothing, or record why it is refused if it was stored."""
    refusals = _refusals.get()
    if refusals is None:
        raise refusal
    refusals.append(refusal.problem)


def reads_stored_belief() -> bool:
    """Return whether a prior is being restored that an older version accepted."""
    return _refusals.get() is not None


def belief_refused(why: str) -> UsageError:
    """Return the error for plans under a prior that an older version accepted."""
    return UsageError(
        f"The scenario's prior is refused today: {why}",
        allowed="its account can be read, verified and exported; new plans need another prior",
        instead="ledger.replace_prior(name, scenario) with a sound prior, and plans of that scenario",
    )


def instance(value: object, kind: type[T], name: str, *, allowed: str, instead: str) -> T:
    """Return a value that is of a class."""
    if not isinstance(value, kind):
        raise UsageError(
            f"{name} is of type {type(value).__name__}.", allowed=allowed, instead=instead
        )
    return value


def finite_number(  # noqa: PLR0913 - what fits, and the words of the error
    value: object,
    name: str,
    *,
    allowed: str,
    instead: str,
    fits: Callable[[float], bool] | None = None,
    digits: str = "g",
) -> float:
    """Return a finite number as a float, if it fits; booleans and texts are refused.

    `digits` is the format in which the error shows a number that does not fit.

    >>> finite_number(5, "q", allowed="a number from 0 to 1", instead="q=0.5", fits=lambda q: 0 <= q <= 1)
    Traceback (most recent call last):
    pufferflow.UsageError: q is 5.
      allowed: a number from 0 to 1
      try: q=0.5
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        raise UsageError(
            f"{name} is of type {type(value).__name__}.", allowed=allowed, instead=instead
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    except ValueError:  # a signalling NaN
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{name} is {number}.", allowed=allowed, instead=instead)
    if fits is not None and not fits(number):
        raise UsageError(f"{name} is {number:{digits}}.", allowed=allowed, instead=instead)
    return number


def finite_number_above(
    value: object,
    name: str,
    *,
    allowed: str,
    instead: str,
    fits: Callable[[float], bool] | None = None,
) -> float:
    """Return the least float that is at least a finite number, if it fits: 1/3 becomes the float above a third."""
    number = finite_number(value, name, allowed=allowed, instead=instead)
    number = float_above(Fraction(value)) if isinstance(value, Fraction | Decimal | int) else number
    if fits is not None and not fits(number):
        raise UsageError(f"{name} is {number}.", allowed=allowed, instead=instead)
    return number


def number_above(value: object, name: str, least: float, instead: str) -> float:
    """Return a finite number above a limit."""
    allowed = f"a finite number > {least:g}"
    return finite_number(
        value, name, allowed=allowed, instead=instead, fits=lambda number: number > least, digits=""
    )


def confidence_level(value: object, instead: str) -> float:
    """Return a confidence: a number between 0 and 1, both excluded."""
    allowed = "a number with 0 < confidence < 1"
    return finite_number_above(
        value, "confidence", allowed=allowed, instead=instead, fits=lambda share: 0 < share < 1
    )


def finite_number_at_least_zero(value: object, name: str) -> float:
    """Return a number ≥ 0 as a float that is at least as large."""
    number = finite_number_above(
        value,
        name,
        allowed="a finite number >= 0",
        instead=f"{name}=1.0",
        fits=lambda number: number >= 0 and cast(float, value) >= 0,
    )
    return number + 0.0  # −0.0 is 0.0


def probability_below_one(value: object, name: str) -> float:
    """Return a δ: a number in [0, 1)."""
    return finite_number_above(
        value,
        name,
        allowed="a number with 0 <= delta < 1",
        instead=f"{name}=1e-6",
        fits=lambda number: (
            0 <= number < 1 and cast(float, value) >= 0
        ),  # what rounds to 0 from below is still below
    )


def order_above_one(value: object) -> float:
    """Return a Rényi order: a finite number above 1."""
    allowed, instead = (
        "a finite order above 1",
        "alpha=2, or pf.Pure(epsilon) for the infinite order",
    )
    return finite_number(
        value, "alpha", allowed=allowed, instead=instead, fits=lambda alpha: alpha > 1, digits=""
    )


def check_not_masked(value: object, name: str, *, allowed: str) -> None:
    """Refuse an array of NumPy with a mask: masked entries would be read like all others."""
    if hasattr(value, "mask") and hasattr(value, "filled"):
        raise UsageError(
            f"{name} is a masked array, of which hidden entries would be read too.",
            allowed=allowed,
            instead="array.compressed() for the entries that are not hidden, or array.filled(0)",
        )


def whole_number(
    value: object, name: str, *, allowed: str, instead: str, kind: type[Any] = int
) -> int:
    """Return a whole number ≥ 1 of a type."""
    if isinstance(value, bool) or not isinstance(value, kind) or cast(int, value) < 1:
        raise UsageError(f"{name} is {quoted(value)}.", allowed=allowed, instead=instead)
    return int(cast(int, value))


def decimal_reading(number: float | Fraction | Decimal) -> Fraction:
    """Return the rational number that a float is written as: the shortest decimal that reads as it.

    >>> decimal_reading(0.3)
    Fraction(3, 10)
    """
    return (
        Fraction(number)
        if isinstance(number, Fraction | Decimal)
        else Fraction(repr(float(number)))
    )


def read_name(name: object, what: str) -> str:
    """Return the name of a column."""
    if not isinstance(name, str) or not name:
        example = {"order_by": "hour", "within": "meter", "public": "day"}.get(what, "level")
        raise UsageError(
            f"{what} is {quoted(name)}.",
            allowed="the name of a column",
            instead=f'{what}="{_name_in(name) or example}"',
        )
    return name


def _name_in(given: object) -> str | None:
    """Return the name in a list of one, or of an expression that is a column; None if there is none."""
    if isinstance(given, list | tuple) and len(cast(list[Any], given)) == 1:
        given = cast(list[Any], given)[0]
    if hasattr(cast(object, given), "meta"):
        given = cast(Any, given).meta.output_name(raise_if_undetermined=False)
    return given if isinstance(given, str) else None
