"""What an adversary may believe; one family of priors per file."""

from pufferflow.priors.any_correlation import AnyCorrelation
from pufferflow.priors.chains_between import ChainsBetween
from pufferflow.priors.independent import Independent
from pufferflow.priors.markov import MarkovChain
from pufferflow.priors.prior import Prior, Provenance
from pufferflow.priors.restored import restored_prior

__all__ = ["AnyCorrelation", "ChainsBetween", "Independent", "MarkovChain", "Prior", "Provenance", "restored_prior"]
