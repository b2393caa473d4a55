"""`largest_log_ratio` against linear programs solved by HiGHS."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from thinned import thinned

from pufferflow.distributions.markov.law_regions import largest_log_ratio, shortest


def by_linear_program(top, bottom, limits):
    """max top·v with bottom·v = 1 and v_e ≤ e^{D(e,f)} v_f."""
    size = len(top)
    rows = []
    for e in range(size):
        for f in range(size):
            if e != f:
                row = np.zeros(size)
                row[e], row[f] = 1.0, -math.exp(limits[e, f])
                rows.append(row)
    found = linprog(-top, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=[bottom], b_eq=[1.0])
    return math.log(-found.fun)


def random_limits(rng, size):
    """Limits of three kinds: any, those of a statistic (full of ties), and nearly equal ones."""
    match rng.integers(3):
        case 0:
            limits = rng.exponential(rng.choice([0.01, 0.3, 2.0]), (size, size))
        case 1:
            values = rng.integers(0, 4, size)
            limits = 0.3 * np.abs(values[:, None] - values).astype(float)
        case _:
            limits = 1.0 + 1e-9 * rng.random((size, size))
    np.fill_diagonal(limits, 0.0)
    return limits


def random_rows(rng, count, size):
    """Laws on the states, some of them with zeros."""
    rows = rng.dirichlet(np.full(size, rng.choice([0.2, 1.0, 5.0])), count)
    if rng.random() < 0.3:
        rows[rows < 0.1] = 0.0
        rows[rows.sum(axis=1) == 0] = 1.0
    return rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("size", thinned([2, 3, 4, 5, 7], 0.2))
def test_spread_solves_its_linear_program(size):
    """The walk ends at the optimum: within HiGHS' own tolerance, and nowhere below it."""
    rng = np.random.default_rng(size)
    for _ in range(40):
        limits, rows = random_limits(rng, size), random_rows(rng, 6, size)
        top, bottom = rows[:3], rows[3:]
        truth = [by_linear_program(a, b, limits) for a, b in zip(top, bottom, strict=True)]
        assert largest_log_ratio(top, bottom, limits) == pytest.approx(truth, abs=1e-7)


def test_spread_is_never_below_a_function_within_the_limits():
    """No v within the limits, random or at a star, has a larger ratio: also where limits are as wide as 300."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        size = int(rng.integers(2, 7))
        limits = shortest(random_limits(rng, size) * rng.choice([1.0, 30.0, 300.0]))
        top, bottom = random_rows(rng, 2, size)
        found = largest_log_ratio(top[None], bottom[None], limits)[0]
        u = -rng.random((100, size)) * limits.max()
        u = (limits[None] + u[:, None, :]).min(axis=2)  # the nearest functions within the limits
        u = np.concatenate([u, limits.T, -limits])
        with np.errstate(divide="ignore"):
            ratios = [np.logaddexp.reduce(np.log(row) + u, axis=1) for row in (top, bottom)]
        assert found >= (ratios[0] - ratios[1]).max() - 1e-15


def test_spread_of_what_cannot_differ_is_nothing():
    """Equal rows, or functions that must be constant, have no ratio but 1."""
    rows = np.array([[0.2, 0.3, 0.5]])
    assert largest_log_ratio(rows, rows[:, ::-1], np.zeros((3, 3)))[0] == 0
    assert largest_log_ratio(rows, rows, np.ones((3, 3)) - np.eye(3))[0] == pytest.approx(
        0, abs=1e-11
    )


def test_spread_is_no_more_than_the_widest_limit():
    """Two rows that never meet are as far apart as the function can be."""
    assert (
        largest_log_ratio(
            np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), np.array([[0.0, 2.5], [1.0, 0.0]])
        )[0]
        == 2.5
    )
