"""Random laws for the tests: small, with ties, duplicates and shared atoms, as dicts of Fractions and as pf.Law."""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

import pufferflow as pf


def law_of(weights):
    """Return the exact pf.Law of a dict {atom: Fraction}."""
    return pf.Law(list(weights), list(weights.values()))


def float_law_of(weights):
    """Return the same law with weights as floats."""
    return pf.Law([_as_float(x) for x in weights], [float(w) for w in weights.values()])


def _as_float(atom):
    return tuple(map(float, atom)) if isinstance(atom, tuple) else float(atom)


def random_weights(rng, size, denominator):
    """Return `size` positive Fractions with sum 1 over a denominator."""
    cuts = (
        np.sort(rng.choice(np.arange(1, denominator), size - 1, replace=False)) if size > 1 else []
    )
    parts = np.diff([0, *cuts, denominator])
    return [Fraction(int(part), denominator) for part in parts]


def random_law(rng, *, dimension=1, most=6, span=8):
    """Return a small random law on whole numbers (or tuples of them)."""
    size = int(rng.integers(1, most + 1))
    shape = size if dimension == 1 else (size, dimension)
    atoms = rng.integers(0, span, shape).tolist()
    keys = [tuple(atom) if dimension > 1 else atom for atom in atoms]
    weights = random_weights(rng, size, max(2 * size, int(rng.choice([8, 10, 12, 30, 1000]))))
    law = {}
    for key, weight in zip(keys, weights, strict=True):
        law[key] = law.get(key, Fraction(0)) + weight
    return law


fractions = st.fractions(min_value=-20, max_value=20, max_denominator=12)


@st.composite
def exact_laws(draw, atoms=fractions, most=6):
    """Laws with rational atoms and weights, some atoms equal."""
    values = draw(st.lists(atoms, min_size=1, max_size=most))
    parts = draw(st.lists(st.integers(1, 30), min_size=len(values), max_size=len(values)))
    return pf.Law(values, [Fraction(part, sum(parts)) for part in parts])


@st.composite
def float_laws(draw, most=8):
    """Laws with float atoms and weights over many orders of magnitude."""
    values = draw(st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=most))
    parts = draw(st.lists(st.floats(1e-18, 1.0), min_size=len(values), max_size=len(values)))
    weights = np.array(parts) / sum(parts)
    return pf.Law(values, weights)
