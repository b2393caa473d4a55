"""P15: a plan by `bound="auto"` against the quickest single bound: at most twice its time, and .3 s.

One day, month and year of one unit in files of 10^4 to 10^6 hourly rows, under a chain; families of 1 to 15 who share a
class, for a pure guarantee and for (ε, δ); log and sqrt of a column over a domain. The peer is the quickest of the
bounds that `auto` may choose, each requested by name.
"""

import time
from datetime import datetime, timedelta

import numpy as np
import polars as pl
from measure import Row, report

import pufferflow as pf

START = datetime(2000, 1, 1)  # noqa: DTZ001 - the meter's own clock
BOUNDS = ("messages", "windows", "gwm", "dagwm", "kantorovich")
SPANS = {"day": 24, "month": 720, "year": 8760}


def meter(rows: int, asked: int) -> pf.Batch:
    """Return a sum of the last rows of one meter."""
    hours = pl.datetime_range(START, START + timedelta(hours=rows - 1), "1h", eager=True)
    frame = pl.DataFrame(
        {"meter": pl.repeat("a", rows, eager=True), "hour": hours, "on": np.arange(rows) % 2}
    )
    chain = pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    scenario = pf.Scenario(
        pf.Secret("on", domain=[0, 1]), chain, within="meter", order_by="hour", step="1h"
    )
    return pf.protect(frame, scenario).filter(pl.col("hour") >= hours[-asked]).private_sum("on")


def families() -> pf.Batch:
    """Return a sum of heights in families of 1 to 15."""
    heights = np.arange(56, 81)
    rows = [np.exp(-((heights - middle) ** 2) / 8) for middle in (64, 69)]
    prior = pf.LatentClass([0.5, 0.5], [(row / row.sum()).tolist() for row in rows])
    of = [size for size in range(1, 16) for _ in range(size)]
    scenario = pf.Scenario(pf.Secret("height", domain=heights.tolist()), prior, within="family")
    return pf.protect(pl.DataFrame({"family": of, "height": [60] * len(of)}), scenario).private_sum(
        "height"
    )


def bent(function: str, prior: pf.Prior) -> pf.Batch:
    """Return a sum of a function of a column with 200 values."""
    units = [unit for unit in range(20) for _ in range(unit + 5)]
    frame = pl.DataFrame({"unit": units, "kw": [1.0] * len(units), "hour": np.arange(len(units))})
    secret = pf.Secret("kw", domain=[1 + i / 20 for i in range(200)])
    scenario = pf.Scenario(secret, prior, within="unit", order_by="hour")
    return pf.protect(frame, scenario).private_sum(getattr(pl.col("kw"), function)())


def seconds(batch: pf.Batch, promise: pf.Guarantee, bound: str) -> float:
    """Return how long a plan takes, ∞ where the bound refuses."""
    began = time.perf_counter()
    try:
        batch.plan(promise, bound=bound)
    except pf.Refused:
        return float("inf")
    return time.perf_counter() - began


def compared(
    work: str, batch: pf.Batch, promise: pf.Guarantee, bounds: tuple[str, ...] = BOUNDS
) -> Row:
    """Return one row: auto, and the quickest single bound."""
    seconds(batch, promise, "group")  # imports, and what Polars keeps
    quickest, bound = min((seconds(batch, promise, bound), bound) for bound in bounds)
    found = seconds(batch, promise, "auto")
    print(f"{work}: {found:.2f} s, {bound} {quickest:.2f} s", flush=True)
    return Row(work, bound, found, quickest, found / quickest, 2 + 0.3 / quickest)


if __name__ == "__main__":
    pure, approx = pf.Pure(1.0), pf.Approx(1.0, 1e-6)
    rows = [
        compared(f"one {span} of {size} rows", meter(size, asked), pure, ("messages",))
        for size in (10**4, 10**5, 10**6)
        for span, asked in SPANS.items()
    ]
    rows += [compared(f"families, {promise!r}", families(), promise) for promise in (pure, approx)]
    for function in ("log", "sqrt"):
        rows += [
            compared(f"{function}, {type(prior).__name__}", bent(function, prior), pure, ("gwm",))
            for prior in (pf.Independent(), pf.AnyCorrelation())
        ]
    report("p15_auto", rows)
