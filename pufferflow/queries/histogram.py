"""How many rows of a cell have each of the values of a domain, or fall in each of some classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from pufferflow.expressions import Values
from pufferflow.queries.query import Floats, Query, Size


@final
@dataclass(frozen=True)
class Histogram(Query):
    """Σ 1[x = v] for every value v, in a column each."""

    labels: tuple[str, ...]
    whole = True

    @classmethod
    def of(cls, name: str, bars: Sequence[tuple[str, Values]]) -> "Histogram":
        """Return the query for named properties that exclude each other."""
        words = f"the number of rows in each of {len(bars)} classes"
        return cls(name, tuple(values for _, values in bars), words, tuple(label for label, _ in bars))

    @property
    def outputs(self) -> tuple[str, ...]:
        """One column for each value."""
        return tuple(f"{self.name}_{label}" for label in self.labels)

    def finish(self, sums: Floats, size: Size) -> Floats:
        """Return the noisy counts themselves: some may be below 0, since clipping would bias totals."""
        del size
        return sums
