"""The laws of what comes before a row and of what comes after it, given its state; independent of each other (M18).

Future: F_t(a, ·) = Σ_b P_t(a, b) · F_{t+1}(b, · − v_{t+1}(b)), the law of Σ_{u>t} v_u(X_u) given X_t = a.
Past:   G_{t+1}(b, ·) = Σ_a P_t(a, b) · G_t(a, · − v_t(a)), the joint law of Σ_{u<t} v_u(X_u) and X_t; divided by its
total for each state it is the law given X_t = b.
"""

import math
from collections.abc import Iterator
from typing import final

import numpy as np

from pufferflow.sums.extended import Masses, mixed, settled, shifted
from pufferflow.sums.lattice import Lattice
from pufferflow.sums.statistic import Floats, Sums


@final
class Sides:
    """Both recursions along the rows of a sum on a lattice."""

    def __init__(self, sums: Sums, lattice: Lattice) -> None:
        self._chain, self._kinds, self._lattice = sums.chain, sums.kinds, lattice
        kernels: list[Floats] = list(sums.chain.kernels)
        self._forth: list[Masses] = [settled(kernel[None]) for kernel in kernels]
        self._back: list[Masses] = [settled(kernel.T[None].copy()) for kernel in kernels]

    def pasts(self, initial: Floats) -> Iterator[Masses]:
        """Yield G_t for t = 0, 1, …, from one initial law."""
        law = settled(initial[None, :, None])
        yield law
        for row, kernel in enumerate(self._chain.order.tolist()):
            law = mixed(self._back[int(kernel)], self._moved(law, row))
            yield law

    def futures_back(self) -> Iterator[Masses]:
        """Yield F_t from the last row to the first."""
        return self._futures(self._nothing(), self._chain.length - 1, 0)

    def futures(self) -> Iterator[Masses]:
        """Yield F_t for t = 0, 1, …: every √n-th is kept on the way back, and those between are worked out again."""
        rows = self._chain.length
        every = math.isqrt(rows - 1) + 1
        kept = {rows - 1 - i: law for i, law in enumerate(self.futures_back()) if (rows - 1 - i) % every == 0 or i == 0}
        for start in range(0, rows, every):
            end = min(start + every, rows - 1)
            block = list(self._futures(kept[end], end, start))[::-1]
            yield from block[:-1]
        yield kept[rows - 1]

    def _futures(self, law: Masses, row: int, until: int) -> Iterator[Masses]:
        """Yield F_t from a row, whose law is given, back to another."""
        yield law
        for before in range(row - 1, until - 1, -1):
            law = mixed(self._forth[int(self._chain.order[before])], self._moved(law, before + 1))
            yield law

    def _moved(self, law: Masses, row: int) -> Masses:
        """Add the value of a row to the sum, for each of its states."""
        return shifted(law, self._lattice.points[self._kinds[row]], int(self._lattice.spans[row]))

    def _nothing(self) -> Masses:
        return Masses(np.ones((1, self._chain.states, 1)), 1.0)
