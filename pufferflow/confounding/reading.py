"""The data that releases read of a row: names of columns, labels, and tables given their secret."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, cast, final

import numpy as np

from pufferflow.core.arrays import Array
from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import did_you_mean
from pufferflow.core.validate import decimal_reading, quoted
from pufferflow.models.domain import Label
from pufferflow.models.priors.empirical import table_of_rows
from pufferflow.models.priors.table import Table, Values
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Derived, Secret, hidden_column

_TABLES = 'pf.Table({"ill": ["no", "no", "yes"], "score": [0, 1, 1], "probability": [0.5, 0.25, 0.25]})'


@final
@dataclass(frozen=True, eq=False)
class ProjectedTable:
    """Tables given a secret: the law of the values of some columns, given each value of the secret.

    There is an array of `masses` for every table, of shape (values of the secret, points): whole numbers, in units of
    one `total` for all. Several tables have the points of all of them.
    """

    secret: str
    values: tuple[Label, ...]
    pairs: tuple[tuple[int, int], ...]
    """Both orders of the pairs of values that must be indistinguishable, by their places."""
    columns: tuple[str, ...]
    points: tuple[Values, ...]
    masses: tuple[Array, ...]

    @cached_property
    def laws(self) -> tuple[tuple[Array, int], ...]:
        """For every table the laws of the points given the secret, in whole numbers of one unit, and its total."""
        return tuple(_conditional(joint) for joint in self.masses)

    @cached_property
    def chances(self) -> tuple[list[Fraction], ...]:
        """For every table the probabilities of the values of the secret."""
        return tuple([Fraction(sum(row), joint.sum()) for row in joint.tolist()] for joint in self.masses)

    def place(self, columns: Sequence[str], point: Values) -> Values:
        """Return the values of some of the columns at a point."""
        return tuple(point[self.columns.index(name)] for name in columns)


def _conditional(joint: Array) -> tuple[Array, int]:
    sums = joint.sum(axis=1)
    total = math.lcm(*sums.tolist())
    return joint * np.array([total // one for one in sums.tolist()], dtype=object)[:, None], total


def see(table: Any, secret: Any, columns: Sequence[str]) -> ProjectedTable:
    """Return tables given a secret; for a scenario, its priors and its secret."""
    tables, secret = _tables(table, secret)
    hidden = _hidden(tables[0], secret, columns)
    for one in tables:
        for name in (*columns, hidden):
            if name not in one.names:
                raise UsageError(
                    f"The table has no column {name!r}.{did_you_mean(name, one.names)}",
                    allowed=f"one of {list(one.names)[:6]}",
                    instead="the name of a column of the table",
                )
    values = tuple(dict.fromkeys(sorted(value for one in tables for value in one.values(hidden))))
    pairs = _pairs(tables, hidden, secret, values)
    listed = [_joint(one, hidden, columns) for one in tables]
    points = tuple(sorted({point for joint in listed for _, point in joint}))
    places = {point: at for at, point in enumerate(points)}
    masses: list[Array] = []
    for joint in listed:
        unit = math.lcm(*(mass.denominator for mass in joint.values()))
        whole = np.zeros((len(values), len(points)), dtype=object)
        for (value, point), mass in joint.items():
            whole[values.index(value), places[point]] = mass.numerator * (unit // mass.denominator)
        masses.append(whole)
    return ProjectedTable(hidden, values, pairs, tuple(columns), points, tuple(masses))


def named_secret(table: Any, secret: Any) -> str | None:
    """Return the column of the secret that is named, itself or by a scenario; None if none is."""
    about = table.secret if secret is None and isinstance(table, Scenario) else secret
    if isinstance(about, Secret):
        return about.column
    return about.name if isinstance(about, Derived) else cast(str | None, about)


def tables_of(table: Any) -> list[Table]:
    """Return the tables of a prior: a table, several, or those of a scenario."""
    return _tables(table, None)[0]


def _tables(table: Any, secret: Any) -> tuple[list[Table], Any]:
    if isinstance(table, Scenario):
        priors, secret = table.priors, table.secret if secret is None else secret
    else:
        priors = cast(Sequence[Any], table) if isinstance(table, list | tuple) else (table,)
    tables = [table for table in map(table_of_rows, priors) if table is not None]
    if not tables or len(tables) < len(priors):
        raise UsageError(
            f"The table is {quoted(cast(object, table))}.",
            allowed="a pf.Table without shared columns, a list of them, or a scenario whose priors are such tables",
            instead=_TABLES,
        )
    return tables, secret


def _hidden(table: Table, secret: Any, columns: Sequence[str]) -> str:
    """Return the column of the secret: the one that is named, or the only one that nothing reads."""
    if isinstance(secret, Secret | Derived):
        return hidden_column(secret, table.values)[0] if isinstance(secret, Secret) else secret.name
    if isinstance(secret, str):
        return secret
    unread = [name for name in table.names if name not in columns]
    if secret is not None or len(unread) != 1:
        given = f"secret is {quoted(secret)}" if secret is not None else f"Nothing reads {unread}"
        raise UsageError(
            f"{given}: it is not clear which column is the secret.",
            allowed="the name of a column, pf.Secret or pf.Derived; left out, the only column that nothing reads",
            instead=f"secret={table.names[0]!r}",
        )
    return unread[0]


def _pairs(tables: Sequence[Table], hidden: str, secret: Any, values: tuple[Label, ...]) -> tuple[tuple[int, int], ...]:
    """Return both orders of the pairs; refuse values of the secret that some table never produces."""
    if len(values) < 2:
        raise UsageError(
            f"The secret {hidden!r} has a single value, so there is nothing to hide.",
            allowed="two values of the secret or more",
            instead=_TABLES,
        )
    about = secret if isinstance(secret, Secret | Derived) else Derived(hidden)
    _, listed = hidden_column(about, lambda _: values)
    for one, other in listed:
        for table in tables:
            known = table.values(hidden)
            missing = [value for value in (one, other) if value not in known]
            if missing:
                raise UsageError(
                    f"A table never produces {hidden} = {missing[0]!r}: nothing can be said about it.",
                    allowed=f"values with a probability above 0: {list(known)[:6]}",
                    instead="pairs of the values that occur, or a table with all of them",
                )
    both = [(values.index(one), values.index(other)) for one, other in listed]
    return tuple(pair for one, other in both for pair in ((one, other), (other, one)))


def _joint(table: Table, hidden: str, columns: Sequence[str]) -> dict[tuple[Label, Values], Fraction]:
    """Return the joint law of the secret and some columns; floats are the decimals they are written as."""
    own = table.cells[table.names.index(hidden)]
    read = [table.cells[table.names.index(name)] for name in columns]
    points: list[Values] = list(zip(*read, strict=True)) if columns else [()] * len(own)
    joint: dict[tuple[Label, Values], Fraction] = {}
    for value, point, mass in zip(own, points, table.probabilities, strict=True):
        if mass > 0:
            joint[value, point] = joint.get((value, point), Fraction(0)) + decimal_reading(mass)
    return joint
