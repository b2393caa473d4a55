"""One number of all that is published: its two laws where the prior knows them, else how far it can move.

The number is the sum of one function over the rows of one cell that belong to one group. A promise about all answers
holds for each of them.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from pufferflow.bounds import Pair, Witness
from pufferflow.bounds.pairs import finite_laws
from pufferflow.errors import Refused
from pufferflow.inference import asked, implied
from pufferflow.inference.along import Rows
from pufferflow.inference.presence import PRESENCE
from pufferflow.law import Law
from pufferflow.plan.origin import Origin
from pufferflow.plan.planned import Planned
from pufferflow.priors import LatentClass, MarkovChain, Prior
from pufferflow.queries import Pattern, Statistic
from pufferflow.queries.pattern import Whole
from pufferflow.release.bars import Floats
from pufferflow.secrets import Initial, Presence
from pufferflow.sums import Sums
from pufferflow.sums.pairs import pair_of

STAND_INS = "two points stand in for the laws: all that is known, or all that noise was made for, is how far they move"
_COVERS = "the rows are the most that any group has, as if all of them were in one cell"
_MOST_WORK = 3e8
_MOST_POINTS = 6_000.0


@final
@dataclass(frozen=True, eq=False)
class Seen:
    """Two laws of the sum of one measure over `rows` rows, in whole steps, the least value of a row counting as 0."""

    measure: int
    mu: Law
    nu: Law
    secrets: tuple[Any, Any] | None
    rows: int = 0
    note: str = ""
    stands_in: bool = False
    """Whether two points stand in for the laws."""


@final
@dataclass(frozen=True, eq=False)
class _Asked:
    """What is asked about one cell: which measure, of which rows, and which of them has the secret."""

    origin: Origin
    measure: int
    pattern: Pattern
    statistic: Statistic
    own: bool
    """Whether the secret's row is asked about."""

    @property
    def note(self) -> str:
        """What is special about the rows."""
        return _COVERS if self.origin.pattern.covers else ""


def at_place(plan: Planned, origin: Origin, witness: Witness) -> Seen:
    """Return the two laws of one number that a place stands for; refuse where they cannot be listed quickly."""
    one, prior = _asked(plan, origin, witness), origin.tables.prior
    chain = isinstance(prior, MarkovChain)
    mu, nu = _along_a_chain(prior, one, witness) if chain else _with_a_class(prior, one, witness)
    return Seen(one.measure, mu, nu, witness.secrets, one.pattern.asked, one.note)


def span_of(plan: Planned, origin: Origin, witness: Witness) -> Seen:
    """Return two points as far apart as the rows of a group can move one number, and as noise was made for."""
    one = _asked(plan, origin, witness)
    laws = implied(origin.tables.prior, one.statistic, origin.tables.secret)
    most = plan.calibration.sensitivity / float(plan.weights[one.measure])
    length = min(laws.span(1).length, most)
    return stand_ins(one.measure, length, witness.secrets, one.note)


def stand_ins(measure: int, length: float, secrets: tuple[Any, Any] | None, note: str = "") -> Seen:
    """Return two points so far apart; what is not there adds nothing."""
    notes = "; ".join(part for part in (STAND_INS, note) if part)
    ends = (length, 0.0) if secrets == PRESENCE else (0.0, length)
    return Seen(measure, Law.point(ends[0]), Law.point(ends[1]), secrets, note=notes, stands_in=True)


def _asked(plan: Planned, origin: Origin, witness: Witness) -> _Asked:
    """Return what is asked about the cell of the secret's row: the sum that this row moves farthest for its noise."""
    pattern = origin.pattern
    whole = origin.tables.apart or pattern.covers or isinstance(origin.tables.secret, Presence)
    cells = np.minimum(pattern.cells, 0) if whole else pattern.cells
    cell, own = _cell_of(pattern, cells, witness.row or 0)
    alone = replace(pattern, cells=np.where(cells == cell, 0, -1), covers=False)
    measure = _farthest(plan, origin, witness)
    table = origin.tables.values[measure]
    low = 0.0 if isinstance(origin.tables.secret, Presence) else float(table.min())
    statistic = Statistic(
        (alone.cells >= 0).astype(np.float64)[None],
        (table - low)[None],
        pattern.positions,
        start=0.0 if pattern.positions is None else pattern.start,
        column=plan.questions.column,
        counts=pattern.counts if pattern.positions is None else None,
    )
    return _Asked(origin, measure, alone, statistic, own)


