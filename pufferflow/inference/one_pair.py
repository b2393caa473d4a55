"""Laws of which a movement is known: one pair of points that lie as far apart stands for all pairs."""

import abc
from collections.abc import Iterator
from functools import cached_property

from pufferflow.bounds import Laws, Pair


class OnePair(Laws, abc.ABC):
    """Laws with a single pair, which no bound can learn more from than how far the answers move."""

    movement_only = True

    @cached_property
    def pair(self) -> Pair:
        """The pair."""
        return self._farthest_pair()

    @abc.abstractmethod
    def _farthest_pair(self) -> Pair:
        """Work the pair out."""

    def __len__(self) -> int:
        """Return 1: one pair stands for all."""
        return 1

    def __getitem__(self, place: int) -> Pair:  # pyright: ignore[reportIncompatibleMethodOverride] - no slices here
        """Return the pair."""
        return [self.pair][place]

    def __iter__(self) -> Iterator[Pair]:
        """Give the pair."""
        yield self.pair
