"""Rows along a chain in an iteration: every proof against the exact law of the last iterate."""

import itertools
import math
import time

import numpy as np
import pytest
from scipy.stats import norm
from thinned import thinned

import pufferflow as pf

learning = pf.learning


def sequences(chain, length, row, state):
    """All sequences of states with their probabilities, given the state of one row."""
    kernel, (start,) = chain.kernels[0], chain.initial_laws
    all_states = np.array(list(itertools.product(range(len(start)), repeat=length)))
    weights = start[all_states[:, 0]] * np.prod(
        kernel[all_states[:, :-1], all_states[:, 1:]], axis=1
    )
    weights = np.where(all_states[:, row] == state, weights, 0.0)
    return all_states, weights / weights.sum()


def density(at, centres, weights, spread):
    values, place = np.unique(centres.round(12), return_inverse=True)
    return np.bincount(place, weights) @ norm.pdf(at[None], values[:, None], spread)


def exact_losses(chain, values, descent, alpha, epsilons):
    """The largest D_α of the last iterate, and its largest hockey sticks, over secret rows and pairs of states.

    The loss of a row is linear, w·x, so that W_T = −Σ_t η·mean(x over batch t) + noise, in every pass.
    """
    spread = descent.noise * math.sqrt(descent.iteration.steps)
    counts = np.minimum(
        descent.batch_size,
        descent.rows - np.arange(descent.rows) // descent.batch_size * descent.batch_size,
    )
    factors = descent.passes * descent.step_size / counts
    reach = 12 * spread + float(np.abs(values).max() * factors.sum())
    at = np.linspace(-reach, reach, 6001)
    step = at[1] - at[0]
    renyi, hockey = 0.0, dict.fromkeys(epsilons, 0.0)
    for row in range(descent.rows):
        laws = []
        for state in range(len(values)):
            states, weights = sequences(chain, descent.rows, row, state)
            laws.append(density(at, -(values[states] @ factors), weights, spread))
        for p, q in itertools.permutations(laws, 2):
            inside = q > 1e-250
            renyi = max(
                renyi,
                math.log((p[inside] ** alpha * q[inside] ** (1 - alpha)).sum() * step)
                / (alpha - 1),
            )
            for name, epsilon in epsilons.items():
                hockey[name] = max(
                    hockey[name], float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * step)
                )
    return renyi, hockey


TWO = pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]])
FLIP = pf.MarkovChain([[0.3, 0.7], [0.8, 0.2]], initial=[0.9, 0.1])
THREE = pf.MarkovChain([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])


@pytest.mark.parametrize(
    ("chain", "values", "noise", "batch", "passes"),
    thinned(
        [
            (TWO, [0.0, 1.0], 0.5, 1, 1),
            (TWO, [0.0, 1.0], 0.3, 2, 2),
            (FLIP, [0.0, 1.0], 0.4, 1, 1),
            (THREE, [0.0, 1.0, 1.5], 0.6, 1, 1),
            (THREE, [0.0, 2.0, 1.5], 0.5, 3, 1),
        ],
        0.4,
        unpack=True,
    ),
    ids=["two states", "batches and passes", "alternating", "three states", "three in batches"],
)
def test_no_proof_is_below_the_exact_loss_of_a_linear_model(chain, values, noise, batch, passes):
    """Group, coupling, chain order and row by row, each above the exact Rényi loss and hockey stick."""
    values, delta, alpha = np.array(values), 0.01, 2.0
    descent = learning.Descent(
        6, 0.5, noise, 10.0, 1e-9, data_lipschitz=1.0, batch_size=batch, passes=passes
    )
    rows = learning.ChainRows(chain, np.abs(values[:, None] - values), descent)
    approx = learning.iteration_loss(descent.iteration, rows, pf.Approx.of(delta=delta))
    renyi = learning.iteration_loss(descent.iteration, rows, pf.Renyi.of(alpha=alpha))
    exact, hockey = exact_losses(chain, values, descent, alpha, dict(approx.losses))
    assert all(exact <= loss for loss in renyi.losses.values())
    assert all(found <= delta for found in hockey.values())
    assert approx.value == min(approx.losses.values()) < approx.losses["group"]
    assert ("chain order" in approx.losses) == (batch == passes == 1)


