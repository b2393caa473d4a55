"""Steps of a sequence, whole numbers or durations counted in nanoseconds, and where it began."""

import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from numbers import Rational

from pufferflow.core.errors import UsageError
from pufferflow.core.validate import finite_number, quoted

UNITS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
    "w": 7 * 86400 * 10**9,
}
_DURATION = re.compile(r"(\d+)(ns|us|ms|s|m|h|d|w)")
_SPELLED = re.compile(r"\s*(?P<count>\d*)\s*(?P<unit>[a-z]+)\s*", re.IGNORECASE)
_NAMES = {
    "second": "s",
    "sec": "s",
    "minute": "m",
    "min": "m",
    "hour": "h",
    "hr": "h",
    "day": "d",
    "week": "w",
}
UNEVEN = ("mo", "month", "q", "quarter", "y", "year", "yr")
_FINER_THAN_MICROSECONDS = re.compile(r"[.,]\d{7}")


def read_step(step: object) -> tuple[int, bool]:
    """Return a step as a whole number, and whether it counts nanoseconds.

    >>> read_step("1h30m"), read_step(2)
    ((5400000000000, True), (2, False))
    """
    if isinstance(step, int) and not isinstance(step, bool) and step > 0:
        return step, False
    size = 0
    if isinstance(step, timedelta):
        size = step // timedelta(microseconds=1) * 1000
    elif isinstance(step, str) and "".join(map("".join, _DURATION.findall(step))) == step:
        size = sum(int(count) * UNITS[unit] for count, unit in _DURATION.findall(step))
    if size > 0:
        return size, True
    raise UsageError(
        f"step is {quoted(step)}.",
        allowed="a whole number > 0, or a duration such as '15m', '1h', '1d'",
        instead=_meant(step),
    )


def _meant(step: object) -> str:
    """Return the step that was probably meant, as an example for the error."""
    if isinstance(step, float) and step.is_integer() and step > 0:
        return f"step={int(step)}"
    spelled = _SPELLED.fullmatch(step) if isinstance(step, str) else None
    unit = spelled["unit"].lower().removesuffix("s") if spelled else ""
    if unit in UNEVEN:
        return "step=1 with a column that counts months (or years): they are not of one length"
    count, name = (spelled["count"] if spelled else "") or "1", _NAMES.get(unit, unit)
    return f'step="{count}{name}"' if name in UNITS and int(count) else 'step="1h"'


def step_in_words(size: int) -> str:
    """Return nanoseconds as a duration that could be typed.

    >>> step_in_words(5400000000000)
    '90m'
    """
    unit = max((name for name in UNITS if size % UNITS[name] == 0), key=lambda name: UNITS[name])
    return f"{size // UNITS[unit]}{unit}"


def read_start(given: object, *, timed: bool) -> int | float | datetime | None:
    """Return where sequences began: a moment in UTC (or None) for steps that are durations, else a number.

    >>> read_start("2026-01-01", timed=True), read_start(None, timed=False)
    (datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc), 0)
    """
    if timed:
        return None if given is None else _moment(given)
    if given is None:
        return 0
    allowed, instead = (
        "a finite number, or a date for a step that is a duration",
        'start=0, or step="1h"',
    )
    number = finite_number(given, "start", allowed=allowed, instead=instead)
    exact = Fraction(given if isinstance(given, Rational | Decimal) else number)
    return int(exact.numerator) if exact.denominator == 1 else number


def _moment(given: object) -> datetime:
    """Return a moment in UTC; without a time zone it is in UTC already, as in Polars."""
    text = given.isoformat() if isinstance(given, date) else given
    if isinstance(text, str) and not _FINER_THAN_MICROSECONDS.search(text):
        with suppress(ValueError, OverflowError):  # a time zone may lead out of the years 1 to 9999
            moment = datetime.fromisoformat(text)
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    raise UsageError(
        f"start is {quoted(given)}.",
        allowed="a date or time (or its ISO text, to the microsecond) for a step that is a duration",
        instead='start="2026-01-01", or start="2026-01-01T06:00"',
    )


def start_in_words(start: float | datetime) -> str:
    """Return a start as words for people."""
    return (
        f"{start.replace(tzinfo=None).isoformat(' ')} UTC"
        if isinstance(start, datetime)
        else str(start)
    )
