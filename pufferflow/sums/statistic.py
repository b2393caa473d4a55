"""A sum along the rows of a Markov chain, the secrets asked about, and what is found (M18)."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pufferflow.errors import Misuse
from pufferflow.messages.chain import Chain

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


@final
@dataclass(frozen=True, eq=False)
class Sums:
    """The statistic Σ_t values[kinds[t], X_t] along the n rows of a chain on k states.

    `values` has shape (K, k), `kinds` shape (n,). A float is read as the decimal it prints as.

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(9, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> Sums(chain, np.array([[0.0, 1.0]]), np.zeros(10, dtype=np.intp)).length
    10
    """

    chain: Chain
    values: Floats
    kinds: Whole

    def __post_init__(self) -> None:
        """Check what a chain cannot know: that every row has values, and every state a number."""
        if self.values.ndim != 2 or self.values.shape[1] != self.chain.states or not np.isfinite(self.values).all():
            raise Misuse(
                f"The values have shape {self.values.shape}, or some is not finite.",
                allowed=f"finite numbers, one for each of {self.chain.states} states",
                instead="an array of shape (kinds of rows, states)",
            )
        if self.kinds.shape != (self.chain.length,) or not _within(self.kinds, len(self.values)):
            raise Misuse(
                f"The kinds of rows have shape {self.kinds.shape} for {self.chain.length} rows, or name no values.",
                allowed=f"one whole number from 0 to {len(self.values) - 1} for each row",
                instead="np.zeros(rows, dtype=np.intp) if all rows count alike",
            )

    @property
    def length(self) -> int:
        """How many rows there are."""
        return self.chain.length


@final
@dataclass(frozen=True)
class Farthest:
    """The largest distance of two laws of a sum, the row whose two states it is about, and how sure it is.

    `rounding` is the relative width within which float masses were taken as equal. `exact` says that the length is the
    true one for every chain whose probabilities are within it; otherwise it is an upper bound, and where it hangs on
    masses that tie it holds for those of them that do.
    """

    length: float
    row: int
    states: tuple[int, int]
    exact: bool
    rounding: float


@final
@dataclass(frozen=True, eq=False)
class Asked:
    """The secrets asked about: unordered pairs of states, and a flag for each row."""

    pairs: list[tuple[int, int]]
    rows: Flags

    @property
    def nothing(self) -> Farthest:
        """What is found where no secret can tell anything."""
        row = int(self.rows.argmax()) if len(self.rows) else 0
        return Farthest(0.0, row, self.pairs[0] if self.pairs else (0, 0), exact=True, rounding=0.0)

    def possible(self, states: Any) -> list[tuple[int, int]]:
        """Return the pairs both of whose states a row can have."""
        return [(a, b) for a, b in self.pairs if states[a] and states[b]]


def asked(sums: Sums, pairs: Whole, rows: Flags | None) -> Asked:
    """Read the secrets; W_∞ and nearness are symmetric, so one order of each pair is enough."""
    given = np.asarray(pairs, dtype=np.intp).reshape(-1, 2)
    if not _within(given, sums.chain.states):
        raise Misuse(
            "A pair names a state that the chain does not have.",
            allowed=f"states from 0 to {sums.chain.states - 1}",
            instead="an array of shape (pairs, 2)",
        )
    flags = np.ones(sums.length, dtype=np.bool_) if rows is None else np.asarray(rows, dtype=np.bool_)
    if flags.shape != (sums.length,):
        raise Misuse(
            f"The rows that are secret have shape {flags.shape} for {sums.length} rows.",
            allowed="one flag for each row, or None for all rows",
            instead="rows=None",
        )
    distinct = sorted({(min(a, b), max(a, b)) for a, b in given.tolist() if a != b})
    return Asked(distinct, flags)


def _within(numbers: Whole, end: int) -> bool:
    return not len(numbers) or (int(numbers.min()) >= 0 and int(numbers.max()) < end)
