"""Gaussian noise that is correlated between outputs, its joint loss, and the covariance with the least errors (M28).

Noise with the covariance Σ hides a shift z as one standard deviation hides a movement of the length √(zᵀΣ⁻¹z). The sum
of the outputs' standard deviations is minimised, given that no shift is longer than 1. Fix multipliers c, the diagonal
of C. By duality the sum of cᵢ²Σᵢᵢ is least for Σ = C⁻¹·(C·M·C)^{1/2}·C⁻¹. M is a mean of zzᵀ over the shifts, with
weights that make tr (C·M·C)^{1/2} largest. With c² = 1/√Σᵢᵢ both sums have the same slope. The result is a proposal:
lengths of shifts and losses are computed for the noise that is used.

The noise of two outputs is defined in coordinates in which it is independent. N(0, scale²) is added to both coordinates
of T·y, and T⁻¹ of the sum is published. The entries of T are short binary fractions. So the loss of a shift z is that
of Gaussian noise for the length |Tz| (Mahalanobis). All results for Gaussian noise hold, on grids too. The loss of a
batch is that of the worst *reachable* shift, which need not be the one with both coordinates largest: for a = 1, b =
1/2 and ρ = 1/2 the shift (1, 1/2) has μ² = 1, and (1, 0) has 4/3.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, cast, final

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import UNIT, lifted
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import finite_number, number_above
from pufferflow.noise.base import read_scale
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.sampler import grid_of

_ROUNDS: Final = 30
_COVARIANCE_STEPS: Final = 60
_CLOSE: Final = 1e-6
_LEAST_VARIANCE: Final = 2.0**-8
"""The least share of the largest variance that any combination of outputs has."""


def least_covariance(shifts: Floats) -> Floats:
    """Return the covariance with the least sum of standard deviations under which no shift is longer than 1.

    `shifts` have the shape (n, outputs); every output is moved by some of them.

    >>> least_covariance(np.array([(1, 0), (0, 1), (1, 1)])).round(3).tolist()  # two counts that share rows
    [[1.333, 0.667], [0.667, 1.333]]
    >>> least_covariance(np.array([(1, 1), (1, -1)])).round(3).tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    ranges = np.abs(shifts).max(axis=0)
    units, weights = shifts / ranges, np.full(len(shifts), 1 / len(shifts))
    widths, covariance = np.ones(shifts.shape[1]), np.eye(shifts.shape[1])
    for _ in range(_ROUNDS):
        multipliers = 1 / np.sqrt(widths)
        weights = _worst_mean(units * multipliers, weights)
        root, _ = _roots((units * multipliers).T * weights @ (units * multipliers))
        covariance = root / np.outer(multipliers, multipliers)
        lengths = np.einsum("ni,ij,nj->n", units, np.linalg.inv(covariance), units)
        covariance = covariance * float(
            lengths.max()
        )  # as large as the longest shift needs it to be
        before, widths = widths, np.sqrt(np.diag(covariance))
        if np.abs(widths / before - 1).max() < _CLOSE:
            break
    return covariance * np.outer(ranges, ranges)


def _worst_mean(shifts: Floats, weights: Floats) -> Floats:
    """Return the weights for which the trace of the root of the mean of zzᵀ is largest: a concave function of them."""
    for _ in range(_COVARIANCE_STEPS):
        _, inverse = _roots(shifts.T * weights @ shifts)
        weights = weights * np.einsum(
            "ni,ij,nj->n", shifts, inverse, shifts
        )  # their derivatives, up to a factor
        weights = weights / weights.sum()
    return weights


def _roots(matrix: Floats) -> tuple[Floats, Floats]:
    """Return the root of a matrix and its inverse, no variance being much smaller than the largest."""
    squares, directions = np.linalg.eigh(matrix)
    sizes = np.sqrt(np.maximum(squares, 0.0))
    sizes = np.maximum(sizes, sizes[-1] * _LEAST_VARIANCE)
    return directions * sizes @ directions.T, directions / sizes @ directions.T


