"""Count the hops of common tasks: calls, functions and files entered inside pufferflow, queries, and ledger traffic.

    python benchmarks/hops.py

Counted are calls of Python functions whose code lies in the package (`sys.setprofile`), queries that the package hands
to Polars, ledgers opened, and the commands of SQLite: connections, and transactions that read or write. Each task runs
once before it is counted, so that all imports are done. The speed of the machine does not matter, versions of other
libraries may.
"""

import contextlib
import functools
import io
import os
import runpy
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest import mock

import polars as pl
from rich.console import Console
from rich.table import Table

import pufferflow as pf

HOUSE = str(Path(pf.__file__).parent) + os.sep
QUERIES = (
    "collect",
    "collect_async",
    "collect_batches",
    "sink_parquet",
    "sink_csv",
    "sink_ipc",
    "sink_ndjson",
)
JOB = """
name = "days"
build = "own.py:build"
source = { function = "own.py:rows" }
guarantee = { epsilon = 0.5 }
ledger = { account = "days", limit = { epsilon = 3.0 } }
"""
OWN = """
import polars as pl, pufferflow as pf

chain = pf.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour", step="1h", within="meter")


def build(frame, period):
    own = pl.col("hour").is_between(period.start, period.end, closed="left")
    return pf.protect(frame, scenario).filter(own).private_sum("on")


def rows(period):
    hours = pl.datetime_range(period.start, period.end, "1h", closed="left", eager=True)
    return pl.LazyFrame({"meter": 1, "hour": hours, "on": hours.dt.hour() // 6 % 2})
"""


@dataclass
class Hops:
    """What one work took."""

    calls: int = 0
    functions: set[CodeType] = field(default_factory=set[CodeType])
    queries: int = 0
    connections: int = 0
    reads: int = 0
    writes: int = 0
    ledgers: int = 0

    @property
    def files(self) -> int:
        """The number of files with these functions."""
        return len({code.co_filename for code in self.functions})

    @property
    def numbers(self) -> tuple[int, ...]:
        """All that is shown."""
        ledger = self.ledgers, self.connections, self.reads, self.writes
        return self.calls, len(self.functions), self.files, self.queries, *ledger

    def see(self, frame: FrameType, event: str, argument: object) -> None:
        """Count a call, for `sys.setprofile`."""
        del argument
        if event == "call" and frame.f_code.co_filename.startswith(HOUSE):
            self.calls += 1
            self.functions.add(frame.f_code)

    def hear(self, statement: str) -> None:
        """Count a transaction, from the commands of SQLite."""
        words = statement.upper().split()
        if words[:1] == ["BEGIN"]:
            writes = "IMMEDIATE" in words or "EXCLUSIVE" in words
            self.writes, self.reads = self.writes + writes, self.reads + (not writes)


class Counter:
    """Passes events to the hops of the current task, if any."""

    def __init__(self) -> None:
        self.hops: Hops | None = None

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to every connection and every query from here on."""
        connect = sqlite3.connect

        def connected(*arguments: Any, **options: Any) -> sqlite3.Connection:
            if self.hops is not None:
                self.hops.connections += 1
            line = connect(*arguments, **options)
            line.set_trace_callback(
                lambda words: None if self.hops is None else self.hops.hear(words)
            )
            return line

        opens = pf.Ledger.__init__

        def opened(*arguments: Any, **options: Any) -> None:
            if self.hops is not None:
                self.hops.ledgers += 1
            opens(*arguments, **options)

        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(pf.Ledger, "__init__", opened))
            for module in (sqlite3, sqlite3.dbapi2):
                stack.enter_context(mock.patch.object(module, "connect", connected))
            for name in QUERIES:
                if hasattr(pl.LazyFrame, name):
                    counted = self._counted(getattr(pl.LazyFrame, name))
                    stack.enter_context(mock.patch.object(pl.LazyFrame, name, counted))
            stack.enter_context(mock.patch.object(pl, "collect_all", self._counted(pl.collect_all)))
            yield

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            asking = sys._getframe(1).f_code.co_filename  # noqa: SLF001 - Polars calls itself, too
            if self.hops is not None and asking.startswith(HOUSE):
                self.hops.queries += 1
            return method(*arguments, **options)

        return call

    @contextlib.contextmanager
    def counting(self) -> Iterator[Hops]:
        """Count while something is done."""
        self.hops = hops = Hops()
        threading.setprofile(hops.see)
        sys.setprofile(hops.see)
        try:
            yield hops
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            self.hops = None


def works(folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield tasks by their names, each to be run before the next one is taken."""
    rows = pl.DataFrame({"hour": range(96), "on": [0, 0, 1, 1, 1, 0, 0, 0] * 12})
    chain = pf.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour")
    found: dict[str, Any] = {}

    def kept(name: str, make: Callable[[], Any]) -> tuple[str, Callable[[], object]]:
        return name, lambda: found.__setitem__(name, make())

    yield kept("protect", lambda: pf.protect(rows, scenario))
    by_day = pl.col("hour").floordiv(24).alias("day")
    yield kept("group_by", lambda: found["protect"].group_by(by_day))
    yield kept("private_sum", lambda: found["group_by"].private_sum("on"))
    yield kept("plan", lambda: found["private_sum"].plan(pf.Pure(1.0)))
    yield "repr(plan)", found["plan"].__repr__
    yield "release", found["plan"].release
    unseen = found["private_sum"].plan(pf.Pure(1.0))
    yield "release, no repr", unseen.release
    laws = [(pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003]))]
    yield "calibrate", functools.partial(pf.calibrate, laws, pf.Pure(1.0))
    with pf.Ledger(folder / "forecast.db") as ledger:
        account = ledger.open("hours", scenario, limit=pf.Pure(2.0))
        plan = pf.protect(rows.head(24), scenario).private_sum("on").plan(pf.Pure(0.5))
        plan.release(account, id="day-0")
        yield "forecast", functools.partial(account.forecast, plan, every=24)
    (folder / "job.toml").write_text(JOB, encoding="utf-8")
    (folder / "own.py").write_text(OWN, encoding="utf-8")
    command = ["run", "job.toml", "--period", "2024-01-01"]
    for name in ("pufferflow run", "the same again"):
        yield name, functools.partial(_command, *command)


def _command(*arguments: str) -> None:
    with (
        mock.patch.object(sys, "argv", ["pufferflow", *arguments]),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        runpy.run_module("pufferflow", run_name="__main__")


def main() -> None:
    """Run every task once to load its modules, then once more, counted; print a table."""
    table = Table(title="hops")
    for name in (
        "work",
        "calls",
        "functions",
        "files",
        "queries",
        "ledgers",
        "connections",
        "reads",
        "writes",
    ):
        table.add_column(name, justify="left" if name == "work" else "right")
    before, counter = Path.cwd(), Counter()
    with counter.listening():
        for counted in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                for name, work in works(Path(folder)):
                    with counter.counting() as hops:
                        work()
                    if counted:
                        table.add_row(name, *(f"{number:,}" for number in hops.numbers))
                os.chdir(before)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
