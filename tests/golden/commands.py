"""The command line on one small job: documents, words, exit codes, and the files it leaves."""

import contextlib
import io
import os
import random
import re
import runpy
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from readings import BITS, digest, of_database, of_page, of_text

from pufferflow.core.errors import UtilityWarning

JOB = """
name = "hours"
build = "own.py:build"
[source]
function = "own.py:rows"
[guarantee]
epsilon = 0.5
[ledger]
account = "hours-2024"
dataset = "hours"
limit = { epsilon = 0.8 }
[sink]
format = "csv"
[schedule]
period = "day"
cron = "0 3 * * *"
[retries]
attempts = 1
"""
OWN = """
import polars as pl, pufferflow as pf

chain = pf.MarkovChain([[0.6, 0.4], [0.4, 0.6]])
scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour", step="1h", within="meter")


def build(frame, period):
    own = pl.col("hour").is_between(period.start, period.end, closed="left")
    return pf.protect(frame, scenario).filter(own).private_sum("on", "load").private_count(pl.col("on") == 1, "peaks")


def rows(period):
    if period.label == "2024-02-29":
        raise pf.SourceError("The rows have not come yet.")
    if period.label == "2024-03-05":
        raise KeyError("a word of a row")
    if period.label == "2024-02-28":
        raise pf.UsageError("Rows are not kept for that long.", instead="later periods")
    hours = pl.datetime_range(period.start, period.end, "4h", closed="left", eager=True)
    return pl.LazyFrame({"meter": 1, "hour": hours, "on": hours.dt.hour() // 4 % 2})
"""
FAILING = (
    OWN
    + """

def wrong(frame, period):
    return pf.protect(frame, scenario).private_sum("off")
"""
)
ENVIRONMENT = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", "TZ": "UTC"}
RUNS: dict[str, list[str]] = {
    "version": ["--version"],
    "nothing": [],
    "mistyped": ["plam", "job.toml"],
    "no file": ["plan", "nowhere.toml"],
    "check": ["job", "check", "job.toml"],
    "schema": ["job", "schema", "-o", "job.schema.json"],
    "plan": ["plan", "job.toml", "--period", "2024-01-01"],
    "plan page": ["plan", "job.toml", "--period", "2024-01-01", "-o", "plan.html"],
    "plan, wrong period": ["plan", "job.toml", "--period", "January"],
    "audit": ["audit", "job.toml", "--period", "2024-01-01", "--trials", "20000"],
    "run": ["run", "job.toml", "--period", "2024-01-01"],
    "run again": ["run", "job.toml", "--period", "2024-01-01"],
    "run, no rows": ["run", "job.toml", "--period", "2024-02-29"],
    "run, broken": ["run", "job.toml", "--period", "2024-03-05"],
    "run, revision": ["run", "job.toml", "--period", "2024-01-01", "--revision", "2"],
    "run, since": ["run", "job.toml", "--since", "2024-02-27", "--until", "2024-03-03"],
    "plan later": ["plan", "job.toml", "--period", "2024-01-03"],
    "show": ["ledger", "show", "ledger.db"],
    "show one": ["ledger", "show", "ledger.db", "--account", "hours-2024"],
    "show none": ["ledger", "show", "ledger.db", "--account", "days"],
    "verify ledger": ["ledger", "verify", "ledger.db"],
    "verify head": ["ledger", "verify", "ledger.db", "--head", "1:" + "0" * 64],
    "export": ["ledger", "export", "ledger.db", "-o", "entries.ndjson", "--force"],
    "export again": ["ledger", "export", "ledger.db", "-o", "entries.ndjson"],
    "report release": ["report", "published/2024-01-01", "-o", "release.html"],
    "report with ledger": [
        "report",
        "published/2024-01-01",
        "--ledger",
        "ledger.db",
        "-o",
        "release.html",
    ],
    "report ledger": ["report", "ledger.db", "-o", "ledger.html"],
    "verify": ["verify", "published", "--ledger", "ledger.db"],
    "schedule": ["schedule", "wrong.toml", "--since", "2024-02-27"],
    "init": ["job", "init", "another"],
    "init again": ["job", "init", "another"],
}
SHORT = ("mistyped", "check", "plan", "run", "run again", "show", "verify ledger", "verify")
"""Those that the default tests give."""


_SIZE = re.compile(r'(report on a \w+, |\.html", "bytes": )\d+')
"""The size of a page, which spaces in templates change."""


@contextlib.contextmanager
def _place() -> Iterator[Path]:
    """Return a folder with a job in it, which is where commands are given."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "job.toml").write_text(JOB, encoding="utf-8")
        (folder / "own.py").write_text(FAILING, encoding="utf-8")
        (folder / "wrong.toml").write_text(
            JOB.replace("own.py:build", "own.py:wrong"), encoding="utf-8"
        )
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def run_command(arguments: list[str]) -> tuple[int, str, str]:
    """Give a command to the program, and return how it ended, and what it wrote."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with (
        mock.patch.dict(os.environ, ENVIRONMENT),
        mock.patch.object(sys, "argv", ["pufferflow", *arguments]),
        mock.patch.object(random, "_urandom", random.Random(5).randbytes),  # noqa: S311 - so that they repeat
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("always", UtilityWarning)
        os.environ.pop("PUFFERFLOW_TRACEBACK", None)
        sys.modules.pop(
            "pufferflow.__main__", None
        )  # runpy warns of a module that was imported before
        try:
            runpy.run_module("pufferflow", run_name="__main__")
        except SystemExit as end:
            code = end.code
    return code or 0, out.getvalue(), err.getvalue()


def commands(names: tuple[str, ...] = tuple(RUNS), *, json: bool = False) -> dict[str, Any]:
    """Return the documents, words and exit codes of commands, one after another, and the files that they leave."""
    found: dict[str, Any] = {}
    with _place() as folder:
        file = folder / "ledger.db"
        for name in names:
            code, out, err = run_command([*RUNS[name], *(["--json"] if json else [])])
            told = _SIZE.sub(r"\1<size>", of_text(out, folder, file))
            found[name] = {"exit": code, "out": told, "err": of_text(err, folder, file)}
        found["files"] = {
            str(path.relative_to(folder)): _file(path, folder, file)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
            and path.suffix not in (".py", ".toml", ".pyc")
            and not path.name.startswith("ledger.db-")
        }
    return found


def _file(path: Path, folder: Path, ledger: Path) -> Any:
    if path.suffix == ".db":
        return of_database(path, folder)
    text = of_text(path.read_text(encoding="utf-8"), folder, ledger)
    if path.suffix == ".html":
        return of_page(text, folder)
    return {f"text {BITS}": digest(text)} if "another" in path.parts else text
