"""Estimates from perturbed rows: unbiased whatever rows there are, with the variance they say, and bars that hold."""

import itertools

import numpy as np
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.release.local.release import Scores, estimated_frequencies, estimated_means

RESPONSE = pf.local.randomized_response([0, 1, 5], 1.0)
LAWS = {0: 0.5, 1: 0.3, 5: 0.2}, {0: 0.2, 1: 0.3, 5: 0.5}
ODD = pf.local.Channel.of(
    [0, 1, 5], list("abcd"), [[0.5, 0.2, 0.2, 0.1], [0.1, 0.6, 0.1, 0.2], [0.25, 0.15, 0.45, 0.15]]
)
CASES = {
    "randomised response": (RESPONSE, [0.0, 1.0, 5.0]),
    "one value": (RESPONSE, [0.0, 0.0, 1.0]),
    "more outputs than inputs": (ODD, [0.0, 1.0, 5.0]),
    "erased responses": (RESPONSE.erased(0.5), [0.0, 1.0, 5.0]),
    "binary erasure": (pf.local.binary_erasure(*LAWS, 1.0, 0.2), [0.0, 0.0, 1.0]),
}


@pytest.mark.parametrize("name", CASES)
def test_sums_are_unbiased_with_the_variance_they_say(name):
    """Over all outputs of four rows the mean of the estimate is the sum, and that of its variance the variance."""
    channel, numbers = CASES[name]
    scores, rows = Scores.of(channel, numbers), [0, 2, 2, 1]
    chances = channel.matrix[rows]
    mean = square = variance = 0.0
    for outputs in itertools.product(range(len(channel.outputs)), repeat=len(rows)):
        chance = np.prod([chances[row, output] for row, output in enumerate(outputs)])
        estimate = scores.outputs[list(outputs)].sum()
        mean, square = mean + chance * estimate, square + chance * estimate**2
        variance += chance * (scores.outputs**2 - scores.squares)[list(outputs)].sum()
    assert mean == pytest.approx(np.array(numbers)[rows].sum(), abs=1e-6)
    assert variance == pytest.approx(square - mean**2, rel=1e-6)
    assert len(rows) * scores.least <= variance * (1 + 1e-9)
    assert variance <= len(rows) * scores.most * (1 + 1e-9)


def outputs_of(channel, rows, rng):
    """Counts of outputs as `counted` returns them."""
    drawn = channel.draw(rows, rng.bytes)
    counts = np.bincount(drawn, minlength=len(channel.outputs))
    return pl.DataFrame({"x": list(channel.outputs), "rows of x": counts}, strict=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["randomised response", "erased responses"])
def test_error_bars_hold_as_often_as_they_say(name):
    """95 % of the bars of means and frequencies hold; undone by a channel a tenth more open far fewer do."""
    channel, numbers = CASES[name]
    other = channel.at(channel.epsilon * 1.1)
    rng, rows = np.random.default_rng(6), np.repeat([0, 1, 2], [9000, 700, 300])
    truth, often = np.array(numbers)[rows].mean(), np.bincount(rows)
    held, held_by_other, trials = np.zeros(4), 0, 400
    for _ in range(trials):
        counts = outputs_of(channel, rows, rng)
        mean = estimated_means(counts, channel, "x")
        frequency = estimated_frequencies(counts, channel, "x")
        held[0] += mean["x_mean_low"][0] <= truth <= mean["x_mean_high"][0]
        low, high = (frequency[f"frequency_{end}"].to_numpy() for end in ("low", "high"))
        held[1:] += (low <= often) & (often <= high)
        wrong = estimated_means(counts, other, "x")
        held_by_other += wrong["x_mean_low"][0] <= truth <= wrong["x_mean_high"][0]
    assert (np.abs(held / trials - 0.95) < 0.035).all()  # three standard deviations
    assert held_by_other / trials < 0.8


def test_scores_have_the_least_variance():
    """Among all unbiased scores those count with the least variance for equally frequent values."""
    scores = Scores.of(ODD, [0.0, 1.0, 5.0]).outputs
    _, _, turned = np.linalg.svd(ODD.matrix)
    free, frequency = turned[-1], ODD.matrix.mean(axis=0)
    assert np.allclose(ODD.matrix @ free, 0)
    for step in (-0.1, 0.1):
        assert frequency @ scores**2 < frequency @ (scores + step * free) ** 2


def test_estimates_in_groups_have_the_groups_in_front():
    """Groups stand in order, with null among them; names that estimates have are refused as groups."""
    scenario = pf.Scenario(pf.Secret("x", domain=[0, 1]), pf.Independent(), public=["day", "rows"])
    frame = pl.DataFrame({"day": [2, None, 1, 2], "rows": [0] * 4, "x": [0, 1, 1, 0]})
    release = pf.protect(frame, scenario).private_local("x").release(epsilon=2.0)
    assert release.means("day")["day"].to_list() == [None, 1, 2]
    assert release.means("day")["rows"].to_list() == [1, 1, 2]
    with pytest.raises(pf.UsageError, match="'rows'"):
        release.sums("rows")
