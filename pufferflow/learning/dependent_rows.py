"""Rows along a Markov chain, or jointly Gaussian, in an iteration: the proofs of the loss of its last iterate.

Jointly Gaussian rows: each moves by a share of the secret row's movement (M15, M33). The movement for any secret row of
a stretch is at most that if all of the stretch counts as near as its nearest row. For stationary rows the cost is at
most that of moving later. So a stretch has one bound, and only stretches whose bound is above all others are split
(branch and bound).

There are three proofs along a chain. The first couples trajectories step by step, so that rows that meet stay together,
with amplification (M1, M33). The second carries (ε₀, δ₀) of each row along the chain (M37). The third takes all
iterates in the order of the chain, each of which reads one row (M38 (i)).
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np

from pufferflow.calibration.chain_bounds import RowBridge
from pufferflow.calibration.transport_bounds import least, mean_of_shifts
from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import UNIT
from pufferflow.core.validate import finite_number, instance, set_fields
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.differing_rows import DifferingRows
from pufferflow.distributions.markov.row_mechanisms import leak_of_order
from pufferflow.distributions.markov.state_loss import Secrets
from pufferflow.learning.descent import Descent, read_places
from pufferflow.learning.displacements import Displacements, Proofs, read_array, read_sizes
from pufferflow.learning.iteration import Iteration
from pufferflow.learning.shifts import deviations, gaussian_promises, largest_displacement
from pufferflow.models.priors.gaussian import GaussianPrior
from pufferflow.models.priors.markov import MarkovChain
from pufferflow.privacy.guarantee import Approx, Divergence, GuaranteeFamily
from pufferflow.privacy.renyi import RenyiCurve

_CLOSE = 1e-3
_MOST = 400
_DENSE = 1500
_FAINT = 1e-15
_MANY = 20_000
_GATHERED = 1000
_INSTEAD = "pf.learning.GaussianRows(pf.GaussianPrior(pf.AR1(0.9)), 2.0, descent)"


@final
@dataclass(frozen=True, eq=False, init=False)
class GaussianRows(InNotebooks):
    """Jointly Gaussian rows of one group that a descent visits; the secret is any one of them.

    If the secret row moves by `reach`, row r moves by |Cov(X_r, X_i)/Var(X_i)| · reach with probability 1, for every
    mean and variance. All rows move by one translation, which clipping to a ball or a box does not lengthen. With
    several columns that have the same covariances in all rows (`across`), reach is the length of the secret row's own
    movement, in all columns.

    `rows` are the places of the group's rows among the rows of the descent, in rising order. `positions` are their
    positions in the prior. By default all rows belong to the group. Other rows are independent of the group.

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
        self,
        prior: GaussianPrior,
        reach: float,
        descent: Descent,
        *,
        rows: Any = None,
        positions: Any = None,
    ) -> None:
        instance(prior, GaussianPrior, "The prior", allowed="pf.GaussianPrior", instead=_INSTEAD)
        instance(descent, Descent, "The descent", allowed="pf.learning.Descent", instead=_INSTEAD)
        length = finite_number(
            reach, "reach", allowed="a number >= 0", instead="reach=1.0", fits=lambda r: r >= 0
        )
        places, times = read_places(rows, positions, descent.rows)
        if (np.diff(places) <= 0).any():
            raise UsageError(
                "The rows are not in rising order.",
                allowed="rows in the order of the descent",
                instead="rows=[0, 1, 2]",
            )
        prior.covariance.check(times)
        set_fields(
            self,
            prior=prior,
            reach=length,
            descent=descent,
            rows=places,
            positions=times,
            _known={},
        )

    def proofs(self, iteration: Iteration, kind: GuaranteeFamily) -> Proofs:
        """Return the loss by the translation, for the row that loses most, and that of the whole group."""
        self.descent.check(iteration)
        group = self.descent.displacements_of([(self.rows, np.full(len(self.rows), np.inf))])
        found = {"group": (largest_displacement(iteration, group, kind)[0], 0)}
        if self._factors is not None and len(self._factors) <= _DENSE:
            every = self.descent.displacements_of([self._moving(row) for row in self._factors])
            return found | {"translation": largest_displacement(iteration, every, kind)}
        falls_off = self.prior.covariance.stationary and self.prior.covariance.falls_off
        if (
            not falls_off or iteration.contractions.max() > 1
        ):  # if steps expand, a later movement may cost less
            return found

        def bound(first: int, last: int) -> float:
            if (first, last) not in self._known:
                self._known[first, last] = self._of_stretch(first, last)
            return min(
                largest_displacement(iteration, moved, kind)[0]
                for moved in self._known[first, last]
            )

        return found | {"translation": largest_over_rows(len(self.rows), bound)}

    @cached_property
    def _factors(self) -> Floats | None:
        """Each row's share of the movement of each possible secret, of shape (secrets, rows); None if too many."""
        covariance = self.prior.covariance
        places = covariance.places(self.positions)
        if len(places) * len(self.rows) > _DENSE * _DENSE or self._gaps:
            return None
        return np.maximum(*covariance.toward(places, self.positions))

    @cached_property
    def _gaps(self) -> bool:
        """Whether secret rows may lie between those that are visited."""
        return self.prior.covariance.stationary and bool((np.diff(self.positions) != 1).any())

    def _near(self, first: int, last: int) -> Floats:
        """Return the factors of all rows if the secret is somewhere from one row to another, or before the next."""
        if not self._gaps:
            lags = self._by_lag
            return np.concatenate(
                [lags[first:0:-1], np.full(last - first + 1, lags[0]), lags[1 : len(lags) - last]]
            )
        covariance, end = (
            self.prior.covariance,
            self.positions[min(last + 1, len(self.positions) - 1)],
        )
        lags = np.maximum(
            np.maximum(self.positions[first] - self.positions, self.positions - end), 0.0
        )
        return np.maximum(*covariance.toward(np.zeros(1), lags))[0]

    def _of_stretch(self, first: int, last: int) -> list[Displacements]:
        """Return displacements, each of which costs at least as much as that of any secret row of a stretch."""
        nearest = self.descent.displacements_of([self._moving(self._near(first, last))])
        if first == last or self._gaps:  # with gaps movements do not depend on the lag only
            return [nearest]
        return [nearest, self._shifted(last)]

    @cached_property
    def _by_lag(self) -> Floats:
        """The factors of stationary rows at lags of 0, 1, 2, … steps."""
        return np.maximum(
            *self.prior.covariance.toward(np.zeros(1), np.arange(len(self.rows), dtype=np.float64))
        )[0]

    def _shifted(self, last: int) -> Displacements:
        """Return the movements if row `last` is the secret, and those of earlier secrets moved to the end.

        If an earlier row is the secret, each of its movements is included, in the same step or in a later one.
        """
        ahead = len(self.rows) - 1 - last
        beyond = float(self.descent.moves(self._by_lag[ahead + 1 :] * self.reach).sum()) * (
            1 + len(self.rows) * UNIT
        )
        at, sizes = self.descent.displacements_of([self._moving(self._near(last, last))]).part(0)
        ends = self.descent.each_row(self.rows[-1:], np.inf)
        share = beyond / self.descent.rows_at_the_end * (1 + UNIT)
        steps, place = np.unique(np.append(at, ends.at), return_inverse=True)
        moved: Floats = np.bincount(place, np.append(sizes, np.full(len(ends.at), share))).astype(
            np.float64
        )
        return Displacements.of_parts([(steps, moved)])

    def _moving(self, factors: Floats) -> tuple[Indices, Floats]:
        """Return the rows that move, and how far; many small movements are added to later rows, which costs more."""
        lengths = factors * self.reach * (1 + UNIT)
        if len(lengths) > _MANY:
            places = np.arange(len(lengths))
            faint = factors <= _FAINT
            ends = np.flatnonzero(
                np.append(faint[:-1] & (~faint[1:] | (places[1:] % _GATHERED == 0)), faint[-1])
            )
            gathered = np.add.reduceat(
                np.append(np.where(faint, lengths, 0.0), 0.0), np.append(0, ends + 1)
            )[:-1]
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


