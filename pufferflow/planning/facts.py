"""What a plan learns from public columns: patterns and keys at one moment, sizes of cells when something asks for them.

What was read is also what a release compares with the source (`digest`).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.arrays import Floats
from pufferflow.bounds import Laws, SeveralLaws
from pufferflow.engine import NO_FILES, PLACED, Order, Patterns, Snapshot, Tally
from pufferflow.errors import Misuse, Refused
from pufferflow.inference import ShortestMovement, of_pattern, window
from pufferflow.planning.public_facts import SourceDigest, read_cells, read_patterns
from pufferflow.planning.tables import Tables
from pufferflow.queries import Pattern, Request
from pufferflow.scenario import AnySecret, Initial, Presence, Scenario
from pufferflow.scenario.priors import AnyCorrelation, Prior

ONE_ROW = Pattern(np.zeros(1, dtype=np.intp), np.ones(1, dtype=np.intp), np.zeros(1))


@final
class PublicFacts:
    """The public facts behind a request; every query on them reads public columns only."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self._patterns = dict[Order, Patterns | Misuse]()
        self._snapshot = Snapshot.of(request.frame) if request.counts_are_public else NO_FILES

    @cached_property
    def cells(self) -> Tally:
        """The keys of the answer in their order, and how many rows each cell has; refused where that is private."""
        request = self.request
        if request.counts_are_public:
            return read_cells(request)
        rows = np.zeros(1 if request.keys is None else request.keys.height, dtype=np.int64)
        return Tally(request.keys, rows, np.zeros((len(rows), 0), dtype=np.int64))

    @property
    def size(self) -> Floats | None:
        """How many rows each cell has; None where that is private."""
        return self.cells.rows.astype(np.float64) if self.request.counts_are_public else None

    def patterns(self, prior: Prior) -> Patterns:
        """Return the patterns of the groups whose rows may hang together, as far as they matter to a prior."""
        scenario = self.request.scenario
        if isinstance(scenario.secret, Presence):
            if isinstance(prior, AnyCorrelation) and scenario.within != (scenario.secret.within,):
                raise _more_may_leave(scenario.secret.within, scenario.within)
            return Patterns((_present(scenario.secret),), 1)
        if not prior.independent_rows and _order_of(prior, scenario.secret) == PLACED and not scenario.start_known:
            raise Misuse(
                "The prior or the secret speaks of the beginning of sequences, and it is not known when they began.",
                allowed="a scenario with the start of all sequences",
                instead='pf.Scenario(..., start="2026-01-01")',
            )
        self._read(*_orders_of(scenario))
        if prior.independent_rows:
            return Patterns((ONE_ROW,), 1)
        order = _order_of(prior, scenario.secret)
        self._read(order)
        found = self._patterns[order]
        if isinstance(found, Misuse):
            raise found
        return found

    def windows(self, prior: Prior, secret: AnySecret) -> tuple[Pattern, ...]:
        """Return the patterns without the rows that cost no more than others, each once; one row if there is none."""
        found = self.patterns(prior).distinct or (ONE_ROW,)
        shorter = [window(prior, secret, pattern) for pattern in found]
        if all(one is pattern for one, pattern in zip(shorter, found, strict=True)):
            return tuple(found)
        return tuple({_looks(prior, one): one for one in reversed(shorter)}.values())[::-1]

    @property
    def placed(self) -> tuple[Pattern, ...] | None:
        """The patterns of groups where they stand in time; None where that cannot be told of all of them."""
        return None if self._placed is None else self._placed.distinct

    @property
    def reach(self) -> tuple[float, float] | None:
        """The positions of the first and the last row, asked about or not."""
        return None if self._placed is None else self._placed.reach

    @property
    def clock(self) -> str:
        """How the positions of the patterns that were placed are counted."""
        return "" if self._placed is None else self._placed.clock

    @property
    def digest(self) -> SourceDigest:
        """All that was read so far, to be compared with the source at a release."""
        keyed = bool(self._patterns) and self._keys_of_rows
        return SourceDigest.of(self._patterns, self.cells.keys if keyed else None, self._snapshot)

    @property
    def _placed(self) -> Patterns | None:
        if not self.request.counts_are_public:
            return None
        self._read(PLACED)
        found = self._patterns[PLACED]
        return None if isinstance(found, Misuse) else found  # too many steps, or rows before all time

    @property
    def _keys_of_rows(self) -> bool:
        """Whether the keys of the answer are those that the rows have."""
        return bool(self.request.by) and self.request.keys is None

    def _read(self, *orders: Order) -> None:
        """Read the patterns that are not known, and the keys with the first of them."""
        fresh = [order for order in dict.fromkeys(orders) if order not in self._patterns]
        if fresh:
            self._patterns |= read_patterns(self.request, fresh)
            if self._keys_of_rows:
                _ = self.cells

    def laws(self, ways: Sequence[Sequence[Tables]], weights: Floats) -> Laws:
        """Return the laws of the weighted sums under all priors and patterns, by the shortest of each prior's ways.

        If no row is asked about at all, noise is made for one row: empty answers are as noisy as others.
        """
        pieces: list[Laws] = []
        for of_prior in ways:
            patterns = self.windows(of_prior[0].prior, of_prior[0].secret)
            for pattern in patterns:
                found = [self._of_pattern(one, pattern, weights, len(patterns)) for one in of_prior]
                pieces.append(found[0] if len(found) == 1 and of_prior[0].exact else ShortestMovement(found))
        return SeveralLaws(pieces)

    def laws_on(self, patterns: Sequence[Pattern], one: Tables, weights: Floats) -> Laws:
        """Return the laws of the weighted sums on some patterns, seen in one way."""
        return SeveralLaws(
            [self._of_pattern(one, pattern, weights, len(patterns)) for pattern in patterns or (ONE_ROW,)]
        )

    def _of_pattern(self, one: Tables, pattern: Pattern, weights: Floats, patterns: int) -> Laws:
        if one.apart:
            pattern = replace(pattern, covers=True)  # which adds up movements of either sign
        values = one.values
        if not isinstance(one.secret, Presence):
            values = values - values.min(axis=1, keepdims=True)  # only differences matter, and small numbers are exact
        scaled = values * weights[:, None]  # exact: whole steps times short binary fractions
        rounding = None if one.rounding is None else one.rounding * weights
        keys, column = self.request.keys, self.request.column
        cells = 1 if not self.request.by else None if keys is None else keys.height
        return of_pattern(one.prior, one.secret, pattern, scaled, column, rounding, cells=cells, patterns=patterns)


