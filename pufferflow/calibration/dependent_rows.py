"""Correlated rows along a chain or a tree, and how far each of them moves the answers (M20)."""

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from pufferflow.calibration.law_pairs import Place
from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.chain_class import Chains
from pufferflow.distributions.markov.state_loss import Exposures, Secrets, leak
from pufferflow.noise.base import Noise


class DependentRows(abc.ABC):
    """Rows correlated along edges: the loss of noisy sums of them for one row, for any noise."""

    answers: int
    """How many answers there are."""
    given_away: str = ""
    """The refusal where no noise is enough, if noise without a pure loss may be used at all."""
    shifts: Floats
    """How far a row of each kind moves the answers it touches between two states: shape (kinds, answers, k, k)."""

    @abc.abstractmethod
    def loss(self, noise: Noise) -> tuple[float, Place]:
        """Return the pure loss of the noisy answers, never below the true one, and the row and states that have it."""

    def renyi(self, noise: Noise, alpha: float) -> tuple[float, Place] | None:
        """Return the Rényi loss of one order where a bound below the pure loss is known; None elsewhere."""
        del noise, alpha
        return None

    def coarse(self) -> "DependentRows":
        """Return the same rows with a coarser loss that is quicker to find and larger; refuse where there is none."""
        raise Refused(
            "Coarse messages along rows that do not form a single chain.",
            allowed="pf.MarkovChain as the prior",
            instead="bound=pf.Messages()",
        )

    @property
    def reach(self) -> float:
        """How far one row alone moves the answers: the largest sum of its movements of each."""
        return float(self.shifts.sum(axis=1).max(initial=0.0))

    def exposures(self, noise: Noise) -> Floats | None:
        """Return ℓ for each kind of row, rounded up: losses add over answers with independent noises.

        None if some are infinite: the noise is 0, or it has no pure loss.
        """
        losses = np.asarray(noise.pure(self.shifts)).sum(axis=1)
        return losses * (1 + self.shifts.shape[1] * UNIT) if np.isfinite(losses).all() else None


@final
@dataclass(frozen=True, eq=False)
class DependentChain(DependentRows):
    """The rows of a Markov chain: row t moves the answers it touches by `shifts[kinds[t], :, e, f]` from e to f."""

    answers: int
    chain: Chain | Chains
    shifts: Floats
    kinds: Indices
    secrets: Secrets
    prior: Any
    labels: tuple[Any, ...]

    def loss(self, noise: Noise) -> tuple[float, Place]:
        """Return the largest of B_t + ℓ_t + F_t (M20)."""
        if not self._secrets_possible:
            return 0.0, self.place(0, self.secrets.pairs[0].tolist())
        losses = self.exposures(noise)
        if losses is None:
            return math.inf, self.place(0, self.secrets.pairs[0].tolist())
        largest = leak(self.chain, Exposures(losses, self.kinds), self.secrets)
        return largest.value, self.place(largest.row, largest.states)

    def coarse(self) -> DependentRows:
        return (
            replace(self, chain=replace(self.chain, coarse=True)) if isinstance(self.chain, Chain) else super().coarse()
        )

    @cached_property
    def _secrets_possible(self) -> bool:
        return bool(self.secrets.possible(self.chain).any())

    def place(self, row: int, states: Sequence[int]) -> Place:
        """Return a row and two of its states, by their names."""
        first, second = (self.labels[state] for state in states)
        return Place(self.answers, self.prior, (first, second), row)
