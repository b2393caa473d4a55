"""Periods: names and moments, and where one ends and the next begins."""

import datetime as dt
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinned import thinned

import pufferflow as pf
from pufferflow.jobs.period import last_complete

KINDS = ["hour", "day", "week", "month"]
MOMENTS = st.datetimes(
    dt.datetime.fromisoformat("1950-01-01"), dt.datetime.fromisoformat("2900-01-01")
)


@pytest.mark.parametrize("every", thinned(KINDS, 0.2))
@given(moment=MOMENTS)
def test_a_period_holds_its_moment_and_its_name_reads_back(every, moment):
    """Every moment lies in one period; its name gives the period back; the next begins where it ends."""
    period = pf.Period.holding(moment, every)
    assert period.start <= moment < period.end
    assert pf.Period.read(str(period), every) == period
    assert period.next().start == period.end
    assert period.next().previous() == period
    assert period.previous().next() == period


@pytest.mark.parametrize("every", KINDS)
def test_names_are_in_the_order_of_time(every):
    """Names of later periods are later in the order of texts, over a change of years too."""
    period = pf.Period.holding(dt.date(2026, 10, 1), every)
    names = list(itertools.islice(_on(period), 500))
    assert names == sorted(names)
    assert len(set(names)) == 500


def _on(period):
    while True:
        yield str(period)
        period = period.next()


@pytest.mark.parametrize(
    ("label", "every", "start", "end"),
    [
        ("2026-11-20T05", "hour", "2026-11-20T05:00:00", "2026-11-20T06:00:00"),
        ("2026-11-20", "day", "2026-11-20T00:00:00", "2026-11-21T00:00:00"),
        ("2026-W53", "week", "2026-12-28T00:00:00", "2027-01-04T00:00:00"),
        ("2026-12", "month", "2026-12-01T00:00:00", "2027-01-01T00:00:00"),
        ("2028-02", "month", "2028-02-01T00:00:00", "2028-03-01T00:00:00"),
    ],
)
def test_named_periods(label, every, start, end):
    """Names mean what a calendar says."""
    period = pf.Period.read(label, every)
    assert (period.start.isoformat(), period.end.isoformat()) == (start, end)


@pytest.mark.parametrize(
    ("label", "every"),
    [
        *(("2026-11-20", every) for every in ("hour", "week", "month")),
        *(
            (label, "day")
            for label in (
                "2026-13-01",
                "2026-02-29",
                "20261120",
                "2026-1-2",
                "26-11-20",
                "",
                "today",
            )
        ),
        *(
            (label, "day")
            for label in ("2026-11-20 ", "2026-11-20\n", "٢٠٢٦-11-20", "0001-01-01", None, 20261120)
        ),
        *((label, "week") for label in ("2025-W53", "2026-W00", "2026-W7", "2026-w47")),
        ("2026-11-20T24", "hour"),
    ],
)
def test_what_names_no_period_is_refused(label, every):
    """Only the exact form of a name is read, so that a period has one id."""
    with pytest.raises(pf.UsageError, match="is needed"):
        pf.Period.read(label, every)


def test_days_follow_the_clocks_of_their_zone():
    """A day with a change of clocks has 23 or 25 hours, and begins at its own midnight."""
    spring, autumn = (
        pf.Period.read(day, "day", "Europe/Berlin") for day in ("2026-03-29", "2026-10-25")
    )
    lengths = [
        (day.ends.astimezone(dt.UTC) - day.begins.astimezone(dt.UTC)) / dt.timedelta(hours=1)
        for day in (spring, autumn)
    ]
    assert lengths == [23, 25]
    assert spring.begins.isoformat() == "2026-03-29T00:00:00+01:00"
    assert (
        pf.Period.holding(dt.datetime(2026, 3, 28, 23, 30, tzinfo=dt.UTC), "day", "Europe/Berlin")
        == spring
    )


def test_hours_of_local_time_are_refused():
    """An hour that comes twice would have one name for two periods."""
    with pytest.raises(pf.UsageError, match="may come twice"):
        pf.Period.read("2026-10-25T02", "hour", "Europe/Berlin")


@pytest.mark.parametrize(
    "zone", ["Europe/Atlantis", "", "../etc/passwd", "/etc/passwd", "Europe", None, 3]
)
def test_unknown_zones_are_refused(zone):
    """A zone is a name of the IANA database."""
    with pytest.raises(pf.UsageError, match="time zone"):
        pf.Period.read("2026-10-25", "day", zone)


@pytest.mark.parametrize("start", ["2026-11-20T01:00", "2026-11-20T00:00Z"])
def test_a_period_begins_at_its_beginning(start):
    """What begins in the middle is no period."""
    with pytest.raises(pf.UsageError, match="not that of a day"):
        pf.Period("day", dt.datetime.fromisoformat(start))


def test_the_last_complete_period_is_over_and_the_next_is_not():
    """At midnight of the zone, and not before, the day is complete."""
    midnight = dt.datetime(2026, 11, 21, tzinfo=dt.UTC) - dt.timedelta(hours=1)  # in Berlin
    before = midnight - dt.timedelta(microseconds=1)
    assert str(last_complete("day", "Europe/Berlin", midnight)) == "2026-11-20"
    assert str(last_complete("day", "Europe/Berlin", before)) == "2026-11-19"
    day = pf.Period.read("2026-11-20", "day", "Europe/Berlin")
    assert day.over(midnight)
    assert not day.over(before)
