"""Secrets about the whole data set: which law the values of a column are drawn from (M59)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast, final

import numpy as np

from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import finite_number, quoted, read_name, set_fields, whole_number
from pufferflow.distributions.finite_law import Law
from pufferflow.models.domain import Domain, Label, Product, listed_values, read_domain, skipping
from pufferflow.models.probabilities import (
    Probability,
    as_array,
    as_list,
    read_law,
    restored_law,
    stored_law,
)
from pufferflow.models.secret import AnySecret, Secret, missing_value
from pufferflow.models.secret_pairs import Rule, read_rule, rule_in_words, value_pairs
from pufferflow.models.stored import ADDED

_EXAMPLE = 'pf.Population("ill", domain=[0, 1], laws={"few": [0.9, 0.1], "many": [0.8, 0.2]})'
_SHARES = "a list of two or more different shares, each from 0 to 1"
_OF_SHARES = 'pf.Population.share("ill", [0.1, 0.2])'
_MEANS = "a list of two or more different means, each within the domain"
_OF_MEANS = 'pf.Population.mean("level", [1.0, 1.5], domain=[0, 1, 2])'
_MOST_DESCRIBED = 4
_MOST_ROWS = 10**9
_HALVINGS = 200
_MOST_TILT = 700.0


@final
@suggests_arguments
@dataclass(frozen=True)
class Population(AnySecret, kind="population"):
    """The law that a column's values are drawn from in the whole data set: "one in ten is ill, or one in five".

    `laws` names the values of the secret. Each has a probability for every value of the domain, in their order, or a
    dictionary of them, or a `pf.Law`. Given the secret, rows are independent draws from its law, which the prior
    `pf.Independent()` says. `pairs` is as for `pf.Secret`, and names values of the secret. `Population.share` declares
    the share of one of two values, and `Population.mean` the mean of a column.

    The secret is not a row: noise hides the difference between the laws, and may be too little for a person. So the
    scenario of a person's value, with `pf.Secret`, needs an account too. All rows reveal the secret, so releases about
    different rows add up. Which rows exist is public.

    `rows` is the number of rows of all tables that releases of one account are ever about. With it an account can count
    Gaussian noise.

    >>> Population("ill", domain=[0, 1], laws={"few": [0.9, 0.1], "many": [0.8, 0.2]}).describe()
    "the law of all values of 'ill': 'few' (0: 0.9, 1: 0.1) or 'many' (0: 0.8, 1: 0.2), any two of them"
    """

    of_all_rows = "every row reveals something about the secret, and what they reveal adds up"
    left_open = ("Not hidden by this scenario: the values of single rows.",)
    column: str
    domain: Domain
    laws: tuple[tuple[Label, tuple[Probability, ...]], ...]
    pairs: Rule
    missing: Label
    rows: int | None = field(default=None, metadata=ADDED)

    def __init__(  # noqa: PLR0913 - the column with its domain, and the laws of its values
        self,
        column: str,
        domain: object,
        laws: object,
        pairs: object = "all",
        missing: object = None,
        *,
        rows: int | None = None,
    ) -> None:
        read = skipping(read_domain(domain), missing)
        if not read.finite or isinstance(read, Product):
            raise Refused(
                f"The laws of {quoted(column)} list probabilities, and its domain is {read.describe()}.",
                allowed="a list of values, or pf.Bins, with a probability for each value or class",
                instead="pf.Bins(edges, values), and for each law the probabilities of its classes",
            )
        known = _read_laws(laws, read)
        names = listed_values([name for name, _ in known], "laws")
        set_fields(
            self,
            column=read_name(column, "column"),
            domain=read,
            laws=tuple(zip(names.points, (law for _, law in known), strict=True)),
            pairs=read_rule(pairs, names),
            missing=missing_value(missing, read),
            missing_chosen=missing is not None or read.skips,
            rows=None if rows is None else _read_rows(rows),
        )
        self._check_different()

    def _check_different(self) -> None:
        laws = dict(self.laws)
        for a, b in self.value_pairs():
            if laws[a] == laws[b]:
                raise UsageError(
                    f"The laws {a!r} and {b!r} of {self.column!r} are equal, so there is nothing to hide.",
                    allowed="different laws for the two values of every pair",
                    instead=_EXAMPLE,
                )

    @classmethod
    @suggests_arguments
    def share(  # noqa: PLR0913 - the column and its two values, the shares, and the options of all secrets
        cls,
        column: str,
        values: Sequence[float],
        *,
        domain: object = None,
        pairs: object = "all",
        missing: object = None,
        rows: int | None = None,
    ) -> "Population":
        """Return the secret that is the share of rows with the second of two values: by default 1, or True.

        >>> Population.share("ill", [0.1, 0.2]).laws
        ((0.1, (0.9, 0.1)), (0.2, (0.8, 0.2)))
        >>> Population.share("answer", [0.4, 0.3], domain=["no", "yes"]).domain.points
        ('no', 'yes')
        """
        shares = [_share(value) for value in _listed_values(values, _SHARES, _OF_SHARES)]
        laws = [(value, (1 - value, value)) for value in shares]
        return cls(column, [0, 1] if domain is None else domain, laws, pairs, missing, rows=rows)

    @classmethod
    @suggests_arguments
    def mean(  # noqa: PLR0913 - the column and its domain, the means, and the options of all secrets
        cls,
        column: str,
        values: Sequence[float],
        *,
        domain: object,
        like: object = None,
        pairs: object = "all",
        missing: object = None,
        rows: int | None = None,
    ) -> "Population":
        """Return the secret that is the mean of a column, which alone says little about the law: `like` says the rest.

        `like` is a law of the domain's values, by default with equal probabilities. Each is multiplied by e^(t·value),
        where t gives the mean. Of all laws with that mean it is the one nearest to `like`, in relative entropy.
        Adversaries who expect other laws need laws of their own in `laws`.

        >>> low, high = Population.mean("level", [1.0, 1.5], domain=[0, 1, 2]).laws
        >>> [round(mass, 4) for mass in high[1]]
        [0.1162, 0.2676, 0.6162]
        """
        read = read_domain(domain)
        if not read.finite or not read.numeric:
            raise UsageError(
                f"The mean of {quoted(column)}, and its domain is {read.describe()}.",
                allowed="a list of numbers, or pf.Bins with numbers",
                instead=f"pf.Population.mean({quoted(column)}, [1.0, 1.5], domain=[0, 1, 2])",
            )
        around = (
            np.ones(len(read.points)) if like is None else np.array(_masses(like, read, "like"))
        )
        laws = [
            (mean, _tilted(read.numbers, around.astype(np.float64), mean))
            for mean in map(_number, _listed_values(values, _MEANS, _OF_MEANS))
        ]
        return cls(column, read, laws, pairs, missing, rows=rows)

    @property
    def reads(self) -> tuple[str, Domain]:
        return self.column, self.domain

    @property
    def of_row(self) -> Secret:
        missing = None if self.domain.skips else self.missing
        return Secret(self.column, self.domain, missing=missing)

    @property
    def values(self) -> tuple[Label, ...]:
        """The names of the laws."""
        return tuple(name for name, _ in self.laws)

    @property
    def arrays(self) -> Array:
        """The laws, of shape (values, points): Fractions if all probabilities are, floats otherwise."""
        return as_array([law for _, law in self.laws])

    def value_pairs(self) -> Sequence[tuple[Label, Label]]:
        """Return the pairs of laws that must be indistinguishable, each once."""
        return value_pairs(self.pairs, listed_values(self.values, "laws"))

    def check_within(self, within: Sequence[str]) -> None:
        """Refuse groups of rows that a scenario takes to be independent of each other."""
        if within:
            raise UsageError(
                f"within={list(within)} with the secret pf.Population, which all rows of the data set reveal.",
                allowed="a scenario without within: no rows are independent of the others",
                instead=f"public={list(within)}, to filter and group by what everybody may know",
            )

    def describe(self) -> str:
        laws = " or ".join(map(self._in_words, self.laws))
        return f"the law of all values of {self.column!r}: {laws}, {rule_in_words(self.pairs)}"

    def _in_words(self, named: tuple[Label, tuple[Probability, ...]]) -> str:
        name, law = named
        points = self.domain.points
        if len(points) > _MOST_DESCRIBED:
            return f"{name!r}"
        masses = (f"{point}: {float(mass):.4g}" for point, mass in zip(points, law, strict=True))
        return f"{name!r} ({', '.join(masses)})"

    def stored(self) -> dict[str, Any]:
        return {**super().stored(), "laws": [[name, stored_law(law)] for name, law in self.laws]}

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> Self:
        laws = [(name, restored_law(law)) for name, law in stored["laws"]]
        return super().restored({**stored, "laws": laws})


def _read_laws(given: object, domain: Domain) -> list[tuple[Any, tuple[Probability, ...]]]:
    """Return the laws by their names, two or more."""
    if isinstance(given, Mapping):
        given = list(cast(Mapping[Any, Any], given).items())
    listed = list(cast(Sequence[Any], given)) if isinstance(given, list | tuple) else []
    if len(listed) < 2 or not all(map(_has_name, listed)):
        raise UsageError(
            f"laws has {len(listed)} laws with a name.",
            allowed="a dictionary of two or more laws, by the values of the secret",
            instead=_EXAMPLE,
        )
    names = [name for name, _ in listed]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise UsageError(
                f"laws has the name {quoted(name)} twice.",
                allowed="laws with different names",
                instead=_EXAMPLE,
            )
    return [(name, _masses(law, domain, f"laws[{name!r}]")) for name, law in listed]


def _has_name(one: Any) -> bool:
    """Return whether an entry is a pair of a name and a law, and no law of two numbers."""
    return isinstance(one, tuple) and len(cast(Any, one)) == 2 and not isinstance(one[1], float)


def _masses(given: object, domain: Domain, name: str) -> tuple[Probability, ...]:
    """Return the probabilities of all points of a domain."""
    points = domain.points
    if isinstance(given, Law):
        given = dict(zip(np.asarray(given.values).tolist(), cast(Any, given.weights), strict=True))
    if isinstance(given, Mapping):
        listed = cast(Mapping[Any, Any], given)
        _check_in_domain(listed, domain, name)
        given = [listed.get(point, 0) for point in points]
    law = read_law(given, name)
    if len(law) != len(points):
        raise UsageError(
            f"{name} has {len(law)} probabilities, and the domain {len(points)} values.",
            allowed=f"a probability for each of {domain.describe()}",
            instead=_EXAMPLE,
        )
    return law


def _check_in_domain(given: Mapping[Any, Any], domain: Domain, name: str) -> None:
    """Refuse a law with values that the domain lacks."""
    beyond = [point for point in given if point not in domain.points]
    if beyond:
        raise UsageError(
            f"{name} has a probability for {quoted(beyond[0])}, which is not in the domain.",
            allowed=f"probabilities for {domain.describe()}",
            instead=_EXAMPLE,
        )


def _listed_values(given: object, allowed: str, instead: str) -> list[Any]:
    """Return the shares or means, two or more that differ."""
    if isinstance(given, str | bytes) or not (
        isinstance(given, Sequence) or hasattr(given, "__array__")
    ):
        raise UsageError(f"values is {quoted(given)}.", allowed=allowed, instead=instead)
    listed = as_list(given, "values")
    for place, one in enumerate(listed):
        if one in listed[:place]:
            raise UsageError(f"values has {quoted(one)} twice.", allowed=allowed, instead=instead)
    if len(listed) < 2:
        said = f"only {quoted(listed[0])}" if listed else "no entries"
        raise UsageError(f"values has {said}.", allowed=allowed, instead=instead)
    return listed


def _share(given: object) -> Any:
    number = finite_number(
        given, "A share", allowed=_SHARES, instead=_OF_SHARES, fits=lambda share: 0 <= share <= 1
    )
    return number if isinstance(given, float) else given


def _number(given: object) -> float:
    return float(finite_number(given, "A mean", allowed=_MEANS, instead=_OF_MEANS))


def _read_rows(given: object) -> int:
    allowed = f"a whole number from 1 to {_MOST_ROWS:,}, or None if it is unknown"
    rows = whole_number(given, "rows", allowed=allowed, instead="rows=10_000")
    if rows > _MOST_ROWS:
        raise UsageError(f"rows is {rows:,}.", allowed=allowed, instead="rows=10_000")
    return rows


def _tilted(numbers: Floats, masses: Floats, mean: float) -> tuple[float, ...]:
    """Return masses times e^{t·number}, normalised, with a mean; t by bisection."""
    used = numbers[masses > 0]
    if not used.min() < mean < used.max():
        raise UsageError(
            f"The mean {mean:g} is not inside the values, {used.min():g} to {used.max():g}.",
            allowed="a number between the least and the largest value",
            instead="laws= with a law that has this mean, if all rows have one value",
        )
    away = (numbers - mean) / np.abs(used - mean).max()
    low, high = -_MOST_TILT, _MOST_TILT
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _moment(away, masses, middle) < 0 else (low, middle)
    law = _weighted(away, masses, (low + high) / 2)
    return tuple((law / law.sum()).tolist())


def _weighted(away: Floats, masses: Floats, tilt: float) -> Floats:
    exponents = tilt * away
    return masses * np.exp(exponents - exponents[masses > 0].max())


def _moment(away: Floats, masses: Floats, tilt: float) -> float:
    return math.fsum((_weighted(away, masses, tilt) * away).tolist())
