"""The joint cost of releases about a secret behind the data, and the best next release (M31, M32).

A `pf.Table` gives the joint law of a secret, confounders and data. `cost` computes the loss of several releases about
the secret on the joint law. Neither adding losses nor multiplying laws is right there. `design` finds the channel with
the least expected loss among all that keep a guarantee together with the past releases. (DCP, corrected.)

>>> import pufferflow as pf
>>> bits = {"secret": [0, 0, 1, 1], "first": [0, 1, 0, 1], "second": [0, 1, 1, 0], "probability": [0.25] * 4}
>>> first = pf.confounding.Channel.revealing("first", [0, 1])
>>> second = pf.confounding.design(pf.Table(bits), [first], pf.Pure(0.5), "zero-one", secret="secret", query="second")
>>> round(second.expected_loss, 4), pf.confounding.cost(pf.Table(bits), [first, second.channel]).keeps(pf.Pure(0.5))
(0.3775, True)
"""

from pufferflow.confounding.additive import Additive
from pufferflow.confounding.copula import gaussian_copula, tied_channels
from pufferflow.confounding.cost import Cost, Losses, copula_cost, cost
from pufferflow.confounding.dependence import Dependence, Parts
from pufferflow.confounding.design import (
    Design,
    Loss,
    best_channel,
    check_probabilities,
    design,
    named_loss,
)
from pufferflow.confounding.joint_law import ProjectedTable, check_size, see
from pufferflow.confounding.known import KnownCost, cost_if_known
from pufferflow.confounding.latent import CopulaBySecret
from pufferflow.confounding.law_pairs import ExactPair, likelihood_below
from pufferflow.confounding.posterior import (
    Belief,
    Posterior,
    beliefs_after,
    epsilon_of_ratio,
    posterior_ratio,
)
from pufferflow.confounding.target import PastOutcomes, Target, bin_edges
from pufferflow.confounding.tied import CopulaNoise
from pufferflow.noise.channel import Channel, Drawn

__all__ = [
    "Additive",
    "Belief",
    "Channel",
    "CopulaBySecret",
    "CopulaNoise",
    "Cost",
    "Dependence",
    "Design",
    "Drawn",
    "ExactPair",
    "KnownCost",
    "Loss",
    "Losses",
    "Parts",
    "PastOutcomes",
    "Posterior",
    "ProjectedTable",
    "Target",
    "beliefs_after",
    "best_channel",
    "bin_edges",
    "check_probabilities",
    "check_size",
    "copula_cost",
    "cost",
    "cost_if_known",
    "design",
    "epsilon_of_ratio",
    "gaussian_copula",
    "likelihood_below",
    "named_loss",
    "posterior_ratio",
    "see",
    "tied_channels",
]
