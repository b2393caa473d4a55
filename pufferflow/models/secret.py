"""Secrets: a row's value, the first value of a sequence, a unit's presence, or a derived property."""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar, Final, Self, cast, final

import numpy as np
import numpy.typing as npt

from pufferflow.core.errors import InternalError, UsageError
from pufferflow.core.rounding import float_above
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import quoted, read_name, set_fields, whole_number
from pufferflow.models.domain import (
    MISSING,
    Domain,
    Interval,
    Label,
    Product,
    listed_values,
    read_domain,
    skipping,
)
from pufferflow.models.linear_function import check_pairs_of_function, read_factors
from pufferflow.models.secret_pairs import (
    Rule,
    WithinDistance,
    near_places,
    read_rule,
    rule_in_words,
    value_pairs,
)
from pufferflow.models.stored import ADDED, Stored


class AnySecret(Stored, abc.ABC, family="secret"):
    """Base of the secrets."""

    missing_chosen: bool | None = None
    """Whether `missing` was given; None if unknown, as for a stored scenario."""
    of_all_rows: ClassVar[str] = ""
    """What rows reveal of a secret that belongs to all of them; empty for others."""
    left_open: ClassVar[tuple[str, ...]] = ()
    """What a scenario with this secret does not hide though it may seem to, in sentences."""

    @property
    @abc.abstractmethod
    def reads(self) -> tuple[str, Domain] | None:
        """The sensitive column that queries may read and its domain; None if the secret names none."""

    @property
    def of_row(self) -> "ValueSecret | None":
        """The secret of which a row alone keeps ordinary differential privacy; None if it is of another kind."""
        return None

    @property
    def tuples(self) -> Product | None:
        """The tuples of values that queries may read; None if the secret names a single column, or none."""
        domain = None if self.reads is None else self.reads[1]
        return domain if isinstance(domain, Product) else None

    @property
    def columns(self) -> dict[str, Domain]:
        """The sensitive columns of the table that the secret is about, with their domains."""
        if self.tuples is not None:
            return dict(zip(self.tuples.columns, self.tuples.domains, strict=True))
        return {} if self.reads is None else dict([self.reads])

    @property
    def made(self) -> tuple[str, ...]:
        """The column that is made of others, and that no table has: that of tuples, if there are any."""
        return () if self.tuples is None else (self.tuples.name,)

    def read_missing(self, column: str) -> tuple[Label, bool | None]:
        """Return the value as which null is read in one of its columns, and whether it was chosen; None if unknown."""
        if self.tuples is not None:
            place = self.tuples.columns.index(column)
            return self.tuples.missing[place], self.tuples.missing_chosen[place]
        return cast(Any, self).missing, self.missing_chosen

    @abc.abstractmethod
    def describe(self) -> str:
        """Describe the secret in words."""

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> Self:
        fields = dict(stored)
        if fields.get("domain") is not None:
            fields["domain"] = Domain.from_stored(fields["domain"])
        if isinstance(fields.get("pairs"), dict):
            fields["pairs"] = WithinDistance.restored(fields["pairs"])
        secret = cls(**fields)
        set_fields(secret, missing_chosen=None)
        return secret


_MOST_ROWS: Final = 10**9
"""The largest limit on the rows of one unit: with more rows, noise makes every answer useless."""


