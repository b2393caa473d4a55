"""The end of a schedule: a number of steps, a duration, or a date, a moment or a period by its name."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, Protocol, runtime_checkable

from pufferflow.core.errors import UsageError
from pufferflow.core.validate import quoted
from pufferflow.models.scenario import Scenario
from pufferflow.published.cost import Cost
from pufferflow.published.row_regions import Region

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - of all zones
_NAMED: Final = re.compile(r"(\d{4})(?:-(?:W(\d{2})|(\d{2})(?:-(\d{2}))?))?")
TIMES: Final = ("date", "moment", "local")
"""The kinds of regions whose values are nanoseconds since 1970."""
_MICROSECOND: Final = 1000


@runtime_checkable
class Ending(Protocol):
    """A period: its end as a local clock shows it, and as a moment."""

    @property
    def end(self) -> datetime: ...

    @property
    def ends(self) -> datetime: ...


def end_of(until: object) -> datetime | Ending | None:
    """Return the end of a date, a moment, a period or its name; None for a number or a duration.

    >>> end_of("2026-12-31"), end_of("2026-W01"), end_of("7d")
    (datetime.datetime(2027, 1, 1, 0, 0), datetime.datetime(2026, 1, 5, 0, 0), None)
    """
    if isinstance(until, datetime | Ending):
        return until
    if isinstance(until, date):
        return datetime(until.year, until.month, until.day) + timedelta(days=1)  # noqa: DTZ001 - local time
    named = _NAMED.fullmatch(until) if isinstance(until, str) else None
    if named is None:
        return None
    try:
        return _end_of_name(*(None if part is None else int(part) for part in named.groups()))
    except (ValueError, OverflowError):
        raise _no_end(until) from None


def _end_of_name(year: int | None, week: int | None, month: int | None, day: int | None) -> datetime:
    known = year or 0
    if week is not None:
        return datetime.fromisocalendar(known, week, 1) + timedelta(weeks=1)
    if day is not None:
        return datetime(known, month or 0, day) + timedelta(days=1)  # noqa: DTZ001 - local time
    if month is not None:
        return (datetime(known, month, 1) + timedelta(days=32)).replace(day=1)  # noqa: DTZ001 - local time
    return datetime(known + 1, 1, 1)  # noqa: DTZ001 - local time


def releases_until(end: datetime | Ending, first: Cost, steps: int, scenario: Scenario) -> int:
    """Return the number of releases that have rows before an end: the first one, repeated every few steps."""
    begin = _begin_of(first, scenario)
    if begin is None:
        raise UsageError(
            "The schedule ends at a time, and the times of its releases' rows are unknown.",
            allowed="a time where order_by or a filter is a date or a time; else a number of steps or a duration",
            instead=f"until={365 * steps}" if not scenario.timed else 'until="365d"',
        )
    left = _ticks(end, local=not first.clock.startswith("moment")) - begin
    count = -(-left // (steps * scenario.step))
    if count < 1:
        raise UsageError(
            f"The next release of the schedule is about rows from {_EPOCH + timedelta(microseconds=begin // 1000)} on, "
            "which is not before the end.",
            allowed="an end after the beginning of the next release",
            instead="account.spent(), which is the total so far",
        )
    return count


def _begin_of(cost: Cost, scenario: Scenario) -> int | None:
    """Return when the rows of a release begin, in nanoseconds since 1970; None if that is unknown."""
    low, kind = cost.window[0], cost.clock.partition(",")[0].partition(" ")[0]
    if scenario.timed and kind in {"time", "moment", "zone"} and low < cost.window[1]:
        return int(low) * scenario.step
    lows = [low for region in cost.regions.values() if (low := _low_of(region)) is not None]
    return max(lows, default=None) if scenario.timed else None


def _low_of(region: Region) -> Any:
    if region.kind not in TIMES:
        return None
    return region.low if region.labels is None else min((one for one in region.labels if one is not None), default=None)


def _ticks(end: datetime | Ending, *, local: bool) -> int:
    """Return an end in nanoseconds since 1970, of a local clock or of UTC; moments without a zone stay as they are."""
    if isinstance(end, Ending):
        end = end.end if local else end.ends
    if end.tzinfo is not None:
        end = end.replace(tzinfo=None) if local else end.astimezone(UTC).replace(tzinfo=None)
    return (end - _EPOCH) // timedelta(microseconds=1) * _MICROSECOND


def _no_end(until: object) -> UsageError:
    return UsageError(
        f"The schedule ends at {quoted(until)}, which names no day, week, month or year.",
        allowed="a date, a moment, a period, or a number of steps or a duration from the next release on",
        instead='until="2026-12-31"',
    )
