"""From a channel's ε on every row to the loss under a scenario, and back (M35).

For any mechanism that publishes rows, its exposure, what it reveals about one row given all others, bounds the loss.
The loss is ε itself if rows are independent; along chains and trees the result of messages, as for noisy sums with
these exposures; and k·ε under any prior if a group has k published rows. The least of these that apply counts. For the
secret's own column it is never below ε: each release is differentially private for one row, too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np

from pufferflow.calibration.bound import Bound
from pufferflow.calibration.dependent_rows import DependentRows
from pufferflow.calibration.distance_bounds import Group
from pufferflow.calibration.law_pairs import Place, Witness
from pufferflow.calibration.laws import read_laws
from pufferflow.calibration.messages import Messages
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused
from pufferflow.core.roots import smallest
from pufferflow.core.rounding import float_above
from pufferflow.models.priors.gaussian_mixture import GaussianMixture
from pufferflow.models.secret import AnySecret, Derived, ValueSecret
from pufferflow.noise.laplace import Laplace
from pufferflow.release.planning.public_metadata import PublicMetadata
from pufferflow.release.planning.sum_tables import Tables, tables_of

HALF = 0.5
"""The weight of each of a row's two counts that differ between two values: together they move by 1."""
_LARGER = 1 + 2.0**-40
_CLOSE = 1e-7
_DIGITS = 6
_LONG = 3e10
"""The number of operations from which on messages are coarse: about a second for each ε that is tried."""


@final
@dataclass(frozen=True, eq=False)
class RowLoss:
    """A loss, the bound that proves it, and the costliest pair of secrets."""

    value: float
    bound: Bound
    witness: Witness


@final
@dataclass(frozen=True, eq=False)
class RowLosses:
    """The loss under a request's scenario if each selected row goes through a channel with some ε."""

    facts: PublicMetadata

    @property
    def values(self) -> Floats:
        """The counts of every value, at the points of the domain."""
        return self.facts.functions.at_values

    @cached_property
    def weights(self) -> Floats:
        """The weights of these counts."""
        return np.full(len(self.facts.request.measures), HALF)

    @cached_property
    def tables(self) -> list[list[Tables]]:
        """For each prior the counts as the planner represents them."""
        scenario = self.facts.request.scenario
        return [tables_of(prior, scenario.secret, self.facts.functions) for prior in scenario.priors]

    @cached_property
    def _beliefs(self) -> "list[tuple[Sequence[Tables], int, _Walks | None]]":
        """For each prior its counts, the most published rows of a group, and the walks along its rows."""
        return [(tables, self._rows(tables), self._walks(tables)) for tables in self.tables]

    def of(self, epsilon: float) -> RowLoss:
        """Return the loss under the worst prior, rounded up."""
        return max((self._under(*belief, epsilon) for belief in self._beliefs), key=lambda loss: loss.value)

    def largest_epsilon(self, loss: float, most: float) -> float:
        """Return an ε, `most` or less, whose loss is at most a given one: near the largest, in few digits.

        Losses grow with exposures, and are at most as many times ε as a group has rows (M36).
        """
        if self.of(most).value <= loss:
            return most
        rows = max(rows for _, rows, _ in self._beliefs)
        least = loss / max(rows, 1) * (1 - _CLOSE)
        inverse = smallest(lambda inverse: self.of(1 / inverse).value - loss, 1 / least, _CLOSE)
        return _rounded_down(1 / inverse)

    def _under(self, tables: Sequence[Tables], rows: int, walks: "_Walks | None", epsilon: float) -> RowLoss:
        """Return the loss under one prior."""
        group = RowLoss(float_above(max(rows, 1) * Fraction(epsilon)), Group(), self._place(tables))
        if walks is None:
            return group
        try:
            walked = walks.loss(epsilon)
        except Refused:
            return group
        return min(group, walked, key=lambda loss: loss.value)

    def _rows(self, tables: Sequence[Tables]) -> int:
        """Return how many published rows a group may have; independent rows are each a group."""
        prior = tables[0].prior
        if prior.independent_rows:
            return 1
        return max((pattern.selected for pattern in self.facts.patterns(prior).distinct), default=0)

    def _walks(self, tables: Sequence[Tables]) -> "_Walks | None":
        """Return the walks along the chains or trees of a prior; None for other priors."""
        of_secret = tells_of_itself(self.facts.request.scenario.secret, self.facts.request.column)
        # a row alone reveals its own value by ε; walks of a mixture follow whole answers, not rows
        if (of_secret and self._rows(tables) <= 1) or isinstance(tables[0].prior, GaussianMixture):
            return None
        try:
            pieces = read_laws(self.facts.laws([tables], self.weights))
            coarse = any(laws.work.walk > _LONG and math.isfinite(laws.work.coarse) for laws in pieces)
            walks = [walk.coarse() if coarse else walk for laws in pieces for walk in laws.walks()]
        except Refused:
            return None
        return _Walks(walks, Messages(coarse=coarse), of_secret)

    def _place(self, tables: Sequence[Tables]) -> Place:
        secret = self.facts.request.scenario.secret
        named: Any = secret.value_pairs()[0] if isinstance(secret, ValueSecret) else None
        return Place(len(self.values), tables[0].prior, named, 0)


@final
@dataclass(frozen=True, eq=False)
class _Walks:
    """The walks along correlated rows, and the bound that they are."""

    walks: Sequence[DependentRows]
    bound: Messages
    of_secret: bool
    """Whether the published column is the secret's: then its own row loses ε, whatever the prior."""

    def loss(self, epsilon: float) -> RowLoss:
        """Return the largest loss."""
        value, witness = max((walk.loss(noise_like(epsilon)) for walk in self.walks), key=lambda found: found[0])
        return RowLoss(max(value, epsilon) if self.of_secret else value, self.bound, witness)


def noise_like(epsilon: float) -> Laplace:
    """Return the noise that exposes a row to sums of its counts a little more than a channel with this ε does."""
    return Laplace(1 / (epsilon * _LARGER))


def _rounded_down(number: float) -> float:
    short = float(f"{number:.{_DIGITS}g}")
    return short if short <= number else float(f"{number * (1 - 10.0 ** (1 - _DIGITS)):.{_DIGITS}g}")


def tells_of_itself(secret: AnySecret, column: str | None) -> bool:
    """Return whether a published column is the secret's own: then a row's draw loses all of its ε about it."""
    own = secret.name if isinstance(secret, Derived) else getattr(secret, "column", None)
    return own is not None and column == own
