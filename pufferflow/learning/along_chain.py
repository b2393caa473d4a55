"""Rows along a Markov chain in an iteration, by three proofs of which the least loss counts.

The proofs are: trajectories coupled step by step, so that rows that meet stay together, with amplification (M1, M33);
(ε₀, δ₀) of each row, carried along the chain (M37); and all iterates in the order of the chain, each of which reads one
row (M38 (i)).
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np

from pufferflow.calibration.gdp_along_chain import RowBridge
from pufferflow.calibration.random_shifts import least, mean_of_shifts
from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.core.validate import instance, set_fields
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.differing_rows import DifferingRows
from pufferflow.distributions.markov.row_mechanisms import leak_of_order
from pufferflow.distributions.markov.state_loss import Secrets
from pufferflow.learning.descent import Descent, read_places
from pufferflow.learning.displacements import Displacements, Proofs, read_array, read_sizes
from pufferflow.learning.gaussian_rows import largest_over_rows
from pufferflow.learning.iteration import Iteration
from pufferflow.learning.losses import gaussian_promises
from pufferflow.learning.shifts import deviations
from pufferflow.models.priors.markov import MarkovChain
from pufferflow.privacy.guarantee import Approx, Divergence, GuaranteeFamily
from pufferflow.privacy.renyi import RenyiCurve

_ORDERS = tuple(1 + 2.0 ** (n / 2) for n in range(-8, 17))
_MOST_COUPLED = 20_000
"""The number of rows of a sequence up to which stretches that differ are counted one by one."""
_INSTEAD = "pf.learning.ChainRows(pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]), [[0, 1], [1, 0]], descent)"


@final
@dataclass(frozen=True, eq=False, init=False)
class ChainRows:
    """Rows of one sequence, along a chain, that a descent visits; the secret is the state of any one of them.

    `distances[e][f]` is the largest distance between the rows of the states e and f. `rows` are the places of the
    sequence's rows among the rows of the descent, in the order of the chain (by default all, in the order of visits).
    `positions` are their times in steps of the chain, which begins at the first of them. Other rows are independent of
    the sequence. `pairs` are the pairs of states that must be indistinguishable, by default all.

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
        instance(prior, MarkovChain, "The prior", allowed="pf.MarkovChain, one chain", instead=_INSTEAD)
        instance(descent, Descent, "The descent", allowed="pf.learning.Descent", instead=_INSTEAD)
        read = read_sizes(distances, "The distances", "a number >= 0 for every two states", "[[0, 1], [1, 0]]")
        if read.shape != (prior.states, prior.states):
            raise UsageError(
                f"Distances of shape {read.shape} for {prior.states} states.",
                allowed="a number for every two states",
                instead=_INSTEAD,
            )
        places, times = read_places(rows, positions, descent.rows)
        set_fields(self, chain=prior.chain(times, float(times[0])), distances=np.maximum(read, read.T), descent=descent)
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
                "Rows along a chain under noise that is not Gaussian.",
                allowed="pf.Gaussian noise",
                instead="pf.learning.Trajectories, for any noise",
            )
        everything = deviations(iteration, self._moved(0, len(self.rows) - 1))
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
        return self.descent.passes == 1 and bool((np.diff(self.rows // self.descent.batch_size) > 0).all())

    def _in_chain_order(self, iteration: Iteration, kind: GuaranteeFamily) -> float:
        """Return the loss of all iterates, each of which reads one row of the sequence (M38 (i))."""
        moves, largest = self.descent.moves(self.distances), float(self._each_row.sizes.max(initial=0.0))
        shifts = moves / max(float(moves.max()), 1e-300) * largest / float(iteration.scales.min())
        alpha = kind.example.alpha
        orders = _ORDERS if alpha == math.inf else (alpha,)
        losses = [
            (order, leak_of_order(self.chain, order / 2 * shifts * shifts * (1 + 16 * UNIT), order, self.secrets))
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
            self._shifts[c, first, last] = deviations(_unit_noise(iteration), moved), masses
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

    def _moved(self, first: int, last: int) -> Displacements:
        return Displacements.of_parts([self._part(first, last)])

    @cached_property
    def _each_row(self) -> Displacements:
        """The displacement of each row by itself."""
        return self.descent.each_row(self.rows, self.farthest)


def _unit_noise(iteration: Iteration) -> Iteration:
    return Iteration(iteration.steps, iteration.noises[0].at(1.0), float(iteration.contractions[0]))


def _read_pairs(given: Any, states: int) -> Indices:
    if given is None:
        return np.argwhere(~np.eye(states, dtype=np.bool_))
    pairs = np.atleast_2d(read_array(given, "The pairs", f"numbers below {states}", "pairs=[(0, 1)]"))
    if pairs.dtype.kind not in "iu" or pairs.shape[1:] != (2,) or pairs.min() < 0 or pairs.max() >= states:
        raise UsageError(
            "Pairs that are not of two states.", allowed=f"numbers below {states}", instead="pairs=[(0, 1)]"
        )
    return np.concatenate([pairs, pairs[:, ::-1]]).astype(np.intp)
