"""Bad input: errors that say what was given, what is allowed and what to try, and no value that is private."""

import numpy as np
import pytest
from confounded import FIRST, THREE, channel, kept_bit, xor_table

import pufferflow as pf
from pufferflow.confounding import (
    Additive,
    Channel,
    cost,
    design,
    epsilon_of_ratio,
    gaussian_copula,
    tied_channels,
)

HALVES = [[0.5, 0.5]] * 3
TIED = gaussian_copula(*[Additive("x", pf.Laplace(1.0))] * 2, 0.5)
MISUSES = {
    "no sum": (lambda: Channel("x", [0, 1], [0, 1], [[0.5, 0.4], [0.5, 0.5]]), "has the sum 0.9"),
    "negative": (lambda: Channel("x", [0], [0, 1], [[1.5, -0.5]]), "A probability is -0.5"),
    "NaN": (lambda: Channel("x", [0], [0, 1], [[float("nan"), 1]]), "A probability is nan"),
    "shape": (lambda: Channel("x", [0, 1], [0, 1], HALVES), "for 2 inputs and 2 outputs"),
    "twice": (
        lambda: Channel("x", [0, 0, 1], [0, 1], HALVES),
        "inputs is empty, or has a value twice",
    ),
    "empty": (lambda: Channel("x", [], [], []), "inputs is empty"),
    "columns": (
        lambda: Channel(["a", "b"], [0, 1], [0], [[1], [1]]),
        "An input does not have 2 values",
    ),
    "label": (lambda: Channel("x", [None], [0], [[1]]), "An input is of type NoneType"),
    "endless text": (
        lambda: Channel.from_json(FIRST.to_json().replace("3/5", "1e99999999")),
        "not a stored channel",
    ),
    "text": (lambda: Channel.from_json("{}"), "not a stored channel"),
    "hidden input": (lambda: FIRST.release([987654]), "of 'x' is not an input"),
    "generator": (lambda: FIRST.release([0], rng=7), "rng is of type int"),
    "correlation": (lambda: Additive("x", pf.Gaussian(1.0), correlation=0.5), "on 1 columns"),
    "no noise": (lambda: Additive("x", 2.0), "noise is of type float"),
    "copula": (lambda: gaussian_copula(FIRST, FIRST, 1.0), "correlation is 1"),
    "copula of two kinds": (
        lambda: gaussian_copula(Additive("x", pf.Laplace(1.0)), FIRST, 0.5),
        "second is of type",
    ),
    "copula of no noise": (
        lambda: gaussian_copula(*[Additive("x", pf.Laplace(0.0))] * 2, 0.5),
        "first is Additive",
    ),
    "no copula": (
        lambda: tied_channels(FIRST, FIRST, lambda *_: 0.5),
        "not give a number for every pair",
    ),
    "release": (lambda: cost(THREE, [pf.Laplace(1.0)]), "A release is of type Laplace"),
    "table": (lambda: cost({"x": [0]}, FIRST), "The table is of type dict"),
    "typo": (lambda: cost(THREE, channel("y", HALVES), secret="s"), "no column 'y'"),
    "which secret": (
        lambda: cost(xor_table(), kept_bit("a", 0.7)),
        "not clear which column is the secret",
    ),
    "secret typo": (lambda: cost(THREE, FIRST, secret="t"), "no column 't'"),
    "never": (
        lambda: cost(THREE, FIRST, secret=pf.Derived("s", values=[0, 7])),
        "never produces s = 7",
    ),
    "alone": (
        lambda: cost(
            pf.Table({"s": [0, 0], "x": [0, 1], "probability": [0.5, 0.5]}), kept_bit("x", 0.7)
        ),
        "single value",
    ),
    "input missing": (lambda: cost(THREE, kept_bit("x", 0.7)), "of 'x' is not an input"),
    "labels": (lambda: cost(labelled(), Additive("x", pf.Laplace(1.0))), "has labels"),
    "levels": (lambda: cost(THREE, FIRST).tradeoff([2.0]), "A level is 2"),
    "ratio": (lambda: epsilon_of_ratio(0.5, [0.5, 0.5]), "ratio is 0.5"),
    "flat loss": (
        lambda: design(THREE, [], pf.Pure(1.0), lambda *_: 1, secret="s"),
        "same for every output",
    ),
    "loss NaN": (
        lambda: design(THREE, [], pf.Pure(1.0), lambda *_: float("nan"), secret="s"),
        "A loss is nan",
    ),
    "loss shape": (
        lambda: design(THREE, [], pf.Pure(1.0), [[0, 1]], secret="s"),
        "lacks a row for each of 3 answers",
    ),
    "loss name": (lambda: design(THREE, [], pf.Pure(1.0), "abs", secret="s"), "loss is 'abs'"),
    "which query": (lambda: design(xor_table(), [], pf.Pure(1.0), secret="s"), "No query is named"),
    "outputs": (
        lambda: design(THREE, [], pf.Pure(1.0), secret="s", outputs=[0, 0]),
        "a value twice",
    ),
    "published": (
        lambda: design(THREE, FIRST, pf.Pure(1.0), secret="s", published=[]),
        "not have an output for every",
    ),
    "published delta": (
        lambda: design(THREE, FIRST, pf.Approx(1.0, 0.1), secret="s", published=[0]),
        "has a delta",
    ),
    "published what": (
        lambda: design(THREE, FIRST, pf.Pure(1.0), secret="s", published=["z"]),
        "'z' is not an output",
    ),
}


