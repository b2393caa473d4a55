"""Collect the evidence of a plan, for its report and for `evidence.json`: plain values, none of them private.

Includes how long rows are remembered under each prior of the scenario.
"""

import math
from typing import Any

import numpy as np
from msgspec.structs import replace

from pufferflow.core.errors import PufferflowError
from pufferflow.models.priors.base import Prior, belief_in_words
from pufferflow.models.priors.memory import (
    forgotten_after,
    longest_memory,
    measure_of_memory,
    memory_after,
)
from pufferflow.models.scenario import Scenario
from pufferflow.queries.aggregates import Count, Histogram
from pufferflow.release.explain.check import findings
from pufferflow.release.explain.compare import bound_rows, group_names, output_errors
from pufferflow.release.explain.first_screen import first_screen, verdicts
from pufferflow.release.explain.sensitivities import distances_by_value, farthest_pairs
from pufferflow.release.explain.sentences import assumptions, notes, value_handling_together
from pufferflow.release.explain.what_if import what_if
from pufferflow.release.explain.worst_pair import worst_pair
from pufferflow.release.planning.calibrated_noise import CalibratedNoise
from pufferflow.reports.evidence import (
    BoundRow,
    Budget,
    Cell,
    Distances,
    Evidence,
    Memory,
    ValueDistances,
)
from pufferflow.reports.numbers import promise_in_words

_POINTS = 100
_LEAST_STEPS = 4
_MOST_PAIRS = 12
_BEYOND = 1.25
"""The figure ends a quarter beyond the step at which a row is forgotten."""


def memories(scenario: Scenario) -> tuple[Memory, ...]:
    """Return how long a row is remembered, for each prior that has one number for it after every step."""
    candidates = (_memory(prior, scenario.step_in_words) for prior in scenario.priors)
    return tuple(memory for memory in candidates if memory is not None)


def _memory(prior: Prior, step: str) -> Memory | None:
    measure = measure_of_memory(prior)
    if measure is None:
        return None
    forgotten, longest = forgotten_after(prior), longest_memory(prior)
    last = (
        longest
        if forgotten is None
        else min(max(round(_BEYOND * forgotten), _LEAST_STEPS), longest)
    )
    steps = np.unique(np.linspace(0, last, _POINTS + 1).round().astype(np.int64)).tolist()
    left = tuple(memory_after(prior, lag) or 0.0 for lag in steps)
    return Memory(belief_in_words(prior), measure, step, tuple(steps), left, forgotten)


MOST_CELLS = 200
_RATIOS = (0.1, 0.25, 0.5)
_SHARES = (0.05, 0.1, 0.25)


def evidence(  # noqa: PLR0913 - what a page is about, in parts
    plan: CalibratedNoise,
    sentence: str,
    budget: Budget | None = None,
    *,
    job: str = "",
    period: str = "",
    dataset: str = "",
) -> Evidence:
    """Return the evidence that the report of a plan shows; `sentence` is its explanation."""
    request = plan.request
    pair, pair_note = worst_pair(plan)
    cells, more = _cells(plan)
    cases = tuple(what_if(plan, _RATIOS, _SHARES))
    grouped = f", by {', '.join(request.by)}" if request.by else ""
    return Evidence(
        title=f"{', '.join(query.name for query in request.queries)}{grouped}",
        sentence=sentence,
        promise=repr(plan.guarantee),
        scenario=request.scenario.describe(),
        assumptions=assumptions(plan),
        notes=notes(plan),
        readings=value_handling_together(request),
        cells=cells,
        more_cells=more,
        pair=pair,
        pair_note=pair_note,
        bounds=_bounds(plan),
        what_if=cases,
        budget=budget,
        job=job or "",
        period=period or "",
        dataset=dataset or ("" if budget is None else budget.dataset),
        promise_in_words=promise_in_words(plan.guarantee),
        findings=tuple(findings(plan)),
        counts=tuple(
            name
            for query in request.queries
            if isinstance(query, Count | Histogram)
            for name in query.outputs
        ),
        memory=memories(request.scenario),
        first=first_screen(plan, cases),
        verdicts=verdicts(plan),
        **_distances(plan),
    )


def _distances(plan: CalibratedNoise) -> dict[str, Any]:
    """Return the distances between the laws of the answer, for the deciding pair and the farthest others."""
    try:
        pairs, more = farthest_pairs(plan, _MOST_PAIRS)
    except PufferflowError:  # no laws to compare
        return {}
    rows = tuple(
        Distances(
            *(row.first, row.second, row.prior, row.position),
            *(_finite(number) for number in (*row.distances, row.near, *row.scales)),
            decides=row.decides,
            note=row.note,
        )
        for row in pairs
    )
    unit = plan.sensitivity_unit[1]
    return {
        "distances": rows,
        "more_distances": more,
        "distances_unit": unit,
        "by_value": _by_value(plan),
    }


def _by_value(plan: CalibratedNoise) -> ValueDistances | None:
    """Return W_∞ between the laws under every two values of the secret; None for fewer than three values."""
    rows = distances_by_value(plan)
    if not rows:
        return None
    values = tuple(dict.fromkeys(value for row in rows for value in (row.first, row.second)))
    known = {frozenset((row.first, row.second)): _finite(row.distances[0]) for row in rows}
    square = tuple(tuple(known.get(frozenset((a, b))) for b in values) for a in values)
    return ValueDistances(values, square, rows[0].prior, rows[-1].position)


def _cells(plan: CalibratedNoise) -> tuple[tuple[Cell, ...], int]:
    """Return the first cells of every output, equally many of each, and the number of the others."""
    outputs, groups = output_errors(plan), group_names(plan)
    most = max(MOST_CELLS // max(len(outputs), 1), 1)
    cells = tuple(
        Cell(
            errors.output.name,
            group,
            type(errors.output.noise).__name__,
            float(errors.scales[place]),
            *(
                _finite(float(part[place]))
                for part in (errors.expected, errors.half, errors.largest)
            ),
        )
        for errors in outputs
        for place, group in enumerate(groups[:most])
    )
    return cells, len(outputs) * len(groups) - len(cells)


def _bounds(plan: CalibratedNoise) -> tuple[BoundRow, ...]:
    """Return the noise that each bound needs, the plan's own first; a failed comparison becomes a note."""
    try:
        compared = bound_rows(plan)
    except PufferflowError as refusal:
        noise = type(plan.calibration.noise).__name__
        compared = [
            BoundRow("others", query.name, noise, note=refusal.problem)
            for query in plan.request.queries
        ]
    if not any(row.chosen for row in compared):
        compared = [*_own_rows(plan), *compared]
    return tuple(
        replace(
            row,
            scale=_finite(row.scale),
            expected_error=_finite(row.expected_error),
            times=_finite(row.times),
        )
        for row in compared
    )


def _own_rows(plan: CalibratedNoise) -> list[BoundRow]:
    """Return the rows of the plan's own bound, where it is not among the compared ones."""
    bound, certainty = repr(plan.calibration.bound), plan.calibration.certainty.value
    return [
        BoundRow(
            bound,
            errors.output.name,
            type(errors.output.noise).__name__,
            errors.output.noise.scale,
            float(errors.expected[0]),
            1.0,
            certainty,
            chosen=True,
        )
        for errors in output_errors(plan)
        if len(errors.expected)
    ]


def _finite(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else float(number)
