"""Keys that the data chooses: what they and their numbers of rows reveal about a unit, by enumeration of answers."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import pufferflow as pf
from pufferflow.queries.aggregates import Count
from pufferflow.release.mechanisms.additive import bars_of_appearing
from pufferflow.release.planning.key_threshold import KeyThreshold, least_threshold, new_key_chance

GRID = Fraction(1, 2)
SPREAD = 40
NOISES = [pf.Laplace(0.8), pf.Laplace(2.0), pf.Gaussian(1.5)]
OTHERS = [(0, 0), (3, 0), (6, 8)]
"""How many rows of others two keys have; a key of none is one that only the unit can have."""


def coarse(noise, rows, delta, steps=0):
    """Return the least threshold on a coarse grid, or so many steps below it; answers are few enough to list."""
    steps += next(
        step
        for step in itertools.count()
        if new_key_chance(on_grid(noise, rows, delta, step)) <= delta
    )
    return on_grid(noise, rows, delta, steps)


def on_grid(noise, rows, delta, step):
    return KeyThreshold(noise, GRID, rows + step * GRID, rows, delta)


def law(threshold, count):
    """Return the law of what is published of a key: nothing, or a number of rows on the grid; the last is for all more.

    What falls short of the threshold is one answer. Noise is rounded to the grid.
    """
    if count == 0:
        return np.eye(1, SPREAD + 1)[0]
    edges = float(threshold.above) + (np.arange(SPREAD) + 0.5) * float(threshold.grid) - count
    above, below = threshold.noise.tail(edges), threshold.noise.tail(-edges)
    inner = np.where(
        edges[:-1] > 0, above[:-1] - above[1:], below[1:] - below[:-1]
    )  # small masses keep their digits
    return np.array([below[0], *inner, above[-1]])


def together(laws):
    joint = np.ones(1)
    for one in laws:
        joint = np.outer(joint, one).ravel()
    return joint


def worlds(rows):
    """Yield the numbers of rows of the keys that a unit has rows of, without it and with it."""
    for others in OTHERS:
        for own in itertools.product(range(rows + 1), repeat=3):
            if 0 < sum(own) <= rows:
                counts = [
                    (count, count + more)
                    for count, more in zip((*others, 0), own, strict=True)
                    if more
                ]
                yield zip(*counts, strict=True)


def delta_between(first, second, epsilon):
    return max(
        np.maximum(p - math.exp(epsilon) * q, 0).sum()
        for p, q in [(first, second), (second, first)]
    )


def worst(threshold, epsilon):
    """Return the largest exact δ at ε, over what others have, what a unit has, and both orders."""
    pairs = (
        [together([law(threshold, count) for count in counts]) for counts in world]
        for world in worlds(threshold.rows)
    )
    return max(delta_between(*pair, epsilon) for pair in pairs)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize(("rows", "delta"), [(1, 0.2), (2, 0.2), (3, 0.2), (3, 1e-4)])
def test_all_that_is_published_keeps_the_promise(noise, rows, delta):
    """Numbers of rows and keys together are (ε, κ + (1−κ)δ')-private; with a threshold one step lower they are not."""
    threshold = coarse(noise, rows, delta)
    for epsilon in [0.5, 1.0, 3.0, 12.0]:
        of_sums = noise.delta_within(float(rows), epsilon)
        assert worst(threshold, epsilon) <= (delta + (1 - delta) * of_sums) * (1 + 1e-9)
    lower = coarse(noise, rows, delta, steps=-1)
    if lower.above >= rows:
        assert worst(lower, 12.0) > delta
        assert new_key_chance(lower) == pytest.approx(worst(lower, 40.0), rel=1e-6)


@pytest.mark.parametrize("alpha", [2.0, 8.0])
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_answers_without_a_key_of_its_own_keep_the_divergence_of_listed_keys(noise, alpha):
    threshold = coarse(noise, 2, 0.05)
    for world in worlds(2):
        without, present = ([*counts] for counts in world)
        first = together([law(threshold, count) for count in without])
        second = together(
            [
                law(threshold, count) if before else np.eye(1, SPREAD + 1)[0]
                for before, count in zip(without, present, strict=True)
            ]
        )
        both = (first > 0) & (second > 0)
        for p, q in [(first[both], second[both]), (second[both], first[both])]:
            assert (
                math.log(np.exp(alpha * np.log(p) + (1 - alpha) * np.log(q)).sum()) / (alpha - 1)
                <= noise.renyi_within(2.0, alpha) + 1e-9
            )


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("rows", [1, 2, 5, 7])
def test_the_largest_chance_of_a_new_key_is_that_of_rows_alone_or_all_in_one(noise, rows):
    """The closed form is the largest over all ways to put rows into keys, never less."""
    for delta in (0.3, 1e-3, 1e-9):
        threshold = coarse(noise, rows, delta)
        chance = {
            row: noise.tail(float(threshold.above - row + GRID / 2)) for row in range(1, rows + 1)
        }
        exact = max(
            float(1 - math.prod(1 - Fraction(chance[row]) for row in parts))
            for parts in partitions(rows)
        )
        assert exact <= new_key_chance(threshold) <= exact * (1 + 1e-6)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize(("rows", "groups"), [(1, 3), (3, 2)])
def test_rows_in_several_groups_have_keys_in_each(noise, rows, groups):
    for delta in (0.3, 1e-6):
        threshold = least_threshold(noise, rows, delta, groups)
        chance = {
            row: noise.tail(float(threshold.above - row + threshold.grid / 2))
            for row in range(1, rows + 1)
        }
        of_all = itertools.product(partitions(rows), repeat=groups)
        exact = max(
            float(1 - math.prod(1 - Fraction(chance[row]) for row in itertools.chain(*own)))
            for own in of_all
        )
        assert exact <= new_key_chance(threshold) <= min(exact * (1 + 1e-6), delta)


def partitions(rows, most=None):
    if rows == 0:
        yield ()
    for first in range(min(rows, most or rows), 0, -1):
        for others in partitions(rows - first, first):
            yield (first, *others)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-9), (5.0, 0.4)])
def test_single_rows_have_the_threshold_of_partition_selection(epsilon, delta):
    """1 + b·log(1/2δ), as OpenDP and Tumult have it, up to the grid."""
    found = least_threshold(pf.Laplace(1 / epsilon), 1, delta)
    assert float(found.above) == pytest.approx(
        max(1 - math.log(2 * delta) / epsilon, 1), abs=2 * float(found.grid)
    )
    assert new_key_chance(found) <= delta


@pytest.mark.slow
def test_bars_of_numbers_of_rows_allow_for_the_choice():
    """Of keys that appear 95 % of the bars cover, whatever the number of rows; without the choice few would."""
    noise, rng, query = pf.Laplace(6.0), np.random.default_rng(7), Count.of("rows", None)
    threshold = least_threshold(noise, 1, 0.01)
    for rows in (1, 12, 24, 40):
        noisy = rows + noise.sample(100_000, rng)
        sums = noisy[noisy > float(threshold.above)][:, None]
        low, high = bars_of_appearing(threshold, query, [noise], sums, 0)
        covered = ((low <= rows) & (rows <= high)).mean()
        assert covered >= 0.95 - 5 * math.sqrt(0.05 / len(sums))
        assert low.min() >= 1
        if rows == 1:
            assert covered < 1
            assert (sums - low > noise.interval(0.95)[1]).mean() > 0.9
