"""Markov quilts against the published scales, influences counted path by path, and true losses of short chains."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from thinned import thinned

from pufferflow.core.errors import Refused
from pufferflow.distributions.markov.chain import Chain, stationary
from pufferflow.distributions.markov.quilts import approximate_quilts, exact_quilts
from pufferflow.distributions.markov.state_loss import Secrets

BOTH = [exact_quilts, approximate_quilts]


def every_pair(states, rows=None):
    return Secrets(np.array(list(itertools.permutations(range(states), 2))), rows)


def chain_of(kernels, length, initial=None):
    """A chain whose kernels take turns."""
    kernels = np.array(kernels, dtype=float)
    start = stationary(kernels) if initial is None else np.asarray(initial, dtype=float)
    return Chain(kernels, np.arange(length - 1) % len(kernels), np.atleast_2d(start))


def binary(q, p, length):
    return chain_of([[[1 - q, q], [1 - p, p]]], length)


def only(row, length):
    return np.arange(length) == row


def sixteenths(rng, shape, states, least):
    """Laws of whole sixteenths, which floats hold exactly; with many zeros if `least` is 0."""
    parts = 16 - least * states if least else 2
    return rng.multinomial(parts, np.full(states, 1 / states), shape) * (1 if least else 8) + least


def at_most(size):
    """The cost that lets no more than so many rows move: the loss is then the least influence of such a quilt."""
    return lambda sizes: np.where(sizes <= size, 0.0, math.inf)


def least_scale(quilts, epsilon):
    """The least scale of Laplace noise at which the loss of a count is ε."""
    return brentq(
        lambda b: quilts.loss(lambda n: n / b).value - epsilon, 1e-2, 1e4, xtol=1e-12, rtol=1e-13
    )


def largest_ratio(counts, shares, states):
    """The largest log P(quilt | x)/P(quilt | x') from counts of (state, quilt), in whole numbers until the end."""
    worst = 0.0
    for (x, seen), count in counts.items():
        for other in range(states):
            if shares[other]:
                against = counts.get((other, seen), 0) * shares[x]
                worst = max(
                    worst, math.log(count * shares[other] / against) if against else math.inf
                )
    return worst


def influences(kernels, initial, length, row):
    """The influence of every quilt of a row with its size, by adding up all paths; weights are whole numbers."""
    states = len(initial)
    paths = []
    for path in itertools.product(range(states), repeat=length):
        weight = int(initial[path[0]])
        for t in range(length - 1):
            weight *= int(kernels[t % len(kernels)][path[t], path[t + 1]])
        if weight:
            paths.append((path, weight))
    shares = [sum(weight for path, weight in paths if path[row] == x) for x in range(states)]
    found = []
    for left, right in itertools.product(range(-1, row), range(row + 1, length + 1)):
        quilt = [t for t in (left, right) if 0 <= t < length]
        counts = {}
        for path, weight in paths:
            key = path[row], tuple(path[t] for t in quilt)
            counts[key] = counts.get(key, 0) + weight
        found.append((right - left - 1, largest_ratio(counts, shares, states) if quilt else 0.0))
    return found


def same(found, truth):
    """Equal up to rounding, and never below."""
    return found == truth == math.inf or -1e-15 <= found - truth < 1e-10


@pytest.mark.parametrize(
    ("q", "p", "epsilon", "exact", "approximate"),
    [
        (0.4, 0.6, 0.2, "29.762", "81.435"),
        (0.4, 0.6, 1, "3.5718", "11.537"),
        (0.4, 0.6, 5, ".2387", "1.1731"),
        (0.3, 0.7, 1, "6.7236", "15.572"),
        (0.1, 0.9, 0.2, "251.37", "343.19"),
        (0.1, 0.9, 5, "1.5249", "5.5517"),
    ],
)
def test_the_least_scales_are_those_published(q, p, epsilon, exact, approximate):
    """The scales at which the loss is ε are those of Song et al. for 100 rows, to all printed digits."""
    chain = binary(q, p, 100)
    for quilts, printed in ((exact_quilts, exact), (approximate_quilts, approximate)):
        digits = len(printed.partition(".")[2])
        scale = least_scale(quilts(chain, every_pair(2)), epsilon)
        assert f"{scale:.{digits}f}".lstrip("0") == printed


def test_the_least_scale_is_the_largest_least_size_per_room_left():
    """The scale at which the loss is ε equals max_t min |X_N|/(ε − e) over quilts with e < ε, row by row."""
    rng = np.random.default_rng(3)
    kernels, initial = sixteenths(rng, (5, 2), 2, 1), sixteenths(rng, (), 2, 1)
    for epsilon in (0.5, 3.0):
        best = [
            min(
                size / (epsilon - e)
                for size, e in influences(kernels, initial, 6, row)
                if e < epsilon
            )
            for row in range(6)
        ]
        quilts = exact_quilts(chain_of(kernels / 16, 6, initial / 16), every_pair(2))
        scale = least_scale(quilts, epsilon)
        assert scale == pytest.approx(max(best), rel=1e-10)
        assert quilts.loss(lambda n, scale=scale: n / scale).row == int(np.argmax(best))


@pytest.mark.parametrize(("states", "length"), [(2, 6), (3, 5), (4, 4)])
@pytest.mark.parametrize("least", [0, 1], ids=["zeros", "positive"])
@pytest.mark.parametrize("turns", [1, 2, 5])
@pytest.mark.parametrize("seed", thinned(range(4), 0.25, slow=0.5))
def test_influences_are_those_of_the_joint_law(states, length, least, turns, seed):
    """For every row and size: the least influence is that of the joint law of a state and its quilt."""
    rng = np.random.default_rng([states, turns, seed])
    kernels, initial = (
        sixteenths(rng, (turns, states), states, least),
        sixteenths(rng, (), states, least),
    )
    chain = chain_of(kernels / 16, length, initial / 16)
    for row in range(length):
        truth = influences(kernels, initial, length, row)
        quilts = exact_quilts(chain, every_pair(states, only(row, length)))
        for most in range(1, length + 1):
            least_one = min(e for size, e in truth if size <= most) if most < length else 0.0
            assert same(quilts.loss(at_most(most)).value, least_one)


@pytest.mark.slow
def test_rows_that_share_their_tables_lose_what_each_alone_would():
    """A stationary chain, and one with kernels in turn: the worst row is that of all rows taken one at a time."""
    rng = np.random.default_rng(12)
    for turns, length in ((1, 23), (3, 20)):
        kernels = rng.dirichlet(np.ones(3), (turns, 3))
        unlike = Chain(
            kernels[np.arange(length - 1) % turns], np.arange(length - 1), stationary(kernels)[None]
        )
        chain = chain_of(kernels, length)
        for rows in (None, np.isin(np.arange(length), (0, 4, 5, length - 2))):
            together = exact_quilts(chain, every_pair(3, rows))
            assert len(together.first) <= turns
            alone = [
                exact_quilts(unlike, every_pair(3, only(row, length))) for row in range(length)
            ]
            for slope in (0.01, 0.1, 0.4, 2.0):
                losses = [one.loss(lambda n, slope=slope: slope * n).value for one in alone]
                worst = max(losses if rows is None else np.array(losses)[rows])
                assert together.loss(lambda n, slope=slope: slope * n).value == pytest.approx(
                    worst, rel=1e-10
                )


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.3, 1.0, 4.0]))
@pytest.mark.slow
def test_approximate_influences_are_never_below_exact_ones(seed, spread):
    """Whatever the chain, reversible or not, and its initial law: the approximate loss is the larger one."""
    rng = np.random.default_rng(seed)
    states = int(rng.integers(2, 5))
    kernel = rng.dirichlet(np.full(states, spread), states) * 0.99 + 0.01 / states
    stays = rng.choice([0.0, 0.5])
    kernel = stays * np.eye(states) + (1 - stays) * kernel
    initial = [None, np.eye(states)[0], rng.dirichlet(np.ones(states))][seed % 3]
    chain = chain_of([kernel / kernel.sum(axis=1, keepdims=True)], 40, initial)
    exact, approximate = (quilts(chain, every_pair(states)) for quilts in BOTH)
    for size in range(1, 41):
        assert exact.loss(at_most(size)).value <= approximate.loss(at_most(size)).value
    assert math.isfinite(approximate.loss(lambda n: n).value)


