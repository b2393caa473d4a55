"""The number of rows that differ between two secrets, for a chain coupled step by step until its rows meet.

Two data sets start from two values of one row. The rows after it differ until one pair is equal, and so do the rows
before it, back in time (M38). A step leaves rows different with a probability of at most the total variation of its
kernel's rows. The rows before and after a row are independent given the row, so both sides are coupled separately.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.chain_class import Chains
from pufferflow.distributions.markov.row_mechanisms import WeighedSteps

_FAINT = 1e-300
_ROUNDING = 1e-12
_GROWTH = 1.5


@final
@dataclass(frozen=True, eq=False)
class DifferingRows:
    """Sums of the logs of the probabilities that differing rows keep differing, row by row: forwards and backwards.

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(9, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> counts, masses = DifferingRows.of(chain).counts()
    >>> counts[:3].tolist(), masses[:3].round(6).tolist()
    ([1, 2, 3], [0.04, 0.064, 0.0768])
    """

    onwards: Floats
    backwards: Floats

    @classmethod
    def of(cls, chain: Chain | Chains) -> "DifferingRows":
        """Return the probabilities along a chain; of a class of chains those of its worst members."""
        onwards, backwards = (
            _logs(steps, chain.states) for steps in (chain.forward, chain.backward)
        )
        return cls(np.append(0.0, np.cumsum(onwards[::-1])), np.append(0.0, np.cumsum(backwards)))

    @property
    def length(self) -> int:
        """The number of rows."""
        return len(self.onwards)

    def later(self, first: int, last: int, most: int) -> tuple[Indices, Floats]:
        """Return numbers of differing rows after a secret one from `first` to `last`, and their probabilities.

        Numbers are rounded up to a few values; the slowest secret row counts, and all above `most` count as `most`.
        """
        return _numbers(self.onwards, np.arange(first, last + 1), most)

    def earlier(self, first: int, last: int, most: int) -> tuple[Indices, Floats]:
        """Return the same of rows before a secret one."""
        flipped = self.backwards[-1] - self.backwards[::-1]
        return _numbers(flipped, self.length - 1 - np.arange(first, last + 1), most)

    def counts(self, most: int | None = None) -> tuple[Indices, Floats]:
        """Return numbers of differing rows in total, for any secret row, and their probabilities.

        Numbers above `most` stand for at least that many rows, on one side or in total.
        """
        last = self.length - 1
        side = last if most is None else most
        (later, after), (earlier, before) = self.later(0, last, side), self.earlier(0, last, side)
        totals = np.minimum(1 + earlier[:, None] + later, self.length).ravel()
        counts, place = np.unique(totals, return_inverse=True)
        return counts, np.bincount(place, np.outer(before, after).ravel()).astype(np.float64)


def _logs(steps: WeighedSteps, states: int) -> Floats:
    """Return for each step the log of the largest total variation between its laws after two states, rounded up."""
    kinds, places = np.unique(steps.order, return_inverse=True)
    nothing = np.zeros((states, states))
    apart = np.array([float(steps.hockey(which, nothing).max()) for which in kinds.tolist()])
    return np.log(np.clip(apart + _ROUNDING, _FAINT, 1.0))[places]


def _numbers(logs: Floats, rows: Indices, most: int) -> tuple[Indices, Floats]:
    """Return numbers and probabilities that bound the distribution of the number of differing rows from above."""
    numbers = [0]
    while numbers[-1] < most:
        numbers.append(min(max(numbers[-1] + 1, int(numbers[-1] * _GROWTH)), most))
    more = np.array([_survival(logs, rows, number + 1) for number in numbers[:-1]] + [0.0])
    more = np.maximum.accumulate(more[::-1])[::-1]
    return np.array(numbers), -np.diff(np.append(1.0, more))


def _survival(logs: Floats, rows: Indices, number: int) -> float:
    """Return a bound on the probability that at least so many rows differ."""
    ends = rows + number
    inside = ends < len(logs)
    if not inside.any():
        return 0.0
    rounding = len(logs) * UNIT * (1 - float(logs[-1]))  # of sums as long as the chain
    return min(
        float(np.exp(logs[ends[inside]] - logs[rows[inside]] + rounding).max()) * (1 + 8 * UNIT),
        1.0,
    )
