"""Laws on the whole numbers 0, 1, … N − 1 with float masses that never underflow: sums of very many rows (M8).

Masses are kept on planes of growing exponents, so W_∞ sees the farthest tails. Only laws whose masses all fit floats
can be listed as a `Law`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.errors import Refused
from pufferflow.law import Law
from pufferflow.messages.chain import Floats
from pufferflow.priors.probabilities import Array
from pufferflow.rounding import UNIT
from pufferflow.sums.extended import SPAN, convolved, settled
from pufferflow.sums.levels import Gap, Yardstick, gap, levels

FAINT = 1e-290
"""Below this a mass may have been an underflow."""
_LEAST_GIVEN = 2.0**-900


@final
@dataclass(frozen=True, eq=False)
class Dense:
    """A law on 0, 1, … N − 1: Σ_l planes[l] · 2^(−900·l), of shape (L, N)."""

    planes: Floats

    @classmethod
    def of(cls, points: Array, masses: Floats) -> "Dense":
        """Return the law of one row: masses at whole numbers, equal ones added up."""
        if masses[masses > 0].min() < _LEAST_GIVEN:
            raise faint()
        row = np.zeros(int(points.max()) + 1)
        np.add.at(row, points.astype(np.intp), masses)
        return cls(settled(row[None]).planes)

    @classmethod
    def mixture(cls, laws: "Sequence[Dense]", weights: Floats) -> "Dense":
        """Return the law of a draw from one of the laws."""
        if weights.min() < _LEAST_GIVEN:
            raise faint()
        planes = np.zeros((max(len(law.planes) for law in laws), max(map(len, laws))))
        for law, weight in zip(laws, weights.tolist(), strict=True):
            planes[: len(law.planes), : len(law)] += law.planes * weight
        return cls(settled(planes).planes)

    def __len__(self) -> int:
        """Return the number of points."""
        return self.planes.shape[1]

    @property
    def faint(self) -> bool:
        """Whether some mass is too small for a float."""
        return len(self.planes) > 1 and bool(((self._floats < FAINT) & self.planes.any(axis=0)).any())

    @property
    def _floats(self) -> Floats:
        return self.planes[0] + (self.planes[1] / SPAN if len(self.planes) > 1 else 0.0)

    def convolve(self, other: "Dense") -> "Dense":
        """Return the law of a sum."""
        return Dense(settled(convolved(self.planes, other.planes)).planes)

    def law(self) -> Law:
        """Return the same as a law, if no mass is lost."""
        if self.faint:
            raise faint()
        return self.most()

    def most(self) -> Law:
        """Return the same without what is too small for floats: a share below 1e-280 of it."""
        masses = self._floats
        kept = masses >= FAINT
        return Law(np.flatnonzero(kept), masses[kept] / masses.sum())

    def winf(self, other: "Dense", error: int) -> Gap:
        """Return W_∞ in steps, for masses known to `error` half units in the last place."""
        coarse = max(len(self.planes), len(other.planes)).bit_length()
        by = Yardstick(error, coarse, (2 * (error + 1) >> coarse) + 2)
        return gap(levels(self.planes, 0, by), levels(other.planes, 0, by), by, Gap(-1, -1, -1))


def rounding(error: int) -> float:
    """Return how much of two laws so exact rounding can have brought from one to the other."""
    return 2 * (error + 1) * UNIT


def faint() -> Refused:
    """Return the refusal of float masses that could be lost."""
    return Refused(
        "Some answers have a probability below 1e-290, where floats lose it.",
        allowed="fewer rows in a group, or probabilities given as Fractions",
        instead="bound=pf.Messages(), pf.GWM() or pf.Group(), which need no list of answers",
    )
