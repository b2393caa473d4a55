"""Covariances: how far a change of one row's value moves the other rows, and sums of these movements (M15).

If X_i changes by v, the Gaussian conditional law of row r is translated by c_ri·v, c_ri = Cov(X_r, X_i)/Var(X_i). A
class of covariances gives bounds instead: −below ≤ c_ri ≤ above. All results are rounded up.
"""

import abc
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import UNIT, lifted
from pufferflow.core.validate import reads_stored_belief, refuse_belief, set_fields
from pufferflow.models.stored import StoredPart

Sides = tuple[Floats, Floats]
_AT_ONCE = 1 << 21
_SLACK = 1e-9


class Covariance(StoredPart, abc.ABC, family="covariance"):
    """Base of the covariances; `positions` are those of a statistic's rows, `places` those of rows that are secret.

    To add one, write a frozen dataclass with `toward`. Override `sides` and `reached` if the sums over all rows can be
    found faster than through all pairs of rows.
    """

    ordered: bool = True
    """Whether positions matter."""
    stationary: bool = False
    """Whether rows shifted together keep their covariances."""
    falls_off: bool = False
    """Whether no correlation is larger than one at a shorter lag."""
    has_variances: bool = False
    """Whether it has the variances of rows beside their correlations."""

    @property
    def known(self) -> bool:
        """Whether this is one covariance, not a class of several."""
        return True

    @abc.abstractmethod
    def describe(self) -> str:
        """Describe the dependence of rows in words."""

    def check(self, positions: Floats) -> None:
        """Refuse rows for which there is no such covariance."""

    def places(self, positions: Floats) -> Floats:
        """Return the positions of all rows that can be the secret, whether a query reads them or not."""
        return positions

    @abc.abstractmethod
    def toward(self, places: Floats, positions: Floats) -> Sides:
        """Return the bounds of the factors c_ri above and below 0, of shape (places, positions)."""

    def sides(self, positions: Floats, weights: Floats, cap: float) -> Sides:
        """Return the most that other rows can add to and take from each answer, for secrets at all `places`."""
        return self.sides_at(self.places(positions), positions, weights, cap)

    def reached(self, positions: Floats, heights: Floats, level: float) -> Floats:
        """Return the sums of the heights of other rows with |c_ri| ≥ level (for 0: c_ri ≠ 0), for all `places`."""
        return self.reached_at(self.places(positions), positions, heights, level)

    def between(self, positions: Floats, heights: Floats, level: float) -> Floats:
        """Return such sums for secret rows at other positions than `places`: on an interval they are never larger."""
        return np.zeros((len(heights), 0))

    def sides_at(self, places: Floats, positions: Floats, weights: Floats, cap: float) -> Sides:
        """Return Σ_r (w_r·c_ri)⁺ and Σ_r (w_r·c_ri)⁻ over r ≠ i, each |c_ri| at most `cap`: shape (answers, places)."""
        plus, minus = by_sign(weights)
        up, down = np.empty((2, len(weights), len(places)))
        for block in _blocks(len(places), len(positions)):
            above, below = (
                np.minimum(side, cap).T for side in self._others(places[block], positions)
            )
            up[:, block] = plus @ above + minus @ below
            down[:, block] = minus @ above + plus @ below
        return lifted(up, (2 * len(positions) + 4) * UNIT), lifted(
            down, (2 * len(positions) + 4) * UNIT
        )

    def reached_at(
        self, places: Floats, positions: Floats, heights: Floats, level: float
    ) -> Floats:
        """Return the sums of heights for secrets at some places: shape (answers, places)."""
        total = np.empty((len(heights), len(places)))
        for block in _blocks(len(places), len(positions)):
            size = np.maximum(*self._others(places[block], positions))
            total[:, block] = heights @ np.where((size > 0) & (size >= level), 1.0, 0.0).T
        return summed_up(total, heights)

    def _others(self, places: Floats, positions: Floats) -> Sides:
        """Return the factors with 0 for the row that is the secret itself."""
        other = places[:, None] != positions[None, :]
        above, below = self.toward(places, positions)
        return np.where(other, above, 0.0), np.where(other, below, 0.0)


def by_sign(values: Floats) -> Sides:
    """Return the parts of numbers above and below 0, both as sizes."""
    return np.maximum(values, 0.0), np.maximum(-values, 0.0)


def summed_up(total: Floats, terms: Floats) -> Floats:
    """Return sums of n terms ≥ 0, rounded up; sums of whole numbers are exact as they are."""
    whole = bool((terms == np.rint(terms)).all()) and float(terms.sum()) < 2.0**52
    return total if whole else lifted(total, (terms.shape[-1] + 2) * UNIT)


