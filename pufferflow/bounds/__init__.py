"""Bounds on the loss of a noisy answer, from the laws of the answer under each secret (M3–M7, M19, M20)."""

from collections.abc import Mapping
from typing import Final, Literal

from pufferflow.bounds.bound import BallPart, Bound, Part, Worst
from pufferflow.bounds.dagwm import DAGWM
from pufferflow.bounds.exact import Exact
from pufferflow.bounds.gawm import GAWM
from pufferflow.bounds.group import Group
from pufferflow.bounds.gwm import GWM
from pufferflow.bounds.kantorovich import Kantorovich
from pufferflow.bounds.laws import Laws, Listed, Reach, Work, read_laws
from pufferflow.bounds.messages import Messages
from pufferflow.bounds.pairs import Pair, Place, Witness
from pufferflow.bounds.quilt import Quilt
from pufferflow.bounds.walk import ChainWalk, Walk

BoundName = Literal["messages", "gwm", "dagwm", "kantorovich", "quilt", "exact", "group"]
BOUNDS: Final[Mapping[str, Bound]] = {
    "messages": Messages(),
    "gwm": GWM(),
    "dagwm": DAGWM(),
    "kantorovich": Kantorovich(),
    "quilt": Quilt(),
    "exact": Exact(),
    "group": Group(),
}
"""Bounds that need no number, by the names that they have in `bound=`."""

__all__ = [
    "BOUNDS",
    "DAGWM",
    "GAWM",
    "GWM",
    "BallPart",
    "Bound",
    "BoundName",
    "ChainWalk",
    "Exact",
    "Group",
    "Kantorovich",
    "Laws",
    "Listed",
    "Messages",
    "Pair",
    "Part",
    "Place",
    "Quilt",
    "Reach",
    "Walk",
    "Witness",
    "Work",
    "Worst",
    "read_laws",
]
