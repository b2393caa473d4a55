"""Whether all mass but δ of many pairs of laws on a lattice can be matched within z, all pairs at once (M4).

By max-flow min-cut what cannot be matched is max_A μ(A) − ν(A^z), A^z being A widened by z on both sides. On a line A
is a union of intervals: point by point one decides to be inside or outside A, for all pairs side by side. A pair may be
split into parts that must not mix; then the parts' surpluses add up, and what the parts of μ lack of a total of 1
counts as unmatched. Every number is within `error` of its truth, and is rounded towards more that is unmatched.
"""

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from pufferflow.arrays import Floats, Indices
from pufferflow.chains.farthest import Pair

_CELLS = 3_000_000
_LARGEST_SHARE_FORGIVEN = 2.0**-20


@final
@dataclass(frozen=True)
class Tolerance:
    """How much may stay unmatched, and how far computed numbers may be from their truths.

    As for two single laws rounding is forgiven, so that .003 typed as δ and .003 computed are the same; but no more
    than δ/2²⁰.
    """

    delta: float
    error: float

    @property
    def forgiving(self) -> float:
        """The largest computed number that does."""
        return self.delta + min(2 * self.error, self.delta * _LARGEST_SHARE_FORGIVEN) - self.error


@final
@dataclass
class NearnessSearch:
    """The least z in steps that does for all pairs seen so far; `failed` if none does for some.

    `needed` says that no less does whatever the rounding, `enough` that it does whatever the rounding.
    """

    allowed: Tolerance
    steps: int = 0
    where: tuple[int, Pair] | None = None
    needed: bool = True
    enough: bool = True
    failed: bool = False
    _waiting: list[tuple[Floats, Floats, tuple[int, Pair]]] = field(default_factory=list[Any])
    _cells: int = 0

    def add(self, mu: Floats, nu: Floats, row: int, states: Pair) -> None:
        """Look at a pair of laws, each in parts of shape (E, N): now, or later together with others."""
        if self._waiting and len(self._waiting[0][0]) != len(mu):
            self.flush()
        self._waiting.append((mu, nu, (row, states)))
        self._cells += mu.size
        if self._cells > _CELLS:
            self.flush()

    def flush(self) -> None:
        if self._waiting and not self.failed:
            self._raise(
                LawPairs.of([(mu, nu) for mu, nu, _ in self._waiting]), [label for _, _, label in self._waiting]
            )
        self._waiting.clear()
        self._cells = 0

    def _raise(self, given: "LawPairs", labels: list[tuple[int, Pair]]) -> None:
        """Raise the distance until it does for these pairs too."""
        pairs = given
        left = pairs.unmatched(self.steps)
        self.where = self.where or labels[int(left.argmax())]
        open_ones = np.flatnonzero(left > self.allowed.forgiving)
        low, high, reach = self.steps, self.steps, 1
        before = left[open_ones]
        while len(open_ones):
            low, high, reach = high, min(high + reach, pairs.size), 2 * reach
            pairs = pairs.some(open_ones)
            labels = [labels[i] for i in open_ones.tolist()]
            left = pairs.unmatched(high)
            open_ones = np.flatnonzero(left > self.allowed.forgiving)
            if len(open_ones):
                before = left[open_ones]
                self.failed = high == pairs.size
                if self.failed:
                    return
        self._close_in(pairs, labels, low, high, before)
        strict = self.allowed.delta - self.allowed.error
        self.enough = self.enough and bool((given.unmatched(self.steps) <= strict).all())

    def _close_in(self, pairs: "LawPairs", labels: list[tuple[int, Pair]], low: int, high: int, before: Floats) -> None:
        """Halve the range between a distance that does not do and one that does; both may be the one so far."""
        if low == high:
            return
        worst = labels[int(before.argmax())]
        while high - low > 1:
            middle = (low + high) // 2
            left = pairs.unmatched(middle)
            if (left > self.allowed.forgiving).any():
                low, before, worst = middle, left, labels[int(left.argmax())]
            else:
                high = middle
        self.steps, self.where = high, worst
        self.needed = float(before.max()) > self.allowed.delta + self.allowed.error


@final
@dataclass(frozen=True, eq=False)
class LawPairs:
    """LawPairs of laws in parts: `mu[i, pair, part]` is the mass of a part before point i, likewise `nu`."""

    mu: Floats
    nu: Floats

    @staticmethod
    def of(given: list[tuple[Floats, Floats]]) -> "LawPairs":
        """Put laws of different lengths side by side."""
        size = max(len(law[0]) for pair in given for law in pair)
        sides = np.zeros((2, size + 1, len(given), len(given[0][0])))
        for place, pair in enumerate(given):
            for side, law in zip(sides, pair, strict=True):
                side[1 : law.shape[1] + 1, place] = law.T
        sides = np.cumsum(sides, axis=1)
        return LawPairs(sides[0], sides[1])

    @property
    def size(self) -> int:
        """How many points there are; no distance is as large."""
        return len(self.mu) - 1

    def some(self, which: Indices) -> "LawPairs":
        return LawPairs(self.mu[:, which], self.nu[:, which])

    def unmatched(self, steps: int) -> Floats:
        """Return for each pair what cannot be matched within so many steps."""
        points = np.arange(self.size)
        # entering A before a point gains ν below its reach and costs μ below it; leaving after a point the reverse
        enter = self.nu[np.maximum(points - steps, 0)] - self.mu[:-1]
        leave = self.mu[1:] - self.nu[np.minimum(points + steps + 1, self.size)]
        outside = np.zeros(self.mu.shape[1:])
        inside = np.full(self.mu.shape[1:], -np.inf)
        for gained, kept in zip(enter, leave, strict=True):
            np.maximum(inside, outside + gained, out=inside)
            np.maximum(outside, inside + kept, out=outside)
        return 1 - self.mu[-1].sum(axis=1) + outside.sum(axis=1)
