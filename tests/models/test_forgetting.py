"""How much of a row is left after some steps is what enumerating all paths gives, and never grows."""

import itertools

import numpy as np
import pytest

import pufferflow as pf
from pufferflow.models.priors.memory import (
    forgotten_after,
    longest_memory,
    measure_of_memory,
    memory_after,
)


def enumerated(kernels, starts, steps):
    """Return the largest total variation between the laws of X_{t+n} given two states of X_t, path by path."""
    states = len(kernels[0])
    largest = 0.0
    for start in starts:
        laws = np.zeros((states, states))
        for path in itertools.product(range(states), repeat=steps + 1):
            moves = [
                kernels[(start + at) % len(kernels)][a][b]
                for at, (a, b) in enumerate(itertools.pairwise(path))
            ]
            laws[path[0], path[-1]] += np.prod(moves)
        largest = max(
            largest, *(np.abs(a - b).sum() / 2 for a, b in itertools.combinations(laws, 2))
        )
    return largest


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_memory_is_that_of_all_paths(seed, steps):
    """One matrix, several that take turns (the worst phase), and several that do not (every time with a future)."""
    kernels = np.random.default_rng(seed).dirichlet(np.ones(3) / 2, (6, 3))
    one = pf.MarkovChain(kernels[0])
    turns = pf.MarkovChain(list(kernels[:3]), period=3)
    listed = pf.MarkovChain(list(kernels), initial="free")
    assert memory_after(one, steps) == pytest.approx(enumerated(kernels[:1], [0], steps))
    assert memory_after(turns, steps) == pytest.approx(enumerated(kernels[:3], range(3), steps))
    assert memory_after(listed, steps) == pytest.approx(
        enumerated(kernels, range(7 - steps), steps)
    )
    assert memory_after(listed, 7) is None


def test_memory_never_grows_and_is_forgotten_once():
    """What is left falls with the steps; it is forgotten at the first step with 1 % or less."""
    for chain in (
        pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]]),
        pf.MarkovChain([[[0.99, 0.01], [0.02, 0.98]], [[0.5, 0.5], [0.4, 0.6]]], period=2),
        pf.MarkovChain([[0.999, 0.001], [0.001, 0.999]]),
    ):
        forgotten = forgotten_after(chain)
        left = [memory_after(chain, steps) for steps in range(min(forgotten + 3, 200))]
        assert left[0] == 1
        assert all(after <= before + 1e-12 for before, after in itertools.pairwise(left))
        assert memory_after(chain, forgotten) <= 0.01 < memory_after(chain, forgotten - 1)


def test_what_is_never_forgotten_has_no_number():
    """A chain that flips for ever, or is as good as frozen, or ends too early, is not said to forget."""
    assert forgotten_after(pf.MarkovChain([[0, 1], [1, 0]], initial=[1, 0])) is None
    assert forgotten_after(pf.MarkovChain([[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]])) is None
    short = pf.MarkovChain([[[0.9, 0.1], [0.2, 0.8]]] * 4, initial="free")
    assert (forgotten_after(short), longest_memory(short)) == (None, 4)


def test_autoregression_forgets_as_its_powers():
    """Correlations fall as |φ|^n, of a class of φ the slowest; other priors have no one number."""
    prior = pf.GaussianPrior(pf.AR1(-0.9), variance=1.0)
    assert measure_of_memory(prior) == "correlation"
    assert memory_after(prior, 3) == pytest.approx(0.9**3)
    assert forgotten_after(prior) == 44
    assert memory_after(pf.GaussianPrior(pf.AR1((0.2, 0.5)), variance=1.0), 2) == 0.25
    between = pf.MarkovChain.between([[0.8, 0.1], [0.1, 0.8]], [[0.9, 0.2], [0.2, 0.9]])
    exchangeable = pf.GaussianPrior(pf.Exchangeable(0.4), 4.0, 5.0)
    for other in (pf.Independent(), pf.AnyCorrelation(), between, exchangeable):
        assert (measure_of_memory(other), memory_after(other, 1), forgotten_after(other)) == (
            None,
            None,
            None,
        )
