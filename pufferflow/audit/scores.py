"""Scores: numbers that order noisy answers, from those typical of one secret to those of the other.

An event is a set of answers with a score above a threshold. Any score gives a valid attack, since it is fixed before
the draws that are counted; so all scores may be approximate. Three are tried: the ratio of likelihoods (no event shows
more than its level sets, if the noise is as stated), the answer itself, and which of some intervals it lies in, ordered
by the observed draws, without an assumption on the noise.

The ratio of likelihoods of noisy answers is exact if the laws have few atoms. For laws with many it is read from a
table on the line, and for vectors added up coordinate by coordinate, as if these were independent given the secret. A
score needs no more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.audit.worlds import Duel, World
from pufferflow.core.arrays import Floats
from pufferflow.noise.base import Noise

Points = tuple[Floats, Floats]
_FEW = 64
_NODES = 2048
_AT_ONCE = 1 << 18
_LEAST = 1e-300
_DIGITS = 9


@final
@dataclass(frozen=True, eq=False)
class Ratio:
    """The log ratio: a sum of terms, each of some coordinates."""

    terms: tuple["ExactRatio | TabulatedRatio", ...]

    @classmethod
    def of(cls, worlds: Sequence[World], noises: Sequence[Noise], drawn: Floats) -> "Ratio":
        """Return the ratio; `drawn` shows where noisy answers lie."""
        both = [world.points() for world in worlds]
        many = max(len(weights) for _, weights in both) > _FEW
        if not many:
            return cls((ExactRatio(slice(None), tuple(noises), both[0], both[1]),))
        return cls(tuple(_on_line(both, noises[k], k, drawn[:, k]) for k in range(len(noises))))

    def __call__(self, noisy: Floats) -> Floats:
        """Return log ratios, rounded: the tails of Laplace noise are flat, and rounding errors must not split them."""
        total = np.array([term(noisy) for term in self.terms]).sum(axis=0)
        return np.asarray(total.round(_DIGITS))


@final
@dataclass(frozen=True, eq=False)
class ExactRatio:
    """A sum over all points, in some coordinates."""

    where: slice
    noises: tuple[Noise, ...]
    first: Points
    second: Points

    def __call__(self, noisy: Floats) -> Floats:
        """Return the log ratio."""
        own = noisy[:, self.where]
        return _log_likelihood(self.noises, own, *self.first) - _log_likelihood(self.noises, own, *self.second)


@final
@dataclass(frozen=True, eq=False)
class TabulatedRatio:
    """One coordinate's ratio between nodes; constant beyond them."""

    coordinate: int
    nodes: Floats
    ratios: Floats

    def __call__(self, noisy: Floats) -> Floats:
        """Return the values of the table."""
        return np.interp(noisy[:, self.coordinate], self.nodes, self.ratios)


def _on_line(both: Sequence[Points], noise: Noise, k: int, drawn: Floats) -> "ExactRatio | TabulatedRatio":
    points = [_gather(values[:, k], weights) for values, weights in both]
    term = ExactRatio(slice(k, k + 1), (noise,), points[0], points[1])
    if max(len(weights) for _, weights in points) <= _FEW:
        return term
    atoms = [values[:: max(len(values) // _NODES, 1), 0] for values, _ in points]
    nodes = np.unique(np.concatenate([np.quantile(drawn, np.linspace(0, 1, _NODES)), *atoms]))
    at = np.zeros((len(nodes), k + 1))
    at[:, k] = nodes
    return TabulatedRatio(k, nodes, term(at))


def _gather(values: Floats, weights: Floats) -> Points:
    """Return one coordinate's law: each value once."""
    distinct, place = np.unique(values, return_inverse=True)
    return distinct[:, None], np.asarray(np.bincount(place.reshape(-1), weights), dtype=np.float64)


def _log_likelihood(noises: tuple[Noise, ...], noisy: Floats, points: Floats, weights: Floats) -> Floats:
    """Return log Σ_m w_m Π_k ζ_k(y_k − x_mk), some answers at a time."""
    logs = np.log(np.maximum(weights, _LEAST))
    step = max(_AT_ONCE // len(weights), 1)
    parts = [_log_densities(noises, noisy[at : at + step], points, logs) for at in range(0, len(noisy), step)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _log_densities(noises: tuple[Noise, ...], noisy: Floats, points: Floats, logs: Floats) -> Floats:
    log_terms = np.broadcast_to(logs, (len(noisy), len(logs))).copy()
    for k, noise in enumerate(noises):
        log_terms += noise.logpdf(noisy[:, [k]] - points[None, :, k])
    if log_terms.shape[1] == 1:
        return log_terms[:, 0]
    top = log_terms.max(axis=1)
    with np.errstate(under="ignore"):
        return top + np.log(np.exp(log_terms - top[:, None]).sum(axis=1))


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
        # noise of scale 0 has no density, so a tiny scale replaces it
        noises = [noise if noise.scale else noise.at(spread * _TINY) for noise in duel.mechanism.noises]
        direction = _direction(first, second, noises)
        edges = np.unique(np.quantile(drawn @ direction, np.arange(1, _CELLS) / _CELLS))
        cells = [np.searchsorted(edges, noise @ direction, side="right") for noise in (first, second)]
        counts = [np.bincount(noise, minlength=len(edges) + 1) + 1.0 for noise in cells]
        ratio = Ratio.of(duel.worlds, noises, drawn)
        return cls(duel.names, ratio, direction, edges, np.log(counts[0]) - np.log(counts[1]))

    def __call__(self, noisy: Floats) -> Floats:
        """Return the scores, of shape (3, n)."""
        along = noisy @ self.direction
        intervals = self.heights[np.searchsorted(self.edges, along, side="right")]
        return np.stack([self.ratio(noisy), along, intervals])

    def words(self, score: int, sign: int, thresholds: Floats, first: int) -> str:
        """Describe the answers that have a score, times its sign, beyond a threshold, or beyond one after the other."""
        lowest, highest = float(thresholds[0]), float(thresholds[-1])
        likelier, other = self.names[first], self.names[1 - first]
        if len(thresholds) > 1:
            what = f"how much likelier it is under {likelier} than under {other}" if score != ANSWER else "its size"
            ends = f"from e^{lowest:.4g} to e^{highest:.4g} times"
            if score == ANSWER:
                ends = f"from {sign * lowest:.4g} to {sign * highest:.4g}"
            return f"{self._answer} in {len(thresholds) + 1} levels by {what}, cut {ends}"
        if score == RATIO:
            return f"{self._answer} is at least e^{lowest:.4g} times as likely under {likelier} as under {other}"
        if score == ANSWER:
            return f"{self._answer} is at {'least' if sign > 0 else 'most'} {sign * lowest:.6g}"
        return f"{self._answer} lies in {self._chosen(sign, lowest)}"

    @property
    def _answer(self) -> str:
        return "the answer" if len(self.direction) == 1 else f"the vector of {len(self.direction)} answers, weighted,"

    def _chosen(self, sign: int, lowest: float) -> str:
        """Describe the intervals with a height beyond a threshold, a few of them in numbers."""
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
