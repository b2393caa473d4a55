"""The truth about trade-offs, found slowly, by listing all outputs of all releases. Nothing is the library's."""

import itertools
import math

import numpy as np


def worst_pair(epsilon, delta, tv):
    """The probabilities of five outputs under both secrets, for the worst release with these numbers (M26)."""
    tv = min(tv, delta + (1 - delta) * math.tanh(epsilon / 2))
    delta = min(delta, tv)
    alpha = (
        1 - (tv - delta) * (1 + math.exp(epsilon)) / ((1 - delta) * math.expm1(epsilon))
        if epsilon
        else 1.0
    )
    part = (1 - delta) * (1 - alpha) / (1 + math.exp(epsilon))
    p = np.array([delta, part * math.exp(epsilon), alpha * (1 - delta), part, 0.0])
    return p, p[::-1]


def product(pairs):
    """The laws of all outputs together, under both secrets."""
    p, q = np.ones(1), np.ones(1)
    for first, second in pairs:
        p, q = np.multiply.outer(p, first).ravel(), np.multiply.outer(q, second).ravel()
    return p, q


def hockey_stick(p, q, epsilon):
    """The largest of P(S) − e^ε Q(S), in both orders."""
    return max(math.fsum(np.maximum(a - math.exp(epsilon) * b, 0.0)) for a, b in ((p, q), (q, p)))


def least_misses(p, q, alpha):
    """The least Q(accept) of tests with P(reject) = alpha, by Neyman and Pearson."""
    with np.errstate(divide="ignore"):
        order = np.argsort(-np.where(p > 0, q / np.where(p > 0, p, 1.0), np.inf), kind="stable")
    used, misses = 0.0, 1.0
    for place in order.tolist():
        share = 1.0 if p[place] == 0 else min(1.0, (alpha - used) / p[place])
        used, misses = used + share * p[place], misses - share * q[place]
        if share < 1:
            break
    return max(misses, 0.0)


def random_release(rng, outputs=3):
    """The laws of a release with random probabilities."""
    p, q = rng.dirichlet(np.ones(outputs)), rng.dirichlet(np.ones(outputs))
    mixed = rng.uniform(0.1, 0.9)
    return p, mixed * p + (1 - mixed) * q


def subsets(number):
    """All subsets of range(number)."""
    return itertools.chain.from_iterable(
        itertools.combinations(range(number), k) for k in range(number + 1)
    )
