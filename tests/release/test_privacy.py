"""The whole way, from a query to published numbers, keeps its guarantee, and would not with less noise.

Each case draws many small worlds under two values of the secret with the scenario's own prior, publishes an answer for
each world in one release, and compares how often the answers fall in a half line. With the noise that the plan asks for
the guarantee is never seen to be broken; with four fifths of it, it is. Releases draw from the operating system, so an
alarm counts if worlds and noise that are drawn anew alarm too.
"""

import numpy as np
import polars as pl
import pytest
import worlds
from alarms import alarms_twice
from thinned import nightly, thinned

import pufferflow as pf

STAY = [[0.8, 0.2], [0.2, 0.8]]


def independent(rng, state, count):
    """Three rows of which the second is the secret."""
    found = rng.integers(0, 4, (count, 3))
    found[:, 1] = state
    return found


def latent(rng, state, count):
    """Four rows that share a hidden class; the first is the secret."""
    rows = np.array([[0.9, 0.1], [0.2, 0.8]])
    posterior = rows[:, state] * 0.5
    which = (rng.random(count) > posterior[0] / posterior.sum()).astype(int)
    found = (rng.random((count, 4)) < rows[which, 1][:, None]).astype(int)
    found[:, 0] = state
    return found


def scenario(domain, prior, **options):
    return pf.Scenario(
        pf.Secret("level", domain=domain),
        prior,
        order_by="hour",
        within="world",
        public=["part", *options.pop("public", [])],
        **options,
    )


def group_of(domain):
    return lambda _, state, count: np.full((count, 2), domain[state])


CASES = {
    "one independent row": (
        scenario([0, 1, 2, 3], pf.Independent()),
        independent,
        (0, 3),
        pf.Pure(1.0),
    ),
    "independent rows, approximate": (
        scenario([0, 1, 2, 3], pf.Independent()),
        independent,
        (0, 3),
        pf.Approx(1.0, 0.05),
    ),
    "two rows that are always equal": (
        scenario([0, 1], pf.AnyCorrelation()),
        group_of([0, 1]),
        (0, 1),
        pf.Pure(0.5),
    ),
    "a chain that stays": (
        scenario([0, 1], pf.MarkovChain(STAY)),
        lambda rng, state, count: worlds.draw_chain(rng, STAY, [0.5, 0.5], 4, count, 1, state),
        (0, 1),
        pf.Pure(1.5),
    ),
    "rows with a hidden class": (
        scenario([0, 1], pf.LatentClass([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]])),
        latent,
        (0, 1),
        pf.Pure(1.5),
    ),
}


def batch(case, worlds_of_state):
    chosen = CASES[case][0]
    rows = worlds_of_state.shape[1]
    rows_frame = worlds.frame(worlds_of_state, part=np.zeros(rows, dtype=int))
    return pf.protect(rows_frame, chosen).group_by("world")


def answers(case, state, scale, count, seed):
    _, draw, states, promise = CASES[case]
    data = draw(np.random.default_rng(seed + state), states[state], count)
    return worlds.released(
        batch(case, data).private_sum("level"), scale, guarantee=promise, bound=tight(case)
    )[:, 0]


def tight(case):
    """Return the bound whose noise is the least possible, so that less of it breaks the guarantee."""
    return pf.Exact() if case in {"a chain that stays", "rows with a hidden class"} else "auto"


def seen(case, scale, count, seed=0):
    promise = CASES[case][3]
    both = [answers(case, state, scale, count, seed) for state in (0, 1)]
    return worlds.evidence(*both, promise.epsilon, getattr(promise, "delta", 0.0))


WORLDS = 90_000
"""So many that four fifths of the noise are missed about once in a million runs: 5 deviations above the threshold."""


def broken(case, scale):
    """Tell whether what is published under both values differs by more than was guaranteed.

    Each turn has own worlds.
    """
    return alarms_twice(lambda turn: seen(case, scale, WORLDS, seed=10 * turn) > worlds.threshold())


@pytest.mark.parametrize("case", thinned(CASES, 0.2))
def test_the_promise_is_kept(case):
    """What is published under two values of a secret differs by no more than was guaranteed."""
    assert not broken(case, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_less_noise_is_caught(case):
    """With four fifths of the noise the same test fails, though it draws again."""
    assert broken(case, 0.8)


def random_world(rng):
    """Return a chain of two or three states, a few rows in one or two cells of which some are not asked about."""
    states, rows = int(rng.integers(2, 4)), int(rng.integers(3, 6))
    transition = rng.dirichlet(np.ones(states), states) * 0.9 + 0.1 / states
    initial = np.linalg.matrix_power(transition, 200)[0]
    part = np.sort(rng.integers(0, 2, rows))
    asked = rng.random(rows) < 0.8
    asked[int(rng.integers(rows))] = True
    return transition, initial, part, asked


SEEDS = [
    0,
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4)),
    *nightly(range(4, 12)),
]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_promise_is_kept_by_random_batches(seed):
    """Sums, counts and histograms of random chains, in random cells, keep their guarantee, in any direction."""
    assert not alarms_twice(lambda turn: directions_found(seed, turn))


@pytest.mark.slow
def test_less_noise_of_a_random_batch_is_caught():
    """With a seventh of the noise the same test fails, though it draws again; bounds of such batches leave room."""
    assert alarms_twice(lambda turn: directions_found(0, turn, 0.15))


def directions_found(seed, turn, scale=1.0):
    """Return where a random batch tells two values apart; each turn has worlds and directions of its own."""
    rng = np.random.default_rng(seed)
    transition, initial, part, asked = random_world(rng)
    rows, states = len(part), len(transition)
    scenario_of = scenario(list(range(states)), pf.MarkovChain(transition), public=["asked"])
    epsilon, row = float(rng.uniform(0.5, 2)), int(rng.integers(rows))
    pair = rng.choice(states, 2, replace=False)
    rng = rng.spawn(2)[turn]
    ways = rng.normal(size=(3, 2 * (states + 2)))
    both = []
    for state in pair:
        data = worlds.draw_chain(rng, transition, initial, rows, 10_000, row, state)
        found = (
            pf.protect(worlds.frame(data, part=part, asked=asked), scenario_of)
            .filter(pl.col("asked"))
            .group_by(
                "world", "part", keys=[(world, cell) for world in range(10_000) for cell in (0, 1)]
            )
            .private_sum("level")
            .private_count(pl.col("level") == 0)
            .private_histogram("level")
        )
        answers = worlds.released(found, scale, guarantee=pf.Pure(epsilon)).reshape(10_000, -1)
        both.append(np.concatenate([answers, answers @ ways.T], axis=1))
    found = [
        worlds.evidence(first, second, epsilon)
        for first, second in zip(both[0].T, both[1].T, strict=True)
    ]
    return [
        number for number in found if number >= worlds.threshold() + 1
    ]  # a dozen directions at once
