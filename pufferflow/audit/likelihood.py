"""The ratio of likelihoods of noisy answers under two secrets, as nearly as it is quickly known.

Exact where the laws have few atoms. Of laws with many it is read from a table on the line, and for vectors added up
coordinate by coordinate, as if these were independent given the secret. What it is good for does not need more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from pufferflow.audit.worlds import World
from pufferflow.noise import Noise

Floats = npt.NDArray[np.float64]
Points = tuple[Floats, Floats]
_FEW = 64
_NODES = 2048
_AT_ONCE = 1 << 18
_LEAST = 1e-300
_DIGITS = 9


@final
@dataclass(frozen=True, eq=False)
class Ratio:
    """The log ratio: a sum of terms, each of which looks at some coordinates."""

    terms: tuple["Exactly | Table", ...]

    @classmethod
    def of(cls, worlds: Sequence[World], noises: Sequence[Noise], drawn: Floats) -> "Ratio":
        """Return the ratio; `drawn` shows where noisy answers lie."""
        both = [world.points() for world in worlds]
        many = max(len(weights) for _, weights in both) > _FEW
        if not many:
            return cls((Exactly(slice(None), tuple(noises), both[0], both[1]),))
        return cls(tuple(_on_line(both, noises[k], k, drawn[:, k]) for k in range(len(noises))))

    def __call__(self, noisy: Floats) -> Floats:
        """Return log ratios, rounded: the tails of Laplace noise are flat, and rounding must not tear them apart."""
        total = np.array([term(noisy) for term in self.terms]).sum(axis=0)
        return np.asarray(total.round(_DIGITS))


@final
@dataclass(frozen=True, eq=False)
class Exactly:
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
class Table:
    """One coordinate's ratio between nodes; beyond them it stays as it is."""

    coordinate: int
    nodes: Floats
    ratios: Floats

    def __call__(self, noisy: Floats) -> Floats:
        """Return what the table says."""
        return np.interp(noisy[:, self.coordinate], self.nodes, self.ratios)


def _on_line(both: Sequence[Points], noise: Noise, k: int, drawn: Floats) -> "Exactly | Table":
    points = [_gathered(values[:, k], weights) for values, weights in both]
    term = Exactly(slice(k, k + 1), (noise,), points[0], points[1])
    if max(len(weights) for _, weights in points) <= _FEW:
        return term
    atoms = [values[:: max(len(values) // _NODES, 1), 0] for values, _ in points]
    nodes = np.unique(np.concatenate([np.quantile(drawn, np.linspace(0, 1, _NODES)), *atoms]))
    at = np.zeros((len(nodes), k + 1))
    at[:, k] = nodes
    return Table(k, nodes, term(at))


def _gathered(values: Floats, weights: Floats) -> Points:
    """Return one coordinate's law: each value once."""
    distinct, place = np.unique(values, return_inverse=True)
    return distinct[:, None], np.asarray(np.bincount(place.reshape(-1), weights), dtype=np.float64)


def _log_likelihood(noises: tuple[Noise, ...], noisy: Floats, points: Floats, weights: Floats) -> Floats:
    """Return log Σ_m w_m Π_k ζ_k(y_k − x_mk), some answers at a time."""
    logs = np.log(np.maximum(weights, _LEAST))
    step = max(_AT_ONCE // len(weights), 1)
    parts = [_some(noises, noisy[at : at + step], points, logs) for at in range(0, len(noisy), step)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _some(noises: tuple[Noise, ...], noisy: Floats, points: Floats, logs: Floats) -> Floats:
    found = np.broadcast_to(logs, (len(noisy), len(logs))).copy()
    for k, noise in enumerate(noises):
        found += noise.logpdf(noisy[:, [k]] - points[None, :, k])
    if found.shape[1] == 1:
        return found[:, 0]
    top = found.max(axis=1)
    with np.errstate(under="ignore"):
        return top + np.log(np.exp(found - top[:, None]).sum(axis=1))
