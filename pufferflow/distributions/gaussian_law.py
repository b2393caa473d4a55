"""A Gaussian law of answers on R or R^d, as a frozen value."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.distributions.finite_law import of_kind

_PSD_SLACK = 1e-12


@final
@dataclass(frozen=True, init=False, eq=False, repr=False)
class GaussianLaw(InNotebooks):
    """A Gaussian law, N(mean, covariance): two numbers on R; on R^d a vector and a matrix (a number c means c·I).

    The covariance must be symmetric. It may be singular: negative eigenvalues are allowed down to −1e−12 times the
    largest.

    >>> GaussianLaw(0, 4)
    GaussianLaw(0.0, 4.0)
    """

    mean: Floats
    covariance: Floats

    def __init__(self, mean: npt.ArrayLike, covariance: npt.ArrayLike) -> None:
        centre = np.atleast_1d(_numbers(mean, "mean", "a finite number, or d of them"))
        spread = _numbers(
            covariance, "covariance", "a finite number >= 0, or a symmetric d × d matrix"
        )
        if centre.ndim != 1 or centre.size == 0:
            raise UsageError(
                f"The mean has shape {centre.shape}.",
                allowed="a number, or a vector",
                instead="GaussianLaw([0, 0], 1)",
            )
        if spread.ndim == 0:
            spread = spread * np.eye(len(centre))
        if spread.shape != (len(centre), len(centre)):
            raise UsageError(
                f"The covariance has shape {spread.shape}, but the mean has {len(centre)} numbers.",
                allowed="a number, or a symmetric d × d matrix",
                instead="GaussianLaw([0, 0], [[1, 0.5], [0.5, 1]])",
            )
        if (np.abs(spread / 2 - spread.T / 2) > _PSD_SLACK * np.abs(spread).max()).any():
            raise UsageError(
                "The covariance is not symmetric.",
                allowed="a symmetric matrix",
                instead="(C + C.T) / 2",
            )
        spread = spread / 2 + spread.T / 2
        scale = float(np.abs(spread).max()) or 1.0
        eigenvalues = np.linalg.eigvalsh(spread / scale)
        if eigenvalues[0] < -_PSD_SLACK * max(eigenvalues[-1], 0.0) or eigenvalues[-1] < 0:
            raise UsageError(
                f"The covariance has the negative eigenvalue {eigenvalues[0] * scale:.6g}.",
                allowed="a variance >= 0, or a positive semidefinite matrix",
                instead="GaussianLaw(0, 4) for a standard deviation of 2; A @ A.T is always a covariance",
            )
        self._set(centre, spread)

    def _set(self, mean: Floats, covariance: Floats) -> None:
        mean.flags.writeable = covariance.flags.writeable = False
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "covariance", covariance)

    @classmethod
    def _made(cls, mean: Floats, covariance: Floats) -> "GaussianLaw":
        """Make a law with a covariance that is valid by construction; rounding may have made it slightly indefinite."""
        if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
            raise UsageError(
                "The result does not fit floats.",
                allowed="moments below 1e308",
                instead="smaller units",
            )
        law = object.__new__(cls)
        symmetric = covariance / 2 + covariance.T / 2
        law._set(mean + 0.0, np.maximum(symmetric, 0.0) if len(mean) == 1 else symmetric)
        return law

    def __reduce__(self) -> tuple[Any, ...]:
        return GaussianLaw._made, (self.mean, self.covariance)

    @property
    def dimension(self) -> int:
        """The number of coordinates, d of R^d."""
        return len(self.mean)

    def shift(self, by: npt.ArrayLike) -> "GaussianLaw":
        """Return the law of X + by.

        >>> GaussianLaw(0, 1).shift(3)
        GaussianLaw(3.0, 1.0)
        """
        offset = np.atleast_1d(_numbers(by, "shift", "one finite number per coordinate"))
        if offset.shape != self.mean.shape:
            raise _other_dimension(len(offset), self.dimension)
        with np.errstate(over="ignore"):
            return self._made(self.mean + offset, self.covariance)

    def map(self, matrix: npt.ArrayLike) -> "GaussianLaw":
        """Return the law of matrix · X; a number scales, a vector gives the law of one weighted sum.

        >>> GaussianLaw([1, 2], [[1, 0.5], [0.5, 1]]).map([1, 1])
        GaussianLaw(3.0, 3.0)
        """
        factor = _numbers(matrix, "matrix", "a finite number, or rows of d finite numbers")
        factor = factor * np.eye(self.dimension) if factor.ndim == 0 else np.atleast_2d(factor)
        if factor.ndim != 2 or factor.shape[1] != self.dimension:
            raise _other_dimension(factor.shape[-1], self.dimension)
        with np.errstate(over="ignore", invalid="ignore"):
            return self._made(factor @ self.mean, factor @ self.covariance @ factor.T)

    def convolve(self, other: "GaussianLaw") -> "GaussianLaw":
        """Return the law of X + Y for independent X and Y.

        >>> GaussianLaw(0, 1).convolve(GaussianLaw(1, 2))
        GaussianLaw(1.0, 3.0)
        """
        if of_kind(other, GaussianLaw).dimension != self.dimension:
            raise _other_dimension(other.dimension, self.dimension)
        with np.errstate(over="ignore"):
            return self._made(self.mean + other.mean, self.covariance + other.covariance)

    def product(self, other: "GaussianLaw") -> "GaussianLaw":
        """Return the joint law of independent X and Y, on R^(d₁+d₂).

        >>> GaussianLaw(0, 1).product(GaussianLaw(5, 2))
        GaussianLaw([0.0, 5.0], [[1.0, 0.0], [0.0, 2.0]])
        """
        corner = np.zeros((self.dimension, of_kind(other, GaussianLaw).dimension))
        covariance = np.block([[self.covariance, corner], [corner.T, other.covariance]])
        return self._made(np.concatenate([self.mean, other.mean]), covariance)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GaussianLaw):
            return NotImplemented
        return np.array_equal(self.mean, other.mean) and np.array_equal(
            self.covariance, other.covariance
        )

    def __hash__(self) -> int:
        return hash((tuple(self.mean.tolist()), tuple(self.covariance.ravel().tolist())))

    def __repr__(self) -> str:
        if self.dimension == 1:
            return f"GaussianLaw({self.mean[0]}, {self.covariance[0, 0]})"
        return f"GaussianLaw({self.mean.tolist()}, {self.covariance.tolist()})"


def _numbers(given: Any, name: str, allowed: str) -> Floats:
    instead = "GaussianLaw(mean=0.0, covariance=1.0)"
    try:
        raw = np.asarray(given)
        array = np.array(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"The {name} is not made of numbers.", allowed=allowed, instead=instead
        ) from error
    if raw.dtype.kind not in "iufO" or isinstance(given, np.ma.MaskedArray):
        raise UsageError(f"The {name} has dtype {raw.dtype}.", allowed=allowed, instead=instead)
    if not np.isfinite(array).all():
        raise UsageError(
            f"The {name} has a NaN or infinite entry.", allowed=allowed, instead=instead
        )
    return array


def _other_dimension(given: int, expected: int) -> UsageError:
    return UsageError(
        f"Dimension {given} given.",
        allowed=f"dimension {expected}",
        instead="law.map(matrix) to change it",
    )
