"""Bounds on the loss of a noisy answer, from the laws of the answer under each secret (M3–M7)."""

from pufferflow.bounds.bound import Bound, Part, Worst
from pufferflow.bounds.dagwm import DAGWM
from pufferflow.bounds.exact import Exact
from pufferflow.bounds.gawm import GAWM
from pufferflow.bounds.group import Group
from pufferflow.bounds.gwm import GWM
from pufferflow.bounds.kantorovich import Kantorovich
from pufferflow.bounds.pairs import Pair, read_pairs

__all__ = ["DAGWM", "GAWM", "GWM", "Bound", "Exact", "Group", "Kantorovich", "Pair", "Part", "Worst", "read_pairs"]
