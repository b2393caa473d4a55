"""Probabilities of binned answers: exact differences of distribution functions, never densities.

Binning is post-processing. What a player gains from binned answers is a lower bound of what the answers tell.
"""

import math

import numpy as np
from scipy import special

STEPS = {
    "Laplace": (0.0, 0.2, 0.4, 0.7, 1.0, 1.4, 2.0, 2.7, 3.5, 4.5, 6.0, 8.0, 11.0, 16.0),
    "Gaussian": (0.0, 0.25, 0.5, 0.75, 1.0, 1.3, 1.6, 2.0, 2.4, 2.8, 3.2, 3.7, 4.2, 4.7, 5.2, 6.0, 7.0),
}
"""Distances of edges from every possible answer, in scales."""


def below(family, z):
    """Return the probability that a noise of scale 1 is at most z; precise where it is small."""
    if family == "Laplace":
        return np.where(z < 0, 0.5 * np.exp(np.minimum(z, 0)), 1 - 0.5 * np.exp(-np.maximum(z, 0)))
    return special.ndtr(z)


def edges_of(family, scale, answers, most):
    """Return edges of bins: close around every possible answer, at most so many."""
    centres = np.unique(answers)
    steps = np.array(STEPS[family])
    around = (centres[:, None] + scale * np.concatenate([-steps[:0:-1], steps])[None]).ravel()
    edges = np.unique(around)
    if len(edges) <= most:
        return edges
    keep = np.linspace(0, len(edges) - 1, most).round().astype(int)
    between = (centres[:-1] + centres[1:]) / 2 if len(centres) <= most else centres[:0]
    return np.unique(np.concatenate([edges[keep], between]))


def binned(family, scale, answers, edges):
    """Return the probability of every bin for every answer: of shape (bins, answers)."""
    answers = np.asarray(answers, dtype=np.float64)
    if scale == 0:
        values = np.unique(answers)
        return (values[:, None] == answers[None]).astype(np.float64)
    z = (edges[:, None] - answers[None]) / scale
    low, high = below(family, z), below(family, -z)
    between = np.where(z[:-1] >= 0, high[:-1] - high[1:], low[1:] - low[:-1])
    return np.concatenate([low[:1], between, high[-1:]])


def noisy(family, scale, answers, most=60):
    """Return the table of one noisy number: the probability of every bin on every data set."""
    edges = None if scale == 0 else edges_of(family, scale, answers, most)
    return merged(binned(family, scale, answers, edges))


def together(tables, most=4000):
    """Return the table of several independent noisy numbers."""
    whole = tables[0]
    for table in tables[1:]:
        whole = (whole[:, None, :] * table[None, :, :]).reshape(-1, whole.shape[1])
    return merged(whole) if len(whole) <= most else whole


def merged(table):
    """Return the table with bins joined that tell the same; they are proportional."""
    table = table[table.max(axis=1) > 1e-280]
    shape = table / table.max(axis=1, keepdims=True)
    _, which = np.unique(shape.round(12), axis=0, return_inverse=True)
    joined = np.zeros((int(which.max()) + 1, table.shape[1]))
    np.add.at(joined, which.reshape(-1), table)
    return joined


def tail(family, scale, beyond):
    """Return the probability that a noise exceeds a number."""
    z = beyond / scale
    if family == "Laplace":
        return 0.5 * math.exp(-z) if z >= 0 else 1 - 0.5 * math.exp(z)
    return float(special.ndtr(-z))


def gaussians(means, deviations, most=400):
    """Return the table of one number that is Gaussian on every data set, with a mean and a deviation of its own."""
    means, deviations = (np.asarray(one, dtype=np.float64) for one in (means, deviations))
    steps = np.array(STEPS["Gaussian"])
    steps = np.concatenate([-steps[:0:-1], steps])
    edges = np.unique((means[:, None] + deviations[:, None] * steps[None]).ravel())
    if len(edges) > most:
        edges = edges[np.unique(np.linspace(0, len(edges) - 1, most).round().astype(int))]
    z = (edges[:, None] - means[None]) / deviations[None]
    low, high = special.ndtr(z), special.ndtr(-z)
    between = np.where(z[:-1] >= 0, high[:-1] - high[1:], low[1:] - low[:-1])
    return merged(np.concatenate([low[:1], between, high[-1:]]))
