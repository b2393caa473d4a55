"""Many patterns planned on all cores beside one: at most 1 / 1.3 of the time, where there are two cores or more.

Sixty meters have a month of hours each, of which 5 % are missing, so that each has a pattern of its own; the prior is a
class of chains, or three chains. Under a class the first pattern's least noise is worked out before all others.
"""

import os

import numpy as np
import polars as pl
from measure import Row, compare, report

import pufferflow as pf

METERS, HOURS = 60, 720
CLASS = pf.MarkovChain.between([[0.85, 0.05], [0.05, 0.85]], [[0.95, 0.15], [0.15, 0.95]])
CHAINS = [pf.MarkovChain([[stay, 1 - stay], [0.2, 0.8]]) for stay in (0.9, 0.8, 0.7)]


def batch(prior: pf.Prior | list[pf.MarkovChain]) -> pf.Batch:
    """Return a sum over all meters."""
    keep = np.random.default_rng(1).random(METERS * HOURS) > 0.05
    meter, hour = np.repeat(np.arange(METERS), HOURS)[keep], np.tile(np.arange(HOURS), METERS)[keep]
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), prior, order_by="hour", within="meter")
    return pf.protect(
        pl.DataFrame({"meter": meter, "hour": hour, "on": hour % 2}), scenario
    ).private_sum("on")


def planned(prior: pf.Prior | list[pf.MarkovChain], processes: str) -> None:
    """Plan with so many processes; all cores without a number."""
    os.environ["PUFFERFLOW_WORKERS"] = processes
    batch(prior).plan(pf.Pure(1.0))


def timed(words: str, prior: pf.Prior | list[pf.MarkovChain]) -> Row:
    """Time a plan on all cores beside one."""
    return compare(
        words,
        lambda: planned(prior, ""),
        "one core",
        lambda: planned(prior, "1"),
        limit=1 / 1.3,
        rounds=3,
    )


if __name__ == "__main__":
    report(
        "p18_cores",
        [
            timed("60 patterns, three chains", CHAINS),
            timed("60 patterns, a class of chains", CLASS),
        ],
    )