@suggests_arguments
@dataclass(frozen=True)
class ValueSecret(AnySecret):
    """Base of the secrets about a column's value: the column, its domain, the pairs, the reading of missing values."""

    where: ClassVar[str]
    """Which of its values are hidden; the place of the column's name is `{}`."""
    column: str
    domain: Domain
    pairs: Rule
    missing: Label

    def __init__(
        self, column: str, domain: object, pairs: object = "all", missing: object = None
    ) -> None:
        read = skipping(read_domain(domain), missing)
        set_fields(
            self,
            column=read_name(column, "column"),
            domain=read,
            pairs=read_rule(pairs, read),
            missing=missing_value(missing, read),
            missing_chosen=missing is not None or read.skips,
        )
        if isinstance(read, Product):
            read.check_named(self.column, self.missing)

    @property
    def reads(self) -> tuple[str, Domain]:
        return self.column, self.domain

    @property
    def of_row(self) -> "ValueSecret":
        return self

    def describe(self) -> str:
        if isinstance(self.domain, Product):
            rule = rule_in_words(self.pairs, "tuples of them")
            return f"the values of several columns in every row ({self.domain.describe()}), {rule}"
        return f"{self.where.format(repr(self.column))} ({self.domain.describe()}), {rule_in_words(self.pairs)}"

    def value_pairs(self) -> Sequence[tuple[Label, Label]]:
        """Return the pairs of values that must be indistinguishable, each once."""
        return self._value_pairs

    @cached_property
    def _value_pairs(self) -> Sequence[tuple[Label, Label]]:
        return value_pairs(self.pairs, self.domain)

    @cached_property
    def pair_places(self) -> npt.NDArray[np.intp]:
        """The pairs by the places of their values in a finite domain, of shape (pairs, 2)."""
        values = len(self.domain.points)
        if self.pairs == "all":
            return np.stack(np.triu_indices(values, 1), axis=1)
        if self.pairs == "adjacent":
            return np.stack([np.arange(values - 1), np.arange(1, values)], axis=1)
        if isinstance(self.pairs, WithinDistance):
            return near_places(self.pairs, self.domain)
        return np.array(
            [[self.domain.place(value, "a value") for value in pair] for pair in self.value_pairs()]
        )

    @property
    def every_pair(self) -> bool:
        """Whether any two values of a finite domain must be indistinguishable."""
        values = len(self.domain.points)
        return not isinstance(self.domain, Interval) and (
            self.pairs == "all"
            or len(np.unique(np.sort(self.pair_places), axis=0)) == values * (values - 1) // 2
        )


@final
@dataclass(frozen=True, init=False)
class Secret(ValueSecret, kind="value"):
    """The value of `column` in each row: any two values of the domain (or the pairs named) must be indistinguishable.

    `domain` is a list of values, `pf.Interval(low, high)` or `pf.Bins(edges, values)`. A tuple of two numbers is
    refused, since it may mean an interval or two values. `pairs` is "all", "adjacent", `pf.WithinDistance(distance)` or
    a list of pairs.

    Numbers outside the domain are read as its nearest value. Null, NaN and unknown labels are read as `missing`: by
    default the first value, or `low` of an interval. With missing="skip" they are a state of their own, as secret as
    any value. Sums then leave them out, and means divide by a noisy number of the values that are there. A chain has
    one state more for them, the last one.

    >>> Secret("level", domain=[0, 1, 2, 3], pairs="adjacent").value_pairs()
    [(0, 1), (1, 2), (2, 3)]
    """

    where = "the value of {} in every row"

    @classmethod
    def together(cls, *secrets: "Secret", pairs: object = "all") -> "Secret":
        """Return the secret that hides a row's values in several columns: any two tuples must be indistinguishable.

        A list of secrets in a scenario means the same. With pairs="one column" only tuples that differ in one column
        must be indistinguishable. A column is then not hidden from an adversary who knows the others and what they
        reveal about it.

        >>> both = Secret.together(Secret("a", domain=[0, 1]), Secret("b", domain=[0, 1]))
        >>> both.describe()
        "the values of several columns in every row ('a': one of 0, 1; 'b': one of 0, 1), any two tuples of them"
        """
        for secret in secrets:
            _check_part(secret)
        columns = tuple(secret.column for secret in secrets)
        if len(set(columns)) < max(len(columns), 2):
            raise UsageError(
                f"Several secrets about {', '.join(map(repr, columns)) or 'nothing'}.",
                allowed="two secrets or more, each about a column of its own",
                instead='secret=[pf.Secret("hours", domain=[0, 1, 2]), pf.Secret("wage", domain=[10, 20])]',
            )
        product = _product(secrets)
        return cls(product.name, product, pairs)


