"""Rows that are there or not: all that they can add to the answers, against nothing."""

from fractions import Fraction
from typing import Any

import numpy as np

from pufferflow.inference.moved import Movement
from pufferflow.inference.question import Floats, norms_above, row_norms
from pufferflow.queries import Kinds
from pufferflow.rounding import UNIT, float_above, upwards
from pufferflow.transport import Certainty

PRESENCE = ("there", "not there")


def with_nothing(tables: Floats) -> Floats:
    """Return φ with one more point, 0, for a row that is not there."""
    return np.concatenate([tables, np.zeros((len(tables), 1))], axis=1)


def columns_of(weights: Floats) -> tuple[Floats, Any]:
    """Return the distinct columns of weights, up to sign, and how many rows have each."""
    kinds = Kinds.of(np.abs(weights) if len(weights) == 1 else weights)
    return kinds.columns, kinds.counts


def departure(weights: Floats, tables: Floats) -> Movement:
    """Return max ‖Σ_r w_r∘φ(x_r)‖ over the values of all rows: what they add together, against nothing.

    Exact for one answer; of several, answers one by one or rows one by one, whichever is less.
    """
    steps = np.array([_most_added(row, table) for row, table in zip(weights, tables, strict=True)])
    if len(steps) == 1:
        return Movement.of_one(float(steps[0]), Certainty.EXACT, PRESENCE)
    columns, counts = columns_of(weights)

    def length(norm: float) -> float:
        each, _ = row_norms(np.abs(columns), np.abs(tables), norm)
        rows = float(np.dot(each, counts))
        whole = bool((each == np.rint(each)).all()) and rows < 2.0**52
        return min(float(norms_above(steps, norm)), rows if whole else upwards(rows, (len(each) + 4) * UNIT))

    return Movement(steps, length, Certainty.UPPER_BOUND, PRESENCE)


def _most_added(weights: Floats, table: Floats) -> float:
    """Return the largest |Σ_r w_r φ(x_r)|, rounded up once."""
    distinct, counts = np.unique(weights, return_counts=True)
    rows = [(Fraction(weight) * count) for weight, count in zip(distinct.tolist(), counts.tolist(), strict=True)]
    plus_sum, minus_sum = sum((r for r in rows if r > 0), Fraction(0)), sum((-r for r in rows if r < 0), Fraction(0))
    low, high = Fraction(float(table.min())), Fraction(float(table.max()))
    return float_above(max(abs(plus_sum * high - minus_sum * low), abs(plus_sum * low - minus_sum * high)))
