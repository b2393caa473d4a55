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


def columns_of(weights: Floats, rows: Any = None) -> tuple[Floats, Any]:
    """Return the distinct columns of weights, up to sign, and how many rows have each; a column may stand for many."""
    kinds = Kinds.of(np.abs(weights) if len(weights) == 1 else weights, rows)
    return kinds.columns, kinds.counts


def departure(weights: Floats, tables: Floats, rows: Any = None) -> Movement:
    """Return max ‖Σ_r w_r∘φ(x_r)‖ over the values of all rows: what they add together, against nothing.

    Exact for one answer; of several, answers one by one or rows one by one, whichever is less. A column of weights
    stands for as many rows as `rows` tells, for one if it tells nothing.
    """
    steps = np.array([_most_added(row, table, rows) for row, table in zip(weights, tables, strict=True)])
    if len(steps) == 1:
        return Movement.of_one(float(steps[0]), Certainty.EXACT, PRESENCE)
    columns, counts = columns_of(weights, rows)

    def length(norm: float) -> float:
        each, _ = row_norms(np.abs(columns), np.abs(tables), norm)
        total = float(np.dot(each, counts))
        whole = bool((each == np.rint(each)).all()) and total < 2.0**52
        return min(float(norms_above(steps, norm)), total if whole else upwards(total, (len(each) + 4) * UNIT))

    return Movement(steps, length, Certainty.UPPER_BOUND, PRESENCE)


def _most_added(weights: Floats, table: Floats, rows: Any) -> float:
    """Return the largest |Σ_r w_r φ(x_r)|, rounded up once."""
    alike = Kinds.of(weights[None], rows)
    sums = [Fraction(one) * count for one, count in zip(alike.columns[0].tolist(), alike.counts.tolist(), strict=True)]
    plus_sum, minus_sum = sum((r for r in sums if r > 0), Fraction(0)), sum((-r for r in sums if r < 0), Fraction(0))
    low, high = Fraction(float(table.min())), Fraction(float(table.max()))
    return float_above(max(abs(plus_sum * high - minus_sum * low), abs(plus_sum * low - minus_sum * high)))
