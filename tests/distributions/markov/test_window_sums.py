"""Laplace sums in windows of a chain: their loss against the joint law of all rows, added up path by path (M62)."""

import itertools
import math

import numpy as np
import pytest

from pufferflow.distributions.markov.chain import Chain, stationary
from pufferflow.distributions.markov.chain_parts import (
    ChainPart,
    Way,
    endless_leak_of_parts,
    leak_of_parts,
)
from pufferflow.distributions.markov.state_loss import Exposures, Secrets
from pufferflow.distributions.markov.window_sums import NoisySum, WindowSums, extreme_rays

STAY = [[0.05, 0.95], [0.95, 0.05]]


def all_pairs(states):
    return np.argwhere(~np.eye(states, dtype=np.bool_))


def chain_of(kernel, rows):
    """Return a chain of one kernel that starts at rest."""
    kernels = np.array(kernel, dtype=np.float64)[None]
    return Chain(kernels, np.zeros(rows - 1, dtype=np.intp), stationary(kernels)[None])


def way_of(sums):
    """Return the way of some sums: what they add up to, and the exposures of their rows."""
    losses = sum(
        one.loss * np.abs(one.terms[:, :, None] - one.terms[:, None, :]).astype(float)
        for one in sums
    )
    return Way(Exposures(losses, np.arange(len(losses))), WindowSums(tuple(sums)))


def windows(kernel, rows, scale, count):
    """Return equal windows of sums of the states, one after another."""
    terms = np.tile(np.arange(len(kernel)), (rows, 1))
    ways = [way_of([NoisySum(terms, 1 / scale)])]
    return [ChainPart(rows * at, ways) for at in range(count)]


def total(kernel, rows, scale, count):
    parts = windows(kernel, rows, scale, count)
    chain = chain_of(kernel, rows * count)
    return leak_of_parts(chain, parts, Secrets(all_pairs(len(kernel)))).value


def for_ever(kernel, rows, scale):
    parts = windows(kernel, rows, scale, 1)
    turn = Chain(
        np.array([kernel]), np.zeros(1, dtype=np.intp), stationary(np.array([kernel]))[None]
    )
    return endless_leak_of_parts(turn, [], parts, Secrets(all_pairs(len(kernel))))


def exact_loss(chain, parts, pairs):
    """Return the largest log ratio of likelihoods of any outputs, by adding up every path of the chain."""
    paths = np.array(list(itertools.product(range(chain.states), repeat=chain.length)))
    weight = chain.initial[0][paths[:, 0]]
    for row, kernel in enumerate(chain.order):
        weight = weight * chain.kernels[kernel][paths[:, row], paths[:, row + 1]]
    likelihood = np.ones((len(paths), 1))
    for part in parts:
        for one in () if part.ways[0].sums is None else part.ways[0].sums.sums:
            steps = sum(one.terms[row][paths[:, part.first + row]] for row in range(len(one.terms)))
            possible = np.unique(steps)
            density = np.exp(-one.loss * np.abs(steps[:, None] - possible[None, :]))
            likelihood = (likelihood[:, :, None] * density[:, None, :]).reshape(len(paths), -1)
    largest = 0.0
    for row in range(chain.length):
        laws, mass = [], []
        for state in range(chain.states):
            own = weight * (paths[:, row] == state)
            mass.append(own.sum())
            laws.append(own @ likelihood / max(mass[-1], 1e-300))
        for a, b in pairs:
            if mass[a] > 0 and mass[b] > 0:
                largest = max(largest, float(np.log(laws[a] / laws[b]).max()))
    return largest