def semidefinite(matrix: Floats) -> bool:
    """Return whether a matrix with entries up to about 1 has no eigenvalue below −1e−9, by Cholesky."""
    try:
        np.linalg.cholesky(matrix + _SLACK * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True


def whole(positions: Floats, what: str) -> npt.NDArray[np.int64]:
    """Return positions as whole numbers."""
    steps = np.rint(positions)
    if (steps != positions).any():
        raise UsageError(
            f"{what} for positions between whole steps.",
            allowed="positions that are whole numbers of steps",
            instead='a shorter step in the scenario; or pl.col("hour").round(), where they nearly are whole',
        )
    return steps.astype(np.int64)


def _blocks(count: int, width: int) -> list[slice]:
    size = max(_AT_ONCE // max(width, 1), 1)
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def fixed(what: str, rows: str, allowed: str) -> UsageError:
    """Return the error for a correlation of 1 or −1: the value of one row would determine that of the other."""
    return UsageError(
        f"{what}: {rows} with the correlation 1 or -1 determine each other.",
        allowed=allowed,
        instead="pf.AnyCorrelation() as the prior, under which rows may determine each other",
    )


_FIXED = 1 - 1e-12
"""Correlations from here on are 1 but for the rounding of roots and quotients."""
_ALLOWED = "a symmetric matrix of finite numbers with no negative eigenvalue"
_INSTEAD = "[[2.0, 0.6], [0.6, 1.0]]; A @ A.T is always a covariance"


@final
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Matrix(Covariance, kind="matrix"):
    """The covariances themselves: the row at position r of a group has row r of the matrix.

    Every row of the matrix may be the secret, queried or not. A row of variance 0 has one value and hides nothing, and
    two rows with the correlation 1 or −1 determine each other: both are refused.

    >>> Matrix([[2, 0.6], [0.6, 1]]).describe()
    'rows have a covariance matrix, 2 × 2'
    """

    has_variances = True
    entries: Floats

    def __init__(self, entries: Any) -> None:
        read = _read_matrix(entries)
        read.flags.writeable = False
        set_fields(self, entries=read)

    def describe(self) -> str:
        return f"rows have a covariance matrix, {len(self.entries)} × {len(self.entries)}"

    def stored(self) -> dict[str, Any]:
        return {"kind": self.kind, "entries": self.entries.tolist()}

    def __eq__(self, other: object) -> bool:
        return (
            np.array_equal(self.entries, other.entries)
            if isinstance(other, Matrix)
            else NotImplemented
        )

    def __hash__(self) -> int:
        return hash(self.entries.tobytes())

    def __repr__(self) -> str:
        return f"Matrix({self.entries.tolist() if len(self.entries) <= 4 else '…'})"

    def check(self, positions: Floats) -> None:
        check_places(positions, len(self.entries))

    def places(self, positions: Floats) -> Floats:
        return np.arange(len(self.entries), dtype=np.float64)

    def toward(self, places: Floats, positions: Floats) -> Sides:
        secret, rows = places.astype(np.int64), positions.astype(np.int64)
        with np.errstate(over="ignore"):
            variances = self.entries[secret, secret][:, None]
            factors = self.entries[np.ix_(secret, rows)] / np.where(variances > 0, variances, 1.0)
        factors = np.where(secret[:, None] == rows[None, :], 1.0, factors)
        above, below = by_sign(factors)
        return lifted(above, UNIT), lifted(below, UNIT)


@final
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Factors(Covariance, kind="factors"):
    """Bounds on how far a change of row t moves row r: low[t][r] ≤ Cov(X_r, X_t)/Var(X_t) ≤ high[t][r].

    A class of covariances, made by `pf.GaussianPrior.fit`. Each factor counts by itself, with its largest value of
    either sign.

    >>> Factors([[1, 0.2], [0.1, 1]], [[1, 0.6], [0.4, 1]]).describe()
    '2 rows drag each other along by factors between two bounds'
    """

    has_variances = True
    low: Floats
    high: Floats

    def __init__(self, low: Any, high: Any) -> None:
        least, most = (np.array(part, dtype=np.float64) + 0.0 for part in (low, high))
        sound = (
            least.shape == most.shape and least.ndim == 2 and least.shape[0] == least.shape[1] > 0
        )
        if (
            not sound
            or not np.isfinite([least, most]).all()
            or (least > most).any()
            or (np.diag(least) != 1).any()
        ):
            raise UsageError(
                "Stored bounds on factors are not square matrices of numbers with low <= high and 1 on the diagonal.",
                allowed="what pf.GaussianPrior.fit gave",
                instead='pf.GaussianPrior.fit(…, covariance="matrix", slack="confidence")',
            )
        set_fields(self, low=least, high=most)

    @property
    def known(self) -> bool:
        return False

    def describe(self) -> str:
        return f"{len(self.low)} rows drag each other along by factors between two bounds"

    def stored(self) -> dict[str, Any]:
        return {"kind": self.kind, "low": self.low.tolist(), "high": self.high.tolist()}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Factors):
            return NotImplemented
        return np.array_equal(self.low, other.low) and np.array_equal(self.high, other.high)

    def __hash__(self) -> int:
        return hash((self.low.tobytes(), self.high.tobytes()))

    def __repr__(self) -> str:
        return (
            f"Factors({self.low.tolist()}, {self.high.tolist()})"
            if len(self.low) <= 4
            else "Factors(…)"
        )

    def check(self, positions: Floats) -> None:
        check_places(positions, len(self.low))

    def places(self, positions: Floats) -> Floats:
        return np.arange(len(self.low), dtype=np.float64)

    def toward(self, places: Floats, positions: Floats) -> Sides:
        at = np.ix_(places.astype(np.int64), positions.astype(np.int64))
        return np.maximum(self.high[at], 0.0), np.maximum(-self.low[at], 0.0)


def check_places(positions: Floats, rows: int) -> None:
    """Refuse positions that a matrix has no row for."""
    steps = whole(positions, "A covariance matrix")
    if (outside := steps[(steps < 0) | (steps >= rows)]).size:
        raise UsageError(
            f"A row at position {outside[-1]}, and the covariance matrix has {rows} rows.",
            allowed=f"positions from 0 to {rows - 1}",
            instead="a larger matrix, or pf.AR1, pf.Exchangeable or pf.Kernel for groups of any size",
        )


def _read_matrix(given: Any) -> Floats:
    try:
        read = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"The covariance is of type {type(given).__name__}, not a matrix of numbers.",
            allowed=f"pf.Exchangeable, pf.AR1, pf.Kernel, or {_ALLOWED}",
            instead=_INSTEAD,
        ) from error
    if read.ndim != 2 or read.shape[0] != read.shape[1] or not read.size:
        raise UsageError(
            f"The covariance has shape {read.shape}.", allowed=_ALLOWED, instead=_INSTEAD
        )
    if not np.isfinite(read).all():
        raise UsageError(
            "The covariance has a NaN or infinite entry.", allowed=_ALLOWED, instead=_INSTEAD
        )
    variances = read.diagonal()
    _check_variances(variances)
    spread = np.sqrt(np.where(variances > 0, variances, 1.0))
    _check_correlations(read / spread[:, None] / spread[None, :])
    halves = read / 2 + read.T / 2
    return (
        halves if reads_stored_belief() else halves + 0.0
    )  # −0.0 is 0.0, but in what was fingerprinted with it


