"""P22: time to plan: a month of hours under correlated priors, chains with a period, and plans with `seconds=`.

The time of a plan with `seconds=` over that limit is at most 1.2, once its first bound has a proof.
"""

import time
from collections.abc import Callable

import numpy as np
import polars as pl
from measure import Row, report

import pufferflow as pf

HOURS = 24 * 31
STATES = 4
FRAME = pl.DataFrame({"hour": range(HOURS), "kw": [float(place % 7) for place in range(HOURS)]})
LEVELS = FRAME.with_columns(level=(pl.col("kw") % STATES).cast(pl.Int64))
GIVEN = 2.0
SLACK = 1.2
LIMIT = 15.0


def chain(period: int) -> pf.MarkovChain:
    """Return a chain of four states whose transitions take turns."""
    draw = np.random.default_rng(5)
    matrices = [
        draw.dirichlet(np.ones(STATES) * 2, size=STATES) * 0.4 + np.eye(STATES) * 0.6
        for _ in range(period)
    ]
    steps = [(matrix / matrix.sum(axis=1, keepdims=True)).tolist() for matrix in matrices]
    return pf.MarkovChain(steps if period > 1 else steps[0], period=period if period > 1 else None)


def under_ar1() -> pf.Batch:
    """Return a query for the mean of a month under AR1."""
    secret = pf.Secret("kw", domain=pf.Interval(0, 11), pairs=pf.WithinDistance(2), missing=0)
    scenario = pf.Scenario(secret, pf.GaussianPrior(pf.AR1(0.9), variance=1.0), order_by="hour")
    return pf.protect(FRAME, scenario).private_mean("kw")


def along(period: int) -> pf.Batch:
    """Return a query for the sum of a month along a chain."""
    secret = pf.Secret("level", domain=list(range(STATES)), missing=0)
    return pf.protect(LEVELS, pf.Scenario(secret, chain(period), order_by="hour")).private_sum(
        "level"
    )


def took(work: Callable[[], object]) -> float:
    """Return the seconds that work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measured() -> list[Row]:
    """Return times of plans against their limits."""
    delta = pf.Approx(1.0, 1e-6)
    along(2).plan(pf.Pure(1.0))  # loads what is used
    plans: dict[str, Callable[[], object]] = {
        "AR1, pure": lambda: under_ar1().plan(pf.Pure(1.0)),
        "AR1, with δ": lambda: under_ar1().plan(delta),
        "a chain, with δ": lambda: along(1).plan(delta),
        "a chain with period=24, pure": lambda: along(24).plan(pf.Pure(1.0)),
        "a chain with period=24, with δ": lambda: along(24).plan(delta),
    }
    rows = list[Row]()
    for name, work in plans.items():
        seconds = took(work)
        rows.append(Row(f"a month under {name}, s", "limit", seconds, LIMIT, seconds / LIMIT, 1.0))
    seconds = took(lambda: along(24).plan(delta, seconds=GIVEN))
    rows.append(
        Row(
            f"the last one with seconds={GIVEN:g}, s",
            "given",
            seconds,
            GIVEN,
            seconds / GIVEN,
            SLACK,
        )
    )
    return rows


if __name__ == "__main__":
    report("p22_time_to_plan", measured())
