"""What must stay hidden: a row's value, the first value of a sequence, a unit's presence, or something derived."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar, cast, final

import numpy as np
import numpy.typing as npt

from pufferflow.arguments import finite_number, shown, whole_number
from pufferflow.errors import Misuse
from pufferflow.scenario.domain import Domain, Interval, Label, listed_values, read_domain, restored_domain
from pufferflow.scenario.secret_pairs import Closer, Rule, read_rule, value_pairs
from pufferflow.suggestions import explained


class AnySecret(abc.ABC):
    """Base of the secrets."""

    missing_chosen: bool | None = None
    """Whether `missing` was named; None where nobody knows any more, as of a scenario that was stored."""

    @property
    @abc.abstractmethod
    def reads(self) -> tuple[str, Domain] | None:
        """The sensitive column that may be asked about and its domain; None if the secret names none."""

    @abc.abstractmethod
    def describe(self) -> str:
        """Say in words what is hidden."""

    @abc.abstractmethod
    def stored(self) -> dict[str, Any]:
        """Return the secret as plain values, for JSON and the fingerprint."""


@explained
@dataclass(frozen=True)
class ValueSecret(AnySecret):
    """What secrets about a column's value share: the column, its domain, the pairs, and how missing values are read."""

    kind: ClassVar[str]
    column: str
    domain: Domain
    pairs: Rule
    missing: Label

    def __init__(self, column: str, domain: object, pairs: object = "all", missing: object = None) -> None:
        read = read_domain(domain)
        object.__setattr__(self, "column", read_name(column, "column"))
        object.__setattr__(self, "domain", read)
        object.__setattr__(self, "pairs", read_rule(pairs, read))
        object.__setattr__(self, "missing", _missing(missing, read))
        object.__setattr__(self, "missing_chosen", missing is not None)

    @property
    def reads(self) -> tuple[str, Domain]:
        """The sensitive column and its domain."""
        return self.column, self.domain

    def value_pairs(self) -> list[tuple[Label, Label]]:
        """Return the pairs of values that must look alike, each once."""
        return self._value_pairs

    @cached_property
    def _value_pairs(self) -> list[tuple[Label, Label]]:
        return value_pairs(self.pairs, self.domain)

    @cached_property
    def pair_places(self) -> npt.NDArray[np.intp]:
        """The pairs by the places of their values in a finite domain, of shape (pairs, 2)."""
        if self.pairs == "all":
            return np.stack(np.triu_indices(len(self.domain.points), 1), axis=1)
        return np.array([[self.domain.place(value, "a value") for value in pair] for pair in self.value_pairs()])

    @property
    def every_pair(self) -> bool:
        """Whether any two values of a finite domain must look alike."""
        values = len(self.domain.points)
        return not isinstance(self.domain, Interval) and (
            self.pairs == "all" or len(np.unique(np.sort(self.pair_places), axis=0)) == values * (values - 1) // 2
        )

    def stored(self) -> dict[str, Any]:
        """Return all fields as plain values."""
        return {
            "kind": self.kind,
            "column": self.column,
            "domain": self.domain.stored(),
            "pairs": _stored_rule(self.pairs),
            "missing": self.missing,
        }


@final
@dataclass(frozen=True, init=False)
class Secret(ValueSecret):
    """The value of `column` in each row: any two values of the domain (or the pairs named) must look alike.

    `domain` is a list of values, `pf.Interval(low, high)` or `pf.Bins(edges, values)`; a tuple of two numbers may mean
    either of the first two, and is refused. `pairs` is "all", "adjacent", `pf.Closer(distance)` or a list of pairs.
    Numbers outside the domain are read as its nearest value; null, NaN and unknown labels as `missing`, which is the
    first value (or low) if left out.

    >>> Secret("level", domain=[0, 1, 2, 3], pairs="adjacent").value_pairs()
    [(0, 1), (1, 2), (2, 3)]
    """

    kind = "value"

    def describe(self) -> str:
        """Say in words what is hidden."""
        return f"the value of {self.column!r} in every row ({self.domain.describe()}), {_pairs_in_words(self.pairs)}"


@final
@dataclass(frozen=True, init=False)
class Initial(ValueSecret):
    """The first value of a sequence: where somebody started, not where they went.

    >>> Initial("place", domain=[0, 1]).describe()
    "the first value of 'place' in every sequence (one of 0, 1), any two of them"
    """

    kind = "initial"

    def describe(self) -> str:
        """Say in words what is hidden."""
        where = self.domain.describe()
        return f"the first value of {self.column!r} in every sequence ({where}), {_pairs_in_words(self.pairs)}"


