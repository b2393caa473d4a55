"""Whether noise drowns the answers: the error that is expected against the largest size that an answer can have.

Both come from public sizes alone, so nothing has to be released to see that it would say nothing.
"""

import numpy as np

from pufferflow.plan.pages import summary
from pufferflow.plan.planned import Planned
from pufferflow.queries import Query
from pufferflow.release.bars import Floats
from pufferflow.release.ready import unit_of
from pufferflow.report.numbers import counted, plain

_ROUNDED = 1e-9


def too_noisy(plan: Planned) -> list[str]:
    """Return a line for each query whose noise is larger than any answer it can have; empty groups do not count."""
    errors, sizes = summary(plan)["expected_error"].fill_null(np.nan).to_numpy(), largest_answers(plan)
    found, start = list[str](), 0
    for query in plan.questions.queries:
        own = slice(start, start := start + len(query.outputs) * len(plan.facts.cells.rows))
        line = _line(query.name, errors[own], sizes[own])
        found += [line] if line else []
    return found


def _line(name: str, errors: Floats, sizes: Floats) -> str:
    """Return the line of a query, with its largest answer of those that drown; nothing if none does."""
    possible = sizes > 0
    drowned = np.flatnonzero(possible & (errors > sizes * (1 + _ROUNDED)))
    if not len(drowned):
        return ""
    place = drowned[sizes[drowned].argmax()]
    largest, error = plain(float(sizes[place])), plain(float(errors[place]))
    line = f"noise on {name} is larger than the largest possible answer ({largest}): expected error {error}"
    return line + _of(len(drowned), int(possible.sum()))


def _of(drowned: int, possible: int) -> str:
    if possible == 1:
        return ""
    return f", for {'all' if drowned == possible else f'{drowned:,}'} of its {counted(possible, 'number')}"


def largest_answers(plan: Planned) -> Floats:
    """Return the largest size that each answer could have without noise, in the order of the summary; NaN: unknown."""
    questions, size = plan.questions, plan.facts.size
    found = [
        _largest(query, places[place], plan, size)
        for query, places in zip(questions.queries, questions.places, strict=True)
        for place in range(len(query.outputs))
    ]
    return np.concatenate(found)


def _largest(query: Query, place: int, plan: Planned, size: Floats | None) -> Floats:
    """Return how large a linear answer about so many rows can be, in each cell."""
    cells, measure = len(plan.facts.cells.rows), plan.questions.measures[place]
    if not query.linear or size is None or measure is None:
        return np.full(cells, np.nan)
    row = max(abs(measure.values.low), abs(measure.values.high)) * float(unit_of(measure))
    return np.broadcast_to(size * row * query.factor(size), cells)
