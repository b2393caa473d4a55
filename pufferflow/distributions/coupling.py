"""Distances and the couplings that attain them, built in whole numbers where laws are finite."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Self, TypeVar, final

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Array, Floats, Indices
from pufferflow.core.errors import InternalError, UsageError
from pufferflow.core.notebook import Card, InNotebooks
from pufferflow.core.rounding import SMALLEST, UNIT, differences_outward, upwards
from pufferflow.distributions import common_units
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.gaussian_law import GaussianLaw

WITHIN_ROUNDING = "holds for weights equal to those given up to rounding; Fractions give it exactly"


class Certainty(StrEnum):
    """The relation of a number to the true value.

    `EXACT`: the true value, rounded up by a few units in the last place for finite laws, by a relative 1e-9 for
    Gaussian ones, or less. `UPPER_BOUND`: never below the true value. `ESTIMATE`: may lie above or below it.
    """

    EXACT = "exact"
    UPPER_BOUND = "upper_bound"
    ESTIMATE = "estimate"


@final
@dataclass(frozen=True, eq=False)
class Coupling(InNotebooks):
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
class AffineCoupling(InNotebooks):
    """The joint law of X ~ left and Y = matrix · (X − left.mean) + right.mean, two Gaussians."""

    left: GaussianLaw
    right: GaussianLaw
    matrix: Floats


C = TypeVar("C", Coupling, AffineCoupling)


@final
class Distance(InNotebooks, float, Generic[C]):
    """A distance: a float with its certainty.

    `certainty` is exact or upper_bound. Sums of float weights count as equal within `rounding`, a relative width (for
    `near` an absolute one). It is 0.0 for rational weights. A result from float weights is called exact only if all
    weights within that width give it. Otherwise it is an upper bound for some of them. `note` explains the result in
    words, and `coupling` is the coupling, if it was requested.

    >>> distance = Distance(2.0, Certainty.EXACT)
    >>> distance, distance.certainty.value
    (2.0, 'exact')
    """

    certainty: Certainty
    rounding: float
    note: str
    _coupling: C | None

    def __new__(
        cls,
        value: float,
        certainty: Certainty,
        *,
        rounding: float = 0.0,
        note: str = "",
        coupling: C | None = None,
    ) -> Self:
        """Make a distance; NaN or a negative number is an error of this library."""
        if not value >= 0:
            raise InternalError(
                f"A distance came out as {value}.",
                instead="reporting the two laws to the maintainers",
            )
        self = super().__new__(cls, value)
        self.certainty, self.rounding, self.note, self._coupling = (
            certainty,
            rounding,
            note,
            coupling,
        )
        return self

    def _card(self) -> Card:
        exact = self.certainty is Certainty.EXACT
        certainty = "exact" if exact else "an upper bound: the true distance is no larger"
        notes = [self.note] * bool(self.note)
        return Card(
            "Distance", facts=[("value", repr(self)), ("certainty", certainty)], notes=notes
        )

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
    left, right = common_units.values(coupling.left, coupling.right)
    differences = signed_above(left[coupling.rows], right[coupling.columns])
    return TransportPlan(
        coupling.left, coupling.right, coupling.rows, coupling.columns, coupling.masses, differences
    )


def all_differences(mu: Law, nu: Law) -> Floats:
    """Return x − y for all pairs of atoms, of shape (n, m) or (n, m, d)."""
    left, right = common_units.values(mu, nu)
    return signed_above(left[:, None], right[None, :])


def signed_above(left: Array, right: Array) -> Floats:
    """Return left − right as floats that are not nearer to 0 than the exact difference, of the same sign."""
    if object not in (left.dtype, right.dtype):
        return differences_outward(left, right)
    steps = left - right
    sizes = common_units.floats_above(np.abs(steps))
    return np.where(steps < 0, -sizes, sizes)


_MANTISSA = 53
_UNFELT = 2.0**40


class Matching:
    """A coupling under construction: the remaining masses of both laws, and the matched ones.

    Masses are the laws' own weights as whole numbers. Masses of rational laws have equal sums, so the coupling becomes
    exact. Those of float laws may differ by rounding, and the caller places the last remainders.
    """

    def __init__(self, mu: Law, nu: Law) -> None:
        left, right, self.unit = common_units.whole(mu, nu)
        self.mu, self.nu = mu, nu
        self.left: list[int] = [int(x) for x in left.tolist()]
        self.right: list[int] = [int(x) for x in right.tolist()]
        self._matched: dict[tuple[int, int], int] = {}

    def take(self, i: int, j: int, amount: int) -> None:
        """Match up to an amount of atom i with atom j, at most what both have left."""
        amount = min(amount, self.left[i], self.right[j])
        if amount > 0:
            self.left[i] -= amount
            self.right[j] -= amount
            self._add(i, j, amount)

    def take_flow(self, rows: Indices, columns: Indices, amounts: Array, unit: int) -> None:
        """Match the amounts of a flow, of which `unit` make a mass of 1, as far as the remaining masses allow."""
        for i, j, amount in zip(rows.tolist(), columns.tolist(), amounts.tolist(), strict=True):
            self.take(i, j, amount * self.unit // unit)

    def take_shares(self, triples: Iterable[tuple[int, int, float]], whole: int) -> None:
        """Match shares (at most 1) of a whole, rounded to whole numbers."""
        for i, j, share in triples:
            mantissa, exponent = math.frexp(share)
            shift = _MANTISSA - exponent
            self.take(i, j, (int(mantissa * 2**_MANTISSA) * whole + (1 << shift - 1)) >> shift)

    def match_in_order(self) -> None:
        """Match the remaining masses in order, until one side has none left."""
        rows, columns = (
            [at for at, rest in enumerate(side) if rest] for side in (self.left, self.right)
        )
        i = j = 0
        while i < len(rows) and j < len(columns):
            self.take(rows[i], columns[j], self.left[rows[i]])
            i, j = i + (not self.left[rows[i]]), j + (not self.right[columns[j]])

    def match_slivers(
        self, costs: Callable[[int], Floats], costs_of_right: Callable[[int], Floats]
    ) -> None:
        """Match the remainders that rounding leaves with atoms of the other law, although these have none left.

        A remainder goes to the cheapest atom whose mass it does not change in floats, and never where the cost is ∞.
        """
        for i, rest in enumerate(self.left):
            if rest:
                self._add(i, _partner(costs(i), self.nu.probabilities, rest / self.unit), rest)
        for j, rest in enumerate(self.right):
            if rest:
                self._add(
                    _partner(costs_of_right(j), self.mu.probabilities, rest / self.unit), j, rest
                )

    def _add(self, i: int, j: int, amount: int) -> None:
        self._matched[i, j] = self._matched.get((i, j), 0) + amount

    def coupling(self) -> Coupling:
        pairs = np.array(list(self._matched), dtype=np.intp).reshape(-1, 2)
        amounts = np.array(list(self._matched.values()), dtype=object)
        return Coupling(
            self.mu, self.nu, pairs[:, 0], pairs[:, 1], common_units.ratios(amounts, self.unit)
        )


def _partner(costs: Floats, weights: Floats, sliver: float) -> int:
    possible = np.isfinite(costs)
    heavy = possible & (weights >= sliver * _UNFELT)
    if heavy.any():
        return int(np.where(heavy, costs, np.inf).argmin())
    return int(np.where(possible, weights, -1.0).argmax())
