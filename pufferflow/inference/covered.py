"""Laws of answers whose cells are open or many, and of rows that are rounded to whole steps: movements, not lists.

Of many cells, or of rows whose cells are open, all rows of the group are a bound (M7, M20). Rounding rows one by one,
as answers about an interval need, adds at most a step for each row that moves (M1, M13).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast, final

import numpy as np

from pufferflow.bounds import DependentRows, Laws, Pair, Place, Reach, WorkEstimate
from pufferflow.errors import Refused
from pufferflow.inference.cells import Cells
from pufferflow.inference.gaussian_mixture import MixtureRows
from pufferflow.inference.group import values_of
from pufferflow.inference.movement import two_points
from pufferflow.law import Law
from pufferflow.rounding import float_above
from pufferflow.scenario import AnySecret
from pufferflow.scenario.priors import Prior
from pufferflow.transport import Certainty

_MOST_STEPS = 10_000


@final
class CoveringLaws(Laws):
    """What holds of all patterns whose rows are among those given, in whatever cells they are.

    `one` are the laws of all rows in a single cell. Its walks serve every split into cells: outputs see a row through
    its exposure ℓ_t alone, a sum over the answers that the row touches (M20), and each row touches the answers of one
    cell, with the same weights in all of them.

    They serve every pattern inside, too. Rows that a pattern does not have, or does not ask about, have the exposure 0
    along the same chain, whose kernels over gaps are products of its own and whose marginals do not depend on which
    rows are there; messages grow with exposures, and secrets are at fewer rows. So all groups have to have begun at the
    same position, unless positions may be shifted (`Prior.repeats`). On a star (M21), which has no positions, n rows
    tell no more of the class than n asked rows do, and a secret row that is not asked about leaves n − 1 others.

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
                f"Listing the movements of up to {self._dimension} answers about cells that are open, or too many.",
                allowed=f"at most {_MOST_STEPS} answers, about cells that are known",
                instead="bound=pf.Messages(), pf.GWM() or pf.Group(), which need no list",
            )
        return [two_points(self._cells.steps, self._prior, self._secrets)]

    @property
    def dimension(self) -> int:
        """The most there can be, if cells are open."""
        return self._dimension

    @property
    def certainty(self) -> Certainty:
        return Certainty.UPPER_BOUND

    @cached_property
    def small(self) -> bool:
        """Whether there is a pair to look at: not where it would stand for other numbers of answers."""
        return self._dimension == len(self._cells.steps) <= _MOST_STEPS

    def walks(self) -> Sequence[DependentRows]:
        """Return the walks of one cell, as those of so many answers: noises of their own are on each of them."""
        return [replace(cast(Any, walk), answers=self._dimension) for walk in self._of_one_cell.walks()]

    @cached_property
    def work(self) -> WorkEstimate:
        """That of one cell, along its walks and where it is compared."""
        single_cell = self._of_one_cell.work
        known = WorkEstimate(single_cell.walk, *((single_cell.winf, single_cell.near) if self._scattered else ()))
        return known._replace(coarse=single_cell.coarse)

    def winf(self, norm: float) -> Reach:
        whole = self.span(norm)
        if not self._scattered:
            return whole
        return replace(whole, length=min(whole.length, self._of_one_cell.winf(norm).length))

    def near(self, delta: float, norm: float) -> Reach:
        """Return the movement: what moves less, and how often, is not known."""
        return self.winf(norm)

    def span(self, norm: float) -> Reach:
        place = Place(self._dimension, self._prior, self._secrets, 0)
        return Reach(self._cells.length(norm), Certainty.UPPER_BOUND, place)


@final
class Rounded(Laws):
    """Laws of linear φ, whose rows are read as whole steps: k(x) is φ(x), rounded monotonically.

    A row that moves in the linear answers moves by up to a step more in the rounded ones, |k(a) − k(b)| ≤ |φ(a) − φ(b)|
    + 1 step; a row that does not move stays. So every coupling that moves the answers by z moves them by z and the
    rounding of all rows that can move (M1), and never by more than the group, whose ends are whole steps themselves:
    between them k lies as φ does. `growth` is the rounding, `group` the movement of all rows between the ends.
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
        """Return walks that count movements of whole answers, grown as these do; others follow single rows."""
        walks = self._laws.walks()
        if not all(isinstance(walk, MixtureRows) for walk in walks):
            return super().walks()
        return [cast(MixtureRows, walk).grown(self._growth.length, self._group.length) for walk in walks]

    def least_winf(self, norm: float) -> Reach:
        """Return what the linear answers need; rounding adds to it, so what is found is not below."""
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
