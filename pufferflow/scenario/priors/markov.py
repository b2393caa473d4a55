"""Rows in order, each depending on the one before it (M18–M20)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal, localcontext
from functools import cached_property
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

from pufferflow.arrays import Floats, Indices
from pufferflow.chains import Chain, stationary
from pufferflow.errors import Misuse, Refused
from pufferflow.scenario.domain import Label
from pufferflow.scenario.fitting.reference import Reference
from pufferflow.scenario.priors.chains_between import ChainsBetween
from pufferflow.scenario.priors.kernels import (
    Possible,
    Rows,
    check_period,
    check_possible,
    check_states,
    in_words,
    initial_in_words,
    normalised,
    possible_from,
    read_initial,
    read_kernels,
    tuples,
    values_not_at_every_step,
    whole_positions,
)
from pufferflow.scenario.priors.prior import DECLARED, Prior, Provenance, restored_provenance, stored_provenance
from pufferflow.scenario.secret import AnySecret
from pufferflow.suggestions import explained

_DIGITS = 60
_SHORT_GAP = 32
_FAINT = 1e-280
_TRANSITION = "rows of probabilities with sum 1, one for each state, or a list of such matrices"
_EXAMPLE = "pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]])"


@final
@explained
@dataclass(frozen=True)
class MarkovChain(Prior):
    """Each row depends on the one before it alone: row a of `transition` is the law of the next state after state a.

    State i is the i-th value of the secret's domain. `initial` is the law of the first step of the sequence: a vector,
    "stationary", or "free" (any law). Several matrices with `period` take turns, matrix p leading from phase p of the
    steps to the next one; without `period`, matrix t leads from step t to step t + 1. A gap between two rows is as many
    steps as their positions tell.

    >>> MarkovChain([[0.9, 0.1], [0.2, 0.8]]).describe()
    'rows form a Markov chain of 2 states, which starts from its stationary law'
    """

    transition: tuple[Rows, ...]
    initial: str | tuple[float, ...] = "stationary"
    period: int | None = 1
    provenance: Provenance = field(default=DECLARED)
    ordered = True
    joint_laws = True

    def __init__(
        self,
        transition: Any,
        initial: Any = "stationary",
        period: int | None = None,
        provenance: Provenance = DECLARED,
    ) -> None:
        kernels, single = read_kernels(transition)
        check_period(period, 1 if single else len(kernels))
        object.__setattr__(self, "transition", tuples(kernels))
        object.__setattr__(self, "period", 1 if single else period)
        object.__setattr__(self, "initial", read_initial(initial, kernels.shape[1]))
        object.__setattr__(self, "provenance", provenance)
        if self.initial == "stationary":
            _ = self.initial_laws

    @property
    def states(self) -> int:
        """How many states there are."""
        return len(self.transition[0])

    @property
    def repeats(self) -> int | None:
        """The period, if the sequence starts from a stationary law; other starts fade, and laws change with that."""
        return self.period if self.initial == "stationary" else None

    @cached_property
    def kernels(self) -> Floats:
        """The matrices, of shape (number, states, states)."""
        return np.array(self.transition)

    @cached_property
    def initial_laws(self) -> Floats:
        """The laws that the first step may have, or the extreme ones of them, of shape (number, states)."""
        if self.initial == "free":
            return np.eye(self.states)
        if self.initial != "stationary":
            return np.array([self.initial])
        if self.period is None:
            raise Refused(
                "A stationary law for matrices that are all different.",
                allowed="initial as a vector or 'free', or a period after which the matrices repeat",
                instead="pf.MarkovChain(matrices, initial='free')",
            )
        law = stationary(self.kernels)
        if law is None:
            raise Misuse(
                "The chain has more than one stationary law, so 'stationary' does not say how it starts.",
                allowed="a chain whose states all lead to one and the same class of states",
                instead="initial as a vector, or initial='free'",
            )
        return law[None]

    def check(self, secret: AnySecret) -> None:
        """Refuse secrets that are no states of the chain, or that it never is in."""
        check_states(self.states, secret)
        check_possible(self._possible, secret, "pf.MarkovChain")

    def sometimes_impossible(self, secret: AnySecret) -> tuple[Label, ...]:
        """Return the values of a secret that the chain cannot have at some steps."""
        return values_not_at_every_step(self._possible, secret)

    @cached_property
    def _possible(self) -> Possible:
        return possible_from(self.initial_laws, self.kernels, repeated=self.period is not None)

    def describe(self) -> str:
        """Say in words what an adversary may believe."""
        source = "" if self.provenance == DECLARED else f"; {self.provenance.describe()}"
        return f"{in_words(self.states, self.period)}, which {initial_in_words(self.initial)}{source}"

    def stored(self) -> dict[str, Any]:
        """Return all fields as plain values."""
        return {
            "kind": "markov chain",
            "transition": [[list(row) for row in matrix] for matrix in self.transition],
            "initial": self.initial if isinstance(self.initial, str) else list(self.initial),
            "period": self.period,
            **stored_provenance(self),
        }

    @classmethod
    def restored(cls, fields: dict[str, Any]) -> "MarkovChain":
        """Return the chain that `stored` tells of."""
        provenance = restored_provenance(fields)
        single = fields["period"] == 1
        matrices = fields["transition"]
        return cls(matrices[0] if single else matrices, fields["initial"], fields["period"], provenance)

    @classmethod
    @explained
    def between(cls, low: Any, high: Any, initial: Any = "stationary", period: int | None = None) -> ChainsBetween:
        """Return the class of all chains whose transitions lie between two bounds, entry by entry.

        >>> MarkovChain.between([[0.8, 0.1], [0.1, 0.8]], [[0.9, 0.2], [0.2, 0.9]]).states
        2
        """
        return ChainsBetween(low, high, initial, period)

    @classmethod
    @explained
    def fit(  # noqa: PLR0913 - what to read of the reference, and how
        cls,
        reference: Reference,
        column: str,
        order_by: str,
        within: str | Sequence[str] | None = None,
        *,
        domain: object = None,
        period: int = 1,
        step: object = 1,
        slack: float | Literal["confidence"] | None = None,
        initial: Any = "stationary",
    ) -> "MarkovChain | ChainsBetween":
        """Return the chain of the steps in a named public reference, never in the private rows.

        State i is the i-th value of `domain` (left out, the sorted values of the column). With `slack` it is the class
        of all chains within that of every estimate; slack="confidence" takes simultaneous 95 % bounds. What the fit
        does not explain stands in `provenance.notes`: a cycle that it misses, a memory of more than one step.

        >>> import polars as pl, pufferflow as pf
        >>> hours = pl.DataFrame({"hour": range(9), "on": [0, 0, 1, 1, 1, 0, 0, 0, 1]})
        >>> chain = MarkovChain.fit(pf.Reference("a public meter", hours), "on", "hour")
        >>> [round(row[0], 3) for row in chain.transition[0]]
        [0.583, 0.375]
        """
        from pufferflow.scenario.fitting.fit import fit_chain  # its statistics take longer to load than all else here

        fitted = fit_chain(reference, column, order_by, within, domain=domain, period=period, step=step, slack=slack)
        single = period == 1
        if fitted.low is not None and fitted.high is not None:
            low, high = (bound[0] if single else bound for bound in (fitted.low, fitted.high))
            return ChainsBetween(low, high, initial, None if single else period, fitted.provenance)
        matrices = fitted.transitions[0] if single else fitted.transitions
        return cls(matrices, initial, None if single else period, fitted.provenance)

    def chain(self, positions: Floats, start: float = 0) -> Chain:
        """Return the chain along rows at these positions, counted in steps; its first step is at `start`.

        A periodic chain has phase 0 where the position is a multiple of the period.
        """
        steps, first = whole_positions(positions), int(whole_positions(np.array([start]))[0])
        if self.period is None and steps[-1] - first > len(self.kernels):
            raise Misuse(
                f"A row {steps[-1] - first} steps after the first, and matrices for {len(self.kernels)} steps.",
                allowed=f"positions up to {len(self.kernels)}",
                instead="a period after which the matrices repeat",
            )
        turn = len(self.kernels)
        phases = steps[:-1] % turn if self.period is not None else steps[:-1] - first
        distinct, order = _distinct(np.stack([phases, np.diff(steps)], axis=1))
        kernels = [self._over(int(phase), int(gap)) for phase, gap in distinct]
        law = self.initial_laws
        if self.initial == "stationary":
            law = law @ self._over(0, first % turn)
        law = law @ self._over(first % turn if self.period is not None else 0, int(steps[0]) - first)
        return Chain(np.array(kernels or [np.eye(self.states)]), order, law)

    def _over(self, phase: int, gap: int) -> Floats:
        """Return the kernel over several steps; long gaps in decimal digits enough that no rounding shows."""
        if gap <= _SHORT_GAP or self.period is None:
            return _product(self.kernels, phase, gap, np.eye(self.states))
        with localcontext(Context(prec=_DIGITS)):
            exact = np.array([[[Decimal(x) for x in row] for row in matrix] for matrix in self.kernels.tolist()])
            one = np.array([[Decimal(int(i == j)) for j in range(self.states)] for i in range(self.states)])
            turn = _product(exact, phase, len(self.kernels), one)
            found = _product(exact, phase, gap % len(self.kernels), one)
            for bit in range((gap // len(self.kernels)).bit_length()):
                if gap // len(self.kernels) >> bit & 1:
                    found = turn @ found
                turn = turn @ turn
            power = np.array(found, dtype=np.float64)
            if ((power < _FAINT) & (found > 0)).any():
                raise Refused(
                    f"A gap of {gap} steps, which some states cross too rarely for a float.",
                    allowed="gaps that every possible transition crosses with a probability above 1e-280",
                    instead="fewer or shorter gaps, or pf.AnyCorrelation()",
                )
            return normalised(power)


def _product(kernels: npt.NDArray[Any], phase: int, gap: int, one: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the product of `gap` kernels from a phase on."""
    for step in range(gap):
        one = one @ kernels[(phase + step) % len(kernels)]
    return one


def _distinct(leaps: Indices) -> tuple[Indices, Indices]:
    """Return the distinct pairs of phase and gap, and which of them each step is."""
    if len(leaps) == 0:
        return leaps, np.empty(0, dtype=np.intp)
    code = leaps[:, 0] * (int(leaps[:, 1].max()) + 1) + leaps[:, 1]
    _, first, order = np.unique(code, return_index=True, return_inverse=True)
    return leaps[first], order
