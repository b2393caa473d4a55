"""Mechanisms with a loss per row, along chains (M37, M38): against enumeration of all outputs."""

import itertools
import math

import numpy as np
import pytest

from pufferflow.chains import Chain, Secrets, leak_of_order, leak_with_delta


def random_chain(rng, states, rows):
    kernels = rng.dirichlet(np.ones(states), (2, states))
    return Chain(kernels, rng.integers(0, 2, rows - 1).astype(np.intp), rng.dirichlet(np.ones(states))[None])


def laws_of_outputs(chain, channel, row):
    """The law of the outputs of one channel on every row, given each state of a row."""
    rows, states, outputs = chain.length, chain.states, channel.shape[1]
    weights = np.array(list(itertools.product(range(states), repeat=rows)))
    mass = chain.initial[0][weights[:, 0]]
    for t in range(rows - 1):
        mass = mass * chain.kernels[chain.order[t]][weights[:, t], weights[:, t + 1]]
    told = np.array(list(itertools.product(range(outputs), repeat=rows)))
    likelihood = np.prod([channel[weights[:, t]][:, told[:, t]] for t in range(rows)], axis=0)
    laws = np.array([np.where(weights[:, row] == state, mass, 0.0) @ likelihood for state in range(states)])
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
            found_epsilon, found_delta = leak_with_delta(chain, epsilon, delta, secrets_at(row, rows, states))
            laws = laws_of_outputs(chain, channel, row)
            for p, q in itertools.permutations(laws, 2):
                assert np.maximum(p - math.exp(found_epsilon) * q, 0).sum() <= found_delta + 1e-13


@pytest.mark.parametrize("states", [2, 3])
def test_orders_of_releases_in_row_order_are_never_below_the_exact_loss(states):
    """Random channels, one release a row: D_α of all outputs is at most M38's, and near it for two states."""
    rng, ratios = np.random.default_rng(10 + states), []
    for _ in range(12):
        rows, alpha = int(rng.integers(1, 6 if states == 2 else 5)), float(rng.choice([1.5, 2.0, 4.0, 8.0]))
        chain, channel = random_chain(rng, states, rows), rng.dirichlet(np.full(2, 3.0), states) + 0.02
        channel /= channel.sum(axis=1, keepdims=True)
        powers = (channel[:, None] ** alpha * channel[None] ** (1 - alpha)).sum(axis=2)
        losses = np.maximum(np.log(powers), 0.0) / (alpha - 1)
        for row in range(rows):
            found = leak_of_order(chain, losses, alpha, secrets_at(row, rows, states))
            laws = laws_of_outputs(chain, channel, row)
            exact = max(
                math.log((p**alpha * q ** (1 - alpha)).sum()) / (alpha - 1) for p, q in itertools.permutations(laws, 2)
            )
            assert exact <= found * (1 + 1e-12)
            ratios.append(exact / found)
    assert np.median(ratios) > 0.3


@pytest.mark.parametrize(
    ("stay", "epsilon", "ratio"), [(0.9, 0.1, 13.242684), (0.9, 0.5, 33.344397), (0.75, 0.1, 3.313872)]
)
def test_delta_stays_finite_for_ever(stay, epsilon, ratio):
    """A long chain comes to M37's endless totals of δ/δ₀, and a million rows cost no more."""
    kernel, start = np.array([[[stay, 1 - stay], [1 - stay, stay]]]), np.array([[0.5, 0.5]])
    totals = [
        leak_with_delta(
            Chain(kernel, np.zeros(rows, dtype=np.intp), start), epsilon, 1e-6, Secrets(np.array([[0, 1], [1, 0]]))
        )
        for rows in (400, 10**6)
    ]
    (short, delta), (long, endless) = totals
    assert long == pytest.approx(short, rel=1e-6)
    assert endless / 1e-6 == pytest.approx(ratio, rel=1e-5)
    assert delta == pytest.approx(endless, rel=1e-4)


@pytest.mark.parametrize(
    ("alpha", "rho", "loss"), [(2.0, 0.01, 0.09206209), (2.0, 0.1, 1.19181323), (8.0, 0.02, 0.28258071)]
)
def test_orders_stay_finite_for_ever(alpha, rho, loss):
    """A long chain of stay-probability .9 comes to M38's endless Rényi losses, also where kernels cap them."""
    kernel, start = np.array([[[0.9, 0.1], [0.1, 0.9]]]), np.array([[0.5, 0.5]])
    pairs = Secrets(np.array([[0, 1], [1, 0]]))
    chain = Chain(kernel, np.zeros(5000, dtype=np.intp), start)
    assert leak_of_order(chain, rho * (1 - np.eye(2)), alpha, pairs) == pytest.approx(loss, rel=1e-6)
    assert leak_of_order(chain, 0.3 * (1 - np.eye(2)), 2.0, pairs) == pytest.approx(4.48646973, rel=1e-6)
