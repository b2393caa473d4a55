"""Exact joint losses of noisy sums, from the law of the exact sums given a secret. Independent of the library.

The law of k sums is an array with k axes, the sums from 0 upwards. Each sum gets its own noise, so the pair of laws of
the noisy sums is a pair of mixtures over that lattice. Rényi divergences are sums over quadrature nodes. The others
need events: the plane is cut into cells, which can only lower them. Every supremum is taken over finitely many points.
Hence a loss found here is never above the truth, but for errors of quadrature and rounding of about 1e-10.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

Array = np.ndarray
Loss = Callable[[Array, Array], float]

ORDERS = (1.001, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0)
COARSE, FINE, MOST_CELLS = 5, 32, 400
"""Cells per scale of the noise: for all pairs of laws, for the worst of them, and how many along one axis."""


@dataclass(frozen=True)
class Noise:
    """Laplace or Gaussian noise of a scale, added to an exact sum."""

    gaussian: bool
    scale: float

    def below(self, x: Array) -> Array:
        """Return the probabilities of noise below x."""
        if self.gaussian:
            return ndtr(x / self.scale)
        half = 0.5 * np.exp(-np.abs(x) / self.scale)
        return np.where(x < 0, half, 1 - half)

    def cells(self, size: int, fineness: int) -> Array:
        """Return for sums 0 … size − 1 the masses of cells of the noisy sum; the outermost two are endless."""
        edges = self._edges(size, fineness)[None, :] - np.arange(size)[:, None]
        low, high = edges[:, :-1], edges[:, 1:]
        right = low > 0
        return self.below(np.where(right, -low, high)) - self.below(np.where(right, -high, low))

    def _edges(self, size: int, fineness: int) -> Array:
        if self.gaussian:
            margin = 8 * self.scale
            inner = np.linspace(-margin, size - 1 + margin, 1 + self._number(size, fineness))
        else:
            pieces = min(math.ceil(fineness / self.scale), max(1, MOST_CELLS // size))
            inner = np.linspace(0, size - 1, (size - 1) * pieces + 1)
        return np.concatenate([[-math.inf], inner, [math.inf]])

    def _number(self, size: int, fineness: int) -> int:
        return min(MOST_CELLS, math.ceil(fineness * ((size - 1) / self.scale + 16)))

    def nodes(self, size: int, order: float, step: int) -> Array:
        """Return for sums 0 … size − 1 density times weight at the nodes of a quadrature for an order.

        `step` is how far one row moves a sum: integrands of order α peak up to α − 1 times as far outside the sums.
        """
        places, weights = (
            self._gaussian(size, order, step) if self.gaussian else self._laplace(size, order)
        )
        shift = np.abs(places[None, :] - np.arange(size)[:, None]) / self.scale
        if self.gaussian:
            return weights * np.exp(-(shift**2) / 2) / (math.sqrt(2 * math.pi) * self.scale)
        return weights * np.exp(-shift) / (2 * self.scale)

    def _gaussian(self, size: int, order: float, step: int) -> tuple[Array, Array]:
        margin = min(9 * self.scale + (order - 1) * step, 26 * self.scale)
        width = self.scale / 3
        places = np.arange(-margin, size - 1 + margin + width, width)
        return places, np.full(len(places), width)

    def _laplace(self, size: int, order: float) -> tuple[Array, Array]:
        """Return Gauss's nodes between the sums; beyond them ratios are constant, so one node has all of a tail.

        The order ∞ asks for the largest ratio, which is at a sum.
        """
        if order == math.inf:
            return np.arange(size), np.ones(size)
        x, w = np.polynomial.legendre.leggauss(min(32, 6 + math.ceil(order / self.scale)))
        inner = (np.arange(size - 1)[:, None] + (x + 1) / 2).ravel()
        places = np.concatenate([[0.0], inner, [size - 1.0]])
        return places, np.concatenate([[self.scale], np.tile(w / 2, size - 1), [self.scale]])


def noisy(law: Array, kernels: Sequence[Array]) -> Array:
    """Return the masses of noisy sums: each axis of the law passes through its kernel."""
    for kernel in kernels:
        law = np.tensordot(law, kernel, axes=(0, 0))
    return law.ravel()


def renyi(p: Array, q: Array, order: float) -> float:
    """Return the Rényi divergence of two vectors of masses."""
    kept = (p > 0) & (q > 0)
    powers = order * np.log(p[kept]) + (1 - order) * np.log(q[kept])
    top = powers.max()
    return float(top + np.log(np.exp(powers - top).sum())) / (order - 1)


def concentrated(p: Array, q: Array) -> float:
    """Return the largest D_α / α over a few orders."""
    return max(renyi(p, q, order) / order for order in ORDERS)


def largest_ratio(p: Array, q: Array) -> float:
    """Return the largest log ratio."""
    kept = (p > 0) & (q > 0)
    return float(np.log(p[kept] / q[kept]).max())


def delta_at(p: Array, q: Array, epsilon: float) -> float:
    """Return the least δ at an ε."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def epsilon_at(p: Array, q: Array, delta: float) -> float:
    """Return the least ε at a δ."""
    if delta_at(p, q, 0) <= delta:
        return 0.0
    return float(brentq(lambda epsilon: delta_at(p, q, epsilon) - delta, 0, 300, rtol=1e-10))


