"""A period: the stretch of time that one scheduled batch is about, and the name that it has in ids and folders."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final, Literal, Self, final, get_args
from zoneinfo import ZoneInfo

from pufferflow.core.errors import UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.validate import quoted

Every = Literal["hour", "day", "week", "month"]
_FORMS: Final = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m"}
_EXAMPLES: Final = {
    "hour": "2026-11-20T05",
    "day": "2026-11-20",
    "week": "2026-W47",
    "month": "2026-11",
}
_LENGTHS: Final = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}
DURATIONS: Final = {"hour": "1h", "day": "1d", "week": "7d"}
"""How long a period is, where all are equally long."""
_YEARS: Final = (1900, 9000)


@final
@dataclass(frozen=True)
class Period(InNotebooks):
    """An hour, a day, a week (from Monday) or a month, in the local time of a zone.

    `start` and `end` are local times without a time zone, as a clock on the wall shows them. `begins` and `ends` are
    the same moments with the zone. Use those that fit the column you filter. `str` gives the name of the period.

    >>> day = Period.read("2026-11-20", "day", "Europe/Berlin")
    >>> day.start, day.end, day.begins.isoformat()
    (datetime.datetime(2026, 11, 20, 0, 0), datetime.datetime(2026, 11, 21, 0, 0), '2026-11-20T00:00:00+01:00')
    >>> str(day.next()), str(Period.holding(date(2026, 11, 20), "week")), Period.read("2026-11", "month").end.day
    ('2026-11-21', '2026-W47', 1)
    """

    every: Every
    start: datetime
    zone: str = "UTC"

    def __post_init__(self) -> None:
        """Refuse a start that is not the beginning of a period."""
        check_every(self.every)
        check_zone(self.zone)
        if self.every == "hour" and self.zone != "UTC":
            raise UsageError(
                f"Periods of an hour need UTC: in {self.zone!r} an hour may come twice, when clocks are set back.",
                allowed='hours in "UTC"; days, weeks and months in any zone',
                instead='timezone = "UTC"',
            )
        if self.start.tzinfo is not None or self.start != _floor(self.start, self.every):
            raise UsageError(
                f"The start {self.start.isoformat()} is not that of a {self.every}.",
                allowed="the beginning of a period, without a time zone",
                instead=f'pf.Period.read("{_EXAMPLES[self.every]}", "{self.every}")',
            )

    @classmethod
    def read(cls, label: str, every: Every = "day", zone: str = "UTC") -> Self:
        """Return the period of a name."""
        check_every(every)
        start = None
        if isinstance(label, str) and re.fullmatch(r"[0-9TW-]{7,13}", label):  # pyright: ignore[reportUnnecessaryIsInstance]
            start = _parse(label, every)
        if start is None or _label(start, every) != label:
            raise UsageError(
                f"The period is {quoted(label)}, and the name of one {every} is needed.",
                allowed=f"periods from {_YEARS[0]} on, written like {_EXAMPLES[every]}",
                instead=f'"{_EXAMPLES[every]}"',
            )
        return cls(every, start, zone)

    @classmethod
    def holding(cls, moment: date, every: Every = "day", zone: str = "UTC") -> Self:
        """Return the period in which a date or a moment lies; moments without a time zone are local ones."""
        check_every(every)
        check_zone(zone)
        if not isinstance(moment, datetime):
            moment = datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001 - local time
        if moment.tzinfo is not None:
            moment = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        return cls(every, _floor(moment, every), zone)

    @property
    def end(self) -> datetime:
        """The first moment after the period, as a clock on the wall shows it."""
        if self.every == "month":
            return (self.start + timedelta(days=32)).replace(day=1)
        return self.start + _LENGTHS[self.every]

    @property
    def begins(self) -> datetime:
        """The first moment, with its time zone."""
        return self.start.replace(tzinfo=ZoneInfo(self.zone))

    @property
    def ends(self) -> datetime:
        """The first moment after the period, with its time zone."""
        return self.end.replace(tzinfo=ZoneInfo(self.zone))

    @property
    def date(self) -> date:
        """The first day."""
        return self.start.date()

    @property
    def label(self) -> str:
        """The name of the period, such as "2026-11-20"; later ones are later in the order of texts."""
        return _label(self.start, self.every)

    def previous(self) -> "Period":
        """Return the period before."""
        return Period(self.every, _floor(self.start - timedelta(minutes=1), self.every), self.zone)

    def next(self) -> "Period":
        """Return the period after."""
        return Period(self.every, self.end, self.zone)

    def over(self, now: datetime | None = None) -> bool:
        """Return whether the period has ended."""
        return self.ends.astimezone(UTC) <= (now or datetime.now(UTC)).astimezone(UTC)

    def __str__(self) -> str:
        """Return the name."""
        return self.label


def last_complete(every: Every, zone: str, now: datetime | None = None) -> Period:
    """Return the last period that is over.

    >>> str(last_complete("day", "UTC", datetime(2026, 11, 21, 3, tzinfo=UTC)))
    '2026-11-20'
    """
    return Period.holding(now or datetime.now(UTC), every, zone).previous()


def check_every(every: object) -> None:
    """Refuse any other word for a kind of period."""
    if every not in get_args(Every):
        raise UsageError(
            f"The kind of period is {quoted(every)}.",
            allowed=", ".join(map(repr, _FORMS)),
            instead='every="day"',
        )


def check_zone(zone: object) -> None:
    """Refuse an unknown time zone."""
    try:
        ZoneInfo(str(zone))
    except (KeyError, OSError, ValueError):  # unknown names, folders, and what is no name at all
        known = False
    else:
        known = isinstance(zone, str)
    if not known:
        raise UsageError(
            f"The time zone is {quoted(zone)}, which is not known here.",
            allowed="a name of the IANA database",
            instead='"Europe/Berlin", or "UTC"',
        )


def _floor(moment: datetime, every: Every) -> datetime:
    hour = moment.replace(minute=0, second=0, microsecond=0, fold=0)
    day = hour.replace(hour=0)
    match every:
        case "hour":
            return hour
        case "day":
            return day
        case "week":
            return day - timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)


def _parse(label: str, every: Every) -> datetime | None:
    try:
        week = every == "week"
        start = datetime.strptime(f"{label}-1" if week else label, _FORMS[every] + "-%u" * week)  # noqa: DTZ007 - local
    except ValueError:
        return None
    return start if _YEARS[0] <= start.year <= _YEARS[1] else None


def _label(start: datetime, every: Every) -> str:
    return start.strftime(_FORMS[every])
