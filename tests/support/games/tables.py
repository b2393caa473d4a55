"""Probabilities of binned answers: exact differences of distribution functions, never densities.

Binning is post-processing. What a player gains from binned answers is a lower bound of what the answers tell.
"""

import math

import numpy as np
from scipy import special

import pufferflow as pf

STEPS = {
    "Laplace": (0.0, 0.2, 0.4, 0.7, 1.0, 1.4, 2.0, 2.7, 3.5, 4.5, 6.0, 8.0, 11.0, 16.0),
    "Gaussian": (
        0.0,
        0.25,
        0.5,
        0.75,
        1.0,
        1.3,
        1.6,
        2.0,
        2.4,
        2.8,
        3.2,
        3.7,
        4.2,
        4.7,
        5.2,
        6.0,
        7.0,
    ),
}
"""Distances of edges from every possible answer, in scales."""


_CLOSEST = 1e-3
"""Edges are so many scales apart at least."""


def below(noise, x):
    """Return the probability that a noise is at most x; precise where it is small."""
    match noise:
        case pf.Laplace():
            z = x / noise.scale
            return np.where(
                z < 0, 0.5 * np.exp(np.minimum(z, 0)), 1 - 0.5 * np.exp(-np.maximum(z, 0))
            )
        case pf.Gaussian():
            return special.ndtr(x / noise.scale)
        case pf.GeneralizedCauchy():  # scale/√(k−1) times Student's t with k − 1 degrees of freedom
            return special.stdtr(noise.k - 1, x / noise.scale * math.sqrt(noise.k - 1))
        case pf.Staircase():
            return np.where(x <= 0, _stairs(noise, -x), 1 - _stairs(noise, x))
    raise TypeError(noise)


def _stairs(noise, x):
    """Return the probability that a staircase noise exceeds x ≥ 0: beyond a landing the rest falls off."""
    step, share, fall = noise.sensitivity, noise.gamma, math.exp(-noise.epsilon)
    height = (1 - fall) / (2 * step * (share + fall * (1 - share)))
    first = share * step
    whole = height * fall * step / (1 - fall)  # the mass beyond the first landing
    later = np.floor((np.maximum(x, first) - first) / step)
    inside = np.maximum(x, first) - first - later * step
    beyond = whole * fall**later - height * fall ** (later + 1) * inside
    return np.where(x < first, whole + height * (first - x), beyond)


def distances_of(noise):
    """Return distances of edges from every possible answer."""
    if isinstance(noise, pf.Staircase):
        steps = (noise.gamma + np.arange(math.ceil(40 / max(noise.epsilon, 1)))) * noise.sensitivity
        return np.concatenate([-steps[::-1], [0.0], steps])
    steps = (
        np.array(STEPS["Laplace" if isinstance(noise, pf.Laplace) else "Gaussian"]) * noise.scale
    )
    return np.concatenate([-steps[:0:-1], steps])


def edges_of(noise, answers, most):
    """Return edges of bins: close around every possible answer and halfway between, at most so many."""
    centres = np.unique(answers)
    around = (centres[:, None] + distances_of(noise)[None]).ravel()
    halfway = (centres[:-1] + centres[1:]) / 2 if len(centres) <= most / 2 else centres[:0]
    edges = apart(np.concatenate([around, halfway]), _CLOSEST * noise.scale)
    if len(edges) <= most:
        return edges
    keep = np.linspace(0, len(edges) - 1, most).round().astype(int)
    return apart(np.concatenate([edges[keep], halfway]), _CLOSEST * noise.scale)


def apart(edges, least):
    """Return edges in order, without those that hardly differ: differences of their tails would be rounding."""
    edges = np.unique(edges)
    return edges[np.concatenate([[True], np.diff(edges) > least])]


def binned(noise, answers, edges):
    """Return the probability of every bin for every answer: of shape (bins, answers)."""
    low, high = (
        below(noise, edges[:, None] - answers[None]),
        below(noise, answers[None] - edges[:, None]),
    )
    far = edges[:-1, None] >= answers[None]
    between = np.where(far, high[:-1] - high[1:], low[1:] - low[:-1])
    return np.concatenate([low[:1], np.maximum(between, 0.0), high[-1:]])


def noisy(noise, answers, most=60):
    """Return the table of one noisy number: the probability of every bin on every data set."""
    answers = np.asarray(answers, dtype=np.float64)
    if noise.scale == 0:
        return merged((np.unique(answers)[:, None] == answers[None]).astype(np.float64))
    return merged(binned(noise, answers, edges_of(noise, answers, most)))


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


def gaussians(means, deviations, most=400):
    """Return the table of one number that is Gaussian on every data set, with a mean and a deviation of its own."""
    means, deviations = (np.asarray(one, dtype=np.float64) for one in (means, deviations))
    steps = np.array(STEPS["Gaussian"])
    steps = np.concatenate([-steps[:0:-1], steps])
    edges = apart(
        (means[:, None] + deviations[:, None] * steps[None]).ravel(), _CLOSEST * deviations.min()
    )
    if len(edges) > most:
        edges = edges[np.unique(np.linspace(0, len(edges) - 1, most).round().astype(int))]
    z = (edges[:, None] - means[None]) / deviations[None]
    low, high = special.ndtr(z), special.ndtr(-z)
    between = np.where(z[:-1] >= 0, high[:-1] - high[1:], low[1:] - low[:-1])
    return merged(np.concatenate([low[:1], between, high[-1:]]))


def tail(noise, beyond):
    """Return the probability that a noise exceeds a number."""
    return float(below(noise, np.asarray(-beyond)))
