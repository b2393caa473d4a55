"""Releases about groups of rows: the total loss about one row, one replacement or one unit (M27).

Each mechanism reads the rows of one group. Its guarantee holds for adding, removing **and** replacing a row of its
group, as it does where it holds for neighbours among whole tables: then the losses of the groups that a change touches
add up, and others lose nothing (GRAN IV.11, IV.13). A mechanism that is private for replacements inside its group only
guarantees nothing where rows may change groups: counts without noise keep ε = 0 there, and together they reveal
everything (GRAN II.9).
"""

import abc
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any, Final, cast, final

from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import float_above
from pufferflow.core.validate import finite_number, quoted, set_fields, whole_number
from pufferflow.granularity.charges import (
    Charges,
    Loss,
    NumberKind,
    PromiseKind,
    added,
    kind_of,
    largest,
)
from pufferflow.granularity.neighbours import Neighbours, read_neighbours, unbounded

_MOST_PATTERNS: Final = 2_000
Losses = Sequence[Loss] | Mapping[Any, Loss]


class _Groups(InNotebooks, abc.ABC):
    """Base of groups: their names, and which of them one row may be in."""

    names: tuple[Hashable, ...]
    patterns: tuple[tuple[int, ...], ...] | None
    """The places of the groups that a row is in, for each kind of row; None where it may be in any `most` of them."""
    members: tuple[frozenset[Hashable], ...] | None
    """The values of the rows of each group, if they were given."""

    @property
    @abc.abstractmethod
    def most(self) -> int:
        """In how many groups a row or unit is at most."""

    def __len__(self) -> int:
        return len(self.names)

    def total(
        self, losses: Losses, neighbours: Neighbours = unbounded, kind: NumberKind = "pure"
    ) -> Loss:
        """Return the joint guarantee of releases about the groups: the largest sum over groups that one change touches.

        `losses` are the guarantees of the groups, in their order or by their names. All are of one kind, or plain
        numbers: ε, or ρ or μ by their `kind`. `neighbours` is `unbounded`, `bounded`, `in_place`, or `k_rows` of these.
        """
        rows = _rows(neighbours)
        listed = self._in_order(losses)
        of_kind = kind_of(listed, kind)
        grown = [of_kind.at(of_kind.read(loss), rows) for loss in listed]
        return of_kind.made(self._largest(grown, of_kind, moves=neighbours.moves))

    def part(self, name: Hashable) -> Callable[[Iterable[Any]], tuple[Any, ...]]:
        """Return a function that selects the rows of one group from a table, in their order."""
        if self.members is None or name not in self.names:
            raise UsageError(
                f"No group with known values is called {quoted(name)}.",
                allowed=f"one of {list(self.names)[:6]}, of groups that were given with their values",
                instead='Partition({"north": ["a", "b"], "south": ["c"]}).part("north")',
            )
        values = self.members[self.names.index(name)]
        return lambda table: tuple(row for row in table if row in values)

    def _in_order(self, losses: object) -> list[Loss]:
        """Return a loss for each group."""
        if isinstance(losses, Mapping):
            by_name = cast(Mapping[Any, Loss], losses)
            listed = [by_name[name] for name in self.names if name in by_name]
            fits = len(listed) == len(by_name) == len(self)
        else:
            listed = list(cast(Iterable[Loss], losses)) if isinstance(losses, Iterable) else []
            fits = not isinstance(losses, str | bytes) and len(listed) == len(self)
        if not fits:
            raise UsageError(
                f"The losses do not fit {len(self)} groups.",
                allowed="a number or guarantee for each group, in their order or by their names",
                instead=f"[{', '.join(['0.5'] * min(len(self), 3))}]",
            )
        return listed

    def _largest(self, charges: Sequence[Charges], kind: PromiseKind, *, moves: bool) -> Charges:
        width = len(charges[0])
        if self.patterns is None:
            touched = min(self.most * (2 if moves else 1), len(charges))
            ranked = [
                sorted((one[place] for one in charges), reverse=True)[:touched]
                for place in range(width)
            ]
            return added([tuple(column[at] for column in ranked) for at in range(touched)], width)
        sets = {frozenset(pattern) for pattern in self.patterns} | {frozenset[int]()}
        if moves:
            if len(sets) > _MOST_PATTERNS:
                raise Refused(
                    f"Rows are in {len(sets)} different sets of groups, whose pairs are too many to look at.",
                    allowed=f"at most {_MOST_PATTERNS} sets",
                    instead=f"Overlapping({len(self)}, most={self.most}), which needs no list and is no less",
                )
            sets = {one | other for one, other in combinations_with_replacement(sets, 2)}
        return largest([added([charges[at] for at in some], width) for some in sets if some], width)


@final
@dataclass(frozen=True, init=False)
class Partition(_Groups):
    """Disjoint groups of rows: their number, or for each group the values of the rows in it.

    Adding, removing or replacing a row in its place costs the largest loss. Replacing a row by one of another group
    costs the two largest losses together.

    >>> from pufferflow.granularity import bounded, unbounded
    >>> groups = Partition({"north": ["a", "b"], "south": ["c"]})
    >>> groups.total([0.3, 0.7], unbounded), groups.total({"north": 0.3, "south": 0.7}, bounded)
    (0.7, 1.0)
    >>> groups.part("north")("aabc")
    ('a', 'a', 'b')
    """

    names: tuple[Hashable, ...]
    patterns: tuple[tuple[int, ...], ...] | None
    members: tuple[frozenset[Hashable], ...] | None

    def __init__(self, groups: object) -> None:
        names, members = _read_groups(groups)
        shared = _shared(members) if members is not None else None
        if shared is not None:
            raise UsageError(
                f"The groups {names[shared[0]]!r} and {names[shared[1]]!r} share a value, so they are no partition.",
                allowed="groups without a shared value",
                instead="pf.granularity.Overlapping(groups), which counts each row in all its groups",
            )
        set_fields(self, names=names, members=members, patterns=None)

    @property
    def most(self) -> int:
        """In how many groups a row is: one."""
        return 1


