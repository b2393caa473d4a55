"""Which sizes of groups each cell of an answer has, and which cells depend on each other."""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.engines import groups_in_cells as module
from pufferflow.engines.connect import engine_of
from pufferflow.queries.engine_interface import UNORDERED, CellGroups, Selection


def found(frame, by, within, keys=None, filters=()):
    scenario = pf.Scenario(
        pf.Secret("level", domain=[0, 1]), pf.AnyCorrelation(), within=within, public=frame.columns
    )
    engine = engine_of(frame.with_columns(level=0).lazy())
    selection = Selection(tuple(frame.columns), (), tuple(filters), tuple(by), keys)
    cells = engine.tally(selection).keys
    return cells, engine.groups_in_cells(selection, scenario, [UNORDERED], cells)


def truth(frame, by, within, cells, filters=()):
    """Return the sets of sizes of each cell, from all groups one by one; cells that share a group are one."""
    texts = [frame[name].cast(pl.String).to_list() for name in by]
    keys = list(zip(*texts, strict=True))
    chosen = frame.select(pl.all_horizontal([pl.lit(value=True), *filters])).to_series().to_list()
    if len(chosen) == 1:
        chosen *= frame.height
    listed = list(zip(*(cells[name].cast(pl.String).to_list() for name in by), strict=True))
    block = {key: {key} for key in listed}
    groups = dict[object, list[int]]()
    for row, unit in enumerate(frame.select(within).rows()):
        groups.setdefault(unit, []).append(row)
    sizes = []
    for rows in groups.values():
        own = [row for row in rows if chosen[row] and keys[row] in block]
        if own:
            merged = set().union(*(block[keys[row]] for row in own))
            block |= dict.fromkeys(merged, merged)
            sizes.append((keys[own[0]], (len(own), len(rows) - len(own))))
    return [{size for key, size in sizes if key in block[cell]} for cell in listed]


def told(cells: CellGroups):
    return [
        set() if kind < 0 else {tuple(size) for size in cells.kinds[kind]}
        for kind in cells.kind_of_cell
    ]


def random_table(rng):
    units = int(rng.integers(2, 9))
    rows = int(rng.integers(units, 4 * units))
    unit = rng.integers(0, units, rows)
    town = unit % 3 if rng.random() < 0.5 else rng.integers(0, 3, rows)
    return pl.DataFrame(
        {
            "unit": unit,
            "town": pl.Series([["a", None, "c"][one] for one in town]),
            "part": pl.Series(
                [[0.0, math.nan, -0.0, None][one] for one in rng.integers(0, 4, rows)]
            ),
            "kind": pl.Series([["x", "y"][one] for one in rng.integers(0, 2, rows)]).cast(
                pl.Categorical
            ),
            "keep": rng.random(rows) < 0.8,
        }
    )


@pytest.mark.parametrize(
    "by", thinned([("town",), ("unit",), ("town", "unit"), ("town", "kind"), ("part",)], 0.6)
)
def test_sizes_are_those_of_all_groups_one_by_one(by):
    """Each cell has the sizes of its groups, and of all groups of the cells with which it shares some."""
    rng = np.random.default_rng(5)
    for case in range(12):
        frame, filters = random_table(rng), [pl.col("keep")] if case % 2 else []
        frame = frame.with_columns(
            pl.when(pl.col("part") == 0).then(0.0).otherwise("part").alias("part")
        )
        cells, own = found(frame, by, "unit", filters=filters)
        assert told(own) == truth(frame, by, "unit", cells, filters)


def test_declared_keys_without_rows_have_no_groups():
    """A cell that was declared and has no row is of no kind; groups elsewhere are not selected."""
    frame = pl.DataFrame({"unit": [1, 1, 2, 3], "town": ["a", "a", "b", "z"]})
    _, own = found(frame, ["town"], "unit", keys=pl.DataFrame({"town": ["c", "b", "a"]}))
    assert own.kind_of_cell.tolist() == [-1, 0, 1]
    assert told(own) == [set(), {(1, 0)}, {(2, 0)}]


def test_many_crossing_groups_are_told_apart_by_what_is_constant_in_each(monkeypatch):
    """Where too many rows cross cells to be looked at, cells with equal constant keys are one block."""
    monkeypatch.setattr(module, "_CROSSING", 0)
    frame = pl.DataFrame({"unit": [1, 1, 2, 2, 2], "day": [1, 2, 1, 2, 2]})
    cells, own = found(frame, ["unit", "day"], "unit")
    assert told(own) == truth(frame, ["unit", "day"], "unit", cells)
    assert found(frame, ["day"], "unit")[1] is None


def test_very_many_sizes_are_rounded_up_to_few():
    """A size stands for some that are no larger, and cells of small groups still have small ones."""
    sizes = range(1, 401)
    frame = pl.DataFrame({"unit": list(itertools.chain(*([size] * size for size in sizes)))})
    cells, own = found(frame, ["unit"], "unit")
    largest = [max(size)[0] for size in told(own)]
    assert all(have <= got for have, got in zip(cells["unit"].to_list(), largest, strict=True))
    assert len(own.kinds) <= 64
    assert max(largest[:10]) <= 12


def test_very_many_kinds_are_told_apart_by_their_largest_group(monkeypatch):
    """Kinds that are too many are joined: no cell loses a size."""
    monkeypatch.setattr(module, "_MOST_KINDS", 3)
    rng = np.random.default_rng(1)
    units, towns = rng.integers(1, 6, 60), rng.integers(0, 12, 60)
    frame = pl.DataFrame({"unit": np.repeat(np.arange(60), units), "town": np.repeat(towns, units)})
    cells, own = found(frame, ["town"], "unit")
    assert len(own.kinds) <= 5
    for got, true in zip(told(own), truth(frame, ["town"], "unit", cells), strict=True):
        assert got >= true
        assert max(got) == max(true)
