"""What a plan shows of itself, for a page and for a file beside the release: plain values, none of them private.

How long rows are remembered under each prior of a scenario, as plain values for a picture.
"""

import math
from typing import Any

import numpy as np
import polars as pl

from pufferflow.errors import PufferflowError
from pufferflow.explain.compare import BY_MOVEMENT, compare, largest_answers, summary, too_noisy
from pufferflow.explain.sentences import assumptions, explained, notes, readings_together
from pufferflow.explain.what_if import what_if
from pufferflow.explain.worst_pair import worst_pair
from pufferflow.planning import Decision
from pufferflow.queries import Count, Histogram
from pufferflow.report import promise_in_words
from pufferflow.report.evidence import BoundRow, Budget, Cell, Evidence, Memory
from pufferflow.scenario import Scenario
from pufferflow.scenario.priors import (
    Prior,
    belief_in_words,
    forgotten_after,
    longest_memory,
    measure_of_memory,
    memory_after,
)

_POINTS = 100
_LEAST_STEPS = 4
_BEYOND = 1.25
"""The picture goes a quarter further than to where a row is forgotten."""


def memories(scenario: Scenario) -> tuple[Memory, ...]:
    """Return how long a row is remembered, for each prior of which that is one number after every step."""
    found = (_memory(prior, scenario.step_in_words) for prior in scenario.priors)
    return tuple(one for one in found if one is not None)


def _memory(prior: Prior, step: str) -> Memory | None:
    measure = measure_of_memory(prior)
    if measure is None:
        return None
    forgotten, longest = forgotten_after(prior), longest_memory(prior)
    last = longest if forgotten is None else min(max(round(_BEYOND * forgotten), _LEAST_STEPS), longest)
    steps = np.unique(np.linspace(0, last, _POINTS + 1).round().astype(np.int64)).tolist()
    left = tuple(memory_after(prior, one) or 0.0 for one in steps)
    return Memory(belief_in_words(prior), measure, step, tuple(steps), left, forgotten)


MOST_CELLS = 200
_RATIOS = (0.1, 0.25, 0.5)
_SHARES = (0.05, 0.1, 0.25)


def evidence(
    plan: Decision, budget: Budget | None = None, *, job: str = "", period: str = "", dataset: str = ""
) -> Evidence:
    """Return all that a page of a plan tells; its job, period and data set where they have names."""
    request = plan.request
    pair, pair_note = worst_pair(plan)
    cells, more = _cells(plan)
    grouped = f", by {', '.join(request.by)}" if request.by else ""
    return Evidence(
        title=f"{', '.join(query.name for query in request.queries)}{grouped}",
        sentence=explained(plan),
        promise=repr(plan.calibration.guarantee),
        scenario=request.scenario.describe(),
        assumptions=tuple(assumptions(plan)),
        notes=tuple(notes(plan)),
        readings=readings_together(request),
        cells=cells,
        more_cells=more,
        pair=pair,
        pair_note=pair_note,
        bounds=_bounds(plan),
        what_if=tuple(what_if(plan, _RATIOS, _SHARES)),
        budget=budget,
        job=job or "",
        period=period or "",
        dataset=dataset or ("" if budget is None else budget.dataset),
        promise_in_words=promise_in_words(plan.calibration.guarantee),
        too_noisy=tuple(too_noisy(plan)),
        counts=tuple(
            name for query in request.queries if isinstance(query, Count | Histogram) for name in query.outputs
        ),
        memory=memories(request.scenario),
    )


def _cells(plan: Decision) -> tuple[tuple[Cell, ...], int]:
    """Return the first cells of every output, as many of each, and how many more there are."""
    table = summary(plan).with_columns(pl.Series("largest", largest_answers(plan), dtype=pl.Float64))
    outputs = max(sum(len(query.outputs) for query in plan.request.queries), 1)
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


def _bounds(plan: Decision) -> tuple[BoundRow, ...]:
    """Return what each bound asks for, the plan's own first; what cannot be compared becomes a note."""
    own = repr(plan.calibration.bound)
    try:
        rows = compare(plan).to_dicts()
    except PufferflowError as refusal:
        return (*_own(plan, own), *_none(plan, refusal.problem))
    listed = tuple(_bound(row, own) for row in rows)
    return listed if any(row.chosen for row in listed) else (*_own(plan, own), *listed)


def _bound(row: dict[str, Any], own: str) -> BoundRow:
    chosen = row["bound"] == own and row["scale"] is not None
    return BoundRow(
        row["bound"],
        row["query"],
        row["noise"],
        _finite(row["scale"]),
        _finite(row["expected_error"]),
        _finite(row["times"]),
        row["certainty"],
        row["note"] or "",
        chosen=chosen,
        worked_out=chosen or (row["scale"] is not None and row["note"] != BY_MOVEMENT),
    )


def _own(plan: Decision, bound: str) -> list[BoundRow]:
    """Return the rows of the plan's own bound, if it is none of those that are compared."""
    rows = summary(plan).group_by("query", maintain_order=True).first().to_dicts()
    own = {"bound": bound, "times": 1.0, "certainty": plan.calibration.certainty.value, "note": ""}
    return [_bound(row | own, bound) for row in rows]


def _none(plan: Decision, problem: str) -> list[BoundRow]:
    noise = type(plan.calibration.noise).__name__
    return [BoundRow("others", query.name, noise, note=problem) for query in plan.request.queries]


def _finite(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else float(number)
