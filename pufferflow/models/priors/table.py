"""A finite joint law of secrets, confounders and data, written down (M22) or counted in a public reference."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, Literal, cast, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Array
from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import did_you_mean, nearest, suggests_arguments
from pufferflow.core.validate import quoted, read_name, set_fields
from pufferflow.distributions.markov.law_regions import LawRegions
from pufferflow.models.domain import Domain, Label, Listed, Product
from pufferflow.models.priors.base import DECLARED, Prior, stored_provenance, wrong_secret
from pufferflow.models.priors.near import Around, slack_in_words
from pufferflow.models.probabilities import (
    Probability,
    as_array,
    as_list,
    least_of_law,
    read_law,
    restored_law,
    stored_law,
)
from pufferflow.models.reference import Provenance, Reference, digest_of, read_reference
from pufferflow.models.secret import AnySecret, Derived, Secret
from pufferflow.models.stored import ADDED, stored_as

PROBABILITY = "probability"
Values = tuple[Label, ...]
_ALLOWED = "columns of values, and one named 'probability', all of one length"
_MISSPELT = (
    "prob",
    "probs",
    "p",
    "w",
    "weight",
    "weights",
    "mass",
    "pr",
    "prior",
    "share",
    "freq",
    "frequency",
)
_INSTEAD = (
    'pf.Table({"ill": ["no", "no", "yes"], "score": [0, 1, 1], "probability": [0.5, 0.25, 0.25]})'
)


@final
@suggests_arguments
@dataclass(frozen=True)
class Table(Prior, kind="table"):
    """Every combination of secrets, confounders and data that can occur, and its `probability` (M22).

    `frame` is a Polars frame, or whatever `pl.DataFrame` takes. Each private row is one independent draw from it, of
    which the data hold some columns. A secret is a column of the table, which the data need not hold. Columns named in
    `shared` are drawn once for all rows of a group. The others are drawn for each row, independently given the shared
    ones.

    >>> Table({"ill": ["no", "no", "yes"], "score": [0, 1, 1], "probability": [0.5, 0.25, 0.25]}).describe()
    'each row is one draw from a table of 3 combinations of ill, score'
    """

    names: tuple[str, ...] = field(metadata=stored_as("columns"))
    cells: tuple[Values, ...]
    probabilities: tuple[Probability, ...] = field(metadata=stored_as("probability"))
    shared: tuple[str, ...]
    provenance: Provenance = field(default=DECLARED, metadata=ADDED, repr=False)
    joint_laws = True
    allows_tuples = True

    def __init__(
        self, frame: Any, shared: str | Sequence[str] = (), provenance: Provenance = DECLARED
    ) -> None:
        names, cells, masses = _read(frame)
        if not isinstance(cast(object, shared), str | Sequence):
            raise _bad(f"shared is {quoted(shared)}.", "the name of a column, or a list of them")
        joined = (shared,) if isinstance(shared, str) else tuple(shared)
        for name in joined:
            if name not in names:
                raise _bad(
                    f"shared names {quoted(name)}, which is no column of the table.",
                    f"one of {list(names)[:6]}",
                )
        law = read_law(masses, PROBABILITY)
        rows = _merged(cells, law)
        set_fields(
            self,
            names=names,
            cells=tuple(zip(*rows, strict=True)),
            probabilities=tuple(rows.values()),
            shared=joined,
            provenance=provenance,
        )

    @classmethod
    @suggests_arguments
    def fit(
        cls,
        reference: Reference,
        columns: Sequence[str],
        *,
        domains: Mapping[str, Any] | None = None,
        slack: float | Literal["confidence"] | None = None,
        confidence: float = 0.95,
    ) -> "Table | TablesNear":
        """Return the table of some columns of a named public reference, each row of which is one independent draw.

        A column has the values that occur in the reference, or those of `domains`. {"hours": pf.Bins(edges, values)}
        reads a continuous column in classes. Half a draw is added to every combination, so none counts as impossible.

        `slack` makes a class of tables. With slack="confidence" these are all whose laws lie in certain regions. The
        regions hold the true laws together with that confidence: laws of each column given each other one, and of all
        others. A number allows every such probability that much more or less. Regions cover chance only, not how far
        the reference differs from the private data.

        >>> import polars as pl, pufferflow as pf
        >>> pupils = pl.DataFrame({"paid": ["no", "no", "yes"], "grade": [8, 9, 9]})
        >>> table = Table.fit(pf.Reference("pupils 2010", pupils), ["paid", "grade"])
        >>> [str(one) for one in table.probabilities]
        ['3/10', '3/10', '1/10', '3/10']
        """
        from pufferflow.models.fitting.table import ESTIMATED, fit_table, read_slacks

        width, level = read_slacks(slack, confidence)
        fitted = fit_table(reference, columns, domains)
        if width is None:
            cells, masses = fitted.law
            listed = dict(zip(fitted.names, zip(*cells, strict=True), strict=True))
            return cls(
                {**listed, PROBABILITY: masses}, provenance=fitted.provenance.noted(ESTIMATED)
            )
        exact = None if width == "confidence" else width
        laws = [
            LawsGiven(hidden, asked, Around.of(one))
            for hidden, asked, one in fitted.laws(exact, level)
        ]
        joint = level if exact is None else None
        return TablesNear(fitted.names, fitted.points, tuple(laws), exact, joint, fitted.provenance)

    @property
    def independent_rows(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether every column is drawn for each row, none once for a group."""
        return not self.shared

    @property
    def shared_class(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether some columns are drawn once for all rows of a group."""
        return bool(self.shared)

    @property
    def columns(self) -> dict[str, Domain]:
        """All columns but the probability, with the values they can have, in ascending order."""
        return {name: Listed(self.values(name)) for name in self.names}

    def values(self, name: str) -> Values:
        """Return the values that a column can have, in order."""
        return tuple(dict.fromkeys(sorted(self.cells[self.names.index(name)])))

    def joint(self, *axes: Sequence[str]) -> tuple[list[list[Values]], Array]:
        """Return the joint law of groups of columns: the values of each group that occur, and an array with their mass.

        >>> table = Table({"ill": [0, 0, 1], "score": [0, 1, 1], "probability": [0.5, 0.25, 0.25]})
        >>> table.joint(["ill"], ["score"])
        ([[(0,), (1,)], [(0,), (1,)]], array([[0.5 , 0.25],
               [0.  , 0.25]]))
        """
        known: list[list[Values]] = []
        places: list[list[int]] = []
        for axis in axes:
            columns = [self.cells[self.names.index(name)] for name in axis]
            keys = list(zip(*columns, strict=True)) if columns else [()] * len(self.probabilities)
            known.append(sorted(set(keys)))
            place = {key: at for at, key in enumerate(known[-1])}
            places.append([place[key] for key in keys])
        masses = as_array(self.probabilities)
        joint = np.zeros([len(keys) for keys in known], dtype=masses.dtype)
        np.add.at(joint, tuple(np.array(place) for place in places), masses)
        return known, joint

    def about_tuples(self, domain: Product) -> "Table":
        """Return the table with a further column of tuples, unless it already has it."""
        super().about_tuples(domain)
        if domain.name in self.names:
            return self
        if not set(domain.columns) <= set(self.names) - set(self.shared):
            raise UsageError(
                f"Several secret columns, {', '.join(map(repr, domain.columns))}, and a table of "
                f"{', '.join(map(repr, self.names))}"
                + (f", with {list(self.shared)} shared." if self.shared else "."),
                allowed="a table that has all of them, and shares none of them between rows",
                instead="pf.Table with these columns, or a scenario with one secret",
            )
        own = [self.cells[self.names.index(column)] for column in domain.columns]
        words = dict(zip(domain.tuples, domain.points, strict=True))
        joined = [words.get(values, repr(values)) for values in zip(*own, strict=True)]
        known = dict(zip(self.names, self.cells, strict=True))
        table = Table(
            {domain.name: joined, **known, PROBABILITY: list(self.probabilities)}, self.shared
        )
        set_fields(table, provenance=self.provenance)
        return table

    def check(self, secret: AnySecret) -> None:
        # a value that never occurs has no law; one that the domain does not list would be read as another
        check_columns(self, secret, "Table")

    def least_probability(self, secret: AnySecret) -> float:
        column = secret.reads
        return 0.0 if column is None else least_of_law(self.joint([column[0]])[1])

    def describe(self) -> str:
        drawn = f"; {', '.join(self.shared)} once for all rows of a group" if self.shared else ""
        table = f"a table of {len(self.probabilities)} combinations of {', '.join(self.names)}"
        return f"each row is one draw from {table}{drawn}{self.source_in_words}"

    def stored(self) -> dict[str, Any]:
        return {**super().stored(), "probability": stored_law(self.probabilities)}

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> "Table":
        columns = dict(zip(stored["columns"], stored["cells"], strict=True))
        table = {**columns, PROBABILITY: restored_law(stored["probability"])}
        return cls(table, stored["shared"], stored_provenance(stored))


@final
@dataclass(frozen=True)
class LawsGiven:
    """The regions of the joint law of some columns given each value of another one."""

    hidden: str
    columns: tuple[str, ...]
    laws: Around

    def stored(self) -> dict[str, Any]:
        """Return plain values."""
        return {"given": self.hidden, "columns": list(self.columns), **self.laws.stored()}

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> "LawsGiven":
        """Return the stored value."""
        laws = Around(*(stored[name] for name in ("centre", "low", "high", "radius")))
        return cls(stored["given"], tuple(stored["columns"]), laws)


@final
@dataclass(frozen=True)
class TablesNear(Prior, kind="tables"):
    """Each row is one draw from a table, which may be any whose laws lie near those counted in a reference.

    Made by `pf.Table.fit` with a slack. Each column that may be the secret has regions of laws given its values. There
    is one region for every other column, and one for all others together. A guarantee holds for all members at once.
    """

    names: tuple[str, ...]
    points: tuple[Values, ...]
    laws: tuple[LawsGiven, ...]
    slack: float | None = None
    confidence: float | None = None
    provenance: Provenance = field(default=DECLARED, metadata=ADDED)
    independent_rows = True
    joint_laws = True

    def __post_init__(self) -> None:
        sizes = {name: len(values) for name, values in zip(self.names, self.points, strict=True)}
        known = {
            one.hidden: math.prod(sizes[name] for name in one.columns)
            for one in self.laws
            if one.laws.regions.centre.shape
            == (sizes[one.hidden], math.prod(sizes[name] for name in one.columns))
        }
        if len(self.laws) != len({(one.hidden, one.columns) for one in self.laws}) or set(
            known
        ) != set(self.names):
            raise UsageError(
                "The laws of a class of tables do not fit its columns.",
                allowed="what pf.Table.fit gave",
                instead="pf.Table.fit(reference, columns, slack='confidence')",
            )

    @property
    def columns(self) -> dict[str, Domain]:
        """All columns, with the values they can have."""
        return {name: Listed(values) for name, values in zip(self.names, self.points, strict=True)}

    def values_of(self, name: str) -> Values:
        """Return the values that a column can have, in the order of the laws."""
        return self.points[self.names.index(name)]

    def given(self, hidden: str, columns: Sequence[str]) -> tuple[list[Values], LawRegions]:
        """Return the points of some columns, and the regions of their joint law given each value of another one.

        For several columns, but not all, the region is what all others together allow: a set of their points is a set
        of points of all.
        """
        for one in self.laws:
            if one.hidden == hidden and one.columns == tuple(columns):
                return self._points(columns), one.laws.regions
        rest = tuple(name for name in self.names if name != hidden)
        (whole,) = [
            one.laws.regions for one in self.laws if one.hidden == hidden and one.columns == rest
        ]
        places = {point: at for at, point in enumerate(self._points(columns))}
        kept = [rest.index(name) for name in columns]
        groups = np.array(
            [places[tuple(point[at] for at in kept)] for point in self._points(rest)], dtype=np.intp
        )
        return list(places), whole.lumped(groups)

    def _points(self, columns: Sequence[str]) -> list[Values]:
        return list(product(*(self.values_of(name) for name in columns)))

    def check(self, secret: AnySecret) -> None:
        check_columns(self, secret, "Table")

    def describe(self) -> str:
        where = slack_in_words(self.slack, self.confidence, "rows")
        return (
            f"each row is one draw from some table of {', '.join(self.names)} "
            f"with laws {where}{self.source_in_words}"
        )

    def stored(self) -> dict[str, Any]:
        return {**super().stored(), "laws": [one.stored() for one in self.laws]}

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> "TablesNear":
        prior = object.__new__(cls)
        set_fields(
            prior,
            names=tuple(stored["names"]),
            points=tuple(tuple(values) for values in stored["points"]),
            laws=tuple(LawsGiven.restored(one) for one in stored["laws"]),
            slack=stored["slack"],
            confidence=stored["confidence"],
            provenance=stored_provenance(stored),
        )
        prior.__post_init__()
        return prior


def check_columns(prior: Prior, secret: AnySecret, kind: str) -> None:
    """Refuse a secret that is not a column of the prior, or whose values the prior does not produce."""
    known = prior.columns
    if not isinstance(secret, Secret | Derived):
        allowed = "pf.Secret(column, domain) or pf.Derived(name) for a column of it: its rows have no order and stay"
        raise wrong_secret(kind, secret, allowed=allowed, instead="pf.Secret, or another prior")
    hidden = secret.column if isinstance(secret, Secret) else secret.name
    for name in (hidden, secret.reads[0] if secret.reads else hidden):
        if name not in known:
            near = nearest(name, known)
            raise UsageError(
                f"The prior {kind} has no column {name!r}.{did_you_mean(name, known)}",
                allowed=f"one of {list(known)[:6]}",
                instead=f"pf.{type(secret).__name__}({near[0]!r}, …), or a prior with the column {name!r}"
                if near
                else f"a prior whose column is called {name!r}",
            )
    if secret.reads:
        _check_domain(
            known[secret.reads[0]].points, secret.reads, exactly=isinstance(secret, Secret)
        )
    if isinstance(secret, Derived):
        secret.value_pairs(known[hidden].points)


def _check_domain(values: Values, reads: tuple[str, Domain], *, exactly: bool) -> None:
    name, domain = reads
    if not domain.finite:
        raise UsageError(
            f"The domain of {name!r} is an interval, and the prior is about single values.",
            allowed="a list of values, or pf.Bins",
            instead=f"domain={list(values)[:6]}",
        )
    for value in values if not exactly else (*values, *domain.points):
        never = value not in values
        if never or value not in domain.points:
            says = "The prior never produces" if never else "The domain does not list"
            raise UsageError(
                f"{says} {name} = {value!r}.",
                allowed="a domain with the values that have a probability above 0",
                instead=f"domain={list(values)[:6]}",
            )


def _read(frame: Any) -> tuple[tuple[str, ...], list[Values], list[Any]]:
    """Return names, columns and probabilities."""
    if isinstance(frame, pl.LazyFrame):
        raise _bad(
            "The table is a LazyFrame, whose rows are not there yet.",
            "a frame with its rows, frame.collect()",
        )
    if not isinstance(frame, pl.DataFrame | dict):
        try:
            frame = pl.DataFrame(frame)
        except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
            raise _bad(
                f"pl.DataFrame does not take the table of type {type(frame).__name__}."
            ) from error
    columns = cast(dict[str, Any], frame if isinstance(frame, dict) else frame.to_dict())
    listed = {name: as_list(column, f"The column {name!r}") for name, column in columns.items()}
    masses = listed.pop(PROBABILITY, None)
    if masses is None or not listed or not masses:
        raise _bad(*_without_probability(frame, listed, masses))
    if len({len(masses), *map(len, listed.values())}) > 1:
        raise _bad("The table has columns of different lengths.")
    return tuple(listed), [_labels(name, column) for name, column in listed.items()], masses


def _without_probability(
    frame: Any, listed: dict[str, list[Any]], masses: list[Any] | None
) -> tuple[str, str, str]:
    """Return the problem, allowed tables and an example for a table without a column of probabilities."""
    meant = [
        name for name in listed if name.casefold() in _MISSPELT or nearest(name, [PROBABILITY])
    ]
    instead = _INSTEAD
    if masses is None and meant:
        renamed = {PROBABILITY if name == meant[0] else name: name for name in listed}
        instead = f'pf.Table(frame.rename({{"{meant[0]}": "{PROBABILITY}"}}))'
        if isinstance(frame, dict):
            instead = f"pf.Table({{{', '.join(f'{new!r}: table[{old!r}]' for new, old in renamed.items())}}})"
    rows = len(masses) if masses is not None else max(map(len, listed.values()), default=0)
    lacks = f", and none named {PROBABILITY!r}" if masses is None else f", and {rows} rows"
    return f"The table has the columns {list(listed)[:6]}{lacks}.", _ALLOWED, instead


def _labels(name: str, column: list[Any]) -> Values:
    kinds: set[type] = {type(value) for value in column}
    numbers = kinds <= {int, float} and all(math.isfinite(value) for value in column)
    if not (numbers or kinds in ({str}, {bool})):
        raise _bad(
            f"The column {name!r} of the table has values of types {sorted(kind.__name__ for kind in kinds)}"
            + (", not all of them finite." if kinds <= {int, float} else "."),
            "numbers, or texts, or booleans in a column, none of them missing",
        )
    return tuple(column)


def _merged(cells: list[Values], law: tuple[Probability, ...]) -> dict[Values, Probability]:
    """Add up rows that are equal and leave out those that never occur, in an order that does not depend on theirs."""
    merged: dict[Values, Probability] = {}
    for row, mass in sorted(zip(zip(*cells, strict=True), law, strict=True)):
        if mass > 0:
            merged[row] = merged.get(row, 0) + mass
    return merged


def _bad(problem: str, allowed: str = _ALLOWED, instead: str = _INSTEAD) -> UsageError:
    return UsageError(problem, allowed=allowed, instead=instead)


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
        present = frame.drop_nulls()
        floats = [
            pl.col(name).is_not_nan() for name, kind in frame.schema.items() if kind.is_float()
        ]
        used = present.filter(*floats) if floats else present
        counted = used.group_by(names).len(name=PROBABILITY).sort(names)
        *columns, counts = (column.to_list() for column in counted.get_columns())
        _check(counted, names, source.name)
        left_out = frame.height - used.height
        notes = (
            (f"{left_out} rows without {names[0]} or {names[1]} were left out",) if left_out else ()
        )
        self._set(
            names,
            columns,
            counts,
            Provenance(source.name, used.height, digest_of(frame), notes, source.origin),
        )

    def _set(
        self,
        names: tuple[str, str],
        columns: Sequence[Any],
        counts: Sequence[int],
        provenance: Provenance,
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
        columns = dict(
            zip((self.secret, self.released), zip(*self.pairs, strict=True), strict=True)
        )
        return Table({**columns, PROBABILITY: [Fraction(count, total) for count in self.counts]})

    @property
    def columns(self) -> dict[str, Domain]:
        return self.table.columns

    def check(self, secret: AnySecret) -> None:
        check_columns(self, secret, "Empirical")

    def least_probability(self, secret: AnySecret) -> float:
        return self.table.least_probability(secret)

    def describe(self) -> str:
        where = f"the public reference {self.provenance.reference!r}"
        return f"each row is drawn from {where}: {self.released} given {self.secret}, of {self.provenance.rows} rows"

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> "Empirical":
        columns = list(zip(*stored["pairs"], strict=True))
        prior = object.__new__(cls)  # the reference itself is not needed
        prior._set(
            (stored["secret"], stored["released"]),
            columns,
            stored["counts"],
            stored_provenance(stored),
        )
        return prior


def _check(counted: pl.DataFrame, names: tuple[str, str], reference: str) -> None:
    """Refuse columns whose values are not labels, and a secret with one value only."""
    for name in names:
        kind = counted.schema[name]
        texts = isinstance(kind, pl.String | pl.Categorical | pl.Enum | pl.Boolean)
        if not (
            texts or kind.is_integer() or (kind.is_float() and counted[name].is_finite().all())
        ):
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
    """Return the table from which each row is an independent draw; None if there is none."""
    table = prior.table if isinstance(prior, Empirical) else prior
    return table if isinstance(table, Table) and table.independent_rows else None


def released_column(prior: Prior) -> str | None:
    """Return the one column that a prior is about beside the secret; None if there may be several."""
    return prior.released if isinstance(prior, Empirical) else None
