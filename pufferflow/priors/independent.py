"""Rows that tell nothing of each other."""

from dataclasses import dataclass
from typing import Any, final

from pufferflow.priors.prior import Prior
from pufferflow.suggestions import explained


@final
@explained
@dataclass(frozen=True)
class Independent(Prior):
    """Every row is independent of all others: the assumption that differential privacy is usually read with.

    >>> Independent().describe()
    'rows are independent of each other'
    """

    @property
    def alone(self) -> bool:
        """Rows tell nothing of each other."""
        return True

    def describe(self) -> str:
        """Say in words what an adversary may believe."""
        return "rows are independent of each other"

    def stored(self) -> dict[str, Any]:
        """Return the kind: there is no more to say."""
        return {"kind": "independent"}
