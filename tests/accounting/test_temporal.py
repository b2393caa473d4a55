"""What releases along a chain reveal about one step: published figures, brute force, and what is refused."""

import itertools
import math

import numpy as np
import pytest
from thinned import thinned

from pufferflow.accounting.rules.markov import temporal_leakage
from pufferflow.core.errors import Refused, UsageError
from pufferflow.distributions.markov.chain import stationary

STAY = [[0.9, 0.1], [0.1, 0.9]]
LINE = [[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]]


def brute(kernels, losses, initial, steps):
    """The largest log ratio over steps, pairs of states and outputs, one randomised response of its own per step."""
    size = len(kernels[0])
    paths = np.array(list(itertools.product(range(size), repeat=steps)))
    mass = np.array(initial)[paths[:, 0]]
    for t in range(steps - 1):
        mass = mass * np.array(kernels[t % len(kernels)])[paths[:, t], paths[:, t + 1]]
    worst = 0.0
    for y in itertools.product(range(size), repeat=steps):
        said = [np.where(paths[:, t] == y[t], losses[t % len(losses)], 0.0) for t in range(steps)]
        weight = mass * np.exp(np.sum(said, axis=0))
        for t in range(steps):
            shares = [
                (weight[paths[:, t] == a].sum(), mass[paths[:, t] == a].sum()) for a in range(size)
            ]
            told = [math.log(seen / alone) for seen, alone in shares if alone > 0]
            worst = max(worst, max(told) - min(told))
    return worst


@pytest.mark.parametrize(
    ("step", "value"),
    [(0.05, 0.446333), (0.1, 0.872441), (0.2, 1.619964), (0.5, 3.1193), (1.0, 4.499453)],
)
def test_published_totals_for_ever(step, value):
    """Stay-probability .9, one release per step; the matrix of the same losses, and turns of equal ones, agree."""
    found = temporal_leakage(STAY, step)
    assert found == pytest.approx(value, abs=1e-4 if step == 0.5 else 2e-6)
    same = (
        [step, step],
        [[0, step], [step, 0]],
        step * (1 - np.eye(2)),
        [[[0, step], [step, 0]], step],
    )
    for exposure in same:
        assert temporal_leakage(STAY, exposure) == pytest.approx(found, rel=1e-8)
    assert temporal_leakage([STAY, STAY, STAY], step) == pytest.approx(found, rel=1e-8)


def test_a_slow_chain_is_not_iterated_from_below():
    """Stay .999, step .001: .9615 and not .871."""
    assert 0.96151 <= temporal_leakage([[0.999, 0.001], [0.001, 0.999]], 0.001) <= 0.96155


def test_finite_steps_are_the_brute_force_maximum_for_two_states():
    """Nine steps of .5: 2.635461; any number of them stays below what goes on for ever, and grows."""
    assert temporal_leakage(STAY, 0.5, steps=9) == pytest.approx(2.635461, abs=1e-6)
    assert temporal_leakage(STAY, 0.5, steps=7) == pytest.approx(
        brute([STAY], [0.5], [0.5, 0.5], 7), rel=1e-9
    )
    totals = [temporal_leakage(STAY, 0.5, steps=steps) for steps in (1, 2, 5, 50, 1000, 10**6)]
    assert totals[0] == pytest.approx(0.5)
    assert totals == sorted(totals)
    assert totals[-1] <= temporal_leakage(STAY, 0.5)


