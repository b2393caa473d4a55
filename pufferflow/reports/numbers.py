"""Format numbers for people: significant digits, separated thousands, a true minus sign; and describe guarantees."""

import math
from datetime import date, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from itertools import pairwise

from pufferflow.privacy.guarantee import Guarantee

CERTAIN = 0.99
"""A larger share of right guesses leaves practically no protection."""
SPENT = 6
"""The number of digits of what is spent, in reports, terminals and errors."""
MINUS = "\N{MINUS SIGN}"
UNKNOWN = "—"
_PERCENT = "\N{NO-BREAK SPACE}%"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_POWERS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_RTOL = Decimal("1e-12")
_LARGE, _SMALL = 1e15, 1e-5
_UNITS = ((1e12, " tn"), (1e9, " bn"), (1e6, " M"))


def plain(value: float | None, digits: int = 4) -> str:
    """Return a number with about `digits` digits.

    >>> plain(1234567.8), plain(-0.00123456), plain(2.0), plain(3e20), plain(float("inf")), plain(None)
    ('1,234,568', '−0.001235', '2', '3 × 10²⁰', '∞', '—')
    """
    if value is None:
        return UNKNOWN
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    size = abs(value)
    if size and not _SMALL <= size < _LARGE:
        mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa} × 10{str(int(power)).translate(_POWERS)}".replace("-", MINUS)
    return fixed(value, max(digits - 1 - _magnitude(size), 0), trimmed=True)


def total(value: float) -> str:
    """Return what is spent, or a limit, rounded up: a report never shows less than is spent.

    It has as many digits as in a terminal, so that a number is the same everywhere.

    >>> total(0.50012345), total(0.5), total(1.0000000000000002), total(0.0), total(float("inf"))
    ('0.500124', '0.5', '1', '0', '∞')
    """
    return plain(upwards(value, SPENT), SPENT)


def upwards(value: float, digits: int = 4) -> float:
    """Return a positive number with that many digits, rounded up; other numbers are unchanged.

    >>> upwards(1.28403, 3), upwards(1.2000000000000002), upwards(0.0)
    (1.29, 1.2, 0.0)
    """
    if not (math.isfinite(value) and value > 0):
        return value
    exact = Decimal(value) * (1 - _RTOL)  # within this relative margin a number is not rounded up
    return float(Context(prec=digits, rounding=ROUND_CEILING).plus(exact))


def downwards(value: float, digits: int = 4) -> float:
    """Return a number with that many digits, rounded down, such as a proven lower bound.

    >>> downwards(14.9999991, 6), downwards(0.1, 6)
    (14.9999, 0.1)
    """
    return float(Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(repr(float(value))))


def at_most(value: float, digits: int = 4) -> str:
    """Return a number of a guarantee as text that Python can read: with that many digits, rounded up.

    >>> at_most(0.84901), at_most(2.5), at_most(1e-6), at_most(float("inf"))
    ('0.8491', '2.5', '1e-06', 'inf')
    """
    return f"{upwards(value, digits):.{digits}g}"


def fixed(value: float, decimals: int, *, trimmed: bool = False) -> str:
    """Return a finite number with that many decimals.

    >>> fixed(-1234.5678, 2), fixed(2.5, 3, trimmed=True), fixed(-0.001, 1)
    ('−1,234.57', '2.5', '0.0')
    """
    text = f"{value:,.{decimals}f}"
    if trimmed and "." in text:
        text = text.rstrip("0").rstrip(".")
    bare = text.strip("-0.,")
    return text.lstrip("-") if not bare else text.replace("-", MINUS)


def beside(value: float | None, half: float | None) -> str:
    """Return a number with the digits that are significant beside an error of `half`.

    >>> beside(5962.613, 312.9), beside(0.12345, 0.00213), beside(7, None)
    ('5,963', '0.1235', '7')
    """
    if (
        value is None
        or half is None
        or not (math.isfinite(value) and math.isfinite(half))
        or half <= 0
    ):
        return plain(value)
    if not _SMALL <= half < _LARGE or abs(value) >= _LARGE:
        return plain(value)
    return fixed(value, min(max(1 - _magnitude(half), 0), 8))


def span(low: float | None, high: float | None) -> str:
    """Return an interval in words.

    >>> span(-1.25, 3.5), span(float("-inf"), 2.0), span(None, None)
    ('−1.2 to 3.5', '−∞ to 2', '—')
    """
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return UNKNOWN
    half = high / 2 - low / 2
    return f"{beside(low, half)} to {beside(high, half)}"


def percent(share: float) -> str:
    r"""Return a share of a whole, with two digits.

    >>> percent(0.0432), percent(0.0004), percent(0.31), percent(2.34), percent(1234.0)
    ('4.3\xa0%', 'less than 0.1\xa0%', '31\xa0%', '2.3 times', '1,234 times')
    """
    if not math.isfinite(share):
        return "without limit" if share > 0 else UNKNOWN
    if 0 < share < 0.001:
        return f"less than 0.1{_PERCENT}"
    if share < 0.095:
        return f"{fixed(100 * share, 1, trimmed=True)}{_PERCENT}"
    if share < 1.5:
        return f"{fixed(100 * share, 0)}{_PERCENT}"
    return f"{fixed(share, 1, trimmed=True) if share < 10 else plain(round(share) if share < _LARGE else share)} times"


