"""Noises of two numbers, tied by a Gaussian copula: each keeps its own law, both are represented by cells.

With marks z = Φ⁻¹(F(v)) of both noises the density is f₁(v₁)·f₂(v₂)·c_ρ(z₁, z₂). The mass of a rectangle is a
difference of Φ_ρ. Within a cell log ratios of mixtures move by no more than the differences of slopes of log densities
times the cell's sides: slopes of mixtures are means of those of their parts. Nothing bounds z₂ where z₁ moves, so there
is no pure loss. Cells at the ends are counted as fully revealing, and so are those with too steep a density (M28).

Where the copula depends on a secret, each point of the data has a correlation ρ and means a, b of its own. The density
is then f₁(v₁)·f₂(v₂)·φ_ρ(z₁−a, z₂−b)/(φ(z₁)φ(z₂)). Masses are differences of Φ_ρ at the marks less the means.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import scipy  # loads its parts when first used

from pufferflow.confounding.additive import Additive, Cells, slopes_of
from pufferflow.confounding.latent import CopulaBySecret, Tie, read_correlation
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import UNIT
from pufferflow.core.validate import instance
from pufferflow.noise.base import Noise
from pufferflow.noise.staircase import Staircase

_FAR = 8.2
"""Beyond this number of deviations each noise has mass 2e-16, which is counted as revealing the answer."""
_MARK_ERROR = 4e-13
_MASS_ERROR = 4e-15
"""The absolute error of differences of Φ_ρ: sixteen times the one observed against 30 digits."""
_STEEP = 2.0
_INSTEAD = 'gaussian_copula(Additive("a", pf.Laplace(1.0)), Additive("b", pf.Laplace(2.0)), correlation=0.5)'


@final
@dataclass(frozen=True)
class CopulaNoise(InNotebooks):
    """Two numbers of a row with noises that are tied by a Gaussian copula; `gaussian_copula` makes it.

    >>> import pufferflow as pf
    >>> CopulaNoise(Additive("a", pf.Laplace(1.0)), Additive("b", pf.Gaussian(2.0)), 0.5).reads
    ('a', 'b')
    """

    first: Additive
    second: Additive
    correlation: float | CopulaBySecret

    def __post_init__(self) -> None:
        for one, name in ((self.first, "first"), (self.second, "second")):
            instance(
                one,
                Additive,
                name,
                allowed="a pf.confounding.Additive beside another",
                instead=_INSTEAD,
            )
            if len(one.reads) > 1 or one.noise.scale == 0:
                raise UsageError(
                    f"{name} is {one!r}.",
                    allowed="noise of a scale above 0 on one column",
                    instead=_INSTEAD,
                )
            if isinstance(one.noise, Staircase):
                raise Refused(
                    "Staircase noise tied by a copula: its density jumps within cells.",
                    allowed="pf.Laplace, pf.Gaussian or pf.GeneralizedCauchy",
                    instead="channels on a grid: pf.confounding.Channel.of_noise(reads, inputs, outputs, noise)",
                )
        if not isinstance(self.correlation, CopulaBySecret):
            object.__setattr__(self, "correlation", read_correlation(self.correlation))

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of both, and that of the secret on which the copula depends."""
        column = self.correlation.column if isinstance(self.correlation, CopulaBySecret) else None
        beside = [] if column is None else [column]
        return tuple(dict.fromkeys([*self.first.reads, *self.second.reads, *beside]))


class _Side(NamedTuple):
    """One of both noises around an answer: at the edges of cells, and within each of them."""

    marks: Floats
    """Φ⁻¹(F(edge − answer))."""
    slopes: tuple[Floats, Floats]
    """The least and the largest derivative of the noise's log density in each cell."""
    rises: tuple[Floats, Floats]
    """The least and the largest dz/dv = f(v)/φ(z)."""
    middle: Floats
    """The mark in the middle of each cell."""
    density: Floats
    """The log density there."""


