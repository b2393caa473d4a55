"""Laws in regions.

No pair of members has a larger ratio than is guaranteed, and a few states are worked out exactly.
"""

import itertools

import numpy as np
import pytest
from thinned import thinned

from pufferflow.distributions.markov.law_regions import (
    LawRegions,
    largest_log_ratio,
    region_log_ratio,
)


def vertices(low, high):
    """All corners of the laws between two bounds."""
    found = []
    for free in range(len(low)):
        for chosen in itertools.product(
            *(zip(np.delete(low, free), np.delete(high, free), strict=True))
        ):
            law = np.insert(np.array(chosen), free, 1 - sum(chosen))
            if low[free] <= law[free] + 1e-12 and law[free] <= high[free] + 1e-12:
                found.append(law.clip(0))
    return np.array(found)


def limits_of(rng, states, widest):
    limits = rng.uniform(0, widest, (states, states))
    np.fill_diagonal(limits, 0)
    return limits


def on_a_line(rng, states, widest):
    places = np.sort(rng.uniform(0, widest, states))[rng.permutation(states)]
    return np.abs(places[:, None] - places)


def boxes(rng, states):
    centre, width = rng.dirichlet(np.ones(states), 2), rng.uniform(0, 0.15, (2, states))
    return LawRegions.of(centre, (centre - width).clip(0), (centre + width).clip(0, 1))


def of_corners(regions, limits):
    """The largest ratio of all corners, by the method for known laws."""
    tops, bottoms = (vertices(regions.low[at], regions.high[at]) for at in (0, 1))
    pairs = [(top, bottom) for top in tops for bottom in bottoms]
    return max(largest_log_ratio(*(np.array(part) for part in zip(*pairs, strict=True)), limits))


def bound(regions, limits):
    return float(
        region_log_ratio(regions.some(np.array([0])), regions.some(np.array([1])), limits)[0]
    )


@pytest.mark.parametrize("widest", [0.3, 3.0])
@pytest.mark.parametrize("states", [2, 3, 4])
def test_of_few_states_between_bounds_it_is_exact(states, widest):
    """The bound is the largest ratio of all corners of both boxes, for any limits."""
    rng = np.random.default_rng(states)
    for _ in range(6):
        regions, limits = boxes(rng, states), limits_of(rng, states, widest)
        assert bound(regions, limits) == pytest.approx(of_corners(regions, limits), rel=1e-9)


@pytest.mark.parametrize("states", thinned([6, 7], 0.5))
def test_of_states_in_a_row_it_is_exact(states):
    """Where limits add up along a row, those of more states are too, if they move by little."""
    rng = np.random.default_rng(states)
    regions, limits = boxes(rng, states), on_a_line(rng, states, 1.0)
    few = LawRegions.of(*(part.copy() for part in (regions.centre, regions.low, regions.high)))
    for part, sign in ((few.low, -1), (few.high, 1)):
        part[:, 3:] = few.centre[:, 3:] + sign * 1e-9  # corners would be too many
    assert bound(few, limits) == pytest.approx(of_corners(few, limits), rel=1e-5)


def members(rng, regions, at, number):
    """Laws inside a region: from the centre towards random laws, as far as the region goes."""
    aims = rng.dirichlet(np.full(regions.states, rng.choice([0.1, 1])), number)
    ways = aims - regions.centre[at]
    room = np.where(
        ways > 0, regions.high[at] - regions.centre[at], regions.centre[at] - regions.low[at]
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.nan_to_num(room / np.abs(ways), nan=1.0, posinf=1.0).min(axis=1)
    balls = regions.radius[at] / (np.abs(ways).sum(axis=1) / 2)
    return regions.centre[at] + np.minimum(np.minimum(steps, balls), 1.0)[:, None] * ways


@pytest.mark.parametrize("kind", [limits_of, on_a_line])
@pytest.mark.parametrize("states", [2, 3, 5, 6, 9, 12, 16])
def test_no_pair_of_members_has_a_larger_ratio(states, kind):
    """Random members of boxes with balls, for any number of states, stay at or below the bound; limits cap it."""
    rng = np.random.default_rng(states)
    for widest in (0.3, 2.0, 900.0):
        regions, limits = boxes(rng, states), kind(rng, states, widest)
        regions = LawRegions.of(regions.centre, regions.low, regions.high, 0.05)
        tops, bottoms = (members(rng, regions, at, 40) for at in (0, 1))
        found = largest_log_ratio(tops, bottoms, limits).max()
        assert found <= bound(regions, limits) + 1e-9
        assert bound(regions, limits) <= limits.max() * (1 + 1e-12)


@pytest.mark.parametrize("states", [3, 7, 16])
def test_known_laws_have_the_ratio_of_known_laws(states):
    """Regions with one member each give what is known of it, unless limits are neither few nor in a row."""
    rng = np.random.default_rng(states)
    laws, limits = rng.dirichlet(np.ones(states), 2), on_a_line(rng, states, 2.0)
    expected = largest_log_ratio(laws[:1], laws[1:], limits)[0]
    assert bound(LawRegions.known(laws), limits) == pytest.approx(expected, rel=1e-9)


def test_states_without_a_limit_between_them_are_one():
    """Of a count only what is counted matters, however many states there are."""
    rng = np.random.default_rng(0)
    regions = boxes(rng, 20)
    counted = np.arange(20) < 7
    limits = np.where(counted[:, None] != counted, 0.8, 0.0)
    inside = [regions.centre[:, counted].sum(axis=1), regions.radius]
    share, moved = np.minimum(inside[0] + inside[1], 1), np.maximum(inside[0] - inside[1], 0)
    worst = np.log((1 + np.expm1(0.8) * share[0]) / (1 + np.expm1(0.8) * moved[1]))
    assert 0 < bound(regions, limits) <= max(worst, 0.8) + 1e-9
    lumped = regions.lumped(np.where(counted, 0, 1))
    small = np.array([[0, 0.8], [0.8, 0]])
    assert bound(regions, limits) == pytest.approx(bound(lumped, small), rel=1e-12)


def test_narrower_regions_are_not_enough():
    """With regions of nine tenths of the width some pair of members has a larger ratio than the bound."""
    rng = np.random.default_rng(5)
    for states in (2, 3, 4):
        regions, limits = boxes(rng, states), limits_of(rng, states, 2.0)
        low, high = (
            regions.centre + 0.9 * (part - regions.centre) for part in (regions.low, regions.high)
        )
        assert bound(LawRegions.of(regions.centre, low, high), limits) < of_corners(
            regions, limits
        ) * (1 - 1e-4)
