"""How far answers move if the rows of a group are translated with the value of one of them (M15, M16, M14)."""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.rounding import UNIT, lifted, products_above, sums_above
from pufferflow.distributions.coupling import Certainty
from pufferflow.models.domain import Interval
from pufferflow.models.priors.covariance import Covariance
from pufferflow.sensitivity.movement import Movement
from pufferflow.sensitivity.row_query import Jumps, Question, norms_above

_NOT_CERTAIN = 1 - 1e-9


@final
@dataclass(frozen=True, eq=False)
class Translation:
    """Rows that move with a secret one by c_ri·v, or less where values are clamped to the domain (M15).

    On an interval each row moves by a share of its translation, from nothing to all: one answer by at most
    max(Σ(w_r v_r)⁺, Σ(w_r v_r)⁻), each term at most |w_r|·(high − low). In classes it may cross borders either way.
    Movements of several answers are bounded one by one, and in classes also row by row.

    Rows in unknown cells, `open_cells`, may move one cell up and another down. Then both sums count, and no split of
    the rows into cells moves farther in the norms 1 and 2: neither norm of a split number is larger than the sum of
    its parts' sizes, for each answer.

    In classes rows with a correlation below `least` do not move, if it `fades`; otherwise they move as at `least`.
    """

    question: Question
    covariance: Covariance
    open_cells: bool = False
    least: float = 0.0
    fades: bool = False

    @cached_property
    def places(self) -> Floats:
        """The positions of the secrets."""
        return (
            np.array([self.question.start]) if self.question.first else self.covariance.places(self.question.positions)
        )

    @cached_property
    def rows(self) -> Indices:
        """The row at each place, −1 if it is not queried; for classes of values also places between rows."""
        positions = self.question.positions
        nearest = np.minimum(np.searchsorted(positions, self.places), len(positions) - 1)
        rows = np.where(positions[nearest] == self.places, nearest, -1)
        if self.question.first or isinstance(self.question.domain, Interval):
            return rows
        between = self.covariance.between(positions, np.zeros((1, len(positions))), 0.0)
        return np.concatenate([rows, np.full(between.shape[1], -1)])

    @cached_property
    def steps(self) -> Floats:
        """How far each answer moves with the secret at each place: shape (answers, places)."""
        if isinstance(self.question.domain, Interval):
            return self._on_interval(self.question.domain)
        weights = np.abs(self.question.weights)
        own = products_above(weights, self.question.differences.max(axis=1, keepdims=True))
        others = np.zeros((len(weights), len(self.rows)))
        for heights, level in self._levels(self.jumps.of_answers):
            others += self._reach(weights * heights[:, None], level)
        return sums_above(self._at_places(own), self._round_up(others))

    @cached_property
    def jumps(self) -> Jumps:
        """The jumps of answers for movements between classes."""
        return Jumps.of(self.question)

    def lengths(self, norm: float) -> Floats:
        """Return how far all answers together move in a norm, for each place."""
        whole = norms_above(self.steps, norm)
        kinds = None if isinstance(self.question.domain, Interval) else self.jumps.of_kinds(norm)
        if kinds is None:
            return whole
        kind_of = self.question.kinds.of_row
        own = self.question.own(norm)[0][kind_of][None]
        others = np.zeros((1, len(self.rows)))
        for heights, level in self._levels(kinds):
            others += self._reach(heights[kind_of][None], level)
        return np.minimum(whole, sums_above(self._at_places(own), self._round_up(others))[0])

    def movement(self) -> Movement:
        """Return the farthest movement over all places and pairs of values."""
        lengths = self.lengths(1)
        place = int(lengths.argmax())
        row = int(self.rows[place])
        certainty = Certainty.EXACT if self._attained(place) else Certainty.UPPER_BOUND
        witness = self.question.farthest[1], row if row >= 0 else None
        if self.question.answers == 1:
            return Movement.of_one(float(lengths[place]), certainty, *witness)
        return Movement(self.steps.max(axis=1), lambda norm: float(self.lengths(norm).max()), certainty, *witness)

    def _on_interval(self, domain: Interval) -> Floats:
        """Return the larger of the sums of positive and negative terms; the row itself counts on its own side."""
        tables, positions = self.question.tables, self.question.positions
        rises = tables[:, 1:] - tables[:, :1]
        ends = products_above(
            self.question.weights, rises * (1 + 2 * UNIT) if (rises != np.rint(rises)).any() else rises
        )
        signed = np.copysign(ends, self.question.weights * np.sign(rises))
        distance = self.question.farthest[0]
        share = min(distance / domain.width * (1 + 4 * UNIT), 1.0)
        cap = 1 / share * (1 + 2 * UNIT)
        if self.question.first:
            sides = self.covariance.sides_at(self.places, positions, signed, cap)
        else:
            sides = self.covariance.sides(positions, signed, cap)
        up, down = (side if share == 1 else lifted(side * share, 2 * UNIT) for side in sides)
        own = products_above(self.question.weights, self.question.differences.max(axis=1, keepdims=True))
        plus_side, minus_side = np.where(signed > 0, own, 0.0), np.where(signed < 0, own, 0.0)
        above, below = sums_above(self._at_places(plus_side), up), sums_above(self._at_places(minus_side), down)
        return sums_above(above, below) if self.open_cells else np.maximum(above, below)

    def _levels(self, heights: Floats) -> list[tuple[Floats, float]]:
        """Return the increase of φ's jump from level to level, and the correlation at which it occurs."""
        distance = self.question.farthest[0]
        more = np.diff(heights, axis=-1, prepend=0.0)
        more = np.where(more > 0, np.nextafter(more, np.inf), 0.0) if (heights != np.rint(heights)).any() else more
        levels = self.jumps.gaps / distance * (1 - 16 * UNIT)
        levels = np.maximum(levels, self.least) if self.fades else np.where(levels < self.least, 0.0, levels)
        return [(more[..., k], float(level)) for k, level in enumerate(levels) if more[..., k].any()]

    def _reach(self, heights: Floats, level: float) -> Floats:
        if self.question.first:
            return self.covariance.reached_at(self.places, self.question.positions, heights, level)
        at_rows = self.covariance.reached(self.question.positions, heights, level)
        return np.concatenate([at_rows, self.covariance.between(self.question.positions, heights, level)], axis=1)

    def _at_places(self, values: Floats) -> Floats:
        return np.where(self.rows >= 0, values[:, self.rows], 0.0)

    def _round_up(self, sums: Floats) -> Floats:
        """Return sums over levels rounded up, with the products in them; those of whole numbers are exact."""
        numbers = self.question.weights, self.question.tables
        if all((array == np.rint(array)).all() for array in numbers) and float(sums.max(initial=0.0)) < 2.0**52:
            return sums
        return lifted(sums, 2 * (len(self.jumps.gaps) + 4) * UNIT)

    def _attained(self, place: int) -> bool:
        """Return whether the movement is exact for a single answer: no other row moves, or only an unconstrained one.

        Then the answer is monotone in that row, so the translation is the quantile coupling; and a Gaussian with a
        variance above 0 has values that clamping lets move all the way, and values that it keeps in place.
        """
        positions, at = self.question.positions, self.places[[min(place, len(self.places) - 1)]]
        if self.open_cells or self.question.answers > 1 or place >= len(self.places) or not np.isfinite(at[0]):
            return False
        above, below = (side[0] for side in self.covariance.toward(at, positions))
        moves = (self.question.weights[0] != 0) & (positions != at[0]) & (above + below > 0)
        if not moves.any():
            return True
        if moves.sum() > 1 or not self.covariance.known or not isinstance(self.question.domain, Interval):
            return False
        other = int(moves.argmax())
        back = np.add(*self.covariance.toward(positions[[other]], at))[0, 0]
        row = int(self.rows[place])
        own = np.zeros(1) if row < 0 else self.question.weights[0, [row]]
        aligned = own[0] * self.question.weights[0, other] * (above - below)[other] >= 0
        only_row = self.steps[0, place] == products_above(own, self.question.differences.max(keepdims=True)[0])[0]
        return bool((aligned or only_row) and (above + below)[other] * back < _NOT_CERTAIN)


