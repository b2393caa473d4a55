"""Which two values of a secret must be indistinguishable."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast, final

import numpy as np

from pufferflow.core.arrays import Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.suggestions import nearest, suggests_arguments
from pufferflow.core.validate import number_above, quoted, set_fields
from pufferflow.models.domain import (
    MISSING,
    ONE_COLUMN,
    Domain,
    Interval,
    Label,
    OneColumn,
    Product,
)
from pufferflow.models.stored import Stored, stored_as


@final
@suggests_arguments
@dataclass(frozen=True)
class WithinDistance(Stored):
    """All pairs of values whose distance is at most `distance`.

    >>> WithinDistance(2)
    WithinDistance(distance=2.0)
    """

    distance: float = field(metadata=stored_as("closer"))

    def __post_init__(self) -> None:
        set_fields(
            self, distance=number_above(self.distance, "distance", 0.0, "pf.WithinDistance(2)")
        )


_MOST_LISTED: Final = 512
"""Values of a domain whose pairs are put into a list."""
Chosen = tuple[tuple[Label, Label], ...]
Rule = Literal["all", "adjacent"] | OneColumn | WithinDistance | Chosen


def read_rule(given: object, domain: Domain) -> Rule:
    """Return a rule for pairs, checked against the domain."""
    if isinstance(domain, Product):
        return _of_tuples(given)
    if domain.skips:
        return _with_missing(given, domain)
    allowed = '"all", "adjacent", pf.WithinDistance(distance) or a list of pairs of values'
    if isinstance(given, str):
        if given not in ("all", "adjacent"):
            near = nearest(given, ("all", "adjacent"))
            meant = f'"{near[0] if near else "all"}"'
            if isinstance(domain, Interval) and near == ["adjacent"]:
                meant = "pf.WithinDistance(1.0)"
            raise UsageError(
                f"pairs is {quoted(given)}.", allowed=allowed, instead=f"pairs={meant}"
            )
        rule: Rule = "all" if given == "all" else "adjacent"
    elif isinstance(given, WithinDistance):
        rule = given
    else:
        rule = _listed_pairs(given, domain, allowed)
    _check(rule, domain)
    return rule


def _with_missing(given: object, domain: Domain) -> Rule:
    """Return a rule where null is a state of its own: whether a value is missing is as secret as the value."""
    if given == "all":
        return "all"
    if isinstance(domain, Interval):
        raise Refused(
            'missing="skip" on an interval hides every value and a missing one from each other, not only some pairs.',
            allowed='pairs="all", for which noise is hardly larger: a row that is missing adds nothing to a sum',
            instead='pairs="all", or pf.Bins(edges, values) as the domain',
        )
    if isinstance(given, Sequence) and not isinstance(given, str):
        named = _listed_pairs(cast(object, given), domain, "a list of pairs of values")
    else:
        named = tuple(value_pairs(read_rule(given, domain.present), domain.present))
    beside = ((value, MISSING) for value in domain.present.points)
    known = {frozenset(pair) for pair in named}
    return *named, *(pair for pair in beside if frozenset(pair) not in known)


def _check(rule: Rule, domain: Domain) -> None:
    """Refuse rules that leave no pair of values to hide."""
    if rule == "all" or isinstance(rule, tuple):
        return
    if isinstance(domain, Interval):
        _on_interval(rule, domain)
    elif isinstance(rule, WithinDistance) and not _any_near(rule, domain):
        raise UsageError(
            f"No two values lie within {rule.distance:g}, so there is no pair to hide.",
            allowed="a distance that some two values of the domain have",
            instead='pairs="adjacent"',
        )


def _of_tuples(given: object) -> Rule:
    if given == "all":
        return "all"
    if given == ONE_COLUMN:
        return ONE_COLUMN
    raise UsageError(
        f"pairs of tuples is {quoted(given)}.",
        allowed=f'"all", or {ONE_COLUMN!r} for those that differ in one column only',
        instead='pairs="all": it hides every column, and what follows from several',
    )


def _listed_pairs(given: object, domain: Domain, allowed: str) -> Chosen:
    instead = f"pairs=[({domain.points[0]!r}, {domain.points[1]!r})]"
    if not isinstance(given, Sequence) or not given:
        raise UsageError(
            f"pairs is of type {type(cast(object, given)).__name__}, or empty.",
            allowed=allowed,
            instead=instead,
        )
    pairs: list[tuple[Label, Label]] = []
    for pair in cast(Sequence[Any], given):
        if (
            isinstance(pair, str)
            or not isinstance(pair, Sequence)
            or len(cast(Sequence[Any], pair)) != 2
        ):
            raise UsageError(
                "pairs has an entry that is not a pair.", allowed=allowed, instead=instead
            )
        a, b = (
            domain.read(value, "a value of pairs", "pairs has", "")
            for value in cast(Sequence[Any], pair)
        )
        if a == b:
            raise UsageError(
                f"pairs has a pair of equal values, {a!r}.", allowed=allowed, instead=instead
            )
        pairs.append((a, b))
    return tuple(pairs)


def _any_near(rule: WithinDistance, domain: Domain) -> bool:
    order, ends = windows(rule, domain)
    return bool((ends > np.arange(len(order)) + 1).any())


def value_pairs(rule: Rule, domain: Domain) -> Sequence[tuple[Label, Label]]:
    """Return the pairs of values, each once; on an interval only those farthest apart, which stand for all."""
    if isinstance(rule, tuple):
        return list(rule)
    if isinstance(domain, Interval):
        return [_on_interval(rule, domain)]
    if rule == "all":
        few = len(domain.points) <= _MOST_LISTED
        return list(itertools.combinations(domain.points, 2)) if few else AnyTwo(domain.points)
    if rule == ONE_COLUMN:
        return cast(Product, domain).pairs_in_one_column()
    if rule == "adjacent":
        return list(itertools.pairwise(domain.points))
    places: list[list[int]] = near_places(rule, domain).tolist()
    return [(domain.points[i], domain.points[j]) for i, j in places]


@final
class AnyTwo(Sequence[tuple[Label, Label]]):
    """Any two of many values, in the order of `itertools.combinations`, without a list of them."""

    def __init__(self, points: Sequence[Label]) -> None:
        self._points = points

    def __len__(self) -> int:
        return math.comb(len(self._points), 2)

    def __iter__(self) -> Iterator[tuple[Label, Label]]:
        return itertools.combinations(self._points, 2)

    def __getitem__(self, place: int) -> tuple[Label, Label]:  # pyright: ignore[reportIncompatibleMethodOverride] - no slices
        """Return a pair by its place in that order, found by a formula for triangular numbers.

        >>> AnyTwo("abcd")[3]
        ('b', 'c')
        """
        if not 0 <= place < len(self):
            raise IndexError(place)
        behind = len(self) - 1 - place
        row = (math.isqrt(8 * behind + 1) - 1) // 2
        first = len(self._points) - 2 - row
        return self._points[first], self._points[-1 - (behind - row * (row + 1) // 2)]


def near_places(rule: WithinDistance, domain: Domain) -> Indices:
    """Return the pairs of values that are near, by their places, of shape (pairs, 2)."""
    order, ends = windows(rule, domain)
    counts = ends - np.arange(len(order)) - 1
    first = np.repeat(np.arange(len(order)), counts)
    second = first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
    places = np.sort(np.stack([order[first], order[second]], axis=1), axis=1)
    return places[np.lexsort((places[:, 1], places[:, 0]))]


def windows(rule: WithinDistance, domain: Domain) -> tuple[Indices, Indices]:
    """Return the places of values in growing order, and for each the end of those that are near and larger.

    >>> from pufferflow.models.domain import Listed
    >>> order, ends = windows(WithinDistance(1), Listed((3, 0, 1)))
    >>> order.tolist(), ends.tolist()
    ([1, 2, 0], [2, 2, 3])
    """
    numbers = domain.numbers
    slack = 1e-12 * (
        float(np.abs(numbers).max()) + rule.distance
    )  # 0.8 − 0.7 is more than 0.1 in floats
    order = np.argsort(numbers, kind="stable")
    growing = numbers[order]
    ends = np.searchsorted(growing, growing + (rule.distance + slack), side="right")
    return order, np.maximum(ends, np.arange(len(order)) + 1)


def rule_in_words(rule: Rule, what: str = "of them") -> str:
    """Return a rule as words for people."""
    if isinstance(rule, WithinDistance):
        return f"only differences of up to {rule.distance:g}"
    if isinstance(rule, tuple):
        return f"{len(rule)} pairs {what} that are named"
    if rule == ONE_COLUMN:
        return f"any two {what} that differ in one column only"
    return f"any two {what}" if rule == "all" else f"any two neighbouring {what}"


def _on_interval(rule: Rule, domain: Interval) -> tuple[Label, Label]:
    if rule == "adjacent":
        raise Refused(
            'pairs="adjacent" on an interval: there, no number has a next one.',
            allowed='pairs="all", pf.WithinDistance(distance) or a list of pairs for an interval',
            instead="pairs=pf.WithinDistance(1.0)",
        )
    if isinstance(rule, WithinDistance):
        return domain.low, min(domain.low + rule.distance, domain.high)
    return domain.low, domain.high
