"""Random chains, and the law of everything that a short one can do."""

import itertools
from fractions import Fraction

import numpy as np

import pufferflow as pf


def kernel(rng: np.random.Generator, states: int, least: float = 0.02) -> np.ndarray:
    """Return a random matrix of probabilities, none below `least` times its row's share."""
    rows = rng.dirichlet(np.ones(states), size=states) + least
    return rows / rows.sum(axis=1, keepdims=True)


def scenario(transition, **options) -> pf.Scenario:
    """Return a scenario whose secret is every state of a chain."""
    states = np.array(transition).shape[-1]
    return pf.Scenario(
        secret=pf.Secret(
            "level",
            domain=options.pop("domain", list(range(states))),
            pairs=options.pop("pairs", "all"),
        ),
        prior=pf.MarkovChain(transition, **options),
        order_by="hour",
    )


def paths(kernels, initial, positions):
    """Yield every path of states at these positions with its probability, in Fractions."""
    law = [Fraction(x) for x in initial]
    states = len(law)
    exact = [[[Fraction(x) for x in row] for row in matrix] for matrix in kernels]
    for start in itertools.product(range(states), repeat=int(positions[-1]) + 1):
        chance = law[start[0]]
        for step, (a, b) in enumerate(itertools.pairwise(start)):
            chance *= exact[step % len(exact)][a][b]
        if chance:
            yield tuple(start[int(p)] for p in positions), chance


def given(kernels, initial, positions, row, state):
    """Return {path: probability} given the state of one row; empty if that cannot be."""
    found: dict[tuple[int, ...], Fraction] = {}
    for path, chance in paths(kernels, initial, positions):
        if path[row] == state:
            found[path] = found.get(path, Fraction(0)) + chance
    total = sum(found.values())
    return {path: chance / total for path, chance in found.items()}
