"""The end of a schedule may be a date, a moment, a period or its name; releases that have rows before it count."""

from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf

CHAIN = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
SECRET = pf.Secret("on", domain=[0, 1])


@pytest.fixture
def account_of(tmp_path):
    """Return a function from a scenario to an account."""
    ledger = pf.Ledger(tmp_path / "ledger.db")

    def made(scenario):
        return ledger.open("a", scenario, limit=pf.Pure(90.0))

    yield made
    ledger.close()


def planned(kind=None, zone=None, step="1h"):
    scenario = pf.Scenario(SECRET, CHAIN, order_by="at", step=step)
    if step == "1d":
        moments = pl.date_range(date(2026, 11, 20), date(2026, 11, 20), "1d", eager=True)
    else:
        moments = pl.datetime_range(
            date(2026, 11, 20), date(2026, 11, 21), "1h", closed="left", eager=True
        )
    if zone is not None:
        moments = moments.dt.replace_time_zone(zone)
    if kind is not None:
        moments = moments.cast(kind)
    frame = pl.DataFrame({"at": moments, "on": [0] * len(moments)})
    return scenario, pf.protect(frame, scenario).private_sum("on").plan(pf.Pure(0.8))


UNTIL_A_WEEK = [
    "2026-11-26",
    date(2026, 11, 26),
    datetime(2026, 11, 27),  # noqa: DTZ001 - of a column without a zone
    datetime(2026, 11, 27, tzinfo=UTC),
    pf.Period.read("2026-11-26"),
    "7d",
    timedelta(days=7),
]


@pytest.mark.parametrize("until", thinned(UNTIL_A_WEEK, 0.3), ids=repr)
@pytest.mark.parametrize(
    ("kind", "zone", "step"),
    [
        (None, None, "1h"),
        (pl.Datetime("ns"), None, "1h"),
        (None, "UTC", "1h"),
        (None, "UTC", "1d"),
        (None, None, "1d"),
    ],
)
def test_a_week_is_a_week_however_it_is_named(account_of, until, kind, zone, step):
    """From 20 to 26 November there are seven days, in columns with and without a zone, in hours and in days."""
    if step == "1d" and zone is not None:
        zone = None
    scenario, plan = planned(kind, zone, step)
    found = account_of(scenario).forecast(plan, every="1d", until=until)
    assert found.releases == 7
    assert found.total == account_of(scenario).forecast(plan, every="1d", until="7d").total


@pytest.mark.parametrize(
    ("until", "releases"),
    [
        ("2026-11-20", 1),
        ("2026-W47", 3),
        ("2026-11", 11),
        ("2026", 42),
        (datetime(2026, 11, 21, 1, tzinfo=UTC), 2),
    ],
)
def test_names_of_periods(account_of, until, releases):
    """A day, a week from Monday, a month, a year, and a moment in the middle of a day."""
    scenario, plan = planned()
    assert account_of(scenario).forecast(plan, every="1d", until=until).releases == releases


def test_releases_that_are_made_are_left_out(account_of):
    """A schedule goes on after the last release that is in the account."""
    scenario, plan = planned()
    account = account_of(scenario)
    plan.release(account, "first")
    assert account.forecast(plan, every="1d", until="2026-11-26").releases == 6


def test_releases_that_begin_before_the_end_count(account_of):
    """Every other day from 20 to 30 November there are six, of which the last begins on the 30th."""
    scenario, plan = planned()
    assert account_of(scenario).forecast(plan, every="2d", until="2026-11-30").releases == 6
    assert account_of(scenario).forecast(plan, every="2d", until="2026-11-29").releases == 5


@pytest.mark.parametrize(
    "until", ["2026-11-19", "2026-13", "2026-02-30", "2026-W60", "soon", date(2020, 1, 1)]
)
def test_what_is_no_end_is_refused(account_of, until):
    """Ends before the next release, and names of nothing."""
    scenario, plan = planned()
    with pytest.raises(pf.UsageError, match=r"not before the end|names no day|until is"):
        account_of(scenario).forecast(plan, every="1d", until=until)


def test_steps_that_are_numbers_have_no_dates(account_of):
    """Then an end is a number of steps."""
    scenario = pf.Scenario(SECRET, CHAIN, order_by="hour")
    plan = (
        pf.protect(pl.DataFrame({"hour": range(24), "on": [0] * 24}), scenario)
        .private_sum("on")
        .plan(pf.Pure(0.8))
    )
    assert account_of(scenario).forecast(plan, every=24, until=72).releases == 3
    with pytest.raises(pf.UsageError, match=r"times of its releases' rows are unknown"):
        account_of(scenario).forecast(plan, every=24, until="2026-12-31")
