"""The best strategy against an account: dynamic programming over the tree of releases and binned answers.

After each answer the adversary takes the admitted release with the largest value, or stops. All measures are sums
(or the largest) over outcomes, so the value of a node is that of its best continuation: the search is exact.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

_MOST = 3_000_000
_UNDECIDED = 1e-300


@dataclass(frozen=True, eq=False)
class Found:
    """The best that a strategy reaches, as a divergence and as a part of what is allowed."""

    measure: Any
    pair: Any
    value: float
    ratio: float
    first: Any = None
    paths: Any = field(default=(), repr=False)

    def __repr__(self):
        return f"<Found {self.measure.name}: {self.value:.8g} of {self.measure.allowed:.8g} ({self.pair.name})>"


class Player:
    """An adversary with a menu, a referee and a number of releases."""

    def __init__(self, menu, referee, depth=2):
        self.menu, self.referee, self.depth = menu, referee, depth

    def best(self, pair, measure):
        """Return the best value of a measure for one pair of laws."""
        gained, first = self._value((), pair.a[None], pair.b[None], measure)
        return Found(
            measure, pair, measure.value(float(gained[0])), measure.ratio(float(gained[0])), first
        )

    def best_of(self, pairs, measures):
        """Return the strategy that comes closest to its limit, or goes farthest beyond it."""
        return max(
            (self.best(pair, measure) for pair in pairs for measure in measures),
            key=lambda one: one.ratio,
        )

    def _value(self, path, a, b, measure):
        """Return the value of nodes with these likelihoods times laws: one for each row of a and b."""
        best = measure.gain(a.sum(axis=1), b.sum(axis=1))
        if len(path) == self.depth:
            return best, None
        first = None
        for move in self.menu:
            release = move.after(path)
            if not self._allowed(path, release):
                continue
            value = self._after((*path, release), a, b, measure)
            if first is None or value[0] > best[0]:
                first = release
            best = np.maximum(best, value)
        return best, first

    def _allowed(self, path, release):
        """Say whether a release may come next: randomness that is not in the data sets is asked about once."""
        if release is None or any(release.touches & one.touches for one in path):
            return False
        return self.referee.admits((*path, release))

    def _after(self, path, a, b, measure):
        table = path[-1].table
        collect = np.max if measure.largest else np.sum
        if len(path) == self.depth:
            return _chunked(
                lambda some_a, some_b: collect(
                    measure.gain(some_a @ table.T, some_b @ table.T), axis=1
                ),
                a,
                b,
                len(table),
            )
        next_a = (a[:, None, :] * table[None]).reshape(-1, a.shape[1])
        next_b = (b[:, None, :] * table[None]).reshape(-1, b.shape[1])
        value, _ = self._value(path, next_a, next_b, measure)
        return collect(value.reshape(len(a), -1), axis=1)

    def choices(self, pair, measure):
        """Return how often each path of releases is taken by the best strategy: (names, probability under a)."""
        taken = {}
        self._walk((), pair.a, pair.b, measure, taken)
        return dict(sorted(taken.items(), key=lambda one: -one[1][0]))

    def _walk(self, path, a, b, measure, taken):
        here = measure.gain(a.sum(), b.sum())
        best, chosen = float(here), None
        for move in self.menu if len(path) < self.depth else ():
            release = move.after(path)
            if not self._allowed(path, release):
                continue
            value = float(self._after((*path, release), a[None], b[None], measure)[0])
            if value > best:
                best, chosen = value, release
        if chosen is None:
            mass = taken.setdefault(tuple(one.name for one in path), [0.0, 0.0])
            mass[0] += float(a.sum())
            mass[1] += float(b.sum())
            return
        if len(path) + 1 == self.depth:
            mass = taken.setdefault(tuple(one.name for one in (*path, chosen)), [0.0, 0.0])
            mass[0] += float(a.sum())
            mass[1] += float(b.sum())
            return
        for row in chosen.table:
            self._walk((*path, chosen), a * row, b * row, measure, taken)


def _chunked(value, a, b, bins):
    """Return a value of all nodes, some at a time."""
    size = max(_MOST // max(bins, 1), 1)
    if len(a) <= size:
        return value(a, b)
    return np.concatenate(
        [value(a[at : at + size], b[at : at + size]) for at in range(0, len(a), size)]
    )
