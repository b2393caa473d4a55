"""The pairs of values between which one independent row moves the sums farthest; no other pair costs more."""

from typing import Final

import numpy as np

from pufferflow.core.arrays import Array, Floats, Indices
from pufferflow.models.product import Product
from pufferflow.models.secret import AnySecret, Initial, Secret, ValueSecret
from pufferflow.models.secret_pairs import WithinDistance, windows
from pufferflow.release.planning.extremes import extreme_points, undominated
from pufferflow.release.planning.functions import SumFunctions

_MOST_MOVES: Final = 1 << 24


def pairs_that_decide(secret: AnySecret, functions: SumFunctions) -> tuple[AnySecret, Floats]:
    """Return the secret with only those pairs of a listed domain that others do not dominate, and the rows there.

    Where sums share rows, or pairs are too many, the values have no names, and are numbered.
    """
    if not isinstance(secret, Secret | Initial):
        return secret, functions.at_values
    alone, states = functions.alone, functions.folding.states()
    pairs = _pairs(secret, alone)
    if pairs is None:
        return _any_two(secret, functions)
    if len(states) or isinstance(secret.domain, Product) or secret.domain.skips:
        rows = np.concatenate([alone[:, pairs.ravel()], np.tile(states, len(pairs))])
        return _numbered(secret, rows), rows
    places = np.unique(pairs)
    chosen: list[int] = places.tolist()
    points = [secret.domain.points[place] for place in chosen]
    listed: list[list[int]] = pairs.tolist()
    named = [(secret.domain.points[a], secret.domain.points[b]) for a, b in listed]
    return type(secret)(secret.column, points, named), alone[:, places]


def _numbered(secret: ValueSecret, rows: Floats) -> ValueSecret:
    """Return the secret whose values are numbers, of which each even one and the next one are a pair."""
    numbers = list(range(rows.shape[1]))
    return type(secret)(secret.column, numbers, list(zip(numbers[::2], numbers[1::2], strict=True)))


def _any_two(secret: ValueSecret, functions: SumFunctions) -> tuple[ValueSecret, Floats]:
    """Return all functions as they move between any two values; of near ones each as far as it moves between these."""
    rows = functions.extreme_rows
    if not isinstance(secret.pairs, WithinDistance):
        return type(secret)(secret.column, list(range(rows.shape[1]))), rows
    order, ends = windows(secret.pairs, secret.domain)
    moves = [_farthest_within(function[order], ends) for function in functions.alone]
    alone = np.array([(0.0, move) for move in moves]).reshape(-1, 2)
    rows = np.concatenate([alone, functions.folding.states()])
    return _numbered(secret, rows), rows


def _farthest_within(function: Floats, ends: Indices) -> float:
    """Return the largest distance from a value to one of those behind it, up to an end of its own.

    Ranges of powers of two many values are put together, two for each window.
    """
    starts, longest = np.arange(len(function)), 0.0
    level, low, high = np.floor(np.log2(np.maximum(ends - starts, 1))).astype(np.intp), function, function
    for power in range(int(level.max()) + 1):
        own = np.flatnonzero(level == power)
        tail = ends[own] - (1 << power)
        most, least = np.maximum(high[own], high[tail]), np.minimum(low[own], low[tail])
        moves = np.maximum(most - function[own], function[own] - least)
        longest = max(longest, float(moves.max(initial=0.0)))
        step = 1 << power
        low, high = np.minimum(low[:-step], low[step:]), np.maximum(high[:-step], high[step:])
    return longest


def _pairs(secret: ValueSecret, alone: Floats) -> Array | None:
    """Return the pairs by the places of their values, of shape (pairs, 2); None if there are too many."""
    count = _number_of_pairs(secret)
    if secret.pairs == "all":
        chosen = extreme_points(alone)
        if chosen is None:
            return None
        first, second = np.triu_indices(len(chosen), 1)
        pairs = np.stack([chosen[first], chosen[second]], axis=1) if len(first) else np.array([[0, 1]])
    elif count * max(len(alone), 1) > _MOST_MOVES:
        return None
    else:
        pairs = secret.pair_places
    if not len(alone):
        return pairs[:1]
    return pairs[undominated(np.abs(alone[:, pairs[:, 0]] - alone[:, pairs[:, 1]]))]


def _number_of_pairs(secret: ValueSecret) -> int:
    if isinstance(secret.pairs, WithinDistance):
        order, ends = windows(secret.pairs, secret.domain)
        return int((ends - np.arange(len(order)) - 1).sum())
    return len(secret.pairs) if isinstance(secret.pairs, tuple) else len(secret.domain.points)
