"""Simulators: what they take and refuse, and what their draws have to look like."""

import numpy as np
import pytest

import pufferflow as pf
from pufferflow.models.domain import Interval
from pufferflow.models.priors.simulator import Simulator
from pufferflow.models.secret import Derived, Initial, Presence, Secret
from pufferflow.queries.statistic import Statistic


def heights(value, row, statistic, draws, rng):
    """A count of 10 coins that fall more often under the secret."""
    del row, statistic
    return rng.binomial(10, 0.3 + 0.1 * value, draws)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"fn": 3}, "of type int"),
        ({"draws": 0}, "draws is 0"),
        ({"draws": True}, "draws is True"),
        ({"draws": 1e4}, "draws is 10000.0"),
        ({"confidence": 1.0}, "confidence is 1"),
        ({"confidence": float("nan")}, "confidence is nan"),
    ],
)
def test_bad_parts_are_refused(parts, says):
    """No function, no whole number of draws, no confidence between 0 and 1."""
    with pytest.raises(pf.UsageError, match=says):
        Simulator(**{"fn": heights, **parts})


def test_secrets_without_values_are_refused():
    """There has to be a value to draw under."""
    prior = Simulator(heights)
    prior.check(Derived("cause", [0, 1]))
    prior.check(Secret("x", [0, 1]))
    for secret in (
        Derived("cause"),
        Secret("x", Interval(0, 1)),
        Initial("x", [0, 1]),
        Presence("home"),
    ):
        with pytest.raises(pf.UsageError):
            prior.check(secret)


@pytest.mark.parametrize(
    "drawn",
    [
        lambda draws: np.zeros(draws - 1),
        lambda draws: np.zeros((draws, 2)),
        lambda draws: np.full(draws, np.nan),
        lambda draws: ["a"] * draws,
        lambda draws: {draws},
    ],
)
def test_draws_of_the_wrong_kind_are_refused(drawn):
    """Wrong shapes, NaN and texts are said before anything is certified."""
    prior = Simulator(lambda value, row, statistic, draws, rng: drawn(draws), draws=10)  # noqa: ARG005
    with pytest.raises(pf.UsageError):
        prior.sample(0, None, Statistic.total(3), np.random.default_rng(0))


def test_a_function_is_no_json_but_has_a_fingerprint():
    """Storing is refused with a reason; the fingerprint changes with the function's source and with the numbers."""
    prior = Simulator(heights, draws=100)
    with pytest.raises(pf.Refused, match="cannot be stored"):
        prior.stored()
    assert prior.fingerprint() == Simulator(heights, draws=100).fingerprint()
    others = [
        Simulator(lambda *_: 0, draws=100),
        Simulator(heights, draws=101),
        Simulator(np.zeros, draws=100),
    ]
    assert len({str(one.fingerprint()) for one in [prior, *others]}) == 4
    assert "0.999" in prior.describe()
