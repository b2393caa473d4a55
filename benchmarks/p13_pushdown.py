"""P13: a release that leaves 10^8 rows where they are, beside the same machine's own sums of floats.

Few classes take at most 1.2 times as long, fixed point at most 1.7 times, in DuckDB and in Spark on two cores. Polars
streams the same file within 2 GiB. Plans are made before; what is timed is a release: one query, and noise.

    python benchmarks/p13_pushdown.py [ROWS]
"""

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from measure import Row, compare, report
from processes import HERE, peak

import pufferflow as pf

ROWS, GROUPS, PART = 10**8, 1_000, 10**7
OWN = {
    "few classes": "SELECT district, SUM(CAST(level AS DOUBLE)), COUNT(*) FROM {} GROUP BY district",
    "fixed point": "SELECT district, SUM(kwh), COUNT(*) FROM {} GROUP BY district",
}
LIMITS = {"few classes": 1.2, "fixed point": 1.7}


def make(folder: Path, rows: int) -> Path:
    """Write the rows of meters into files of ten million each."""
    rng = np.random.default_rng(13)
    for part in range(0, rows, PART):
        size = min(PART, rows - part)
        kwh = rng.integers(0, 9_000, size) / 1_000
        columns = {"district": rng.integers(0, GROUPS, size, dtype=np.int16), "kwh": kwh}
        columns["level"] = np.minimum(kwh.astype(np.int8), 3)
        pl.DataFrame(columns).write_parquet(folder / f"{part // PART:03}.parquet")
    return folder


def plan_of(table: Any, work: str) -> pf.Plan:
    """Return the plan of a sum by district."""
    column, domain = (
        ("level", [0, 1, 2, 3]) if work == "few classes" else ("kwh", pf.Interval(0, 9))
    )
    scenario = pf.Scenario(pf.Secret(column, domain=domain), pf.Independent(), public=["district"])
    batch = pf.protect(table, scenario).group_by("district", keys=range(GROUPS))
    return batch.private_sum(column).plan(pf.Pure(1.0))


def of_duckdb(folder: Path) -> list[Row]:
    """Time releases in DuckDB."""
    import duckdb

    connection = duckdb.connect()
    table = connection.read_parquet(f"{folder}/*.parquet")
    table.create_view("meters")
    return [
        timed("DuckDB", work, table, lambda text: connection.sql(text.format("meters")).fetchall())
        for work in OWN
    ]


def of_spark(folder: Path) -> list[Row]:
    """Time releases in Spark on two cores."""
    with session() as spark:
        table = spark.read.parquet(str(folder))
        table.createOrReplaceTempView("meters")
        return [
            timed("Spark", work, table, lambda text: spark.sql(text.format("meters")).collect())
            for work in OWN
        ]


def timed(name: str, work: str, table: Any, own: Callable[[str], object]) -> Row:
    """Time a release beside the machine's own sum."""
    plan = plan_of(table, work)
    words, peer = f"{name}, {work}", f"{name}'s own sum of floats"
    return compare(words, plan.release, peer, lambda: own(OWN[work]), limit=LIMITS[work], rounds=3)


def of_polars(folder: Path) -> list[Row]:
    """Measure the memory that a release takes in Polars."""
    most = 2048.0
    return [
        Row(f"Polars, {work}, MiB", "2 GiB", used, most, used / most, 1.0)
        for work in OWN
        for used in [peak([sys.executable, HERE / "p13_pushdown.py", str(folder), work], times=1)]
    ]


@contextmanager
def session() -> Iterator[Any]:
    """Start Spark on two cores, and end it."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = (
        builder.config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def main(rows: int) -> None:
    """Print the table of all machines."""
    with tempfile.TemporaryDirectory() as made:
        folder = make(Path(made), rows)
        report("p13_pushdown", [*of_polars(folder), *of_duckdb(folder), *of_spark(folder)])


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # Spark warns of versions of other packages
    if len(sys.argv) > 2:
        plan_of(pl.scan_parquet(f"{sys.argv[1]}/*.parquet"), sys.argv[2]).release()
    else:
        main(int(float(sys.argv[1])) if len(sys.argv) > 1 else ROWS)
