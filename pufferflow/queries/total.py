"""The sum of a column's values, or of a function of them, over the rows of a cell."""

from dataclasses import dataclass
from typing import final

from pufferflow.expressions import Values
from pufferflow.queries.query import Floats, Query, Size


@final
@dataclass(frozen=True)
class Sum(Query):
    """Σ φ(x)."""

    @classmethod
    def of(cls, name: str, values: Values) -> "Sum":
        """Return the query for one function."""
        return cls(name, (values,), f"the sum of {values.words}")

    def finish(self, sums: Floats, size: Size) -> Floats:
        """Return the noisy sum itself."""
        del size
        return sums
