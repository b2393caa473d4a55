"""Losses of adaptive releases about the law that all rows are drawn from, by how many rows differ (M59).

Couple the data sets under two laws once, row by row: a row differs with the probability τ of their total variation, so
the number N of rows that differ is binomial. A fixed pair of data sets moves an answer at most N times as far as one
row does. So the loss between them is known from N, and losses of mixtures are at most the mixtures of losses.

One number, the *information*, limits every path of answers: the squares of what one row moves, in deviations of the
noise, add up to at most that. The law of N counts all rows that releases may ever touch, fixed beforehand, and every
bound grows with the information. So the bounds hold for each adversary who is stopped there.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.calibration.latent_mixture import counts_of_differing, least_epsilon, sticks
from pufferflow.core.arrays import Floats
from pufferflow.core.rounding import UNIT
from pufferflow.privacy.conversions import two_point_delta

_MOST_COUNTS, _BEYOND = 256, 64


@final
@dataclass(frozen=True, eq=False)
class DifferingRowsLoss:
    """The loss between two laws of a row, if so many rows are drawn from one of them.

    >>> loss = DifferingRowsLoss(np.array([[0.6, 0.4], [0.7, 0.3]]), 50)
    >>> round(loss.renyi(1 / 20**2, 2.0), 4)
    0.0756
    """

    laws: Floats
    rows: int

    @cached_property
    def _differing(self) -> tuple[Floats, Floats]:
        """The masses of numbers of rows that differ, and these numbers."""
        return counts_of_differing(self.laws, self.rows, _MOST_COUNTS, _BEYOND)

    def delta(self, information: float, epsilon: float) -> float:
        """Return a δ that is kept with ε by all releases up to that information."""
        if not math.isfinite(information):
            return 1.0
        masses, counts = self._differing
        root = math.sqrt(information) * (1 + 2 * UNIT)
        return min(float((masses * sticks(root * counts, epsilon)).sum()) * (1 + 64 * UNIT), 1.0)

    def delta_of_pure(self, exposure: float, epsilon: float) -> float:
        """Return a δ that is kept with ε by all releases whose pure losses about one row add up to `exposure`."""
        if not math.isfinite(exposure):
            return 1.0
        masses, counts = self._differing
        deltas = [
            two_point_delta(exposure * count * (1 + UNIT), epsilon) for count in counts.tolist()
        ]
        return min(float((masses * np.array(deltas)).sum()) * (1 + 64 * UNIT), 1.0)

    def epsilon(self, information: float, delta: float, least: float = 0.0) -> float:
        """Return an ε, at least `least`, that is kept with δ up to that information; ∞ if none is found."""
        return least_epsilon(self.delta, information, delta, least)

    def renyi(self, information: float, alpha: float) -> float:
        """Return the Rényi loss of an order that all releases up to that information keep."""
        if information == 0 or not math.isfinite(information):
            return information
        masses, counts = self._differing
        with np.errstate(divide="ignore"):  # no such number of rows has any mass
            logs = np.log(masses)
        logs = logs + (alpha - 1) * alpha * information / 2 * counts**2
        total = float(np.logaddexp.reduce(logs))
        rounding = 64 * UNIT * (alpha + abs(total))
        return max(total + rounding, 0.0) / (alpha - 1) * (1 + 8 * UNIT)

    def gaussian(self, information: float) -> float:
        """Return a μ such that all releases up to that information are μ-Gaussian: where all rows differ."""
        return math.sqrt(information) * self.rows * (1 + 4 * UNIT)

    def concentrated(self, information: float) -> float:
        """Return a ρ such that all releases up to that information are ρ-concentrated: where all rows differ."""
        return information / 2 * self.rows**2 * (1 + 8 * UNIT)
