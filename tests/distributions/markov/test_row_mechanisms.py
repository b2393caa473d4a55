"""Mechanisms with a loss per row, along chains (M37, M38): against enumeration of all outputs."""

import itertools
import math

import numpy as np
import pytest
from thinned import thinned

from pufferflow.calibration.chain_bounds import RowBridge
from pufferflow.distributions.markov.chain import Chain, stationary
from pufferflow.distributions.markov.chain_class import Chains
from pufferflow.distributions.markov.row_mechanisms import (
    leak_of_order,
    leak_of_rows,
    leak_with_delta,
)
from pufferflow.distributions.markov.state_loss import Secrets


def random_chain(rng, states, rows):
    kernels = rng.dirichlet(np.ones(states), (2, states))
    return Chain(
        kernels, rng.integers(0, 2, rows - 1).astype(np.intp), rng.dirichlet(np.ones(states))[None]
    )


def laws_of_outputs(chain, channel, row):
    """The law of the outputs of one channel on every row, given each state of a row."""
    rows, states, outputs = chain.length, chain.states, channel.shape[1]
    weights = np.array(list(itertools.product(range(states), repeat=rows)))
    mass = chain.initial[0][weights[:, 0]]
    for t in range(rows - 1):
        mass = mass * chain.kernels[chain.order[t]][weights[:, t], weights[:, t + 1]]
    told = np.array(list(itertools.product(range(outputs), repeat=rows)))
    likelihood = np.prod([channel[weights[:, t]][:, told[:, t]] for t in range(rows)], axis=0)
    laws = np.array(
        [np.where(weights[:, row] == state, mass, 0.0) @ likelihood for state in range(states)]
    )
    return laws / laws.sum(axis=1, keepdims=True)


def secrets_at(row, rows, states):
    return Secrets(np.argwhere(~np.eye(states, dtype=bool)), np.arange(rows) == row)


@pytest.mark.parametrize("states", [2, 3])
def test_rows_with_a_delta_are_never_below_the_exact_hockey_stick(states):
    """Randomised response that tells the value itself with probability δ₀: (ε, δ) of M37 covers all outputs."""
    rng = np.random.default_rng(states)
    for _ in range(12):
        rows, epsilon, delta = (
            int(rng.integers(1, 5 if states == 2 else 4)),
            rng.uniform(0.1, 1.5),
            rng.uniform(0, 0.05),
        )
        chain = random_chain(rng, states, rows)
        response = np.where(np.eye(states), math.exp(epsilon), 1.0)
        response = (1 - delta) * response / response.sum(axis=1, keepdims=True)
        channel = np.concatenate([response, delta * np.eye(states)], axis=1)
        for row in range(rows):
            found_epsilon, found_delta = leak_with_delta(
                chain, epsilon, delta, secrets_at(row, rows, states)
            )
            laws = laws_of_outputs(chain, channel, row)
            for p, q in itertools.permutations(laws, 2):
                assert np.maximum(p - math.exp(found_epsilon) * q, 0).sum() <= found_delta + 1e-13


