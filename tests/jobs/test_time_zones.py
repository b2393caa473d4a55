"""Times of rows and periods in different time zones: told at once, with how to bring them together."""

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

import pufferflow as pf

DAY = "2026-10-20"


ZONED = """
aware = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.AnyCorrelation(), order_by="at", step="1h", within="meter")
def rows(period, real=rows):
    return real(period).with_columns(at=pl.col("hour").dt.replace_time_zone("UTC"))
def build(frame, period):
    {moments}
    return pf.protect(frame, aware).filter(at >= start, at < end).private_sum("on")
"""


@pytest.mark.parametrize(
    "moments",
    [
        'at, start, end = pl.col("at"), period.start, period.end',
        'at, start, end = pl.col("at"), period.begins, period.ends',
    ],
)
def test_times_of_other_zones_are_misuse_and_not_rows_that_are_late(moments, make):
    """What compares times of different zones will not go away by waiting: it is told at once, and how to mend it."""
    job = make(ZONED.format(moments=moments), file='[schedule]\ntimezone = "Europe/Berlin"\n')
    with pytest.raises(pf.UsageError, match="different time zones") as caught:
        job.run(DAY)
    assert "convert_time_zone" in caught.value.instead


def test_times_in_the_zone_of_the_job(make):
    """Brought to the job's zone, times in UTC are those of its local day."""
    moments = 'at, start, end = pl.col("at").dt.convert_time_zone(period.zone), period.begins, period.ends'
    job = make(ZONED.format(moments=moments), file='[schedule]\ntimezone = "Europe/Berlin"\n')
    assert job.plan(DAY).rows == 24
    assert job.plan("2026-10-25").rows == 25
    assert job.period(dt.datetime(2026, 10, 20, 1, tzinfo=ZoneInfo("Europe/Berlin"))).label == DAY
