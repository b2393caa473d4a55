"""A walk: rows that hang together along a chain or a tree, and how far each of them moves the answers (M20)."""

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from pufferflow.bounds.pairs import Place
from pufferflow.messages import Chain, Chains, Exposures, Secrets, leak
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
    """The rows of a Markov chain: row t moves the answers it touches by `shifts[kinds[t], :, e, f]` from e to f."""

    answers: int
    chain: Chain | Chains
    shifts: Floats
    kinds: Whole
    secrets: Secrets
    prior: Any
    labels: tuple[Any, ...]

    @property
    def dimension(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How many answers there are."""
        return self.answers

    @property
    def reach(self) -> float:
        """The largest sum, over the answers, of the movements by one row."""
        return float(self.shifts.sum(axis=1).max(initial=0.0))

    def loss(self, noise: Noise) -> tuple[float, Place]:
        """Return the largest of B_t + ℓ_t + F_t (M20); a row's losses add over answers with noises of their own."""
        if not self._hidden:
            return 0.0, self.place(0, self.secrets.pairs[0].tolist())
        losses = np.asarray(noise.pure(self.shifts)).sum(axis=1)
        if not np.isfinite(losses).all():  # no noise, or one without a pure loss
            return math.inf, self.place(0, self.secrets.pairs[0].tolist())
        exposures = Exposures(losses * (1 + self.shifts.shape[1] * UNIT), self.kinds)
        found = leak(self.chain, exposures, self.secrets)
        return found.value, self.place(found.row, found.states)

    @cached_property
    def _hidden(self) -> bool:
        """Whether some secret row can have both states of a pair."""
        rows = self.chain.mask_of if self.secrets.rows is None else self.chain.mask_of[self.secrets.rows]
        return bool(self.chain.masks[np.unique(rows)][:, self.secrets.pairs].all(axis=2).any())

    def place(self, row: int, states: Sequence[int]) -> Place:
        """Return a row and two of its states, by their names."""
        first, second = (self.labels[state] for state in states)
        return Place(self.dimension, self.prior, (first, second), row)
