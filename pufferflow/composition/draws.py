"""A private row as one draw from a table: what releases read of it, and its laws under each value of the secret (M22).

Rows are independent draws, so the one that holds the secret is all that matters (M2); releases that touch another row
only tell no more than if they touched this one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
import numpy.typing as npt

from pufferflow.composition.cost import Cost, Floats, Shape
from pufferflow.composition.rule import Asked
from pufferflow.errors import Misuse
from pufferflow.inference.implied import asked as asked_about
from pufferflow.priors import Empirical, Prior, Table
from pufferflow.priors.probabilities import Array
from pufferflow.priors.table import PROBABILITY, Values
from pufferflow.queries import Statistic
from pufferflow.rounding import UNIT
from pufferflow.secrets import AnySecret, Derived, Domain, Secret

Whole = npt.NDArray[np.intp]


@final
@dataclass(frozen=True, eq=False)
class Reading:
    """A shape of releases, how many releases have it, and the column that they read."""

    shape: Shape
    times: int
    column: str
    domain: Domain

    @property
    def known(self) -> bool:
        """Whether it is known what a row adds at each point of the domain."""
        values = self.shape.values
        return bool(values) and all(len(row) == len(self.domain.points) for row in values)


@final
@dataclass(frozen=True, eq=False)
class Draws:
    """A table with rational probabilities, the column that is hidden, and what is read; `exact` if it was rational."""

    table: Table
    hidden: str
    pairs: Whole
    values: Values
    readings: Sequence[Reading]
    exact: bool

    @classmethod
    def of(cls, asked: Asked) -> "Draws | None":
        """Return what releases read of a row; None if rows are no single draws, or it is not known what they add."""
        prior, secret = asked.prior, asked.scenario.secret
        table = prior.table if isinstance(prior, Empirical) else prior
        if not isinstance(table, Table) or not table.alone or not isinstance(secret, Secret | Derived):
            return None
        readings = _readings(prior, secret, asked.costs)
        if readings is None or not all(one.known for one in readings):
            return None
        hidden = secret.column if isinstance(secret, Secret) else secret.name
        values = table.values(hidden)
        listed = secret.value_pairs() if isinstance(secret, Secret) else secret.value_pairs(values)
        both = np.array([[values.index(a), values.index(b)] for a, b in listed], dtype=np.intp)
        rational = all(isinstance(one, Fraction) for one in table.probabilities)
        pairs = np.concatenate([both, both[:, ::-1]])
        return cls(table if rational else _rational(table), hidden, pairs, values, readings, rational)

    @property
    def columns(self) -> list[str]:
        """The columns read, each once."""
        return list(dict.fromkeys(one.column for one in self.readings))

    def about(self, columns: Sequence[str]) -> "Draws":
        """Return what is read of some columns only."""
        some = [one for one in self.readings if one.column in columns]
        return Draws(self.table, self.hidden, self.pairs, self.values, some, self.exact)

    def laws(self, *columns: Sequence[str]) -> tuple[list[list[Values]], Array]:
        """Return the values of groups of columns, and their joint law given each value of the secret; rational."""
        (_, *points), joint = self.table.joint([self.hidden], *columns)
        flat = joint.reshape(len(joint), -1)
        return points, (flat / flat.sum(axis=1, keepdims=True)).reshape(joint.shape)

    def places(self, reading: Reading, points: Sequence[Values]) -> Whole:
        """Return which point of its domain a reading finds at points of all columns."""
        at = self.columns.index(reading.column)
        place = {value: reading.domain.place(value, "a value") for value in dict.fromkeys(one[at] for one in points)}
        return np.array([place[one[at]] for one in points], dtype=np.intp)

    def heights(self, reading: Reading, points: Sequence[Values]) -> Floats:
        """Return what a row adds to each sum of a reading at points of all columns: of shape (sums, points)."""
        return reading.shape.table[:, self.places(reading, points)]

    def limits(self, points: Sequence[Values]) -> Floats:
        """Return how much more likely all outputs can be at one point than at another: logs, rounded up."""
        total = np.zeros((len(points), len(points)))
        for one in self.readings:
            places = self.places(one, points)
            total += one.times * one.shape.exposure[np.ix_(places, places)]
        exactly = len(self.readings) == 1 and self.readings[0].times == 1
        return total if exactly else total * (1 + (len(self.readings) + 1) * UNIT)


def _readings(prior: Prior, secret: AnySecret, costs: Sequence[Cost]) -> list[Reading] | None:
    """Return what is read, equal shapes once; None if a column is not known."""
    shapes = {cost.shape.digest: cost.shape for cost in costs}
    times = Counter(cost.shape.digest for cost in costs)
    found: list[Reading] = []
    for digest, shape in shapes.items():
        column = shape.column
        if column is None and isinstance(prior, Empirical):
            column = prior.released
        try:
            found.append(Reading(shape, times[digest], *asked_about(prior, Statistic.total(1, column=column), secret)))
        except Misuse:  # a column that the prior does not speak of, or several that may be meant
            return None
    return found


def _rational(table: Table) -> Table:
    """Return the table with rational probabilities, so that nothing is rounded before losses are."""
    masses = [Fraction(one) for one in table.probabilities]
    return Table({**dict(zip(table.names, table.cells, strict=True)), PROBABILITY: masses})
