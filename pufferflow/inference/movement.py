"""How far an answer moves if every row of a group may change: group privacy (M7)."""

import math
from fractions import Fraction

import numpy as np

from pufferflow.messages.chain import Floats
from pufferflow.messages.stretches import Whole
from pufferflow.rounding import UNIT, float_above, upwards
from pufferflow.transport import footing

_MANY = 4096


def group_movement(weights: Floats, counts: Whole, tables: Floats, norm: float) -> float:
    """Return a bound on ‖Σ_r w_r∘(φ(x_r) − φ(x'_r))‖ over all values of all rows, rounded up; exact for one answer.

    `weights` has a column for each kind of row, `counts` says how many rows are of it, `tables` is φ at the points.
    The smaller of two bounds: rows one by one in the norm, and answers one by one, then in the norm.
    """
    each = np.array([_total(weights[o], counts, tables[o]) for o in range(len(tables))])
    if len(tables) == 1:
        return float(each[0])
    whole = float(footing.norms(each, norm))
    moves = (tables[:, :, None] - tables[:, None, :]).reshape(len(tables), -1)
    rows = [float(footing.norms(np.abs(column[:, None] * moves), norm).max()) for column in weights.T]
    return upwards(min(whole, float(np.dot(rows, counts))), (weights.size + len(tables) + 8) * UNIT)


def _total(weights: Floats, counts: Whole, table: Floats) -> float:
    """Return Σ_r |w_r| · (max φ − min φ), rounded up once."""
    if len(weights) > _MANY:
        rough = math.fsum((np.abs(weights) * counts).tolist()) * float(table.max() - table.min())
        return upwards(rough, 8 * UNIT)
    span = Fraction(float(table.max())) - Fraction(float(table.min()))
    rows = zip(np.abs(weights).tolist(), counts.tolist(), strict=True)
    return float_above(span * sum((Fraction(weight) * count for weight, count in rows), Fraction(0)))
