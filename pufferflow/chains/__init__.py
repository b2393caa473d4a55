"""Privacy losses of one row of a Markov chain, or of a class of chains, from outputs and sums along it (M18–M20)."""

from pufferflow.chains.alternatives import AnyOf, leak_of_any
from pufferflow.chains.bands import Chains
from pufferflow.chains.chain import Chain, stationary
from pufferflow.chains.differing_rows import DifferingRows
from pufferflow.chains.exposures import Window, exposures_of
from pufferflow.chains.farthest import farthest, listed, most_points, pair_of, three_terms
from pufferflow.chains.law_regions import LawRegions, region_log_ratio, region_log_ratio_of_few
from pufferflow.chains.leak import Exposures, Secrets, continued_leak, endless_leak, leak
from pufferflow.chains.nearest import nearest
from pufferflow.chains.periods import LONG, tile
from pufferflow.chains.quilts import Quilts, approximate_quilts, exact_quilts
from pufferflow.chains.row_bridge import RowBridge
from pufferflow.chains.row_mechanisms import leak_of_order, leak_with_delta
from pufferflow.chains.star import Rates, Touches, class_leak, others_class_leak, padded_log_ratio, total_class_leak
from pufferflow.chains.sums import Farthest, Sums, lattice

__all__ = [
    "LONG",
    "AnyOf",
    "Chain",
    "Chains",
    "DifferingRows",
    "Exposures",
    "Farthest",
    "LawRegions",
    "Quilts",
    "Rates",
    "RowBridge",
    "Secrets",
    "Sums",
    "Touches",
    "Window",
    "approximate_quilts",
    "class_leak",
    "continued_leak",
    "endless_leak",
    "exact_quilts",
    "exposures_of",
    "farthest",
    "lattice",
    "leak",
    "leak_of_any",
    "leak_of_order",
    "leak_with_delta",
    "listed",
    "most_points",
    "nearest",
    "others_class_leak",
    "padded_log_ratio",
    "pair_of",
    "region_log_ratio",
    "region_log_ratio_of_few",
    "stationary",
    "three_terms",
    "tile",
    "total_class_leak",
]
