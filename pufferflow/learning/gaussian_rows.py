"""Jointly Gaussian rows in an iteration: each moves by a share of the secret row's movement (M15, M33).

The movement for any secret row of a stretch is at most that if all of the stretch counts as near as its nearest row.
For stationary rows the cost is at most that of moving later. So a stretch has one bound, and only stretches whose bound
is above all others are split (branch and bound).
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.core.validate import finite_number, instance, set_fields
from pufferflow.learning.descent import Descent, read_places
from pufferflow.learning.displacements import Displacements, Proofs
from pufferflow.learning.iteration import Iteration
from pufferflow.learning.losses import largest_displacement
from pufferflow.models.priors.gaussian import GaussianPrior
from pufferflow.privacy.guarantee import GuaranteeFamily

_CLOSE = 1e-3
_MOST = 400
_DENSE = 1500
_FAINT = 1e-15
_MANY = 20_000
_GATHERED = 1000
_INSTEAD = "pf.learning.GaussianRows(pf.GaussianPrior(pf.AR1(0.9)), 2.0, descent)"


@final
@dataclass(frozen=True, eq=False, init=False)
class GaussianRows:
    """Jointly Gaussian rows of one group that a descent visits; the secret is any one of them.

    If the secret row moves by `reach`, row r moves by |Cov(X_r, X_i)/Var(X_i)| · reach with probability 1, whatever the
    mean and the variance: by one translation of all rows, which clipping to a ball or a box does not lengthen. With
    several columns that have the same covariances in all rows (`across`) reach is the length of the secret row's own
    movement, in all columns. `rows` are the places of the group's rows among the rows of the descent, in rising order
    (by default all), `positions` their positions in the prior. Other rows are independent of the group.

    >>> import pufferflow as pf
    >>> descent = pf.learning.Descent(300, 1.0, noise=1.0, lipschitz=1.0, smoothness=1.0, data_lipschitz=1.0)
    >>> rows = pf.learning.GaussianRows(pf.GaussianPrior(pf.AR1(0.5)), 1.0, descent)
    >>> found = pf.learning.iteration_loss(descent.iteration, rows, pf.Renyi.of(alpha=2))
    >>> found.proof, round(found.value, 4), round(found.losses["group"], 1)
    ('translation', 1.4583, 1200.0)
    """

    prior: GaussianPrior
    reach: float
    descent: Descent
    rows: Indices
    positions: Floats
    _known: dict[tuple[int, int], list[Displacements]] = field(repr=False)

    def __init__(
        self, prior: GaussianPrior, reach: float, descent: Descent, *, rows: Any = None, positions: Any = None
    ) -> None:
        instance(prior, GaussianPrior, "The prior", allowed="pf.GaussianPrior", instead=_INSTEAD)
        instance(descent, Descent, "The descent", allowed="pf.learning.Descent", instead=_INSTEAD)
        length = finite_number(reach, "reach", allowed="a number >= 0", instead="reach=1.0", fits=lambda r: r >= 0)
        places, times = read_places(rows, positions, descent.rows)
        if (np.diff(places) <= 0).any():
            raise UsageError(
                "Rows that do not rise.", allowed="rows in the order of the descent", instead="rows=[0, 1, 2]"
            )
        prior.covariance.check(times)
        set_fields(self, prior=prior, reach=length, descent=descent, rows=places, positions=times, _known={})

    def proofs(self, iteration: Iteration, kind: GuaranteeFamily) -> Proofs:
        """Return the loss by the translation, for the row that loses most, and that of the whole group."""
        self.descent.check(iteration)
        group = self.descent.displacements_of([(self.rows, np.full(len(self.rows), np.inf))])
        found = {"group": (largest_displacement(iteration, group, kind)[0], 0)}
        if self._factors is not None and len(self._factors) <= _DENSE:
            every = self.descent.displacements_of([self._moving(row) for row in self._factors])
            return found | {"translation": largest_displacement(iteration, every, kind)}
        falls_off = self.prior.covariance.stationary and self.prior.covariance.falls_off
        if not falls_off or iteration.contractions.max() > 1:  # if steps expand, a later movement may cost less
            return found

        def bound(first: int, last: int) -> float:
            if (first, last) not in self._known:
                self._known[first, last] = self._of_stretch(first, last)
            return min(largest_displacement(iteration, moved, kind)[0] for moved in self._known[first, last])

        return found | {"translation": largest_over_rows(len(self.rows), bound)}

    @cached_property
    def _factors(self) -> Floats | None:
        """Each row's share of the movement of each possible secret, of shape (secrets, rows); None if too many."""
        covariance = self.prior.covariance
        places = covariance.places(self.positions)
        if len(places) * len(self.rows) > _DENSE * _DENSE or self._gaps:
            return None
        return np.maximum(*covariance.toward(places, self.positions))

    @property
    def _gaps(self) -> bool:
        """Whether there may be secret rows between those that are visited."""
        return self.prior.covariance.stationary and bool((np.diff(self.positions) != 1).any())

    def _near(self, first: int, last: int) -> Floats:
        """Return the factors of all rows if the secret is somewhere from one row to another, or before the next."""
        if not self._gaps:
            lags = self._by_lag
            return np.concatenate([lags[first:0:-1], np.full(last - first + 1, lags[0]), lags[1 : len(lags) - last]])
        covariance, end = self.prior.covariance, self.positions[min(last + 1, len(self.positions) - 1)]
        lags = np.maximum(np.maximum(self.positions[first] - self.positions, self.positions - end), 0.0)
        return np.maximum(*covariance.toward(np.zeros(1), lags))[0]

    def _of_stretch(self, first: int, last: int) -> list[Displacements]:
        """Return displacements each of which costs at least as much as that of any secret row of a stretch."""
        nearest = self.descent.displacements_of([self._moving(self._near(first, last))])
        if first == last or not self._regular:
            return [nearest]
        return [nearest, self._shifted(last)]

    @cached_property
    def _by_lag(self) -> Floats:
        """The factors of stationary rows at lags of 0, 1, 2, … steps."""
        return np.maximum(*self.prior.covariance.toward(np.zeros(1), np.arange(len(self.rows), dtype=np.float64)))[0]

    @cached_property
    def _regular(self) -> bool:
        """Whether rows follow each other at equal times, so that their movements depend on the lag only."""
        return not self._gaps

    def _shifted(self, last: int) -> Displacements:
        """Return the movements if row `last` is the secret, those that may follow an earlier secret moved to the end.

        If an earlier row is the secret, this has each of its movements, in the same step or in a later one.
        """
        ahead = len(self.rows) - 1 - last
        beyond = float(self.descent.moves(self._by_lag[ahead + 1 :] * self.reach).sum()) * (1 + len(self.rows) * UNIT)
        at, sizes = self.descent.displacements_of([self._moving(self._near(last, last))]).part(0)
        ends = self.descent.each_row(self.rows[-1:], np.inf)
        share = beyond / self.descent.rows_at_the_end * (1 + UNIT)
        steps, place = np.unique(np.append(at, ends.at), return_inverse=True)
        moved: Floats = np.bincount(place, np.append(sizes, np.full(len(ends.at), share))).astype(np.float64)
        return Displacements.of_parts([(steps, moved)])

    def _moving(self, factors: Floats) -> tuple[Indices, Floats]:
        """Return the rows that move, and how far; many small movements are added to later rows, which costs more."""
        lengths = factors * self.reach * (1 + UNIT)
        if len(lengths) > _MANY:
            places = np.arange(len(lengths))
            faint = factors <= _FAINT
            ends = np.flatnonzero(np.append(faint[:-1] & (~faint[1:] | (places[1:] % _GATHERED == 0)), faint[-1]))
            gathered = np.add.reduceat(np.append(np.where(faint, lengths, 0.0), 0.0), np.append(0, ends + 1))[:-1]
            if len(ends) and not self.descent.capped(float(gathered.max())):
                lengths = np.where(faint, 0.0, lengths)
                lengths[ends] = gathered[: len(ends)] * (1 + _GATHERED * UNIT)
        moving = lengths > 0
        return self.rows[moving], lengths[moving]


def largest_over_rows(rows: int, bound: Callable[[int, int], float]) -> tuple[float, int]:
    """Return an upper bound of the largest loss of a row, and the row, given bounds for stretches of rows.

    The result is within a thousandth of the largest bound of a single row, unless that takes too long.

    >>> largest_over_rows(1000, lambda first, last: 10.0 - abs(first - 321) + (last - first))
    (10.0, 321)
    """
    stretches = [(-bound(0, rows - 1), 0, rows - 1)]
    best, place, tried = -1.0, 0, 1
    while True:
        most, first, last = heapq.heappop(stretches)
        if first == last:
            return -most, first
        if -most <= best * (1 + _CLOSE):
            return -most, place
        if tried >= _MOST:
            return -most, first
        middle = (first + last) // 2
        for one, other in ((first, middle), (middle + 1, last)):
            value = bound(one, other)
            tried += 1
            heapq.heappush(stretches, (-value, one, other))
            if one == other and value > best:
                best, place = value, one
