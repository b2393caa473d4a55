"""The tasks of P14 on files of meters with 24 hours each; run as a script it is one task, to be measured.

A chain as prior, in Parquet, 2.4M or 24M rows: hours from one midnight on, hours that start anywhere in a year, and
hours of which 5 % are missing.
"""

import datetime as dt
import functools
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

import pufferflow as pf

HOURS = 24
STARTS = ("from midnight", "starting anywhere", "5 % missing")


def make(path: Path, meters: int, start: str) -> str:
    """Write the rows of so many meters, the same ones every time."""
    rng = np.random.default_rng(14)
    meter, hour = np.repeat(np.arange(meters), HOURS), np.tile(np.arange(HOURS), meters)
    if start == "starting anywhere":
        hour += np.repeat(rng.integers(0, 8760 - HOURS, meters), HOURS)
    on = rng.integers(0, 2, len(meter), dtype=np.int8)
    rows = pl.DataFrame(
        {"meter": meter, "district": (meter % 1000).astype(np.int32), "hour": hour, "on": on}
    )
    if start == "5 % missing":
        rows = rows.filter(pl.Series(rng.random(len(meter)) > 0.05))
    first = pl.lit(dt.datetime(2026, 1, 1))  # noqa: DTZ001 - local time
    rows.with_columns(hour=first + pl.duration(hours=pl.col("hour"))).write_parquet(path)
    return str(path)


def units(path: str) -> pl.DataFrame:
    """Return what a plan needs at least: the rows of each meter, the first and the last."""
    ends = (pl.col("hour").min().alias("first"), pl.col("hour").max().alias("last"))
    return pl.scan_parquet(path).group_by("meter").agg(pl.len(), *ends).collect(engine="streaming")


def sums(path: str) -> pl.DataFrame:
    """Return what a release needs at least: the sum and the count of each district."""
    rows = pl.scan_parquet(path).group_by("district")
    return rows.agg(pl.col("on").sum(), pl.len()).collect(engine="streaming")


def both(path: str) -> None:
    """Return what a release needs that compares the public facts."""
    units(path)
    sums(path)


def batch(path: str, *, by_quarter: bool = False) -> pf.Batch:
    """Return the sum and the count of each district, and of each quarter of the day there."""
    scenario = pf.Scenario(
        pf.Secret("on", domain=[0, 1]),
        pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]]),
        order_by="hour",
        step="1h",
        within="meter",
        public=["district"],
    )
    protected = pf.protect(pl.scan_parquet(path), scenario)
    quarter = [(pl.col("hour").dt.hour() // 6).alias("quarter")] if by_quarter else []
    return (
        protected.group_by("district", *quarter)
        .private_sum("on")
        .private_count(pl.col("on") > 0, name="ons")
    )


def plan(path: str) -> pf.Plan:
    """Plan the sum and the count of each district."""
    return batch(path).plan(pf.Pure(1.0))


def plan_by_quarter(path: str) -> pf.Plan:
    """Plan the sum and the count of each district and quarter of the day."""
    return batch(path, by_quarter=True).plan(pf.Pure(1.0))


@functools.cache
def planned(path: str) -> pf.Plan:
    """Return a plan that several releases share."""
    return plan(path)


def release(path: str) -> pf.Release:
    """Release what was planned."""
    return planned(path).release()


def whole(path: str) -> pf.Release:
    """Plan and release."""
    return plan(path).release()


WORKS: dict[str, Callable[[str], object]] = {
    work.__name__: work for work in (units, sums, both, plan, plan_by_quarter, release, whole)
}

if __name__ == "__main__":
    WORKS[sys.argv[1]](sys.argv[2])
