"""The priors of an adversary; one family per file, the smallest ones together."""

from pufferflow.scenario.priors.across import (
    check_rows,
    hidden_column,
    joint_shares,
    shares_of_column,
    widths_in_deviations,
)
from pufferflow.scenario.priors.correlations import AR1, Exchangeable, spanned
from pufferflow.scenario.priors.covariance import Covariance, Matrix
from pufferflow.scenario.priors.empirical import Empirical
from pufferflow.scenario.priors.gaussian import GaussianPrior
from pufferflow.scenario.priors.gaussian_mixture import GaussianMixture
from pufferflow.scenario.priors.kernel import Kernel
from pufferflow.scenario.priors.kernels import read_initial, read_kernels
from pufferflow.scenario.priors.latent_class import LatentClass, LatentClassesNear
from pufferflow.scenario.priors.markov import ChainPrior, ChainsBetween, MarkovChain
from pufferflow.scenario.priors.memory import forgotten_after, longest_memory, measure_of_memory, memory_after
from pufferflow.scenario.priors.prior import Prior, belief_in_words, wrong_secret
from pufferflow.scenario.priors.simple import AnyCorrelation, Diffusion, Independent, WeaklyDependent
from pufferflow.scenario.priors.simulator import Simulator
from pufferflow.scenario.priors.table import PROBABILITY, Table, TablesNear, Values

__all__ = [
    "AR1",
    "PROBABILITY",
    "AnyCorrelation",
    "ChainPrior",
    "ChainsBetween",
    "Covariance",
    "Diffusion",
    "Empirical",
    "Exchangeable",
    "GaussianMixture",
    "GaussianPrior",
    "Independent",
    "Kernel",
    "LatentClass",
    "LatentClassesNear",
    "MarkovChain",
    "Matrix",
    "Prior",
    "Simulator",
    "Table",
    "TablesNear",
    "Values",
    "WeaklyDependent",
    "belief_in_words",
    "check_rows",
    "forgotten_after",
    "hidden_column",
    "joint_shares",
    "longest_memory",
    "measure_of_memory",
    "memory_after",
    "read_initial",
    "read_kernels",
    "shares_of_column",
    "spanned",
    "widths_in_deviations",
    "wrong_secret",
]
