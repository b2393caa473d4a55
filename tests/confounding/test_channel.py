"""Channels as values: exact probabilities, draws that have them, texts that bring them back."""

from fractions import Fraction

import numpy as np
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
    pairs = Channel(["a", "b"], [(0, "x"), (1, "y")], [("n", 0), ("n", 1)], [[0.5, 0.5], [0.25, 0.75]])
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


def test_every_bit_pattern_leads_to_an_output():
    """Numbers at and beyond the total are drawn again; the ladder ends at it."""
    thirds = Channel("x", [0], ["a", "b", "c"], [[Fraction(1, 3)] * 3])
    script = iter([3, 2, 1, 0])

    class Scripted(np.random.Generator):
        def bytes(self, length):
            return next(script).to_bytes(length, "little")

    assert thirds.sample([0, 0, 0], Scripted(np.random.PCG64())) == ["c", "b", "a"]


def test_rounded_noise_keeps_what_the_noise_promises():
    """Noise rounded to a grid is post-processing: its pure loss is at most that of the noise."""
    noisy = Channel.of_noise("x", [0, 1, 2], [0, 0.5, 1, 2], pf.Laplace(2.0))
    assert cost(THREE, noisy).pure <= cost(THREE, pf.confounding.Additive("x", pf.Laplace(2.0))).pure + 1e-11
    assert Channel.of_noise("x", [0, 1, 2], [0, 2], pf.Gaussian(0.0)).probabilities == ((1, 0), (1, 0), (0, 1))
    assert cost(THREE, noisy, secret="x").pure <= pf.Laplace(2.0).pure(2.0) + 1e-12
