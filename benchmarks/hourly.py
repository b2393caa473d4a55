"""Tables of hours that depend on each other, and their priors: generated people, and a measured household.

All columns are within [−1, 1], and the target is `y`. Of the generated people the prior is the way they were made:
their numbers follow one autoregression within each person, and people are independent. The household's days stand where
people do, and days are taken to be independent; `PUFFERFLOW_TABLES` names the folder that it is in. Classes of numbers
have no translation (M15): models of them are fitted under the prior in any correlation, group privacy. Of further
people three switches and a class are chains: their hours are states of one Markov chain, which is the prior.
"""

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import pufferflow as pf

FEATURES, PHI, SPREAD, NOISE = 5, 0.5, 0.4, 0.1
NAMES = [f"x{place}" for place in range(FEATURES)]
SLOPES = np.array([0.4, -0.3, 0.2, 0.1, 0.0])
STAY, ODDS = 0.75, np.array([2.0, -1.5, 1.0])
SWITCHES = ["x0", "x1", "x2"]
TIMES = ["sine", "cosine", "sine2", "cosine2"]
MOST, HIGH = 6.0, 1.0
"""Kilowatts: the end of the household's range, and what counts as a high load."""


@dataclass(frozen=True, eq=False)
class Task:
    """A table, a loss, and two scenarios: with the prior, and with any correlation of the hours of a group."""

    name: str
    loss: str
    """"squared" or "logistic", whose target is 0 or 1."""
    frames: Sequence[pl.DataFrame]
    others: Sequence[pl.DataFrame]
    """Tables for the choice of settings."""
    names: Sequence[str]
    group: int
    """The number of rows of a group."""
    belief: pf.Scenario
    whole: pf.Scenario
    given: dict[str, Any] = field(default_factory=dict)
    """What models have to know of public columns."""

    @property
    def rows(self) -> int:
        """The number of rows of a table."""
        return self.frames[0].height


def shocks(rng: np.random.Generator, people: int, hours: int, columns: int) -> np.ndarray:
    """Return autoregressive hours of people, of variance 1."""
    values = rng.normal(size=(people, hours, columns))
    for hour in range(1, hours):
        values[:, hour] = PHI * values[:, hour - 1] + np.sqrt(1 - PHI**2) * values[:, hour]
    return values.reshape(-1, columns)


def generated(seed: int, people: int, hours: int, *, classes: bool = False) -> pl.DataFrame:
    """Return people whose target is linear in five features but for noise, or has log odds that are."""
    rng = np.random.default_rng(seed)
    values = shocks(rng, people, hours, FEATURES + 1)
    features = SPREAD * values[:, :-1]
    means = features @ SLOPES
    target = np.clip(means + NOISE * values[:, -1], -1, 1)
    if classes:
        target = (rng.logistic(size=len(means)) < 5 * means).astype(int)
    keys = {"group": np.repeat(np.arange(people), hours), "hour": np.tile(np.arange(hours), people)}
    return pl.DataFrame(
        dict(zip(NAMES, np.clip(features, -1, 1).T, strict=True)) | {"y": target} | keys
    )


def autoregression() -> pf.GaussianPrior:
    """Return the law of the generated numbers: along the hours, and across the columns of an hour."""
    mixed = SPREAD * np.vstack([np.eye(FEATURES), SLOPES])
    across = mixed @ mixed.T
    across[-1, -1] += NOISE**2
    return pf.GaussianPrior(pf.AR1(PHI), across=across)


def people(count: int, hours: int, seeds: int, *, classes: bool = False) -> Task:
    """Return the task of generated people; settings are chosen on three tables of other seeds."""
    frames, others = (
        [generated(seed, count, hours, classes=classes) for seed in some]
        for some in (range(seeds), range(1000, 1003))
    )
    domain = [0, 1] if classes else pf.Interval(-1, 1)
    secrets = [*(pf.Secret(name, pf.Interval(-1, 1)) for name in NAMES), pf.Secret("y", domain)]
    whole = pf.Scenario(secrets, pf.AnyCorrelation(), within="group", order_by="hour")
    belief = (
        whole
        if classes
        else pf.Scenario(secrets, autoregression(), within="group", order_by="hour")
    )
    loss = "logistic" if classes else "squared"
    return Task(f"{count} × {hours} hours", loss, frames, others, NAMES, hours, belief, whole)