def random_case(rng, states):
    """Return a chain with kernels that change, some entries 0, and parts: windows of one or two sums, and gaps."""
    kernels = rng.dirichlet(np.ones(states) * 0.7, (2, states)) * 0.97 + 0.03 / states
    if rng.random() < 0.3:
        kernels[0, 0, 0] = 0.0
        kernels[0] /= kernels[0].sum(axis=1, keepdims=True)
    most = {2: 8, 3: 6, 4: 5}[states]
    parts, rows = [], 0
    while rows < most and (rows < 2 or rng.random() < 0.8):
        length = int(rng.integers(1, min(4, most - rows) + 1))
        if rng.random() < 0.25:
            quiet = np.zeros((1, states, states))
            parts.append(ChainPart(rows, [Way(Exposures(quiet, np.zeros(length, dtype=np.intp)))]))
        else:
            count = int(rng.integers(1, 3))
            parts.append(
                ChainPart(rows, [way_of([random_sum(rng, length, states) for _ in range(count)])])
            )
        rows += length
    order = rng.integers(0, 2, rows - 1)
    law = (
        stationary(kernels[:1])[None]
        if rng.random() < 0.5
        else rng.dirichlet(np.ones(states))[None]
    )
    return Chain(kernels, order, law), parts


def random_sum(rng, rows, states):
    """Return a sum whose rows add different terms, some of them nothing."""
    terms = rng.integers(0, 3, (rows, states)) * (rng.random((rows, 1)) < 0.8)
    return NoisySum(terms, float(rng.exponential(0.5)) + 0.05)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("states", [2, 3, 4])
def test_no_outputs_reveal_more(states, seed):
    """The loss is never below that of the joint law, and of two states it is that."""
    chain, parts = random_case(np.random.default_rng(100 * states + seed), states)
    pairs = all_pairs(states)
    true, found = exact_loss(chain, parts, pairs), leak_of_parts(chain, parts, Secrets(pairs)).value
    assert true <= found + 1e-13  # adding up paths rounds, too
    if states == 2:
        assert found == pytest.approx(true, abs=2e-8)  # messages are rounded up between parts
    assert found <= 1.5 * true + 1e-6


@pytest.mark.parametrize(
    ("count", "loss"), [(1, 0.19211528), (2, 0.36491792), (3, 0.41677731), (8, 0.49729924)]
)
def test_rows_that_alternate_reveal_little_by_window(count, loss):
    """Where neighbours avoid each other, two windows cost .365; their exposures alone come to 4.51."""
    assert total(STAY, 12, 2.0, count) == pytest.approx(loss, abs=1e-7)


@pytest.mark.parametrize(
    ("kernel", "rows", "scale", "loss"),
    [
        (STAY, 12, 2.0, 0.5),
        ([[0.1, 0.9], [0.9, 0.1]], 11, 10.0, 0.11871208),
        ([[0.1, 0.9], [0.9, 0.1]], 12, 10.0, 0.1),
        ([[0.9, 0.1], [0.1, 0.9]], 24, 10.0, 0.87244134),
        ([[0.2, 0.8], [0.7, 0.3]], 3, 2.0, 0.63339287),
        ([[0.9, 0.1], [0.4, 0.6]], 3, 2.0, 1.73204238),
    ],
)
def test_windows_without_end(kernel, rows, scale, loss):
    """The loss of an endless schedule is a message that a turn does not raise, and no number of windows passes it."""
    endless = for_ever(kernel, rows, scale)
    assert endless == pytest.approx(loss, abs=1e-7)
    assert total(kernel, rows, scale, 40) <= endless


def test_a_cycle_of_three_states():
    """Three values that follow each other nearly always: 1.67 by exposures."""
    cycle = [[0.05, 0.9, 0.05], [0.05, 0.05, 0.9], [0.9, 0.05, 0.05]]
    assert total(cycle, 12, 10.0, 4) == pytest.approx(0.19607630, abs=1e-7)


