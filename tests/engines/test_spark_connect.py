"""Spark Connect: a dataframe of a remote session, and a table by its address, answer as Polars does.

A process has sessions of one kind only, so these have one of their own.
"""

import json
import os
import subprocess
import sys

import polars as pl
import pytest

import pufferflow as pf

SCRIPT = """
import json
import os
import os
import warnings

warnings.simplefilter("ignore")
from pyspark.sql import SparkSession

import pufferflow as pf

spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = [(meter, hour, (meter * hour) % 5) for meter in range(5) for hour in range(24)]
frame = spark.createDataFrame(rows, "meter int, hour int, level int")
frame.write.mode("overwrite").saveAsTable("meters")
answers = {}
for name, table in {"frame": frame, "table": pf.table("sc://localhost:15002", "meters")}.items():
    scenario = pf.Scenario.from_json(os.environ["SCENARIO"])
    release = pf.protect(table, scenario).group_by("meter").private_sum("level").release(epsilon=1e7)
    answers[name] = [[meter, round(level)] for meter, level in release.frame.rows()], release.certificate.engine
print(json.dumps(answers))
spark.stop()
"""


@pytest.mark.slow
def test_a_remote_session_answers_as_polars_does(tmp_path):
    chain = pf.MarkovChain(
        [[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.1, 0.7]]
    )
    secret = pf.Secret("level", domain=[0, 1, 2, 3])
    scenario = pf.Scenario(secret, chain, public=["meter", "hour"], order_by="hour", within="meter")
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env={**os.environ, "SCENARIO": scenario.to_json(), "PUFFERFLOW_WORKERS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    answers = json.loads(run.stdout.strip().splitlines()[-1])
    rows = pl.DataFrame(
        [(m, h, min((m * h) % 5, 3)) for m in range(5) for h in range(24)],
        schema=["m", "h", "x"],
        orient="row",
    )
    truth = [list(row) for row in rows.group_by("m").agg(pl.col("x").sum()).sort("m").rows()]
    for sums, engine in answers.values():
        assert sums == truth
        assert engine.startswith("Spark ")
