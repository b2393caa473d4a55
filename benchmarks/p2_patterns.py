"""P2: 20M rows in 5M households: a plan that has to find the patterns of rows takes at most 3 times a count of rows.

A plan ends with the noise, and reads public columns only. Households have four rows each, in no order. Without groups,
and where a household is in one district, one query gives all patterns; where its rows have keys of their own, the rows
of each household in each key have to be counted. The peer is plain Polars counting the rows of each household.
"""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from measure import Row, compare, report

import pufferflow as pf

HOUSEHOLDS = 5_000_000
EACH = 4
CASES = {
    "no groups": None,
    "a district for each household": "district",
    "households cross keys": "key",
}


def make(path: Path) -> str:
    """Write four rows for each household, in no order, the same ones every time."""
    rng = np.random.default_rng(2)
    households = rng.permutation(np.repeat(np.arange(HOUSEHOLDS, dtype=np.int32), EACH))
    keys = rng.integers(0, 1000, len(households), dtype=np.int32)
    levels = rng.integers(0, 4, len(households), dtype=np.int32)
    columns = {
        "household": households,
        "district": households // 5000,
        "key": keys,
        "level": levels,
    }
    pl.DataFrame(columns).write_parquet(path)
    return str(path)


def counted(path: str) -> pl.DataFrame:
    """Count the rows of each household."""
    return pl.scan_parquet(path).group_by("household").len().collect(engine="streaming")


def planned(path: str, by: str | None) -> pf.Plan:
    """Plan a sum whose prior depends on the households of rows."""
    scenario = pf.Scenario(
        pf.Secret("level", domain=[0, 1, 2, 3]),
        pf.LatentClass([0.5, 0.5], rows=[[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]]),
        within="household",
        public=["district", "key"],
    )
    batch = pf.protect(pl.scan_parquet(path), scenario)
    return (batch if by is None else batch.group_by(by)).private_sum("level").plan(pf.Pure(1.0))


def timed(path: str, words: str, by: str | None) -> Row:
    """Time one plan."""
    return compare(
        f"plan, {words}",
        lambda: planned(path, by),
        "group_by(household).len()",
        lambda: counted(path),
        limit=3.0,
        rounds=5,
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        source = make(Path(folder) / "rows.parquet")
        report("p2_patterns", [timed(source, words, by) for words, by in CASES.items()])
