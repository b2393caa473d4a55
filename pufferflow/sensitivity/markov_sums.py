"""Sums along a chain given the state of one row: joint laws while they are small (M18), expectations and tails."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import final

import numpy as np

from pufferflow.calibration.law_pairs import Pair
from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.errors import Refused
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.markov.chain import Chain

_MOST_ATOMS = 20_000
_MOST_WORK = 30_000_000
_LEAST_MASS = 1e-290
_MOST_COMPARED = 6_000_000


@final
class JointLaws:
    """Vectors Σ_t steps[kinds[t], X_t] along a chain: their laws given the state of any one row.

    Where the first row may have several laws, a state has a law of the past for each of them; any mixture of these is
    then possible, and W_∞ of two mixtures is not above that of their worst parts.
    """

    def __init__(self, chain: Chain, steps: Floats, kinds: Indices) -> None:
        self._chain, self._steps, self._kinds = chain, steps, kinds
        self._work = 0

    def given(self, rows: Flags | None) -> Iterator[tuple[int, list[list[Law]]]]:
        """Yield each row with the laws of the answer for each of its states; a state it cannot have has none."""
        futures = self._futures()
        possible = self._chain.masks[self._chain.mask_of]
        for row, past in enumerate(self._pasts()):
            if rows is not None and not rows[row]:
                continue
            yield (
                row,
                [
                    [self._total(before, futures[row][state], row, state) for before in past[state]]
                    if possible[row, state]
                    else []
                    for state in range(self._chain.states)
                ],
            )

    def _total(self, before: Law, after: Law, row: int, state: int) -> Law:
        self._count(len(before) * len(after))
        return self._check_size(before.convolve(after).shift(self._step(row, state)))

    def _futures(self) -> list[list[Law]]:
        laws = [[self._nothing()] * self._chain.states]
        for row in range(self._chain.length - 1, 0, -1):
            kernel = self._chain.kernels[self._chain.order[row - 1]]
            moved = [law.shift(self._step(row, state)) for state, law in enumerate(laws[-1])]
            laws.append([self._mix(moved, weights) for weights in kernel])
        return laws[::-1]

    def _pasts(self) -> Iterator[list[list[Law]]]:
        """Yield for each row and state the laws of the sum before it, one for each law of the first row."""
        law, before = self._chain.initial, [[self._nothing()] * self._chain.states for _ in self._chain.initial]
        yield self._by_state(law, before, first=True)
        for row, kernel in enumerate(self._chain.order):
            matrix = self._chain.kernels[kernel]
            following: list[list[Law]] = []
            for weights, laws in zip(law, before, strict=True):
                moved = [past.shift(self._step(row, state)) for state, past in enumerate(laws)]
                joint = weights[:, None] * matrix
                following.append([self._mix(moved, column) for column in joint.T])
            law, before = law @ matrix, following
            yield self._by_state(law, before, first=False)

    def _by_state(self, law: Floats, before: list[list[Law]], *, first: bool) -> list[list[Law]]:
        """Return the laws of the past that a state can have; the first row has none before it."""
        if first:
            return [[self._nothing()] for _ in range(self._chain.states)]
        return [
            list(dict.fromkeys(before[i][state] for i in range(len(law)) if law[i, state] > 0))
            for state in range(self._chain.states)
        ]

    def _mix(self, laws: list[Law], weights: Floats) -> Law:
        """Return the mixture with these weights, which need not add up to 1; the law of 0 where they are all 0."""
        total = weights.sum()
        if total == 0:
            return self._nothing()
        used = [(law, weight) for law, weight in zip(laws, (weights / total).tolist(), strict=True) if weight > 0]
        self._count(sum(len(law) for law, _ in used))
        return self._check_size(Law.mixture([law for law, _ in used], [weight for _, weight in used]))

    def _check_size(self, law: Law) -> Law:
        if len(law) > _MOST_ATOMS or law.probabilities.min() < _LEAST_MASS:
            raise _too_large()
        return law

    def _count(self, steps: int) -> None:
        self._work += steps
        if self._work > _MOST_WORK:
            raise _too_large()

    def _step(self, row: int, state: int) -> object:
        step = self._steps[self._kinds[row], state]
        return float(step[0]) if len(step) == 1 else step

    def _nothing(self) -> Law:
        width = self._steps.shape[2]
        return Law.point(0.0 if width == 1 else np.zeros(width))


def many_atoms(chain: Chain, disjoint_rows: Indices) -> bool:
    """Return whether laws are too large to be compared, before any is listed.

    `disjoint_rows` counts the rows of each of some answers that share no row. n such rows have n + 1 sums or more, one
    less given a row of them, and answers together have the product; fewer only where a transition is impossible.
    """
    log_atoms = float(np.log1p(disjoint_rows).sum()) - math.log(2)
    every = bool((chain.kernels > 0).all())
    return every and 2 * log_atoms + math.log(chain.length) > math.log(_MOST_COMPARED)


def few_atoms(pairs: Sequence[Pair]) -> bool:
    """Return whether laws are small enough to be compared pair by pair; only vectors take the product of sizes."""
    laws = [(mu, nu) for mu, nu in pairs if isinstance(mu, Law) and isinstance(nu, Law)]
    sizes = [len(mu) + len(nu) if mu.dimension == 1 else len(mu) * len(nu) for mu, nu in laws]
    return sum(sizes) <= _MOST_COMPARED


def _too_large() -> Refused:
    return Refused(
        "The joint law of these answers along a chain has too many values, or some too unlikely for a float.",
        allowed="joint laws of at most 20000 values",
        instead="bound=pf.Messages() for a pure guarantee (which also keeps a Rényi or (epsilon, delta) one), "
        "or pf.Group()",
    )


_NOTHING = 1e-12


def mean_difference(chain: Chain, values: Floats, kinds: Indices, row: int, pairs: Indices) -> float:
    """Return max |E[sum | X_row = a] − E[sum | X_row = b]| over pairs (a, b): W_∞ is not below it (Jensen).

    It only rules out bounds that cannot improve, so influences that fall by 1e-12 are left out.
    """
    own = values[kinds[row]]
    back = chain.backward
    ahead = _side(((chain.kernels[chain.order[i]], kinds[i + 1]) for i in range(row, len(chain.order))), values)
    behind = _side(((back.rows[back.order[i]][:, 0, :], kinds[i]) for i in range(row - 1, -1, -1)), values)
    total = own + ahead + behind
    return float(np.abs(total[pairs[:, 0]] - total[pairs[:, 1]]).max())


def tail_loss(chain: Chain, values: Floats, kinds: Indices, row: int, pairs: Indices) -> float:
    """Return max |log E[e^sum | X_row = a] − log E[e^sum | X_row = b]| over pairs (a, b) that the row can have.

    It only rules out bounds that cannot improve, as `mean_difference` does.
    """
    with np.errstate(under="ignore"):
        grown, back = np.exp(values - values.max(axis=1, keepdims=True)), chain.backward
    ahead = _grown(((chain.kernels[chain.order[i]], kinds[i + 1]) for i in range(row, len(chain.order))), grown)
    behind = _grown(((back.rows[back.order[i]][:, 0, :], kinds[i]) for i in range(row - 1, -1, -1)), grown)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = values[kinds[row]] + np.log(ahead) + np.log(behind)
        differences = np.abs(total[pairs[:, 0]] - total[pairs[:, 1]])
    return float(differences.max()) if np.isfinite(differences).all() else 0.0


@np.errstate(under="ignore")
def _grown(steps: Iterable[tuple[Floats, int]], grown: Floats) -> Floats:
    """Return E e^sum of the rows on one side for each state, up to a common factor."""
    product = np.eye(grown.shape[1])
    for kernel, kind in steps:
        product = product @ (kernel * grown[kind])
        known = product[product.any(axis=1)]  # without states that underflow or cannot occur
        if not len(known):
            break
        product, known = product / known.max(), known / known.max()
        shares = known / known.sum(axis=1, keepdims=True)
        if np.ptp(shares, axis=0).max() < _NOTHING:
            break
    return np.asarray(product.sum(axis=1))


def _side(steps: Iterable[tuple[Floats, int]], values: Floats) -> Floats:
    """Return the expected sum of the rows on one side, for each state."""
    states = values.shape[1]
    law, total = np.eye(states), np.zeros(states)
    for kernel, kind in steps:
        law = law @ kernel
        total += law @ values[kind]
        if np.ptp(law, axis=0).max() < _NOTHING:
            break
    return total