@final
@dataclass(frozen=True, init=False)
class Initial(ValueSecret, kind="initial"):
    """The first value of a sequence: where it started, not where it went.

    >>> Initial("place", domain=[0, 1]).describe()
    "the first value of 'place' in every sequence (one of 0, 1), any two of them"
    """

    where = "the first value of {} in every sequence"


class _OptionalColumn(AnySecret):
    """Base of the secrets that are not a column themselves: a column for queries is optional."""

    column: str | None
    domain: Domain | None
    missing: Label | None

    def _set_column(
        self, column: str | Sequence[str] | None, domain: object, missing: object
    ) -> None:
        if column is not None and not isinstance(column, str):
            product = _product(_of_each(column, domain, missing))
            column, domain, missing = product.name, product, None
        read = None if domain is None else skipping(read_domain(domain), missing)
        name = None if column is None else read_name(column, "column")
        if read is None and missing is not None:
            raise UsageError(
                "missing is given without a column that it applies to.",
                allowed="missing together with a column and its domain",
                instead="column='amount', domain=pf.Interval(0, 100), missing=0",
            )
        value = None if read is None else missing_value(missing, read)
        if isinstance(read, Product) and name is not None and value is not None:
            read.check_named(name, value)
        set_fields(self, column=name, domain=read, missing=value)
        set_fields(self, missing_chosen=missing is not None or (read is not None and read.skips))

    @property
    def reads(self) -> tuple[str, Domain] | None:
        return None if self.column is None or self.domain is None else (self.column, self.domain)


