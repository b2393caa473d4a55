"""P17: the memory of a process that plans and releases one grouped sum: at most 1.5 times that of plain Polars.

What is not needed is not loaded. Of 1M rows the libraries take most of it, of 20M rows the rows do.
"""

import sys
import tempfile
from pathlib import Path

from grouped import make
from measure import Row, report
from processes import HERE, peak

SIZES = {"1M": 1_000_000, "20M": 20_000_000}


def memory(path: str, words: str) -> Row:
    """Compare what the two processes take at most."""
    ours, plain = (
        peak([sys.executable, HERE / "grouped.py", work, path])
        for work in ("private_alone", "plain_sum")
    )
    return Row(
        f"one grouped sum, {words} rows, MiB", "plain Polars", ours, plain, ours / plain, 1.5
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sizes = [
            (make(Path(folder) / f"{words}.parquet", rows), words) for words, rows in SIZES.items()
        ]
        report("p17_memory", [memory(path, words) for path, words in sizes])
