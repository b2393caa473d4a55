"""Public weights of 0 and 1, which say of what kinds rows are: how many rows of each kind a group has, cell by cell.

For other weights their size is enough. Kinds are distinguished, since rows of different kinds move different sums: rows
that move together move none of them as far as if all were of one kind.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Floats
from pufferflow.engines.one_pass import runs_of
from pufferflow.engines.weights import Grids, WeightedRows
from pufferflow.models.scenario import Scenario
from pufferflow.queries.engine_interface import Engine, Measure, Pattern, Patterns, Selection
from pufferflow.queries.expressions.tree import named

_MOST_PATTERNS: Final = 64


def membership_patterns(  # noqa: PLR0913 - a selection of rows, and what is read of them
    engine: Engine,
    selection: Selection,
    scenario: Scenario,
    measures: Sequence[Measure | None],
    grids: Grids,
    *,
    free: bool = False,
) -> Patterns | None:
    """Return the patterns of selected rows whose order does not matter, each row with its exact share of each sum.

    Of very different units what covers them; where rows are `free` to move in any way, as many rows of any one kind as
    a unit has together: these move at least as far. None where some weight is neither 0 nor the largest, or where one
    cell has rows of several kinds.
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
    cells_of_units = pl.DataFrame({"unit": units, "kind": kinds.reshape(-1), "rows": rows.rows})
    distinct = _distinct(cells_of_units, shares)
    covering = distinct or (
        _of_one_kind_each(cells_of_units, shares) if free else _of_all_kinds(cells_of_units, shares)
    )
    return Patterns(tuple(covering), cells_of_units["unit"].n_unique())


def with_others(pattern: Pattern, others: int) -> Pattern:
    """Return a pattern with `others` further rows that are not selected and have no share in any sum."""
    if not others or pattern.shares is None:
        return pattern
    cells, counts = np.append(pattern.cells, -1), np.append(pattern.counts, others)
    return replace(pattern, cells=cells, counts=counts, shares=np.pad(pattern.shares, ((0, 0), (0, 1))))


def _distinct(cells: pl.DataFrame, shares: Floats) -> list[Pattern]:
    """Return the patterns of units by their cells, or by how many rows of each kind they have; none if too many."""
    for table, covers in ((cells, False), (_by_kind(cells), True)):
        of_units = table.sort("unit", "kind", "rows").group_by("unit", maintain_order=True).agg("kind", "rows")
        distinct = of_units.group_by("kind", "rows").agg(pl.len().alias("groups"))
        if distinct.height <= _MOST_PATTERNS:
            patterns = (_pattern(kinds, rows, number, shares) for kinds, rows, number in sorted(distinct.rows()))
            return [replace(one, covers=covers) for one in patterns]
    return []


def _by_kind(cells: pl.DataFrame) -> pl.DataFrame:
    return cells.group_by("unit", "kind").agg(pl.col("rows").sum())


def _of_one_kind_each(cells: pl.DataFrame, shares: Floats) -> list[Pattern]:
    """Return for each kind the pattern of as many rows of it as any unit has of all kinds."""
    most: int = cells.group_by("unit").agg(pl.col("rows").sum())["rows"].to_numpy().max()
    groups = cells["unit"].n_unique()
    kinds = cells["kind"].unique().sort().to_list()
    return [replace(_pattern([kind], [most], groups, shares), covers=True) for kind in kinds]


def _of_all_kinds(cells: pl.DataFrame, shares: Floats) -> list[Pattern]:
    """Return the pattern of as many rows of each kind as any unit has of it."""
    most = _by_kind(cells).group_by("kind").agg(pl.col("rows").max()).sort("kind")
    cover = _pattern(most["kind"].to_list(), most["rows"].to_list(), cells["unit"].n_unique(), shares)
    return [replace(cover, covers=True)]


def _pattern(kinds: list[int], rows: list[int], groups: int, shares: Floats) -> Pattern:
    """Return the pattern of units with `rows` rows of `kinds`, each kind in a cell of its own."""
    return Pattern(np.arange(len(kinds)), np.array(rows, dtype=np.int64), groups=groups, shares=shares[:, kinds])