def switched(seed: int, people: int, hours: int) -> pl.DataFrame:
    """Return people with three switches that mostly stay as they are, on which the class of an hour depends."""
    rng = np.random.default_rng(seed)
    flips = rng.random((people, hours, 3)) > STAY
    flips[:, 0] = rng.integers(2, size=(people, 3))
    switches = np.cumsum(flips, axis=1) % 2 * 2 - 1
    classes = rng.random((people, hours)) < _likely(switches)
    keys = {"group": np.repeat(np.arange(people), hours), "hour": np.tile(np.arange(hours), people)}
    return pl.DataFrame(
        dict(zip(SWITCHES, switches.reshape(-1, 3).T, strict=True))
        | {"y": classes.ravel() * 1}
        | keys
    )


def _likely(switches: np.ndarray) -> np.ndarray:
    """Return how likely the class is 1."""
    return 1 / (1 + np.exp(-switches @ ODDS))


def along_a_chain(count: int, hours: int, seeds: int) -> Task:
    """Return the task of switches and classes, whose hours are states of a chain, all of them hidden."""
    frames, others = (
        [switched(seed, count, hours) for seed in some]
        for some in (range(seeds), range(1000, 1003))
    )
    states = np.array(list(itertools.product((-1, 1), repeat=4)))
    likely = _likely(states[:, :3])
    flips = (states[:, None, :3] != states[None, :, :3]).sum(axis=2)
    kernel = (
        STAY ** (3 - flips) * (1 - STAY) ** flips * np.where(states[:, 3] > 0, likely, 1 - likely)
    )
    secrets = [*(pf.Secret(name, [-1, 1]) for name in SWITCHES), pf.Secret("y", [0, 1])]
    belief, whole = (
        pf.Scenario(secrets, prior, within="group", order_by="hour")
        for prior in (pf.MarkovChain(kernel), pf.AnyCorrelation())
    )
    return Task(
        f"{count} × {hours} hours along a chain",
        "logistic",
        frames,
        others,
        SWITCHES,
        hours,
        belief,
        whole,
    )


def household(seeds: int, *, classes: bool = False) -> Task | None:
    """Return the task of the household's load by time of day; None, with a message, without the table.

    No other table is there to choose settings on: they are chosen on this one, which favours the model tuned most.
    """
    file = (
        Path(os.environ.get("PUFFERFLOW_TABLES", "../shared/data"))
        / "household_power_hourly.parquet"
    )
    if not file.is_file():
        print("The household is left out: PUFFERFLOW_TABLES names no folder with it.")
        return None
    table = _days(pl.read_parquet(file), classes=classes)
    sure: dict[str, Any] = {"within": "group", "order_by": "hour", "public": TIMES}
    secret = pf.Secret("y", [0, 1] if classes else pf.Interval(-1, 1))
    whole = pf.Scenario(secret, pf.AnyCorrelation(), **sure)
    belief = whole if classes else pf.Scenario(secret, pf.GaussianPrior(pf.AR1(0.7)), **sure)
    given = {"features": TIMES, "bounds": (-1, 1)}
    loss = "logistic" if classes else "squared"
    return Task("household", loss, [table] * seeds, [table] * 3, TIMES, 24, belief, whole, given)


def _days(table: pl.DataFrame, *, classes: bool) -> pl.DataFrame:
    """Return whole days, with the load as a number within [−1, 1], or whether it is high."""
    load, turn = (
        pl.col("active_power_kw").cast(pl.Float64).fill_null(strategy="forward").fill_null(0),
        2 * np.pi / 24,
    )
    hour = pl.col("time").dt.hour().cast(pl.Int64)
    target = (load > HIGH).cast(pl.Int64) if classes else load.clip(0, MOST) / MOST * 2 - 1
    rows = table.sort("time").select(
        target.alias("y"),
        (turn * hour).sin().alias("sine"),
        (turn * hour).cos().alias("cosine"),
        (2 * turn * hour).sin().alias("sine2"),
        (2 * turn * hour).cos().alias("cosine2"),
        pl.col("time").dt.date().alias("group"),
        hour.alias("hour"),
    )
    return rows.filter(pl.len().over("group") == 24)