def _check_variances(variances: Floats) -> None:
    low = int(variances.argmin())
    if variances[low] == 0:
        refuse_belief(
            UsageError(
                f"The row at position {low} has the variance 0: it has one value, so there is nothing to hide.",
                allowed="variances above 0",
                instead=f"a number above 0 as entry ({low}, {low}): a row that correlates with no other one moves none",
            )
        )
    if variances[low] < 0:
        raise UsageError(
            f"The row at position {low} has the variance {variances[low]:g}.",
            allowed=_ALLOWED,
            instead=_INSTEAD,
        )


def _check_correlations(correlations: Floats) -> None:
    """Refuse a matrix that is no covariance, and two rows that fix each other."""
    if (np.abs(correlations - correlations.T) > _SLACK).any():
        raise UsageError(
            "The covariance is not symmetric.", allowed=_ALLOWED, instead="(C + C.T) / 2"
        )
    if not semidefinite(correlations):
        raise UsageError(
            "The covariance gives a weighted sum of rows a negative variance.",
            allowed=_ALLOWED,
            instead=_INSTEAD,
        )
    size = np.abs(np.triu(correlations, 1))
    row, other = np.unravel_index(int(size.argmax()), size.shape)
    if size[row, other] >= _FIXED:
        sign = "1" if correlations[row, other] > 0 else "-1"
        allowed = f"{_ALLOWED}, and correlations above -1 and below 1"
        refuse_belief(
            fixed(
                f"The correlation of the rows at positions {row} and {other} is {sign}",
                "rows",
                allowed,
            )
        )
