"""Small tables for trying the library: made-up power meters of a district, and heights in real families.

The meters are drawn from a Markov chain that `district_kernels` returns, so every prior can be compared with the truth.
Two seeds are two districts: one to publish, and one that serves as the public reference of a prior.

    >>> import pufferflow as pf
    >>> pf.examples.district(meters=2, days=1).height, pf.examples.galton().height
    (48, 934)
"""

from datetime import datetime, timedelta
from importlib.resources import files
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from pufferflow.core.errors import UsageError
from pufferflow.core.validate import whole_number

LEVELS: Final = (0, 1, 2, 3)
"""The power levels of a meter: off, low, middle, high."""
START: Final = datetime(2026, 11, 2)  # noqa: DTZ001 - local time, as meters show it
MORNING, EVENING, NIGHT = range(6, 9), range(17, 20), (*range(5), 21, 22, 23)
MOST_ROWS: Final = 200_000_000


def district(meters: int = 300, days: int = 7, seed: int = 7) -> pl.DataFrame:
    """Return the hourly power level (0 to 3) of made-up meters, from 2 November 2026 on.

    The columns are `meter`, `district` ("north" for two meters of three, "south" for the third), `hour` and `level`.
    The same arguments give the same rows.

    Examples:
        >>> import pufferflow as pf
        >>> rows = pf.examples.district(meters=3, days=1)
        >>> rows.columns, rows.height
        (['meter', 'district', 'hour', 'level'], 72)

    """
    for name, given in (("meters", meters), ("days", days), ("seed", seed)):
        whole_number(given, name, allowed="a whole number from 1 on", instead=f"{name}=7")
    hours = 24 * days
    if meters * hours > MOST_ROWS:
        raise UsageError(
            f"meters={meters} and days={days} make {meters * hours:,} rows.",
            allowed=f"up to {MOST_ROWS:,} rows",
            instead="fewer meters or days",
        )
    levels = _levels(meters, hours, np.random.default_rng(seed))
    south = pl.col("meter") % 3 == 0
    named = pl.select(meter=pl.int_range(meters, dtype=pl.Int32)).with_columns(
        district=pl.when(south).then(pl.lit("south")).otherwise(pl.lit("north"))
    )
    last = START + timedelta(hours=hours - 1)
    times = pl.datetime_range(START, last, "1h", time_unit="us", eager=True).alias("hour")
    return named.join(times.to_frame(), how="cross").with_columns(
        pl.Series("level", levels.ravel(), dtype=pl.Int8)
    )


def district_kernels() -> list[list[list[float]]]:
    """Return the chain behind `district`: for each hour of a day, how the level moves to the next hour.

    A level moves by at most one: up in the morning and the evening, down at night.

    Examples:
        >>> import pufferflow as pf
        >>> kernels = pf.examples.district_kernels()
        >>> len(kernels), [round(share, 2) for share in kernels[7][0]]
        (24, [0.7, 0.3, 0.0, 0.0])
        >>> prior = pf.MarkovChain(kernels, period=24)

    """
    return [_kernel(hour) for hour in range(24)]


def galton() -> pl.DataFrame:
    """Return the heights in inches of 934 adult children of 205 English families, and of their parents.

    Rows of one family are correlated: tall parents have tall children. The columns are `family`, `sex`, `height`,
    `father` and `mother`. Francis Galton measured the families in 1886, and James A. Hanley transcribed his notebooks
    (The American Statistician 58, 2004, doi:10.7910/DVN/T0HSJ1). The measurements are in the public domain.

    Examples:
        >>> import pufferflow as pf
        >>> heights = pf.examples.galton()
        >>> heights.height, heights["family"].n_unique()
        (934, 205)

    """
    with files("pufferflow.examples").joinpath("galton.csv").open("rb") as table:
        return pl.read_csv(table.read(), schema_overrides={"family": pl.String})


def _kernel(hour: int) -> list[list[float]]:
    """Return the transition matrix of the hour that begins at `hour`."""
    up = 0.30 if hour in MORNING or hour in EVENING else 0.10
    down = 0.30 if hour in NIGHT else 0.15
    rows = np.zeros((4, 4))
    for level in LEVELS:
        rows[level, min(level + 1, 3)] += up
        rows[level, max(level - 1, 0)] += down
        rows[level, level] += 1 - up - down
    return [[float(share) for share in row] for row in rows]


def _levels(meters: int, hours: int, drawn: np.random.Generator) -> npt.NDArray[np.int8]:
    """Return a row of levels for every meter, drawn from the chain."""
    below = np.array(district_kernels()).cumsum(axis=2)[
        ..., :-1
    ]  # a move beyond the third is to the last
    levels = np.empty((meters, hours), dtype=np.int8)
    levels[:, 0] = drawn.integers(0, 4, meters)
    for hour in range(1, hours):
        steps = below[(hour - 1) % 24][levels[:, hour - 1]]
        levels[:, hour] = (drawn.random(meters)[:, None] > steps).sum(axis=1)
    return levels
