"""A walk: rows that hang together along a chain or a tree, and how far each of them moves the answers (M20)."""

import abc
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from pufferflow.bounds.pairs import Place
from pufferflow.messages import Chain, Exposures, Leak, Secrets, leak
from pufferflow.messages.chain import Floats
from pufferflow.messages.stretches import Whole
from pufferflow.noise import Noise
from pufferflow.rounding import UNIT


class Walk(abc.ABC):
    """Rows that depend on each other along edges: what noisy sums of them tell of one row, for any noise."""

    dimension: int
    """How many answers there are."""

    @abc.abstractmethod
    def loss(self, noise: Noise) -> tuple[float, Place]:
        """Return the pure loss of the noisy answers, never below the true one, and the row and states that have it."""

    @property
    @abc.abstractmethod
    def reach(self) -> float:
        """How far one row alone moves the answers: the loss is never below the noise's for a secret row of weight."""


@final
@dataclass(frozen=True, eq=False)
class ChainWalk(Walk):
    """The rows of a Markov chain: row t moves answer o by `shifts[kinds[t], o, e, f]` between the states e and f."""

    chain: Chain
    shifts: Floats
    kinds: Whole
    secrets: Secrets
    prior: Any
    labels: tuple[Any, ...]

    @property
    def dimension(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How many answers there are."""
        return self.shifts.shape[1]

    @property
    def reach(self) -> float:
        """The largest sum, over the answers, of the movements by one row."""
        return float(self.shifts.sum(axis=1).max(initial=0.0))

    def loss(self, noise: Noise) -> tuple[float, Place]:
        """Return the largest of B_t + ℓ_t + F_t (M20)."""
        found = self.leak(noise)
        first, second = (self.labels[state] for state in found.states)
        return found.value, Place(self.dimension, self.prior, (first, second), found.row)

    def leak(self, noise: Noise) -> Leak:
        """Return what the messages say; row losses add over the answers, whose noises are independent."""
        losses = np.asarray(noise.pure(self.shifts)).sum(axis=1)
        exposures = Exposures(losses * (1 + self.shifts.shape[1] * UNIT), self.kinds)
        return leak(self.chain, exposures, self.secrets)
