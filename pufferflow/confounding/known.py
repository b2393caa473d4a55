"""The loss to adversaries who know columns of a row, and the reading of Bayesian differential privacy that follows.

An adversary who knows the values k of some columns has the law of the table given k. The loss to all of them is the
largest over the sets of columns, their possible values, and the pairs of secrets that remain possible. More knowledge
may make it larger or smaller, so every set is enumerated: the first half of an exclusive or is of no use, unless the
other half is known. Without knowledge it is the loss of `cost`. With all other columns known it is that of ordinary
differential privacy, at the values which the table has.

DCP's Definition 3, (ε_ω, δ_ω)-Bayesian privacy, requires P[M(x) ∈ Y] ≤ e^ε·P[M(x′) ∈ Y] + δ. That is for any x, x′ that
differ in one entry z ~ ω, "over the randomness of the output and of z". As printed it is not well defined, since x is
fixed and drawn at once. If both sides average over z, both are equal, and each release keeps it at (0, 0). Two readings
are left.
In `KnownCost` both entries are fixed, which implies every other reading. In `KnownCost.drawn` the second is drawn from
its law given what is known, and its δ is averaged over the draw: that of the joint laws of output and drawn entry.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, cast, final

from pufferflow.confounding.cost import Losses
from pufferflow.confounding.joint_law import (
    Pairs,
    ProjectedTable,
    Release,
    as_releases,
    check_size,
    columns_read,
    named_secret,
    pairs_of,
    see,
    tables_of,
)
from pufferflow.confounding.law_pairs import AveragedPair
from pufferflow.core.arrays import Array
from pufferflow.core.errors import UsageError
from pufferflow.core.validate import quoted
from pufferflow.models.domain import Label
from pufferflow.models.priors.table import Values

Known = dict[str, Label]


@final
@dataclass(frozen=True, eq=False, repr=False)
class KnownCost(Losses):
    """The losses to adversaries who know some columns of a row: the worst of all that they may know.

    >>> import pufferflow as pf
    >>> bits = {"secret": [0, 0, 1, 1], "first": [0, 1, 0, 1], "second": [0, 1, 1, 0], "probability": [0.25] * 4}
    >>> second = pf.confounding.Channel("second", [0, 1], [0, 1], [[0.75, 0.25], [0.25, 0.75]])
    >>> found = pf.confounding.cost_if_known(pf.Table(bits), second, known="first", secret="secret")
    >>> pf.confounding.cost(pf.Table(bits), second, secret="secret").pure, round(found.pure, 6), found.worst_known()
    (0.0, 1.098612, {'first': 0})
    """

    known: tuple[Known, ...]
    """What the adversary knows, for each of the laws."""
    averages: Pairs
    """For every value of the secret, and all that may be known, the pairs with the other value drawn."""

    def __repr__(self) -> str:
        facts = len({tuple(one.items()) for one in self.known})
        return f"<KnownCost to {facts} adversaries: pure epsilon {self.pure:.6g}>"

    def worst_known(self, delta: float = 0.0) -> Known:
        """Return the columns and values of the adversary to whom the most is lost at this δ."""
        losses = [pair.epsilon(delta) if delta else pair.pure for _, pair in self.laws]
        return self.known[max(range(len(losses)), key=losses.__getitem__)]

    @cached_property
    def drawn(self) -> Losses:
        """The losses with one of both values of the secret drawn from its law given what is known.

        The pairs that these laws name have both places filled by the value that is not drawn.
        """
        return Losses(self.averages)


def cost_if_known(
    table: Any,
    releases: Release | Sequence[Release],
    *,
    known: str | Sequence[str] | None = None,
    secret: Any = None,
) -> KnownCost:
    """Return the joint cost of releases to adversaries who know any of some columns of the row; exact as `cost` is.

    `known` names these columns, by default all but the secret. The adversary knows any of them, all, or none, so the
    cost is never below `cost(table, releases)`. `table`, `releases` and `secret` are as for `cost`. Where what is known
    excludes one of two values of the secret, there is nothing left to hide between them.

    This is Bayesian differential privacy (DCP's Definition 3), made precise: `KnownCost.drawn` has the entry drawn.

    >>> import pufferflow as pf
    >>> table = pf.Table({"ill": [0, 0, 1, 1], "test": [0, 1, 0, 1], "probability": [0.4, 0.1, 0.1, 0.4]})
    >>> coin = pf.confounding.Channel("test", [0, 1], [0, 1], [[0.75, 0.25], [0.25, 0.75]])
    >>> found = cost_if_known(table, coin)
    >>> round(found.pure, 6), found.worst_known(), round(found.drawn.delta(0.1), 6), round(found.delta(0.1), 6)
    (0.619039, {}, 0.131595, 0.26319)
    """
    listed = as_releases(releases)
    read = columns_read(listed)
    hidden = see(table, secret, read).secret
    about = secret if secret is not None or named_secret(table, None) is not None else hidden
    columns = _columns(table, known, hidden)
    seen = see(table, about, list(dict.fromkeys([*read, *columns])))
    laws: Pairs = []
    facts: list[Known] = []
    averages: Pairs = []
    for one, what in _adversaries(seen, columns):
        pairs = pairs_of(one, listed)
        laws += pairs
        facts += [what] * len(pairs)
        averages += _averaged(one, pairs)
    return KnownCost(laws, tuple(facts), averages)


def _columns(table: Any, known: str | Sequence[str] | None, hidden: str) -> list[str]:
    """Return the columns that adversaries may know."""
    if known is None:
        return [name for name in tables_of(table)[0].names if name != hidden]
    columns = [known] if isinstance(known, str) else known
    if not isinstance(cast(object, columns), list | tuple) or len(set(columns)) < len(columns):
        raise UsageError(
            f"known is {quoted(cast(object, known))}.",
            allowed="the name of a column, or a list of different ones, which may be empty",
            instead='known=["age"]',
        )
    if hidden in columns:
        raise UsageError(
            f"known has the secret {hidden!r} itself.",
            allowed="columns beside the secret",
            instead="known without it",
        )
    return list(columns)


def _adversaries(
    seen: ProjectedTable, columns: Sequence[str]
) -> Iterator[tuple[ProjectedTable, Known]]:
    """Yield each table given what an adversary knows, and what that is; those with a pair of secrets left."""
    count = 2 ** len(columns)
    steps = count * len(seen.points) * len(seen.pairs) * len(seen.masses)
    check_size(steps, f"{count} sets of known columns")
    subsets = [subset for size in range(len(columns) + 1) for subset in combinations(columns, size)]
    for joint in seen.masses:
        for subset in subsets:
            groups: dict[Values, list[int]] = {}
            for at, point in enumerate(seen.points):
                groups.setdefault(seen.place(subset, point), []).append(at)
            for values, places in groups.items():
                given = _given(seen, joint, places)
                if given is not None:
                    yield given, dict(zip(subset, values, strict=True))


def _given(seen: ProjectedTable, joint: Array, places: list[int]) -> ProjectedTable | None:
    """Return a table given that its point is one of some; None if no pair of secrets remains possible."""
    masses = joint[:, places]
    possible = [at for at, row in enumerate(masses.tolist()) if any(row)]
    new = {at: place for place, at in enumerate(possible)}
    pairs = tuple((new[one], new[two]) for one, two in seen.pairs if one in new and two in new)
    if not pairs:
        return None
    kept = [at for at, column in enumerate(masses.T.tolist()) if any(column)]
    return ProjectedTable(
        seen.secret,
        tuple(seen.values[at] for at in possible),
        pairs,
        seen.columns,
        tuple(seen.points[places[at]] for at in kept),
        (masses[possible][:, kept],),
    )


def _averaged(seen: ProjectedTable, pairs: Pairs) -> Pairs:
    """Return for every value, in both orders, its law beside that of another value, which is drawn."""
    (chances,) = seen.chances
    found: Pairs = []
    for order in (0, 1):
        for value in dict.fromkeys(pair[order] for pair in seen.pairs):
            others = [
                (chances[pair[1 - order]], law)
                for pair, (_, law) in zip(seen.pairs, pairs, strict=True)
                if pair[order] == value
            ]
            name = seen.values[value]
            found.append(((name, name), AveragedPair(tuple(others))))
    return found
