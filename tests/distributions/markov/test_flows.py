"""Plans as proofs, for many states: against vertices, and wherever messages of many states come to rest."""

import itertools
import math

import numpy as np
import pytest
from thinned import thinned

from pufferflow.distributions.markov.chain import Chain, Steps, stationary
from pufferflow.distributions.markov.law_regions import (
    bounds_by_plans,
    bounds_by_plans_or_vertices,
    largest_log_ratio,
    shortest,
)
from pufferflow.distributions.markov.state_loss import Exposures, Secrets, endless_leak, leak


def kernel_of(rng, size, concentration=1.0, stay=0.0):
    return stay * np.eye(size) + (1 - stay) * rng.dirichlet(np.full(size, concentration), size)


def limits_of(rng, kind, size, step):
    values = np.arange(size) / (size - 1)
    limits = {
        "even": np.ones((size, size)),
        "line": np.abs(values[:, None] - values),
        "any": rng.random((size, size)),
    }[kind]
    return step * limits * (1 - np.eye(size))


@pytest.mark.parametrize("kind", thinned(["even", "line", "any"], 0.25))
@pytest.mark.parametrize("step", [0.01, 1.0, 6.0, 25.0])
def test_plans_find_what_vertices_find(kind, step):
    """Both are proven from above and meet; limits so large that plans lose their digits are left to vertices."""
    rng = np.random.default_rng(4)
    for size, concentration, stay in ((4, 1.0, 0.0), (9, 0.3, 0.0), (12, 1.0, 0.7)):
        rows, closed = (
            kernel_of(rng, size, concentration, stay),
            shortest(limits_of(rng, kind, size, step)),
        )
        first, second = np.nonzero(~np.eye(size, dtype=bool))
        found = bounds_by_plans_or_vertices(rows[first], rows[second], closed)
        truth = largest_log_ratio(rows[first], rows[second], closed)
        assert np.abs(found.above - truth).max() <= 1e-8 * step
        assert (found.below <= truth).all()


def test_a_plan_however_rough_is_a_proof():
    """One sweep from anywhere: never below the maximum, and the function it finds is never above it."""
    rng = np.random.default_rng(7)
    for kind, step in itertools.product(("even", "line", "any"), (0.1, 2.0)):
        rows, closed = kernel_of(rng, 12, 0.5), shortest(limits_of(rng, kind, 12, step))
        first, second = np.nonzero(~np.eye(12, dtype=bool))
        truth = largest_log_ratio(rows[first], rows[second], closed)
        for heights in (None, rng.normal(size=(len(first), 12))):
            found = bounds_by_plans(rows[first], rows[second], closed, heights, sweeps=1)
            assert (found.above >= truth - 1e-12).all()
            assert (found.below <= truth).all()
            assert (found.heights[:, :, None] - found.heights[:, None, :] <= closed + 1e-12).all()


def test_states_that_one_row_never_reaches():
    """Zeros in either row: a law on other states is as far away as the limits allow."""
    top, bottom = np.zeros((2, 11)), np.zeros((2, 11))
    top[:, 0], bottom[0, 1], bottom[1, :2] = 1.0, 1.0, 0.5
    closed = shortest(limits_of(np.random.default_rng(1), "even", 11, 2.0))
    found = bounds_by_plans(top, bottom, closed)
    assert found.above == pytest.approx([2.0, 2.0 - math.log((1 + math.exp(2.0)) / 2)], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["even", "line", "any"])
def test_rest_of_many_states_is_near_that_of_long_sequences(kind):
    """Twelve states: the endless total is never below a finite one, and within 1e-5 of it."""
    rng = np.random.default_rng(2)
    kernel, losses = kernel_of(rng, 12, 1.0, 0.3), limits_of(rng, kind, 12, 0.2)[None]
    chain = Chain(kernel[None], np.zeros(1, dtype=np.intp), stationary(kernel[None])[None])
    secrets = Secrets(np.argwhere(~np.eye(12, dtype=bool)))
    found = endless_leak(chain, Exposures(losses, np.zeros(1, dtype=np.intp)), secrets)
    finite = leak(chain.repeated(59), Exposures(losses, np.zeros(60, dtype=np.intp)), secrets)
    assert finite.value <= found.value == pytest.approx(finite.value, rel=1e-5)
    assert found.tight


