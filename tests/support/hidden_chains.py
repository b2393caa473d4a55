"""Hidden chains by enumeration of all hidden states and symbols, independent of the library's recursions."""

import itertools
import math

import numpy as np

import pufferflow as pf

STAY = [[0.95, 0.05], [0.2, 0.8]]
SHOWS = [[0.7, 0.2, 0.08, 0.02], [0.1, 0.2, 0.4, 0.3]]
LEVELS = [0, 1, 2, 3]
"""The example of M58: a slow hidden chain that shows one of four levels."""


def scenario_of(prior, domain, *, hidden, **options):
    """Return the scenario whose secret is the hidden state, or the symbol, of every row."""
    named = {"domain": domain, "missing": domain[0]}
    own = pf.Derived("s", column="x", **named) if hidden else pf.Secret("x", **named)
    return pf.Scenario(own, prior, order_by="t", **options)


def random_chain(rng, states, symbols, *, zeros=0.0):
    """Return a kernel, an emission and a start; some probabilities are 0."""

    def laws(rows, columns):
        drawn = rng.dirichlet(np.full(columns, rng.choice([0.5, 1.5])), rows) + 0.01
        drawn = np.where(rng.random(drawn.shape) < zeros, 0.0, drawn)
        drawn[np.arange(rows), rng.integers(0, columns, rows)] += 0.1
        return drawn / drawn.sum(axis=1, keepdims=True)

    return laws(states, states), laws(states, symbols), laws(1, states)[0]


def joint(kernel, emission, start, positions):
    """Return all paths of states and of symbols, and the probability of each pair of them."""
    kernel, emission, rows = np.asarray(kernel), np.asarray(emission), len(positions)
    states = np.array(list(itertools.product(range(len(kernel)), repeat=rows)))
    symbols = np.array(list(itertools.product(range(emission.shape[1]), repeat=rows)))
    law = np.asarray(start) @ np.linalg.matrix_power(kernel, positions[0])
    mass = law[states[:, 0]]
    for t in range(1, rows):
        moved = np.linalg.matrix_power(kernel, positions[t] - positions[t - 1])
        mass = mass * moved[states[:, t - 1], states[:, t]]
    shown = emission[states[:, None, :], symbols[None, :, :]].prod(axis=2)
    return states, symbols, mass[:, None] * shown


def given(states, symbols, masses, row, *, hidden):
    """Return for each state, or symbol, of a row that can occur the law of all symbols."""
    found = {}
    for value in range((states if hidden else symbols).max() + 1):
        some = masses * (states[:, row] == value)[:, None]
        some = some if hidden else masses * (symbols[:, row] == value)
        if some.sum() > 0:
            found[value] = some.sum(axis=0) / some.sum()
    return found


def worst_product(states, symbols, masses, limits, *, hidden):
    """Return the largest log ratio over rows, secrets and likelihoods that are a product of extreme ones of each row.

    `limits[t]` is what symbols of row t are exposed to: of any two symbols the same.
    """
    many = symbols.max() + 1
    subsets = np.array(list(itertools.product((0, 1), repeat=many)), dtype=float)[1:]
    likelihood = np.ones((1, len(symbols)))
    for t in range(symbols.shape[1]):
        own = np.exp(limits[t] * (subsets[:, symbols[:, t]] - 1))
        likelihood = (likelihood[:, None, :] * own[None, :, :]).reshape(-1, len(symbols))
    worst = 0.0
    for row in range(symbols.shape[1]):
        laws = given(states, symbols, masses, row, hidden=hidden).values()
        logs = np.log([likelihood @ law for law in laws])
        worst = max(worst, float((logs.max(axis=0) - logs.min(axis=0)).max()))
    return worst


def exact_loss(first, second, sums, scale):
    """Return the pure loss of a sum with Laplace noise, from the laws of all symbols: at its atoms, both orders.

    A scale of 0 publishes the sum itself.
    """
    atoms = np.unique(sums)
    near = np.exp(-np.abs(atoms[:, None] - sums[None, :]) / max(scale, 1e-9))
    logs = np.log(near @ first) - np.log(near @ second)
    return float(np.abs(logs).max())


def closed_form(stay, error, exposure):
    """Return e and the loss for ever of a symmetric hidden chain (M58 (d))."""
    through = (1 - 2 * error) * math.tanh(exposure / 2)
    own = 2 * math.atanh(through)
    return own, 2 * math.asinh(stay / (1 - stay) * math.sinh(own / 2))
