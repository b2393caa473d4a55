"""Laws of sums along a Markov chain, given the state of one row: how far apart they are (M18). Numbers only."""

from pufferflow.sums.farthest import farthest
from pufferflow.sums.nearest import nearest
from pufferflow.sums.pairs import listed, pair_of
from pufferflow.sums.statistic import Farthest, Sums
from pufferflow.sums.three import three_terms

__all__ = ["Farthest", "Sums", "farthest", "listed", "nearest", "pair_of", "three_terms"]