@pytest.mark.slow
def test_kernels_of_many_states_that_take_turns():
    """Two kernels of eleven states and three exposures in turn: as a long sequence."""
    rng = np.random.default_rng(6)
    kernels = np.array([kernel_of(rng, 11, 1.0, 0.2), kernel_of(rng, 11, 0.5)])
    losses = np.array([0.1, 0.0, 0.3])[:, None, None] * (1 - np.eye(11))
    chain = Chain(kernels, np.arange(2), stationary(kernels)[None])
    secrets = Secrets(np.argwhere(~np.eye(11, dtype=bool)))
    found = endless_leak(chain, Exposures(losses, np.arange(3)), secrets)
    finite = leak(chain.repeated(47), Exposures(losses, np.arange(48) % 3), secrets)
    assert finite.value <= found.value == pytest.approx(finite.value, rel=1e-5)


def test_neighbours_on_a_line_need_the_matrix():
    """Three states that move to neighbours only: finite with D; one number r for all of them grows for ever."""
    kernel = np.array([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]])
    chain = Chain(kernel[None], np.zeros(1, dtype=np.intp), stationary(kernel[None])[None])
    line = Exposures(
        0.5 * np.abs(np.arange(3)[:, None] - np.arange(3))[None], np.zeros(1, dtype=np.intp)
    )
    found = endless_leak(chain, line, Secrets(np.argwhere(~np.eye(3, dtype=bool))))
    assert found.value < 4
    even = np.zeros((3, 3))
    for _ in range(200):
        step = Steps(
            kernel[None, :, None, :], np.zeros(1, dtype=np.intp), *[np.ones((1, 3), dtype=bool)] * 2
        )
        even = (step.send(0, even + 1.0).max()) * (1 - np.eye(3))
    assert even.max() > 30


@pytest.mark.parametrize("size", thinned([5, 11], 0.5))
def test_neighbours_only_mix_slowly_and_still_come_to_rest(size):
    """Many states on a line: the total is finite, and a larger exposure costs more."""
    kernel = 0.5 * np.eye(size) + 0.25 * (np.eye(size, k=1) + np.eye(size, k=-1))
    kernel /= kernel.sum(axis=1, keepdims=True)
    chain = Chain(kernel[None], np.zeros(1, dtype=np.intp), stationary(kernel[None])[None])
    secrets = Secrets(np.argwhere(~np.eye(size, dtype=bool)))
    totals = [
        endless_leak(
            chain, Exposures(step * (1 - np.eye(size))[None], np.zeros(1, dtype=np.intp)), secrets
        ).value
        for step in (0.02, 0.04)
    ]
    assert 0.04 < totals[0] < totals[1] < math.inf


def test_two_states_lose_no_digits_where_one_is_certain():
    """A kernel that alternates hands the limits on, however large: nothing cancels."""
    steps = Steps(
        np.array([[[[0.0, 1.0]], [[1.0, 0.0]]]]),
        np.zeros(1, dtype=np.intp),
        *[np.ones((1, 2), dtype=bool)] * 2,
    )
    for limit in (1.0, 20.0, 36.0, 90.0):
        assert steps.send(0, limit * (1 - np.eye(2)))[0, 1] == limit


def test_coarse_messages_are_never_below_fine_ones():
    """They allow all functions between the least and the largest value: the same where all limits are alike."""
    rng = np.random.default_rng(9)
    for kind, step in itertools.product(("even", "line", "any"), (0.1, 2.0, 700.0)):
        rows, closed = kernel_of(rng, 12, 0.5), shortest(limits_of(rng, kind, 12, step))
        both = np.ones((1, 12), dtype=bool)
        fine, coarse = (
            Steps(rows[None, :, None], np.zeros(1, dtype=int), both, both, coarse=one).send(
                0, closed
            )
            for one in (False, True)
        )
        assert (coarse >= fine - 1e-12 * step).all()
        assert (coarse <= step * (1 + 1e-12)).all()
        if kind == "even" and step < 700:
            assert coarse == pytest.approx(fine, rel=1e-6)