@pytest.mark.parametrize("size", thinned([2, 3], 0.5))
def test_never_below_brute_force(size):
    """Random kernels and losses in turn, any start: all outputs of short sequences tell no more."""
    rng = np.random.default_rng(size)
    for _ in range(12):
        kernels = rng.dirichlet(np.full(size, rng.choice([0.3, 1.0, 3.0])), (2, size))
        losses, start = rng.exponential(0.7, 3).tolist(), rng.dirichlet(np.ones(size))
        steps = 6 if size == 2 else 4
        truth = brute(kernels, losses, start, steps)
        found = temporal_leakage(kernels, losses, start, steps)
        assert truth <= found + 1e-12
        assert found <= min(
            temporal_leakage(kernels, losses, start),
            temporal_leakage(kernels, losses, "free", steps),
        )
        own = stationary(kernels)
        assert temporal_leakage(kernels, losses, own, steps) == pytest.approx(
            temporal_leakage(kernels, losses, steps=steps), rel=1e-6
        )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_no_number_of_steps_costs_more_than_all_of_them(seed):
    """What goes on for ever is no less than any part of it, to the last digit, wherever messages come to rest."""
    rng = np.random.default_rng(seed)
    size, kinds, turn = rng.integers(2, 4), rng.integers(1, 4), rng.integers(1, 4)
    kernels = rng.dirichlet(np.full(size, rng.choice([0.3, 1.0, 3.0])), (kinds, size)).tolist()
    scale = rng.choice([0.01, 0.1, 1.0])
    losses = [
        (rng.exponential(scale) * rng.uniform(0.2, 1, (size, size)) * (1 - np.eye(size)))
        for _ in range(turn)
    ]
    start = str(rng.choice(["stationary", "free"]))
    ever = temporal_leakage(kernels, losses, start)
    for steps in (1, 2, 3, 7, 50, 511, 512, 513, 1000, 5000, 10**5):
        assert temporal_leakage(kernels, losses, start, steps) <= ever


@pytest.mark.parametrize(
    "kernel", [np.eye(2), [[0, 1], [1, 0]], np.eye(3)], ids=["stays", "alternates", "three"]
)
def test_what_never_forgets_costs_without_end(kernel):
    """Identity and periodic kernels: ∞ for ever, the sum of all losses for some steps."""
    assert temporal_leakage(kernel, 0.1) == math.inf
    assert temporal_leakage(kernel, 0.1, steps=20) == pytest.approx(2.0, rel=1e-9)


def test_neighbours_on_a_line_have_a_finite_total():
    """Three states that move to neighbours only, losses by distance: the matrix of messages comes to rest."""
    line = 0.5 * np.abs(np.arange(3)[:, None] - np.arange(3))
    found = temporal_leakage(LINE, line)
    assert temporal_leakage(LINE, line, steps=40) <= found < 4
    assert found == pytest.approx(temporal_leakage(LINE, line, steps=400), rel=1e-6)


def test_more_exposure_costs_more_and_none_costs_nothing():
    """The total grows with every loss; it is 0 without any, for a chain that never forgets too."""
    totals = [temporal_leakage(LINE, step) for step in (0, 0.1, 0.2, 0.4)]
    assert totals == sorted(totals)
    assert totals[0] == temporal_leakage(np.eye(2), 0) == 0


def test_independent_steps_cost_what_one_costs():
    """Where no step reveals about another, only its own losses count."""
    assert temporal_leakage([[0.3, 0.7], [0.3, 0.7]], [0.2, 0.7]) == pytest.approx(0.7, rel=1e-8)


@pytest.mark.parametrize(
    "exposure",
    [
        *("0.1", None, True, [], -0.1, math.nan, math.inf, [0.1, -1], [[]], [["a"]]),
        *(
            [[0, 1, 2], [1, 0, 2]],
            [[1, 1], [1, 1]],
            [[0, 1, 1], [1, 0, 1], [1, 1, 0]],
            [[[0, 1], [1, 0]], [[0, 1]]],
        ),
    ],
)
def test_exposures_that_are_none(exposure):
    """Only losses, matrices of them with zeros on their diagonals, and turns of these are taken."""
    with pytest.raises(UsageError, match="allowed: a finite"):
        temporal_leakage(STAY, exposure)


@pytest.mark.parametrize("steps", [0, -1, 1.5, True, "9", math.nan])
def test_steps_that_are_none(steps):
    """A number of steps is whole and above 0."""
    with pytest.raises(UsageError, match="a whole number of steps"):
        temporal_leakage(STAY, 0.1, steps=steps)


@pytest.mark.parametrize(
    ("transition", "initial"),
    [([[0.9, 0.2], [0.1, 0.9]], "stationary"), (STAY, "first"), (STAY, [0.5, 0.6])],
)
def test_chains_that_are_none(transition, initial):
    """Rows have sum 1; a start is a law, 'stationary' or 'free'."""
    with pytest.raises(UsageError):
        temporal_leakage(transition, 0.1, initial)


def test_too_many_steps_go_on_for_ever():
    """Beyond 8 million steps the endless total is what to ask for."""
    with pytest.raises(Refused, match="steps=None"):
        temporal_leakage(STAY, 0.1, steps=10**9)
