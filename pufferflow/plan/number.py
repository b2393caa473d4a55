"""The published numbers behind the sums: what each is called, and how much of it one step of its sum is."""

from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.plan.planned import Planned
from pufferflow.queries import Measure, Query
from pufferflow.release.ready import unit_of


@final
@dataclass(frozen=True)
class Number:
    """An answer that is `step` times a sum of whole steps, or that sum itself if the answer is more than that."""

    answer: str
    step: float


def number_of(plan: Planned, measure: int) -> Number:
    """Return the first answer that is made of a sum."""
    questions = plan.questions
    asked = questions.measures[measure]
    unit = float(unit_of(asked))
    for query, places in zip(questions.queries, questions.places, strict=True):
        if measure not in places:
            continue
        factor = _factor(plan, query)
        if query.linear and factor is not None:
            return Number(query.outputs[places.index(measure)], unit * factor)
        return Number(f"{_what(asked)}, behind {query.name}", unit)
    return Number("a sum", unit)


def _what(asked: Measure | None) -> str:
    """Say what a sum is of; that of a condition counts rows."""
    if asked is None:
        return "the number of rows"
    return f"{'rows with' if asked.values.boolean else 'the sum of'} {asked.values.words}"


def _factor(plan: Planned, query: Query) -> float | None:
    """Return what the sum is multiplied by, None if that is another number in every cell."""
    factors = np.unique(query.factor(plan.facts.size))
    return float(factors[0]) if len(factors) == 1 else None
