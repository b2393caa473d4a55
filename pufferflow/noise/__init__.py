"""Noises: each states its density, the losses of a shift, its width, and how it is drawn (M9–M13)."""

from pufferflow.noise.cauchy import GeneralizedCauchy
from pufferflow.noise.drawing import Noisy
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.noise.noise import Family, Floats, Noise
from pufferflow.noise.staircase import Staircase

__all__ = ["Family", "Floats", "Gaussian", "GeneralizedCauchy", "Laplace", "Noise", "Noisy", "Staircase"]
