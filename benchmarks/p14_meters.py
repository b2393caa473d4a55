"""P14: the main use, rows in order within a unit: a plan takes at most 3 times plain Polars' counts of each meter.

A release takes at most 1.5 times as long as these and the plain sums together; memory is at most twice that of plain
Polars. Meters start at one midnight, or anywhere in a year, or 5 % of their hours are missing; and the keys of a group
may cross meters.
"""

import sys
import tempfile
from pathlib import Path

from measure import Row, compare, report
from meters import STARTS, WORKS, make
from processes import HERE, peak

SIZES = {"2.4M": 100_000, "24M": 1_000_000}


def timed(work: str, peer: str, path: str, words: str, limit: float) -> Row:
    """Time a piece of work beside plain Polars."""
    ours, plain = WORKS[work], WORKS[peer]
    return compare(
        words,
        lambda: ours(path),
        f"plain Polars: {peer}",
        lambda: plain(path),
        limit=limit,
        rounds=3,
    )


def memory(work: str, peer: str, path: str, words: str) -> Row:
    """Compare what the two processes take at most."""
    ours, plain = (
        peak([sys.executable, HERE / "meters.py", one, path], times=1) for one in (work, peer)
    )
    return Row(f"{words}, MiB", f"plain Polars: {peer}", ours, plain, ours / plain, 2.0)


def measured(folder: Path) -> list[Row]:
    """Return all rows of the table."""
    rows = list[Row]()
    for size, meters in SIZES.items():
        for start in STARTS:
            words = f"{size}, {start}"
            path = make(
                folder / f"{len(rows)}.parquet", meters, start
            )  # plans of the one before know its file
            rows += [
                timed("plan", "units", path, f"plan, {words}", 3.0),
                timed("plan_by_quarter", "units", path, f"plan by quarter, {words}", 3.0),
                timed("release", "both", path, f"release, {words}", 1.5),
                memory("whole", "both", path, f"plan and release, {words}"),
            ]
    return rows


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        report("p14_meters", measured(Path(made)))