@final
@suggests_arguments
@dataclass(frozen=True)
class Presence(_OptionalColumn, kind="presence"):
    """Whether the rows of a unit (all those with one value of `within`) are there at all, as in differential privacy.

    How many rows there are is then private too. For queries beyond counts name a `column` and its `domain`, or lists of
    both. `rows` limits how many rows of a unit are read: the first ones by the scenario's `order_by`. They are chosen
    before any filter, so all releases of one table read the same rows.

    `once=True` declares that there is one table, whose rows stay as they are. The rows of a unit are then chosen once
    for all releases. Releases do not add up if no row passes the filters of both.

    `groups` and `by` limit in how many groups a unit has rows. A group is the rows with equal values of the public
    columns `by`. At most `rows` rows are read in each group, from at most `groups` groups of a unit: those with the
    least values. Gaussian noise for answers about each of these groups is then that for √groups · rows rows of a unit.
    Answers about few of the groups have noise for the rows in these alone.

    `Presence.of_rows(column, domain)` is for tables where each row is a unit of its own and has no id: it makes one.

    >>> Presence(within="person").describe()
    "whether the rows of each 'person' are there at all"
    """

    within: str
    column: str | None = None
    domain: Domain | None = None
    missing: Label | None = None
    rows: int | None = field(default=None, metadata=ADDED)
    once: bool = field(default=False, metadata=ADDED)
    groups: int | None = field(default=None, metadata=ADDED)
    by: tuple[str, ...] = field(default=(), metadata=ADDED)

    def __init__(  # noqa: PLR0913 - the unit with its limit, and the queried column with its options
        self,
        within: str,
        column: str | Sequence[str] | None = None,
        domain: object = None,
        missing: object = None,
        *,
        rows: int | None = None,
        once: bool = False,
        groups: int | None = None,
        by: str | Sequence[str] = (),
    ) -> None:
        set_fields(self, within=read_name(within, "within"), rows=rows, once=once, groups=groups)
        names = by if isinstance(by, list | tuple) else [by]
        set_fields(self, by=tuple(read_name(name, "by") for name in names))
        if (column is None) != (domain is None):
            raise UsageError(
                "Presence is given a column without a domain, or a domain without a column.",
                allowed="both, or neither for counts of rows",
                instead=f"pf.Presence({within!r}, column={column or 'amount'!r}, domain=pf.Interval(0, 100), rows=10)",
            )
        self._set_column(column, domain, missing)
        if rows is not None:
            allowed = "a whole number >= 1, or None for all rows"
            read = whole_number(rows, "rows", allowed=allowed, instead="rows=10", kind=Integral)
            if read > _MOST_ROWS:
                raise UsageError(
                    f"rows is {quoted(rows)}: so many rows of one {within!r} are no limit.",
                    allowed=f"a whole number from 1 to {_MOST_ROWS:,}, or None for all rows",
                    instead="rows=10; noise grows with it",
                )
            set_fields(self, rows=read)
        if once is not False and (once is not True or rows is None):
            raise UsageError(
                "once is given, and no limit on rows."
                if once is True
                else f"once is {quoted(once)}.",
                allowed="True or False, and True together with the rows of a unit that are chosen once",
                instead=f"pf.Presence({within!r}, ..., rows=10, once=True), for a table that stays as it is",
            )
        self._check_groups()

    def _check_groups(self) -> None:
        """Refuse a limit on groups without the rows of each, or without the columns that make them."""
        instead = f"pf.Presence({self.within!r}, ..., rows=1, groups=7, by='day')"
        if self.groups is None and not self.by:
            return
        if self.groups is None or not self.by or self.rows is None:
            raise UsageError(
                "groups, by and rows are not given together.",
                allowed="all three: so many rows of a unit in each group of equal values of by, in so many groups",
                instead=f"{instead}, or rows alone: a limit on groups alone would leave noise as it is",
            )
        set_fields(
            self,
            groups=whole_number(
                self.groups,
                "groups",
                allowed="a whole number >= 1, or None",
                instead=instead,
                kind=Integral,
            ),
        )
        if self.within in self.by or len(set(self.by)) < len(self.by):
            raise UsageError(
                "by names the unit's own column, or a column twice.",
                allowed="other public columns, each once",
                instead=instead,
            )

    @classmethod
    def of_rows(
        cls,
        column: str | Sequence[str] | None = None,
        domain: object = None,
        missing: object = None,
        *,
        once: bool = False,
    ) -> "Presence":
        """Return the presence of single rows: each is a unit of its own and gets an id.

        >>> Presence.of_rows("age", domain=[0, 1, 2]).describe()
        'whether each row is there at all'
        """
        return cls(ROW, column, domain, missing, rows=1, once=once)

    @property
    def each_row(self) -> bool:
        """Whether each row is a unit of its own, whose id is made."""
        return self.within == ROW

    @property
    def most_rows(self) -> int | None:
        """How many rows of a unit are read at most; None if that is not limited."""
        return (
            None if self.rows is None else self.rows * (1 if self.groups is None else self.groups)
        )

    def describe(self) -> str:
        if self.each_row:
            return (
                "whether each row is there at all" + ", of a table that stays as it is" * self.once
            )
        most = (
            ""
            if self.rows is None
            else f", at most {self.rows} {'row' if self.rows == 1 else 'rows'} each"
        )
        if self.groups is not None:
            groups = f"{self.groups} {'group' if self.groups == 1 else 'groups'}"
            most += f" in each of at most {groups} of equal {' and '.join(map(repr, self.by))}"
        once = ", chosen once of a table that stays as it is" if self.once else ""
        return f"whether the rows of each {self.within!r} are there at all{most}{once}"


ROW: Final = "(each row)"
"""The column of units if each row is one, made when a frame is protected. Nothing can filter or group by it, since its
numbers would change if an earlier row were not there."""


