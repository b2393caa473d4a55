"""The loss of a row of a chain, from the loss of each row while all others stay fixed (M37, M38).

Answers whose trade-off for any one row is no worse than that of two normal laws μ standard deviations apart are
μ-Gaussian in each row. Several releases are μ-Gaussian with the root of the sum of squares, adaptively. There are two
ways from single rows to the chain. Their (ε₀, δ₀) travel along it (`RowBridge`). Or rows are coupled step by step, so
that n rows differ with a known probability, and move all answers by at most n·μ standard deviations.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np

from pufferflow.calibration.gdp_along_chain import RowBridge
from pufferflow.calibration.random_shifts import mean_of_shifts
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused
from pufferflow.core.roots import largest_without
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.chain_class import Chains
from pufferflow.distributions.markov.differing_rows import DifferingRows
from pufferflow.distributions.markov.state_loss import Secrets
from pufferflow.privacy.guarantee import Approx, Divergence, Guarantee, GuaranteeFamily

ROW_BY_ROW: Final = "row by row along the chain (M37)"
STEP_BY_STEP: Final = "rows of the chain coupled step by step (M38)"
_TOLERANCE = 1e-6


@final
@dataclass(frozen=True, eq=False)
class ChainedRows:
    """Rows along a chain, or a class of chains; with `endless` results hold for any number of further turns.

    >>> chain = Chain(np.array([[[0.9, 0.1], [0.1, 0.9]]]), np.zeros(23, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> rows = ChainedRows(chain, Secrets(np.array([[0, 1], [1, 0]])))
    >>> loss, proof = rows.loss(Approx.of(delta=1e-6), 0.03)
    >>> round(loss, 3), proof
    (1.096, 'row by row along the chain (M37)')
    """

    chain: Chain | Chains
    secrets: Secrets
    endless: bool = False

    def loss(self, kind: GuaranteeFamily, row: float, group: float = math.inf) -> tuple[float, str]:
        """Return the loss of a kind, and the proof, of releases `row`-Gaussian in each row, `group`-Gaussian in all.

        It is ∞ for guarantees that neither way proves: pure ones, and those of all orders together.
        """
        losses = [(self._coupled(kind, row, group), STEP_BY_STEP)]
        delta = kind.example.delta
        if kind.example.divergence is Divergence.HOCKEY_STICK and 0 < delta < 1:
            epsilon = self.bridge.epsilon(row, delta)
            losses.append((kind.loss_from(Approx(epsilon, delta)) if epsilon < math.inf else math.inf, ROW_BY_ROW))
        return min(losses)

    def deviations(self, promise: Guarantee, group: float = math.inf) -> tuple[float, str]:
        """Return the most standard deviations that a row may move answers under a guarantee, and the proof; 0 if none.

        All rows of a group together move them by at most `group` times as many.
        """
        return min(
            max((self._carried_over(one), ROW_BY_ROW), (self._of_pairs(one, group), STEP_BY_STEP))
            for one in promise.singles
        )

    def pure_loss(self, row: float) -> float:
        """Return the pure loss along the chain of releases with the pure loss `row` in each row (M35)."""
        return self.bridge.leak(row).loss if row else 0.0

    def pure_row(self, epsilon: float) -> float:
        """Return the largest pure loss found for each row with which the chain's is at most epsilon."""
        return self.bridge.row_loss(epsilon)

    @cached_property
    def bridge(self) -> RowBridge:
        """The bridge from losses of single rows to that of the chain."""
        return RowBridge(self.chain, self.secrets, self.endless)

    def _carried_over(self, promise: Guarantee) -> float:
        if promise.divergence is not Divergence.HOCKEY_STICK:
            return 0.0
        return self.bridge.deviations(promise.loss, promise.delta)

    def _of_pairs(self, promise: Guarantee, group: float) -> float:
        kind = promise.kind
        if kind is None or kind.example.divergence not in (Divergence.HOCKEY_STICK, Divergence.RENYI):
            return 0.0

        def excess(row: float) -> float:
            return self._coupled(kind, row, group * row) / max(promise.loss, math.ulp(0.0)) - 1

        return largest_without(excess, 1.0, _TOLERANCE)

    def _coupled(self, kind: GuaranteeFamily, row: float, group: float) -> float:
        """Return the mean loss over the number of rows that differ (M1, M38)."""
        if kind.example.divergence not in (Divergence.HOCKEY_STICK, Divergence.RENYI) or self._differing is None:
            return math.inf
        counts, masses = self._differing
        with np.errstate(over="ignore", invalid="ignore"):
            shifts = np.minimum(counts * row * (1 + 2 * UNIT), group) if row else np.zeros(len(counts))
        return mean_of_shifts(shifts, masses, kind)

    @cached_property
    def _differing(self) -> tuple[Floats, Floats] | None:
        """Numbers of differing rows and their probabilities, ∞ for many in an endless chain; None if unknown.

        "Many" is half of the rows of the chain: the other half holds a secret row of every phase.
        """
        most = self.chain.length // 2 if self.endless else None
        try:
            counts, masses = DifferingRows.of(self.chain).counts(most)
        except Refused:  # a state with a probability too small for a float
            return None
        numbers = counts.astype(np.float64)
        if most is not None:
            numbers[counts > most] = math.inf
        return numbers, masses / masses.sum()
