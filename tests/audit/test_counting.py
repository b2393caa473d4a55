"""Clopper–Pearson: bounds of probabilities that hold at least as often as they say, whatever the probability is."""

import numpy as np
import pytest
from scipy import stats

from pufferflow.audit.event_losses import at_least, at_most


@pytest.mark.parametrize("draws", [1, 7, 40])
@pytest.mark.parametrize("error", [0.3, 0.05, 1e-4])
def test_bounds_hold_for_every_probability(draws, error):
    """Going through all counts and 400 probabilities, neither bound fails more often than with its error."""
    counts = np.arange(draws + 1)
    low, high = at_least(counts, draws, error), at_most(counts, draws, error)
    worst = 0.0
    for p in np.concatenate([np.linspace(0, 1, 301), low, high, np.geomspace(1e-9, 0.1, 60)]):
        masses = stats.binom.pmf(counts, draws, p)
        assert masses[low > p].sum() <= error
        assert masses[high < p].sum() <= error
        worst = max(worst, masses[low > p - 1e-12].sum())
    assert worst > 0.9 * error  # and they are no wider than they have to be


@pytest.mark.parametrize("draws", [3, 1000, 10**8])
def test_bounds_are_the_quantiles(draws):
    """A bound is the probability at which so many counts, or more, have the chance `error`; rounded outwards."""
    for count in {1, draws // 3 + 1, draws - 1}:
        low, high = float(at_least(count, draws, 0.01)), float(at_most(count, draws, 0.01))
        assert 0 < low < count / draws < high <= 1
        if high == 1:  # by rounding outwards
            continue
        assert stats.binom.sf(count - 1, draws, low) == pytest.approx(0.01, rel=1e-3)
        assert stats.binom.cdf(count, draws, high) == pytest.approx(0.01, rel=1e-3)
        assert low < stats.beta.ppf(0.01, count, draws - count + 1)
        assert high > stats.beta.isf(0.01, count + 1, draws - count)


def test_nothing_and_all():
    """Without a count the lower bound is 0, and with all of them the upper bound is 1."""
    assert at_least(0, 10, 0.01) == 0
    assert at_most(10, 10, 0.01) == 1
    assert at_most(0, 10, 0.01) == pytest.approx(1 - 0.01 ** (1 / 10), rel=1e-6)
    assert at_least(10, 10, 0.01) == pytest.approx(0.01 ** (1 / 10), rel=1e-6)
