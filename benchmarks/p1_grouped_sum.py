"""P1: a private sum in 1,000 groups from Parquet to noisy numbers, beside plain Polars: at most 1.3 times as long.

Five queries take at most 1.8 times what the same five take in one pass of plain Polars, sums of three columns whose
tuples are the secret at most 2.2 times, and memory at most 1.5 times as much, each in a process of its own. Of 1M rows
the release takes at most 40 ms more. The peer is OpenDP, in an environment of its own since it needs another Polars, as
multiples of the same plain Polars: as its documentation has it, and the quickest way there is. All calls plan, read and
draw noise anew, and ours are charged to an account in a SQLite ledger: two durable transactions each.
"""

import sys
import tempfile
from pathlib import Path

from grouped import WORKS, make
from measure import Row, compare, report
from processes import HERE, peak, python_with, serving

OPENDP = "opendp[polars]==0.16.0"
PLAIN = "plain Polars"
MORE = 0.040


def timed(work: str, path: str, words: str, limit: float | None, rounds: int) -> Row:
    """Time a release beside plain Polars."""
    private, plain = WORKS[f"private_{work}"], WORKS[f"plain_{work}"]
    return compare(
        words, lambda: private(path), PLAIN, lambda: plain(path), limit=limit, rounds=rounds
    )


def more(small: Row) -> Row:
    """Return how much longer a release takes than plain Polars, beside 40 ms."""
    beyond = small.seconds - small.peer_seconds
    return Row(f"{small.work}: beyond plain Polars", "40 ms", beyond, MORE, beyond / MORE, 1.0)


def memory(work: str, path: str, words: str) -> Row:
    """Compare what the two processes take at most."""
    private, plain = (
        peak([sys.executable, HERE / "grouped.py", f"{who}_{work}", path])
        for who in ("private", "plain")
    )
    return Row(f"{words}, MiB", PLAIN, private, plain, private / plain, 1.5)


def opendp(python: Path, way: str, path: str, words: str, rounds: int) -> list[Row]:
    """Time OpenDP's sum beside plain Polars, and compare the memory that they take."""
    script = HERE / "peers" / "opendp_sum.py"
    name = f"OpenDP ({way}), {words}"
    with serving(python, script, "serve", way, path) as peer:
        times = compare(name, peer, PLAIN, lambda: WORKS["plain_sum"](path), rounds=rounds)
    took, plain = (
        peak([python, script, way, path]),
        peak([sys.executable, HERE / "grouped.py", "plain_sum", path]),
    )
    return [times, Row(f"{name}, MiB", PLAIN, took, plain, took / plain, None)]


def measured(folder: Path) -> list[Row]:
    """Return all rows of the table."""
    large, small = (
        make(folder / "large.parquet", 20_000_000),
        make(folder / "small.parquet", 1_000_000),
    )
    rows = [
        timed("sum", large, "sum, 20M rows", 1.3, 9),
        timed("five", large, "five queries, 20M rows", 1.8, 9),
        timed("three", large, "three columns, 20M rows", 2.2, 9),
        memory("sum", large, "sum, 20M rows"),
        memory("five", large, "five queries, 20M rows"),
        memory("three", large, "three columns, 20M rows"),
        timed("sum", small, "sum, 1M rows", None, 25),
        timed("five", small, "five queries, 1M rows", None, 25),
    ]
    rows += [more(row) for row in rows[-2:]]
    python = python_with("opendp", OPENDP)
    if python is not None:
        for path, words in ((large, "sum, 20M rows"), (small, "sum, 1M rows")):
            for way, rounds in (("documented", 3), ("quickest", 9)):
                rows += opendp(python, way, path, words, rounds)
    return rows


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        report("p1_grouped_sum", measured(Path(made)))
