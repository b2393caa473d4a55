"""Rows that may depend on each other in every way (M7)."""

from dataclasses import dataclass
from typing import Any, final

from pufferflow.priors.prior import Prior
from pufferflow.suggestions import explained


@final
@explained
@dataclass(frozen=True)
class AnyCorrelation(Prior):
    """Nothing is assumed: the rows of a group may determine each other, and all of them may change with a secret.

    It costs the most noise, never fails, and its releases always add up.

    >>> AnyCorrelation().describe()
    'rows that belong together may depend on each other in every way'
    """

    def describe(self) -> str:
        """Say in words what an adversary may believe."""
        return "rows that belong together may depend on each other in every way"

    def stored(self) -> dict[str, Any]:
        """Return the kind: there is no more to say."""
        return {"kind": "any correlation"}
