"""Random tables of a secret and data, random channels, and their losses by plain enumeration in floats."""

import itertools
import math

import numpy as np
from scipy.special import ndtri

import pufferflow as pf

THREE = pf.Table(
    {
        "s": [0, 0, 0, 1, 1, 1],
        "x": [0, 1, 2, 0, 1, 2],
        "probability": [0.25, 0.15, 0.1, 0.1, 0.15, 0.25],
    }
)
"""P(x|s) = [.5, .3, .2] and [.2, .3, .5], and a fair secret (M32)."""


def channel(reads, rows, outputs=None):
    return pf.confounding.Channel(
        reads, range(len(rows)), outputs or list(range(len(rows[0]))), rows
    )


FIRST = channel("x", [[0.6, 0.4], [0.5, 0.5], [0.4, 0.6]])
SECOND = channel("x", [[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]])


def xor_table():
    """A fair coin, and the secret plus that coin."""
    return pf.Table(
        {"s": [0, 0, 1, 1], "a": [0, 1, 0, 1], "b": [0, 1, 1, 0], "probability": [0.25] * 4}
    )


def kept_bit(reads, keep):
    return channel(reads, [[keep, 1 - keep], [1 - keep, keep]])


def random_table(rng, secrets=2, sizes=(3, 2), zeros=0.0):
    """Return a table of s and columns a, b, … and its joint law as an array."""
    joint = rng.dirichlet(np.ones(secrets * math.prod(sizes))).reshape(secrets, *sizes)
    joint[rng.random(joint.shape) < zeros] = 0.0
    joint = np.round(joint / joint.sum(), 4)
    joint.flat[int(joint.argmax())] += 1 - joint.sum()
    cells = [cell for cell in itertools.product(*map(range, joint.shape)) if joint[cell] > 1e-12]
    names = ["s", *"abcde"[: len(sizes)]]
    columns = {name: [cell[at] for cell in cells] for at, name in enumerate(names)}
    joint = np.where(joint > 1e-12, joint, 0.0)
    return pf.Table(
        {**columns, "probability": [round(float(joint[cell]), 12) for cell in cells]}
    ), joint


def random_channel(rng, reads, inputs, outputs=3):
    rows = rng.dirichlet(np.ones(outputs), size=inputs)
    return channel(
        reads,
        rows.round(3) + np.where(np.arange(outputs) == 0, 1 - rows.round(3).sum(1)[:, None], 0),
    )


def matrix(one):
    return np.array([[float(p) for p in row] for row in one.probabilities])


def joint_of(joint, channels):
    """Return P(outputs | s) for one channel per data column, by brute force."""
    laws = joint / joint.sum(axis=tuple(range(1, joint.ndim)), keepdims=True)
    for one in channels:
        laws = np.tensordot(laws, matrix(one), axes=([1], [0]))
    return laws.reshape(len(laws), -1)


def hockey_stick(laws, epsilon):
    pairs = itertools.permutations(range(len(laws)), 2)
    return max(np.clip(laws[i] - math.exp(epsilon) * laws[j], 0, None).sum() for i, j in pairs)


def gaussian_delta(mu, epsilon):
    """Return δ(ε) of two normal laws at a distance of mu (M10)."""
    below = lambda x: math.erfc(-x / math.sqrt(2)) / 2  # noqa: E731
    return below(mu / 2 - epsilon / mu) - math.exp(epsilon) * below(-mu / 2 - epsilon / mu)


def tied_laws(table, noises, tie_of, at):
    """Return the laws given s of noises on the columns a and b, tied and untied, by quadrature on a grid.

    `tie_of` gives the correlation of the copula and both means of its numbers for each s.
    """
    laws = np.zeros((2, 2, len(at), len(at)))
    for (s, *answers), mass in zip(
        list(zip(*table.cells, strict=True)), table.probabilities, strict=True
    ):
        rho, a, b = tie_of(s)
        moved = [at - own for own in answers]
        z, w = (
            np.where(v > 0, -1, 1) * ndtri(n.tail(np.abs(v)))
            for n, v in zip(noises, moved, strict=True)
        )
        first, second = z[:, None] - a, w[None, :] - b
        bells = (first**2 - 2 * rho * first * second + second**2) / (2 * (1 - rho**2))
        tie = (z**2)[:, None] / 2 + (w**2)[None, :] / 2 - bells - math.log(1 - rho**2) / 2
        plain = np.add.outer(*(n.logpdf(v) for n, v in zip(noises, moved, strict=True)))
        laws[0, s] += mass * np.exp(plain + tie)
        laws[1, s] += mass * np.exp(plain)
    return laws / laws.sum(axis=(2, 3), keepdims=True)


def deltas_of(laws, epsilons):
    """Return δ of two laws on a grid at every ε, the larger of both orders."""
    return [
        max(np.clip(laws[i] - math.exp(e) * laws[1 - i], 0, None).sum() for i in (0, 1))
        for e in epsilons
    ]
