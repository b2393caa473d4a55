"""Noises: each states its density, the losses of a shift, its width, and how it is drawn (M9–M13)."""

from collections.abc import Mapping
from typing import Final, Literal

from pufferflow.noise.cauchy import GeneralizedCauchy
from pufferflow.noise.covariance import least_covariance
from pufferflow.noise.drawing import STEPS_PER_SCALE, Bits, Noisy, bit_source, grid_of
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.joint import JointGaussian, best_rho
from pufferflow.noise.laplace import Laplace
from pufferflow.noise.noise import Family, Noise
from pufferflow.noise.staircase import Staircase, StaircaseFamily

NoiseName = Literal["laplace", "gaussian", "cauchy", "staircase", "joint"]
NOISES: Final[Mapping[str, Family | type[JointGaussian]]] = {
    "laplace": Laplace,
    "gaussian": Gaussian,
    "cauchy": GeneralizedCauchy,
    "staircase": Staircase.of(),
    "joint": JointGaussian,
}
"""Families by the names that they have in `noise=` and in job files; joint noise is for batches alone."""

__all__ = [
    "NOISES",
    "STEPS_PER_SCALE",
    "Bits",
    "Family",
    "Gaussian",
    "GeneralizedCauchy",
    "JointGaussian",
    "Laplace",
    "Noise",
    "NoiseName",
    "Noisy",
    "Staircase",
    "StaircaseFamily",
    "best_rho",
    "bit_source",
    "grid_of",
    "least_covariance",
]