@pytest.mark.parametrize("quilts", BOTH)
def test_losses_are_never_below_the_truth(quilts):
    """Laplace noise on a count of a short chain: the true loss, found at the atoms of the count, is no larger."""
    rng = np.random.default_rng(4)
    for states, length in ((2, 7), (3, 5), (4, 4)):
        for scale in (0.5, 2.0, 8.0):
            kernel = 0.9 * rng.dirichlet(np.ones(states), states) + 0.1 * np.eye(states)
            chain = chain_of([kernel], length, rng.dirichlet(np.ones(states)))
            promised = quilts(chain, every_pair(states)).loss(lambda n, scale=scale: n / scale)
            assert true_loss(chain, scale) <= promised.value


def true_loss(chain, scale):
    """The largest log ratio over rows, pairs and outputs, for the number of rows in state 0 with Laplace noise."""
    paths = np.array(list(itertools.product(range(chain.states), repeat=chain.length)))
    mass = chain.initial[0][paths[:, 0]]
    for t in range(chain.length - 1):
        mass = mass * chain.kernels[0][paths[:, t], paths[:, t + 1]]
    outputs = np.arange(chain.length + 1)
    density = np.exp(-np.abs(outputs[:, None] - (paths == 0).sum(axis=1)) / scale) * mass
    given_row = np.stack(
        [density @ (paths == x) / (mass @ (paths == x)) for x in range(chain.states)]
    )
    return float((np.log(given_row).max(axis=0) - np.log(given_row).min(axis=0)).max())


