"""Attribute privacy: a released column given a secret one, counted in a named public reference (RPP, Table 1)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import polars as pl

from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import read_name, set_fields
from pufferflow.models.domain import Domain
from pufferflow.models.priors.base import DECLARED, Prior, stored_provenance
from pufferflow.models.priors.table import PROBABILITY, Table, Values, check_columns
from pufferflow.models.reference import Provenance, digest_of, read_reference
from pufferflow.models.secret import AnySecret
from pufferflow.models.stored import ADDED


@final
@suggests_arguments
@dataclass(frozen=True)
class Empirical(Prior, kind="empirical"):
    """Each row is drawn from a public reference: the secret is its column `secret`, the queried column is `released`.

    The laws are exact, through counts. Rows of the reference with a null (or NaN) in either column are left out.

    >>> from pufferflow.models.reference import Reference
    >>> pupils = Reference("pupils 2010", {"paid": ["no", "no", "yes", None], "grade": [8, 9, 9, 7]})
    >>> Empirical(pupils, secret="paid", released="grade").describe()
    "each row is drawn from the public reference 'pupils 2010': grade given paid, of 3 rows"
    """

    secret: str
    released: str
    pairs: tuple[Values, ...]
    counts: tuple[int, ...]
    provenance: Provenance = field(default=DECLARED, metadata=ADDED)
    independent_rows = True

    def __init__(self, reference: Any, *, secret: str, released: str) -> None:
        source = read_reference(reference)
        names = read_name(secret, "secret"), read_name(released, "released")
        if secret == released or PROBABILITY in names:
            raise UsageError(
                f"secret is {secret!r} and released is {released!r}.",
                allowed=f"two different columns, neither of them named {PROBABILITY!r}",
                instead="pf.Secret with pf.Independent(), where the queried column is the secret",
            )
        frame = source.read(names)
        used = _without_nulls(frame)
        counted = used.group_by(names).len(name=PROBABILITY).sort(names)
        *columns, counts = (column.to_list() for column in counted.get_columns())
        _check(counted, names, source.name)
        left_out = frame.height - used.height
        notes = (f"{left_out} rows without {names[0]} or {names[1]} were left out",) if left_out else ()
        self._set(names, columns, counts, Provenance(source.name, used.height, digest_of(frame), notes, source.origin))

    def _set(
        self, names: tuple[str, str], columns: Sequence[Any], counts: Sequence[int], provenance: Provenance
    ) -> None:
        set_fields(
            self,
            secret=names[0],
            released=names[1],
            pairs=tuple(zip(*columns, strict=True)),
            counts=tuple(counts),
            provenance=provenance,
        )

    @cached_property
    def table(self) -> Table:
        """The same as a table, with rational probabilities."""
        total = sum(self.counts)
        columns = dict(zip((self.secret, self.released), zip(*self.pairs, strict=True), strict=True))
        return Table({**columns, PROBABILITY: [Fraction(count, total) for count in self.counts]})

    @property
    def columns(self) -> dict[str, Domain]:
        return self.table.columns

    def check(self, secret: AnySecret) -> None:
        check_columns(self, secret, "Empirical")

    def describe(self) -> str:
        where = f"the public reference {self.provenance.reference!r}"
        return f"each row is drawn from {where}: {self.released} given {self.secret}, of {self.provenance.rows} rows"

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> "Empirical":
        columns = list(zip(*stored["pairs"], strict=True))
        prior = object.__new__(cls)  # the reference itself is not needed
        prior._set((stored["secret"], stored["released"]), columns, stored["counts"], stored_provenance(stored))
        return prior


def _without_nulls(frame: pl.DataFrame) -> pl.DataFrame:
    present = frame.drop_nulls()
    floats = [pl.col(name).is_not_nan() for name, kind in frame.schema.items() if kind.is_float()]
    return present.filter(*floats) if floats else present


def _check(counted: pl.DataFrame, names: tuple[str, str], reference: str) -> None:
    """Refuse columns whose values are no labels, and a secret with one value."""
    for name in names:
        kind = counted.schema[name]
        texts = isinstance(kind, pl.String | pl.Categorical | pl.Enum | pl.Boolean)
        if not (texts or kind.is_integer() or (kind.is_float() and counted[name].is_finite().all())):
            raise UsageError(
                f"The column {name!r} of {reference!r} is of type {kind}, or not finite.",
                allowed="whole or finite numbers, texts or booleans",
                instead=f"frame.with_columns(pl.col({name!r}).cast(pl.Float64))",
            )
    if counted[names[0]].n_unique() < 2:
        raise UsageError(
            f"The secret {names[0]!r} has fewer than two values in {reference!r}: there is no pair to hide.",
            allowed="a secret with two values or more",
            instead="another column, or a reference that has all its values",
        )


def table_of_rows(prior: Prior) -> Table | None:
    """Return the table that each row is an independent draw from; None if there is none."""
    table = prior.table if isinstance(prior, Empirical) else prior
    return table if isinstance(table, Table) and table.independent_rows else None


def released_column(prior: Prior) -> str | None:
    """Return the one column that a prior is about beside the secret; None if there may be several."""
    return prior.released if isinstance(prior, Empirical) else None
