"""Channels as values: exact probabilities, draws that have them, texts that bring them back."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from confounded import FIRST, THREE, random_channel
from scipy.stats import chisquare

import pufferflow as pf
from pufferflow.confounding import Channel, cost, design


def test_probabilities_are_the_decimals_that_were_written():
    """Floats are read as decimals, and rows within 1e-9 of 1 are made to sum to 1."""
    assert FIRST.probability(0, 0) == Fraction(3, 5)
    rows = Channel("x", [0], ["a", "b", "c"], [[1 / 3, 1 / 3, 1 / 3]]).probabilities
    assert sum(rows[0]) == 1


def test_stored_channels_come_back():
    """A channel and a designed one are the same after a text, whatever their labels."""
    made = design(THREE, FIRST, pf.Pure(0.5), secret="s").channel
    pairs = Channel(
        ["a", "b"], [(0, "x"), (1, "y")], [("n", 0), ("n", 1)], [[0.5, 0.5], [0.25, 0.75]]
    )
    for one in (FIRST, made, pairs):
        again = Channel.from_json(one.to_json())
        assert again == one
        assert hash(again) == hash(one)
    assert made != FIRST


@pytest.mark.parametrize("wrong", [False, True])
def test_draws_have_the_probabilities(wrong):
    """Draws fit the exact row, and do not fit one that is a tenth off."""
    rng = np.random.default_rng(7)
    made = random_channel(rng, "x", 2, outputs=5)
    drawn = made.sample([1] * 60_000, rng)
    counts = np.bincount(drawn, minlength=5)
    chances = np.array([float(one) for one in made.probabilities[1]])
    if wrong:
        chances = chances * np.where(np.arange(5) == 2, 0.9, 1)
        chances /= chances.sum()
    assert (chisquare(counts, chances * counts.sum()).pvalue < 1e-4) == wrong


def test_only_draws_of_the_system_may_be_published():
    """Draws of a generator that was passed can be drawn again, and say so."""
    assert FIRST.release([0, 1, 2]).for_release
    again = [FIRST.release([0] * 40, np.random.default_rng(3)) for _ in range(2)]
    assert again[0].values == again[1].values
    assert "NOT FOR RELEASE" in repr(again[0])


def scripted(words):
    """A source of random bits that gives these numbers, each in as many bytes as are asked for at a time."""
    script = iter(words)
    return lambda size: next(script).to_bytes(size, "little")


def test_thirds_are_drawn_exactly():
    """Numbers around a third are told apart, by as many further bits as it takes; no bits are read in vain."""
    thirds = Channel("x", [0], ["a", "b", "c"], [[Fraction(1, 3)] * 3])
    edge, further = 2**32 // 3, 2**64 // 3

    def drawn(*words):
        return int(thirds.draw(np.array([0]), scripted(words))[0])

    assert [drawn(edge - 1), drawn(edge + 1), drawn(2**32 - 1)] == [0, 1, 2]
    assert [drawn(edge, further - 1), drawn(edge, further + 1)] == [0, 1]
    assert [drawn(edge, further, further - 1), drawn(edge, further, further + 1)] == [0, 1]


@pytest.mark.parametrize("outputs", [3, 40])
def test_ladders_cut_where_probabilities_do(outputs):
    """The output of a word is that of the exact cumulative probabilities wherever these do not cut the word itself."""
    rng = np.random.default_rng(outputs)
    made = random_channel(rng, "x", 3, outputs=outputs)
    for place, row in enumerate(made.probabilities):
        sums = [sum(row[: at + 1]) for at in range(outputs)]
        words = [min(max(int(one * 2**32) + off, 0), 2**32 - 1) for one in sums for off in (-1, 1)]
        expected = [sum(one * 2**32 <= word for one in sums[:-1]) for word in words]
        bits = np.array(words, dtype="<u4").tobytes()
        assert made.draw(np.full(len(words), place), lambda _, bits=bits: bits).tolist() == expected


def test_rounded_noise_keeps_what_the_noise_promises():
    """Noise rounded to a grid is post-processing: its pure loss is at most that of the noise."""
    noisy = Channel.of_noise("x", [0, 1, 2], [0, 0.5, 1, 2], pf.Laplace(2.0))
    assert (
        cost(THREE, noisy).pure
        <= cost(THREE, pf.confounding.Additive("x", pf.Laplace(2.0))).pure + 1e-11
    )
    assert Channel.of_noise("x", [0, 1, 2], [0, 2], pf.Gaussian(0.0)).probabilities == (
        (1, 0),
        (1, 0),
        (0, 1),
    )
    assert cost(THREE, noisy, secret="x").pure <= pf.Laplace(2.0).pure(2.0) + 1e-12


def test_channels_of_rows_have_costs_on_tables():
    """A mechanism for rows is a release of the column that it is told to read; of no column it is none."""
    response = pf.local.randomized_response([0, 1, 2], 1.0)
    assert cost(THREE, response.reading("x"), secret="x").pure == response.epsilon
    with pytest.raises(pf.UsageError, match="not name a column"):
        cost(THREE, response, secret="x")


def test_designed_channels_perturb_rows():
    """A channel that was designed for a column publishes its rows, with the loss that it has for the column itself."""
    table = pf.Table({"s": [0, 1, 0, 1], "x": [0, 0, 1, 1], "probability": [0.4, 0.1, 0.1, 0.4]})
    made = design(table, [], pf.Pure(0.5), secret="s")
    scenario = pf.Scenario(pf.Secret("x", domain=[0, 1]), pf.Independent())
    plan = (
        pf.protect(pl.DataFrame({"x": [0, 1, 1]}), scenario).private_local("x", made.channel).plan()
    )
    assert plan.loss == pytest.approx(made.channel.epsilon, rel=1e-9)
    assert plan.loss >= made.channel.epsilon
    assert set(plan.release().frame.collect()["x"]) <= {0, 1}
