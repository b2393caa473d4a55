"""The covariance of the Gaussian noise of several outputs with the least errors that hides given shifts (M28).

Noise with the covariance Σ hides a shift z as one standard deviation hides a movement of the length √(zᵀΣ⁻¹z). The sum
of the outputs' standard deviations is minimised, given that no shift is longer than 1. For fixed multipliers c the sum
of cᵢ²Σᵢᵢ is least, by duality, for Σ = C⁻¹·(C·M·C)^{1/2}·C⁻¹, where C has c on its diagonal and M is a mean of zzᵀ over
the shifts, with weights that make tr (C·M·C)^{1/2} largest; and with c² = 1/√Σᵢᵢ both sums have the same slope. The
result is a proposal: lengths of shifts and losses are computed for the noise that is used.
"""

from typing import Final

import numpy as np

from pufferflow.core.arrays import Floats

_ROUNDS: Final = 30
_STEPS: Final = 60
_CLOSE: Final = 1e-6
_NARROWEST: Final = 2.0**-8
"""The least share of the largest variance that any combination of outputs has."""


def least_covariance(shifts: Floats) -> Floats:
    """Return the covariance with the least sum of standard deviations under which no shift is longer than 1.

    `shifts` have the shape (n, outputs); every output is moved by some of them.

    >>> least_covariance(np.array([(1, 0), (0, 1), (1, 1)])).round(3).tolist()  # two counts that share rows
    [[1.333, 0.667], [0.667, 1.333]]
    >>> least_covariance(np.array([(1, 1), (1, -1)])).round(3).tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    ranges = np.abs(shifts).max(axis=0)
    units, weights = shifts / ranges, np.full(len(shifts), 1 / len(shifts))
    widths, covariance = np.ones(shifts.shape[1]), np.eye(shifts.shape[1])
    for _ in range(_ROUNDS):
        multipliers = 1 / np.sqrt(widths)
        weights = _worst_mean(units * multipliers, weights)
        root, _ = _roots((units * multipliers).T * weights @ (units * multipliers))
        covariance = _hiding(root / np.outer(multipliers, multipliers), units)
        before, widths = widths, np.sqrt(np.diag(covariance))
        if np.abs(widths / before - 1).max() < _CLOSE:
            break
    return covariance * np.outer(ranges, ranges)


def _worst_mean(shifts: Floats, weights: Floats) -> Floats:
    """Return the weights for which the trace of the root of the mean of zzᵀ is largest: a concave function of them."""
    for _ in range(_STEPS):
        _, inverse = _roots(shifts.T * weights @ shifts)
        weights = weights * np.einsum("ni,ij,nj->n", shifts, inverse, shifts)  # their derivatives, up to a factor
        weights = weights / weights.sum()
    return weights


def _roots(matrix: Floats) -> tuple[Floats, Floats]:
    """Return the root of a matrix and its inverse, no variance being much smaller than the largest."""
    squares, directions = np.linalg.eigh(matrix)
    sizes = np.sqrt(np.maximum(squares, 0.0))
    sizes = np.maximum(sizes, sizes[-1] * _NARROWEST)
    return directions * sizes @ directions.T, directions / sizes @ directions.T


def _hiding(covariance: Floats, shifts: Floats) -> Floats:
    """Return a covariance that is as large as the longest shift needs it to be."""
    return covariance * float(np.einsum("ni,ij,nj->n", shifts, np.linalg.inv(covariance), shifts).max())
