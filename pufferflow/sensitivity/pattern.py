"""From the public pattern of a group to the laws of a batch's answers about it: one vector, cell by cell (M23)."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.calibration.laws import Laws, Place
from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import InternalError, Refused, UsageError
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.hidden_markov import HiddenMarkov
from pufferflow.models.priors.markov import MarkovChain
from pufferflow.models.secret import AnySecret, Derived, Initial, Presence, Secret
from pufferflow.queries.engine_interface import COPIES, Pattern
from pufferflow.queries.statistic import Statistic
from pufferflow.sensitivity.cells import (
    Cells,
    CoveringMovement,
    RoundedMovement,
    moves_of,
    values_of,
)
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.shift import scattered

_MOST_WEIGHTS = 2_000_000
_MOST_COMPARED = 300_000


def of_pattern(  # noqa: PLR0913, PLR0917 - a prior, a secret, the pattern of the rows, and the query
    prior: Prior,
    secret: AnySecret,
    pattern: Pattern,
    tables: Floats,
    column: str | None,
    rounding: Floats | None = None,
    *,
    cells: int | None = None,
    patterns: int = 1,
) -> Laws:
    """Return the laws of Σ φ_j(x) over the rows of a cell, for all cells of a pattern and all measures j.

    `tables` holds φ of each measure at the points of the domain (on an interval at both ends), `column` names the
    queried column. `rounding` is the most that each measure's φ moves further if a row is rounded to whole steps. Cells
    are unknown where the pattern covers others or rows of a unit may be absent. Then `cells` is the largest number of
    cells; by default every row may have its own. `patterns` is the number of patterns treated like this one. It limits
    the work on each, so that all comparisons of joint laws take seconds, not minutes.

    Independent rows move one cell each, so a single row represents all (M2, M25).

    >>> import pufferflow as pf
    >>> days = Pattern(np.arange(48) // 24, np.ones(48, dtype=int), np.arange(48.0))
    >>> chain, secret = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]), pf.Secret("on", domain=[0, 1])
    >>> laws = of_pattern(chain, secret, days, np.array([[0.0, 1.0]]), "on")
    >>> laws.dimension, laws.span(1).length
    (2, 48.0)
    """
    if prior.ordered and pattern.positions is None:
        raise InternalError(
            "The pattern of rows in order has no positions.", instead="reporting it"
        )
    if prior.independent_rows and not isinstance(secret, Presence):
        pattern = _one_row(pattern, secret)
    open_cells = isinstance(secret, Presence) or pattern.covers
    tables = np.atleast_2d(tables) / pattern.copies
    sums = PatternSums(
        pattern, tables, column, open_cells, cells, _MOST_COMPARED / max(patterns, 1)
    )
    moves = moves_of(prior, secret, sums.tables)
    laws = _laws(prior, secret, sums, moves)
    if rounding is None or isinstance(secret, Presence) or not np.any(rounding):
        return laws
    growth = np.asarray(rounding, dtype=np.float64).reshape(-1, 1) / pattern.copies
    if growth.shape[0] != len(sums.tables) or not (growth >= 0).all():
        raise UsageError(
            "rounding does not fit the measures.", allowed="one number >= 0 for each measure"
        )
    return RoundedMovement(laws, sums.in_cells(growth), sums.in_cells(moves)).movement


def _laws(prior: Prior, secret: AnySecret, sums: "PatternSums", moves: Floats) -> Laws:
    """Return the laws answer by answer where that is better and quick enough; otherwise bounds on them."""
    single = sums.split <= 1 and len(sums.tables) == 1
    if not sums.pattern.covers and (single or sums.worth_listing(prior)):
        return implied(prior, sums.statistic(by_cell=True), secret)
    together = sums.statistic(by_cell=False)
    movement = scattered(prior, together, secret)
    one_cell = implied(prior, together, secret) if movement is None else movement
    place = Place(sums.split * len(sums.tables), prior, values_of(secret), 0)
    return CoveringMovement(
        one_cell,
        sums.in_cells(moves),
        place,
        scattered=movement is not None,
        single=not sums.open_cells and sums.pattern.answers == sums.pattern.selected,
        cells_of_rows=sums.known_cells,
    ).movement


def _one_row(pattern: Pattern, secret: AnySecret) -> Pattern:
    """Return the pattern of a single row, in a cell if any row is; of the first row, if its value is the secret."""
    selected = pattern.cells >= 0
    if isinstance(secret, Initial) and pattern.positions is not None:
        selected &= pattern.positions == pattern.start
    return Pattern(np.array([0 if selected.any() else -1]), np.ones(1, dtype=np.int64))


def _choices(rows: int, kinds: int) -> float:
    """Return the logarithm of the number of sums that rows of several kinds can have."""
    return math.lgamma(rows + kinds) - math.lgamma(kinds) - math.lgamma(rows + 1)


def window(prior: Prior, secret: AnySecret, pattern: Pattern) -> Pattern:
    """Return the rows of a pattern with the largest loss: of a chain those from the first to the last queried one.

    The answers given a state of a row outside are a mixture of those given the states of the nearest row inside, X_e:
    law(answers | X_t = a) = Σ_x P(X_e = x | X_t = a)·law(answers | X_e = x). All losses are jointly quasi-convex. So a
    row outside has at most the loss of the worst two states of X_e, if any two states are a secret. Where the first
    value of a sequence is the secret, rows after the last queried row do not matter either.
    """
    inside = np.flatnonzero(pattern.cells >= 0)
    if (
        not isinstance(prior, MarkovChain | HiddenMarkov)
        or prior.period is None
        or pattern.positions is None
        or pattern.covers
        or not len(inside)
        or not _any_two_states(prior, secret)
    ):
        return pattern
    first, last = (0 if isinstance(secret, Initial) else int(inside[0])), int(inside[-1]) + 1
    if (first, last) == (0, len(pattern.cells)):
        return pattern
    if first and not _starts(prior, float(pattern.positions[first]), pattern.start):
        first = 0
    some = slice(first, last)
    return replace(
        pattern,
        cells=pattern.cells[some],
        counts=pattern.counts[some],
        positions=pattern.positions[some],
    )


def _any_two_states(prior: MarkovChain | HiddenMarkov, secret: AnySecret) -> bool:
    """Return whether any two states of a row are a secret, or the first row is one.

    Symbols of a hidden chain are no states: a row outside is revealed by hidden states, not by symbols.
    """
    if isinstance(prior, HiddenMarkov):
        return isinstance(secret, Derived) and secret.values is None
    return isinstance(secret, Initial) or (isinstance(secret, Secret) and secret.every_pair)


def _starts(prior: MarkovChain | HiddenMarkov, position: float, start: float) -> bool:
    """Return whether floats can represent the law of the chain at a position; far from the start they may not."""
    try:
        prior.along(np.array([position]), start)
    except Refused:
        return False
    return True


@final
@dataclass(frozen=True, eq=False)
class PatternSums:
    """The sums over the rows of a pattern, by cell and measure; `open_cells` if the cells of rows are unknown."""

    pattern: Pattern
    tables: Floats
    column: str | None
    open_cells: bool
    most_cells: int | None
    most_compared: float

    @property
    def known_cells(self) -> Array | None:
        """The cell of each row; None where cells are unknown, or rows may weigh less than they are said to."""
        unknown = self.open_cells or self.pattern.shares is not None
        return None if unknown else self.pattern.cells

    @property
    def split(self) -> int:
        """The largest number of cells with rows."""
        if not self.open_cells:
            return max(self.pattern.answers, 1)
        return max(min(self.pattern.selected, self.most_cells or self.pattern.selected), 1)

    def worth_listing(self, prior: Prior) -> bool:
        """Whether bounds answer by answer are better than those of rows together, and answers are few.

        Movements along rows are, while weights for all answers and rows are few. Joint laws are where they can be
        compared: n rows of p different kinds give a cell (n + p − 1 over p − 1) values, cells together the product.
        """
        if self.split > 1 and self.open_cells:
            return False
        if self.split * len(self.tables) * self.pattern.rows > _MOST_WEIGHTS:
            return False
        if prior.any_correlation:
            return self.split <= 1  # the movement of several cells is no longer than that of each
        if not prior.joint_laws:
            return True
        kinds = np.unique(self.tables, axis=1).shape[1]
        sizes = self.in_cells(self.tables).sizes
        values = sum(
            m * _choices(int(n), kinds)
            for n, m in zip(*np.unique(sizes, return_counts=True), strict=True)
        )
        return 2 * values + math.log(len(self.pattern.cells)) <= math.log(self.most_compared)

    def in_cells(self, moves: Floats) -> Cells:
        """Return the cells with the movements of a row; a row of several units of weight counts as that many rows.

        For rows with all or none of each weight, these are the movements of a row of any kind.
        Units that may be absent have rows in as many cells as their pattern says, or split further, which moves less.
        """
        pattern, shares = self.pattern, self.pattern.shares
        if shares is not None and ((shares == 0) | (shares == 1)).all():
            kinds = np.unique(shares, axis=1)
            moves = np.concatenate([moves * kind[:, None] for kind in kinds.T], axis=1)
            return Cells.of(pattern, moves, open_cells=self.open_cells)
        if shares is not None:
            counts = np.ceil(shares.max(axis=0) * COPIES).astype(np.int64) * pattern.counts
            pattern, moves = replace(pattern, counts=counts), moves / COPIES
        return Cells.of(pattern, moves, open_cells=pattern.covers)

    def statistic(self, *, by_cell: bool) -> Statistic:
        """Return sums with weights 0 and 1: cell by cell, or over all cells together."""
        cells, counts = self._entries
        known = cells if by_cell and not self.open_cells else np.minimum(cells, 0)
        many = max(int(known.max(initial=0)) + 1, 1)
        weights = np.repeat(known[None] == np.arange(many)[:, None], len(self.tables), axis=0)
        if self.pattern.shares is not None:
            weights = weights * np.tile(self.pattern.shares, (many, 1))
        positions, start = self.pattern.positions, self.pattern.start
        return Statistic(
            weights,
            np.tile(self.tables, (many, 1)),
            positions,
            start=0.0 if positions is None else start,
            column=self.column,
            counts=counts,
        )

    @cached_property
    def _entries(self) -> tuple[Array, Array]:
        """The cell of each row and the number of rows it represents; rows without an order are grouped by cell."""
        cells, counts = self.pattern.cells, self.pattern.counts
        if self.pattern.positions is not None or self.pattern.shares is not None:
            return cells, counts
        if self.open_cells:
            cells = np.minimum(cells, 0)
        distinct, place = np.unique(cells, return_inverse=True)
        rows = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(rows, place, counts)
        return distinct, rows
