"""What laws and distances take as arguments, and what copies of laws allow."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest

import pufferflow as pf

HALF = Fraction(1, 2)
ORIGIN = pf.Law.point([0, 0])


@pytest.mark.parametrize(
    "call",
    [
        lambda: pf.GaussianLaw([0, 0], 1e308).convolve(pf.GaussianLaw([0, 0], 1e308)),
        lambda: pf.GaussianLaw(1e308, 1).shift(1e308),
        lambda: pf.GaussianLaw(1e308, 1).map(10),
        lambda: pf.GaussianLaw("0", "1"),
        lambda: pf.GaussianLaw(True, 1),
        lambda: pf.GaussianLaw(np.datetime64("2020-01-01"), 1),
        lambda: pf.Law([0, 1], [1e308, 1e308]),
        lambda: pf.Law([0, 1], [10**400, 1]),
        lambda: pf.Law([0, 1], [0.5, 10**400]),
        lambda: pf.Law([0, 1], [Fraction(10**400), Fraction(1)]),
        lambda: pf.Law(np.ma.array([0.0, 1.0], mask=[True, False]), [0.5, 0.5]),
        lambda: pf.Law.mixture([None], [1.0]),
        lambda: pf.Law.mixture([pf.GaussianLaw(0, 1)], [1.0]),
        lambda: pf.Law.point(0).convolve(None),
        lambda: pf.Law.point(0).product(pf.GaussianLaw(0, 1)),
        lambda: pf.winf(ORIGIN, ORIGIN, np.array([1, 2])),
        lambda: pf.winf(ORIGIN, ORIGIN, np.array([])),
        lambda: pf.wasserstein(ORIGIN, ORIGIN, np.array([1, 2])),
        lambda: pf.near(ORIGIN, ORIGIN, Fraction(-1, 10**400)),
    ],
)
def test_odd_arguments_are_misuse(call):
    """Overflow, strings, dates, masks, arrays for numbers: each is an error of ours, not NumPy's."""
    with pytest.raises(pf.UsageError):
        call()


def test_odd_laws_are_read():
    """NumPy scalars among Fractions, whole numbers among floats and generators of laws are read as they are meant."""
    assert pf.Law([Fraction(1, 3), np.float32(0.5)], [HALF, HALF]).values.tolist() == [
        Fraction(1, 3),
        HALF,
    ]
    assert pf.Law([2**53 + 1, 0.5], [HALF, HALF]).values.tolist() == [HALF, 2**53 + 1]
    assert pf.Law([2**63 + 1, -1], [HALF, HALF]).values.tolist() == [-1, 2**63 + 1]
    assert pf.Law.mixture((pf.Law.point(x) for x in (0, 1)), [HALF, HALF]) == pf.Law(
        [0, 1], [HALF, HALF]
    )
    assert pf.near(pf.Law.point(0), pf.Law([0, 1], [HALF, HALF]), 1 - Fraction(1, 10**30)) == 0


@pytest.mark.parametrize(
    "law", [pf.Law([Fraction(1, 3), 1], [HALF, HALF]), pf.Law([0, 1], [0.5, 0.5])]
)
def test_copies_stay_frozen(law):
    """Copied and pickled laws cannot be changed either."""
    twins = [
        copy.deepcopy(law),
        *(pickle.loads(pickle.dumps(law, protocol)) for protocol in range(6)),
    ]
    for twin in twins:
        assert twin == law
        with pytest.raises(ValueError, match="read-only"):
            twin.values[0] = 7
    with pytest.raises(ValueError, match="read-only"):
        copy.deepcopy(pf.GaussianLaw(0, 1)).mean[0] = 7
