"""How far an answer moves if every row of a group may change: group privacy (M7)."""

import math
from fractions import Fraction

import numpy as np

from pufferflow.messages.chain import Flags, Floats
from pufferflow.messages.stretches import Whole
from pufferflow.rounding import UNIT, float_above, upwards
from pufferflow.transport import footing

_MANY = 4096


def group_movement(weights: Floats, counts: Whole, tables: Floats, norm: float) -> float:
    """Return a bound on ‖Σ_r w_r∘(φ(x_r) − φ(x'_r))‖ over all values of all rows, rounded up; exact for one answer.

    `weights` has a column for each kind of row, `counts` says how many rows are of it, `tables` is φ at the points.
    Answers that share no row, as those of different cells, move by themselves: their movements are put together in the
    norm. Of answers that do the smaller of two bounds: rows one by one in the norm, and answers one by one, then in it.
    """
    if len(tables) == 1:
        return _total(weights[0], counts, tables[0])
    labels = _sharing(weights != 0)
    parts = [_together(weights, counts, tables, norm, labels == label) for label in range(int(labels.max()) + 1)]
    if len(parts) == 1:
        return parts[0]
    return upwards(float(footing.norms(np.array(parts), norm)), (len(parts) + 8) * UNIT)


def _sharing(touched: Flags) -> Whole:
    """Return a label for each answer, the same for those that a row touches together, directly or by way of others."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    answers, kinds = touched.shape
    rows, columns = np.nonzero(touched)
    links = csr_matrix((np.ones(len(rows)), (rows, columns + answers)), shape=(answers + kinds, answers + kinds))
    _, labels = connected_components(links, directed=False)
    return np.unique(labels[:answers], return_inverse=True)[1]


def _together(weights: Floats, counts: Whole, tables: Floats, norm: float, some: Flags) -> float:
    """Return the bound for some answers that share rows."""
    kinds = np.asarray(weights[some].any(axis=0))
    weights, counts, tables = weights[some][:, kinds], counts[kinds], tables[some]
    each = np.array([_total(row, counts, table) for row, table in zip(weights, tables, strict=True)])
    moves = (tables[:, :, None] - tables[:, None, :]).reshape(len(tables), -1)
    rows = [float(footing.norms(np.abs(column[:, None] * moves), norm).max()) for column in weights.T]
    least = min(float(footing.norms(each, norm)), float(np.dot(rows, counts)))
    return upwards(least, (weights.size + len(tables) + 8) * UNIT)


def _total(weights: Floats, counts: Whole, table: Floats) -> float:
    """Return Σ_r |w_r| · (max φ − min φ), rounded up once."""
    if len(weights) > _MANY:
        rough = math.fsum((np.abs(weights) * counts).tolist()) * float(table.max() - table.min())
        return upwards(rough, 8 * UNIT)
    span = Fraction(float(table.max())) - Fraction(float(table.min()))
    rows = zip(np.abs(weights).tolist(), counts.tolist(), strict=True)
    return float_above(span * sum((Fraction(weight) * count for weight, count in rows), Fraction(0)))
