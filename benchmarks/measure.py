"""What the benchmarks share: timing in turn with a peer, a small table, and a JSON file per benchmark.

A figure is a ratio of medians in one run: product and peer are called alternately, so that a change of the machine's
speed falls on both.
"""

import json
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Row:
    """One comparison: seconds, or losses, of product and peer, their ratio, and the ratio it must not pass."""

    work: str
    peer: str
    seconds: float
    peer_seconds: float
    ratio: float
    limit: float | None


def compare(  # noqa: PLR0913 - a row of the table in one call
    work: str,
    product: Callable[[], object],
    peer: str,
    peer_call: Callable[[], object],
    *,
    limit: float | None = None,
    rounds: int = 5,
) -> Row:
    """Time both calls in turn, once to warm up and then `rounds` times, and return their medians."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 1):
        for call, kept in zip((product, peer_call), times, strict=True):
            start = time.perf_counter()
            call()
            if turn:
                kept.append(time.perf_counter() - start)
    seconds, peer_seconds = map(statistics.median, times)
    return Row(work, peer, seconds, peer_seconds, seconds / peer_seconds, limit)


def report(name: str, rows: Sequence[Row], *, unit: str = "seconds") -> None:
    """Print the rows as a table and write them to results/NAME.json; `unit` is what stands where seconds do."""
    table, digits = Table(title=name), ".4f" if unit == "seconds" else ".3g"
    for column in ("work", unit, "peer", unit, "ratio", "limit"):
        table.add_column(column, justify="left" if column in {"work", "peer"} else "right")
    for row in rows:
        limit = "" if row.limit is None else f"{row.limit:g}"
        colour = "red" if row.limit is not None and row.ratio > row.limit else "green"
        cells = (
            row.work,
            f"{row.seconds:{digits}}",
            row.peer,
            f"{row.peer_seconds:{digits}}",
            f"[{colour}]{row.ratio:.2g}" if unit != "seconds" else f"[{colour}]{row.ratio:.2f}",
            limit,
        )
        table.add_row(*cells)
    Console().print(table)
    RESULTS.mkdir(exist_ok=True)
    machine = {
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
    }
    text = json.dumps(
        {"name": name, "unit": unit, **machine, "rows": [asdict(row) for row in rows]}, indent=1
    )
    (RESULTS / f"{name}.json").write_text(text + "\n")