@final
@suggests_arguments
@dataclass(frozen=True)
class Derived(_OptionalColumn, kind="derived"):
    """A secret that is not a column of the data: a diagnosis behind measurements, a risk class, a shared cause.

    It needs a prior that knows it. This is a `pf.Table` or `pf.Empirical` with a column of this name, a
    `pf.LatentClass` whose class it is, or a `pf.Simulator`. `values` lists its values, by default all that the prior
    knows. `column` and `domain` (or lists of both) are what queries may read. One of these columns may be the secret
    itself.

    `of` makes it a linear function of several columns of a row, under a `pf.GaussianPrior` of them: each column with
    its factor, as {"paid": 1, "owed": -1} for the difference. Then any two values that the columns' intervals can give
    must be indistinguishable, or those that are near: pairs=pf.WithinDistance(3).

    >>> Derived("diagnosis").describe()
    "'diagnosis', which no column states, any two values of it"
    >>> gap = Derived("gap", of={"paid": 1, "owed": -1}, column=["paid", "owed"], domain=[Interval(0, 9)] * 2)
    >>> gap.describe(), gap.distance
    ("'gap' = paid - owed of every row, any two values of it", 18.0)
    """

    name: str
    values: tuple[Label, ...] | None = None
    pairs: Rule = "all"
    column: str | None = None
    domain: Domain | None = None
    missing: Label | None = None
    of: tuple[tuple[str, float], ...] = field(default=(), metadata=ADDED)

    def __init__(  # noqa: PLR0913 - the values of the secret, and the queried column, each with its options
        self,
        name: str,
        values: Sequence[Label] | None = None,
        pairs: object = "all",
        *,
        column: str | Sequence[str] | None = None,
        domain: object = None,
        missing: object = None,
        of: Mapping[str, float] | Sequence[tuple[str, float]] = (),
    ) -> None:
        read_name(name, "name")
        listed = None if values is None else listed_values(values, "values")
        rule: Rule = "all"
        linear = not isinstance(of, tuple) or len(of) > 0
        if linear:
            check_pairs_of_function(pairs, values)
            rule = cast(Rule, pairs)
        elif pairs != "all":
            if listed is None:
                raise UsageError(
                    "A derived secret has pairs, but no values.",
                    allowed="values together with pairs",
                    instead="pf.Derived(name, values=['ill', 'well'], pairs=[('ill', 'well')])",
                )
            rule = read_rule(pairs, listed)
        set_fields(self, name=name, values=None if listed is None else listed.points, pairs=rule)
        self._set_column(column, domain, missing)
        factors = read_factors(of, name, self.column, self.tuples) if linear else ()
        set_fields(self, of=factors)

    @cached_property
    def distance(self) -> float:
        """The largest distance between two paired values of a linear function; 0 for other secrets."""
        if not self.of or self.tuples is None:
            return 0.0
        widths = {
            column: Fraction(cast(Interval, own).high) - Fraction(cast(Interval, own).low)
            for column, own in zip(self.tuples.columns, self.tuples.domains, strict=True)
        }
        whole = sum((abs(Fraction(one)) * widths[name] for name, one in self.of), Fraction(0))
        near = self.pairs.distance if isinstance(self.pairs, WithinDistance) else None
        return float_above(whole if near is None else min(whole, Fraction(near)))

    def value_pairs(self, known: Sequence[Label]) -> Sequence[tuple[Label, Label]]:
        """Return the secret pairs among the values that the prior knows."""
        listed = listed_values(self.values if self.values is not None else known, "values")
        for value in listed.points:
            if value not in known:
                raise UsageError(
                    f"The prior never produces {self.name} = {value!r}.",
                    allowed=f"values that the prior gives a probability above 0: {list(known)[:6]}",
                    instead="leaving values out, or another prior",
                )
        return value_pairs(self.pairs, listed)

    def describe(self) -> str:
        if self.of:
            terms = [f"{'+' if one > 0 else '-'} {_times(abs(one))}{name}" for name, one in self.of]
            said = " ".join(terms).removeprefix("+ ")
            return (
                f"{self.name!r} = {said} of every row, {rule_in_words(self.pairs, 'values of it')}"
            )
        if self.tuples is not None and self.name in self.tuples.columns:
            return f"the value of {self.name!r} in every row, {rule_in_words(self.pairs, 'values of it')}"
        values = "" if self.values is None else f" (one of {', '.join(map(repr, self.values))})"
        return f"{self.name!r}{values}, which no column states, {rule_in_words(self.pairs, 'values of it')}"


def _times(factor: float) -> str:
    return "" if factor == 1 else f"{factor:g} "