@final
@dataclass(eq=False)
class _Extremes:
    """What the points share in every inner rectangle, of shape (first cells, second cells)."""

    lengths: tuple[Floats, Floats]
    low: list[Floats]
    high: list[Floats]
    """The least and the largest derivatives of log densities by both numbers."""
    steepest: Floats
    """The most by which a log density changes."""
    finest: float = math.inf
    """The least distance of two marks."""

    @classmethod
    def of(cls, lengths: tuple[Floats, Floats]) -> "_Extremes":
        """Return the extremes of no point."""
        zeros = np.zeros((lengths[0].size, lengths[1].size))
        return cls(lengths, [zeros + np.inf] * 2, [zeros - np.inf] * 2, zeros)

    def add(self, first: "_Side", second: "_Side", tie: Tie) -> Floats:
        """Add a point; return the change of its log density."""
        own, other = _slopes(first, second, tie), _slopes(second, first, tie.turned)
        steep = np.zeros_like(self.steepest)
        for axis, (low, high) in enumerate((own, (other[0].T, other[1].T))):
            steep += self.lengths[axis] * np.maximum(-low, high)
            self.low[axis], self.high[axis] = (
                np.minimum(self.low[axis], low),
                np.maximum(self.high[axis], high),
            )
        self.steepest = np.maximum(self.steepest, steep)
        self.finest = min(
            self.finest, *(float(np.diff(side.marks).min()) for side in (first, second))
        )
        return steep

    @property
    def width(self) -> Floats:
        """The movement of log ratios of mixtures, by differences of slopes, which are means of those of points."""
        moves = (
            size * (high - low)
            for size, high, low in zip(self.lengths, self.high, self.low, strict=True)
        )
        return np.where(self.steepest > _STEEP, np.inf, sum(moves, np.zeros(())) * (1 + 64 * UNIT))


def tied_cells(
    noises: tuple[Noise, Noise], answers: tuple[Floats, Floats], ties: Sequence[Tie], most: int
) -> Cells:
    """Return cells of two tied noises of scale 1, at most that many on each side; answers begin at 0.

    Every point has a tie of its own.
    """
    edges = [noise_edges(noise, own, most) for noise, own in zip(noises, answers, strict=True)]
    points, places = np.unique(np.column_stack([*answers, ties]), axis=0, return_inverse=True)
    extremes = _Extremes.of((np.diff(edges[0])[:, None], np.diff(edges[1])[None, :]))
    masses, blur = list[Floats](), np.zeros(1)
    for point in points.tolist():
        first, second = (_side(*one) for one in zip(noises, edges, point[:2], strict=True))
        tie = Tie(*point[2:])
        steep = extremes.add(first, second, tie)
        own, error = _masses(first, second, tie, extremes.lengths[0] * extremes.lengths[1], steep)
        masses.append(own.ravel())
        blur = np.maximum(blur, error.ravel())
    moved = max(_rounding(one, own) for one, own in zip(edges, answers, strict=True))
    off = (4 * _MARK_ERROR / extremes.finest + 4 * moved) * math.exp(2 * _STEEP)
    width = np.pad(extremes.width, 1, constant_values=np.inf).ravel()
    return Cells(np.stack(masses)[places.ravel()], width, off, sharp=False, blur=blur)


def tied_grid(
    noises: tuple[Noise, Noise], answers: tuple[Floats, Floats], ties: Sequence[Tie], most: int
) -> Floats:
    """Return the law of rectangles for every point by quadrature, of shape (points, first cells, second cells)."""
    edges = [noise_edges(noise, own, most) for noise, own in zip(noises, answers, strict=True)]
    areas = np.outer(*(np.diff(one) for one in edges))
    masses: list[Floats] = []
    for one, other, tie in zip(*answers, ties, strict=True):
        sides = _side(noises[0], edges[0], float(one)), _side(noises[1], edges[1], float(other))
        masses.append(np.exp(_log_density(*sides, tie)) * areas)
    return np.stack([one / one.sum() for one in masses])


def _rounding(edges: Floats, answers: Floats) -> float:
    """Return the error of a cell's edge around an answer by rounding, in parts of the cell."""
    sizes = np.abs(edges[1:]) + np.abs(edges[:-1]) + 2 * float(answers.max())
    return 2 * UNIT * float((sizes / np.diff(edges)).max())


def noise_edges(noise: Noise, answers: Floats, most: int) -> Floats:
    """Return edges evenly spaced in marks around the answers, and in answers between them."""
    low, high = 0.0, float(answers.max())
    rise = math.exp(float(noise.logpdf(0.0))) * math.sqrt(2 * math.pi)
    between = (high - low) * rise
    each = max(math.ceil((most - 3) * _FAR / (2 * _FAR + between)), 2)
    wing = noise.reach(scipy.special.ndtr(-np.linspace(0, _FAR, each + 1)[1:]))
    inner = np.linspace(low, high, max(most - 2 * each - 2, 0) + 1) if high > low else np.zeros(1)
    atoms = np.unique(answers)
    nearest = np.abs(np.subtract.outer(inner, atoms)).argmin(axis=0)
    inner[nearest] = atoms  # log densities of Laplace noise bend at answers
    return np.concatenate([(low - wing)[::-1], np.unique(inner), high + wing])


