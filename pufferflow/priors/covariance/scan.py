"""Sums of weights that shrink from row to row, in O(n)."""

import math

import numpy as np
import numpy.typing as npt

from pufferflow.rounding import UNIT, lifted

Floats = npt.NDArray[np.float64]


def both_ways(weights: Floats, factors: Floats) -> Floats:
    """Return Σ over other rows of their weight times all factors on the way, along the last axis; rounded up.

    The factors, one for each step between neighbours, have to be a few units in the last place above the true ones:
    that makes up for what the steps of the recursion round off.

    >>> both_ways(np.array([[1.0, 0.0, 4.0]]), np.array([0.5, 0.25])).round(9)
    array([[0.5 , 1.5 , 0.125]])
    """
    ahead = _earlier(weights, factors)
    behind = _earlier(weights[..., ::-1], factors[::-1])[..., ::-1]
    return lifted(ahead + behind, 4 * UNIT)


def _earlier(weights: Floats, factors: Floats) -> Floats:
    """Return y with y_0 = 0, y_{t+1} = factors_t·(y_t + weights_t): in blocks side by side, then block to block."""
    size = weights.shape[-1]
    width = max(math.isqrt(size), 1)
    count = -(-size // width)
    flat = weights.reshape(-1, size)
    padded = _blocks(flat, count, width)
    steps = _blocks(factors[None], count, width)[:, 0]
    within, shares = np.zeros((width + 1, len(flat), count)), np.ones((width + 1, count))
    with np.errstate(under="ignore"):
        for at in range(width):
            within[at + 1] = steps[at] * (within[at] + padded[at])
            shares[at + 1] = shares[at] * steps[at]
        carried = np.zeros((len(flat), count))
        for block in range(1, count):
            carried[:, block] = within[width, :, block - 1] + shares[width, block - 1] * carried[:, block - 1]
        whole = within[:width] + shares[:width, None] * carried
    return whole.transpose(1, 2, 0).reshape(len(flat), -1)[:, :size].reshape(weights.shape)


def _blocks(rows: Floats, count: int, width: int) -> Floats:
    """Return rows cut into blocks, padded with zeros: shape (width, rows, count)."""
    padded = np.zeros((len(rows), count * width))
    padded[:, : rows.shape[1]] = rows
    return np.ascontiguousarray(padded.reshape(len(rows), count, width).transpose(2, 0, 1))