@final
@explained
@dataclass(frozen=True)
class Presence(AnySecret):
    """Whether the rows of a unit (all those with one value of `within`) are there at all, as in differential privacy.

    How many rows there are is then private too. Name a `column` and its `domain` to ask for more than counts. With
    `rows`, at most so many rows of a unit are read; a release leaves out the others.

    >>> Presence(within="person").describe()
    "whether the rows of each 'person' are there at all"
    """

    within: str
    column: str | None = None
    domain: Domain | None = None
    missing: Label | None = field(default=None)
    rows: int | None = None

    def __init__(
        self,
        within: str,
        column: str | None = None,
        domain: object = None,
        missing: object = None,
        *,
        rows: int | None = None,
    ) -> None:
        object.__setattr__(self, "within", read_name(within, "within"))
        if (column is None) != (domain is None):
            raise Misuse(
                "Presence is given a column without a domain, or a domain without a column.",
                allowed="both, or neither for counts of rows",
                instead=f"pf.Presence({within!r}, column={column or 'amount'!r}, domain=pf.Interval(0, 100), rows=10)",
            )
        read = None if domain is None else read_domain(domain)
        object.__setattr__(self, "column", None if column is None else read_name(column, "column"))
        object.__setattr__(self, "domain", read)
        object.__setattr__(self, "missing", _missing_of(missing, read))
        object.__setattr__(self, "missing_chosen", missing is not None)
        object.__setattr__(self, "rows", None if rows is None else _rows(rows))

    @property
    def reads(self) -> tuple[str, Domain] | None:
        """The sensitive column and its domain, if they were named."""
        return None if self.column is None or self.domain is None else (self.column, self.domain)

    def describe(self) -> str:
        """Say in words what is hidden."""
        most = "" if self.rows is None else f", at most {self.rows} {'row' if self.rows == 1 else 'rows'} each"
        return f"whether the rows of each {self.within!r} are there at all{most}"

    def stored(self) -> dict[str, Any]:
        """Return all fields as plain values; without `rows`, those that there have always been."""
        return {
            **({} if self.rows is None else {"rows": self.rows}),
            "kind": "presence",
            "within": self.within,
            "column": self.column,
            "domain": self.domain and self.domain.stored(),
            "missing": self.missing,
        }


@final
@explained
@dataclass(frozen=True)
class Derived(AnySecret):
    """A secret that is no column of the data: a diagnosis behind measurements, a risk class, a shared cause.

    It needs a prior that knows it: `pf.Table` or `pf.Empirical` with a column of this name, `pf.LatentClass` whose
    class it is, or a `pf.Simulator`. `values` are what it can be; left out, all that the prior knows.

    >>> Derived("diagnosis").describe()
    "'diagnosis', which no column states, any two values of it"
    """

    name: str
    values: tuple[Label, ...] | None = None
    pairs: Rule = "all"
    column: str | None = None
    domain: Domain | None = None
    missing: Label | None = None

    def __init__(  # noqa: PLR0913 - the values of the secret, and the column asked about, each with its options
        self,
        name: str,
        values: Sequence[Label] | None = None,
        pairs: object = "all",
        *,
        column: str | None = None,
        domain: object = None,
        missing: object = None,
    ) -> None:
        object.__setattr__(self, "name", read_name(name, "name"))
        listed = None if values is None else listed_values(values, "values")
        object.__setattr__(self, "values", None if listed is None else listed.points)
        rule: Rule = "all"
        if pairs != "all":
            if listed is None:
                raise Misuse(
                    "pairs of a derived secret without its values.",
                    allowed="values together with pairs",
                    instead="pf.Derived(name, values=['ill', 'well'], pairs=[('ill', 'well')])",
                )
            rule = read_rule(pairs, listed)
        object.__setattr__(self, "pairs", rule)
        read = None if domain is None else read_domain(domain)
        object.__setattr__(self, "column", None if column is None else read_name(column, "column"))
        object.__setattr__(self, "domain", read)
        object.__setattr__(self, "missing", _missing_of(missing, read))
        object.__setattr__(self, "missing_chosen", missing is not None)

    @property
    def reads(self) -> tuple[str, Domain] | None:
        """The sensitive column and its domain, if they were named."""
        return None if self.column is None or self.domain is None else (self.column, self.domain)

    def value_pairs(self, known: Sequence[Label]) -> list[tuple[Label, Label]]:
        """Return the pairs of values that must look alike, of those that the prior knows."""
        listed = listed_values(self.values if self.values is not None else known, "values")
        for value in listed.points:
            if value not in known:
                raise Misuse(
                    f"The prior never produces {self.name} = {value!r}.",
                    allowed=f"values that the prior gives a probability above 0: {list(known)[:6]}",
                    instead="leaving values out, or another prior",
                )
        return value_pairs(self.pairs, listed)

    def describe(self) -> str:
        """Say in words what is hidden."""
        values = "" if self.values is None else f" (one of {', '.join(map(repr, self.values))})"
        return f"{self.name!r}{values}, which no column states, {_pairs_in_words(self.pairs, 'values of it')}"

    def stored(self) -> dict[str, Any]:
        """Return all fields as plain values."""
        return {
            "kind": "derived",
            "name": self.name,
            "values": None if self.values is None else list(self.values),
            "pairs": _stored_rule(self.pairs),
            "column": self.column,
            "domain": self.domain and self.domain.stored(),
            "missing": self.missing,
        }