def _side(noise: Noise, edges: Floats, answer: float) -> _Side:
    at = edges - answer
    marks, middle = _marks(noise, at), (at[1:] + at[:-1]) / 2
    near = np.where(at[:-1] * at[1:] <= 0, 0.0, np.minimum(np.abs(at[:-1]), np.abs(at[1:])))
    sizes = near, np.maximum(np.abs(at[:-1]), np.abs(at[1:]))
    most, least = (
        np.asarray(noise.logpdf(one)) - _log_bell(_marks(noise, two))
        for one, two in (sizes, sizes[::-1])
    )
    return _Side(
        marks,
        slopes_of(noise, at[:-1], at[1:]),
        (np.exp(least) * (1 - 1e-9), np.exp(most) * (1 + 1e-9)),
        _marks(noise, middle),
        np.asarray(noise.logpdf(middle)),
    )


def _marks(noise: Noise, at: Floats) -> Floats:
    """Return Φ⁻¹(F(v)), from the smaller of both tails."""
    tails = np.asarray(noise.tail(np.abs(at)))
    if (tails == 0).any():
        raise Refused(
            "The answers lie too many scales apart for the cells of tied noises.",
            allowed="answers within some hundred scales of each other, thirty of Gaussian noise",
            instead="larger scales, or channels on a grid",
        )
    return np.where(at > 0, -1.0, 1.0) * scipy.special.ndtri(tails)


def _log_bell(marks: Floats) -> Floats:
    return -(marks**2) / 2 - math.log(2 * math.pi) / 2


def _masses(
    first: _Side, second: _Side, tie: Tie, areas: Floats, steep: Floats
) -> tuple[Floats, Floats]:
    """Return the masses, and their error: differences of Φ_ρ, limited to what the density allows."""
    marks = first.marks - tie.first, second.marks - tie.second
    h, k = (np.concatenate([[-np.inf], own, [np.inf]]) for own in marks)
    below = normal_below(h[:, None], k[None, :], tie.correlation)
    masses = np.diff(np.diff(below, axis=0), axis=1)
    blur = np.full_like(masses, _MASS_ERROR)
    middle = np.exp(_log_density(first, second, tie)) * areas
    with np.errstate(over="ignore"):
        least, most = middle * np.exp(-steep), middle * np.exp(steep)
    inner = slice(1, -1), slice(1, -1)
    masses[inner], blur[inner] = (
        np.clip(masses[inner], least, most),
        np.minimum(most - least, _MASS_ERROR),
    )
    return np.maximum(masses, 0.0), blur


def _slopes(own: _Side, other: _Side, tie: Tie) -> tuple[Floats, Floats]:
    """Return the least and the largest derivative by the first number: f′/f + dz/dv·(ρz′ − ρ²z + a − ρb)/(1 − ρ²)."""
    rho = tie.correlation
    ends = [rho * side for side in (other.marks[:-1], other.marks[1:])]
    low, high = np.minimum(*ends)[None, :], np.maximum(*ends)[None, :]
    shrink, moved = (1 - rho) * (1 + rho), tie.first - rho * tie.second
    low = (low - rho * rho * own.marks[1:, None] + moved) / shrink
    high = (high - rho * rho * own.marks[:-1, None] + moved) / shrink
    least, most = (rise[:, None] for rise in own.rises)
    slow = own.slopes[0][:, None] + low * np.where(low < 0, most, least)
    fast = own.slopes[1][:, None] + high * np.where(high > 0, most, least)
    return slow, fast


def _log_density(first: _Side, second: _Side, tie: Tie) -> Floats:
    """Return the log density in the middle of each rectangle."""
    rho = tie.correlation
    z, w = (first.middle - tie.first)[:, None], (second.middle - tie.second)[None, :]
    shrink = (1 - rho) * (1 + rho)
    tied = (2 * rho * z * w - rho * rho * (z * z + w * w)) / (2 * shrink) - math.log(shrink) / 2
    moved = tie.first * (z + tie.first / 2) + tie.second * (w + tie.second / 2)
    return first.density[:, None] + second.density[None, :] + tied + moved


def normal_below(h: Floats, k: Floats, rho: float) -> Floats:
    """Return Φ_ρ(h, k), by Owen's T function."""
    h, k = np.broadcast_arrays(h, k)
    ends = np.where(h == np.inf, scipy.special.ndtr(k), scipy.special.ndtr(h))
    ends = np.where((h == -np.inf) | (k == -np.inf), 0.0, ends)
    inner = np.isfinite(h) & np.isfinite(k)
    x, y = (np.where(one == 0, 1e-300, np.where(inner, one, 1.0)) for one in (h, k))
    side = math.sqrt((1 - rho) * (1 + rho))
    with np.errstate(over="ignore"):
        left, right = ((y - rho * x) / x / side, (x - rho * y) / y / side)
    total = scipy.special.ndtr(x) / 2 + scipy.special.ndtr(y) / 2 - np.where(x * y < 0, 0.5, 0.0)
    # products of two tiny numbers underflow to 0, of one sign as both are above 0 then
    found = total - scipy.special.owens_t(x, left) - scipy.special.owens_t(y, right)
    return np.where(inner, found, ends)
