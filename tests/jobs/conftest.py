"""A job of a few rows, and what becomes of its parts when they fail."""

import textwrap

import pytest

import pufferflow as pf

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
report = {report}
format = "{format}"
[retries]
attempts = {attempts}
wait = "7s"
"""
PYTHON = """
import polars as pl, pufferflow as pf

chain = pf.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour", step="1h", within="meter")
last = pf.Period.read("2026-10-26")

def build(frame, period):
    batch = pf.protect(frame, scenario)
    return batch.filter(pl.col("hour") >= period.start, pl.col("hour") < period.end).private_sum("on")

def rows(period):
    hours = pl.datetime_range(last.start.replace(month=9), last.start, "1h", closed="left", eager=True)
    return pl.DataFrame({"meter": 1, "hour": hours, "on": hours.dt.hour() % 2}).lazy()
"""


@pytest.fixture
def make(tmp_path):
    """Return a maker of jobs in a folder of their own; `python` replaces or adds to what their functions do."""

    def made(python="", *, limit=1.0, report="false", attempts=1, form="parquet", file=""):
        text = FILE.format(limit=limit, report=report, attempts=attempts, format=form)
        (tmp_path / "job.toml").write_text(text + file)
        (tmp_path / "own.py").write_text(PYTHON + textwrap.dedent(python))
        return pf.Job.read(tmp_path / "job.toml")

    return made
