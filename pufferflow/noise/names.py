"""The names of noises in `noise=`, in job files and on the command line."""

from collections.abc import Mapping
from typing import Final, Literal

from pufferflow.noise.base import Family
from pufferflow.noise.cauchy import GeneralizedCauchy
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.joint_gaussian import JointGaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.noise.staircase import Staircase

NoiseName = Literal["laplace", "gaussian", "cauchy", "staircase", "joint"]
NOISES: Final[Mapping[str, Family | type[JointGaussian]]] = {
    "laplace": Laplace,
    "gaussian": Gaussian,
    "cauchy": GeneralizedCauchy,
    "staircase": Staircase.of(),
    "joint": JointGaussian,
}
"""Families by their names; joint noise is for batches alone."""
