"""What an adversary may believe; one family of priors per file."""

from pufferflow.priors.any_correlation import AnyCorrelation
from pufferflow.priors.chains_between import ChainsBetween
from pufferflow.priors.covariance import AR1, Exchangeable, Kernel
from pufferflow.priors.diffusion import Diffusion
from pufferflow.priors.empirical import Empirical
from pufferflow.priors.gaussian import GaussianPrior
from pufferflow.priors.independent import Independent
from pufferflow.priors.latent_class import LatentClass
from pufferflow.priors.markov import MarkovChain
from pufferflow.priors.prior import Prior, Provenance
from pufferflow.priors.reference import Reference
from pufferflow.priors.restored import restored_prior
from pufferflow.priors.simulator import Simulator
from pufferflow.priors.table import Table
from pufferflow.priors.weakly_dependent import WeaklyDependent

__all__ = [
    "AR1",
    "AnyCorrelation",
    "ChainsBetween",
    "Diffusion",
    "Empirical",
    "Exchangeable",
    "GaussianPrior",
    "Independent",
    "Kernel",
    "LatentClass",
    "MarkovChain",
    "Prior",
    "Provenance",
    "Reference",
    "Simulator",
    "Table",
    "WeaklyDependent",
    "restored_prior",
]