def test_rows_that_stay_as_they_are_cost_what_the_group_does():
    """A chain that hardly ever moves is one row many times: only the group is left, and the coupling comes to it."""
    descent = learning.Descent(8, 0.5, 1.0, 1.0, 1.0)
    rows = learning.ChainRows(
        pf.MarkovChain([[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]]), [[0, 1], [1, 0]], descent
    )
    found = learning.iteration_loss(descent.iteration, rows, pf.Renyi.of(alpha=2))
    assert found.losses["coupling"] == pytest.approx(found.losses["group"], rel=1e-6)


def test_independent_rows_cost_what_one_row_does():
    """A chain that forgets at once has the loss of the last row alone."""
    descent = learning.Descent(8, 0.5, 1.0, 1.0, 1.0)
    rows = learning.ChainRows(pf.MarkovChain([[0.5, 0.5], [0.5, 0.5]]), [[0, 1], [1, 0]], descent)
    kind = pf.Renyi.of(alpha=2)
    alone = learning.iteration_loss(descent.iteration, descent.independent_rows(), kind).value
    found = learning.iteration_loss(descent.iteration, rows, kind)
    assert found.losses["coupling"] == pytest.approx(alone, rel=1e-6)
    assert found.losses["chain order"] == pytest.approx(alone, rel=1e-6)


@pytest.mark.slow
def test_rows_apart_in_time_and_in_the_order_of_visits_lose_less():
    """Gaps in time forget; rows visited early, before others of other sequences, are hidden by later noise."""
    descent = learning.Descent(60, 0.5, 1.0, 1.0, 1.0)
    kind = pf.Approx.of(delta=1e-5)

    def value(**more):
        rows = learning.ChainRows(TWO, [[0, 1], [1, 0]], descent, **more)
        return learning.iteration_loss(descent.iteration, rows, kind).value

    last, early = list(range(50, 60)), list(range(10))
    assert value(rows=early) < value(rows=last)
    assert value(rows=last, positions=[3 * t for t in range(10)]) < value(rows=last)
    assert value(rows=last, pairs=[(0, 1)]) == value(rows=last)


@pytest.mark.slow
def test_each_row_by_itself_carried_along_the_chain_has_the_endless_closed_form():
    """Without amplification σ = 36.58664 keeps (1, 1e-6) for one Gaussian release a row, stay-probability .9."""
    descent = learning.Descent(90, 1.0, 1.0, 0.5, 1.0)
    rows = learning.ChainRows(pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]), [[0, 1], [1, 0]], descent)
    iteration = learning.Iteration(90, pf.Gaussian(36.58664), contraction=math.inf)
    found = learning.iteration_loss(iteration, rows, pf.Approx.of(delta=1e-6))
    assert found.losses["row by row"] == pytest.approx(1.0, rel=5e-3)


@pytest.mark.nightly
def test_a_million_rows_take_seconds():
    """A chain and Gaussian rows of 10⁶, one a step, bounded by what settles and by branch and bound."""
    descent = learning.Descent(10**6, 0.1, 2.0, 1.0, 1.0, data_lipschitz=1.0)
    began = time.process_time()
    rows = learning.ChainRows(TWO, [[0, 1], [1, 0]], descent)
    assert learning.iteration_loss(descent.iteration, rows, pf.Approx.of(delta=1e-6)).value < 2
    gaussian = learning.GaussianRows(pf.GaussianPrior(pf.AR1(0.5)), 1.0, descent)
    found = learning.iteration_loss(descent.iteration, gaussian, pf.Renyi.of(alpha=2)).value
    assert found == pytest.approx(0.0036458333, rel=2e-3)
    assert time.process_time() - began < 60
