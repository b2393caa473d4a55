"""What is beyond floats tells everything: a growth of delta is never lost, and no guarantee is kept without noise."""

import numpy as np
import pytest

import pufferflow as pf
from pufferflow.calibration.chain_bounds import ChainedRows, RowBridge
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.row_mechanisms import leak_of_rows
from pufferflow.distributions.markov.state_loss import Secrets

BOTH_WAYS = Secrets(np.array([[0, 1], [1, 0]]))


@pytest.mark.parametrize("rows", [2, 3, 4])
@pytest.mark.parametrize("epsilon", [300.0, 400.0, 600.0])
def test_two_rows_that_are_alike_let_delta_grow_however_large_epsilon_is(rows, epsilon):
    # e^(s1 + s2) leaves the floats, and inf * 0 is no number: the growth of δ is at least that of the row itself
    chain = Chain(np.eye(2)[None], np.zeros(rows - 1, dtype=np.intp), np.array([[0.5, 0.5]]))
    assert leak_of_rows(chain, epsilon, BOTH_WAYS).growth >= 1


@pytest.mark.parametrize("epsilon", [700.0, 800.0, 1500.0])
def test_the_largest_shift_under_a_huge_epsilon_is_no_larger_than_its_own_loss_allows(epsilon):
    # rows that are alike move together: twice the shift has to keep the guarantee
    chain = Chain(np.eye(2)[None], np.zeros(1, dtype=np.intp), np.array([[0.5, 0.5]]))
    rows = ChainedRows(chain, BOTH_WAYS)
    assert RowBridge(chain, BOTH_WAYS).deviations(epsilon, 1e-6) < 1e3
    moved, _ = rows.deviations(pf.Approx(epsilon, 1e-6))
    assert pf.Gdp(2 * moved).to_approx(1e-6).epsilon <= epsilon * (1 + 1e-6)