def labelled():
    return pf.Table({"s": [0, 1], "x": ["a", "b"], "probability": [0.5, 0.5]})


def far_apart():
    """A table of numbers that noise of scale 1 does not hide from each other."""
    return pf.Table({"s": [0, 1], "x": [0.0, 2000.0], "probability": [0.5, 0.5]})


@pytest.mark.parametrize("name", MISUSES)
def test_misuses(name):
    """What does not fit is refused by name."""
    call, problem = MISUSES[name]
    with pytest.raises(pf.UsageError) as error:
        call()
    assert problem in str(error.value)
    assert "allowed" in str(error.value)
    assert "987654" not in str(error.value)


@pytest.mark.slow
def test_what_mathematics_does_not_give():
    """Guarantees of other kinds, noise without cells, and laws that are too large are refused with what to do."""
    large = pf.Table(
        {"s": [0] * 300 + [1] * 300, "x": [*range(300)] * 2, "probability": np.full(600, 1 / 600)}
    )
    for call, problem in [
        (lambda: cost(THREE, FIRST).keeps(pf.Renyi(2, 1.0)), "pf.Pure or pf.Approx"),
        (lambda: design(THREE, [], pf.Renyi(2, 1.0), secret="s"), "pf.Pure or pf.Approx"),
        (
            lambda: gaussian_copula(*[Additive("x", pf.Staircase(1.0, 1.0))] * 2, 0.5),
            "Channel.of_noise",
        ),
        (lambda: cost(THREE, [*[Additive("x", pf.Laplace(1.0))] * 5, TIED]), "tied by a copula"),
        (lambda: cost(far_apart(), TIED, secret="s"), "too many scales apart"),
        (lambda: design(THREE, TIED, pf.Approx(1.0, 0.1), secret="s", query="x"), "tied noise"),
        (
            lambda: design(large, [], pf.Pure(1.0), secret="s"),
            "90000 probabilities (300 inputs × 300 outputs)",
        ),
        (lambda: cost(THREE, [FIRST] * 24), "coarser outputs"),
        (lambda: cost(THREE, [Additive("x", pf.Laplace(1.0))] * 9).posterior, "noisy answers"),
        (
            lambda: design(THREE, Additive("x", pf.Gaussian(1.0)), pf.Approx(1.0, 0.1), secret="s"),
            "published",
        ),
        (
            lambda: cost(THREE, [FIRST, Additive("x", pf.Laplace(1.0))]).dependence.worst,
            "dependence.average",
        ),
    ]:
        with pytest.raises(pf.Refused) as error:
            call()
        assert problem in str(error.value)
