"""Two bounds on how far the same answers move: the shorter one counts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import final

from pufferflow.bounds import Laws, Pair, Reach
from pufferflow.bounds.laws import Work
from pufferflow.bounds.walk import Walk
from pufferflow.transport import Certainty


@final
class Shorter(Laws):
    """Laws of which several movements are known, none of them below the true one."""

    movement_only = True

    def __init__(self, ways: Sequence[Laws]) -> None:
        self._ways = ways

    @property
    def dimension(self) -> int:
        """The number of coordinates of the answer."""
        return self._ways[0].dimension

    @property
    def certainty(self) -> Certainty:
        """An upper bound: ways stand in for the answers' own laws."""
        return Certainty.UPPER_BOUND

    def winf(self, norm: float) -> Reach:
        """Return the shortest movement."""
        return self._shortest(lambda way: way.winf(norm))

    def near(self, delta: float, norm: float) -> Reach:
        """Return the shortest movement of all but delta."""
        return self._shortest(lambda way: way.near(delta, norm))

    def span(self, norm: float) -> Reach:
        """Return the shortest movement of all rows that may change."""
        return self._shortest(lambda way: way.span(norm))

    @cached_property
    def work(self) -> Work:
        """That of all ways together, as far as they are asked the same."""
        each = [way.work for way in self._ways]
        added = [sum(sizes) for sizes in zip(*(one[1:4] for one in each), strict=True)]
        return each[0]._replace(winf=added[0], near=added[1], pairs=added[2], number=1.0, atoms=1.0)

    def walks(self) -> Sequence[Walk]:
        """Return the walks of the first way, if it has any."""
        return self._ways[0].walks()

    def __len__(self) -> int:
        """Return how many pairs the shortest way has."""
        return len(self._best)

    def __getitem__(self, place: int) -> Pair:  # pyright: ignore[reportIncompatibleMethodOverride] - no slices here
        """Return one pair."""
        return self._best[place]

    def __iter__(self) -> Iterator[Pair]:
        """Give the pairs of the shortest way."""
        return iter(self._best)

    @property
    def _best(self) -> Laws:
        return min(self._ways, key=lambda way: way.winf(1).length)

    def _shortest(self, ask: Callable[[Laws], Reach]) -> Reach:
        shortest = min((ask(way) for way in self._ways), key=lambda reach: reach.length)
        return replace(shortest, certainty=Certainty.UPPER_BOUND)
