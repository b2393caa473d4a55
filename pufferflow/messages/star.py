"""Messages on a star: what outputs of rows that share a hidden class tell of the class, and of one row (M20, M21).

Rows are independent given the class, so what they tell of it adds up: D(c, c') = Σ_r g_rows(ℓ_r)(c, c'). A row whose
value is known to be a or b tells ℓ(a, b), and the others g_post(D)(a, b), where post are the laws of the class given a
and given b. Everything is rounded up.
"""

import numpy as np

from pufferflow.messages.chain import Floats
from pufferflow.messages.cone import spread
from pufferflow.messages.stretches import Whole
from pufferflow.rounding import UNIT


def between(top: Floats, bottom: Floats, limits: Floats) -> Floats:
    """Return `spread`, with what the rounding of computed laws of k states can hide: a few units for each state.

    >>> between(np.array([[0.9, 0.1]]), np.array([[0.1, 0.9]]), np.array([[0, 1.0], [1.0, 0]])).round(6)
    array([0.776137])
    """
    widest = float(limits.max(initial=0.0))
    return np.minimum(spread(top, bottom, limits) + 8 * (len(limits) + 4) * UNIT, widest)


def of_class(rows: Floats, losses: Floats) -> Floats:
    """Return g_rows(ℓ), what one row of each kind tells of the class: of shape (kinds, C, C), for laws (C, k).

    >>> of_class(np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([[[0, 1.0], [1.0, 0]]])).round(6)[0, 0]
    array([0.      , 0.776137])
    """
    size = len(rows)
    told = np.zeros((len(losses), size, size))
    first, second = np.nonzero(~np.eye(size, dtype=np.bool_))
    for kind, limits in enumerate(losses):
        told[kind, first, second] = between(rows[first], rows[second], limits)
    return told


def of_all(told: Floats, counts: Whole) -> Floats:
    """Return what all rows tell of the class: D, of shape (C, C)."""
    return (told * counts[:, None, None]).sum(axis=0) * (1 + (len(counts) + 2) * UNIT)


def of_others(told: Floats, counts: Whole) -> Floats:
    """Return what all rows but one of each kind tell of the class: of shape (kinds, C, C).

    Sums from both ends, not a difference: an infinite row is left out as well.
    """
    whole = told * counts[:, None, None]
    before, after = np.zeros_like(whole), np.zeros_like(whole)
    before[1:] = np.cumsum(whole[:-1], axis=0)
    after[:-1] = np.cumsum(whole[:0:-1], axis=0)[::-1]
    rest = np.multiply(told, counts[:, None, None] - 1, out=np.zeros_like(told), where=counts[:, None, None] > 1)
    return (before + after + rest) * (1 + (len(counts) + 4) * UNIT)
