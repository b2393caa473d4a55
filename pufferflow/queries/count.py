"""How many rows of a cell have a property, or how many there are, where that is private."""

from dataclasses import dataclass
from typing import final

from pufferflow.expressions import Values
from pufferflow.queries.query import Floats, Query, Size


@final
@dataclass(frozen=True)
class Count(Query):
    """Σ 1[x has the property]; without one, the number of rows."""

    whole = True

    @classmethod
    def of(cls, name: str, predicate: Values | None) -> "Count":
        """Return the query for one property."""
        words = "the number of rows" if predicate is None else f"the number of rows with {predicate.words}"
        return cls(name, (predicate,), words)

    def finish(self, sums: Floats, size: Size) -> Floats:
        """Return the noisy count itself: it may be below 0, since clipping would bias totals."""
        del size
        return sums
