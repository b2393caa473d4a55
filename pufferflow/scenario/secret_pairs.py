"""Which two values of a secret must look alike."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, final

import numpy as np

from pufferflow.arguments import finite_number, set_fields, shown
from pufferflow.errors import Misuse, Refused
from pufferflow.scenario.domain import Domain, Interval, Label
from pufferflow.scenario.product import ONE_COLUMN, OneColumn, Product
from pufferflow.scenario.stored import Stored, stored_as
from pufferflow.suggestions import nearest, suggests_arguments


@final
@suggests_arguments
@dataclass(frozen=True)
class Closer(Stored):
    """All pairs of values that lie no farther apart than `distance`.

    >>> Closer(2)
    Closer(distance=2.0)
    """

    distance: float = field(metadata=stored_as("closer"))

    def __post_init__(self) -> None:
        allowed, instead = "a finite number > 0", "pf.Closer(2)"
        distance = finite_number(
            self.distance, "distance", allowed=allowed, instead=instead, fits=lambda distance: distance > 0
        )
        set_fields(self, distance=distance)


Chosen = tuple[tuple[Label, Label], ...]
Rule = Literal["all", "adjacent"] | OneColumn | Closer | Chosen


def read_rule(given: object, domain: Domain) -> Rule:
    """Return a rule for pairs, checked against the domain."""
    if isinstance(domain, Product):
        return _of_tuples(given)
    allowed = '"all", "adjacent", pf.Closer(distance) or a list of pairs of values'
    if isinstance(given, str):
        if given not in ("all", "adjacent"):
            near = nearest(given, ("all", "adjacent"))
            meant = f'"{near[0] if near else "all"}"'
            if isinstance(domain, Interval) and near == ["adjacent"]:
                meant = "pf.Closer(1.0)"
            raise Misuse(f"pairs is {shown(given)}.", allowed=allowed, instead=f"pairs={meant}")
        rule: Rule = "all" if given == "all" else "adjacent"
    elif isinstance(given, Closer):
        rule = given
    else:
        rule = _listed_pairs(given, domain, allowed)
    value_pairs(rule, domain)
    return rule


def _of_tuples(given: object) -> Rule:
    if given == "all":
        return "all"
    if given == ONE_COLUMN:
        return ONE_COLUMN
    raise Misuse(
        f"pairs of tuples is {shown(given)}.",
        allowed=f'"all", or {ONE_COLUMN!r} for those that differ in one column only',
        instead='pairs="all": it hides every column, and what follows from several',
    )


def _listed_pairs(given: object, domain: Domain, allowed: str) -> Chosen:
    instead = f"pairs=[({domain.points[0]!r}, {domain.points[1]!r})]"
    if not isinstance(given, Sequence) or not given:
        raise Misuse(
            f"pairs is of type {type(cast(object, given)).__name__}, or empty.", allowed=allowed, instead=instead
        )
    pairs: list[tuple[Label, Label]] = []
    for pair in cast(Sequence[Any], given):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(cast(Sequence[Any], pair)) != 2:
            raise Misuse("pairs has an entry that is no pair.", allowed=allowed, instead=instead)
        a, b = (domain.read(value, "a value of pairs", "pairs has", "") for value in cast(Sequence[Any], pair))
        if a == b:
            raise Misuse(f"pairs has a pair of equal values, {a!r}.", allowed=allowed, instead=instead)
        pairs.append((a, b))
    return tuple(pairs)


def value_pairs(rule: Rule, domain: Domain) -> list[tuple[Label, Label]]:
    """Return the pairs of values, each once; on an interval those that lie farthest apart, which stand for all."""
    if isinstance(rule, tuple):
        return list(rule)
    if isinstance(domain, Interval):
        return [_on_interval(rule, domain)]
    if rule == "all":
        return list(itertools.combinations(domain.points, 2))
    if rule == ONE_COLUMN:
        return cast(Product, domain).pairs_in_one_column()
    if rule == "adjacent":
        return list(itertools.pairwise(domain.points))
    numbers = domain.numbers
    slack = 1e-12 * (float(np.abs(numbers).max()) + rule.distance)  # 0.8 − 0.7 is more than 0.1 in floats
    near = np.abs(numbers[:, None] - numbers[None, :]) <= rule.distance + slack
    pairs = [(domain.points[i], domain.points[j]) for i, j in np.argwhere(np.triu(near, 1)).tolist()]
    if not pairs:
        raise Misuse(
            f"No two values lie within {rule.distance:g}: nothing would be hidden.",
            allowed="a distance that some two values of the domain have",
            instead='pairs="adjacent"',
        )
    return pairs


def rule_in_words(rule: Rule, what: str = "of them") -> str:
    """Return a rule as words for people."""
    if isinstance(rule, Closer):
        return f"any two {what} no farther apart than {rule.distance:g}"
    if isinstance(rule, tuple):
        return f"{len(rule)} pairs {what} that are named"
    if rule == ONE_COLUMN:
        return f"any two {what} that differ in one column only"
    return f"any two {what}" if rule == "all" else f"any two neighbouring {what}"


def _on_interval(rule: Rule, domain: Interval) -> tuple[Label, Label]:
    if rule == "adjacent":
        raise Refused(
            "Adjacent values of an interval: every number has another one arbitrarily near.",
            allowed='pairs="all", pf.Closer(distance) or a list of pairs for an interval',
            instead="pairs=pf.Closer(1.0)",
        )
    if isinstance(rule, Closer):
        return domain.low, min(domain.low + rule.distance, domain.high)
    return domain.low, domain.high
