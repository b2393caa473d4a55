"""Messages along chains against brute force over all paths and outputs, and against published figures."""

import itertools
import math

import numpy as np
import pytest
from thinned import thinned

from pufferflow.distributions.markov.chain import Chain, Steps, stationary
from pufferflow.distributions.markov.state_loss import Exposures, Secrets, endless_leak, leak


def every_pair(size):
    return Secrets(np.array([(a, b) for a in range(size) for b in range(size) if a != b]))


def chain_of(kernels, length, initial=None):
    """A chain whose kernels take turns."""
    kernels = np.array(kernels, dtype=float)
    start = stationary(kernels) if initial is None else np.asarray(initial, dtype=float)
    return Chain(kernels, np.arange(length - 1) % len(kernels), np.atleast_2d(start))


def binary(q, p, length):
    return chain_of([[[1 - q, q], [1 - p, p]]], length)


def constant(length):
    return np.zeros(length, dtype=np.intp)


def paths_of(chain):
    """Every path and its probability."""
    paths = np.array(list(itertools.product(range(chain.states), repeat=chain.length)))
    weight = chain.initial[0][paths[:, 0]]
    for t, kernel in enumerate(chain.order):
        weight = weight * chain.kernels[kernel][paths[:, t], paths[:, t + 1]]
    return paths, weight


def brute_force(chain, values, weights, scale):
    """The largest log ratio over rows, pairs of states and outputs: with Laplace noise it is at a corner of atoms."""
    paths, mass = paths_of(chain)
    answers = np.stack([(w * values[paths]).sum(axis=1) for w in weights], axis=1)
    axes = [np.unique(column) for column in answers.T]
    corners = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    density = np.exp(-np.abs(corners[:, None, :] - answers[None]).sum(axis=2) / scale)
    worst = 0.0
    for t in range(chain.length):
        given = [density @ np.where(paths[:, t] == a, mass, 0.0) for a in range(chain.states)]
        shares = [mass[paths[:, t] == a].sum() for a in range(chain.states)]
        for a, b in itertools.permutations(range(chain.states), 2):
            if shares[a] > 0 and shares[b] > 0:
                worst = max(
                    worst, float(np.log(given[a] / shares[a] / (given[b] / shares[b])).max())
                )
    return worst


def exposures_of(values, weights, scale):
    """One matrix for each row: what all outputs that touch it reveal about it."""
    moves = np.abs(values[:, None] - values[None, :])
    return np.abs(weights).sum(axis=0)[:, None, None] * moves[None] / scale