def _orders_of(scenario: Scenario) -> list[Order]:
    """Return in which orders the priors and the secret of a scenario look at rows: read at once, they fit together."""
    found = [_order_of(prior, scenario.secret) for prior in scenario.priors if not prior.independent_rows]
    placed = isinstance(scenario.secret, Initial) or any(order.ordered for order in found)
    return [*found, *([PLACED] if placed else [])]


def _order_of(prior: Prior, secret: AnySecret) -> Order:
    if isinstance(secret, Initial):
        return PLACED
    return Order(ordered=True, period=prior.repeats) if prior.ordered else Order(ordered=False)


def _looks(prior: Prior, pattern: Pattern) -> tuple[object, ...]:
    """Return what tells the laws of patterns apart: where a chain repeats from its start, phases instead of steps."""
    where, start = pattern.positions, pattern.start
    if where is not None and prior.repeats is not None:
        where, start = where - where[0] // prior.repeats * prior.repeats, 0.0
    return (
        pattern.cells.tobytes(),
        pattern.counts.tobytes(),
        where is not None and where.tobytes(),
        start,
        pattern.covers,
    )


def _more_may_leave(unit: str, within: Sequence[str]) -> Refused:
    """Return the error for units that may come and go with others of their group, of which nobody says how many."""
    together = ", ".join(map(repr, within))
    return Refused(
        f"Rows hang together within {together}, and the secret is whether the rows of one {unit!r} are there.",
        allowed=f"pf.AnyCorrelation() with within={unit!r}, or pf.Independent()",
        instead=f"pf.Presence({within[0]!r}, rows=...), which hides all that hangs together",
    )


def _present(secret: Presence) -> Pattern:
    """Return the pattern of a unit whose rows may be there or not: as many as it may have, in one cell, the worst."""
    if secret.rows is None:
        raise Misuse(
            f"How many rows one {secret.within!r} may have is private too, and no limit is declared.",
            allowed="the most rows of a unit that are read; others are left out",
            instead=f"pf.Presence({secret.within!r}, ..., rows=10)",
        )
    return Pattern(np.zeros(1, dtype=np.intp), np.array([secret.rows]))