_BITS: Final = 24
_NARROWEST: Final = 1e-9
_STEPS: Final = 80
_GOLDEN: Final = (math.sqrt(5) - 1) / 2


@final
@suggests_arguments
@dataclass(frozen=True)
class JointGaussian(InNotebooks):
    """Correlated Gaussian noise of two outputs: standard deviations scale·units, correlation rho (M28).

    `units` and `rho` are met to some seven digits. `covariance` and all losses are those of the noise that is drawn.

    >>> noise = JointGaussian(1.0, units=(1.0, 2.0), rho=0.5)
    >>> [round(noise.gdp(shifts) ** 2, 5) for shifts in ([(1, 1)], [(1, 0)], [(1, 1), (1, 0), (0, 1)])]
    [1.0, 1.33333, 1.33333]
    """

    scale: float
    units: tuple[float, float] = (1.0, 1.0)
    rho: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", read_scale(self.scale))
        allowed = "a tuple of two numbers > 0: the standard deviations of both outputs at scale 1"
        if not isinstance(self.units, Sequence) or len(self.units) != 2:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(
                "units are not two numbers.", allowed=allowed, instead="units=(1.0, 2.0)"
            )
        units = tuple(number_above(unit, "a unit", 0.0, "units=(1.0, 2.0)") for unit in self.units)
        object.__setattr__(self, "units", units)
        rho = finite_number(
            self.rho,
            "rho",
            allowed="a number with -1 < rho < 1",
            instead="rho=0.5",
            fits=lambda rho: abs(rho) <= 1 - _NARROWEST,
            digits="",
        )
        object.__setattr__(self, "rho", rho)

    @cached_property
    def transform(self) -> tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]]:
        """The rows of T: independent noise of one scale is added to T·answers."""
        first, second = self.units
        rest = math.sqrt((1 - self.rho) * (1 + self.rho))
        return (_short(1 / first), Fraction(0)), (
            _short(-self.rho / (first * rest)),
            _short(1 / (second * rest)),
        )

    @cached_property
    def covariance(self) -> Floats:
        """The covariance of the noise of both outputs: scale²·T⁻¹T⁻ᵀ."""
        back = np.array(self._back, dtype=np.float64) * self.scale
        return np.asarray(back @ back.T)

    def at(self, scale: float) -> "JointGaussian":
        """Return the noise of another scale."""
        return JointGaussian(scale, self.units, self.rho)

    def transformed(self, points: Array) -> Array:
        """Return T·points, for points of shape (n, 2), as exact fractions."""
        (a, _), (b, c) = self.transform
        pairs = ([Fraction(x) for x in point] for point in cast("list[list[Any]]", points.tolist()))
        rows = [(a * x, b * x + c * y) for x, y in pairs]
        found = np.empty((len(rows), 2), dtype=object)
        for place, row in enumerate(rows):
            found[place] = row
        return found

    def length(self, shifts: npt.ArrayLike) -> float:
        """Return the largest |Tz| over shifts of shape (n, 2), rounded up, which determines their loss."""
        moves = _read_shifts(shifts)
        entries = np.array(
            [[float(entry) for entry in row] for row in self.transform]
        )  # 24 bits: exact
        with np.errstate(over="ignore", invalid="ignore"):
            doubt = 4 * UNIT * (np.abs(moves) @ np.abs(entries).T)
            sizes = np.abs(moves @ entries.T) + doubt
            lengths = np.hypot(sizes[:, 0], sizes[:, 1])
        lengths = np.where(np.isnan(lengths), np.inf, lengths)
        return float(lifted(lengths, 8 * UNIT).max(initial=0.0))

    def gdp(self, shifts: npt.ArrayLike) -> float:
        """Return the largest μ of Gaussian differential privacy over all reachable shifts."""
        return Gaussian(self.scale).gdp(self.length(shifts))

    def renyi(self, shifts: npt.ArrayLike, alpha: float) -> float:
        """Return the largest Rényi loss over all reachable shifts.

        >>> JointGaussian(2.0).renyi([(1, 1), (1, 0)], alpha=4)
        1.0000000000000...
        """
        return Gaussian(self.scale).renyi(self.length(shifts), alpha)

    def delta(self, shifts: npt.ArrayLike, epsilon: float) -> float:
        """Return the largest hockey stick over all reachable shifts."""
        return Gaussian(self.scale).delta(self.length(shifts), epsilon)

    def release(
        self, answers: npt.ArrayLike, rng: np.random.Generator | None = None, step: float = 1.0
    ) -> Floats:
        """Return answers of shape (n, 2), rounded to multiples of `step`, a power of two, with noise.

        T·answers are then multiples of a grid that does not depend on them. So rounding them to it adds no loss (M13),
        and the result is a function of the noisy coordinates. Answers that are not multiples of the step are up to one
        step further apart after rounding, which the calibration has to count. Noise comes from the operating system's
        randomness; a seeded `rng` is for tests only.

        >>> JointGaussian(1.0, rho=0.5).release([[10, 20]]).shape
        (1, 2)
        """
        points = _read_shifts(answers)
        width = _binary(step)
        if self.scale == 0:
            return points
        on_step = np.array(
            [[round(Fraction(x) / width) * width for x in row] for row in points.tolist()],
            dtype=object,
        )
        moved = self.transformed(on_step.reshape(points.shape))
        finest = max(entry.denominator for row in self.transform for entry in row)
        grid = min(grid_of(self.scale), width / finest)
        noisy = Gaussian(self.scale).release(moved, rng, grid)
        back = np.array(self._back, dtype=np.float64)
        return np.asarray(noisy.values @ back.T)

    @cached_property
    def _back(self) -> tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]]:
        """The rows of T⁻¹."""
        (a, _), (b, c) = self.transform
        return (1 / a, Fraction(0)), (-b / (a * c), 1 / c)


