"""Clocks: rows that may be the same by other clocks, zones or parts of a step are the same."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import polars as pl
import pytest

import pufferflow as pf

BIT = pf.Secret("x", domain=[0, 1])
STAY = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
NEW_YEAR = datetime(2026, 1, 1)  # noqa: DTZ001 - a local time


def plans_of(scenario, frame, *filters):
    """Return a plan of ε = 1 for each filter."""
    return [
        pf.protect(frame, scenario).filter(one).private_sum("x").plan(pf.Pure(1.0))
        for one in filters
    ]


def test_a_literal_coarser_than_its_column_keeps_nothing_apart():
    """Polars compares both sides in the coarser unit, so a row may pass two filters that look disjoint."""
    scenario = pf.Scenario(BIT, pf.Independent(), public=["when"])
    frame = pl.DataFrame({"when": [NEW_YEAR + timedelta(microseconds=500)], "x": [1]})
    coarse = pl.lit(NEW_YEAR, dtype=pl.Datetime("ms"))
    plans = plans_of(scenario, frame, pl.col("when") <= coarse, pl.col("when") > NEW_YEAR)
    assert pf.compose(plans, scenario).total == pytest.approx(2.0)


def test_moments_with_and_without_a_zone_are_not_compared():
    """A local time and a moment in UTC may be one and the same row."""
    scenario = pf.Scenario(BIT, pf.Independent(), public=["when"])
    local = pl.DataFrame({"when": [NEW_YEAR + timedelta(minutes=30)], "x": [1]})
    aware = local.with_columns(pl.col("when").dt.replace_time_zone("Europe/Berlin"))
    (one,) = plans_of(scenario, local, pl.col("when") >= NEW_YEAR)
    (other,) = plans_of(
        scenario, aware, pl.col("when") < datetime(2026, 1, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))
    )
    assert pf.compose([one, other], scenario).total == pytest.approx(2.0)


@pytest.mark.parametrize("prior", [STAY, pf.GaussianPrior(pf.AR1(0.8))])
def test_rows_late_by_other_parts_of_a_step_have_no_steps_in_common(prior):
    """Steps are counted by file; those of files that are late by other parts of a step are not the same steps."""
    domain = [0, 1] if prior is STAY else pf.Interval(0, 10)
    scenario = pf.Scenario(pf.Secret("x", domain=domain), prior, order_by="t", step="1h")
    moments = NEW_YEAR + timedelta(hours=1), NEW_YEAR + timedelta(minutes=54)
    frames = [pl.DataFrame({"t": [moment], "x": [1]}) for moment in moments]
    plans = [pf.protect(frame, scenario).private_sum("x").plan(pf.Pure(1.0)) for frame in frames]
    assert pf.compose(plans, scenario).total >= (1.976 if prior is not STAY else 1.98)


def test_one_row_on_two_clocks_is_one_row():
    """A day in Berlin and the same moment in UTC are other steps of one row."""
    prior = pf.MarkovChain([[0.6, 0.4], [0.4, 0.6]])
    scenario = pf.Scenario(BIT, prior, order_by="t", step="1d")
    berlin = pl.DataFrame({"t": [datetime(2026, 1, 1)], "x": [1]}).with_columns(  # noqa: DTZ001 - replaced below
        pl.col("t").dt.replace_time_zone("Europe/Berlin")
    )
    frames = berlin, berlin.with_columns(pl.col("t").dt.convert_time_zone("UTC"))
    plans = [pf.protect(frame, scenario).private_sum("x").plan(pf.Pure(1.0)) for frame in frames]
    assert pf.compose(plans, scenario).total == pytest.approx(2.0)


def test_quick_totals_keep_clocks_apart(tmp_path):
    """One row on two clocks is charged twice, also by the total that says yes quickly."""
    scenario = pf.Scenario(BIT, pf.MarkovChain([[0.5, 0.5], [0.5, 0.5]]), order_by="t", step="1d")
    midnight = pl.Series("t", [datetime(2026, 1, 2)]).dt.replace_time_zone("Europe/Berlin")  # noqa: DTZ001 - replaced
    berlin = pl.DataFrame({"t": midnight, "x": [0]})
    frames = berlin, berlin.with_columns(pl.col("t").dt.convert_time_zone("UTC"))
    first, second = (
        pf.protect(frame, scenario).private_sum("x").plan(pf.Pure(1.0)) for frame in frames
    )
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("days", scenario, limit=pf.Pure(1.5))
        first.release(account)
        assert account.remaining(second) == 0
        with pytest.raises(pf.LimitReached):
            second.release(account)


def test_durations_and_times_are_not_one_clock():
    """Steps since the beginning of a sequence are not those since 1970."""
    scenario = pf.Scenario(BIT, STAY, order_by="t", step="1h")
    column = pl.Series("t", [3 * 3600 * 10**6])
    frames = [
        pl.DataFrame({"t": column.cast(kind), "x": [0]})
        for kind in (pl.Datetime("us"), pl.Duration("us"))
    ]
    plans = [pf.protect(frame, scenario).private_sum("x").plan(pf.Pure(1.0)) for frame in frames]
    assert plans[0].cost.clock != plans[1].cost.clock


def test_units_and_zones_do_not_matter_to_hours():
    """Hours are counted alike in microseconds and nanoseconds, in Berlin and in UTC."""
    scenario = pf.Scenario(BIT, STAY, order_by="t", step="1h")
    hours = pl.Series(
        "t", [NEW_YEAR + timedelta(hours=hour) for hour in range(4)]
    ).dt.replace_time_zone("UTC")
    columns = hours, hours.dt.cast_time_unit("ns"), hours.dt.convert_time_zone("Europe/Berlin")
    frames = [pl.DataFrame({"t": column, "x": [0] * 4}) for column in columns]
    plans = [pf.protect(frame, scenario).private_sum("x").plan(pf.Pure(1.0)) for frame in frames]
    assert len({(plan.cost.clock, plan.cost.offset) for plan in plans}) == 1
