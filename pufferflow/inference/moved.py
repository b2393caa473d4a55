"""Laws of which only a movement is known: how far the answer goes from one value of the secret to the other."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pufferflow.bounds import Laws, Pair, Reach
from pufferflow.inference.one_pair import OnePair
from pufferflow.law import Law
from pufferflow.transport import Certainty

Floats = npt.NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class Movement:
    """How far the answers move: each of them by at most `steps`, all together in a norm by `length(norm)`."""

    steps: Floats
    length: Callable[[float], float]
    certainty: Certainty
    secrets: tuple[Any, Any]
    row: int | None = None

    @classmethod
    def of_one(
        cls, length: float, certainty: Certainty, secrets: tuple[Any, Any], row: int | None = None
    ) -> "Movement":
        """Return the movement of a single answer, whose length is the same in every norm."""
        return cls(np.array([length]), lambda _: length, certainty, secrets, row)


@final
class Moved(OnePair):
    """One pair of points that lie as far apart as the answers move; in R^d coordinate by coordinate the farthest."""

    def __init__(self, prior: Any, movement: Movement, group: Callable[[float], float] | None = None) -> None:
        self._prior, self._movement = prior, movement
        self._group = group or movement.length

    @property
    def dimension(self) -> int:
        """The number of coordinates of the answer."""
        return len(self._movement.steps)

    @property
    def certainty(self) -> Certainty:
        """Whether the movement is attained."""
        return self._movement.certainty

    def winf(self, norm: float) -> Reach:
        """Return the length of the movement."""
        return Reach(self._movement.length(norm), self._movement.certainty, self.pair)

    def least_winf(self, norm: float) -> Reach:
        """Return the length if it is attained."""
        length = self._movement.length(norm) if self.certainty == Certainty.EXACT else 0.0
        return Reach(length, self.certainty, self.pair)

    def near(self, delta: float, norm: float) -> Reach:
        """Return the length: what moves less, and how often, is not known."""
        del delta
        reach = self.winf(norm)
        return Reach(reach.length, Certainty.UPPER_BOUND, reach.witness)

    def span(self, norm: float) -> Reach:
        """Return the movement of all rows that may change (M7)."""
        certainty = Certainty.EXACT if self.dimension == 1 else Certainty.UPPER_BOUND
        return Reach(self._group(norm), certainty, self.pair)

    def _farthest_pair(self) -> Pair:
        steps = self._movement.steps
        start, end = Law.point(np.zeros(len(steps))), Law.point(steps)
        return Pair(start, end, self._prior, self._movement.secrets, self._movement.row)


@final
class Displaced(Laws):
    """Pairs of constant answers: what one row adds under two values, where all else is independent of it (M2)."""

    constant = True

    def __init__(self, pairs: list[Pair], lengths: Callable[[float], Floats]) -> None:
        self.pairs, self._lengths = pairs, lengths

    @property
    def dimension(self) -> int:
        """The number of coordinates of the answer."""
        return self.pairs[0].dimension

    def winf(self, norm: float) -> Reach:
        """Return the longest displacement."""
        lengths = self._lengths(norm)
        place = int(lengths.argmax())
        return Reach(float(lengths[place]), Certainty.EXACT, self.pairs[place])

    def least_winf(self, norm: float) -> Reach:
        """Return the longest displacement."""
        return self.winf(norm)

    def near(self, delta: float, norm: float) -> Reach:
        """Return the longest displacement: two constants differ with certainty, and delta is below 1."""
        del delta
        return self.winf(norm)

    def span(self, norm: float) -> Reach:
        """Return the longest displacement."""
        return self.winf(norm)

    def __len__(self) -> int:
        """Return how many pairs there are."""
        return len(self.pairs)

    def __getitem__(self, place: int) -> Pair:  # pyright: ignore[reportIncompatibleMethodOverride] - no slices here
        """Return one pair."""
        return self.pairs[place]

    def __iter__(self) -> Iterator[Pair]:
        """Give all pairs."""
        return iter(self.pairs)
