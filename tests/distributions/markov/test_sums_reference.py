"""Published figures for counts along two-state chains."""

import numpy as np
import pytest

from pufferflow.distributions.distances import near, winf
from pufferflow.distributions.markov.chain import Chain, stationary
from pufferflow.distributions.markov.near_of_sums import nearest
from pufferflow.distributions.markov.sums import Sums
from pufferflow.distributions.markov.winf_of_sums import farthest, pair_of

PAIRS = np.array([[0, 1], [1, 0]])


def count(stay, stay_too, length):
    kernel = np.array([[stay, 1 - stay], [1 - stay_too, stay_too]])
    chain = Chain(kernel[None], np.zeros(length - 1, dtype=np.intp), stationary([kernel])[None])
    return Sums(chain, np.array([[0.0, 1.0]]), np.zeros(length, dtype=np.intp))


@pytest.mark.parametrize(("stay", "length"), [(0.6, 2), (0.7, 3), (0.8, 5), (0.9, 10)])
@pytest.mark.parametrize("rows", [100, 300])
def test_a_count_stays_bounded(stay, length, rows):
    """Symmetric chains from their stationary law: 2, 3, 5 and 10, at any length."""
    found = farthest(count(stay, stay, rows), PAIRS)
    assert (found.length, found.exact) == (length, True)


CASES = {
    "T=10, .8": (
        10,
        0.8,
        0.8,
        4,
        4,
        {0: 0.583108608, 1: 0.4642176, 2: 0.305843712, 3: 0.147469824},
    ),
    "T=20, .9": (
        *(20, 0.9, 0.9, 9, 9),
        {
            3: 0.43468851380030565,
            4: 0.357993665354849,
            5: 0.28129881690939235,
            6: 0.20246600957598027,
            7: 0.12363320224256824,
            8: 0.048835508029405277,
        },
    ),
    "T=50, .9 and .6": (
        *(50, 0.9, 0.6, 24, 4),
        {
            0: 0.2476215844371395,
            1: 0.1677644273316104,
            2: 0.08609776474393945,
            3: 0.011532698252508222,
        },
    ),
    "T=100, .7": (
        100,
        0.7,
        0.7,
        49,
        3,
        {0: 0.12264841340394937, 1: 0.0705952247004111, 2: 0.01793319111850127},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_one_row_in_the_middle(case):
    """Exact W_∞, and the δ from which each shorter distance does; rows counted from 0."""
    length, stay, stay_too, row, distance, deltas = case
    sums, only = count(stay, stay_too, length), np.arange(length) == row
    mu, nu = pair_of(sums, row, (0, 1))
    assert farthest(sums, PAIRS, only).length == winf(mu, nu) == distance
    for z, delta in deltas.items():
        assert nearest(sums, PAIRS, delta, only).length == near(mu, nu, delta) == z
        more, less = (
            nearest(sums, PAIRS, delta * 1.001, only),
            nearest(sums, PAIRS, delta * 0.999, only),
        )
        assert (more.length, more.exact) == (z, True)
        assert less.length == near(mu, nu, delta * 0.999) > z


def test_nearness_of_no_share_is_winf():
    """δ = 0 is W_∞, and so is a δ below what float masses can tell."""
    sums = count(0.8, 0.8, 60)
    assert (
        nearest(sums, PAIRS, 0).length
        == nearest(sums, PAIRS, 1e-15).length
        == farthest(sums, PAIRS).length
        == 5
    )
