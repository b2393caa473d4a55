"""Small classes of data sets, small mechanisms on them, and their exact losses by enumeration."""

import itertools
import math

import numpy as np


def tables(values, sizes):
    """Return all tables with so many rows, each row one of some values; the order of rows does not matter."""
    return [
        rows for size in sizes for rows in itertools.combinations_with_replacement(values, size)
    ]


def random_laws(rng, parts, outputs=3, spread=1.0):
    """Return a mechanism: a random law of outputs for each of the parts, none of them impossible."""
    return {
        part: _law(np.exp(rng.uniform(-spread, spread, outputs))) for part in dict.fromkeys(parts)
    }


def _law(weights):
    return weights / weights.sum()


def jointly(laws, places):
    """Return the law of all outputs together, for mechanisms that read their own parts with independent noise."""
    joint = np.ones(1)
    for mechanism, part in zip(laws, places, strict=True):
        joint = np.multiply.outer(joint, mechanism[part]).ravel()
    return joint


def log_ratio(p, q):
    """Return the largest log ratio of two laws."""
    return float(np.log(p / q).max())


def hockey_stick(p, q, epsilon):
    """Return the least δ at which two laws keep ε."""
    return float(np.clip(p - math.exp(epsilon) * q, 0, None).sum())


def renyi(p, q, alpha):
    """Return the Rényi divergence of two laws."""
    return float(np.log((p**alpha * q ** (1 - alpha)).sum()) / (alpha - 1))
