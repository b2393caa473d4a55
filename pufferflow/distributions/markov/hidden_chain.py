"""Hidden chains: each row shows a symbol whose law depends on the row's hidden state alone (M58).

The rows form a tree: hidden states along a chain, and one symbol at each of them. Exposures of symbols become those of
hidden states, e = g_E(ℓ), and messages go along the hidden chain as without symbols (M20). About a symbol itself, what
the other rows reveal passes through the law of the hidden state given the symbol: ℓ + g_post(B + F).

The laws of sums are those of one chain with two rows for each row: first its hidden state, then state and symbol.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.distributions.markov.chain import Chain, ReversedSteps, StateSequence, Steps


@final
@dataclass(frozen=True, eq=False)
class HiddenChain(StateSequence):
    """A chain `hidden` whose row t in state s shows symbol y with probability `emission[s, y]`.

    Its own states, those of `masks`, are the symbols.

    >>> stay = Chain(np.array([[[0.9, 0.1], [0.1, 0.9]]]), np.zeros(4, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> sensor = HiddenChain(stay, np.array([[0.9, 0.1], [0.1, 0.9]]))
    >>> sensor.felt(np.array([[[0.0, 0.5], [0.5, 0.0]]]))[0].round(8).tolist()
    [[0.0, 0.39700333], [0.39700333, 0.0]]
    """

    hidden: Chain
    emission: Floats
    coarse: bool = False
    """Whether messages carry only the size of the largest difference."""

    @property
    def order(self) -> Indices:  # pyright: ignore[reportIncompatibleVariableOverride] - read only
        return self.hidden.order

    @property
    def states(self) -> int:
        return self.emission.shape[1]

    @cached_property
    def along(self) -> Chain:
        """The chain of hidden states, with messages as coarse as these."""
        return replace(self.hidden, coarse=True) if self.coarse else self.hidden

    def felt(self, losses: Floats) -> Floats:
        """Return the exposures of hidden states to what has these exposures of symbols: g_E(ℓ), rounded up."""
        found = [self._known.get(limits.tobytes()) for limits in losses]
        for at, limits in enumerate(losses):
            if found[at] is None:
                found[at] = self._known[limits.tobytes()] = self._symbols.send(0, limits)
        return np.array(found, dtype=np.float64).reshape(len(losses), *[len(self.emission)] * 2)

    def felt_with_delta(self, epsilon: float) -> tuple[float, float]:
        """Return (e, κ): what keeps (epsilon, δ) about symbols keeps (e, κδ) about hidden states (M58)."""
        symbols, states = self.states, len(self.emission)
        limits = epsilon * (1 - np.eye(symbols))
        own = float(self.felt(limits[None]).max())
        shares = self._symbols.hockey(0, np.full((states, states), own))
        return own, float((shares * (1 - np.eye(states))).max())

    def repeated(self, steps: int) -> "HiddenChain":
        """Return the chain that repeats these steps."""
        return replace(self, hidden=self.hidden.repeated(steps))

    def posteriors(self) -> Steps:
        """Return the steps of messages from a row's hidden state to its symbol, one for each row."""
        laws, index = self.hidden.row_laws
        reversed_steps = ReversedSteps()
        places = [reversed_steps.place(at, law, self.emission) for at, law in enumerate(laws)]
        steps = reversed_steps.steps(np.array(places, dtype=np.intp)[index], self.states)
        return replace(steps, coarse=self.coarse)

    @cached_property
    def _known(self) -> dict[bytes, Floats]:
        """The exposures of hidden states that were found, by the exposures of symbols."""
        return {}

    @cached_property
    def _symbols(self) -> Steps:
        """The step of messages from a row's symbol to its hidden state; symbols without mass are dropped."""
        occur, states = (self.emission > 0).any(axis=0), np.ones(len(self.emission), dtype=np.bool_)
        rows, order = self.emission[None, :, None, :], np.zeros(1, dtype=np.intp)
        return Steps(rows, order, np.asarray(occur)[None], states[None], coarse=self.coarse)

    @cached_property
    def _possible(self) -> tuple[Flags, Indices]:
        links = (self.emission > 0).astype(np.intp)
        return self.hidden.masks.astype(np.intp) @ links > 0, self.hidden.mask_of

    @cached_property
    def unfolded(self) -> Chain:
        """The chain with rows 2t for the hidden state of row t, and 2t + 1 for state and symbol.

        State s with symbol y has the number s·m + y; a row of hidden states has the numbers s·m.
        """
        states, symbols = self.emission.shape
        owner: Indices = np.repeat(np.arange(states, dtype=np.intp), symbols)
        shows = np.zeros((states * symbols, states, symbols))
        shows[np.arange(states * symbols), owner] = self.emission[owner]
        kernels = [shows.reshape(states * symbols, -1)]
        first: Indices = np.arange(states, dtype=np.intp) * symbols
        for kernel in self.hidden.kernels:
            moves = np.zeros((states * symbols, states * symbols))
            moves[:, first] = kernel[owner]
            kernels.append(moves)
        order = np.zeros(2 * self.length - 1, dtype=np.intp)
        order[1::2] = 1 + self.order
        initial = np.zeros((len(self.hidden.initial), states * symbols))
        initial[:, first] = self.hidden.initial
        return Chain(np.array(kernels), order, initial)
