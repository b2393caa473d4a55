"""Messages along a chain whose stretches were touched in one of several ways, whichever."""

import itertools

import numpy as np
import pytest

from pufferflow.distributions.markov.chain import Chain, stationary
from pufferflow.distributions.markov.chain_parts import ChainPart, Way, leak_of_parts
from pufferflow.distributions.markov.state_loss import Exposures, Secrets, leak


def random_case(rng):
    """Return a chain, and parts of it with one to three ways each."""
    states = int(rng.integers(2, 4))
    kernels = rng.dirichlet(np.ones(states), (2, states)) * 0.9 + 0.1 / states
    lengths = rng.integers(1, 5, int(rng.integers(1, 4)))
    rows = int(lengths.sum())
    order = rng.integers(0, 2, rows - 1)
    chain = Chain(kernels, order, stationary(kernels[:1])[None])
    losses = rng.exponential(0.7, (3, 1, 1)) * (1 - np.eye(states))
    losses[0] = 0.0
    parts, first = [], 0
    for length in lengths.tolist():
        ways = [
            Way(Exposures(losses, rng.integers(0, 3, length)))
            for _ in range(int(rng.integers(1, 4)))
        ]
        parts.append(ChainPart(first, ways))
        first += length
    pairs = np.array([(a, b) for a in range(states) for b in range(states) if a != b])
    secrets = Secrets(
        pairs, None if rng.random() < 0.7 else np.arange(rows) == int(rng.integers(rows))
    )
    return chain, parts, secrets


def of_choices(chain, parts, secrets):
    """Return the leak of every choice of one way in each part."""
    for chosen in itertools.product(*(part.ways for part in parts)):
        exposures = Exposures(
            chosen[0].exposures.losses,
            np.concatenate([one.exposures.kinds for one in chosen]),
        )
        yield leak(chain, exposures, secrets).value


@pytest.mark.parametrize("seed", range(25))
def test_no_choice_of_ways_leaks_more(seed):
    """The leak is never below that of any choice, and of one way in each part it is that of the chain."""
    chain, parts, secrets = random_case(np.random.default_rng(seed))
    found, true = leak_of_parts(chain, parts, secrets).value, max(of_choices(chain, parts, secrets))
    assert true <= found * (1 + 1e-12)
    assert found <= 2 * true + 1e-9
    single = [ChainPart(part.first, part.ways[:1]) for part in parts]
    assert leak_of_parts(chain, single, secrets).value == pytest.approx(
        next(of_choices(chain, single, secrets)), rel=1e-7
    )


def test_two_states_lose_no_more_than_the_worst_choice():
    """Of two states messages of all ways are ordered, so that the worst choice is met exactly, however many parts."""
    rng = np.random.default_rng(0)
    chain = Chain(
        np.array([[[0.9, 0.1], [0.1, 0.9]]]), np.zeros(8, dtype=np.intp), np.array([[0.5, 0.5]])
    )
    losses = (1 - np.eye(2))[None] * np.array([0.0, 0.2, 1.0])[:, None, None]
    parts = [
        ChainPart(3 * k, [Way(Exposures(losses, rng.integers(0, 3, 3))) for _ in range(3)])
        for k in range(3)
    ]
    secrets = Secrets(np.array([[0, 1], [1, 0]]))
    assert leak_of_parts(chain, parts, secrets).value == pytest.approx(
        max(of_choices(chain, parts, secrets)), rel=1e-7
    )


def test_long_sequences_of_like_parts_are_quick():
    """A thousand days take as long as the few until messages rest."""
    chain = Chain(
        np.array([[[0.9, 0.1], [0.1, 0.9]]]),
        np.zeros(23_999, dtype=np.intp),
        np.array([[0.5, 0.5]]),
    )
    losses = (1 - np.eye(2))[None] * np.array([0.0, 0.1, 1.0])[:, None, None]
    ways = [
        Way(Exposures(losses, np.ones(24, dtype=np.intp))),
        Way(Exposures(losses, np.array([2, *([0] * 23)]))),
    ]
    parts = [ChainPart(24 * day, ways) for day in range(1000)]
    assert 1 < leak_of_parts(chain, parts, Secrets(np.array([[0, 1], [1, 0]]))).value < 2