def by_shares(question: Question, shares: Floats) -> Movement:
    """Return the movement if row r moves by at most shares[r] times the secret's difference, whichever way (M14)."""
    distance, pair = question.farthest
    weights = np.abs(question.weights)
    start = question.starts
    own = products_above(weights[:, start], question.differences.max(axis=1, keepdims=True)).sum(axis=1)
    rest = weights[:, ~start], shares[~start]
    others = _on_interval(question, *rest) if isinstance(question.domain, Interval) else _in_classes(question, *rest)
    steps = sums_above(own, others)
    single = int((weights > 0).sum()) <= 1 and (
        isinstance(question.domain, Interval) or bool(start[weights[0] > 0].all())
    )
    certainty = Certainty.EXACT if single and question.answers == 1 else Certainty.UPPER_BOUND
    row = int(start.argmax()) if start.any() else None
    if question.answers == 1:
        return Movement.of_one(float(steps[0]), certainty, pair, row)
    return Movement(steps, lambda norm: _length(question, steps, shares, distance, norm), certainty, pair, row)


def _on_interval(question: Question, weights: Floats, shares: Floats) -> Floats:
    reach = question.differences.max(axis=1, keepdims=True)
    return _total(products_above(products_above(weights, reach), shares[None]))


def _in_classes(question: Question, weights: Floats, shares: Floats) -> Floats:
    jumps = Jumps.of(question)
    level = jumps.level(shares * question.farthest[0])
    return _total(products_above(weights, jumps.of_answers[:, level]))


def _total(terms: Floats) -> Floats:
    """Return sums of terms ≥ 0, rounded up."""
    total = terms.sum(axis=-1)
    whole = bool((terms == np.rint(terms)).all()) and float(terms.sum()) < 2.0**52
    single = (terms > 0).sum(axis=-1) <= 1
    return np.where(whole | single, total, lifted(total, (terms.shape[-1] + 2) * UNIT))


def _length(question: Question, steps: Floats, shares: Floats, distance: float, norm: float) -> float:
    """Return the norm of the answers' movements, or in classes the sum of the rows' movements, if that is less."""
    whole = float(norms_above(steps, norm))
    if isinstance(question.domain, Interval):
        return whole
    jumps = Jumps.of(question)
    kinds = jumps.of_kinds(norm)
    if kinds is None:
        return whole
    start, kind_of = question.starts, question.kinds.of_row
    own = question.own(norm)[0][kind_of]
    row_lengths = np.where(start, own, kinds[kind_of, jumps.level(shares * distance)])
    return min(whole, float(_total(row_lengths[None])[0]))
