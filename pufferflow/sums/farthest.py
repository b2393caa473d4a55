"""W_∞ of a sum along a Markov chain: over all rows and pairs, exactly (M18).

The law of the sum given X_t = a is past ∗ future, moved by the value of a. Most pairs only have to pass a test: that
they are not farther apart than the farthest so far, or by the three-term bound cannot be.
"""

import math
from dataclasses import dataclass
from typing import final

from pufferflow.sums.extended import Masses, convolved, tight
from pufferflow.sums.lattice import Lattice, lattice
from pufferflow.sums.levels import Gap, Levels, Yardstick, gap, holds, levels, within, yardstick
from pufferflow.sums.sides import Sides
from pufferflow.sums.statistic import Asked, Farthest, Flags, Floats, Sums, Whole, asked
from pufferflow.sums.three import FINE, Pair, Side, added, affordable, conditional, possible, three_terms

_MOST_WORK = 1e11
_SNAPPED = 4
_PATIENCE = 64
_NONE = Gap(-1, -1, -1)


def farthest(sums: Sums, pairs: Whole, rows: Flags | None = None) -> Farthest:
    """Return the largest W_∞ between the laws of the sum given two states of a row, over rows and pairs of states.

    `pairs` has shape (S, 2), `rows` flags the rows whose state is secret (all if None). A state that a row cannot have
    is no secret there; of several initial laws the worst counts. Where values have no common step the result is an
    upper bound. A chain too long for about a minute of work gets the three-term bound, one beyond that is Refused.

    >>> import numpy as np
    >>> from pufferflow.messages import Chain
    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(99, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> counts = Sums(chain, np.array([[0.0, 1.0]]), np.zeros(100, dtype=np.intp))
    >>> farthest(counts, np.array([[0, 1]])).length
    10.0
    """
    most, secrets = most_points(sums), asked(sums, pairs, rows)
    where = lattice(sums, most)
    if where.size > most:
        return three_terms(sums, pairs, rows)
    if where.error:
        snapped = _searched(sums, secrets, lattice(sums, min(most // _SNAPPED, FINE * sums.length)))
        bound = affordable(sums, secrets)
        return bound if bound is not None and bound.length < snapped.length else snapped
    return _searched(sums, secrets, where)


def most_points(sums: Sums) -> int:
    """Return how many points laws may have that are convolved for every row and state."""
    return math.isqrt(int(6 * _MOST_WORK) // (sums.length * sums.chain.states))


def _searched(sums: Sums, secrets: Asked, where: Lattice) -> Farthest:
    """Look at all rows, from the first one on: their pasts are short, so the first distances come cheap."""
    by = yardstick(sums.length, sums.chain.states, where.size)
    best, sides = _Best(by), Sides(sums, where)
    pasts = [sides.pasts(initial) for initial in sums.chain.initial]
    looks = [_Look(best, secrets, by) for _ in pasts]
    for row, (future, *before) in enumerate(zip(sides.futures(), *pasts, strict=True)):
        if secrets.rows[row]:
            after = conditional(future.planes)
            values = where.points[sums.kinds[row]].tolist()
            for look, past in zip(looks, before, strict=True):
                look.at(row, past, after, values)
    if best.states is None:
        return secrets.nothing
    exact = best.gap.least == best.gap.most and not where.error
    return Farthest(where.length(best.gap.length), best.row, best.states, exact=exact, rounding=by.rounding)


@final
@dataclass
class _Best:
    """The farthest so far."""

    by: Yardstick
    gap: Gap = _NONE
    row: int = 0
    states: Pair | None = None

    def covers(self, bound: Gap) -> bool:
        """Return whether a distance with this bound is no news; note what it leaves open."""
        if bound.length > self.gap.length or (bound.most > self.gap.length == self.gap.most):
            return False
        self._note(_NONE.least, bound.most)
        return True

    def holds(self, mu: Levels, nu: Levels) -> bool:
        """Return whether two laws are surely no farther apart, or are so up to ties that are known to matter."""
        if within(mu, nu, self.gap.length, -self.by.ties):
            return True
        ties = self.gap.most > self.gap.length and within(mu, nu, self.gap.most, -self.by.ties)
        return ties and holds(mu, nu, self.gap.length, self.by)

    def look(self, mu: Levels, nu: Levels, row: int, states: Pair) -> None:
        """Measure two laws that are farther apart, or whose ties matter."""
        found = gap(mu, nu, self.by, _NONE)
        if found.length > self.gap.length:
            self.gap, self.row, self.states = Gap(self.gap.least, found.length, self.gap.most), row, states
        self._note(found.least, found.most)

    def _note(self, least: int, most: int) -> None:
        self.gap = Gap(max(self.gap.least, least), self.gap.length, max(self.gap.most, most))


@final
class _Look:
    """Looks at row after row for one initial law."""

    def __init__(self, best: _Best, secrets: Asked, by: Yardstick) -> None:
        self._best, self._secrets, self._by = best, secrets, by
        self._past, self._future = Side(by), Side(by)
        self._idle, self._wait = 0, 0

    def at(self, row: int, past: Masses, after: list[Floats], values: list[int]) -> None:
        """Look at one row: its past, what comes after each of its states, and the values of those."""
        before = conditional(past.planes)
        pairs = self._open(before, after, self._secrets.possible(possible(past)), values)
        laws: dict[int, Levels] = {}
        for a, b in pairs:
            for state in (a, b):
                if state not in laws:
                    laws[state] = levels(convolved(tight(before[state]), tight(after[state])), values[state], self._by)
            if not self._best.holds(laws[a], laws[b]):
                self._best.look(laws[a], laws[b], row, (a, b))

    def _open(self, before: list[Floats], after: list[Floats], pairs: list[Pair], values: list[int]) -> list[Pair]:
        """Return the pairs that the three-term bound leaves open; where it helps little it is tried less often."""
        if self._wait:
            self._wait -= 1
            return pairs
        bounds = added(self._past.gaps(before, pairs), self._future.gaps(after, pairs), values)
        left = [pair for pair in pairs if not self._best.covers(bounds[pair])]
        self._idle = min(2 * self._idle + 1, _PATIENCE) if 2 * len(left) > len(pairs) else 0
        self._wait = self._idle
        return left
