"""Two noisy laws as densities p and q, in units of the noise's scale: values, how fast they can change, and tails.

For each noise a `Field` gives the quantities that bound the error of quadrature. Around a centre c write
ζ(c + ω − x) = ζ(c − x)·g(ω, x) for complex ω. If |g − 1| ≤ G − 1 for all atoms x, then |p(c + ω)| ≤ G·p(c) and
|q(c + ω)| ≥ (2 − G)·q(c): no zero of q is near, p^α q^{1−α} is analytic there, and its size is at most
G^α (2 − G)^{1−α} times that in the centre.
"""

import abc
import copy
import math
from collections.abc import Callable
from typing import Self, final

import numpy as np

from pufferflow.calibration.law_pairs import Pair, finite_laws
from pufferflow.core.arrays import Floats, log_sum
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.atoms import as_fractions
from pufferflow.distributions.finite_law import Law
from pufferflow.noise.base import Noise

CELLS = 1 << 21
_TAILS = 4e-13
"""The relative error of a tail probability."""


@final
class Mixture:
    """The density of X + noise for a finite law X: atoms of shape (n, d) in units, and the logs of their weights."""

    def __init__(self, atoms: Floats, log_weights: Floats, unit: Noise) -> None:
        self.atoms, self.log_weights, self.unit = atoms, log_weights, unit

    def log_terms(self, points: Floats) -> Floats:
        """Return log(weight · ζ(point − atom)) for N points, of shape (N, n)."""
        steps = points[:, None, :] - self.atoms[None, :, :]
        return self.unit.logpdf(steps).sum(axis=-1) + self.log_weights

    def log_density(self, points: Floats) -> Floats:
        """Return the log density at points of shape (N, d)."""
        return in_rows(points, len(self.atoms), lambda rows: log_sum(self.log_terms(rows)))

    def mass(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the probability of intervals on R, from the tails that cancel least, and its error."""

        def block(ends: Floats) -> Floats:
            left, right = (ends[:, i, None] - self.atoms[None, :, 0] for i in (0, 1))
            above = left > 0
            first, second = self.unit.tail(np.where(above, left, -right)), self.unit.tail(np.where(above, right, -left))
            straddling = ~above & (right > 0)
            between = np.where(
                straddling, 1 - self.unit.tail(np.abs(left)) - self.unit.tail(np.abs(right)), first - second
            )
            doubt = _TAILS * np.where(straddling, 1.0, np.maximum(first, second))
            return np.stack([np.maximum(between, 0.0), doubt], axis=-1).swapaxes(1, 2) @ np.exp(self.log_weights)

        masses = in_rows(np.stack([low, high], axis=1), len(self.atoms), block)
        return masses[:, 0], masses[:, 1]


@final
class PairAtoms:
    """A pair before division by the noise's scale: atoms of shape (n, d) around their middle, and weights."""

    def __init__(self, pair: Pair, reach: float) -> None:
        mu, nu = finite_laws(pair)
        self.left, self.right = centred(mu, nu)
        self.log_left, self.log_right = mu.log_probabilities, nu.log_probabilities
        self.reach = reach
        """W_∞ in the norm of the noise."""
        both = np.concatenate([self.left, self.right])
        self.low, self.high = both.min(axis=0), both.max(axis=0)
        with np.errstate(over="ignore"):
            self.range = float((self.high - self.low).max())
        self.knots = [np.unique(column) for column in both.T]
        """The coordinates that occur, for each axis."""


class Field(abc.ABC):
    """Both densities of a pair under one noise."""

    def __init__(self, atoms: PairAtoms, noise: Noise) -> None:
        unit, scale = noise.at(1.0), noise.scale
        self.p = Mixture(atoms.left / scale, atoms.log_left, unit)
        self.q = Mixture(atoms.right / scale, atoms.log_right, unit)
        self.low, self.high = atoms.low / scale, atoms.high / scale
        self.range = float((self.high - self.low).max())
        self.knots = [knots / scale for knots in atoms.knots]
        self.reach = atoms.reach / scale * (1 + 4 * UNIT)
        self.dimension = len(self.knots)

    @property
    def effort(self) -> int:
        """The terms of both densities at one point."""
        return len(self.p.atoms) + len(self.q.atoms)

    def swapped(self) -> Self:
        """Return the field of the pair in the other order."""
        other = copy.copy(self)
        other.p, other.q = self.q, self.p
        return other

    def log_densities(self, points: Floats) -> tuple[Floats, Floats]:
        """Return log p and log q."""
        return self.p.log_density(points), self.q.log_density(points)

    @abc.abstractmethod
    def cells(self, alpha: float) -> tuple[list[Floats], list[Floats], list[Floats], float]:
        """Return, for each axis, centres, half widths and measures of pieces, and a bound on the integral beyond them.

        Between pieces both densities are analytic. A measure is the piece's width, or 1 for a piece of width 0 that
        stands for a whole exponential tail.
        """

    @abc.abstractmethod
    def growth(self, centres: Floats, sizes: Floats, alpha: float) -> tuple[Floats, Floats, Floats]:
        """Return log f at the centres, and the most that log|f| can rise within `sizes`: by complex and by real steps.

        f = p^α q^{1−α}; the first gain is ∞ where q may vanish.
        """

    @abc.abstractmethod
    def blur(self, log_densities: Floats) -> Floats:
        """Return the most that rounding of the atoms may change a log density, given its values."""


class LineField(Field):
    """A field on R that bounds how far log(p/q) can move, for the pure loss and the hockey stick."""

    @abc.abstractmethod
    def horizon(self) -> tuple[float, float]:
        """Return a distance from the atoms, and a bound on |log(p/q)| beyond it."""

    @abc.abstractmethod
    def ratio(self, centres: Floats, sizes: Floats) -> tuple[Floats, Floats, Floats]:
        """Return log(p/q) at the centres, and how far below and above that it may be within `sizes`."""

    @abc.abstractmethod
    def steepest(self, centres: Floats, sizes: Floats) -> Floats:
        """Return the most that log p may rise within `sizes`."""


class UniformField(Field):
    """A field whose growth G is the same for all atoms that are as far away: Laplace and generalized Cauchy noise."""

    @abc.abstractmethod
    def log_growth(self, centres: Floats, sizes: Floats) -> Floats:
        """Return log G for complex steps up to `sizes` in every coordinate; ∞ where it is not bounded."""

    def growth(self, centres: Floats, sizes: Floats, alpha: float) -> tuple[Floats, Floats, Floats]:
        log_p, log_q = self.log_densities(centres)
        wide = self.log_growth(centres, sizes)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            shrink = np.where(wide < math.log(2), -np.log(np.maximum(2 - np.exp(np.minimum(wide, 1.0)), 0.0)), math.inf)
        return alpha * log_p - (alpha - 1) * log_q, alpha * wide + (alpha - 1) * shrink, (2 * alpha - 1) * wide


def centred(mu: Law, nu: Law) -> tuple[Floats, Floats]:
    """Return the atoms of both laws as (n, d) floats around the middle of their hull: translation changes no loss."""
    left, right = (law.values.reshape(len(law), -1) for law in (mu, nu))
    if object in (left.dtype, right.dtype):
        left, right = as_fractions(left), as_fractions(right)
    low, high = np.minimum(left.min(axis=0), right.min(axis=0)), np.maximum(left.max(axis=0), right.max(axis=0))
    middle = low / 2 + high / 2
    first, second = ((values - middle).astype(np.float64) for values in (left, right))
    return first, second


def in_rows(points: Floats, width: int, function: Callable[[Floats], Floats]) -> Floats:
    """Apply a function of some rows to all rows, in batches for which rows × width fits in memory."""
    rows = max(CELLS // max(width, 1), 1)
    if len(points) <= rows:
        return function(points)
    return np.concatenate([function(points[at : at + rows]) for at in range(0, len(points), rows)])


def float_error(log_values: Floats, count: int) -> Floats:
    """Return the error of a log density from rounding of its terms and their sum."""
    return 4 * UNIT * (np.abs(log_values) + math.log2(count + 1) + 8)
