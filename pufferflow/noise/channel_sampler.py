"""Draws with exactly the probabilities of a table of rational numbers, many at a time.

A uniform number in [0, 1) is read bit by bit, and the output is the number of cumulative probabilities that are not
above it. 32 bits decide that, unless a cumulative probability lies between the same two multiples of 2⁻³² as the
number; then more bits are read until they decide.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Final, final

import numpy as np

from pufferflow.core.arrays import Array, Indices
from pufferflow.noise.sampler import Bits

BITS: Final = 32
_FURTHER: Final = 64
_FEW: Final = 16


@final
@dataclass(frozen=True, eq=False)
class Ladder:
    """The cumulative probabilities of every row, without the last ones, and their first 32 bits."""

    exact: tuple[tuple[Fraction, ...], ...]
    below: Array
    """⌊2³²·c⌋ for every cumulative probability c, of shape (rows, outputs − 1)."""
    above: Array
    """⌈2³²·c⌉."""

    @classmethod
    def of(cls, rows: Sequence[Sequence[Fraction]]) -> "Ladder":
        """Return the ladder of rows of probabilities."""
        exact = tuple(tuple(accumulate(row))[:-1] for row in rows)
        floors = [[(one.numerator << BITS) // one.denominator for one in row] for row in exact]
        ceilings = [[-((-one.numerator << BITS) // one.denominator) for one in row] for row in exact]
        return cls(exact, np.array(floors, dtype=np.int64), np.array(ceilings, dtype=np.int64))

    def draw(self, places: Indices, bits: Bits = os.urandom) -> Indices:
        """Return indices of outputs drawn for indices of rows, with fresh random bits for each."""
        words = np.frombuffer(bits(BITS // 8 * len(places)), dtype="<u4").astype(np.int64)
        drawn = _not_above(self.above, places, words)
        if (self.below != self.above).any():
            for at in np.flatnonzero(_not_above(self.below, places, words) != drawn).tolist():
                drawn[at] = self._decided(int(places[at]), int(words[at]), bits)
        return drawn

    def _decided(self, place: int, word: int, bits: Bits) -> int:
        """Return the output of a number whose first 32 bits do not decide it."""
        known = BITS
        while any(word < one * 2**known < word + 1 for one in self.exact[place]):
            word = (word << _FURTHER) | int.from_bytes(bits(_FURTHER // 8), "little")
            known += _FURTHER
        return sum(one * 2**known <= word for one in self.exact[place])


def _not_above(steps: Array, places: Indices, words: Array) -> Indices:
    """Return how many steps of its row are not above each word."""
    count = steps.shape[1]
    if count < _FEW:
        found = np.zeros(len(places), dtype=np.intp)
        for step in steps.T:
            found += words >= step[places]
        return found
    starts = np.arange(len(steps), dtype=np.int64)[:, None] << BITS
    return np.searchsorted((steps + starts).ravel(), (places << BITS) | words, side="right") - places * count
