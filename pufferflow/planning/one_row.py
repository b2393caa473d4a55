"""The pairs of values between which one independent row moves the sums farthest; no other pair costs more."""

from typing import Any, Final

import numpy as np

from pufferflow.arrays import Array, Floats
from pufferflow.planning.extremes import extreme_points, undominated
from pufferflow.planning.functions import SumFunctions
from pufferflow.scenario import AnySecret, Initial, Product, Secret, ValueSecret

_MOST_MOVES: Final = 1 << 24


def pairs_that_decide(secret: AnySecret, functions: SumFunctions) -> tuple[AnySecret, Floats]:
    """Return the secret with only those pairs of a listed domain that others do not dominate, and the rows there.

    Where sums share rows the values have no names, and are numbered.
    """
    if not isinstance(secret, Secret | Initial):
        return secret, functions.at_values
    alone, states = functions.alone, functions.folding.states()
    pairs = _pairs(secret, alone)
    if pairs is None:
        rows = functions.extreme_rows
        return type(secret)(secret.column, list(range(rows.shape[1]))), rows
    if len(states) or isinstance(secret.domain, Product):
        return _numbered(secret, alone, states, pairs)
    places = np.unique(pairs)
    points: list[Any] = [secret.domain.points[place] for place in places.tolist()]
    named = [(secret.domain.points[a], secret.domain.points[b]) for a, b in pairs.tolist()]
    return type(secret)(secret.column, points, named), alone[:, places]


def _numbered(secret: ValueSecret, alone: Floats, states: Floats, pairs: Array) -> tuple[AnySecret, Floats]:
    """Return every pair as two numbers of its own; the sums that share rows move as far as they can in each."""
    rows = np.concatenate([alone[:, pairs.ravel()], np.tile(states, len(pairs))])
    numbers = [(2 * place, 2 * place + 1) for place in range(len(pairs))]
    return type(secret)(secret.column, list(range(2 * len(pairs))), numbers), rows


def _pairs(secret: ValueSecret, alone: Floats) -> Array | None:
    """Return the pairs by the places of their values, of shape (pairs, 2); None if there are too many to look at."""
    if secret.pairs == "all":
        chosen = extreme_points(alone)
        if chosen is None:
            return None
        first, second = np.triu_indices(len(chosen), 1)
        pairs = np.stack([chosen[first], chosen[second]], axis=1)
        pairs = pairs if len(pairs) else np.array([[0, 1]])
    else:
        pairs = secret.pair_places
    if len(pairs) * max(len(alone), 1) > _MOST_MOVES:
        return None
    if not len(alone):
        return pairs[:1]
    return pairs[undominated(np.abs(alone[:, pairs[:, 0]] - alone[:, pairs[:, 1]]))]
