"""The shares of one guarantee between the sums of a batch: the units in which their movements are added up.

A batch is one vector of sums (M23). Each is measured in a unit of its own, all get noise of one scale in these units,
and that scale is calibrated for the vector as a whole. So the units alone divide the budget. They have short binary
fractions, so that sums of whole steps are scaled without rounding.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import did_you_mean
from pufferflow.core.validate import finite_number, quoted
from pufferflow.queries.query import Query

_SOME = 6
_BITS = 12
_MOST = 1 << 24


def read_shares(shares: Mapping[str, float] | None, queries: Sequence[Query]) -> Floats:
    """Return the share of the budget of each query, which sum to 1; equal ones if none are given."""
    if shares is None:
        return np.full(len(queries), 1 / len(queries))
    names = [query.name for query in queries]
    allowed = f"a number > 0 for each of {', '.join(map(repr, names))}"
    instead = f"shares={{{', '.join(f'{name!r}: {max(2 - place, 1)}' for place, name in enumerate(names[:_SOME]))}}}"
    if not isinstance(shares, Mapping) or set(shares) != set(names):  # pyright: ignore[reportUnnecessaryIsInstance]
        wrong = [name for name in shares if name not in names] if isinstance(shares, Mapping) else []  # pyright: ignore[reportUnnecessaryIsInstance]
        question = f" No query is called {quoted(wrong[0])}.{did_you_mean(wrong[0], names)}" if wrong else ""
        raise UsageError(f"shares does not name each query once.{question}", allowed=allowed, instead=instead)
    read = np.array([finite_number(shares[name], "a share", allowed=allowed, instead=instead) for name in names])
    if not (read > 0).all() or read.min() / read.max() < 1e-6:
        raise UsageError("A share is not above 0, or a millionth of another.", allowed=allowed, instead=instead)
    of_most = read / read.max()  # the sum of very large numbers would be infinite
    return of_most / of_most.sum()


def distinct(places: Sequence[Sequence[int]], shares: Floats) -> dict[tuple[int, ...], float]:
    """Return the share of each different set of sums: a set that is queried twice has one share, the larger one.

    >>> distinct([[0], [1], [0]], np.array([0.25, 0.5, 0.25]))
    {(0,): 0.333..., (1,): 0.666...}
    """
    found = dict[tuple[int, ...], float]()
    for own, share in zip(places, shares.tolist(), strict=True):
        found[tuple(own)] = max(share, found.get(tuple(own), 0.0))
    total = math.fsum(found.values())
    return {own: share / total for own, share in found.items()}


def balanced(
    shares: Mapping[tuple[int, ...], float],
    ranges: Floats,
    need: Callable[[Floats, float], float],
    exclusive: Collection[tuple[int, ...]] = (),
) -> Floats:
    """Return the weight of each sum: with noise of scale 1 each query alone has what its share of the guarantee needs.

    So no query needs more beside others than alone. `shares` are those of the sums of each query, `ranges` those of the
    sums' functions; `need` returns the scale that weighted sums need with a share. A sum that no row moves has weight
    0, and one of several queries the largest. Of `exclusive` sums a row moves one at most.
    """
    units = np.divide(1.0, ranges, out=np.zeros(len(ranges)), where=ranges > 0)
    weight_of = np.zeros(len(ranges))
    for own, share in shares.items():
        places, chosen = np.array(own, dtype=np.intp), np.zeros(len(ranges))
        moved = places[units[places] > 0]
        some = moved[:1] if own in exclusive else moved
        chosen[some] = units[some]
        least = need(chosen, share) if len(some) else 0.0
        if least > 0:
            weight_of[places] = np.maximum(weight_of[places], units[places] / least)
    return np.array([short_binary(weight) for weight in weight_of.tolist()])


def short_binary(number: float) -> float:
    """Return a number of few binary digits near another.

    >>> short_binary(1 / 3) * 3
    1.0001220703125
    """
    if number == 0:
        return 0.0
    digits, exponent = math.frexp(number)
    return math.ldexp(math.ceil(math.ldexp(digits, _BITS)), exponent - _BITS)


def longest_move(moves: Floats, norm: float) -> float:
    """Return the largest norm of a row's movement between two points, or a bound on it where points are many."""
    measures, points = moves.shape
    if points * points * measures > _MOST:
        return float(np.linalg.norm(moves.max(axis=1) - moves.min(axis=1), norm))
    return max(float(np.linalg.norm(moves - moves[:, [point]], norm, axis=0).max()) for point in range(points))
