"""Every Markov chain whose transitions lie between two bounds: a class of priors with one worst case (M20)."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np

from pufferflow.arrays import Floats
from pufferflow.chains import Chains
from pufferflow.errors import Misuse, Refused
from pufferflow.scenario.domain import Label
from pufferflow.scenario.priors.kernels import (
    SUM_TOLERANCE,
    Possible,
    Rows,
    check_period,
    check_possible,
    check_states,
    in_words,
    initial_in_words,
    possible_at_rest,
    possible_from,
    read_bounds,
    read_initial,
    tuples,
    values_not_at_every_step,
    whole_positions,
)
from pufferflow.scenario.priors.prior import DECLARED, Prior, Provenance, restored_provenance, stored_provenance
from pufferflow.scenario.secret import AnySecret

_MOST_STATES = 10
_MOST_STEPS = 10_000_000
_FAR = 10_000


@final
@dataclass(frozen=True)
class ChainsBetween(Prior):
    """All chains whose matrices lie between `low` and `high`, entry by entry; a step may choose any matrix between.

    Made by `pf.MarkovChain.between`. Only messages speak of such a class: the loss is bounded over all members at once,
    not sampled.

    >>> ChainsBetween([[0.8, 0.1], [0.1, 0.8]], [[0.9, 0.2], [0.2, 0.9]]).describe()
    'rows form a Markov chain of 2 states with transitions between two bounds, which starts from a stationary law'
    """

    low: tuple[Rows, ...]
    high: tuple[Rows, ...]
    initial: str | tuple[float, ...] = "stationary"
    period: int | None = 1
    provenance: Provenance = field(default=DECLARED)
    ordered = True
    joint_laws = True

    def __init__(
        self,
        low: Any,
        high: Any,
        initial: Any = "stationary",
        period: int | None = None,
        provenance: Provenance = DECLARED,
    ) -> None:
        (least, single), (most, other) = read_bounds(low, "low"), read_bounds(high, "high")
        allowed = "0 <= low <= high <= 1, rows of low with sum <= 1, rows of high with sum >= 1"
        instead = "pf.MarkovChain.between([[0.8, 0.1], [0.1, 0.8]], [[0.9, 0.2], [0.2, 0.9]])"
        if least.shape != most.shape or single != other:
            raise Misuse(f"low and high have shapes {least.shape} and {most.shape}.", allowed=allowed, instead=instead)
        if (least > most).any():
            raise Misuse("low is above high in some entry.", allowed=allowed, instead=instead)
        if (least.sum(axis=2) > 1 + SUM_TOLERANCE).any() or (most.sum(axis=2) < 1 - SUM_TOLERANCE).any():
            raise Misuse("No matrix of probabilities lies between low and high.", allowed=allowed, instead=instead)
        if least.shape[1] > _MOST_STATES:
            raise Refused(
                f"A class of chains with {least.shape[1]} states.",
                allowed=f"at most {_MOST_STATES} states",
                instead="fewer classes, or a list of single chains",
            )
        check_period(period, 1 if single else len(least))
        object.__setattr__(self, "low", tuples(least))
        object.__setattr__(self, "high", tuples(most))
        object.__setattr__(self, "period", 1 if single else period)
        object.__setattr__(self, "initial", read_initial(initial, least.shape[1]))
        object.__setattr__(self, "provenance", provenance)
        if self.initial == "stationary" and self.period is None:
            raise Misuse(
                "A stationary law for matrices that are all different.",
                allowed="initial as a vector or 'free', or a period after which the matrices repeat",
                instead="initial='free'",
            )

    @property
    def states(self) -> int:
        """How many states there are."""
        return len(self.low[0])

    @property
    def repeats(self) -> int | None:
        """The period, if the sequence starts from a stationary law; other starts fade, and laws change with that."""
        return self.period if self.initial == "stationary" else None

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """Both bounds, of shape (number, states, states), a rounding apart at least from what was given."""
        low, high = np.array(self.low), np.array(self.high)
        return np.maximum(low - SUM_TOLERANCE * low, 0.0), np.minimum(high + SUM_TOLERANCE * high, 1.0)

    def check(self, secret: AnySecret) -> None:
        """Refuse secrets that are no states of the chains, or that none of them ever is in."""
        check_states(self.states, secret)
        check_possible(self._possible, secret, "pf.MarkovChain.between")

    def sometimes_impossible(self, secret: AnySecret) -> tuple[Label, ...]:
        """Return the values of a secret that no chain of the class can have at some steps."""
        return values_not_at_every_step(self._possible, secret)

    @cached_property
    def _possible(self) -> Possible:
        low, high, initial = np.array(self.low), np.array(self.high), self._initial()
        if initial is None:
            return possible_at_rest(low, high)
        return possible_from(initial, high, repeated=self.period is not None)

    def describe(self) -> str:
        """Say in words what an adversary may believe."""
        start = initial_in_words(self.initial).replace("its stationary", "a stationary")
        source = "" if self.provenance == DECLARED else f"; {self.provenance.describe()}"
        return f"{in_words(self.states, self.period)} with transitions between two bounds, which {start}{source}"

    def stored(self) -> dict[str, Any]:
        """Return all fields as plain values."""
        return {
            "kind": "markov chains",
            "low": [[list(row) for row in matrix] for matrix in self.low],
            "high": [[list(row) for row in matrix] for matrix in self.high],
            "initial": self.initial if isinstance(self.initial, str) else list(self.initial),
            "period": self.period,
            **stored_provenance(self),
        }

    @classmethod
    def restored(cls, fields: dict[str, Any]) -> "ChainsBetween":
        """Return the class that `stored` tells of."""
        provenance = restored_provenance(fields)
        single = fields["period"] == 1
        low, high = (fields[name][0] if single else fields[name] for name in ("low", "high"))
        return cls(low, high, fields["initial"], fields["period"], provenance)

    def chains(self, positions: Floats, begin: float = 0) -> tuple[Chains, int]:
        """Return the chains along every step up to the last position, and the position of their first row.

        The sequence begins at `begin`. Far from there any law is allowed for the first row: that only adds members.
        """
        steps, first = whole_positions(positions), int(whole_positions(np.array([begin]))[0])
        low, high = self.bounds
        turn = len(low)
        if self.period is None and steps[-1] - first > turn:
            raise Misuse(
                f"A row {steps[-1] - first} steps after the first, and bounds for {turn} steps.",
                allowed=f"positions up to {turn}",
                instead="a period after which the bounds repeat",
            )
        start, initial = first, self._initial()
        if self.period is not None and (initial is None or steps[0] - first > _FAR):
            start = int(steps[0] - steps[0] % turn)
            initial = None if initial is None else np.eye(self.states)
        if steps[-1] - start > _MOST_STEPS:
            raise Refused(
                f"A class of chains along {steps[-1] - start} steps.",
                allowed=f"at most {_MOST_STEPS} steps from the first row to the last",
                instead="a longer step, or a single chain",
            )
        along = np.arange(start, steps[-1], dtype=np.intp)
        return Chains(low, high, along % turn if self.period is not None else along - start, initial), start

    def _initial(self) -> Floats | None:
        if self.initial == "stationary":
            return None
        return np.eye(self.states) if self.initial == "free" else np.array([self.initial])
