"""What a plan shows of itself, for a page and for a file beside the release: plain values, none of them private."""

import math
from typing import Any

import numpy as np
import polars as pl

from pufferflow.errors import PufferflowError
from pufferflow.plan.pages import compare, summary
from pufferflow.plan.planned import Planned
from pufferflow.plan.readings import readings_together
from pufferflow.plan.what_if import what_if
from pufferflow.plan.words import assumptions, explained, notes
from pufferflow.plan.worst_pair import worst_pair
from pufferflow.queries import Query
from pufferflow.release.bars import Floats
from pufferflow.release.ready import unit_of
from pufferflow.report.evidence import BoundRow, Budget, Cell, Evidence

MOST_CELLS = 200
_RATIOS = (0.1, 0.25, 0.5)
_SHARES = (0.05, 0.1, 0.25)


def evidence(plan: Planned, budget: Budget | None = None) -> Evidence:
    """Return all that a page of a plan tells."""
    questions = plan.questions
    pair, pair_note = worst_pair(plan)
    cells, more = _cells(plan)
    grouped = f", by {', '.join(questions.by)}" if questions.by else ""
    return Evidence(
        title=f"{', '.join(query.name for query in questions.queries)}{grouped}",
        sentence=explained(plan),
        promise=repr(plan.calibration.guarantee),
        scenario=questions.scenario.describe(),
        assumptions=tuple(assumptions(plan)),
        notes=tuple(notes(plan)),
        readings=readings_together(questions),
        cells=cells,
        more_cells=more,
        pair=pair,
        pair_note=pair_note,
        bounds=_bounds(plan),
        what_if=tuple(what_if(plan, _RATIOS, _SHARES)),
        budget=budget,
    )


def _cells(plan: Planned) -> tuple[tuple[Cell, ...], int]:
    """Return the first cells of every output, as many of each, and how many more there are."""
    table = summary(plan).with_columns(pl.Series("largest", _largest(plan), dtype=pl.Float64))
    outputs = max(sum(len(query.outputs) for query in plan.questions.queries), 1)
    each = pl.int_range(pl.len()).over("query") < max(MOST_CELLS // outputs, 1)
    found = [
        Cell(
            row["query"],
            row["group"],
            row["noise"],
            row["scale"],
            _finite(row["expected_error"]),
            _finite(row["interval_95"]),
            _finite(row["largest"]),
        )
        for row in table.filter(each).iter_rows(named=True)
    ]
    return tuple(found), table.height - len(found)


def _largest(plan: Planned) -> list[float]:
    """Return the largest size that each answer could have without noise, in the order of the summary; nan: unknown."""
    questions, size = plan.questions, plan.facts.size
    found: list[Floats] = []
    for query, places in zip(questions.queries, questions.places, strict=True):
        for place, _ in enumerate(query.outputs):
            found.append(_most(query, questions.measures[places[place]], size, len(plan.facts.cells.rows)))
    return np.concatenate(found).tolist()


def _most(query: Query, measure: Any, size: Floats | None, cells: int) -> Floats:
    """Return how large a linear answer about so many rows can be, in each cell."""
    if not query.linear or size is None or measure is None:
        return np.full(cells, np.nan)
    row = max(abs(measure.values.low), abs(measure.values.high)) * float(unit_of(measure))
    return np.broadcast_to(size * row * query.factor(size), cells)


def _bounds(plan: Planned) -> tuple[BoundRow, ...]:
    """Return what each bound asks for, the plan's own first; what cannot be compared becomes a note."""
    own = repr(plan.calibration.bound)
    try:
        rows = compare(plan).to_dicts()
    except PufferflowError as refusal:
        return (*_own(plan, own), *_none(plan, refusal.problem))
    listed = tuple(_bound(row, own) for row in rows)
    return listed if any(row.chosen for row in listed) else (*_own(plan, own), *listed)


def _bound(row: dict[str, Any], own: str) -> BoundRow:
    return BoundRow(
        row["bound"],
        row["query"],
        row["noise"],
        _finite(row["scale"]),
        _finite(row["expected_error"]),
        _finite(row["times"]),
        row["certainty"],
        row["note"] or "",
        chosen=row["bound"] == own and row["scale"] is not None,
    )


def _own(plan: Planned, bound: str) -> list[BoundRow]:
    """Return the rows of the plan's own bound, if it is none of those that are compared."""
    rows = summary(plan).group_by("query", maintain_order=True).first().to_dicts()
    own = {"bound": bound, "times": 1.0, "certainty": plan.calibration.certainty.value, "note": ""}
    return [_bound(row | own, bound) for row in rows]


def _none(plan: Planned, problem: str) -> list[BoundRow]:
    noise = type(plan.calibration.noise).__name__
    return [BoundRow("others", query.name, noise, note=problem) for query in plan.questions.queries]


def _finite(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else float(number)
