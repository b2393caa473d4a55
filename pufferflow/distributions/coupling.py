"""Distances: a number, its certainty, and on request the coupling that attains it, with its cost."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Self, TypeVar, final

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Array, Floats, Indices
from pufferflow.core.errors import InternalError, UsageError
from pufferflow.core.rounding import SMALLEST, UNIT, differences_outward, upwards
from pufferflow.distributions import common_units as masses
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.gaussian_law import GaussianLaw

WITHIN_ROUNDING = "holds for weights equal to those given up to rounding; Fractions give it exactly"


class Certainty(StrEnum):
    """The relation of a number to the true value.

    `EXACT`: the true value, rounded up: by at most a few units in the last place for finite laws, by at most a relative
    1e-9 for Gaussian ones. `UPPER_BOUND`: never below the true value. `ESTIMATE`: neither is proven.
    """

    EXACT = "exact"
    UPPER_BOUND = "upper_bound"
    ESTIMATE = "estimate"


@final
@dataclass(frozen=True, eq=False)
class Coupling:
    """A joint law of X ~ left and Y ~ right: mass `masses[k]` on the pair of atoms (rows[k], columns[k])."""

    left: Law
    right: Law
    rows: Indices
    columns: Indices
    masses: Floats

    def marginals(self) -> tuple[Floats, Floats]:
        """Return the weights that the coupling gives to the atoms of both laws."""
        left, right = np.zeros(len(self.left)), np.zeros(len(self.right))
        np.add.at(left, self.rows, self.masses)
        np.add.at(right, self.columns, self.masses)
        return left, right

    def differences(self) -> npt.NDArray[Any]:
        """Return X − Y for every pair that has mass."""
        return self.left.values[self.rows] - self.right.values[self.columns]


@final
@dataclass(frozen=True, eq=False)
class AffineCoupling:
    """The joint law of X ~ left and Y = matrix · (X − left.mean) + right.mean, two Gaussians."""

    left: GaussianLaw
    right: GaussianLaw
    matrix: Floats


C = TypeVar("C", Coupling, AffineCoupling)


@final
class Distance(float, Generic[C]):
    """A distance: a float with its certainty.

    `certainty` is exact or upper_bound. `rounding` is the relative (for `near`: absolute) width within which sums of
    float weights count as equal, 0.0 for rational weights. A result from float weights is called exact only if it is
    the same for all weights within that width; otherwise it is an upper bound for some weights within it. `note`
    explains the result in words, and `coupling` is the coupling, if it was requested.

    >>> distance = Distance(2.0, Certainty.EXACT)
    >>> distance, distance.certainty.value
    (2.0, 'exact')
    """

    certainty: Certainty
    rounding: float
    note: str
    _coupling: C | None

    def __new__(
        cls, value: float, certainty: Certainty, *, rounding: float = 0.0, note: str = "", coupling: C | None = None
    ) -> Self:
        """Make a distance; NaN or a negative number is an error of this library."""
        if not value >= 0:
            raise InternalError(f"A distance came out as {value}.", instead="reporting the two laws to the maintainers")
        self = super().__new__(cls, value)
        self.certainty, self.rounding, self.note, self._coupling = certainty, rounding, note, coupling
        return self

    @property
    def coupling(self) -> C:
        """The joint law that attains the distance, if it was requested with `coupling=True`."""
        if self._coupling is None:
            raise UsageError(
                "The coupling was not requested.",
                allowed="coupling=True",
                instead="pf.winf(mu, nu, coupling=True).coupling",
            )
        return self._coupling

    def __getnewargs_ex__(self) -> tuple[tuple[float, Certainty], dict[str, Any]]:
        evidence = {"rounding": self.rounding, "note": self.note, "coupling": self._coupling}
        return (float(self), self.certainty), evidence


@final
@dataclass(frozen=True, eq=False)
class TransportPlan:
    """A joint law of X ~ left and Y ~ right as mass on pairs of atoms, and the bounds on its rounding."""

    left: Law
    right: Law
    rows: Indices
    columns: Indices
    masses: Floats
    differences: Floats
    """X − Y for every pair, of shape (k,) or (k, d), no coordinate nearer to 0 than its exact value."""
    doubts: Floats | None = None
    """The mass that may be on the wrong one of each two consecutive pairs; None if there is none."""
    settled: bool = True
    """Whether the coupling is unique despite the rounding of the weights."""

    def price(self, costs: Floats) -> float:
        """Return E cost for one cost ≥ 0 per pair, not below the exact sum.

        A float level of tail t is known within n·2⁻⁵²·t, and moves mass between the two pairs that meet there. A
        product too small for a float counts as the smallest there is.
        """
        total = upwards(math.fsum(self.masses * costs), 8 * UNIT) + len(costs) * SMALLEST
        return total if self.doubts is None else total + float(self.doubts @ np.abs(np.diff(costs)))

    def coupling(self) -> Coupling:
        return Coupling(self.left, self.right, self.rows, self.columns, self.masses)


def plan_of_coupling(coupling: Coupling) -> TransportPlan:
    """Return the transport plan of a coupling with exact marginals."""
    left, right = masses.values(coupling.left, coupling.right)
    differences = signed_above(left[coupling.rows], right[coupling.columns])
    return TransportPlan(coupling.left, coupling.right, coupling.rows, coupling.columns, coupling.masses, differences)


def all_differences(mu: Law, nu: Law) -> Floats:
    """Return x − y for all pairs of atoms, of shape (n, m) or (n, m, d)."""
    left, right = masses.values(mu, nu)
    return signed_above(left[:, None], right[None, :])


def signed_above(left: Array, right: Array) -> Floats:
    """Return left − right as floats that are not nearer to 0 than the exact difference, of the same sign."""
    if object not in (left.dtype, right.dtype):
        return differences_outward(left, right)
    steps = left - right
    sizes = masses.floats_above(np.abs(steps))
    return np.where(steps < 0, -sizes, sizes)
