"""Small public patterns, and the truth about answers to them, found slowly."""

import itertools
import math

import numpy as np

import pufferflow as pf
from pufferflow.queries.engine_interface import Pattern
from tests.support.chains import given


def pattern(cells, positions=None, counts=None, **options):
    """Return the pattern of rows in these cells, which are numbered as they come up."""
    counts = np.ones(len(cells), dtype=int) if counts is None else np.array(counts)
    positions = None if positions is None else np.array(positions, dtype=float)
    return Pattern(np.array(cells), counts, positions, **options)


def sub_patterns(rng, count, size):
    """Yield random patterns among the first rows of a sequence: some missing, some not asked about, in some cells."""
    for _ in range(count):
        kept = np.sort(rng.choice(size, int(rng.integers(1, size + 1)), replace=False))
        cells = rng.integers(-1, 3, len(kept)).tolist()
        seen = {
            cell: place
            for place, cell in enumerate(dict.fromkeys(cell for cell in cells if cell >= 0))
        }
        yield pattern([seen.get(cell, -1) for cell in cells], kept)


def values(size):
    """Return the secret that is any of the first whole numbers."""
    return pf.Secret("x", domain=list(range(size)))


def answers(path, cells, tables):
    """Return the vector of answers, cell by cell and measure by measure."""
    found = np.zeros((max(cells) + 1, len(tables)))
    for state, cell in zip(path, cells, strict=True):
        if cell >= 0:
            found[cell] += tables[:, state]
    return found.ravel()


def merged(weighted):
    """Return points and chances of a law given as pairs, equal points put together."""
    found = {}
    for point, chance in weighted:
        key = tuple(np.round(point, 9))
        found[key] = found.get(key, 0.0) + float(chance)
    total = sum(found.values())
    return np.array(list(found)), np.array(list(found.values())) / total


def exact_loss(laws, scale):
    """Return the largest log ratio of two noisy laws: with Laplace noise it lies where each coordinate is an atom's."""
    atoms = np.concatenate([points for points, _ in laws])
    outputs = np.array(list(itertools.product(*(np.unique(column) for column in atoms.T))))
    logs = []
    for points, chances in laws:
        exponents = -np.abs(outputs[:, None] - points[None]).sum(axis=2) / scale
        logs.append(np.log(np.exp(exponents) @ chances))
    return float(np.abs(logs[0] - logs[1]).max())


def chain_loss(kernels, initial, where, tables, scale):
    """Return the loss of all answers about a pattern of a chain, by all its paths."""
    worst, cells = 0.0, where.cells.tolist()
    for row in range(len(cells)):
        laws = []
        for state in range(len(initial)):
            paths = given(kernels, initial, where.positions, row, state)
            laws.append(
                merged((answers(path, cells, tables), chance) for path, chance in paths.items())
            )
        worst = max([worst, *(exact_loss(pair, scale) for pair in itertools.combinations(laws, 2))])
    return worst


def star_loss(draws, cells, tables, scale, *, of_class):
    """Return the loss of answers about rows that share a class, by all rows: draws are (class, secret, x, chance)."""
    every = []
    for shared in {draw[0] for draw in draws}:
        own = [draw[1:] for draw in draws if draw[0] == shared]
        mass = sum(chance for _, _, chance in own)
        for rows in itertools.product(own, repeat=len(cells)):
            hidden, path, chances = zip(*rows, strict=True)
            chance = math.prod(chances) / mass ** (len(cells) - 1)
            every.append((shared, hidden, answers(path, cells, tables), chance))
    worst = 0.0
    for row in range(len(cells)):
        laws = [
            merged(
                (point, chance)
                for shared, hidden, point, chance in every
                if value == (shared if of_class else hidden[row])
            )
            for value in (0, 1)
        ]
        worst = max(worst, exact_loss(laws, scale))
    return worst


def farthest(cells, tables, norm):
    """Return the largest movement of all answers over all values of all rows."""
    found = [
        answers(path, cells, tables)
        for path in itertools.product(range(tables.shape[1]), repeat=len(cells))
    ]
    return max(float(np.linalg.norm(a - b, norm)) for a in found for b in found)
