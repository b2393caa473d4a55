"""Whether all mass but δ of many pairs of laws on a lattice can be matched within z, all pairs at once (M4).

By max-flow min-cut what cannot be matched is max_A μ(A) − ν(A^z), A^z being A widened by z on both sides. On a line A
is a union of intervals: point by point one decides to be inside or outside A, for all pairs side by side. A pair may be
split into parts that must not mix; then the parts' surpluses add up, and what the parts of μ lack of a total of 1
counts as unmatched. Every number is within `error` of its true value, and is rounded towards more unmatched mass.
"""

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.distributions.markov.winf_of_sums import Pair

_CELLS = 3_000_000
_LARGEST_SHARE_FORGIVEN = 2.0**-20


@final
@dataclass(frozen=True)
class Tolerance:
    """The mass that may stay unmatched, and the largest error of computed masses.

    As for two single laws there is an allowance for rounding, so that .003 typed as δ and .003 computed are the same;
    it is at most δ/2²⁰.
    """

    delta: float
    error: float

    @property
    def forgiving(self) -> float:
        """The largest computed mass that may stay unmatched."""
        return self.delta + min(2 * self.error, self.delta * _LARGEST_SHARE_FORGIVEN) - self.error


@final
@dataclass
class NearnessSearch:
    """The least z in steps within which all pairs so far are near; `failed` if there is none for some pair.

    `needed`: no smaller z suffices whatever the rounding; `enough`: z suffices whatever the rounding.
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
        """Add a pair of laws, each in parts of shape (E, N), to the batch, and search the batch once it is full."""
        if self._waiting and len(self._waiting[0][0]) != len(mu):
            self.flush()
        self._waiting.append((mu, nu, (row, states)))
        self._cells += mu.size
        if self._cells > _CELLS:
            self.flush()

    def flush(self) -> None:
        if self._waiting and not self.failed:
            self._raise_distance(
                LawPairs.of([(mu, nu) for mu, nu, _ in self._waiting]), [label for _, _, label in self._waiting]
            )
        self._waiting.clear()
        self._cells = 0

    def _raise_distance(self, all_pairs: "LawPairs", labels: list[tuple[int, Pair]]) -> None:
        """Raise the distance until these pairs are near within it too."""
        pairs = all_pairs
        unmatched = pairs.unmatched(self.steps)
        self.where = self.where or labels[int(unmatched.argmax())]
        failing = np.flatnonzero(unmatched > self.allowed.forgiving)
        low, high, reach = self.steps, self.steps, 1
        before = unmatched[failing]
        while len(failing):
            low, high, reach = high, min(high + reach, pairs.size), 2 * reach
            pairs = pairs.subset(failing)
            labels = [labels[i] for i in failing.tolist()]
            unmatched = pairs.unmatched(high)
            failing = np.flatnonzero(unmatched > self.allowed.forgiving)
            if len(failing):
                before = unmatched[failing]
                self.failed = high == pairs.size
                if self.failed:
                    return
        self._bisect(pairs, labels, low, high, before)
        strict = self.allowed.delta - self.allowed.error
        self.enough = self.enough and bool((all_pairs.unmatched(self.steps) <= strict).all())

    def _bisect(self, pairs: "LawPairs", labels: list[tuple[int, Pair]], low: int, high: int, before: Floats) -> None:
        """Bisect between a distance that is too small and one that suffices; both may be the current one."""
        if low == high:
            return
        worst = labels[int(before.argmax())]
        while high - low > 1:
            middle = (low + high) // 2
            unmatched = pairs.unmatched(middle)
            if (unmatched > self.allowed.forgiving).any():
                low, before, worst = middle, unmatched, labels[int(unmatched.argmax())]
            else:
                high = middle
        self.steps, self.where = high, worst
        self.needed = float(before.max()) > self.allowed.delta + self.allowed.error


@final
@dataclass(frozen=True, eq=False)
class LawPairs:
    """Pairs of laws in parts: `mu[i, pair, part]` is the mass of a part before point i, likewise `nu`."""

    mu: Floats
    nu: Floats

    @staticmethod
    def of(laws: list[tuple[Floats, Floats]]) -> "LawPairs":
        """Put laws of different lengths side by side."""
        size = max(len(law[0]) for pair in laws for law in pair)
        sides = np.zeros((2, size + 1, len(laws), len(laws[0][0])))
        for place, pair in enumerate(laws):
            for side, law in zip(sides, pair, strict=True):
                side[1 : law.shape[1] + 1, place] = law.T
        sides = np.cumsum(sides, axis=1)
        return LawPairs(sides[0], sides[1])

    @property
    def size(self) -> int:
        """The number of points; no distance is as large."""
        return len(self.mu) - 1

    def subset(self, which: Indices) -> "LawPairs":
        return LawPairs(self.mu[:, which], self.nu[:, which])

    def unmatched(self, steps: int) -> Floats:
        """Return for each pair the mass that cannot be matched within a number of steps."""
        points = np.arange(self.size)
        # entering A before a point gains ν below its reach and costs μ below it; leaving after a point the reverse
        enter = self.nu[np.maximum(points - steps, 0)] - self.mu[:-1]
        leave = self.mu[1:] - self.nu[np.minimum(points + steps + 1, self.size)]
        outside = np.zeros(self.mu.shape[1:])
        inside = np.full(self.mu.shape[1:], -np.inf)
        for gained, retained in zip(enter, leave, strict=True):
            np.maximum(inside, outside + gained, out=inside)
            np.maximum(outside, inside + retained, out=outside)
        return 1 - self.mu[-1].sum(axis=1) + outside.sum(axis=1)