def test_a_head_before_an_endless_schedule():
    """A large window at the beginning fades, and the whole is at least each of its parts."""
    kernel = [[0.8, 0.2], [0.3, 0.7]]
    every, turn = windows(kernel, 6, 8.0, 1), chain_of(kernel, 2)
    loud = windows(kernel, 6, 1.0, 1)
    later = [ChainPart(6, every[0].ways)]
    secrets = Secrets(all_pairs(2))
    endless = endless_leak_of_parts(turn, loud, later, secrets)
    finite = leak_of_parts(
        chain_of(kernel, 6 * 20),
        [*loud, *(ChainPart(6 * at, every[0].ways) for at in range(1, 20))],
        secrets,
    ).value
    assert finite <= endless <= finite * (1 + 1e-6)
    assert endless > for_ever(kernel, 6, 8.0)


@pytest.mark.parametrize("states", [2, 3, 4, 5])
def test_extreme_rays_span_the_cone(states):
    """No linear ratio is larger inside the cone than at its rays, which are inside themselves."""
    rng = np.random.default_rng(states)
    for _ in range(20):
        limits = rng.exponential(1.0, (states, states)) * (1 - np.eye(states))
        rays = extreme_rays(limits, np.ones(states, dtype=np.bool_))
        with np.errstate(divide="ignore"):
            logs = np.log(rays)
        assert (logs[:, :, None] - logs[:, None, :] <= limits + 1e-8).all()
        assert len(rays) <= math.comb(2 * states - 2, states - 1)
        top, bottom = rng.random((2, 200, states))
        inside = rng.dirichlet(np.ones(len(rays)) * 0.3, 200) @ rays
        ratio = (inside @ top.T) / (inside @ bottom.T)
        assert (
            ratio.max(axis=0) <= ((rays @ top.T) / (rays @ bottom.T)).max(axis=0) * (1 + 1e-9)
        ).all()
        for ray in rays:  # each one is the best for some functional, or equal to another
            assert np.isclose(logs.max(axis=1), 0).all(), ray


def test_states_that_a_row_cannot_have_tie_no_others():
    """A state without probability at a boundary would link the others by its message of 0."""
    kernels = np.array([[[0.7, 0.3, 0.0], [0.2, 0.8, 0.0], [0.0, 0.0, 1.0]], [[0.4, 0.3, 0.3]] * 3])
    chain = Chain(kernels, np.array([0, 0, 0]), np.array([[0.5, 0.5, 0.0]]))
    terms = np.tile(np.arange(3), (2, 1))
    parts = [ChainPart(at, [way_of([NoisySum(terms, 0.4)])]) for at in (0, 2)]
    true = exact_loss(chain, parts, all_pairs(3))
    found = leak_of_parts(chain, parts, Secrets(all_pairs(3))).value
    assert 0 < true <= found + 1e-13 <= true + 1e-7


@pytest.mark.parametrize(("rows", "states", "loss"), [(5_000, 2, 0.1), (12, 6, 0.1), (12, 2, 40.0)])
def test_windows_beyond_reach_count_by_their_rows(rows, states, loss):
    """Long windows, many states, and noise so small that floats lose laws."""
    terms = np.tile(np.arange(states), (rows, 1))
    way = way_of([NoisySum(terms, loss)])
    chain = chain_of(np.full((states, states), 1 / states), rows)
    assert way.sums.along(chain, 0) is None
    alone = leak_of_parts(chain, [ChainPart(0, [way])], Secrets(all_pairs(states))).value
    assert alone == pytest.approx(loss * (states - 1), rel=1e-6)


def test_a_tiny_transition_keeps_its_digits():
    """Messages of two states took 3e-16 for what is left of 1, and were .1 too small at an epsilon of 60."""
    tiny = 3e-16
    kernels = np.array([[[1 - tiny, tiny], [0.5, 0.5]]])
    chain = Chain(kernels, np.zeros(1, dtype=np.intp), np.array([[0.5, 0.5]]))
    sums = [way_of([NoisySum(np.array([[0, 1]]), 60.0)]) for _ in range(2)]
    parts = [ChainPart(0, [sums[0]]), ChainPart(1, [sums[1]])]
    assert leak_of_parts(chain, parts, Secrets(all_pairs(2))).value >= 95.0496