def restored_secret(stored: dict[str, Any]) -> AnySecret:
    """Return the secret that `stored` tells of."""
    fields = dict(stored)
    kind = fields.pop("kind", None)
    if fields.get("domain") is not None:
        fields["domain"] = restored_domain(fields["domain"])
    if "pairs" in fields:
        fields["pairs"] = _restored_rule(fields["pairs"])
    kinds = {"value": Secret, "initial": Initial, "presence": Presence, "derived": Derived}
    if kind not in kinds:
        raise Misuse("The stored secret is of no known kind.", allowed="what to_json wrote")
    found = kinds[kind](**fields)
    object.__setattr__(found, "missing_chosen", None)
    return found


def read_name(name: object, what: str) -> str:
    """Return the name of a column."""
    if not isinstance(name, str) or not name:
        example = {"order_by": "hour", "within": "meter", "public": "day"}.get(what, "level")
        raise Misuse(
            f"{what} is {shown(name)}.", allowed="the name of a column", instead=f'{what}="{_name_in(name) or example}"'
        )
    return name


def _name_in(given: object) -> str | None:
    """Return the name in a list of one, or of an expression that is a column; None if there is none."""
    if isinstance(given, list | tuple) and len(cast(list[Any], given)) == 1:
        given = cast(list[Any], given)[0]
    if hasattr(cast(object, given), "meta"):
        given = cast(Any, given).meta.output_name(raise_if_undetermined=False)
    return given if isinstance(given, str) else None


def _missing(given: object, domain: Domain) -> Label:
    if given is None:
        return domain.points[0]
    if isinstance(domain, Interval):
        return finite_number(
            given,
            "missing",
            allowed=domain.describe(),
            instead=f"missing={domain.low:g}",
            fits=lambda number: domain.low <= number <= domain.high,
        )
    return domain.points[domain.place(given, "missing")]


def _missing_of(given: object, domain: Domain | None) -> Label | None:
    """Return what missing values of a column are read as, if one is named."""
    if domain is None and given is not None:
        raise Misuse(
            "missing is given, and no column whose values it could be.",
            allowed="missing together with a column and its domain",
            instead="column='amount', domain=pf.Interval(0, 100), missing=0",
        )
    return None if domain is None else _missing(given, domain)


def _rows(given: object) -> int:
    allowed = "a whole number >= 1, or None for all rows"
    return whole_number(given, "rows", allowed=allowed, instead="rows=10", kind=Integral)


def _pairs_in_words(rule: Rule, what: str = "of them") -> str:
    if rule == "all":
        return f"any two {what}"
    if rule == "adjacent":
        return f"any two neighbouring {what}"
    if isinstance(rule, Closer):
        return f"any two {what} no farther apart than {rule.distance:g}"
    return f"{len(rule)} pairs {what} that are named"


def _stored_rule(rule: Rule) -> Any:
    if isinstance(rule, Closer):
        return {"closer": rule.distance}
    return rule if isinstance(rule, str) else [list(pair) for pair in rule]


def _restored_rule(stored: Any) -> Any:
    return Closer(cast(dict[str, float], stored)["closer"]) if isinstance(stored, dict) else stored