@pytest.mark.parametrize("states", [2, 3])
def test_orders_of_releases_in_row_order_are_never_below_the_exact_loss(states):
    """Random channels, one release a row: D_α of all outputs is at most M38's, and near it for two states."""
    rng, ratios = np.random.default_rng(10 + states), []
    for _ in range(12):
        rows, alpha = (
            int(rng.integers(1, 6 if states == 2 else 5)),
            float(rng.choice([1.5, 2.0, 4.0, 8.0])),
        )
        chain, channel = (
            random_chain(rng, states, rows),
            rng.dirichlet(np.full(2, 3.0), states) + 0.02,
        )
        channel /= channel.sum(axis=1, keepdims=True)
        powers = (channel[:, None] ** alpha * channel[None] ** (1 - alpha)).sum(axis=2)
        losses = np.maximum(np.log(powers), 0.0) / (alpha - 1)
        for row in range(rows):
            found = leak_of_order(chain, losses, alpha, secrets_at(row, rows, states))
            laws = laws_of_outputs(chain, channel, row)
            exact = max(
                math.log((p**alpha * q ** (1 - alpha)).sum()) / (alpha - 1)
                for p, q in itertools.permutations(laws, 2)
            )
            assert exact <= found * (1 + 1e-12)
            ratios.append(exact / found)
    assert np.median(ratios) > 0.3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stay", "epsilon", "ratio"),
    [(0.9, 0.1, 13.242684), (0.9, 0.5, 33.344397), (0.75, 0.1, 3.313872)],
)
def test_delta_stays_finite_for_ever(stay, epsilon, ratio):
    """A long chain comes to M37's endless totals of δ/δ₀, and a million rows cost no more."""
    kernel, start = np.array([[[stay, 1 - stay], [1 - stay, stay]]]), np.array([[0.5, 0.5]])
    totals = [
        leak_with_delta(
            Chain(kernel, np.zeros(rows, dtype=np.intp), start),
            epsilon,
            1e-6,
            Secrets(np.array([[0, 1], [1, 0]])),
        )
        for rows in (400, 10**6)
    ]
    (short, delta), (long, endless) = totals
    assert long == pytest.approx(short, rel=1e-6)
    assert endless / 1e-6 == pytest.approx(ratio, rel=1e-5)
    assert delta == pytest.approx(endless, rel=1e-4)


@pytest.mark.parametrize(
    ("alpha", "rho", "loss"),
    [(2.0, 0.01, 0.09206209), (2.0, 0.1, 1.19181323), (8.0, 0.02, 0.28258071)],
)
def test_orders_stay_finite_for_ever(alpha, rho, loss):
    """A long chain of stay-probability .9 comes to M38's endless Rényi losses, also where kernels cap them."""
    kernel, start = np.array([[[0.9, 0.1], [0.1, 0.9]]]), np.array([[0.5, 0.5]])
    pairs = Secrets(np.array([[0, 1], [1, 0]]))
    chain = Chain(kernel, np.zeros(5000, dtype=np.intp), start)
    assert leak_of_order(chain, rho * (1 - np.eye(2)), alpha, pairs) == pytest.approx(
        loss, rel=1e-6
    )
    assert leak_of_order(chain, 0.3 * (1 - np.eye(2)), 2.0, pairs) == pytest.approx(
        4.48646973, rel=1e-6
    )


def telling_response(states, epsilon, delta):
    """Randomised response that tells the value itself with probability delta."""
    response = np.where(np.eye(states), math.exp(epsilon), 1.0)
    response = (1 - delta) * response / response.sum(axis=1, keepdims=True)
    return np.concatenate([response, delta * np.eye(states)], axis=1)


@pytest.mark.parametrize("states", thinned([2, 3], 0.5))
def test_a_class_of_chains_keeps_what_the_worst_of_its_members_keeps(states):
    """Members with a kernel of their own at every step lose no more than the class, by outputs and by their bounds."""
    rng, ratios = np.random.default_rng(20 + states), []
    pairs = np.argwhere(~np.eye(states, dtype=bool))
    for _ in range(8):
        rows, epsilon, delta = (
            int(rng.integers(2, 5)),
            rng.uniform(0.1, 1.0),
            rng.uniform(0.001, 0.05),
        )
        members = rng.dirichlet(np.full(states, 5.0), states) * 0.8 + 0.2 * rng.dirichlet(
            np.ones(states), (6, states)
        )
        initial = rng.dirichlet(np.ones(states))[None]
        order = np.zeros(rows - 1, dtype=np.intp)
        band = Chains(members.min(axis=0)[None], members.max(axis=0)[None], order, initial)
        for row in range(rows):
            secrets = Secrets(pairs, np.arange(rows) == row)
            found = leak_with_delta(band, epsilon, delta, secrets)
            member = Chain(members, rng.integers(0, 6, rows - 1).astype(np.intp), initial)
            own = leak_with_delta(member, epsilon, delta, secrets)
            assert own[0] <= found[0] * (1 + 1e-9)
            ratios.append(own[1] / found[1])
            laws = laws_of_outputs(member, telling_response(states, epsilon, delta), row)
            for p, q in itertools.permutations(laws, 2):
                assert np.maximum(p - math.exp(found[0]) * q, 0).sum() <= found[1] + 1e-13
    assert np.median(ratios) > 0.7


