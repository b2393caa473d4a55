"""P20: many bins and many values: plans whose pairs of values are not listed, against what they must not exceed.

A histogram of 10,000 bins on an interval within 2 s and 300 MiB, sums over 10⁶ values within 3 s and 500 MiB, each in a
process of its own; and the noise of two medians of 200 bins against that of 16 bins.
"""

import sys
import time

import numpy as np
import polars as pl
from measure import Row, report
from processes import peak

import pufferflow as pf

FRAME = pl.DataFrame(
    {"person": range(100), "a": [1.0, 50.0] * 50, "b": [1.0, 50.0] * 50, "x": [1, 50] * 50}
)
HUNDRED = pf.Interval(0, 100)
LIMITS = {"bins": (2.0, 300), "values": (3.0, 500)}


def bins(count: int = 10_000) -> pf.Plan:
    """Plan a histogram of so many bins."""
    scenario = pf.Scenario(pf.Secret("a", domain=HUNDRED, missing=0), pf.Independent())
    batch = pf.protect(FRAME, scenario).private_histogram(
        "a", bins=np.linspace(0, 100, count + 1).tolist()
    )
    return batch.plan(pf.Pure(1.0))


def values(count: int = 10**6) -> pf.Plan:
    """Plan a sum over so many values."""
    scenario = pf.Scenario(pf.Secret("x", domain=list(range(count)), missing=0), pf.Independent())
    return pf.protect(FRAME, scenario).private_sum("x").plan(pf.Pure(1.0))


def noise_of_medians(count: int) -> float:
    """Return the scale of two medians of so many bins."""
    scenario = pf.Scenario(
        pf.Presence("person", ["a", "b"], [HUNDRED] * 2, rows=1), pf.Independent()
    )
    edges = np.linspace(0, 100, count + 1).tolist()
    batch = (
        pf.protect(FRAME, scenario).private_median("a", bins=edges).private_median("b", bins=edges)
    )
    return max(noise.scale for noise in batch.plan(pf.Pure(1.0)).noises.values())


WORK = {"bins": bins, "values": values}


def measured(name: str) -> list[Row]:
    """Return the time of a plan, and the memory of a process that makes it."""
    seconds, most = LIMITS[name]
    WORK[name](100)  # loads what is used
    start = time.perf_counter()
    WORK[name]()
    took = time.perf_counter() - start
    memory = peak([sys.executable, __file__, name])
    return [
        Row(f"{name}: scenario, batch and plan, s", "limit", took, seconds, took / seconds, 1.0),
        Row(f"{name}: a process, MiB", "limit", memory, most, memory / most, 1.0),
    ]


if __name__ == "__main__":
    if sys.argv[1:]:
        WORK[sys.argv[1]]()
    else:
        few, many = noise_of_medians(16), noise_of_medians(200)
        noise = Row("scale of two medians of 200 bins", "of 16 bins", many, few, many / few, 1.001)
        report("p20_bins_and_values", [*measured("bins"), *measured("values"), noise])
