"""What is asked of one group: how its rows read values, and how far two values of one row move the answers."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pufferflow.inference.implied import asked
from pufferflow.inference.movement import group_movement
from pufferflow.priors import Prior
from pufferflow.queries import Kinds, Statistic
from pufferflow.rounding import SMALLEST, UNIT, float_above, lifted
from pufferflow.secrets import Bins, Domain, Initial, Interval, Secret
from pufferflow.secrets.domain import Label
from pufferflow.transport import footing

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.intp]
_EXACTLY = 20_000
_AT_ONCE = 1 << 22


@final
@dataclass(frozen=True, eq=False)
class Question:
    """Answers Σ_r weights[o, r]·φ_o(X_r), `tables` being φ at the points of the domain, and the pairs of the secret.

    On an interval φ is linear between the ends.
    """

    weights: Floats
    tables: Floats
    positions: Floats
    domain: Domain
    secret: Secret | Initial
    first: bool
    """Whether the secret is the value at `start`, not that of every row."""
    start: float
    counts: Any = None
    """How many rows each column of weights stands for, None if one."""

    @classmethod
    def of(cls, prior: Prior, statistic: Statistic, secret: Secret | Initial) -> "Question":
        """Return what a statistic asks under a secret that is the value of a row."""
        _, domain = asked(prior, statistic, secret)
        first = isinstance(secret, Initial)
        return cls(
            statistic.weights,
            statistic.on(domain),
            statistic.positions,
            domain,
            secret,
            first=first,
            start=statistic.start,
            counts=statistic.counts,
        )

    @property
    def pairs(self) -> list[tuple[Label, Label]]:
        """The pairs of values that must look alike."""
        return self.secret.value_pairs()

    @property
    def starts(self) -> npt.NDArray[np.bool_]:
        """Which row is the first of its sequence."""
        return self.positions == self.start

    @property
    def answers(self) -> int:
        """How many answers there are."""
        return len(self.weights)

    @cached_property
    def kinds(self) -> Kinds:
        """Rows that weigh alike."""
        return Kinds.of(self.weights, self.counts)

    @cached_property
    def differences(self) -> Floats:
        """|φ(a) − φ(b)| for every answer and pair of values, rounded up: shape (answers, pairs)."""
        if isinstance(self.domain, Interval):
            span = Fraction(self.domain.high) - Fraction(self.domain.low)
            shares = [abs(Fraction(a) - Fraction(b)) / span for a, b in self.pairs]  # pyright: ignore[reportArgumentType] - numbers on an interval
            rises = [abs(Fraction(high) - Fraction(low)) for low, high in self.tables.tolist()]
            return np.array([[float_above(rise * share) for share in shares] for rise in rises])
        left, right = (self.tables[:, places] for places in self._places.T)
        return rounded_up(lambda a, b: abs(a - b), left, right)

    @cached_property
    def _places(self) -> Whole:
        """The pairs by the places of their values in the domain, of shape (pairs, 2)."""
        if self.secret.domain == self.domain:
            return self.secret.pair_places
        return np.array([[self._place(value) for value in pair] for pair in self.pairs], dtype=np.intp)

    @cached_property
    def distances(self) -> list[float]:
        """How far apart the two values of each pair are, at most, in the unit of the column; rounded up."""
        if isinstance(self.domain, Bins | Interval):
            return [self._distance(a, b) for a, b in self.pairs]
        left, right = (self.domain.numbers[places] for places in self._places.T)
        return rounded_up(lambda a, b: abs(a - b), left, right).tolist()

    @property
    def farthest(self) -> tuple[float, tuple[Label, Label]]:
        """The pair of values that lie farthest apart, and how far."""
        place = int(np.argmax(self.distances))
        return self.distances[place], self.pairs[place]

    def group(self, norm: float) -> float:
        """Return the movement of all rows over all values (M7)."""
        return group_movement(self.kinds.columns, self.kinds.counts, self.tables, norm)

    def own(self, norm: float) -> tuple[Floats, Whole]:
        """Return how far a row of each kind alone moves the answers, in a norm, and between which pair of values."""
        return row_norms(self.kinds.columns, self.differences, norm)

    def _place(self, value: Label) -> int:
        return self.domain.place(value, "a value")

    def _distance(self, a: Label, b: Label) -> float:
        """Return |a − b|; of classes the distance of their outer ends, ∞ if one of them is open."""
        if not isinstance(self.domain, Bins):
            return float_above(abs(Fraction(a) - Fraction(b)))
        edges = [-np.inf, *self.domain.edges, np.inf] if self.domain.open else list(self.domain.edges)
        low, high = sorted((self._place(a), self._place(b)))
        ends = edges[low], edges[high + 1]
        return np.inf if np.inf in np.abs(ends) else float_above(Fraction(ends[1]) - Fraction(ends[0]))


def rounded_up(function: Callable[[Any, Any], Any], left: Floats, right: Floats) -> Floats:
    """Return a sum, difference or product ≥ 0 of floats, rounded up; exactly where they are few or whole numbers."""
    left, right = np.broadcast_arrays(left, right)
    if left.size <= _EXACTLY:
        both = zip(left.ravel().tolist(), right.ravel().tolist(), strict=True)
        exact = [float_above(function(Fraction(a), Fraction(b))) for a, b in both]
        return np.array(exact, dtype=np.float64).reshape(left.shape)
    with np.errstate(under="ignore"):
        found: Floats = function(left, right)
    whole = (left == np.rint(left)) & (right == np.rint(right)) & (found < 2.0**52)
    return np.where(whole | (left == 0) & (right == 0), found, np.nextafter(found, np.inf))


def products(left: Floats, right: Floats) -> Floats:
    """Return |left·right| rounded up; a product is 0 only if a factor is."""
    found = rounded_up(lambda a, b: abs(a * b), left, right)
    return np.where((np.asarray(left) == 0) | (np.asarray(right) == 0), 0.0, np.maximum(found, SMALLEST))


def norms_above(steps: Floats, norm: float) -> Floats:
    """Return the norms along the first axis, rounded up."""
    if len(steps) == 1 or norm == np.inf:
        return np.abs(steps).max(axis=0)
    if norm == 1 and bool((steps == np.rint(steps)).all()):
        return np.abs(steps).sum(axis=0)
    return lifted(footing.norms(steps, norm), (len(steps) + 8) * UNIT)


def row_norms(columns: Floats, moves: Floats, norm: float) -> tuple[Floats, Whole]:
    """Return the largest ‖w∘move‖ over the moves for each column w of weights, rounded up, and which move it is."""
    if len(columns) == 1:
        place = int(moves[0].argmax())
        longest = products(np.abs(columns[0]), moves[0, place])
        return longest, np.full(len(longest), place, dtype=np.intp)
    longest, which = np.empty(columns.shape[1]), np.empty(columns.shape[1], dtype=np.intp)
    width = max(_AT_ONCE // moves.size, 1)
    for start in range(0, columns.shape[1], width):
        some = slice(start, start + width)
        found = norms_above(products(columns[:, some, None], moves[:, None, :]), norm)
        which[some] = found.argmax(axis=1)
        longest[some] = found.max(axis=1)
    return longest, which
