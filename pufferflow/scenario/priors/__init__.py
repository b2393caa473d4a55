"""What an adversary may believe; one family of priors per file, the smallest ones together."""

from collections.abc import Callable
from typing import Any

from pufferflow.errors import Misuse
from pufferflow.scenario.priors.chains_between import ChainsBetween
from pufferflow.scenario.priors.correlations import AR1, Exchangeable
from pufferflow.scenario.priors.covariance import Covariance, Matrix, spanned
from pufferflow.scenario.priors.empirical import Empirical
from pufferflow.scenario.priors.gaussian import GaussianPrior
from pufferflow.scenario.priors.kernel import Kernel
from pufferflow.scenario.priors.kernels import read_initial, read_kernels
from pufferflow.scenario.priors.latent_class import LatentClass
from pufferflow.scenario.priors.markov import MarkovChain
from pufferflow.scenario.priors.memory import forgotten_after, longest_memory, measure_of_memory, memory_after
from pufferflow.scenario.priors.prior import Prior, belief_in_words, wrong_secret
from pufferflow.scenario.priors.simple import AnyCorrelation, Diffusion, Independent, WeaklyDependent
from pufferflow.scenario.priors.simulator import Simulator
from pufferflow.scenario.priors.table import PROBABILITY, Table, Values

__all__ = [
    "AR1",
    "PROBABILITY",
    "AnyCorrelation",
    "ChainsBetween",
    "Covariance",
    "Diffusion",
    "Empirical",
    "Exchangeable",
    "GaussianPrior",
    "Independent",
    "Kernel",
    "LatentClass",
    "MarkovChain",
    "Matrix",
    "Prior",
    "Simulator",
    "Table",
    "Values",
    "WeaklyDependent",
    "belief_in_words",
    "forgotten_after",
    "longest_memory",
    "measure_of_memory",
    "memory_after",
    "read_initial",
    "read_kernels",
    "restored_prior",
    "spanned",
    "wrong_secret",
]

_KINDS: dict[str, Callable[[dict[str, Any]], Prior]] = {
    "independent": lambda _: Independent(),
    "any correlation": lambda _: AnyCorrelation(),
    "diffusion": Diffusion.restored,
    "empirical": Empirical.restored,
    "gaussian": GaussianPrior.restored,
    "latent class": LatentClass.restored,
    "markov chain": MarkovChain.restored,
    "markov chains": ChainsBetween.restored,
    "table": Table.restored,
    "weakly dependent": WeaklyDependent.restored,
}


def restored_prior(stored: dict[str, Any]) -> Prior:
    """Return the prior that `stored` tells of."""
    fields = dict(stored)
    kind = fields.pop("kind", None)
    if kind not in _KINDS:
        raise Misuse(
            f"The stored prior is of kind {kind!r}.",
            allowed=f"one of {sorted(_KINDS)}",
            instead="a newer pufferflow",
        )
    return _KINDS[kind](fields)
