"""The exact flow: whole numbers of any size, against augmenting paths in Fractions."""

from fractions import Fraction

import brute
import numpy as np
import pytest
from thinned import thinned

from pufferflow.distributions.wasserstein_nd import Pairs, greatest_flow


@pytest.mark.parametrize("bits", thinned([3, 20, 31, 64, 200, 1100], 0.33))
def test_flow_equals_augmenting_paths(bits):
    """The greatest flow is exact from 3 bits to 1100, far past what SciPy counts in."""
    rng = np.random.default_rng(bits)
    for _ in range(25):
        n, m = rng.integers(1, 7, 2)
        allowed = rng.random((n, m)) < rng.choice([0.2, 0.5, 0.9])
        supplies, demands = ([draw(rng, bits) for _ in range(size)] for size in (n, m))
        flow = greatest_flow(Pairs.where(allowed), array(supplies), array(demands))
        total = sum(supplies) + sum(demands) + 1
        mu = {i: Fraction(x, total) for i, x in enumerate(supplies)}
        nu = {j: Fraction(x, total) for j, x in enumerate(demands)}
        assert (
            flow.value == brute.matched(mu, nu, set(zip(*np.nonzero(allowed), strict=True))) * total
        )
        check(flow, allowed, supplies, demands)


def draw(rng, bits):
    """A whole number of up to so many bits, of any size below."""
    return int.from_bytes(rng.bytes(bits // 8 + 1)) >> int(rng.integers(1, bits + 9))


def array(numbers):
    return np.array(numbers, dtype=object)


def check(flow, allowed, supplies, demands):
    """What flows is positive, allowed, within supplies and demands, and adds up."""
    assert all(amount > 0 for amount in flow.amounts)
    assert allowed[flow.rows, flow.columns].all()
    for side, limits in ((flow.rows, supplies), (flow.columns, demands)):
        for at, limit in enumerate(limits):
            assert sum(flow.amounts[side == at]) <= limit
    assert sum(flow.amounts) == flow.value


def test_nothing_flows_where_nothing_is_allowed():
    """No pairs, no flow; empty supplies, no flow."""
    none = greatest_flow(Pairs.where(np.zeros((2, 2), dtype=bool)), array([1, 2]), array([2, 1]))
    assert none.value == 0
    assert (
        greatest_flow(Pairs.where(np.ones((2, 2), dtype=bool)), array([0, 0]), array([2, 1])).value
        == 0
    )