@pytest.mark.parametrize("states", [2, 3, 4])
@pytest.mark.parametrize("count", thinned([8, 20], 0.5))
def test_messages_are_never_below_brute_force(states, count):
    """Random chains, two overlapping windows, weights of both signs: the bound holds, and is not idle."""
    rng = np.random.default_rng(states)
    shares = []
    for _ in range(count):
        length = {2: 7, 3: 5, 4: 4}[states]
        kernels = rng.dirichlet(np.full(states, rng.choice([0.3, 1.0, 3.0])), (2, states)) + 1e-6
        chain = chain_of(
            kernels / kernels.sum(axis=2, keepdims=True), length, rng.dirichlet(np.ones(states))
        )
        values = rng.normal(size=states)
        weights = rng.choice([-1.0, 0.5, 1.0, 2.0], (2, length))
        weights[0, length // 2 + 1 :], weights[1, : length // 2 - 1] = 0, 0
        scale = rng.choice([0.5, 1.0, 4.0])
        exposures = exposures_of(values, weights, scale)
        found = leak(chain, Exposures(exposures, np.arange(length)), every_pair(states))
        truth = brute_force(chain, values, weights, scale)
        assert truth <= found.value
        shares.append(truth / found.value)
    assert np.median(shares) > 0.6


@pytest.mark.parametrize("length", [2, 5, 8])
def test_two_states_and_one_count_are_exact(length):
    """For one count over a chain that tends to stay, messages are the truth."""
    for q, p in ((0.3, 0.7), (0.1, 0.6), (0.45, 0.55)):
        chain, values, weights = binary(q, p, length), np.array([0.0, 1.0]), np.ones((1, length))
        found = leak(
            chain, Exposures(exposures_of(values, weights, 1.3), np.arange(length)), every_pair(2)
        )
        assert found.value == pytest.approx(brute_force(chain, values, weights, 1.3), rel=1e-9)


def test_states_that_cannot_be_are_no_secrets():
    """A state of probability 0 leaves the secrets and the messages; zeros in the kernel are allowed."""
    kernel = [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    chain = chain_of([kernel], 5, [0.5, 0.5, 0.0])
    values, weights = np.array([0.0, 1.0, 50.0]), np.ones((1, 5))
    found = leak(chain, Exposures(exposures_of(values, weights, 1.0), np.arange(5)), every_pair(3))
    assert found.value == pytest.approx(1.0, rel=1e-9)
    two = chain_of([[[0.9, 0.1, 0.0], [0.2, 0.5, 0.3], [0.0, 0.4, 0.6]]], 5)
    found = leak(two, Exposures(exposures_of(values, weights, 20.0), np.arange(5)), every_pair(3))
    assert brute_force(two, values, weights, 20.0) <= found.value < 5 * 50 / 20


@pytest.mark.parametrize(
    ("step", "value"),
    [(0.05, 0.446333), (0.2, 1.619964), (1.0, 4.499453)],
    ids=["0.05", "0.2", "1.0"],
)
@pytest.mark.parametrize("length", [300, 700, 100_000])
def test_long_chains_come_to_rest(step, value, length):
    """Stay-probability .9: the middle of a long chain loses what it loses for ever."""
    found = leak(
        binary(0.1, 0.9, length),
        Exposures(step * (1 - np.eye(2))[None], constant(length)),
        every_pair(2),
    )
    assert found.value == pytest.approx(value, abs=1e-6)
    assert found.tight


def test_a_level_is_checked_and_not_iterated_from_below():
    """Stay .999, step .001: iterates stopped at a change of 1e-4 give .871, the limit is .9615."""
    found = leak(
        binary(0.001, 0.999, 100_000),
        Exposures(0.001 * (1 - np.eye(2))[None], constant(100_000)),
        every_pair(2),
    )
    assert 0.96151 <= found.value <= 0.96155


@pytest.mark.parametrize(("scale", "alone"), [(10.0, 0.822639), (50.0, 0.167502)])
def test_one_day_of_a_long_chain(scale, alone):
    """A window of 24 steps, far from both ends of its chain."""
    exposures = np.stack([np.zeros((2, 2)), (1 - np.eye(2)) / scale])
    kinds = constant(3000)
    kinds[1500:1524] = 1
    found = leak(binary(0.1, 0.9, 3000), Exposures(exposures, kinds), every_pair(2))
    assert found.value == pytest.approx(alone, abs=1e-6)
    assert 1500 <= found.row < 1524


@pytest.mark.parametrize(
    ("windows", "steps", "row", "scale", "value"),
    [(3, 2, 2, 2.0, 2.11951), (3, 4, 6, 1.0, 4.46365)],
)
def test_windows_of_several_releases(windows, steps, row, scale, value):
    """Windows side by side, one count each, at the row that the published figure names."""
    length = windows * steps
    exposures = (1 - np.eye(2))[None] / scale
    rows = np.zeros(length, dtype=bool)
    rows[row] = True
    only = Secrets(np.array([[0, 1], [1, 0]]), rows)
    assert leak(
        binary(0.1, 0.9, length), Exposures(exposures, constant(length)), only
    ).value == pytest.approx(value, abs=1e-5)


FOUR = np.array(
    [
        [0.6785, 0.2038, 0.1023, 0.0154],
        [0.2185, 0.4909, 0.1998, 0.0907],
        [0.0971, 0.2427, 0.4149, 0.2454],
        [0.0064, 0.0639, 0.2829, 0.6469],
    ]
)


@pytest.mark.parametrize(("scale", "value"), [(10, 1.643041), (30, 0.564447)])
@pytest.mark.parametrize("length", [300, 20_000])
def test_four_states(scale, value, length):
    """The household chain: matrix messages are the exact value in the tail (a single number would give 2.405)."""
    chain = chain_of([FOUR / FOUR.sum(axis=1, keepdims=True)], length)
    exposures = np.abs(np.arange(4)[:, None] - np.arange(4))[None] / scale
    found = leak(chain, Exposures(exposures, constant(length)), every_pair(4))
    assert found.value == pytest.approx(value, abs=2e-6)


def test_kernels_that_take_turns_are_followed():
    """A cycle of 24 kernels over years equals the same chain stepped through without any shortcut."""
    rng = np.random.default_rng(5)
    kernels = rng.dirichlet([2.0, 1.0], (24, 2))
    exposures = 0.2 * (1 - np.eye(2))[None]
    long = leak(
        chain_of(kernels, 24 * 400), Exposures(exposures, constant(24 * 400)), every_pair(2)
    )
    short = leak(chain_of(kernels, 480), Exposures(exposures, constant(480)), every_pair(2))
    assert long.value == pytest.approx(short.value, rel=1e-7)
    assert long.tight


def test_what_never_forgets_adds_up():
    """A chain that never moves: every row reveals about every other."""
    chain = chain_of([np.eye(2)], 40, [0.5, 0.5])
    found = leak(chain, Exposures(0.1 * (1 - np.eye(2))[None], constant(40)), every_pair(2))
    assert found.value == pytest.approx(4.0, rel=1e-9)


def test_free_initial_laws_cost_more():
    """Any initial law: never below each single one, and the same once the chain has forgotten it."""
    kernel, length = [[0.8, 0.2], [0.4, 0.6]], 6
    exposures = 0.5 * (1 - np.eye(2))[None]
    free = leak(
        chain_of([kernel], length, np.eye(2)), Exposures(exposures, constant(length)), every_pair(2)
    )
    for share in (0.0, 0.1, 0.5, 0.9, 1.0):
        fixed = chain_of([kernel], length, [share, 1 - share])
        assert (
            leak(fixed, Exposures(exposures, constant(length)), every_pair(2)).value
            <= free.value + 1e-12
        )


@pytest.mark.parametrize(
    "law", [[[0.9, 0.1], [0.3, 0.7]], [[0, 1], [1, 0]], [[1e-12, 1 - 1e-12], [1e-9, 1 - 1e-9]]]
)
def test_stationary_laws_stay(law):
    """π P = π, to the last digit of the smallest weight."""
    found = stationary([np.array(law, dtype=float)])
    assert found @ np.array(law) == pytest.approx(found, rel=1e-14)


def test_no_stationary_law_is_chosen_among_several():
    """A chain with two classes it never leaves has no one stationary law."""
    assert stationary([np.eye(2)]) is None
    assert stationary([np.array([[0.5, 0.5], [0.0, 1.0]])]).tolist() == [0.0, 1.0]
    assert not math.isnan(stationary([np.array([[0.0, 1.0], [1.0, 0.0]])])[0])


def turns(count):
    return np.arange(count, dtype=np.intp)


@pytest.mark.parametrize(
    ("step", "value"),
    [(0.05, 0.446333), (0.1, 0.872441), (0.2, 1.619964), (0.5, 3.1193), (1.0, 4.499453)],
)
def test_an_endless_schedule_costs_a_finite_amount(step, value):
    """Stay-probability .9, one release per step for ever; and not less than any finite schedule."""
    exposures = Exposures(step * (1 - np.eye(2))[None], turns(1))
    found = endless_leak(binary(0.1, 0.9, 2), exposures, every_pair(2))
    assert found.value == pytest.approx(value, abs=1e-4 if step == 0.5 else 2e-6)
    for length in (10, 200):
        finite = leak(
            binary(0.1, 0.9, length), Exposures(exposures.losses, constant(length)), every_pair(2)
        )
        assert finite.value <= found.value


def test_days_for_ever():
    """A daily sum of 24 steps with b = 50, every day: .179761."""
    exposures = Exposures((1 - np.eye(2))[None] / 50, turns(1))
    assert endless_leak(binary(0.1, 0.9, 2), exposures, every_pair(2)).value == pytest.approx(
        0.179761, abs=2e-6
    )


def test_endless_turns_of_kernels_and_exposures_are_followed():
    """24 kernels and 3 exposures in turn, from any initial law: as a long finite schedule, and never below it."""
    rng = np.random.default_rng(8)
    kernels = rng.dirichlet([2.0, 1.0], (24, 2))
    losses = np.array([0.3, 0.0, 1.1])[:, None, None] * (1 - np.eye(2))
    chain = Chain(kernels, turns(24), np.array([[0.99, 0.01]]))
    for_ever = endless_leak(chain, Exposures(losses, turns(3)), every_pair(2))
    many = turns(480)
    finite = leak(chain.repeated(479), Exposures(losses, many % 3), every_pair(2))
    assert finite.value <= for_ever.value == pytest.approx(finite.value, rel=1e-6)


@pytest.mark.parametrize("kernel", [np.eye(2), [[0, 1], [1, 0]]], ids=["stays", "alternates"])
def test_what_never_forgets_has_no_endless_total(kernel):
    """Identity and periodic kernels: the messages grow for ever, and the answer is ∞."""
    chain = Chain(np.array([kernel], dtype=float), turns(1), np.array([[0.5, 0.5]]))
    assert (
        endless_leak(chain, Exposures(0.1 * (1 - np.eye(2))[None], turns(1)), every_pair(2)).value
        == math.inf
    )


def test_two_states_have_a_closed_form():
    """For two states a message is that of the linear programs, for all sizes of limits and kernels."""
    rng = np.random.default_rng(8)
    for _ in range(400):
        stay = rng.random(2) ** rng.integers(1, 5)
        matrix = np.array([[[stay[0], 1 - stay[0]], [stay[1], 1 - stay[1]]]])
        limits = np.zeros((2, 2))
        limits[0, 1], limits[1, 0] = rng.exponential(10.0 ** rng.integers(-3, 2, 2))
        order, known = np.zeros(1, dtype=np.intp), np.ones((1, 2), dtype=np.bool_)
        closed, solved = (Steps(matrix[:, :, None, :], order, known, known) for _ in range(2))
        solved.__dict__["_alone"] = [None]
        assert closed.send(0, limits) == pytest.approx(solved.send(0, limits), rel=1e-6, abs=1e-12)
