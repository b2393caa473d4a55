"""The SQL of every dialect is what it was: a change of it is seen as a text, also where nothing can run it.

`golden/NAME.sql` has the statements, each with its name before. After a change that is meant, replace lines by those
with `+` in the message.
"""

import difflib
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest
import sqlite_rows
from pufferflow_connectors import duckdb, postgresql, spark, warehouses
from pufferflow_connectors.sql import kinds_of, query_text

from pufferflow.plugins import (
    Above,
    ByLabels,
    ByLimits,
    ByTuples,
    CellTotals,
    Clipped,
    Float,
    FloatInside,
    GroupRows,
    GroupRuns,
    OneOf,
    Present,
    PrivateTotals,
    Steps,
    Text,
    UnitLimit,
    WholeNumber,
)
from pufferflow.queries.expressions.values import Formula, Segment

DIALECTS = {
    "duckdb": duckdb.DIALECT,
    "postgresql": postgresql.DIALECT,
    "spark": spark.DIALECT,
    **{name: facts.dialect for name, facts in warehouses.WAREHOUSES.items()},
    "sqlite": sqlite_rows.ENGINE.DIALECT,
}
FOLDER = Path(__file__).parent / "golden"
SCHEMA = pl.Schema(
    {
        "day": pl.Date(),
        'the "place"': pl.String(),
        "at": pl.Datetime("us"),
        "meter": pl.Int64(),
        "load": pl.Float64(),
        "single": pl.Float32(),
        "level": pl.Int64(),
        "kind": pl.String(),
        "on": pl.Boolean(),
    }
)
LINE = Formula(
    (Segment(0.5, reached=False, start=1.0, factor=3.0), Segment(1.0, True, 2.0, 0.1, origin=0.5)),
    0,
    7,
)
FLAT = Formula(
    (Segment(0.1, reached=True, start=0.0, factor=0.0), Segment(1.0, True, 5.0, 0.0)), 0, 5
)
LOAD, LEVEL = Float("load"), WholeNumber("level", pl.Int64())
INSIDE = FloatInside("single", -1.0, 9.0, 0.3)
LABELS = (("it's", "back\\slash"), ("a ", "line\nbreak"))
RUNS = GroupRuns(("meter",), ("day", 'the "place"'), "at")
QUERIES = {
    "rows of all": CellTotals(()),
    "rows by public columns": CellTotals(("day", 'the "place"')),
    "counts": CellTotals(
        ("day",),
        (
            PrivateTotals(LOAD, (Present(), Above(0.1, pl.Float64()))),
            PrivateTotals(LEVEL, (Present(), Above(3, pl.Int64()))),
            PrivateTotals(WholeNumber("on", pl.Int64()), (Above(0, pl.Int64()),)),
            PrivateTotals(Text("kind"), tuple(OneOf(group) for group in LABELS)),
        ),
    ),
    "sums": CellTotals(
        ("day",),
        (
            PrivateTotals(
                LEVEL, tuple(Clipped(part, -2, 7, pl.Int64()) for part in ("all", "high", "low"))
            ),
            PrivateTotals(INSIDE, tuple(Steps(part, LINE) for part in ("all", "high", "low"))),
            PrivateTotals(INSIDE, (Steps("all", FLAT), Steps("all", replace(LINE, square=0.25)))),
        ),
    ),
    "numbered by limits": CellTotals(("day",), (), ByLimits(LOAD, (-1.0, 0.1, 2.5))),
    "numbered by whole limits": CellTotals((), (), ByLimits(LEVEL, (1, 5))),
    "numbered by labels": CellTotals((), (), ByLabels(Text("kind"), LABELS)),
    "rows of units": CellTotals((), (), None, UnitLimit("kind", 1)),
    "totals of the first rows of units": CellTotals(
        ("day",),
        (PrivateTotals(LOAD, (Present(),)),),
        ByLimits(LEVEL, (1, 5)),
        UnitLimit("meter", 10, ("at", 'the "place"', "load", "single", "level")),
    ),
    "numbered by tuples": CellTotals(
        ("day",),
        (),
        ByTuples(
            LOAD, (ByLimits(LOAD, (0.1,)), ByLimits(LEVEL, (1, 5)), ByLabels(Text("kind"), LABELS))
        ),
    ),
    "runs": RUNS,
    "runs without order": GroupRuns((), ("day",), None),
    "rows of groups": GroupRows(RUNS, (3, 24)),
    "rows of all groups": GroupRows(RUNS, ()),
}
FEW = pl.DataFrame(
    {
        "number": [0.1, None, float("inf"), float("nan"), 5e-324],
        "whole": [2**63 - 1, None, 1, -(2**63), 0],
        "text": ["it's", None, "back\\slash", "line\nbreak", ""],
        "truth": [True, None, False, True, True],
        "moment": [datetime(2026, 3, 28, 22), None, None, None, None],  # noqa: DTZ001 - moments without a zone
    }
)


def written(name):
    """Return all statements of a dialect."""
    dialect = DIALECTS[name]
    table = dialect.quoted_path("power.the `meters`")
    texts = {
        what: query_text(query, table, kinds_of(SCHEMA), dialect) for what, query in QUERIES.items()
    }
    texts["few rows"] = dialect.rows_of(FEW)
    if name in warehouses.WAREHOUSES:
        for table in ("meters", "power.meters", "shop.power.it's"):
            texts[f"columns of {table}"] = warehouses.columns_text(
                table, warehouses.WAREHOUSES[name]
            )
    return "".join(f"-- {what}\n{text};\n" for what, text in texts.items())


@pytest.mark.parametrize("name", DIALECTS)
def test_the_statements_of_a_dialect_are_the_golden_ones(name):
    golden = (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    changed = list(
        difflib.unified_diff(golden.splitlines(), written(name).splitlines(), n=1, lineterm="")
    )
    assert not changed, "\n".join(changed)


def test_every_golden_file_is_of_a_dialect():
    assert {file.stem for file in FOLDER.glob("*.sql")} == set(DIALECTS)
