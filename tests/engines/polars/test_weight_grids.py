"""The grid of public weights refuses what is larger than it was planned for, in either direction."""

from fractions import Fraction

import numpy as np
import pytest

import pufferflow as pf
from pufferflow.engines.weighted_rows import WeightGrid


@pytest.mark.parametrize("weight", [3.5, -3.5, float("nan"), float("inf"), -float("inf")])
def test_weights_beyond_the_grid_are_refused(weight):
    grid = WeightGrid(Fraction(1, 2), 6)
    assert grid.steps(np.array([3.0, -3.0, 0.5])).tolist() == [6, -6, 1]
    with pytest.raises(pf.SourceError, match="other weights than when the plan was made"):
        grid.steps(np.array([1.0, weight]))