def test_states_that_cannot_be_are_no_secrets():
    """A state of probability 0 costs nothing, and a chain with one possible state has nothing to hide."""
    kernel = [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    independent = exact_quilts(chain_of([kernel], 5, [0.5, 0.5, 0.0]), every_pair(3))
    assert independent.loss(lambda n: n).value == pytest.approx(1.0)
    assert (
        exact_quilts(chain_of([np.eye(2)], 5, [1.0, 0.0]), every_pair(2)).loss(lambda n: n).value
        == 0.0
    )


def test_the_worst_mixture_of_initial_laws_counts():
    """Any initial law: the loss is never below that of a single one, and is that of the worst where states are two."""
    kernel, cost = [[0.9, 0.1], [0.3, 0.7]], lambda n: 0.15 * n
    free = exact_quilts(chain_of([kernel], 8, np.eye(2)), every_pair(2)).loss(cost).value
    fixed = [
        exact_quilts(chain_of([kernel], 8, [share, 1 - share]), every_pair(2)).loss(cost).value
        for share in (1e-12, 0.1, 0.5, 0.9, 1 - 1e-12)
    ]
    assert max(fixed) <= free == pytest.approx(max(fixed), rel=1e-6)


def test_a_point_to_start_from_shares_the_tables_once_it_is_forgotten():
    """A long chain from a known state: never below its beginning, which is worked out row by row."""
    kernel, cost = [[0.9, 0.1], [0.3, 0.7]], lambda n: 0.05 * n
    long, short = (
        exact_quilts(chain_of([kernel], length, [0, 1]), every_pair(2)) for length in (100_000, 300)
    )
    assert len(long.first) < 100
    assert long.loss(cost).value == pytest.approx(short.loss(cost).value, rel=1e-9)


@pytest.mark.parametrize("quilts", BOTH)
def test_a_million_rows_lose_what_a_thousand_do(quilts):
    """Once quilts fit around the rows in the middle, length costs nothing."""
    long, short = (quilts(binary(0.1, 0.9, length), every_pair(2)) for length in (1_000_000, 1000))
    assert long.loss(lambda n: n / 100).value == pytest.approx(
        short.loss(lambda n: n / 100).value, rel=1e-6
    )


@pytest.mark.slow
def test_far_quilts_are_tried_on_a_grid_from_above():
    """Stay-probability .9995: reaches of hundreds and thousands cost at most half a percent more than the best."""
    quilts = exact_quilts(binary(0.0005, 0.9995, 1_000_000), every_pair(2))
    reaches = np.arange(1, 20_000)
    influence = 2 * np.arctanh(
        0.999**reaches
    )  # of both sides, symmetric: the best quilts are balanced
    for scale in (1e3, 1e4, 1e5):
        best = min(
            (2 * influence + (2 * reaches - 1) / scale).min(),
            (influence[1:] + influence[:-1] + 2 * reaches[:-1] / scale).min(),
        )
        assert best <= quilts.loss(lambda n, scale=scale: n / scale).value <= 1.005 * best


def test_products_too_small_for_floats_are_no_reason_to_promise_too_much():
    """State 3 tells 0 from 1 by 10^30 to 1, though both ways there underflow."""
    kernel = [
        [0.5, 0.5, 1e-200, 0.0],
        [0.5, 0.5, 1e-170, 0.0],
        [0.5, 0.5, 0.0, 1e-200],
        [0.5, 0.5, 0.0, 0.0],
    ]
    quilts = exact_quilts(chain_of([kernel], 3, [0.5, 0.5, 0.0, 0.0]), every_pair(4, only(0, 3)))
    assert quilts.loss(at_most(2)).value >= 30 * math.log(10)
    assert quilts.loss(lambda n: n).value == pytest.approx(3.0)


@pytest.mark.parametrize("quilts", BOTH)
@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_shortest_chains(quilts, length):
    """One row is all there is to move; more rows cost at most all of them."""
    loss = quilts(binary(0.4, 0.6, length), every_pair(2)).loss(lambda n: n / 10).value
    assert 0.1 <= loss <= length / 10 + 1e-12


@pytest.mark.parametrize("quilts", BOTH)
def test_no_secret_rows_lose_nothing(quilts):
    """Secrets about no row at all: 0."""
    assert (
        quilts(binary(0.4, 0.6, 9), every_pair(2, np.zeros(9, dtype=bool))).loss(lambda n: n).value
        == 0.0
    )


def test_what_never_forgets_costs_all_rows():
    """A chain that never moves: no quilt but that of all rows."""
    quilts = exact_quilts(chain_of([np.eye(2)], 1000, [0.5, 0.5]), every_pair(2))
    assert quilts.loss(lambda n: n / 10).value == pytest.approx(100.0)


def test_long_chains_without_likeness_are_refused():
    """Ten thousands of different kernels: refused, and what to use instead is named."""
    kernels = np.random.default_rng(1).dirichlet([1.0, 1.0], (29_999, 2))
    with pytest.raises(Refused, match=r"pf\.Messages"):
        exact_quilts(chain_of(kernels, 30_000, [0.5, 0.5]), every_pair(2))


@pytest.mark.parametrize(
    ("kernels", "reason"),
    [
        ([[[0.0, 1.0], [1.0, 0.0]]], "periodic"),
        ([[[1.0, 0.0], [0.5, 0.5]]], "reducible"),
        ([[[0.5, 0.5], [0.5, 0.5]], [[0.4, 0.6], [0.6, 0.4]]], "change"),
        ([[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]]], "reversal"),
    ],
    ids=["periodic", "reducible", "changing", "one way round"],
)
def test_approximate_quilts_need_a_chain_that_mixes(kernels, reason):
    """One kernel, irreducible and aperiodic, mixing with its reversal; else refused, with the reason."""
    states = len(kernels[0])
    with pytest.raises(Refused, match=reason):
        approximate_quilts(chain_of(kernels, 9, np.full(states, 1 / states)), every_pair(2))
