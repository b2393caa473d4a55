"""How many rows differ along a chain: never fewer than under the exact step-by-step coupling of it."""

import itertools

import numpy as np
import pytest
from thinned import thinned

from pufferflow.distributions.markov.chain import Chain, stationary
from pufferflow.distributions.markov.chain_class import Chains
from pufferflow.distributions.markov.differing_rows import DifferingRows


def later_rows(kernels, first, pair):
    """Probabilities that 0, 1, … rows behind `first` differ, if each step couples what its laws have in common."""
    states, masses = len(kernels[0]), [0.0]
    apart = {pair: 1.0}
    for kernel in kernels[first:]:
        moved = dict.fromkeys(itertools.permutations(range(states), 2), 0.0)
        for (a, b), mass in apart.items():
            common = np.minimum(kernel[a], kernel[b])
            left, right, rest = kernel[a] - common, kernel[b] - common, 1 - common.sum()
            for x, y in moved:
                moved[x, y] += mass * left[x] * right[y] / rest if rest > 1e-15 else 0.0
        masses.append(sum(apart.values()) - sum(moved.values()))
        apart = moved
    return [*masses[1:], sum(apart.values())]


def reversed_kernels(kernels, law):
    """The kernels back in time, the last step's first."""
    laws = [law]
    for kernel in kernels:
        laws.append(laws[-1] @ kernel)
    return [
        (laws[t][:, None] * kernel / laws[t + 1]).T
        for t, kernel in reversed(list(enumerate(kernels)))
    ]


@pytest.mark.parametrize("states", thinned([2, 3, 4], 0.7))
def test_no_row_has_more_differing_rows_than_are_counted(states):
    # both sides of every row and pair of states, under the exact coupling, against the numbers that dominate them
    rng = np.random.default_rng(states)
    for _ in range(12):
        pool = rng.dirichlet(np.full(states, 0.7), size=(2, states))
        order = rng.integers(2, size=6)
        kernels, law = pool[order], rng.dirichlet(np.ones(states))
        chain = Chain(pool, order.astype(np.intp), law[None])
        counts, masses = DifferingRows.of(chain).counts()
        assert masses.sum() == pytest.approx(1, abs=1e-9)
        back = reversed_kernels(kernels, law)
        for row, pair in itertools.product(range(7), itertools.permutations(range(states), 2)):
            after, before = later_rows(kernels, row, pair), later_rows(back, 6 - row, pair)
            total = np.convolve(after, before)
            for number in range(1, 8):
                exact = total[number - 1 :].sum()
                assert exact <= masses[counts >= number].sum() + 1e-12


def test_two_states_that_flip_at_random_meet_at_once():
    # both rows of the kernel are one law: nothing but the secret row differs
    chain = Chain(np.full((1, 2, 2), 0.5), np.zeros(9, dtype=np.intp), np.array([[0.5, 0.5]]))
    counts, masses = DifferingRows.of(chain).counts()
    assert counts[0] == 1
    assert masses[0] == pytest.approx(1, abs=1e-9)


def test_states_that_cannot_be_are_not_told_apart():
    # a chain that begins in its first state surely: nobody could think that its first row was in another one
    kernel = np.array([[[0.5, 0.5], [0.5, 0.5]]])
    begun = Chain(kernel, np.zeros(3, dtype=np.intp), np.array([[1.0, 0.0]]))
    _, masses = DifferingRows.of(begun).counts()
    assert masses[0] == pytest.approx(1, abs=1e-9)


def test_a_class_counts_what_its_members_do_or_more():
    # chains drawn between the bounds, each with its own kernel at every step
    low, high = np.array([[[0.7, 0.1], [0.2, 0.6]]]), np.array([[[0.9, 0.3], [0.4, 0.8]]])
    counts, masses = DifferingRows.of(Chains(low, high, np.zeros(8, dtype=np.intp))).counts()
    rng = np.random.default_rng(5)
    for _ in range(20):
        stays = np.stack([rng.uniform(0.7, 0.9, 8), rng.uniform(0.6, 0.8, 8)], axis=1)
        pool = np.stack([np.array([[a, 1 - a], [1 - b, b]]) for a, b in stays])
        own, weights = DifferingRows.of(
            Chain(pool, np.arange(8), stationary(pool[:1])[None])
        ).counts()
        for number in range(1, 10):
            assert weights[own >= number].sum() <= masses[counts >= number].sum() + 1e-9
