"""A covariance matrix: each row of a group with its own variance, each two with their own covariance."""

from typing import Any, final

import numpy as np

from pufferflow.errors import Misuse
from pufferflow.priors.covariance.covariance import Covariance, Floats, Sides, semidefinite, whole
from pufferflow.priors.covariance.span import fixed
from pufferflow.reading import reads_stored_belief, refuse_belief
from pufferflow.rounding import UNIT, lifted

_SLACK = 1e-9
_FIXED = 1 - 1e-12
"""Correlations from here on are 1 but for the rounding of roots and quotients."""
_ALLOWED = "a symmetric matrix of finite numbers with no negative eigenvalue"
_INSTEAD = "[[2.0, 0.6], [0.6, 1.0]]; A @ A.T is always a covariance"


@final
class Matrix(Covariance):
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
        self.entries = read

    @property
    def known(self) -> bool:
        """A matrix is one covariance."""
        return True

    def describe(self) -> str:
        """Say how many rows there are."""
        return f"rows have a covariance matrix, {len(self.entries)} × {len(self.entries)}"

    def stored(self) -> dict[str, Any]:
        """Return the entries."""
        return {"kind": "matrix", "entries": self.entries.tolist()}

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
