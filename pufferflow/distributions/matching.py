"""Building a coupling of two finite laws in whole numbers, so that no atom is lost, however small its mass."""

import math
from collections.abc import Callable, Iterable

import numpy as np

from pufferflow.core.arrays import Array, Floats, Indices
from pufferflow.distributions import common_units as masses
from pufferflow.distributions.coupling import Coupling
from pufferflow.distributions.finite_law import Law

_MANTISSA = 53
_UNFELT = 2.0**40


class Matching:
    """A coupling under construction: the remaining masses of both laws, and the matched ones.

    Masses are the laws' own weights as whole numbers. Those of rational laws have equal sums, so the coupling becomes
    exact; those of float laws may differ by rounding, and the caller places the last remainders.
    """

    def __init__(self, mu: Law, nu: Law) -> None:
        left, right, self.unit = masses.whole(mu, nu)
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
        rows, columns = ([at for at, rest in enumerate(side) if rest] for side in (self.left, self.right))
        i = j = 0
        while i < len(rows) and j < len(columns):
            self.take(rows[i], columns[j], self.left[rows[i]])
            i, j = i + (not self.left[rows[i]]), j + (not self.right[columns[j]])

    def match_slivers(self, costs: Callable[[int], Floats], costs_of_right: Callable[[int], Floats]) -> None:
        """Match the remainders that rounding leaves with atoms of the other law, although these have none left.

        A remainder goes to the cheapest atom whose mass it does not change in floats, and never where the cost is ∞.
        """
        for i, rest in enumerate(self.left):
            if rest:
                self._add(i, _partner(costs(i), self.nu.probabilities, rest / self.unit), rest)
        for j, rest in enumerate(self.right):
            if rest:
                self._add(_partner(costs_of_right(j), self.mu.probabilities, rest / self.unit), j, rest)

    def _add(self, i: int, j: int, amount: int) -> None:
        self._matched[i, j] = self._matched.get((i, j), 0) + amount

    def coupling(self) -> Coupling:
        pairs = np.array(list(self._matched), dtype=np.intp).reshape(-1, 2)
        amounts = np.array(list(self._matched.values()), dtype=object)
        return Coupling(self.mu, self.nu, pairs[:, 0], pairs[:, 1], masses.ratios(amounts, self.unit))


def _partner(costs: Floats, weights: Floats, sliver: float) -> int:
    possible = np.isfinite(costs)
    heavy = possible & (weights >= sliver * _UNFELT)
    if heavy.any():
        return int(np.where(heavy, costs, np.inf).argmin())
    return int(np.where(possible, weights, -1.0).argmax())
