"""Noises and channels: densities, losses of a shift, widths, and exact samplers (M9–M13)."""

from pufferflow.noise import cauchy as cauchy
from pufferflow.noise import gaussian as gaussian
from pufferflow.noise import joint_gaussian as joint_gaussian
from pufferflow.noise import laplace as laplace
from pufferflow.noise import staircase as staircase