def test_bounds_that_hold_a_single_chain_lose_what_it_loses():
    """A class of one member has the ε and δ of the chain, for ever too."""
    kernel, start = np.array([[[0.9, 0.1], [0.2, 0.8]]]), np.array([[2 / 3, 1 / 3]])
    pairs, order = Secrets(np.array([[0, 1], [1, 0]])), np.zeros(4000, dtype=np.intp)
    single = leak_of_rows(Chain(kernel, order, start), 0.1, pairs)
    band = leak_of_rows(Chains(kernel, kernel, order, start), 0.1, pairs)
    assert single.endless
    assert band.endless
    assert band[:2] == pytest.approx(single[:2], rel=1e-6)


@pytest.mark.parametrize("stay", thinned([0.6, 0.9, 0.99, 0.999], 0.8))
def test_slow_chains_come_to_rest(stay):
    """The loss for ever is the closed form sinh(ε/2) = p/(1−p)·sinh(ε₀/2) of M36, within the pads, and above it."""
    kernel = np.array([[[stay, 1 - stay], [1 - stay, stay]]])
    chain = Chain(kernel, np.zeros(20_000, dtype=np.intp), np.array([[0.5, 0.5]]))
    found = leak_of_rows(chain, 0.02, Secrets(np.array([[0, 1], [1, 0]])))
    exact = 2 * math.asinh(stay / (1 - stay) * math.sinh(0.01))
    assert found.endless
    assert exact <= found.loss <= exact * (1 + 1e-6)


@pytest.mark.slow
def test_kernels_in_turn_come_to_rest_turn_by_turn():
    """A day of kernels: a year loses no less than any part of it, and what stands for all is near to a long walk."""
    rng = np.random.default_rng(5)
    kernels = rng.dirichlet(np.full(3, 2.0), (24, 3))
    pairs, start = Secrets(np.argwhere(~np.eye(3, dtype=bool))), stationary(kernels)[None]
    chains = [Chain(kernels, np.arange(rows) % 24, start) for rows in (30, 500, 8760)]
    losses = [leak_of_rows(chain, 0.1, pairs) for chain in chains]
    assert [one.endless for one in losses] == [False, False, True]
    assert losses[0].loss <= losses[1].loss <= losses[2].loss * (1 + 1e-12)
    assert losses[2][:2] == pytest.approx(losses[1][:2], rel=1e-6)


@pytest.mark.parametrize(
    ("delta", "scale"), thinned([(1e-6, 36.586640), (1e-3, 22.383174)], 0.5, unpack=True)
)
def test_one_gaussian_sum_a_row_for_ever(delta, scale):
    """M37's figures: stay-probability .9, (1, δ) for ever, and back from the noise to ε."""
    chain = Chain(
        np.array([[[0.9, 0.1], [0.1, 0.9]]]), np.zeros(4000, dtype=np.intp), np.array([[0.5, 0.5]])
    )
    bridge = RowBridge(chain, Secrets(np.array([[0, 1], [1, 0]])), endless=True)
    assert 1 / bridge.deviations(1.0, delta) == pytest.approx(scale, abs=1e-6)
    assert bridge.epsilon(1 / scale, delta) == pytest.approx(1.0, abs=1e-6)
    assert bridge.epsilon(0.9 / scale, delta) < 0.95
    assert bridge.leak(0.115734354).growth == pytest.approx(14.004202, rel=1e-6)
    assert bridge.epsilon(0.0, delta) == 0.0
    assert bridge.epsilon(math.inf, delta) == math.inf
