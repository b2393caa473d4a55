"""A prior of the rows that a model is fitted to: the proofs that apply under it, and the least noise for a guarantee.

Under every prior the noise may hide the movement along a coupling (`Coupling`). Along a chain it may instead hide the
movement of a single row by fewer deviations, so that all rows that depend on it are hidden too (M37, M38). The least
noise counts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.accounting.rules.single_rows import chained_rows
from pufferflow.calibration.chained_rows import ROW_BY_ROW, ChainedRows
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused
from pufferflow.engines.groups import not_told_apart
from pufferflow.engines.model_rows import PublicOrder
from pufferflow.learning.budget import deviations_of, pure_of
from pufferflow.learning.couplings import Coupling, coupling_of
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.markov import ChainPrior
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Initial, Secret
from pufferflow.privacy.guarantee import Guarantee

_LONGEST = 2**53


@final
@dataclass(frozen=True, eq=False)
class Carried:
    """The scale of the noise that a proof needs under a prior, and the coupling along which movements count."""

    scale: float
    proof: str
    coupling: Coupling


@final
@dataclass(frozen=True, eq=False)
class ModelBelief:
    """The coupling of whole data sets under one prior, that of a single row, and the chain, if rows are along one."""

    coupling: Coupling
    single: Coupling
    chained: ChainedRows | None = None

    @property
    def exact(self) -> bool:
        """Whether the proofs use all that is known of the prior."""
        return self.coupling.exact or self.chained is not None

    def carried(
        self, length: Callable[[Coupling], float], promise: Guarantee, *, pure: bool, spare: float = 0.0
    ) -> Carried:
        """Return the proof that needs the least noise; `length` is the movement along a coupling at noise of scale 1.

        Lengths are deviations of Gaussian noise, or ε of Laplace noise if `pure`; the share `spare` of every budget is
        unused.
        """
        group = length(self.coupling)
        ways = [(pure_of(promise) if pure else deviations_of(promise), self.coupling.proof, self.coupling)]
        if self.chained is not None and group > 0:
            ways.append((*self._of_rows(self.chained, promise, group / length(self.single), pure=pure), self.single))
        possible = [
            Carried(length(coupling) / (budget - spare), proof, coupling)
            for budget, proof, coupling in ways
            if budget > spare
        ]
        if not possible:
            raise Refused(
                "A guarantee so strong that a grid costs all of it.",
                allowed="weaker guarantees",
                instead="fewer features; for a descent fewer batches or passes",
            )
        return min(possible, key=lambda one: one.scale)

    @staticmethod
    def _of_rows(rows: ChainedRows, promise: Guarantee, group: float, *, pure: bool) -> tuple[float, str]:
        """Return the largest movement of a single row, and the proof, if a group moves `group` times as far."""
        if pure:
            return rows.pure_row(pure_of(promise)), ROW_BY_ROW
        return rows.deviations(promise, group)


def beliefs_of(scenario: Scenario, columns: Sequence[str], order: PublicOrder) -> tuple[ModelBelief, ...]:
    """Return the couplings under each prior, in order, for all rows of a table in a public order."""
    hidden = np.array([float(name in scenario.sensitive) for name in columns])
    return tuple(_belief(prior, scenario, columns, hidden, order) for prior in scenario.priors)


def _belief(
    prior: Prior, scenario: Scenario, columns: Sequence[str], hidden: Floats, order: PublicOrder
) -> ModelBelief:
    single = Coupling(None, hidden, "one row", single=True)
    chained = _chained(prior, scenario, order) if isinstance(prior, ChainPrior) else None
    return ModelBelief(coupling_of(prior, scenario, columns), single, chained)


def _chained(prior: ChainPrior, scenario: Scenario, order: PublicOrder) -> ChainedRows | None:
    """Return the chain that covers all groups; None if the steps of rows along it are unknown.

    A model reads every row of its table, so no other row is hidden; a first value may come before them.
    """
    if not isinstance(scenario.secret, Secret | Initial):
        return None
    lows, highs = order.positions[order.first[:-1]], order.positions[order.first[1:] - 1]
    inside = np.ones(order.rows, dtype=np.bool_)
    inside[order.first[:-1]] = False
    if (np.diff(order.positions, prepend=-np.inf)[inside] <= 0).any():
        raise not_told_apart(scenario)
    if (order.positions != np.rint(order.positions)).any() or max(-lows.min(), highs.max()) >= _LONGEST:
        return None
    steps = int(lows.min()), int(highs.max())
    if prior.repeats is not None:  # of the position of groups only the phase matters
        steps = 0, int((highs - lows + lows % prior.repeats).max())
    try:
        return chained_rows(scenario, prior, steps, order.start, all_read=True)
    except Refused:
        return None