_ORDERS = tuple(1 + 2.0 ** (n / 2) for n in range(-8, 17))
_MOST_COUPLED = 20_000
"""The number of rows of a sequence up to which stretches that differ are counted one by one."""
_INSTEAD_OF_CHAIN = (
    "pf.learning.ChainRows(pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]), [[0, 1], [1, 0]], descent)"
)


@final
@dataclass(frozen=True, eq=False, init=False)
class ChainRows(InNotebooks):
    """Rows of one sequence, along a chain, that a descent visits; the secret is the state of any one of them.

    `distances[e][f]` is the largest distance between the rows of the states e and f. `rows` are the places of the
    sequence's rows among the rows of the descent, in the order of the chain. By default they are all rows, in the order
    of visits. `positions` are their times in steps of the chain, which begins at the first of them. Other rows are
    independent of the sequence. `pairs` are the pairs of states that must be indistinguishable, by default all.

    >>> import pufferflow as pf
    >>> descent = pf.learning.Descent(rows=40, step_size=0.1, noise=1.0, lipschitz=1.0, smoothness=1.0)
    >>> chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    >>> rows = pf.learning.ChainRows(chain, [[0, 1], [1, 0]], descent)
    >>> found = pf.learning.iteration_loss(descent.iteration, rows, pf.Approx.of(delta=1e-6))
    >>> found.proof, round(found.value, 3), round(found.losses["group"], 3)
    ('row by row', 4.492, 6.399)
    """

    chain: Chain
    distances: Floats
    descent: Descent
    rows: Indices
    secrets: Secrets
    _shifts: dict[tuple[float, int, int], tuple[Floats, Floats]] = field(repr=False)

    def __init__(  # noqa: PLR0913 - the rows, and where and when they are
        self,
        prior: MarkovChain,
        distances: Any,
        descent: Descent,
        *,
        rows: Any = None,
        positions: Any = None,
        pairs: Any = None,
    ) -> None:
        instance(
            prior,
            MarkovChain,
            "The prior",
            allowed="pf.MarkovChain, one chain",
            instead=_INSTEAD_OF_CHAIN,
        )
        instance(
            descent,
            Descent,
            "The descent",
            allowed="pf.learning.Descent",
            instead=_INSTEAD_OF_CHAIN,
        )
        read = read_sizes(
            distances, "The distances", "a number >= 0 for every two states", "[[0, 1], [1, 0]]"
        )
        if read.shape != (prior.states, prior.states):
            raise UsageError(
                f"distances has shape {read.shape} for {prior.states} states.",
                allowed="a number for every two states",
                instead=_INSTEAD_OF_CHAIN,
            )
        places, times = read_places(rows, positions, descent.rows)
        set_fields(
            self,
            chain=prior.chain(times, float(times[0])),
            distances=np.maximum(read, read.T),
            descent=descent,
        )
        set_fields(self, rows=places, secrets=Secrets(_read_pairs(pairs, prior.states)), _shifts={})

    @property
    def farthest(self) -> float:
        """The largest distance between two states' rows."""
        return float(self.distances.max())

    @cached_property
    def _differing(self) -> DifferingRows:
        return DifferingRows.of(self.chain)

    def proofs(self, iteration: Iteration, kind: GuaranteeFamily) -> Proofs:
        """Return the loss by each proof that applies, with the row that loses most."""
        self.descent.check(iteration)
        if not iteration.gaussian:
            raise Refused(
                "Rows along a chain need Gaussian noise.",
                allowed="pf.Gaussian noise",
                instead="pf.learning.Trajectories, for any noise",
            )
        everything = deviations(
            iteration, Displacements.of_parts([self._part(0, len(self.rows) - 1)])
        )
        found = {"group": (least(gaussian_promises(float(everything[0])), kind), 0)}
        if kind.example.divergence in (Divergence.HOCKEY_STICK, Divergence.RENYI):
            if len(self.rows) <= _MOST_COUPLED:
                found["coupling"] = self._coupled(iteration, kind)
            if self._in_order:
                found["chain order"] = self._in_chain_order(iteration, kind), 0
        if kind.example.divergence is Divergence.HOCKEY_STICK and kind.example.delta > 0:
            found["row by row"] = self._row_by_row(iteration, kind), 0
        return found

    @property
    def _in_order(self) -> bool:
        """Whether each row of the sequence has a step of its own, once, in the order of the chain."""
        return self.descent.passes == 1 and bool(
            (np.diff(self.rows // self.descent.batch_size) > 0).all()
        )

    def _in_chain_order(self, iteration: Iteration, kind: GuaranteeFamily) -> float:
        """Return the loss of all iterates, each of which reads one row of the sequence (M38 (i))."""
        moves, largest = (
            self.descent.moves(self.distances),
            float(self._each_row.sizes.max(initial=0.0)),
        )
        shifts = moves / max(float(moves.max()), 1e-300) * largest / float(iteration.scales.min())
        alpha = kind.example.alpha
        orders = _ORDERS if alpha == math.inf else (alpha,)
        losses = [
            (
                order,
                leak_of_order(
                    self.chain, order / 2 * shifts * shifts * (1 + 16 * UNIT), order, self.secrets
                ),
            )
            for order in orders
        ]
        finite = [(order, loss) for order, loss in losses if loss < math.inf]
        return least([RenyiCurve(*map(tuple, zip(*finite, strict=True)))] if finite else [], kind)

    def _row_by_row(self, iteration: Iteration, kind: GuaranteeFamily) -> float:
        """Return the ε that follows from an (ε₀, δ₀) of each row if only that row changes (M37)."""
        shift, delta = float(deviations(iteration, self._each_row).max()), kind.example.delta
        epsilon = RowBridge(self.chain, self.secrets).epsilon(shift, delta)
        return kind.loss_from(Approx(epsilon, delta)) if epsilon < math.inf else math.inf

    def _coupled(self, iteration: Iteration, kind: GuaranteeFamily) -> tuple[float, int]:
        """Return the mean loss over the lengths of stretches that differ, for the worst row (M1, M33)."""

        def bound(first: int, last: int) -> float:
            shifts, masses = self._shifts_around(iteration, first, last)
            return mean_of_shifts(shifts, masses, kind)

        return largest_over_rows(len(self.rows), bound)

    def _shifts_around(self, iteration: Iteration, first: int, last: int) -> tuple[Floats, Floats]:
        """Return Gaussian shifts and their probabilities, of stretches of rows around a secret one that may differ."""
        if not iteration.uniform:
            moved, masses = self._stretches(first, last)
            return deviations(iteration, moved), masses
        c, scale = float(iteration.contractions[0]), float(iteration.scales[0])
        if (c, first, last) not in self._shifts:  # shifts are as large as the noise is small
            moved, masses = self._stretches(first, last)
            unit = Iteration(iteration.steps, iteration.noises[0].at(1.0), c)
            self._shifts[c, first, last] = deviations(unit, moved), masses
        shifts, masses = self._shifts[c, first, last]
        return shifts / scale * (1 + UNIT), masses

    def _stretches(self, first: int, last: int) -> tuple[Displacements, Floats]:
        """Return the displacements of stretches that differ, to both sides of secret rows, and their probabilities."""
        later, later_masses = self._differing.later(first, last, len(self.rows) - 1 - last)
        earlier, earlier_masses = self._differing.earlier(first, last, first)
        parts = [self._part(first - int(j), last + int(k)) for j in earlier for k in later]
        return Displacements.of_parts(parts), np.outer(earlier_masses, later_masses).ravel()

    def _part(self, first: int, last: int) -> tuple[Indices, Floats]:
        rows = np.sort(self.rows[first : last + 1])
        moved = self.descent.displacements_of([(rows, np.full(len(rows), self.farthest))])
        return moved.at, moved.sizes

    @cached_property
    def _each_row(self) -> Displacements:
        return self.descent.each_row(self.rows, self.farthest)


def _read_pairs(given: Any, states: int) -> Indices:
    if given is None:
        return np.argwhere(~np.eye(states, dtype=np.bool_))
    pairs = np.atleast_2d(
        read_array(given, "The pairs", f"numbers below {states}", "pairs=[(0, 1)]")
    )
    if (
        pairs.dtype.kind not in "iu"
        or pairs.shape[1:] != (2,)
        or pairs.min() < 0
        or pairs.max() >= states
    ):
        raise UsageError(
            "pairs has an entry that is not two states of the chain.",
            allowed=f"numbers below {states}",
            instead="pairs=[(0, 1)]",
        )
    return np.concatenate([pairs, pairs[:, ::-1]]).astype(np.intp)
