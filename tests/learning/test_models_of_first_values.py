"""Models whose rows begin after the first value that is hidden: its neighbouring values are not neighbours there."""

import itertools

import numpy as np
import polars as pl
import pytest

import pufferflow as pf

CROSSED = np.array([[1, 0, 0], [0, 0, 1], [0, 1, 0]]) * 0.998 + 0.002 / 3
STICKY = np.array([[0.98, 0.01, 0.01], [0.3, 0.4, 0.3], [0.01, 0.01, 0.98]])


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_first_values_that_are_neighbours_stay_hidden_where_rows_begin_a_step_later(epsilon):
    # 0 and 1 lead to 0 and 2, which lose more than neighbours do: the loss in the tails of Laplace noise is exact
    hours, kernels = 5, [CROSSED, *[STICKY] * 7]
    secret = pf.Initial("on", domain=[0, 1, 2], pairs="adjacent")
    prior = pf.MarkovChain([kernel.tolist() for kernel in kernels], initial=[1 / 3] * 3)
    scenario = pf.Scenario(secret, prior, order_by="hour", within="home", public=["x"], start=0)
    frame = pl.DataFrame({"home": 0, "hour": np.arange(1, hours + 1), "on": 0, "x": 1.0})
    ridge = pf.learning.PrivateRidge(
        scenario, pf.Pure(epsilon), features=["x"], bounds={"x": (-1, 1)}, solver="sums"
    )
    scale = ridge.plan(frame, y="on").mechanism.fitting.calibrated.scale
    states = np.array(list(itertools.product(range(3), repeat=hours + 1)))
    masses = np.prod([kernels[at][states[:, at], states[:, at + 1]] for at in range(hours)], axis=0)
    both_sums = 2 * (states[:, 1:] - 1).sum(axis=1) / scale  # Σ y and Σ x·y are equal: x is 1
    weighed = [masses * np.exp(sign * both_sums) for sign in (1, -1)]
    tails = np.array(
        [[of_sign[states[:, 0] == first].sum() for first in range(3)] for of_sign in weighed]
    )
    assert np.abs(np.diff(np.log(tails), axis=1)).max() <= epsilon
