"""A job of a few rows that runs in a moment, the starter, and a way to give commands to the program."""

import json
import textwrap
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner

from pufferflow.cli.app import app
from pufferflow.jobs import starter

FILE = """
name = "hours"
build = "own.py:build"
[source]
function = "own.py:rows"
[guarantee]
epsilon = 0.5
[ledger]
account = "hours-2026"
limit = {{ epsilon = {limit} }}
[sink]
report = false
[schedule]
cron = "0 3 * * *"
[retries]
attempts = 1
"""
PYTHON = """
import polars as pl, pufferflow as pf

scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.AnyCorrelation(), order_by="hour", step="1h", within="meter")

def build(frame, period):
    return pf.protect(frame, scenario).private_sum("on")

def rows(period):
    hours = pl.datetime_range(period.start, period.end, "1h", closed="left", eager=True)
    return pl.LazyFrame({"meter": 1, "hour": hours, "on": hours.dt.hour() % 2})
"""


@dataclass
class Result:
    """How a command ended."""

    exit: int
    out: str
    err: str

    @property
    def document(self):
        """The one document on stdout."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out, parse_constant=pytest.fail)


@pytest.fixture
def give(monkeypatch):
    """Return a function that gives a command to the program, and returns how it ended."""
    for name in ("NO_COLOR", "FORCE_COLOR", "PUFFERFLOW_TRACEBACK", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)

    def given(*arguments, **environment):
        env = {"COLUMNS": "80", **environment}
        result = CliRunner().invoke(app, [str(one) for one in arguments], env=env)
        return Result(result.exit_code, result.stdout, result.stderr)

    return given


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Return a maker of jobs in a folder of their own, which is where commands are given."""
    monkeypatch.chdir(tmp_path)

    def made(python="", *, limit=1.0, file=""):
        (tmp_path / "job.toml").write_text(FILE.format(limit=limit) + file)
        (tmp_path / "own.py").write_text(PYTHON + textwrap.dedent(python))
        return tmp_path / "job.toml"

    return made


@pytest.fixture
def change(tmp_path):
    """Return a function that replaces a text of the job file by another."""

    def changed(before, after):
        job = tmp_path / "job.toml"
        text = job.read_text()
        assert before in text
        job.write_text(text.replace(before, after))

    return changed


@pytest.fixture
def released(make, give):
    """A job that has run once, for 2026-11-20."""
    make()
    assert give("run", "job.toml", "--period", "2026-11-20").exit == 0


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A folder with the starter in it, which is where commands are given."""
    starter.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path