def ticks(marks: list[float]) -> list[str]:
    """Return the labels of an axis, with one unit and as many decimals as distinguish them.

    >>> ticks([0.0, 0.5, 1.0]), ticks([0.0, 1e6, 2e6]), ticks([0.0, 2e-7])
    (['0', '0.5', '1'], ['0', '1 M', '2 M'], ['0', '2 × 10⁻⁷'])
    """
    largest = max((abs(mark) for mark in marks), default=0.0)
    step = min((b - a for a, b in pairwise(marks)), default=largest)
    if largest >= _LARGE or 0 < step < _SMALL:
        return [plain(mark, 3) for mark in marks]
    divisor, unit = next(((size, unit) for size, unit in _UNITS if largest >= size), (1.0, ""))
    decimals = max(2 - _magnitude(step / divisor), 0) if step else 0
    return [
        fixed(mark / divisor, decimals, trimmed=True) + (unit if mark else "") for mark in marks
    ]


def days(marks: list[date]) -> list[str]:
    """Return labels for days or times, as short as distinguishes them.

    >>> days([date(2026, 11, 2), date(2026, 11, 8)])
    ['2 Nov', '8 Nov']
    """
    first, last = marks[0], marks[-1]
    if (
        isinstance(first, datetime)
        and isinstance(last, datetime)
        and (last - first).total_seconds() < 3 * 86_400
    ):
        one_day = first.date() == last.date()
        return [
            f"{mark:%H:%M}" if one_day else f"{mark.day} {MONTHS[mark.month - 1]} {mark:%H:%M}"
            for mark in marks
        ]
    if last.year - first.year > 2:
        return [f"{MONTHS[mark.month - 1]} {mark.year}" for mark in marks]
    if first.year != last.year:
        return [f"{mark.day} {MONTHS[mark.month - 1]} ’{mark.year % 100:02d}" for mark in marks]
    return [f"{mark.day} {MONTHS[mark.month - 1]}" for mark in marks]


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number and a noun, in the plural unless the number is 1.

    >>> counted(1, "row"), counted(1200, "row"), counted(2, "entry", "entries")
    ('1 row', '1,200 rows', '2 entries')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def power(exponent: int) -> str:
    """Return a power of ten, as a plain number if it is short.

    >>> power(3), power(-1), power(9)
    ('1,000', '0.1', '10⁹')
    """
    return plain(10.0**exponent) if -3 <= exponent <= 4 else f"10{str(exponent).translate(_POWERS)}"


def fold(epsilon: float) -> str:
    """Return e^ε, the factor by which odds may change, rounded up.

    >>> fold(1.0), fold(0.25), fold(3.0), fold(12.0), fold(2000.0)
    ('2.72', '1.29', '20.1', '2×10⁵', 'e^2,000')
    """
    if epsilon > 600:
        return f"e^{plain(upwards(epsilon, 3), 3)}"
    factor = math.exp(epsilon)
    if factor < 10_000:
        return plain(upwards(factor, 3), 3)
    mantissa, _, exponent = f"{upwards(factor, 1):.0e}".partition("e")
    return f"{mantissa}×10{str(int(exponent)).translate(_POWERS)}"


def right_guesses(epsilon: float, delta: float = 0.0) -> float:
    """Return the share of right guesses between two secrets of even odds, at most: (e^ε + δ) / (1 + e^ε).

    >>> right_guesses(0.0), right_guesses(0.0, 0.2), right_guesses(800.0)
    (0.5, 0.6, 1.0)
    """
    other = math.exp(-epsilon)
    return min((1 + delta * other) / (1 + other), 1.0)


def even_odds(epsilon: float, delta: float = 0.0) -> str:
    r"""Return the share of right guesses between two secrets of even odds as text, rounded up.

    >>> even_odds(1.0), even_odds(0.0, 0.2), even_odds(9.6)
    ('73.2\xa0%', '60\xa0%', 'more than 99\xa0%')
    """
    share = right_guesses(epsilon, delta)
    if share > CERTAIN:
        return f"more than 99{_PERCENT}"
    return f"{plain(upwards(100 * share, 3), 3)}{_PERCENT}"


def _magnitude(size: float) -> int:
    return math.floor(math.log10(size)) if size else 0


_DIGITS = 6


def promise_in_words(guarantee: Guarantee) -> str:
    """Describe a guarantee: its numbers, and what they mean.

    >>> from pufferflow.privacy.guarantee import Pure
    >>> print(promise_in_words(Pure(0.5)))
    epsilon 0.5 for all answers together: whoever sees the answers changes the odds between two such secrets at most
    1.65-fold
    """
    return guarantee.in_words(lambda number: at_most(number, _DIGITS), fold)
