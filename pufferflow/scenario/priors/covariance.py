"""What a covariance owes: how a row drags the others along when its value changes, and sums of that (M15).

If X_i changes by v, the Gaussian conditional law of row r is translated by c_ri·v, c_ri = Cov(X_r, X_i)/Var(X_i). A
class of covariances gives bounds instead: −below ≤ c_ri ≤ above. All that is returned here is rounded up.

A covariance matrix: each row of a group with its own variance, each two with their own covariance.

Reading a correlation: one number, or a pair of bounds that stands for all numbers between them.

Sums of weights that shrink from row to row, in O(n).
"""

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
import numpy.typing as npt

from pufferflow.arguments import finite_number, reads_stored_belief, refuse_belief, set_fields
from pufferflow.arrays import Floats
from pufferflow.errors import Misuse
from pufferflow.rounding import UNIT, lifted
from pufferflow.scenario.stored import StoredPart

Sides = tuple[Floats, Floats]
_AT_ONCE = 1 << 21
_MOST_FACTORED = 1500
_SLACK = 1e-9


class Covariance(StoredPart, abc.ABC, family="covariance"):
    """Base of the covariances; `positions` are those of a statistic's rows, `places` those of rows that are secret.

    To add one, write a frozen dataclass with `toward`, and override `sides` and `reached` where the sums over all rows
    have a shorter way than through all pairs of rows.
    """

    ordered: bool = True
    """Whether positions matter."""
    stationary: bool = False
    """Whether rows shifted together keep their covariances."""
    falls_off: bool = False
    """Whether no correlation is larger than one at a shorter lag."""
    has_variances: bool = False
    """Whether it says how much rows vary, not only how they correlate."""

    @property
    @abc.abstractmethod
    def known(self) -> bool:
        """Whether this is one covariance, not a class of them."""

    @abc.abstractmethod
    def describe(self) -> str:
        """Say in words how rows depend on each other."""

    def check(self, positions: Floats) -> None:
        """Refuse rows for which there is no such covariance."""
        del positions

    def places(self, positions: Floats) -> Floats:
        """Return where secrets have to be looked for: at every row of the group, asked about or not."""
        return positions

    @abc.abstractmethod
    def toward(self, places: Floats, positions: Floats) -> Sides:
        """Return how far above and below 0 the factors c_ri can be, of shape (places, positions)."""

    def sides(self, positions: Floats, weights: Floats, cap: float) -> Sides:
        """Return what the other rows can add to and take from each answer, for secrets at all `places`."""
        return self.sides_at(self.places(positions), positions, weights, cap)

    def reached(self, positions: Floats, heights: Floats, level: float) -> Floats:
        """Return the sums of the heights of other rows with |c_ri| ≥ level (for 0: c_ri ≠ 0), for all `places`."""
        return self.reached_at(self.places(positions), positions, heights, level)

    def between(self, positions: Floats, heights: Floats, level: float) -> Floats:
        """Return such sums for secret rows that are not asked about, if `places` do not tell where they can be.

        On an interval they need no look: there the sums are largest at rows asked about.
        """
        del positions, level
        return np.zeros((len(heights), 0))

    def sides_at(self, places: Floats, positions: Floats, weights: Floats, cap: float) -> Sides:
        """Return Σ_r (w_r·c_ri)⁺ and Σ_r (w_r·c_ri)⁻ over r ≠ i, each |c_ri| at most `cap`: shape (answers, places)."""
        plus, minus = np.maximum(weights, 0.0), np.maximum(-weights, 0.0)
        up, down = np.empty((2, len(weights), len(places)))
        for some in _blocks(len(places), len(positions)):
            above, below = (np.minimum(side, cap).T for side in self._others(places[some], positions))
            up[:, some] = plus @ above + minus @ below
            down[:, some] = minus @ above + plus @ below
        return lifted(up, (2 * len(positions) + 4) * UNIT), lifted(down, (2 * len(positions) + 4) * UNIT)

    def reached_at(self, places: Floats, positions: Floats, heights: Floats, level: float) -> Floats:
        """Return the sums of heights for secrets at some places: shape (answers, places)."""
        total = np.empty((len(heights), len(places)))
        for some in _blocks(len(places), len(positions)):
            size = np.maximum(*self._others(places[some], positions))
            total[:, some] = heights @ np.where((size > 0) & (size >= level), 1.0, 0.0).T
        return summed_up(total, heights)

    def _others(self, places: Floats, positions: Floats) -> Sides:
        """Return the factors with 0 for the row that is the secret itself."""
        other = places[:, None] != positions[None, :]
        above, below = self.toward(places, positions)
        return np.where(other, above, 0.0), np.where(other, below, 0.0)


