"""Ridge regression from noisy sums of products X'X, X'y and of the columns, one vector of all of them (M23).

Columns are scaled to [−1, 1] and rounded to whole steps, so products and their sums are whole numbers and exact. With a
column that is 1 everywhere, sums of columns are sums of products too. Products are not linear, so a translation of rows
does not translate them.

Let columns i and j of a row move by at most δ_i and δ_j. Then their product moves by at most max(δ_i, δ_j, δ_i + δ_j −
δ_iδ_j). For u_iu_j − u′_iu′_j = m_iΔ_j + m_jΔ_i with the means m of both, and |m_i| ≤ 1 − |Δ_i|/2. So it is at most
|Δ_i| + |Δ_j| − |Δ_i||Δ_j|, which is largest at a corner. A square moves by at most δ(2 − δ), or 1.

All products of a row together move less than that. Each but a square is convex in every column, and so are norms of
them. So they move farthest between corners of the box, where k of D columns change sign, k(D − k) products by 2 each.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, final

import numpy as np

from pufferflow.core.arrays import Array, Flags, Floats, Indices
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT, upwards
from pufferflow.learning.displacements import Coupling
from pufferflow.learning.iteration import DRAWN, FINE, fine_grid
from pufferflow.learning.model_columns import ScaledRows
from pufferflow.learning.model_plan import Carried, Fitting
from pufferflow.noise.base import Noise
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.privacy.guarantee import Pure
from pufferflow.published.certificate import NoisySum

STEPS: Final = 1 << 19
"""The steps from the middle of a range to an end."""
AT_ONCE: Final = 1 << 12
"""Sums of this many products are whole numbers that floats represent exactly."""
_WHOLE: Final = 1 << 24
"""Sums of this many products, and of a few more, are whole numbers of 64 bits."""
_ALONE: Final = 1 << 18
"""The most products that one thread adds up; more threads would compete with those that read."""
_FEW: Final = 64
TYPICAL: Final = 1 / 3
"""The mean square of the uniform law on [−1, 1], for expected errors."""
_RATIO: Final = 1.003
_SHARES: Final = 1.0 / _RATIO ** np.arange(6000)


@final
@dataclass(frozen=True, eq=False)
class SumsOfProducts(Fitting):
    """The noisy sums for columns of which some are `hidden`, the target last, calibrated for some priors."""

    penalty: float | None
    """The penalty on the diagonal of X'X for each scaled column; None for the least sum of bias and noise."""
    intercept: bool = True
    proof = "sums of products of two columns, one vector (M23)"

    @cached_property
    def family(self) -> type[Laplace] | type[Gaussian]:
        """The family with less noise."""
        if isinstance(self.promise, Pure):
            return Laplace
        possible = [family for family in (Laplace, Gaussian) if self._possible(family)]
        return min(possible, key=lambda family: self._calibrated(family).variance, default=Gaussian)

    @cached_property
    def calibrated(self) -> Noise:
        """The noise of each sum, in scaled units."""
        return self._calibrated(self.family)

    @property
    def pure(self) -> bool:
        """Whether noise is Laplace's."""
        return self.family is Laplace

    @property
    def noise(self) -> NoisySum:
        """The noise in words."""
        grid = self._grid / STEPS**2
        words = f"each of {int(self._noisy.sum())} sums of products of scaled columns"
        return NoisySum(words, type(self.calibrated).__name__, self.calibrated.scale, str(grid))

    @property
    def expected_error(self) -> float:
        """√(p·τ²/(n²h)) for p coefficients, noise τ on each sum, n rows, and the mean square h of a typical column."""
        typical = TYPICAL + (self.penalty or 0.0) / self.order.rows
        return math.sqrt(
            min(self._times * self.calibrated.variance / (self.order.rows**2 * typical), TYPICAL)
        )

    def movement(self, coupling: Coupling) -> float:
        """Return the movement of the noisy sums, in deviations or in ε."""
        return upwards(
            self._length(coupling, self.family) / self.calibrated.scale
            + self._by_grid(self.family),
            4 * UNIT,
        )

    def fit(self, rows: ScaledRows, start: Floats | None) -> Floats:
        """Return the coefficients from noisy sums."""
        del start
        sums = ExactSums(len(self.hidden))
        rows.each(sums.add)
        drawn, penalty = self._drawn(sums.total), self.penalty
        if penalty is None:
            penalty = self._times * self.calibrated.variance / (self.order.rows * TYPICAL)
        return solved(drawn, self.order.rows, penalty, intercept=self.intercept)

    @property
    def _times(self) -> float:
        """The number of sums whose noise moves a prediction; noise on X'X adds as much again, for coefficients of 1."""
        return (2.0 if self.hidden[:-1].any() else 1.0) * (len(self.hidden) - 1 + self.intercept)

    @property
    def _grid(self) -> Fraction:
        """The grid of finished sums, in steps."""
        return fine_grid(self._in_steps.scale)

    @property
    def _in_steps(self) -> Noise:
        return self.calibrated.at(upwards(self.calibrated.scale * STEPS**2))

    @cached_property
    def _noisy(self) -> Flags:
        """The sums that a hidden column moves: of shape (1 + columns, 1 + columns), above the diagonal and on it."""
        hidden = np.append(False, self.hidden)
        moved = np.triu(hidden[:, None] | hidden[None, :])
        moved[-1, -1] = False  # the square of the target is not a query
        return moved

    def _drawn(self, sums: Array) -> Floats:
        """Return sums with noise, in scaled units; those of public columns stay as they are."""
        noisy, noise = np.triu(sums), self._in_steps
        drawn = noise.release(noisy[self._noisy], grid=self._grid).values
        result = noisy.astype(np.float64)
        result[self._noisy] = drawn
        result[-1, -1] = 0.0
        return (result + np.triu(result, 1).T) / STEPS**2

    def _calibrated(self, family: type[Laplace] | type[Gaussian]) -> Laplace | Gaussian:
        return family(upwards(max(one.scale for one in self._carried(family)), 4 * UNIT) * DRAWN)

    @property
    def carried(self) -> tuple[Carried, ...]:
        """The proof of each prior, with the noise that it needs."""
        return self._carried(self.family)

    def _carried(self, family: type[Laplace] | type[Gaussian]) -> tuple[Carried, ...]:
        spare, promise, pure = self._by_grid(family), self.promise, family is Laplace

        def length(coupling: Coupling) -> float:
            return self._length(coupling, family)

        return tuple(
            belief.carried(length, promise, pure=pure, spare=spare) for belief in self.beliefs
        )

    def _possible(self, family: type[Laplace] | type[Gaussian]) -> bool:
        """Whether the guarantee permits noise of this family, with a loss above 0."""
        try:
            self._calibrated(family)
        except Refused:
            return False
        return True

    def _by_grid(self, family: type[Laplace] | type[Gaussian]) -> float:
        """Return the movement of the finished sums by rounding to their grid, in scales of the noise (M13)."""
        return float(self._noisy.sum()) ** (1 / family.norm) * 2 / FINE

    def _length(self, coupling: Coupling, family: type[Laplace] | type[Gaussian]) -> float:
        """Return the movement of all sums together in the norm of a noise."""
        key = id(coupling.prior), coupling.columns.tobytes(), coupling.single, family
        if key not in self.known_movements:
            self.known_movements[key] = self._longest(coupling, family)
        return self.known_movements[key]

    def _longest(self, coupling: Coupling, family: type[Laplace] | type[Gaussian]) -> float:
        lengths = self._lengths(coupling, norm=1 if family is Laplace else 2)

        def length(shares: Floats) -> Floats:
            return lengths[_place(shares)]

        moved = coupling.displacements(self.order, np.zeros(self.order.rows, dtype=np.intp), length)
        return float(moved.sizes.max(initial=0.0))

    def _lengths(self, coupling: Coupling, norm: int) -> Floats:
        """Return the movement of a row's products at each of the tabulated shares."""
        reach = np.append(0.0, np.where(self.hidden, 2 * coupling.columns, 0.0))
        rounding = np.append(0.0, np.where(self.hidden & (coupling.columns > 0), 1 / STEPS, 0.0))
        moves = np.minimum(_SHARES[:, None] * reach * (1 + 4 * UNIT) + rounding, 2.0)
        first, second = np.nonzero(self._noisy)
        powers = np.zeros(len(moves))
        for i, j in zip(first.tolist(), second.tolist(), strict=True):
            powers += _moved(moves[:, i], moves[:, j], same=i == j) ** norm
        size = len(reach)
        signs = min(int(self.hidden.sum()), size // 2)
        cap = 2.0**norm * signs * (size - signs) + float(self.hidden[:-1].sum())
        return np.minimum(powers, cap) ** (1 / norm) * (1 + (len(first) + 8) * UNIT)


def solved(sums: Floats, rows: int, penalty: float, *, intercept: bool) -> Floats:
    """Return the coefficients, that of the intercept first, from sums of products whose last column is the target.

    Negative eigenvalues of the noisy matrix X'X are left out, and the penalty is of all columns but the intercept's.
    """
    sums[0, 0] = rows
    use = slice(0 if intercept else 1, -1)
    matrix, products = sums[use, use], sums[use, -1]
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    matrix = (vectors * np.maximum(values, 0.0)) @ vectors.T
    diagonal = np.full(len(matrix), penalty)
    if intercept:
        diagonal[0] = 0.0
    found = np.linalg.lstsq(matrix + np.diag(diagonal), products, rcond=1e-10)[0].astype(np.float64)
    return found if intercept else np.append(0.0, found)


@final
class ExactSums:
    """The sums of products of the columns of scaled rows, and of 1, in steps: whole numbers, in any order of rows."""

    def __init__(self, columns: int) -> None:
        self._whole = np.zeros((columns + 1, columns + 1), dtype=object)
        self._part = np.zeros((columns + 1, columns + 1), dtype=np.int64)
        self._rows = 0
        alone = _ALONE // ((columns + 1) * (columns + 2))
        self._at_once = min(alone, AT_ONCE) if alone >= _FEW else AT_ONCE

    def add(self, scaled: Floats) -> None:
        """Add the products of some rows."""
        for start in range(0, len(scaled), AT_ONCE):
            self._add(scaled[start : start + AT_ONCE])

    @property
    def total(self) -> Array:
        """The sums so far: Python's whole numbers."""
        self._carry()
        return self._whole.copy()

    def _add(self, scaled: Floats) -> None:
        steps = np.full((scaled.shape[1] + 1, len(scaled)), float(STEPS))
        np.rint(scaled.T * STEPS, out=steps[1:])
        for start in range(0, len(scaled), self._at_once):
            some = steps[:, start : start + self._at_once]
            self._part += (some @ some.T).astype(np.int64)
        self._rows += len(scaled)
        if self._rows > _WHOLE:
            self._carry()

    def _carry(self) -> None:
        self._whole += self._part.astype(object)
        self._part[:], self._rows = 0, 0


def _moved(first: Floats, second: Floats, *, same: bool) -> Floats:
    """Return how far products of two columns move, or squares of one."""
    if same:
        return np.where(first >= 1, 1.0, first * (2 - first))
    return np.maximum(np.maximum(first, second), first + second - first * second)


def _place(shares: Floats) -> Indices:
    """Return the place of the least tabulated share that is at least each share; that of 0 does not matter."""
    with np.errstate(divide="ignore"):
        places = np.floor(np.log(np.minimum(shares, 1.0)) / -math.log(_RATIO) * (1 - 1e-12) + 1e-12)
    places = np.clip(np.nan_to_num(places, posinf=len(_SHARES) - 1), 0, len(_SHARES) - 1).astype(
        np.intp
    )
    return np.where(_SHARES[places] < shares, np.maximum(places - 1, 0), places)
