"""Publish the daily load of a district, although every hour of a meter depends on the hours around it.

The data is made up: meters whose power level (0 to 3) follows a Markov chain with a daily cycle. What must stay hidden
is the level of any meter in any hour. The chain that is the adversary's prior is public; so are the meters, hours
and districts. The release is charged to an account in a ledger, a SQLite file: a second run of the example returns
the same release, draws no noise and charges nothing.

Run it as `python examples/district_of_meters.py [report.html [ledger.db]]`: it prints a table and writes a report.
"""

import sys
from datetime import datetime, timedelta

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

import pufferflow as pf

METERS, DAYS, LEVELS = 300, 7, [0, 1, 2, 3]
COSTS = "Forecast"
START = datetime(2026, 11, 2)  # noqa: DTZ001 - local time, as meters show it


def kernels() -> list[list[list[float]]]:
    """Return how the level moves from each hour of the day to the next: up in the morning, down at night."""
    found = list[list[list[float]]]()
    for hour in range(24):
        up = 0.30 if 6 <= hour < 9 or 17 <= hour < 20 else 0.10
        down = 0.30 if hour < 5 or hour >= 21 else 0.15
        rows = [[0.0] * 4 for _ in LEVELS]
        for level in LEVELS:
            rows[level][min(level + 1, 3)] += up
            rows[level][max(level - 1, 0)] += down
            rows[level][level] += 1 - up - down
        found.append(rows)
    return found


def meters(rng: np.random.Generator) -> pl.DataFrame:
    """Return a week of hourly levels of every meter."""
    steps, hours = np.array(kernels()).cumsum(axis=2), DAYS * 24
    levels = np.zeros((METERS, hours), dtype=np.int8)
    levels[:, 0] = rng.integers(0, 4, METERS)
    for hour in range(1, hours):
        below = rng.random(METERS)[:, None] > steps[(hour - 1) % 24][levels[:, hour - 1]]
        levels[:, hour] = np.minimum(below.sum(axis=1), 3)
    times = [START + timedelta(hours=hour) for hour in range(hours)]
    return pl.DataFrame(
        {
            "meter": np.repeat(np.arange(METERS), hours),
            "district": np.repeat(np.where(np.arange(METERS) % 3 == 0, "south", "north"), hours),
            "hour": times * METERS,
            "level": levels.ravel(),
        }
    )


def main() -> None:
    """Plan, print the cost, release, and write the report."""
    scenario = pf.Scenario(
        secret=pf.Secret("level", domain=LEVELS, missing=0),
        prior=pf.MarkovChain(kernels(), period=24),
        order_by="hour",
        step="1h",
        within="meter",
        public=["district"],
    )
    batch = (
        pf.protect(meters(np.random.default_rng(7)), scenario)
        .filter(pl.col("district") == "north")
        .group_by(pl.col("hour").dt.date().alias("day"))
        .private_sum("level", name="load")
        .private_count(pl.col("level") >= 3, name="peaks")
    )
    plan = batch.plan(pf.Pure(1.0))
    console = Console()
    console.print(plan.explain())
    ledger = pf.Ledger(sys.argv[2] if len(sys.argv) > 2 else "pufferflow-demo.db")
    account = ledger.open("district-north-2026", scenario, limit=pf.Pure(2.0), dataset="meters")
    release = plan.release(account, id=f"week-{START:%Y-%m-%d}")
    table = Table(title="Published: noisy daily totals of 200 meters")
    for name in release.frame.columns:
        table.add_column(name, justify="right")
    shown = zip(
        release.frame.iter_rows(named=True), release.intervals.iter_rows(named=True), strict=True
    )
    for row, bars in shown:
        halves = {
            name: (bars[f"{name}_high"] - bars[f"{name}_low"]) / 2 for name in ("load", "peaks")
        }
        table.add_row(
            str(row["day"]), *(f"{row[name]:.1f} ± {halves[name]:.1f}" for name in halves)
        )
    console.print(table)
    console.print(plan.compare().select("bound", "query", "scale", "times", "note"))
    weekly = account.forecast(plan, every="7d")
    console.print(
        f"The account {account.name} has spent {account.spent().epsilon:.3f} of {account.limit.epsilon:g}. {COSTS}:"
    )
    console.print(
        f"  a year of weeks like this  {account.forecast(plan, every='7d', until='364d').total:.3f}"
    )
    console.print(f"  every week without end     {weekly.total:.3f}, by {weekly.rule}")
    console.print(f"The ledger is sound, its head is {ledger.verify().head}")
    place = sys.argv[1] if len(sys.argv) > 1 else "pufferflow-report.html"
    page = release.report(place, evidence=plan.evidence(account, every="7d"))
    console.print(f"The report: {page}")


if __name__ == "__main__":
    main()