@final
@dataclass(frozen=True, init=False)
class Overlapping(_Groups):
    """Overlapping groups: a row or a person is in at most `most` of them, if limits on contributions ensure that.

    Adding or removing a row costs the `most` largest losses, replacing it twice as many. If the values of each group's
    rows are given, only groups that share a row add up.

    >>> from pufferflow.granularity import bounded, unbounded
    >>> groups = Overlapping(7, most=2)
    >>> losses = [0.3, 0.7, 0.5, 0.2, 0.9, 0.1, 0.4]
    >>> groups.total(losses, unbounded), groups.total(losses, bounded), groups.total(losses, unbounded, kind="gdp")
    (1.6, 2.5, 1.140...)
    """

    names: tuple[Hashable, ...]
    patterns: tuple[tuple[int, ...], ...] | None
    members: tuple[frozenset[Hashable], ...] | None
    _most: int

    def __init__(self, groups: object, most: int | None = None) -> None:
        names, members = _read_groups(groups)
        patterns = None if members is None else _patterns(members)
        if patterns is None:
            limit = whole_number(
                most,
                "most",
                allowed="in how many groups a row or person is at most",
                instead="Overlapping(7, most=2)",
            )
        else:
            if most is not None:
                raise UsageError(
                    "most is given together with the values of groups, which determine it.",
                    allowed="one of the two",
                    instead="Overlapping(groups)",
                )
            limit = max(map(len, patterns), default=1)
        set_fields(
            self, names=names, members=members, patterns=patterns, _most=min(limit, len(names))
        )

    @property
    def most(self) -> int:
        """In how many groups a row is at most."""
        return self._most


def sum_sensitivity(low: float, high: float, neighbours: Neighbours = unbounded) -> float:
    """Return how far a sum of values in [low, high] moves between neighbours, rounded up (M27).

    It is max(|L|, |U|) for a row more or less, and U − L for a row replaced in its place. If the replaced row may go to
    another group, it is the largest of the three numbers.

    >>> from pufferflow.granularity import bounded, in_place
    >>> sum_sensitivity(5, 9), sum_sensitivity(5, 9, in_place), sum_sensitivity(5, 9, bounded)
    (9.0, 4.0, 9.0)
    """
    allowed, instead = (
        "two finite numbers, the least and the largest value",
        "sum_sensitivity(0, 99)",
    )
    bottom = Fraction(finite_number(low, "low", allowed=allowed, instead=instead))
    top = Fraction(
        finite_number(
            high, "high", allowed=allowed, instead=instead, fits=lambda given: given >= bottom
        )
    )
    rows = _rows(neighbours)
    ends, spread = max(abs(bottom), abs(top)), top - bottom
    stays = spread if neighbours.fixed_size else ends
    return float_above((max(ends, spread) if neighbours.moves else stays) * rows)


def _read_groups(
    groups: object,
) -> tuple[tuple[Hashable, ...], tuple[frozenset[Hashable], ...] | None]:
    """Return the names of groups (their places, if they have none) and their values, if these are given."""
    if isinstance(groups, int):
        count = whole_number(
            groups, "groups", allowed="how many groups there are, or their values", instead="3"
        )
        return tuple(range(count)), None
    given = cast(Any, groups)
    try:
        names: tuple[Hashable, ...] = (
            tuple(given) if isinstance(groups, Mapping) else tuple(range(len(given)))
        )
        members = tuple(
            frozenset(group) for group in (given.values() if isinstance(groups, Mapping) else given)
        )
    except TypeError:
        raise _bad_groups(
            f"The groups are {quoted(given)}, or one of them has no values."
        ) from None
    if not names or isinstance(groups, str | bytes):
        raise _bad_groups("There are no groups.")
    return names, members


def _bad_groups(problem: str) -> UsageError:
    return UsageError(
        problem,
        allowed="how many groups there are, or the values of the rows in each",
        instead='Partition(3), or Partition({"north": ["a", "b"], "south": ["c"]})',
    )


def _patterns(members: Sequence[frozenset[Hashable]]) -> tuple[tuple[int, ...], ...]:
    """Return the distinct sets of groups that some value is in."""
    groups = dict[Hashable, list[int]]()
    for place, group in enumerate(members):
        for value in group:
            groups.setdefault(value, []).append(place)
    return tuple(dict.fromkeys(tuple(places) for places in groups.values()))


def _shared(members: Sequence[frozenset[Hashable]]) -> tuple[int, int] | None:
    """Return the places of two groups that share a value; None if no two do."""
    return next((some[:2] for some in _patterns(members) if len(some) > 1), None)  # pyright: ignore[reportReturnType]


def _rows(neighbours: object) -> int:
    """Return how many rows neighbours differ in."""
    notion = read_neighbours(neighbours)
    if notion.rows is None:
        raise Refused(
            f"The notion {notion.name!r} does not say how many rows differ, so which groups are touched is not known.",
            allowed="pf.granularity.unbounded, bounded, in_place, and k_rows of them",
            instead="pf.granularity.together(space, parts), by enumeration",
        )
    return notion.rows
