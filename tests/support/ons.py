"""A job of one noisy sum over four rows, which runs in a moment: for tests of noises, guarantees, and sinks."""

import textwrap

import polars as pl

import pufferflow as pf

SCENARIO = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.Independent(), public=["day"])
ROWS = pl.DataFrame({"day": [1, 2, 1, 2], "on": [0, 1, 1, 1]})
PYTHON = """
import polars as pl, pufferflow as pf

scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.Independent(), public=["day"])


def build(frame, period):
    return pf.protect(frame, scenario).private_sum("on", "load")


def rows(period):
    return pl.LazyFrame({"day": [1, 2, 1, 2], "on": [0, 1, 1, 1]})
"""
JOB = """
name = "ons"
build = "own.py:build"
source = { function = "own.py:rows" }
retries = { attempts = 1 }
"""


def write_job(folder, keys):
    """Write a job with these further keys, and return its file."""
    (folder / "own.py").write_text(PYTHON)
    file = folder / "job.toml"
    file.write_text(JOB + textwrap.dedent(keys))
    return file