def summed_up(total: Floats, terms: Floats) -> Floats:
    """Return sums of n terms ≥ 0, rounded up; sums of whole numbers are exact as they are."""
    whole = bool((terms == np.rint(terms)).all()) and float(terms.sum()) < 2.0**52
    return total if whole else lifted(total, (terms.shape[-1] + 2) * UNIT)


def semidefinite(matrix: Floats) -> bool:
    """Say whether a matrix with entries up to about 1 has no eigenvalue below −1e−9, as Cholesky sees it."""
    try:
        np.linalg.cholesky(matrix + _SLACK * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True


def few(positions: Floats) -> Floats:
    """Return the first rows, as many as are quickly checked."""
    return positions[:_MOST_FACTORED]


def whole(positions: Floats, what: str) -> npt.NDArray[np.int64]:
    """Return positions as whole numbers."""
    steps = np.rint(positions)
    if (steps != positions).any():
        raise Misuse(
            f"{what} for positions between whole steps.",
            allowed="positions that are whole numbers of steps",
            instead='a shorter step in the scenario; or pl.col("hour").round(), where they nearly are whole',
        )
    return steps.astype(np.int64)


def _blocks(count: int, width: int) -> list[slice]:
    size = max(_AT_ONCE // max(width, 1), 1)
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


Span = float | tuple[float, float]
Given = float | Sequence[float]


def read_span(given: object, name: str, *, allowed: str, instead: str) -> Span:
    """Return one correlation or both bounds, each above −1 and below 1: at ±1 two rows would fix each other."""
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        return _one(given, name, allowed, instead)
    both = list(cast(Sequence[object], given))
    if len(both) != 2:
        raise Misuse(f"{name} has {len(both)} entries.", allowed=allowed, instead=instead)
    low, high = (_one(bound, f"{name}[{place}]", allowed, instead) for place, bound in enumerate(both))
    if low > high:
        raise Misuse(f"{name} goes from {low:g} down to {high:g}.", allowed=allowed, instead=instead)
    return low if low == high else (low, high)


def spanned(span: Span) -> tuple[float, float]:
    """Return both bounds."""
    return span if isinstance(span, tuple) else (span, span)


def _one(given: object, name: str, allowed: str, instead: str) -> float:
    number = finite_number(given, name, allowed=allowed, instead=instead) + 0.0
    if abs(number) == 1:
        refuse_belief(fixed(f"{name} is {number:g}", "two rows", allowed))
    elif not -1 < number < 1:
        raise Misuse(f"{name} is {number:g}.", allowed=allowed, instead=instead)
    return number


def fixed(what: str, rows: str, allowed: str) -> Misuse:
    """Return the error for a correlation of 1 or −1: one row's value would leave the other none to hide among."""
    return Misuse(
        f"{what}: {rows} with the correlation 1 or -1 fix each other.",
        allowed=allowed,
        instead="pf.AnyCorrelation() as the prior, under which rows may fix each other",
    )


_FIXED = 1 - 1e-12
"""Correlations from here on are 1 but for the rounding of roots and quotients."""
_ALLOWED = "a symmetric matrix of finite numbers with no negative eigenvalue"
_INSTEAD = "[[2.0, 0.6], [0.6, 1.0]]; A @ A.T is always a covariance"


@final
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Matrix(Covariance, kind="matrix"):
    """The covariances themselves: the row at position r of a group has row r of the matrix.

    Every row of the matrix may be the secret, asked about or not. A row of variance 0 has one value and hides nothing,
    and two rows with the correlation 1 or −1 fix each other: both are refused.

    >>> Matrix([[2, 0.6], [0.6, 1]]).describe()
    'rows have a covariance matrix, 2 × 2'
    """

    has_variances = True
    entries: Floats

    def __init__(self, entries: Any) -> None:
        read = _read(entries)
        read.flags.writeable = False
        set_fields(self, entries=read)

    @property
    def known(self) -> bool:
        """A matrix is one covariance."""
        return True

    def describe(self) -> str:
        """Say how many rows there are."""
        return f"rows have a covariance matrix, {len(self.entries)} × {len(self.entries)}"

    def stored(self) -> dict[str, Any]:
        return {"kind": self.kind, "entries": self.entries.tolist()}

    def __eq__(self, other: object) -> bool:
        """Compare all entries."""
        return np.array_equal(self.entries, other.entries) if isinstance(other, Matrix) else NotImplemented

    def __hash__(self) -> int:
        """Hash all entries."""
        return hash(self.entries.tobytes())

    def __repr__(self) -> str:
        """Show the entries of a small matrix."""
        return f"Matrix({self.entries.tolist() if len(self.entries) <= 4 else '…'})"

    def check(self, positions: Floats) -> None:
        """Refuse a position that the matrix does not have."""
        if whole(positions, "A covariance matrix")[-1] >= len(self.entries):
            raise Misuse(
                f"A row at position {positions[-1]:.0f}, and the covariance matrix has {len(self.entries)} rows.",
                allowed=f"positions from 0 to {len(self.entries) - 1}",
                instead="a larger matrix, or pf.AR1, pf.Exchangeable or pf.Kernel for groups of any size",
            )

    def places(self, positions: Floats) -> Floats:
        """Return all rows of the matrix."""
        del positions
        return np.arange(len(self.entries), dtype=np.float64)

    def toward(self, places: Floats, positions: Floats) -> Sides:
        """Return Cov(X_r, X_i)/Var(X_i), split by sign."""
        secret, rows = places.astype(np.int64), positions.astype(np.int64)
        with np.errstate(over="ignore"):
            variances = self.entries[secret, secret][:, None]
            factors = self.entries[np.ix_(secret, rows)] / np.where(variances > 0, variances, 1.0)
        factors = np.where(secret[:, None] == rows[None, :], 1.0, factors)
        return lifted(np.maximum(factors, 0.0), UNIT), lifted(np.maximum(-factors, 0.0), UNIT)


def read_covariance(given: object) -> Covariance:
    """Return a covariance, from one or from a matrix."""
    return given if isinstance(given, Covariance) else Matrix(given)


def _read(given: Any) -> Floats:
    try:
        read = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise Misuse(
            f"The covariance is of type {type(given).__name__}, and no matrix of numbers.",
            allowed=f"pf.Exchangeable, pf.AR1, pf.Kernel, or {_ALLOWED}",
            instead=_INSTEAD,
        ) from error
    if read.ndim != 2 or read.shape[0] != read.shape[1] or not read.size:
        raise Misuse(f"The covariance has shape {read.shape}.", allowed=_ALLOWED, instead=_INSTEAD)
    if not np.isfinite(read).all():
        raise Misuse("The covariance has a NaN or infinite entry.", allowed=_ALLOWED, instead=_INSTEAD)
    return _checked(read)


def _checked(read: Floats) -> Floats:
    _check_variances(read.diagonal())
    spread = np.sqrt(np.where(read.diagonal() > 0, read.diagonal(), 1.0))
    correlations = read / spread[:, None] / spread[None, :]
    if (np.abs(correlations - correlations.T) > _SLACK).any():
        raise Misuse("The covariance is not symmetric.", allowed=_ALLOWED, instead="(C + C.T) / 2")
    if not semidefinite(correlations):
        raise Misuse(
            "The covariance gives a weighted sum of rows a negative variance.", allowed=_ALLOWED, instead=_INSTEAD
        )
    _check_correlations(correlations)
    halves = read / 2 + read.T / 2
    return halves if reads_stored_belief() else halves + 0.0  # −0.0 is 0.0, but in what was fingerprinted with it


def _check_variances(variances: Floats) -> None:
    """Refuse a variance of 0, which gives a row one value, and one below, which nothing has."""
    low = int(variances.argmin())
    if variances[low] == 0:
        refuse_belief(
            Misuse(
                f"The row at position {low} has the variance 0: it has one value, and hides none.",
                allowed="variances above 0",
                instead=f"a number above 0 as entry ({low}, {low}): a row that correlates with no other one moves none",
            )
        )
    if variances[low] < 0:
        raise Misuse(
            f"The row at position {low} has the variance {variances[low]:g}.", allowed=_ALLOWED, instead=_INSTEAD
        )


def _check_correlations(correlations: Floats) -> None:
    """Refuse two rows that fix each other."""
    size = np.abs(np.triu(correlations, 1))
    row, other = np.unravel_index(int(size.argmax()), size.shape)
    if size[row, other] >= _FIXED:
        sign = "1" if correlations[row, other] > 0 else "-1"
        allowed = f"{_ALLOWED}, and correlations above -1 and below 1"
        refuse_belief(fixed(f"The correlation of the rows at positions {row} and {other} is {sign}", "rows", allowed))


def both_ways(weights: Floats, factors: Floats) -> Floats:
    """Return Σ over other rows of their weight times all factors on the way, along the last axis; rounded up.

    The factors, one for each step between neighbours, have to be a few units in the last place above the true ones:
    that makes up for what the steps of the recursion round off.

    >>> both_ways(np.array([[1.0, 0.0, 4.0]]), np.array([0.5, 0.25])).round(9)
    array([[0.5 , 1.5 , 0.125]])
    """
    ahead = _earlier(weights, factors)
    behind = _earlier(weights[..., ::-1], factors[::-1])[..., ::-1]
    return lifted(ahead + behind, 4 * UNIT)


def _earlier(weights: Floats, factors: Floats) -> Floats:
    """Return y with y_0 = 0, y_{t+1} = factors_t·(y_t + weights_t): in blocks side by side, then block to block."""
    size = weights.shape[-1]
    width = max(math.isqrt(size), 1)
    count = -(-size // width)
    flat = weights.reshape(-1, size)
    padded = _scan_blocks(flat, count, width)
    steps = _scan_blocks(factors[None], count, width)[:, 0]
    within, shares = np.zeros((width + 1, len(flat), count)), np.ones((width + 1, count))
    with np.errstate(under="ignore"):
        for at in range(width):
            within[at + 1] = steps[at] * (within[at] + padded[at])
            shares[at + 1] = shares[at] * steps[at]
        carried = np.zeros((len(flat), count))
        for block in range(1, count):
            carried[:, block] = within[width, :, block - 1] + shares[width, block - 1] * carried[:, block - 1]
        whole = within[:width] + shares[:width, None] * carried
    return whole.transpose(1, 2, 0).reshape(len(flat), -1)[:, :size].reshape(weights.shape)


def _scan_blocks(rows: Floats, count: int, width: int) -> Floats:
    """Return rows cut into blocks, padded with zeros: shape (width, rows, count)."""
    padded = np.zeros((len(rows), count * width))
    padded[:, : rows.shape[1]] = rows
    return np.ascontiguousarray(padded.reshape(len(rows), count, width).transpose(2, 0, 1))
