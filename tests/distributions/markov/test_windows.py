"""Sums of windows against Fractions, step by step."""

from fractions import Fraction

import numpy as np
import pytest

from pufferflow.core.errors import Refused, UsageError
from pufferflow.distributions.markov.state_loss import Window, exposures_of

DAY = Window(0.1 * (1 - np.eye(2)), ((0, 24),))


def summed(windows, which, starts):
    """{step: matrix of Fractions}: every window added to every step it touches."""
    found = {}
    for kind, start in zip(which, starts, strict=True):
        losses = [[Fraction(x) for x in row] for row in windows[kind].losses.tolist()]
        for first, end in windows[kind].spans:
            for step in range(start + first, start + end):
                before = found.get(step, [[Fraction(0)] * len(losses)] * len(losses))
                found[step] = [
                    [x + y for x, y in zip(*rows, strict=True)]
                    for rows in zip(before, losses, strict=True)
                ]
    return found


@pytest.mark.parametrize("seed", range(6))
def test_sums_are_those_of_every_step_and_never_below_them(seed):
    """Kinds with several spans, overlapping in any way: each step has its own sum, rounded up by a few units."""
    rng = np.random.default_rng(seed)
    size, kinds = int(rng.integers(2, 4)), int(rng.integers(1, 6))
    windows = []
    for _ in range(kinds):
        firsts = rng.integers(-5, 10, rng.integers(1, 4))
        spans = tuple((int(first), int(first + rng.integers(0, 7))) for first in firsts)
        windows.append(Window(rng.random((size, size)) * (1 - np.eye(size)), spans))
    which = rng.integers(0, kinds, 40)
    starts = rng.integers(-30, 60, 40)
    base, found = exposures_of(windows, which, starts)
    truth = summed(windows, which, starts.tolist())
    assert base == min(truth)
    assert len(found.kinds) == max(truth) - base + 1
    for at, kind in enumerate(found.kinds):
        exact = truth.get(base + at)
        if exact is None:
            assert not found.losses[kind].any()
            continue
        for row, other in zip(found.losses[kind].tolist(), exact, strict=True):
            for x, y in zip(row, other, strict=True):
                assert y <= Fraction(x) <= y * (1 + Fraction(100, 2**52))


def test_equal_sums_share_one_kind():
    """Windows that follow each other leave no trace, and neither do two kinds that tell the same."""
    twice = [DAY, Window(DAY.losses.copy(), ((0, 24),))]
    base, found = exposures_of(twice, np.arange(60) % 2, 24 * np.arange(60) + 5)
    assert base == 5
    assert found.losses.shape == (1, 2, 2)
    assert len(found.kinds) == 24 * 60


def test_many_windows_of_many_kinds():
    """100,000 windows, and thousands of kinds: as many sums as there are kinds of steps."""
    _, found = exposures_of([DAY], np.zeros(100_000, dtype=np.intp), 24 * np.arange(100_000))
    assert (len(found.kinds), len(found.losses)) == (2_400_000, 1)
    kinds = [Window(DAY.losses * (1 + kind), ((0, 10),)) for kind in range(3000)]
    _, found = exposures_of(kinds, np.arange(3000), 10 * np.arange(3000))
    assert len(found.losses) == 3000
    assert found.losses[found.kinds[::10], 0, 1] == pytest.approx(0.1 * np.arange(1, 3001))


def test_a_hull_may_be_given():
    """Steps of the hull that no window touches have 0; a window outside of it is refused."""
    base, found = exposures_of([DAY], np.zeros(1, dtype=np.intp), np.array([10]), (0, 99))
    assert (base, len(found.kinds)) == (0, 100)
    touched = found.losses[found.kinds, 0, 1] > 0
    assert np.flatnonzero(touched).tolist() == list(range(10, 34))
    none = np.empty(0, dtype=np.intp)
    assert not exposures_of([DAY], none, none, (3, 5))[1].losses.any()
    for hull in ((11, 99), (0, 32)):
        with pytest.raises(UsageError, match="outside of the hull"):
            exposures_of([DAY], np.zeros(1, dtype=np.intp), np.array([10]), hull)
    with pytest.raises(UsageError, match="no windows"):
        exposures_of([DAY], none, none)


def test_too_many_steps_are_refused():
    """More than 8 million steps ask for a longer step."""
    with pytest.raises(Refused, match="a longer step"):
        exposures_of([DAY], np.zeros(2, dtype=np.intp), np.array([0, 8_000_000]))
