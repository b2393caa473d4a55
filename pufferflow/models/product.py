"""Several sensitive columns as one (M53): a row has a tuple of values, each from the domain of its own column.

If any two tuples are indistinguishable, every column is hidden, and whatever follows from several of them. So chains,
exposures and accounts treat tuples as they treat the values of one column.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, cast, final

from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.validate import set_fields
from pufferflow.models.domain import Domain, Label

MOST_TUPLES: Final = 1024
"""All pairs of them are compared."""
TIMES: Final = " × "
"""The separator between the names of columns in the name of their tuples."""
OneColumn = Literal["one column"]
ONE_COLUMN: Final = "one column"
"""The rule by which two tuples are a pair only if they differ in a single column."""


@final
@dataclass(frozen=True)
class Product(Domain, kind="product"):
    """Tuples of values: the first columns vary slowest, as in `itertools.product`; on intervals points are corners.

    A point is a text, such as "level = 1, ward = 'a'". `missing` has what null is read as, column by column.

    >>> from pufferflow.models.domain import Listed
    >>> Product(("level", "ward"), (Listed((0, 1)), Listed(("a", "b"))), (0, "a")).points[1]
    "level = 0, ward = 'b'"
    """

    columns: tuple[str, ...]
    domains: tuple[Domain, ...]
    missing: tuple[Label, ...]
    missing_chosen: tuple[bool | None, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        self._check_columns()
        pairs = zip(self.domains, self.missing, strict=True)
        missing = tuple(domain.read(value, "missing", "missing is", "missing=") for domain, value in pairs)
        set_fields(self, missing=missing, missing_chosen=self.missing_chosen or (None,) * len(self.columns))
        self._check_count([domain for domain in self.domains if domain.finite])

    def _check_count(self, domains: Sequence[Domain]) -> None:
        """Refuse more points than can be compared; corners of intervals are only those of queried columns."""
        count = math.prod(len(domain.points) for domain in domains)
        if count > MOST_TUPLES:
            sizes = " × ".join(str(len(domain.points)) for domain in domains)
            raise Refused(
                f"The columns {', '.join(map(repr, self.columns))} have {sizes} = {count:,} tuples of values.",
                allowed=f"at most {MOST_TUPLES:,} of them: all pairs are compared",
                instead="pf.Bins(edges, values) with fewer classes, or pf.Interval(low, high) if rows are independent",
            )

    def _check_columns(self) -> None:
        """Refuse columns without names, domains or values for missing ones of their own; only stored ones are so."""
        names = [name for name in self.columns if isinstance(cast(object, name), str) and name]
        whole = len(set(names)) == len(self.columns) == len(self.domains) == len(self.missing)
        if not whole or any(isinstance(domain, Product) for domain in self.domains):
            raise UsageError(
                "The columns of the tuples do not have a name, a domain and a value for missing ones each.",
                allowed="different columns, each with a domain of its own, and a value of it as which null is read",
                instead='secret=[pf.Secret("hours", domain=[0, 1, 2]), pf.Secret("wage", domain=[10, 20])]',
            )

    def check_named(self, column: str, missing: Label) -> None:
        """Refuse another name than that of the tuples, and a tuple of its own for missing ones: columns have theirs."""
        if column != self.name or missing != self.first:
            raise UsageError(
                "A secret of tuples has another name than its columns give it, or another value for missing tuples.",
                allowed=f"the name {self.name!r}; each column has its own value for missing ones",
                instead="pf.Secret.together(…), of a secret for each column",
            )

    @property
    def skips(self) -> bool:
        """Whether null is a state of its own in some column."""
        return any(domain.skips for domain in self.domains)

    @property
    def finite(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the points are all tuples."""
        return all(domain.finite for domain in self.domains)

    @cached_property
    def points(self) -> tuple[Label, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The tuples in words."""
        return tuple(map(self._in_words, self.tuples))

    @property
    def first(self) -> Label:
        """The first point."""
        return self._in_words(tuple(domain.points[0] for domain in self.domains))

    def _in_words(self, values: Sequence[Label]) -> Label:
        return ", ".join(f"{column} = {value!r}" for column, value in zip(self.columns, values, strict=True))

    def read(self, value: object, name: str, problem: str, instead: str) -> Label:
        return self.first if value == self.first else super().read(value, name, problem, instead)

    @cached_property
    def tuples(self) -> tuple[tuple[Label, ...], ...]:
        """The values of each column at every point."""
        self._check_count(self.domains)
        return tuple(itertools.product(*(domain.points for domain in self.domains)))

    @property
    def name(self) -> str:
        """The name of the column of tuples, which no table has."""
        return TIMES.join(self.columns)

    def has(self, columns: Iterable[str]) -> bool:
        """Return whether it has all of some columns."""
        return set(columns) <= set(self.columns)

    def part(self, columns: Collection[str]) -> "Product":
        """Return the product of the domains of some of its columns, in its own order."""
        own = [place for place, column in enumerate(self.columns) if column in columns]
        return Product(
            tuple(self.columns[place] for place in own),
            tuple(self.domains[place] for place in own),
            tuple(self.missing[place] for place in own),
            tuple(self.missing_chosen[place] for place in own),
        )

    @cached_property
    def numeric(self) -> bool:
        """No tuple is a number."""
        return False

    def describe(self) -> str:
        return "; ".join(
            f"{column!r}: {domain.describe()}" for column, domain in zip(self.columns, self.domains, strict=True)
        )

    def pairs_in_one_column(self) -> list[tuple[Label, Label]]:
        """Return the pairs of points that differ in a single column."""
        both = zip(itertools.combinations(self.points, 2), itertools.combinations(self.tuples, 2), strict=True)
        return [pair for pair, (first, second) in both if _differences(first, second) == 1]

    def stored(self) -> dict[str, Any]:
        return {**super().stored(), "domains": [domain.stored() for domain in self.domains]}

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> "Product":
        domains = tuple(Domain.from_stored(domain) for domain in stored["domains"])
        return cls(tuple(stored["columns"]), domains, tuple(stored["missing"]))


def _differences(first: Sequence[Label], second: Sequence[Label]) -> int:
    return sum(a != b for a, b in zip(first, second, strict=True))
