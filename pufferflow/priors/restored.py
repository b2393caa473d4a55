"""From stored values back to priors."""

from collections.abc import Callable
from typing import Any

from pufferflow.errors import Misuse
from pufferflow.priors.any_correlation import AnyCorrelation
from pufferflow.priors.chains_between import ChainsBetween
from pufferflow.priors.diffusion import Diffusion
from pufferflow.priors.empirical import Empirical
from pufferflow.priors.gaussian import GaussianPrior
from pufferflow.priors.independent import Independent
from pufferflow.priors.latent_class import LatentClass
from pufferflow.priors.markov import MarkovChain
from pufferflow.priors.prior import Prior
from pufferflow.priors.table import Table
from pufferflow.priors.weakly_dependent import WeaklyDependent

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