def _product(secrets: Sequence[Secret]) -> Product:
    """Return the tuples of the values of several columns."""
    return Product(
        tuple(secret.column for secret in secrets),
        tuple(secret.domain for secret in secrets),
        tuple(secret.missing for secret in secrets),
        tuple(secret.missing_chosen for secret in secrets),
    )


def _of_each(columns: object, domains: object, missing: object) -> list[Secret]:
    """Return the columns that queries may read together, each with its domain and its value for missing ones."""
    given = (columns, domains, missing)
    names, read, chosen = (
        list(cast(Any, one)) if isinstance(one, list | tuple) else [] for one in given
    )
    left_out = missing is None
    if not left_out and not isinstance(missing, list | tuple) and len(names) == len(read) > 1:
        raise _one_for_all(missing, read)
    if len(names) < 2 or len(read) != len(names) or not (left_out or len(chosen) == len(names)):
        raise UsageError(
            f"{len(names)} columns with {len(read)} domains"
            + ("." if left_out else f" and {len(chosen)} values for missing ones."),
            allowed="a list of columns, and lists as long with the domain of each, and with its value for missing ones",
            instead='column=["hours", "pay"], domain=[[0, 1, 2], pf.Interval(0, 100)]'
            + ("" if left_out else ", missing=[0, 0]"),
        )
    secrets = [
        Secret(name, one, missing=value)
        for name, one, value in zip(names, read, chosen or [None] * len(names), strict=True)
    ]
    if len({secret.column for secret in secrets}) < len(secrets):
        raise UsageError(
            "One of the columns is given twice.",
            allowed="different columns",
            instead='column=["hours", "pay"]',
        )
    return secrets


def _one_for_all(missing: object, domains: Sequence[object]) -> UsageError:
    """Return the error for one value for missing ones, where each column needs its own."""
    least = [read_domain(one).points[0] for one in domains]
    return UsageError(
        f"missing is {quoted(missing)}, for {len(domains)} columns.",
        allowed='a list with a value of its domain for each column; or "skip" for each, but for Gaussian priors '
        "and sums of intervals",
        instead=f"missing={least}",
    )


def _check_part(secret: object) -> None:
    """Refuse what is no secret of a tuple."""
    if not isinstance(secret, Secret) or isinstance(secret.domain, Product):
        raise UsageError(
            f"One of several secrets is {quoted(secret)}.",
            allowed="pf.Secret(column, domain) for each of the columns; other secrets stand alone",
            instead='secret=[pf.Secret("hours", domain=[0, 1, 2]), pf.Secret("wage", domain=[10, 20])]',
        )
    if secret.pairs != "all":
        raise UsageError(
            f"Several secrets, and that about {secret.column!r} has pairs of its own.",
            allowed='pairs="all" for each: any two tuples of values must be indistinguishable',
            instead='pf.Secret.together(…, pairs="one column"), which hides less, or a scenario for this column alone',
        )


def missing_value(given: object, domain: Domain) -> Label:
    """Return the value as which null is read: the one that is given, or the first."""
    if given is None and isinstance(domain, Product):
        return domain.first
    if domain.skips and not isinstance(domain, Product):
        return MISSING
    if given is None:
        return domain.points[0]
    plain = not (domain.skips or isinstance(domain, Product))
    if isinstance(given, str) and plain and not any(isinstance(one, str) for one in domain.points):
        raise UsageError(
            f"missing is {quoted(given)}.",
            allowed='a value of the domain, or "skip", which leaves missing values out',
            instead='missing="skip"',
        )
    return domain.read(given, "missing", "missing is", "missing=")


def hidden_column(
    secret: AnySecret, values_of: Callable[[str], Sequence[Label]]
) -> tuple[str, Sequence[tuple[Label, Label]]]:
    """Return the column of a table that a secret hides, and its pairs; `values_of` gives the values of a column."""
    if isinstance(secret, Secret):
        return secret.column, secret.value_pairs()
    if isinstance(secret, Derived):
        return secret.name, secret.value_pairs(values_of(secret.name))
    raise InternalError("A table was given a secret that it had refused.", instead="reporting it")