def best_rho(shifts: npt.ArrayLike, units: tuple[float, float]) -> float:
    """Return the correlation with the least joint loss over all reachable shifts; 0 where none is better (M28).

    μ² = (a² − 2ρab + b²)/(1 − ρ²) of a shift is convex in ρ, as zᵀΣ⁻¹z is in Σ, and so is the largest: it is halved.
    If both outputs always move the same way, and one shift is longest in both, only 0 < ρ < 2ab/(a² + b²) helps.

    >>> round(best_rho([(1, 0), (0, 1), (1, 1)], (1.0, 1.0)), 6), best_rho([(1, 1), (1, -1)], (1.0, 1.0))
    (0.5, 0.0)
    """
    a, b = (_read_shifts(shifts) / np.array(units)).T

    def worst(rho: float) -> float:
        return float(((a * a - 2 * rho * a * b + b * b) / (1 - rho * rho)).max())

    low, high = -1 + 1e-6, 1 - 1e-6
    for _ in range(_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, right) if worst(left) <= worst(right) else (left, high)
    rho = (low + high) / 2
    return rho if worst(rho) < worst(0.0) * (1 - _NARROWEST) else 0.0


def _read_shifts(shifts: npt.ArrayLike) -> Floats:
    try:
        moves = np.asarray(shifts, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise _no_pairs() from error
    if moves.ndim != 2 or moves.shape[1] != 2 or not len(moves) or not np.isfinite(moves).all():
        raise _no_pairs()
    return moves


def _no_pairs() -> UsageError:
    return UsageError(
        "The shifts or answers are not pairs of finite numbers.",
        allowed="an array of shape (n, 2), a number for each of both outputs",
        instead="[(1, 1), (1, 0), (0, 1)]",
    )


def _binary(step: float) -> Fraction:
    width = Fraction(number_above(step, "step", 0.0, "step=1.0"))
    if width.numerator & (width.numerator - 1) or width.denominator & (width.denominator - 1):
        raise Refused(f"step is {step!r}.", allowed="a power of two", instead="step=1.0")
    return width


def _short(number: float) -> Fraction:
    """Return a binary fraction of 24 bits near a number, not 0 where the number is not."""
    if number == 0:
        return Fraction(0)
    digits, exponent = math.frexp(number)
    return Fraction(round(math.ldexp(digits, _BITS))) * Fraction(2) ** (exponent - _BITS)