def _cell_of(pattern: Pattern, cells: Whole, row: int) -> tuple[int, bool]:
    """Return the cell of a row, or the one of the next row that is asked about; and whether it is the row's own.

    Rows without an order are counted cell by cell, those that are not asked about first.
    """
    if pattern.positions is None:
        order = np.argsort(cells, kind="stable")
        ends = np.cumsum(pattern.counts[order])
        cell = int(cells[order[min(int(np.searchsorted(ends, row, side="right")), len(order) - 1)]])
    else:
        cell = int(cells[min(row, len(cells) - 1)])
    known = np.flatnonzero(cells >= 0)
    if cell >= 0 or len(known) == 0:
        return max(cell, 0), cell >= 0
    return int(cells[known[np.abs(known - row).argmin()]]), False


def _farthest(plan: Planned, origin: Origin, witness: Witness) -> int:
    """Return the measure that the two values of the secret move farthest, in units of its noise."""
    moves = _own_moves(origin, witness) * plan.weights
    if not moves.any():
        moves = np.ptp(origin.tables.values, axis=1) * plan.weights
    return int(moves.argmax())


def _own_moves(origin: Origin, witness: Witness) -> Floats:
    """Return how far each measure moves between the two values; 0 where these are no points of the tables."""
    values, secret = origin.tables.values, origin.tables.secret
    points = [] if secret.reads is None or isinstance(secret, Presence) else list(secret.reads[1].points)
    both = [points.index(value) for value in witness.secrets or () if value in points]
    if len(both) < 2 or max(both) >= values.shape[1]:
        return np.zeros(len(values))
    return np.abs(values[:, both[0]] - values[:, both[1]])


def _along_a_chain(prior: MarkovChain, one: _Asked, witness: Witness) -> tuple[Law, Law]:
    """Return the laws of a sum along a chain given two states of one row (M18)."""
    secret = one.origin.tables.secret
    _, domain = asked(prior, one.statistic, secret)
    rows = Rows.of(one.statistic, domain, first=isinstance(secret, Initial))
    if len(rows.kinds) ** 2 * _steps(one) * rows.values.shape[1] ** 2 > _MOST_WORK:
        raise _too_many(len(rows.kinds))
    first, second = (domain.place(value, "a value") for value in witness.secrets or ())
    sums = Sums(prior.chain(rows.positions, one.statistic.start), rows.values, rows.kinds)
    return pair_of(sums, 0 if isinstance(secret, Initial) else witness.row or 0, (first, second))


def _with_a_class(prior: Prior, one: _Asked, witness: Witness) -> tuple[Law, Law]:
    """Return the laws of a sum of rows that share a class given two values of the secret (M21)."""
    if one.statistic.size * _steps(one) > _MOST_POINTS:
        raise _too_many(one.statistic.size)
    found: list[Pair] = []
    for pair in implied(_in_floats(prior), one.statistic, one.origin.tables.secret):
        found += [turned for turned in (pair, pair.swapped()) if turned.secrets == witness.secrets]
    own = [pair for pair in found if pair.row is None or _is_asked(one.pattern, pair.row) == one.own]
    if not found:
        raise Refused("The laws of the two secrets that cost most are not among those that can be listed.")
    return finite_laws((own or found)[0])


def _in_floats(prior: Prior) -> Prior:
    """Return a prior without fractions, which grow long where many rows are added up."""
    if not isinstance(prior, LatentClass):
        return prior
    return LatentClass([float(one) for one in prior.weights], [[float(one) for one in law] for law in prior.rows])


def _is_asked(pattern: Pattern, row: int) -> bool:
    """Say whether a row is asked about; entries stand for as many rows as they count."""
    return bool(pattern.cells[np.searchsorted(np.cumsum(pattern.counts), row, side="right")] >= 0)


def _steps(one: _Asked) -> float:
    """Return how many steps one row moves the sum, in steps of which all values are multiples."""
    table = np.asarray(one.statistic.values).ravel()
    whole = [int(value) for value in table if value == np.rint(value)]
    step = math.gcd(*whole) if len(whole) == len(table) else 1
    return float(table.max()) / max(step, 1)


def _too_many(rows: int) -> Refused:
    return Refused(f"The laws of a sum of {rows} rows with so many values take too long to list for a picture.")
