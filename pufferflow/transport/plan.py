"""A coupling that can be priced: what E cost(X − Y) is under it, rounded up."""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pufferflow.law import Law
from pufferflow.rounding import SMALLEST, UNIT, upwards
from pufferflow.transport import footing
from pufferflow.transport.distance import Coupling

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class Plan:
    """A joint law of X ~ left and Y ~ right as mass on pairs of atoms, and what is known of its rounding."""

    left: Law
    right: Law
    rows: npt.NDArray[np.intp]
    columns: npt.NDArray[np.intp]
    masses: Floats
    differences: Floats
    """X − Y for every pair, of shape (k,) or (k, d), no coordinate nearer to 0 than it is."""
    doubts: Floats | None = None
    """How much mass may stand on the wrong one of each two pairs that follow each other; None if none may."""
    settled: bool = True
    """Whether rounding of the weights left no choice of the coupling."""

    def price(self, costs: Floats) -> float:
        """Return E cost for one cost ≥ 0 per pair, not below the exact sum.

        A float level of tail t is known within n·2⁻⁵²·t, and moves mass between the two pairs that meet there. A
        product too small for a float counts as the smallest there is.
        """
        total = upwards(math.fsum(self.masses * costs), 8 * UNIT) + len(costs) * SMALLEST
        return total if self.doubts is None else total + float(self.doubts @ np.abs(np.diff(costs)))

    def coupling(self) -> Coupling:
        """Return the joint law alone."""
        return Coupling(self.left, self.right, self.rows, self.columns, self.masses)


def of_coupling(coupling: Coupling) -> Plan:
    """Return the plan of a coupling whose marginals are exact."""
    left, right = footing.values(coupling.left, coupling.right)
    differences = signed_above(left[coupling.rows], right[coupling.columns])
    return Plan(coupling.left, coupling.right, coupling.rows, coupling.columns, coupling.masses, differences)


def all_differences(mu: Law, nu: Law) -> Floats:
    """Return x − y for all pairs of atoms, of shape (n, m) or (n, m, d)."""
    left, right = footing.values(mu, nu)
    return signed_above(left[:, None], right[None, :])


def signed_above(left: Array, right: Array) -> Floats:
    """Return left − right as floats that are not nearer to 0 than the exact difference, of the same sign."""
    with np.errstate(over="ignore"):
        steps = left - right
    if steps.dtype == object:
        sizes = footing.floats_above(np.abs(steps))
        return np.where(steps < 0, -sizes, sizes)
    back = steps - left  # Knuth's two-sum of left and −right: `lost` is the exact error of `steps`
    with np.errstate(invalid="ignore"):
        lost = (left - (steps - back)) + (-right - back)
    outward = np.where(np.sign(lost) == np.sign(steps), np.nextafter(steps, np.copysign(np.inf, steps)), steps)
    return np.where(lost != 0, outward, steps)
