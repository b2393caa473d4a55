"""Public weights of 0 and 1, which say of what kinds rows are: how many rows of each kind a group has, cell by cell.

For other weights it is enough to know how large they are. Kinds are told apart: rows of different kinds move different
sums, so rows that move together move none of them as far as if all were of one kind.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from pufferflow.arrays import Floats
from pufferflow.engine.engine import Engine, Measure, Pattern, Patterns, Selection
from pufferflow.engine.one_pass import runs_of
from pufferflow.engine.weighted import Grids, WeightedRows
from pufferflow.expressions import named
from pufferflow.scenario import Scenario

_MOST_PATTERNS: Final = 64


def membership_patterns(
    engine: Engine, selection: Selection, scenario: Scenario, measures: Sequence[Measure | None], grids: Grids
) -> Patterns | None:
    """Return the patterns of selected rows whose order does not matter, each row with its exact share of each sum.

    None where some weight is neither 0 nor the largest, or where one cell has rows of several kinds.
    """
    within = [named(name) for name in scenario.within]
    names = tuple(dict.fromkeys((*scenario.within, *selection.by)))
    rows = WeightedRows.of(engine, selection, [*grids], within=names)
    steps = {weight: grid.steps(rows.numbers(weight)) for weight, grid in grids.items()}
    if not len(rows.rows):
        return Patterns((), 0)
    if any(((own != 0) & (own != grids[weight].largest)).any() for weight, own in steps.items()):
        return None
    cells = runs_of(rows.frame.select(named(name) for name in names)) if names else np.zeros(len(rows.rows), np.intp)
    if len(np.unique(cells)) < len(cells):
        return None
    flags, kinds = np.unique(np.stack([own > 0 for own in steps.values()]), axis=1, return_inverse=True)
    of_weight = dict(zip(steps, flags.astype(np.float64), strict=True))
    weights = [None if measure is None else measure.values.weight for measure in measures]
    shares = np.stack([np.ones(flags.shape[1]) if one is None else of_weight[one] for one in weights])
    units = runs_of(rows.frame.select(within)) if within else np.zeros(len(cells), dtype=np.intp)
    return _patterns(pl.DataFrame({"unit": units, "kind": kinds.reshape(-1), "rows": rows.rows}), shares)


def with_others(pattern: Pattern, others: int) -> Pattern:
    """Return a pattern with so many rows that are not selected, and have no share in any sum."""
    if not others or pattern.shares is None:
        return pattern
    cells, counts = np.append(pattern.cells, -1), np.append(pattern.counts, others)
    return replace(pattern, cells=cells, counts=counts, shares=np.pad(pattern.shares, ((0, 0), (0, 1))))


def _patterns(cells: pl.DataFrame, shares: Floats) -> Patterns:
    """Return the patterns of units by their cells; of very different ones, by how many rows of each kind they have."""
    groups = cells["unit"].n_unique()
    of_kinds = cells.group_by("unit", "kind").agg(pl.col("rows").sum())
    for table, covers in ((cells, False), (of_kinds, True)):
        of_units = table.sort("unit", "kind", "rows").group_by("unit", maintain_order=True).agg("kind", "rows")
        distinct = of_units.group_by("kind", "rows").agg(pl.len().alias("groups"))
        if distinct.height <= _MOST_PATTERNS:
            rows = sorted(distinct.rows())
            patterns = (_pattern(kinds, rows, number, shares) for kinds, rows, number in rows)
            return Patterns(tuple(replace(one, covers=covers) for one in patterns), groups)
    most = of_kinds.group_by("kind").agg(pl.col("rows").max()).sort("kind")
    cover = _pattern(most["kind"].to_list(), most["rows"].to_list(), groups, shares)
    return Patterns((replace(cover, covers=True),), groups)


def _pattern(kinds: list[int], rows: list[int], groups: int, shares: Floats) -> Pattern:
    """Return the pattern of units with so many rows of some kinds, each in a cell of its own."""
    return Pattern(np.arange(len(kinds)), np.array(rows, dtype=np.int64), groups=groups, shares=shares[:, kinds])