def gaussian_mu(p: Array, q: Array) -> float:
    """Return the least μ at which Gaussian noise has at least the δ of these laws, at each ε of a grid."""
    mu = 0.0
    for epsilon in np.linspace(0, min(largest_ratio(p, q), 8.0), 17):
        delta = delta_at(p, q, epsilon)
        if delta > max(gaussian_delta(mu, epsilon), 1e-10):
            mu = float(brentq(lambda m, e=epsilon, d=delta: gaussian_delta(m, e) - d, mu, 60.0))
    return mu


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the δ of a shift by μ standard deviations."""
    if mu == 0:
        return 0.0
    first, second = ndtr(mu / 2 - epsilon / mu), ndtr(-mu / 2 - epsilon / mu)
    return float(first - math.exp(epsilon) * second)


Laws = Sequence[Array]
"""Laws of the exact sums, one for each value of a secret; any two values are a pair."""


def by_events(secrets: Iterable[Laws], noises: Sequence[Noise], loss: Loss) -> float:
    """Return the largest loss over all pairs: coarse cells find the worst pairs, fine cells give their losses."""
    pairs = list(_pairs(secrets))
    losses = [loss(p, q) for p, q in _through(pairs, noises, COARSE)]
    worst = [pairs[i] for i in np.argsort(losses)[-3:]]
    return max(loss(p, q) for p, q in _through(worst, noises, FINE))


def by_nodes(
    secrets: Iterable[Laws], noises: Sequence[Noise], loss: Loss, order: float, step: int
) -> float:
    """Return the largest loss over all pairs, by quadrature for orders up to the given one."""
    pairs = list(_pairs(secrets))
    kernels = [
        noise.nodes(size, order, step)
        for noise, size in zip(noises, pairs[0][0].shape, strict=True)
    ]
    return max(loss(noisy(p, kernels), noisy(q, kernels)) for p, q in pairs)


def far_shift(secrets: Iterable[Laws], noises: Sequence[Noise]) -> float:
    """Return the shift in standard deviations that Gaussian noise shows far away from all sums, along some direction.

    There only the outermost sum of each law counts. So D_α / α has the limit shift² / 2, and a Gaussian guarantee needs
    μ of at least the shift: δ(ε) falls as that of a shift when ε grows.
    """
    angles = np.linspace(0, 2 * math.pi, 64, endpoint=False)
    along = np.array([np.cos(angles), np.sin(angles)])[: len(noises)]
    scales = [[1 / noise.scale if noise.gaussian else 0.0] for noise in noises]

    def outermost(law: Array) -> Array:
        return (np.argwhere(law > 0) @ (along * scales)).max(axis=0)

    return max(float((outermost(p) - outermost(q)).max()) for p, q in _pairs(secrets))


def _pairs(secrets: Iterable[Laws]) -> Iterator[tuple[Array, Array]]:
    for laws in secrets:
        yield from permutations(laws, 2)


def _through(
    pairs: Iterable[tuple[Array, Array]], noises: Sequence[Noise], fineness: int
) -> Iterator[tuple[Array, Array]]:
    for p, q in pairs:
        kernels = [n.cells(size, fineness) for n, size in zip(noises, p.shape, strict=True)]
        yield noisy(p, kernels), noisy(q, kernels)


def laws_given_rows(
    rows: Array, weight: Array, values: int, windows: Sequence[tuple[int, int]]
) -> Iterator[Laws]:
    """Yield for each row the laws of the sums over windows given its value, from all data sets and their weights."""
    sums = [rows[:, low:high].sum(axis=1) for low, high in windows]
    shape = tuple((high - low) * (values - 1) + 1 for low, high in windows)
    place = np.ravel_multi_index(sums, shape)
    for row in range(rows.shape[1]):
        kept = [np.where(rows[:, row] == value, weight, 0) for value in range(values)]
        yield [
            np.bincount(place, k / k.sum(), minlength=math.prod(shape)).reshape(shape) for k in kept
        ]


def laws_of_shift(shift: Sequence[int], largest: Sequence[int]) -> Laws:
    """Return two certain laws of sums up to the largest: the sums 0, and sums moved by a shift."""
    laws = np.zeros((2, *(size + 1 for size in largest)))
    laws[(0, *(0 for _ in shift))] = laws[(1, *shift)] = 1
    return list(laws)
