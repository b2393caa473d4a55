"""The laws of a sum given two states of a row, as laws of their own, for chains that are short enough (M18)."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from typing import Any, final

import numpy as np

from pufferflow.errors import Misuse, Refused
from pufferflow.law import Law
from pufferflow.sums.extended import SPAN, convolved, tight
from pufferflow.sums.lattice import Lattice, lattice
from pufferflow.sums.sides import Sides
from pufferflow.sums.statistic import Flags, Floats, Sums, Whole, asked
from pufferflow.sums.three import Pair, conditional, possible

_MOST_POINTS = 100_000
_LEAST_MASS = 1e-290


def pair_of(sums: Sums, row: int, states: Pair, initial: int = 0) -> tuple[Law, Law]:
    """Return the laws of the sum given either of two states of a row, under one of the initial laws.

    Their masses are floats; Refused if one would be below 1e−290, or if the values have no common step.

    >>> from pufferflow.messages import Chain
    >>> stay = np.array([[[0.75, 0.25], [0.25, 0.75]]])
    >>> chain = Chain(stay, np.zeros(1, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> pair_of(Sums(chain, np.array([[0.0, 1.0]]), np.zeros(2, dtype=np.intp)), 0, (0, 1))
    (Law([0, 1], [0.75, 0.25]), Law([1, 2], [0.25, 0.75]))
    """
    if not 0 <= row < sums.length or not 0 <= initial < len(sums.chain.initial):
        raise Misuse(
            f"There is no row {row} under an initial law {initial}.",
            allowed=f"{sums.length} rows and {len(sums.chain.initial)} initial laws, counted from 0",
            instead="row=0, initial=0",
        )
    asked(sums, np.array(states), None)
    places = _Places(sums)
    past = next(islice(places.sides.pasts(sums.chain.initial[initial]), row, None))
    if not possible(past)[list(states)].all():
        raise Refused(
            f"Row {row} cannot have both states {states}.",
            allowed="states that have a probability above 0 there",
            instead="listed, which passes over the others",
        )
    future = next(islice(places.sides.futures_back(), sums.length - 1 - row, None))
    before, after = conditional(past.planes), conditional(future.planes)
    mu, nu = (places.law(row, state, before[state], after[state]) for state in states)
    return mu, nu


def listed(sums: Sums, pairs: Whole, rows: Flags | None = None) -> Iterator[tuple[int, Pair, Law, Law]]:
    """Yield every row, pair of states and the two laws, one order of each pair, for all initial laws in turn."""
    secrets, places = asked(sums, pairs, rows), _Places(sums)
    for initial in sums.chain.initial:
        sides = zip(places.sides.pasts(initial), places.sides.futures(), strict=True)
        for row, (past, future) in enumerate(sides):
            found = secrets.possible(possible(past)) if secrets.rows[row] else []
            before, after = conditional(past.planes), conditional(future.planes)
            laws = {
                state: places.law(row, state, before[state], after[state])
                for state in {a for pair in found for a in pair}
            }
            for a, b in found:
                yield row, (a, b), laws[a], laws[b]


@final
class _Places:
    """The numbers that the points of the whole sum stand for."""

    def __init__(self, sums: Sums) -> None:
        self._sums, self._lattice = sums, lattice(sums, _MOST_POINTS)
        if self._lattice.error:
            raise Refused(
                f"The values of {sums.length} rows have no common step, or their sum too many points.",
                allowed=f"whole multiples of one step, {_MOST_POINTS} points of the sum",
                instead="rounding the values to a grid first, or farthest and nearest",
            )
        self.sides = Sides(sums, self._lattice)
        self._numbers = _numbers(sums, self._lattice)

    def law(self, row: int, state: int, before: Floats, after: Floats) -> Law:
        """Return the law of the sum given a state of a row, from what comes before and after it."""
        planes = convolved(tight(before), tight(after))
        masses = sum((plane / SPAN**depth for depth, plane in enumerate(planes[:2])), np.zeros(planes.shape[1]))
        at = np.flatnonzero(planes.any(axis=0))
        if float(masses[at].min()) < _LEAST_MASS:
            raise Refused(
                "Some mass of the sum is below 1e-290, where floats lose it.",
                allowed="chains short enough for floats to hold every mass",
                instead="farthest, which keeps masses of any size, or nearest with a delta",
            )
        start = int(self._lattice.points[self._sums.kinds[row], state])
        return Law(self._numbers[at + start], masses[at] / masses.sum())


def _numbers(sums: Sums, where: Lattice) -> Any:
    """Return the numbers of all points: floats where those hold them exactly, Fractions otherwise."""
    counts = np.bincount(sums.kinds, minlength=len(where.lows)).tolist()
    lowest = sum((low * count for low, count in zip(where.lows, counts, strict=True)), Fraction(0))
    numbers = [lowest + where.step * point for point in range(where.size)]
    if all(float(number) == number for number in numbers):
        return np.array([float(number) for number in numbers])
    exact = np.empty(len(numbers), dtype=object)
    exact[:] = numbers
    return exact
