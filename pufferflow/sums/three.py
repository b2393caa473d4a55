"""The three-term bound W_∞(past) + |v(a) − v(b)| + W_∞(future): past and future are independent given a row (M18)."""

from collections.abc import Iterable
from itertools import islice
from typing import final

import numpy as np

from pufferflow.errors import Refused
from pufferflow.sums.extended import BITS, Masses, normalised, settled
from pufferflow.sums.lattice import Lattice, lattice
from pufferflow.sums.levels import Gap, Levels, Yardstick, gap, levels, yardstick
from pufferflow.sums.sides import Sides
from pufferflow.sums.statistic import Asked, Farthest, Flags, Floats, Sums, Whole, asked

Pair = tuple[int, int]
FINE = 4000
"""How many points per row a lattice has that values are brought to."""
_MOST_WORK = 1.2e11
_MOST_POINTS = 2_000_000
_PASSES = 15
_SAMPLE = 200
_UNKNOWN = Gap(0, 0, 1)


def three_terms(sums: Sums, pairs: Whole, rows: Flags | None = None) -> Farthest:
    """Return the largest three-term bound over rows and pairs: never below W_∞ of the sum, and cheaper.

    Refused if that would take more than about a minute.

    >>> from pufferflow.messages import Chain
    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(99, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> counts = Sums(chain, np.array([[0.0, 1.0]]), np.zeros(100, dtype=np.intp))
    >>> three_terms(counts, np.array([[0, 1]])).length
    12.0
    """
    found = affordable(sums, asked(sums, pairs, rows))
    if found is None:
        raise Refused(
            f"The laws of a sum of {sums.length} rows have too many points, or too small masses, to follow row by row.",
            allowed="about 20,000 rows of two states, fewer of more",
            instead="nearest with a delta, or messages (M20)",
        )
    return found


def affordable(sums: Sums, secrets: Asked) -> Farthest | None:
    """Return the largest three-term bound, on the exact lattice if there is one; None if that takes too long."""
    rows, states = sums.length, sums.chain.states
    passes = rows * states * (states + _PASSES)
    most = min(int(_MOST_WORK / passes), _MOST_POINTS)
    where = lattice(sums, most)
    if where.error:
        where = lattice(sums, min(most, FINE * rows))
    if where.size > most or passes * where.size * _planes(sums, where) > _MOST_WORK:
        return None
    return bounded(sums, secrets, where)


def _planes(sums: Sums, where: Lattice) -> float:
    """Return on how many planes laws lie on average, judged by the last rows alone."""
    rows = min(_SAMPLE, sums.length)
    law = settled(next(islice(Sides(sums, where).futures_back(), rows - 1, None)).planes)
    bits = BITS * (len(law.planes) - 1) - float(np.log2(law.least))
    return 1 + 2 / 3 * bits / rows * sums.length / BITS


def bounded(sums: Sums, secrets: Asked, where: Lattice) -> Farthest:
    """Return the largest three-term bound on a lattice: all pasts on the way forth, all futures on the way back."""
    by = yardstick(sums.length, sums.chain.states, where.size)
    futures: list[dict[Pair, Gap]] = []
    side = Side(by)
    for row, law in zip(range(sums.length - 1, -1, -1), Sides(sums, where).futures_back(), strict=True):
        futures.append(side.gaps(conditional(law.planes), secrets.pairs) if secrets.rows[row] else {})
    best, found = -1, secrets.nothing
    for initial in sums.chain.initial:
        side = Side(by)
        for row, law in enumerate(Sides(sums, where).pasts(initial)):
            if secrets.rows[row]:
                past = side.gaps(conditional(law.planes), secrets.possible(possible(law)))
                values = where.points[sums.kinds[row]].tolist()
                for pair, total in added(past, futures[-1 - row], values).items():
                    if total.length > best:
                        best = total.length
                        found = Farthest(where.length(best), row, pair, exact=False, rounding=by.rounding)
    return found


def added(past: dict[Pair, Gap], future: dict[Pair, Gap], values: list[int]) -> dict[Pair, Gap]:
    """Return the three-term bounds of the pairs of one row, given its values."""
    return {(a, b): _sum(one, future[a, b], Gap(*(abs(values[a] - values[b]),) * 3)) for (a, b), one in past.items()}


def _sum(*gaps: Gap) -> Gap:
    return Gap(sum(one.least for one in gaps), sum(one.length for one in gaps), sum(one.most for one in gaps))


@final
class Side:
    """How far apart the laws on one side of a row are, row after row: each row's answer is the next one's guess."""

    def __init__(self, by: Yardstick) -> None:
        self._by = by
        self._guesses: dict[Pair, Gap] = {}

    def gaps(self, laws: list[Floats], pairs: Iterable[Pair]) -> dict[Pair, Gap]:
        """Return W_∞ for the pairs of one row, given one law per state."""
        needed = list(pairs)
        ladders: dict[int, Levels] = {a: levels(laws[a], 0, self._by) for a in {a for pair in needed for a in pair}}
        found = {(a, b): gap(ladders[a], ladders[b], self._by, self._guesses.get((a, b), _UNKNOWN)) for a, b in needed}
        self._guesses.update(found)
        return found


def possible(law: Masses) -> Flags:
    """Return for each state whether it has any mass."""
    return np.asarray(law.planes.any(axis=(0, 2)))


def conditional(planes: Floats) -> list[Floats]:
    """Return the law given each state, from joint or conditional ones; a state without mass has an empty one."""
    return [normalised(law) if law.any() else law for law in planes.transpose(1, 0, 2)]
