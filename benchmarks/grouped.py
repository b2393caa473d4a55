"""A sum, five queries, and sums of three columns, in 1,000 groups: by plain Polars, and by the product.

Run as a script it does one of them, so that a process of its own shows how much memory that takes.
"""

import atexit
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

GROUPS = 1000
_LEVEL = pl.col("level").clip(0, 3)


def make(path: Path, rows: int) -> str:
    """Write rows with a key and a level each, the same ones every time."""
    rng = np.random.default_rng(1)
    keys = rng.integers(0, GROUPS, rows, dtype=np.int32)
    levels = rng.integers(0, 4, rows, dtype=np.int32)
    hours, wages = rng.integers(0, 8, rows, dtype=np.int32), rng.random(rows) * 100
    pl.DataFrame({"key": keys, "level": levels, "hours": hours, "wage": wages}).write_parquet(path)
    return str(path)


def plain_sum(path: str) -> pl.DataFrame:
    """Sum the clipped levels of each group."""
    return pl.scan_parquet(path).group_by("key").agg(_LEVEL.sum()).collect(engine="streaming")


def plain_five(path: str) -> pl.DataFrame:
    """Work out sum, mean, count, variance and histogram of each group in one pass."""
    asked = [
        _LEVEL.sum().alias("sum"),
        _LEVEL.mean().alias("mean"),
        (_LEVEL >= 3).sum().alias("count"),
        _LEVEL.var(ddof=0).alias("variance"),
        *(_LEVEL.eq(level).sum().alias(f"histogram_{level}") for level in range(4)),
    ]
    return pl.scan_parquet(path).group_by("key").agg(asked).collect(engine="streaming")


def plain_three(path: str) -> pl.DataFrame:
    """Sum three clipped columns of each group."""
    asked = [_LEVEL.sum(), pl.col("hours").clip(0, 7).sum(), pl.col("wage").clip(0, 100).sum()]
    return pl.scan_parquet(path).group_by("key").agg(asked).collect(engine="streaming")


def private_sum(path: str) -> pl.DataFrame:
    """Release the sum, from the scenario to the noisy numbers, charged to an account."""
    return _released(_protected(path).private_sum("level"))


def private_alone(path: str) -> pl.DataFrame:
    """Release the sum without an account."""
    return _protected(path).private_sum("level").release(epsilon=1.0).frame


def private_five(path: str) -> pl.DataFrame:
    """Release all five."""
    batch = (
        _protected(path)
        .private_sum("level")
        .private_mean("level")
        .private_count(pl.col("level") >= 3)
    )
    return _released(batch.private_variance("level").private_histogram("level"))


def private_three(path: str) -> pl.DataFrame:
    """Release the sums of three columns, whose tuples are the secret."""
    import pufferflow as pf

    domains = {"level": [0, 1, 2, 3], "hours": list(range(8)), "wage": pf.Interval(0, 100)}
    secret = [pf.Secret(column, domain=domain) for column, domain in domains.items()]
    batch = pf.protect(
        pl.scan_parquet(path), pf.Scenario(secret, pf.Independent(), public=["key"])
    ).group_by("key")
    return _released(batch.private_sum("level").private_sum("hours").private_sum("wage"))


def _released(batch) -> pl.DataFrame:  # noqa: ANN001 - the product is imported only where it is measured
    import pufferflow as pf

    scenario = batch.request.scenario
    account = _ledger().open(scenario.fingerprint, scenario, limit=pf.Pure(1e6))
    return batch.release(epsilon=1.0, account=account).frame


@cache
def _ledger():  # noqa: ANN202 - likewise
    """Return a ledger that lasts as long as the process."""
    import pufferflow as pf

    folder = tempfile.TemporaryDirectory()
    ledger = pf.Ledger(Path(folder.name) / "ledger.db")
    atexit.register(lambda: (ledger.close(), folder.cleanup()))
    return ledger


def _protected(path: str):  # noqa: ANN202 - the product is imported only where it is measured
    import pufferflow as pf

    scenario = pf.Scenario(
        pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent(), public=["key"]
    )
    return pf.protect(pl.scan_parquet(path), scenario).group_by("key")


WORKS: dict[str, Callable[[str], pl.DataFrame]] = {
    work.__name__: work
    for work in (
        plain_sum,
        plain_five,
        plain_three,
        private_sum,
        private_alone,
        private_five,
        private_three,
    )
}

if __name__ == "__main__":
    WORKS[sys.argv[1]](sys.argv[2])
