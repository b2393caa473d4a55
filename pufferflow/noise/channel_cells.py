"""The masses of cells of the line under a noise, for answers with noise that are rounded."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused
from pufferflow.noise.base import Noise

_TAIL_ERROR = 2e-13


def cell_masses(noise: Noise, edges: Floats, answers: Floats) -> tuple[Floats, float]:
    """Return the masses of cells, those at the ends unbounded, and their relative error.

    Each is a difference of tails on one side of the answer, which is relatively exact where tails fall fast.
    """
    at = edges[None, :] - answers[:, None]
    above = np.asarray(noise.tail(at.ravel())).reshape(at.shape)
    below = np.asarray(noise.tail(-at.ravel())).reshape(at.shape)
    right, left = above[:, :-1] - above[:, 1:], below[:, 1:] - below[:, :-1]
    mirrored = at[:, 1:] + at[:, :-1] < 0
    inner = np.where(mirrored, left, right)
    used = np.where(mirrored, below[:, 1:] + below[:, :-1], above[:, :-1] + above[:, 1:])
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.where(used > 0, used / inner, 1.0)
    masses = np.concatenate([below[:, :1], inner, above[:, -1:]], axis=1)
    off = _TAIL_ERROR * (1 + float(error.max(initial=0.0)))
    if not off < 1e-4:
        raise Refused(
            "The answers lie too many scales apart for the cells of this noise.",
            allowed="answers within a few hundred scales of each other",
            instead="a larger scale, or a channel that is written down",
        )
    return masses, off


def rounded_to(grid: Sequence[float], answers: Sequence[float], noise: Noise) -> list[list[Fraction]]:
    """Return for every answer the probabilities with which answer and noise are next to each point of a sorted grid."""
    edges = np.array([(low + high) / 2 for low, high in pairwise(grid)])
    if not len(edges):
        return [[Fraction(1)] for _ in answers]
    if noise.scale == 0:
        nearest = np.searchsorted(edges, np.array(answers), side="left").tolist()
        return [[Fraction(int(at == place)) for at in range(len(grid))] for place in nearest]
    masses, _ = cell_masses(noise, edges, np.array(answers))
    rows = [[Fraction(one) for one in row] for row in masses.tolist()]
    return [[one / sum(row) for one in row] for row in rows]
