"""Scores: numbers by which noisy answers are put in order, from those typical of one secret to those of the other.

An event is a set of answers with a score above a threshold. Any score gives a valid attack, since it is fixed before
the draws that are counted; so all of them may be approximate. Three are tried: the ratio of likelihoods (no event tells
more than its level sets, if the noise is what it says), the answer itself, and which of some intervals it lies in,
ordered by what draws show, which assumes nothing of the noise.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from pufferflow.audit.likelihood import Ratio
from pufferflow.audit.worlds import Duel
from pufferflow.noise import Noise

Floats = npt.NDArray[np.float64]
RATIO, ANSWER, INTERVALS = range(3)
_CELLS = 32
_TINY = 1e-9
_MOST_TOLD = 3


@final
@dataclass(frozen=True, eq=False)
class Scores:
    """The three scores of noisy answers of a duel, large where the first of its secrets is likely."""

    names: tuple[str, str]
    ratio: Ratio
    direction: Floats
    edges: Floats
    heights: Floats

    @classmethod
    def of(cls, duel: Duel, first: Floats, second: Floats) -> "Scores":
        """Return scores that are learnt from draws of both worlds."""
        drawn = np.concatenate([first, second])
        spread = max(float(np.ptp(drawn)), 1.0)
        noises = [one if one.scale else one.at(spread * _TINY) for one in duel.mechanism.noises]  # which has a density
        direction = _direction(first, second, noises)
        edges = np.unique(np.quantile(drawn @ direction, np.arange(1, _CELLS) / _CELLS))
        cells = [np.searchsorted(edges, one @ direction, side="right") for one in (first, second)]
        counts = [np.bincount(one, minlength=len(edges) + 1) + 1.0 for one in cells]
        ratio = Ratio.of(duel.worlds, noises, drawn)
        return cls(duel.names, ratio, direction, edges, np.log(counts[0]) - np.log(counts[1]))

    def __call__(self, noisy: Floats) -> Floats:
        """Return the scores, of shape (3, n)."""
        along = noisy @ self.direction
        intervals = self.heights[np.searchsorted(self.edges, along, side="right")]
        return np.stack([self.ratio(noisy), along, intervals])

    def words(self, score: int, sign: int, thresholds: Floats, first: int) -> str:
        """Say which answers have a score, times its sign, beyond a threshold, or beyond one after the other."""
        lowest, highest = float(thresholds[0]), float(thresholds[-1])
        one, other = self.names[first], self.names[1 - first]
        if len(thresholds) > 1:
            what = f"how much likelier it is under {one} than under {other}" if score != ANSWER else "its size"
            ends = f"from e^{lowest:.4g} to e^{highest:.4g} times"
            if score == ANSWER:
                ends = f"from {sign * lowest:.4g} to {sign * highest:.4g}"
            return f"{self._answer} in {len(thresholds) + 1} levels by {what}, cut {ends}"
        if score == RATIO:
            return f"{self._answer} is at least e^{lowest:.4g} times as likely under {one} as under {other}"
        if score == ANSWER:
            return f"{self._answer} is at {'least' if sign > 0 else 'most'} {sign * lowest:.6g}"
        return f"{self._answer} lies in {self._chosen(sign, lowest)}"

    @property
    def _answer(self) -> str:
        return "the answer" if len(self.direction) == 1 else f"the vector of {len(self.direction)} answers, weighted,"

    def _chosen(self, sign: int, lowest: float) -> str:
        """Return the intervals with a height beyond a threshold, a few of them in numbers."""
        inside = np.flatnonzero(sign * self.heights >= lowest)
        starts = inside[np.diff(inside, prepend=-2) > 1]
        stops = inside[np.diff(inside, append=len(self.heights) + 1) > 1]
        ends = np.concatenate([[-np.inf], self.edges, [np.inf]])
        if len(starts) > _MOST_TOLD:
            return f"one of {len(starts)} intervals"
        return " or ".join(f"[{ends[a]:.4g}, {ends[b + 1]:.4g})" for a, b in zip(starts, stops, strict=True))


def _direction(first: Floats, second: Floats, noises: list[Noise]) -> Floats:
    """Return the weights along which answers move, in units of the noise; the answer itself on the line.

    Medians, since some noises have no mean.
    """
    if len(noises) == 1:
        return np.ones(1)
    scales = np.array([noise.scale for noise in noises])
    moves = (np.median(first, axis=0) - np.median(second, axis=0)) / scales**2
    size = float(np.abs(moves).max())
    return moves / size if size > 0 else 1 / scales
