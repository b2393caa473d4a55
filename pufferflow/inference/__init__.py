"""The laws of an answer that secrets and priors imply; one method per file, each registers its priors."""

from pufferflow.inference import chain as chain
from pufferflow.inference import enumeration as enumeration
from pufferflow.inference import mixture as mixture
from pufferflow.inference import regions as regions
from pufferflow.inference import samples as samples
from pufferflow.inference import shift as shift
from pufferflow.inference.cells import PRESENCE
from pufferflow.inference.chain_rows import ChainRows, value_places
from pufferflow.inference.gaussian_mixture import renyi_of_classes
from pufferflow.inference.implied import column_and_domain, hidden_column, implied, laws
from pufferflow.inference.movement import ShortestMovement
from pufferflow.inference.pattern import of_pattern, window
from pufferflow.inference.shift import farthest, lengths_along
from pufferflow.inference.star import AnyStar, DependentStar

__all__ = [
    "PRESENCE",
    "AnyStar",
    "ChainRows",
    "DependentStar",
    "ShortestMovement",
    "column_and_domain",
    "farthest",
    "hidden_column",
    "implied",
    "laws",
    "lengths_along",
    "of_pattern",
    "renyi_of_classes",
    "value_places",
    "window",
]
