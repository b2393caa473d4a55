"""The best allocation of shifts (M34): against a solver, against reference values, and for a million steps."""

import math
import time

import numpy as np
import pytest
from scipy.optimize import nnls

import pufferflow as pf
from pufferflow.learning.displacements import Displacements
from pufferflow.learning.shifts import allocations, deviations

Iteration = pf.learning.Iteration


def gaussian(sigma, contraction=1.0):
    sigma = np.broadcast_to(sigma, np.shape(sigma) or (len(contraction),))
    return Iteration(len(sigma), [pf.Gaussian(s) for s in sigma], contraction)


def squared(iteration, sizes):
    return deviations(iteration, Displacements.of(sizes, iteration.steps)) ** 2


def solved(s, sigma, c):
    """The least Σ(a/σ)², a_t = c_t·z_{t−1} + s_t − z_t, over what is left to hide, z ≥ 0: a quadratic program."""
    size = len(s)
    left = (np.diag(c[1:], -1) - np.eye(size))[:, :-1] / sigma[:, None]
    return nnls(left, -s / sigma, maxiter=1000)[1] ** 2


@pytest.mark.parametrize(
    ("s", "sigma", "c", "value"),
    [
        ([1, 1 / 2, 1 / 3, 1 / 4], 1.0, 1.0, 1.0850694444444442),
        ([0, 2, 0, 1, 3, 0.5], [1, 0.5, 2, 1, 1, 0.7], 1.0, 25.406632451638373 * 2 / 5),
        ([1, 0, 0, 0], 1.0, 0.9, 0.17729232060545635),
    ],
)
def test_reference_allocations(s, sigma, c, value):
    """The values of an independent computation are met, and never undercut."""
    iteration = gaussian(np.broadcast_to(sigma, len(s)), c)
    (found,) = squared(iteration, s)
    assert value * (1 - 1e-12) <= found <= value * (1 + 1e-9)


def test_the_minorant_of_the_mathematics():
    """s = (0, 2, 0, 1, 3, .5) is hidden by a = (0, 1, 1, 1, 1.75, 1.75)."""
    moved = Displacements.of([0, 2, 0, 1, 3, 0.5], 6)
    assert allocations(Iteration(6, pf.Gaussian(1.0)), moved)[0].tolist() == [
        0,
        1,
        1,
        1,
        1.75,
        1.75,
    ]


def test_sixty_random_allocations_are_those_of_a_solver():
    """Unequal noise, contractions below and above 1: never below the optimum, and not above it beyond rounding."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        steps = int(rng.integers(2, 9))
        s = rng.exponential(size=steps) * (rng.random(steps) < 0.7) + 1e-3
        sigma = rng.uniform(0.3, 2, steps)
        c = rng.uniform(0.5, 1.2, steps)
        optimum = solved(s, sigma, c)
        (found,) = squared(gaussian(sigma, c), s)
        assert found == pytest.approx(optimum, rel=1e-11)


def test_allocations_hide_everything_and_nothing_too_early():
    """z_t = c_t·z_{t−1} + s_t − a_t stays ≥ 0 and ends at 0, and Σ(a/σ)² is the square of the deviations."""
    rng = np.random.default_rng(6)
    for _ in range(40):
        steps = int(rng.integers(1, 40))
        s = rng.exponential(size=steps) * (rng.random(steps) < 0.6)
        sigma, c = rng.uniform(0.3, 2, steps), rng.uniform(0.3, 1.1, steps)
        iteration = gaussian(sigma, c)
        (a,), left = allocations(iteration, Displacements.of(s, steps)), 0.0
        for t in range(steps):
            left = c[t] * left + s[t] - a[t]
            assert left >= -1e-12
        assert left == pytest.approx(0, abs=1e-12)
        assert squared(iteration, s)[0] == pytest.approx(((a / sigma) ** 2).sum(), rel=1e-9)


@pytest.mark.parametrize("contraction", [1.0, 0.97, 0.3, 0.0, 1.02, math.inf])
def test_equal_steps_are_pooled_as_unequal_ones_are(contraction):
    """Many displacements at once, of steps that are all equal, cost what each costs by itself, step by step."""
    rng = np.random.default_rng(7)
    s = rng.exponential(size=(30, 25)) * (rng.random((30, 25)) < 0.3)
    s[3] = 0
    equal = squared(Iteration(25, pf.Gaussian(0.7), contraction), s)
    near = gaussian([0.7] * 24 + [0.7000000001], contraction)
    assert equal == pytest.approx([squared(near, row)[0] for row in s], rel=1e-6, abs=1e-300)
    assert equal[3] == 0


def test_a_step_of_which_nothing_is_known_hides_nothing_of_what_came_before():
    """Infinite contractions leave Σ(s/σ)²: each step hides what it moves."""
    assert squared(Iteration(3, pf.Gaussian(1.0), math.inf), [3, 2, 1])[0] == pytest.approx(14)
    assert squared(gaussian([1, 1, 1], [1, math.inf, 1]), [3, 0, 2])[0] == pytest.approx(9 + 4)


@pytest.mark.slow
@pytest.mark.parametrize("contraction", [1.0, 0.999])
def test_a_million_steps_take_seconds(contraction):
    """Falling, rising, random and interrupted displacements of 10⁶ steps."""
    steps = 10**6
    t = np.arange(1, steps + 1)
    rows = [1 / t, t / steps, np.random.default_rng(8).random(steps), np.where(t == steps, 0.0, t)]
    iteration = Iteration(steps, pf.Gaussian(1.0), contraction)
    began = time.process_time()
    falling, *_ = (squared(iteration, row)[0] for row in rows)
    assert time.process_time() - began < 40
    if contraction == 1.0:
        assert falling == pytest.approx(math.fsum(1 / t) ** 2 / steps, rel=1e-8)
