"""φ on a finite domain: one number for each of its points."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self, final

from pufferflow.expressions.names import short
from pufferflow.expressions.values import TABLE_LIMIT, Values, grid
from pufferflow.expressions.words import LONGEST, number
from pufferflow.secrets import Domain


@final
@dataclass(frozen=True)
class Tabled(Values):
    """φ(domain.points[i]) is steps[i] · unit; |steps[i]| ≤ 2^40."""

    steps: tuple[int, ...]

    @classmethod
    def of(  # noqa: PLR0913 - the fields themselves
        cls,
        column: str,
        domain: Domain,
        values: Sequence[Fraction],
        words: str,
        *,
        boolean: bool = False,
        name: str | None = None,
    ) -> Self:
        """Return φ with the given values: exactly if they are short binary fractions, else to the nearest step.

        >>> from pufferflow.secrets.domain import read_domain
        >>> Tabled.of("x", read_domain([1, 2]), [Fraction(1, 2), Fraction(3)], "…").steps
        (1, 6)
        """
        unit = grid(values, TABLE_LIMIT)
        steps = tuple(round(value / unit) for value in values)
        return cls(column, domain, words, boolean, unit, min(steps), max(steps), name, steps)

    @property
    def graph(self) -> Hashable:
        """φ itself: where it is 1 everywhere, None."""
        if self.unit == self.low == self.high == 1:
            return None
        return self.column, self.domain, self.unit, self.steps

    def squared(self, center: Fraction) -> "Tabled":
        """Return (φ − center)² of φ as it stands on its grid."""
        values = [(self.unit * step - center) ** 2 for step in self.steps]
        return Tabled.of(self.column, self.domain, values, squared_words(self.words, center))


def squared_words(words: str, center: Fraction) -> str:
    """Return how (φ − center)² is written."""
    return short(f"({short(words, 40)}{f' - {number(center)}' if center else ''})²", LONGEST)
