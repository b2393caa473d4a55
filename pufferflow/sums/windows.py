"""What a window around a row says of the whole sum: a certified nearness for chains of any length (M4, M18).

Let the window of row t reach from row t − h to row t + h, and let S be the sum over its rows but the last one. Given
X_{t−h} and X_{t+h} the rest of the sum is independent of X_t and of S. So if the joint laws of (X_{t−h}, S, X_{t+h})
given X_t = a and given X_t = b can be coupled, all but δ, with both ends equal and S within z, then continuing both by
the same rest gives a coupling of the whole sums that is within z, all but δ: they are (z, δ)-near. All that is lost
against the truth is the mass whose ends have not met, which falls geometrically in h for chains that forget. Where the
window reaches beyond an end of the chain, that whole side is in S and no state has to agree there.

Cheaper and coarser: given X_t the two halves of the window are independent. If the earlier half and its end are
(y, δ/2)-near in this sense, and the later half and its end (z, δ/2)-near, both couplings side by side give (y + z, δ).

Rows with the same steps and values around them, and the same law at the start of their window, share their answer.
"""

from typing import final

import numpy as np

from pufferflow.rounding import SMALLEST
from pufferflow.sums.lattice import Lattice
from pufferflow.sums.statistic import Flags, Floats, Sums, Whole

ALIKE = 1e-14
"""Laws whose logarithms fall into the same cells of this width are taken as one; `errors` of masses pay for it."""
ERRORS = 1000
_NEGLIGIBLE = 1e-150
_VISIBLE = 1e-250


@final
class Windows:
    """Carries sums from one row to a later one, for each state at either end; each pattern of rows once."""

    def __init__(self, sums: Sums, lattice: Lattice) -> None:
        self._sums, self._lattice = sums, lattice
        kinds = sums.kinds[:-1]
        self._code = np.unique(sums.chain.order * len(sums.values) + kinds, return_inverse=True)[1].astype(np.intp)
        self._known: dict[int, tuple[Floats, Floats]] = {}
        self.reach = 0
        """How many rows a window has on either side."""
        self.labels = self._code
        """What pattern of so many steps and values starts at each row; equal patterns have equal labels."""

    def widen(self, reach: int) -> None:
        """Set how many rows a window has on either side."""
        self._known.clear()
        self.reach, self.labels = reach, _patterns(self._code, reach)

    def carried(self, start: int) -> tuple[Floats, Floats]:
        """Return P(X_{start+h} = y, Σ of the values of rows start … start+h−1 = s | X_start = x), and its sum over s.

        Masses below 1e−150 are dropped; the sum over s has them all.
        """
        label = int(self.labels[start])
        if label not in self._known:
            self._known[label] = self._carry(start)
        return self._known[label]

    def past(self, row: int, law: Floats) -> Floats:
        """Return P(X_{row−h} = c, S = s | X_row = a) at [a, c, s], given the law of row − h."""
        masses, product = self.carried(row - self.reach)
        total = (law @ product)[:, None, None]
        joint = (law[:, None, None] * masses).transpose(1, 0, 2)
        # what is left out here counts as unmatched later
        return np.where(total > _VISIBLE, joint / np.maximum(total, _VISIBLE), 0.0)

    def _carry(self, start: int) -> tuple[Floats, Floats]:
        states = self._sums.chain.states
        masses, product = np.eye(states)[:, :, None], np.eye(states)
        for row in range(start, start + self.reach):
            kernel = self._sums.chain.kernels[self._sums.chain.order[row]]
            moved = np.zeros((states, states, masses.shape[2] + int(self._lattice.spans[row])))
            for state, by in enumerate(self._lattice.points[self._sums.kinds[row]].tolist()):
                moved[:, state, by : by + masses.shape[2]] = masses[:, state]
            masses = kernel.T @ moved
            masses[masses < _NEGLIGIBLE] = 0.0
            product = product @ kernel
        return masses, product


def marginals(sums: Sums, initial: Floats) -> tuple[Floats, Flags]:
    """Return the law of each row, and which states it can have; what underflows keeps the smallest float."""
    kernels = sums.chain.kernels
    links = kernels > 0
    laws = np.empty((sums.length, sums.chain.states))
    reached = np.empty(laws.shape, dtype=np.bool_)
    laws[0], reached[0] = initial, initial > 0
    for row, kernel in enumerate(sums.chain.order.tolist()):
        laws[row + 1] = laws[row] @ kernels[kernel]
        reached[row + 1] = reached[row] @ links[kernel]
    return np.where(reached, np.maximum(laws, SMALLEST), 0.0), reached


def alike(laws: Floats) -> Whole:
    """Return a label for each law: those with the same one are equal within `ALIKE`."""
    cells = np.rint(np.log(np.where(laws > 0, laws, 1.0)) / ALIKE)
    cells = np.where(laws > 0, cells, 1.0)
    labels = np.zeros(len(laws), dtype=np.intp)
    for column in cells.T:
        found = np.unique(column, return_inverse=True)[1]
        labels = np.unique(labels * (int(found.max()) + 1) + found, return_inverse=True)[1].astype(np.intp)
    return labels


def _patterns(code: Whole, length: int) -> Whole:
    """Return a label for each run of so many codes, by the place where it starts; equal runs have equal labels."""
    labels, done = code, 1
    while done < length:
        step = min(done, length - done)
        size = len(labels) - step
        pairs = labels[:size] * (int(labels.max(initial=0)) + 1) + labels[step : step + size]
        labels, done = np.unique(pairs, return_inverse=True)[1].astype(np.intp), done + step
    return labels
