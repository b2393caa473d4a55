"""Movements of answers with unknown or many cells, and of rows that are rounded to whole steps; no laws are listed.

For many or unknown cells, the movement of all rows of the group is a bound (M7, M20). Rounding rows one by one, as
answers about an interval need, adds at most a step for each row that moves (M1, M13).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast, final

import numpy as np

from pufferflow.calibration.dependent_rows import DependentRows
from pufferflow.calibration.law_pairs import Pair, Place
from pufferflow.calibration.laws import Laws, Reach, WorkEstimate
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import float_above
from pufferflow.distributions.coupling import Certainty
from pufferflow.distributions.finite_law import Law
from pufferflow.models.priors.base import Prior
from pufferflow.models.secret import AnySecret
from pufferflow.sensitivity.cells import Cells
from pufferflow.sensitivity.gaussian_mixture import MixtureRows
from pufferflow.sensitivity.group import values_of
from pufferflow.sensitivity.movement import two_points

_MOST_STEPS = 10_000


@final
class CoveringLaws(Laws):
    """Bounds for all patterns whose rows are among those given, whatever their cells.

    `one` are the laws of all rows in a single cell. Its walks are valid for every split into cells: outputs depend on a
    row only through its exposure ℓ_t, a sum over the answers that the row touches (M20), and each row touches the
    answers of one cell, with the same weights in all cells.

    The walks are valid for every smaller pattern, too. Rows that a pattern does not have, or that are not queried, have
    the exposure 0 along the same chain. Its kernels over gaps are products of its own, and its marginals do not depend
    on which rows are there. Messages grow with exposures, and there are fewer secret rows. So all groups have to begin
    at the same position, unless positions may be shifted (`Prior.repeats`). On a star (M21), which has no positions,
    n rows reveal no more of the class than n queried rows, and a secret row that is not queried leaves n − 1 others.

    Movements are those of the group (`Cells`), or of one cell where `scattered` says that no split moves farther.
    """

    movement_only = True

    def __init__(  # noqa: PLR0913 - prior, secret and two bounds
        self, prior: Prior, secret: AnySecret, of_one_cell: Laws, cells: Cells, dimension: int, *, scattered: bool
    ) -> None:
        self._prior, self._secrets, self._of_one_cell, self._cells = prior, values_of(secret), of_one_cell, cells
        self._dimension, self._scattered = dimension, scattered

    @cached_property
    def pairs(self) -> Sequence[Pair]:
        if not self.small:
            raise Refused(
                f"Listing the movements of up to {self._dimension} answers about cells that are unknown, or too many.",
                allowed=f"at most {_MOST_STEPS} answers, about cells that are known",
                instead="bound=pf.Messages(), pf.GWM() or pf.Group(), which need no list",
            )
        return [two_points(self._cells.steps, self._prior, self._secrets)]

    @property
    def dimension(self) -> int:
        """The largest number of answers, if the cells of rows are unknown."""
        return self._dimension

    @property
    def certainty(self) -> Certainty:
        return Certainty.UPPER_BOUND

    @cached_property
    def small(self) -> bool:
        """Whether there is a pair to list: not where it would represent other numbers of answers."""
        return self._dimension == len(self._cells.steps) <= _MOST_STEPS

    def walks(self) -> Sequence[DependentRows]:
        """Return the walks of one cell for this number of answers, each with independent noise."""
        return [replace(cast(Any, walk), answers=self._dimension) for walk in self._of_one_cell.walks()]

    @cached_property
    def work(self) -> WorkEstimate:
        """The work of one cell, along its walks and for its comparisons."""
        single_cell = self._of_one_cell.work
        known = WorkEstimate(single_cell.walk, *((single_cell.winf, single_cell.near) if self._scattered else ()))
        return known._replace(coarse=single_cell.coarse)

    def winf(self, norm: float) -> Reach:
        whole = self.span(norm)
        if not self._scattered:
            return whole
        return replace(whole, length=min(whole.length, self._of_one_cell.winf(norm).length))

    def near(self, delta: float, norm: float) -> Reach:
        """Return the movement: how much of the mass moves less is not known."""
        return self.winf(norm)

    def span(self, norm: float) -> Reach:
        place = Place(self._dimension, self._prior, self._secrets, 0)
        return Reach(self._cells.length(norm), Certainty.UPPER_BOUND, place)


@final
class Rounded(Laws):
    """Laws of linear φ, whose rows are read as whole steps: k(x) is φ(x), rounded monotonically.

    A row that moves in the linear answers moves by up to a step more in the rounded ones,
    |k(a) − k(b)| ≤ |φ(a) − φ(b)| + 1 step; a row that does not move stays. So every coupling that moves the linear
    answers by z moves the rounded ones by at most z plus the rounding of all rows that can move (M1). They never move
    by more than the group, whose ends are whole steps: k and φ have the same ends. `growth` is the rounding, `group`
    the movement of all rows between the ends.
    """

    movement_only = True

    def __init__(self, laws: Laws, growth: Cells, group: Cells) -> None:
        self._laws, self._growth, self._group = laws, growth, group

    @cached_property
    def pairs(self) -> Sequence[Pair]:
        """Two points as far apart as each linear answer moves in any pair, with its rounding."""
        linear = list(self._laws)
        moved = np.max([_distances(pair) for pair in linear], axis=0)
        grown = np.minimum(np.nextafter(moved + self._growth.steps, np.inf), self._group.steps)
        return [two_points(grown, linear[0].prior, linear[0].secrets, linear[0].row)]

    @property
    def dimension(self) -> int:
        return self._laws.dimension

    @property
    def certainty(self) -> Certainty:
        return self._laws.certainty

    @cached_property
    def work(self) -> WorkEstimate:
        return self._laws.work

    @cached_property
    def small(self) -> bool:
        return self._laws.small

    def winf(self, norm: float) -> Reach:
        return self._grown(self._laws.winf, norm)

    def near(self, delta: float, norm: float) -> Reach:
        return self._grown(lambda norm: self._laws.near(delta, norm), norm)

    def span(self, norm: float) -> Reach:
        return self._grown(self._laws.span, norm)

    def walks(self) -> Sequence[DependentRows]:
        """Return walks by movements of whole answers, increased by the rounding; other walks follow single rows."""
        walks = self._laws.walks()
        if not all(isinstance(walk, MixtureRows) for walk in walks):
            return super().walks()
        return [cast(MixtureRows, walk).grown(self._growth.length, self._group.length) for walk in walks]

    def least_winf(self, norm: float) -> Reach:
        """Return the least loss of the linear answers, a lower bound, since rounding only adds to it."""
        return self._laws.least_winf(norm)

    def least_near(self, delta: float, norm: float) -> Reach:
        return self._laws.least_near(delta, norm)

    def _grown(self, measure: Callable[[float], Reach], norm: float) -> Reach:
        reach, whole = measure(norm), self._group.length(norm)
        if reach.length >= whole:
            return replace(reach, length=whole)
        grown = float_above(Fraction(reach.length) + Fraction(self._growth.length(norm)))
        certainty = reach.certainty if grown == reach.length else Certainty.UPPER_BOUND
        return replace(reach, length=min(grown, whole), certainty=certainty)


def _distances(pair: Pair) -> list[float]:
    """Return how far apart the points of a pair are, coordinate by coordinate, rounded up."""
    left, right = (np.atleast_1d(np.asarray(law.values)[0]) for law in pair if isinstance(law, Law))
    return [float_above(abs(Fraction(a) - Fraction(b))) for a, b in zip(left, right, strict=True)]
