"""P20: ten million rows published one by one, each through a random channel, beside Polars writing the same rows.

The peer reads the same file, clips the column, writes Parquet with the same columns and counts the values. Sums and
labels have their own row; the figures are of the release, from the scenario to the file in its place. The last row is
the memory of a process that does it, at most 1.5 times that of Polars.
"""

import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from measure import Row, compare, report
from processes import peak

ROWS = 10_000_000
COLUMNS: dict[str, list[int] | list[str]] = {
    "level": [0, 1, 2, 3],
    "said": ["no", "maybe", "yes", "else"],
}


def make(path: Path) -> str:
    """Write rows with an hour, a number and a label each, the same ones every time."""
    drawn = np.random.default_rng(1).integers(0, 4, ROWS)
    labels = pl.Series(drawn).replace_strict(
        dict(enumerate(COLUMNS["said"])), return_dtype=pl.String
    )
    pl.DataFrame({"hour": np.arange(ROWS), "level": drawn, "said": labels}).write_parquet(path)
    return str(path)


def private(source: str, column: str, target: Path) -> None:
    """Publish the rows, without an account."""
    import pufferflow as pf

    target.unlink(missing_ok=True)
    secret = pf.Secret(column, domain=COLUMNS[column])
    scenario = pf.Scenario(secret, pf.Independent(), order_by="hour")
    pf.protect(pl.scan_parquet(source), scenario).private_local(column).release(target, epsilon=1.0)


def plain(source: str, column: str, target: Path) -> None:
    """Write the rows as they are, and count the values."""
    own = (
        pl.col(column).clip(0, 3)
        if column == "level"
        else pl.col(column).cast(pl.Enum(COLUMNS[column]))
    )
    pl.scan_parquet(source).select("hour", own).sink_parquet(
        target, sync_on_close="all", engine="streaming"
    )
    pl.scan_parquet(target).group_by(column).len().collect(engine="streaming")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        {"private": private, "plain": plain}[sys.argv[1]](sys.argv[2], "said", Path(sys.argv[3]))
        sys.exit()
    with tempfile.TemporaryDirectory() as folder:
        source, target = make(Path(folder) / "rows.parquet"), Path(folder) / "published.parquet"
        rows = [
            compare(
                f"10M rows of {column!r} one by one",
                partial(private, source, column, target),
                "Polars writes them",
                partial(plain, source, column, target),
                limit=5,
                rounds=3,
            )
            for column in COLUMNS
        ]
        ours, other = (
            peak([sys.executable, __file__, work, source, target]) for work in ("private", "plain")
        )
        rows.append(Row("memory, MiB", "Polars", ours, other, ours / other, 1.5))
        report("p20_rows", rows)
