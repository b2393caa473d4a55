"""Rows in order, each depending on the one before it: one Markov chain, or all between two bounds (M18–M20)."""

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal, localcontext
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import instance, set_fields
from pufferflow.distributions.markov.chain import Chain, stationary
from pufferflow.distributions.markov.chain_class import Chains
from pufferflow.distributions.markov.state_loss import AnyChain
from pufferflow.models.domain import Label
from pufferflow.models.priors.base import DECLARED, Prior, stored_provenance
from pufferflow.models.priors.transition_kernels import (
    SUM_TOLERANCE,
    Possible,
    Rows,
    check_factors,
    check_period,
    check_possible,
    check_states,
    joint_source,
    normalised,
    possible_at_rest,
    possible_from,
    product_of_kernels,
    product_of_starts,
    read_bounds,
    read_initial,
    read_kernels,
    tuples,
    values_not_at_every_step,
    whole_positions,
)
from pufferflow.models.probabilities import least_of_law
from pufferflow.models.reference import Provenance, Reference
from pufferflow.models.secret import AnySecret
from pufferflow.models.stored import ADDED

_DIGITS = 60
_SHORT_GAP = 32
_FAINT = 1e-280
_MOST_STATES_OF_A_CLASS = 10
_MOST_STEPS_OF_A_CLASS = 10_000_000
_FAR = 10_000


class SequencePrior(Prior):
    """Base of the priors of rows in order along a chain, of their own values or of hidden states."""

    period: int | None
    ordered = True
    joint_laws = True
    allows_weights = True
    allows_tuples = True
    allows_missing = True

    @property
    @abc.abstractmethod
    def row_values(self) -> int:
        """The number of values that a row can have."""

    @property
    @abc.abstractmethod
    def steps_known(self) -> float:
        """How many steps the matrices cover from the first one; ∞ if they repeat."""

    @abc.abstractmethod
    def along(self, positions: Floats, start: float = 0) -> tuple[AnyChain, int]:
        """Return the chain or chains along rows at these positions, and the position of their first row.

        Positions are counted in steps; the sequence begins at `start`.
        """


class ChainPrior(SequencePrior):
    """Base of one chain and of a class of chains: fields with matrices, then how it starts, its period and source."""

    matrices: ClassVar[tuple[str, ...]]
    """The names of the fields with matrices, of shape (number, states, states)."""
    called: ClassVar[str]
    given: ClassVar[str]
    """What takes turns, in errors."""
    words: ClassVar[tuple[str, str]]
    """What is said of its transitions, and whose a stationary law is."""
    initial: str | tuple[float, ...]

    def _set(
        self,
        read: Sequence[Floats],
        initial: Any,
        period: int | None,
        provenance: Any,
        *,
        single: bool,
    ) -> None:
        check_period(period, 1 if single else len(read[0]))
        set_fields(
            self,
            **dict(zip(self.matrices, map(tuples, read), strict=True)),
            initial=read_initial(initial, read[0].shape[1]),
            period=1 if single else period,
            provenance=provenance,
        )

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> Self:
        given = {**stored, "provenance": stored_provenance(stored)}
        if stored["period"] == 1:
            given |= {name: stored[name][0] for name in cls.matrices}
        return super().restored(given)

    @property
    def states(self) -> int:
        """The number of states."""
        return self._arrays[0].shape[1]

    @property
    def repeats(self) -> int | None:
        # sequences forget any other start gradually, so that laws change with the distance from it
        return self.period if self.initial == "stationary" else None

    @property
    def row_values(self) -> int:
        return self.states

    @property
    def steps_known(self) -> float:
        return len(self._arrays[0]) if self.period is None else math.inf

    @cached_property
    def _arrays(self) -> tuple[Floats, ...]:
        return tuple(np.array(getattr(self, name)) for name in self.matrices)

    def _initial_laws(self) -> Floats | None:
        """Return the extreme laws of the first step, of shape (number, states); None for a stationary law."""
        if self.initial == "stationary":
            return None
        return np.eye(self.states) if self.initial == "free" else np.array([self.initial])

    @cached_property
    @abc.abstractmethod
    def possible(self) -> Possible:
        """The states that have a probability above 0."""

    def check(self, secret: AnySecret) -> None:
        check_states(self.states, secret)
        check_possible(self.possible, secret, self.called)

    def sometimes_impossible(self, secret: AnySecret) -> tuple[Label, ...]:
        return values_not_at_every_step(self.possible, secret)

    def describe(self) -> str:
        repeats = "" if self.period == 1 else f" whose steps repeat after {self.period}"
        if self.period is None:
            repeats = " whose steps all have laws of their own"
        between, whose = self.words
        starts = {
            "stationary": f"starts from {whose} stationary law",
            "free": "may start from any law",
        }
        start = starts[self.initial] if isinstance(self.initial, str) else "starts from a known law"
        return (
            f"rows form a Markov chain of {self.states} states{repeats}{between}, "
            f"which {start}{self.source_in_words}"
        )

    @abc.abstractmethod
    def along(self, positions: Floats, start: float = 0) -> tuple[Chain | Chains, int]: ...

    def _steps(self, positions: Floats, start: float) -> tuple[Indices, int]:
        """Return positions and start as whole steps; matrices that do not repeat have to reach the last one."""
        steps, first = whole_positions(positions), int(whole_positions(np.array([start]))[0])
        count = len(self._arrays[0])
        if self.period is None and steps[-1] - first > count:
            raise UsageError(
                f"A row {steps[-1] - first} steps after the first, and {self.given} for {count} steps.",
                allowed=f"positions up to {count}",
                instead=f"a period after which the {self.given} repeat",
            )
        return steps, first


@final
@dataclass(frozen=True)
class ChainsBetween(ChainPrior, kind="markov chains"):
    """All chains whose matrices lie between `low` and `high`, entry by entry; each step may have another matrix.

    Made by `pf.MarkovChain.between`. Only message passing applies to such a class: it bounds the loss over all members
    at once, without drawing samples of them.

    >>> ChainsBetween([[0.8, 0.1], [0.1, 0.8]], [[0.9, 0.2], [0.2, 0.9]]).describe()
    'rows form a Markov chain of 2 states with transitions between two bounds, which starts from a stationary law'
    """

    low: tuple[Rows, ...]
    high: tuple[Rows, ...]
    initial: str | tuple[float, ...] = "stationary"
    period: int | None = 1
    provenance: Provenance = field(default=DECLARED, metadata=ADDED)
    matrices = ("low", "high")
    called, given = "pf.MarkovChain.between", "bounds"
    words = " with transitions between two bounds", "a"

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
            raise UsageError(
                f"low and high have shapes {least.shape} and {most.shape}.",
                allowed=allowed,
                instead=instead,
            )
        if (least > most).any():
            raise UsageError("low is above high in some entry.", allowed=allowed, instead=instead)
        if (least.sum(axis=2) > 1 + SUM_TOLERANCE).any() or (
            most.sum(axis=2) < 1 - SUM_TOLERANCE
        ).any():
            raise UsageError(
                "No matrix of probabilities lies between low and high.",
                allowed=allowed,
                instead=instead,
            )
        if least.shape[1] > _MOST_STATES_OF_A_CLASS:
            raise Refused(
                f"The class of chains has {least.shape[1]} states.",
                allowed=f"at most {_MOST_STATES_OF_A_CLASS} states",
                instead="fewer classes, or a list of single chains",
            )
        self._set([least, most], initial, period, provenance, single=single)
        if self.initial == "stationary" and self.period is None:
            raise UsageError(
                "The start is 'stationary', and matrices that never repeat have no stationary law.",
                allowed="initial as a vector or 'free', or a period after which the matrices repeat",
                instead="initial='free'",
            )

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """Both bounds, of shape (number, states, states), widened by at least a rounding error."""
        low, high = self._arrays
        return np.maximum(low - SUM_TOLERANCE * low, 0.0), np.minimum(
            high + SUM_TOLERANCE * high, 1.0
        )

    @cached_property
    def possible(self) -> Possible:
        initial, (low, high) = self._initial_laws(), self._arrays
        if initial is None:
            return possible_at_rest(low, high)
        return possible_from(initial, high, repeated=self.period is not None)

    def along(self, positions: Floats, start: float = 0) -> tuple[Chains, int]:
        """Return the chains along every step up to the last position.

        Far from the start any law is allowed for the first row: that only adds members.
        """
        steps, begin = self._steps(positions, start)
        low, high = self.bounds
        initial = self._initial_laws()
        if self.period is not None and (initial is None or steps[0] - begin > _FAR):
            begin = int(steps[0] - steps[0] % len(low))
            initial = None if initial is None else np.eye(self.states)
        if steps[-1] - begin > _MOST_STEPS_OF_A_CLASS:
            raise Refused(
                f"The class of chains would cover {steps[-1] - begin} steps.",
                allowed=f"at most {_MOST_STEPS_OF_A_CLASS} steps from the first row to the last",
                instead="a longer step, or a single chain",
            )
        order = np.arange(begin, steps[-1], dtype=np.intp)
        return Chains(
            low, high, order % len(low) if self.period is not None else order - begin, initial
        ), begin


@final
@suggests_arguments
@dataclass(frozen=True)
class MarkovChain(ChainPrior, kind="markov chain"):
    """Each row depends on the one before it alone: row a of `transition` is the law of the next state after state a.

    State i is the i-th value of the secret's domain. `initial` is the law of the first step of the sequence: a vector,
    "stationary", or "free" (any law). There may be several matrices. With `period` they take turns: matrix p leads from
    phase p to the next one. Without `period`, matrix t leads from step t to step t + 1. A gap between two rows counts
    as the difference of their positions, in steps.

    >>> MarkovChain([[0.9, 0.1], [0.2, 0.8]]).describe()
    'rows form a Markov chain of 2 states, which starts from its stationary law'
    """

    transition: tuple[Rows, ...]
    initial: str | tuple[float, ...] = "stationary"
    period: int | None = 1
    provenance: Provenance = field(default=DECLARED, metadata=ADDED)
    matrices = ("transition",)
    called, given = "pf.MarkovChain", "matrices"
    words = "", "its"

    def __init__(
        self,
        transition: Any,
        initial: Any = "stationary",
        period: int | None = None,
        provenance: Provenance = DECLARED,
    ) -> None:
        kernels, single = read_kernels(transition)
        self._set([kernels], initial, period, provenance, single=single)
        _ = self.initial_laws  # without a stationary law it is refused here

    @property
    def kernels(self) -> Floats:
        """The matrices, of shape (number, states, states)."""
        return self._arrays[0]

    @cached_property
    def initial_laws(self) -> Floats:
        """The laws that the first step may have, or the extreme ones of them, of shape (number, states)."""
        laws = self._initial_laws()
        if laws is not None:
            return laws
        if self.period is None:
            raise Refused(
                "The start is 'stationary', and matrices that never repeat have no stationary law.",
                allowed="initial as a vector or 'free', or a period after which the matrices repeat",
                instead="pf.MarkovChain(matrices, initial='free')",
            )
        law = stationary(self.kernels)
        if law is None:
            raise UsageError(
                "The chain has more than one stationary law, so 'stationary' does not say how it starts.",
                allowed="a chain whose states all lead to one and the same class of states",
                instead="initial as a vector, or initial='free'",
            )
        return law[None]

    @cached_property
    def possible(self) -> Possible:
        return possible_from(self.initial_laws, self.kernels, repeated=self.period is not None)

    def least_probability(self, secret: AnySecret) -> float:
        if self.initial == "free":
            return 0.0
        laws = [self.initial_laws]
        if self.initial != "stationary":  # the law of a later row is a mixture of rows of a matrix
            return min(least_of_law(laws[0]), float(self.kernels.min()))
        for kernel in self.kernels[:-1]:
            laws.append(laws[-1] @ kernel)
        return min(map(least_of_law, laws))

    @classmethod
    @suggests_arguments
    def between(
        cls, low: Any, high: Any, initial: Any = "stationary", period: int | None = None
    ) -> ChainsBetween:
        """Return the class of all chains whose transitions lie between two bounds, entry by entry.

        >>> MarkovChain.between([[0.8, 0.1], [0.1, 0.8]], [[0.9, 0.2], [0.2, 0.9]]).states
        2
        """
        return ChainsBetween(low, high, initial, period)

    @classmethod
    @suggests_arguments
    def fit(  # noqa: PLR0913 - what to read of the reference, and how
        cls,
        reference: Reference,
        column: str | Sequence[str],
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

        State i is the i-th value of `domain`, by default the sorted values of the column. For a secret with
        missing="skip" give `secret.domain`, whose last state is null and NaN. For a list of secrets give a list of
        columns and a list of domains: states are then tuples of values, and the last column varies fastest.

        `slack` gives the class of all chains within that distance of every estimate; slack="confidence" takes
        simultaneous 95 % bounds. What the fit misses is in `provenance.notes`, such as a cycle, or a memory of more
        than one step.

        >>> import polars as pl, pufferflow as pf
        >>> hours = pl.DataFrame({"hour": range(9), "on": [0, 0, 1, 1, 1, 0, 0, 0, 1]})
        >>> chain = MarkovChain.fit(pf.Reference("a public meter", hours), "on", "hour")
        >>> [round(row[0], 3) for row in chain.transition[0]]
        [0.583, 0.375]
        """
        from pufferflow.models.fitting.markov import (
            fit_chain,
        )  # its statistics take longer to load than all else here

        fitted = fit_chain(
            reference,
            column,
            order_by,
            within,
            domain=domain,
            period=period,
            step=step,
            slack=slack,
        )
        single = period == 1
        if fitted.low is not None and fitted.high is not None:
            low, high = (bound[0] if single else bound for bound in (fitted.low, fitted.high))
            return ChainsBetween(low, high, initial, None if single else period, fitted.provenance)
        matrices = fitted.transitions[0] if single else fitted.transitions
        return cls(matrices, initial, None if single else period, fitted.provenance)

    @classmethod
    def product(cls, *chains: "MarkovChain") -> "MarkovChain":
        """Return the chain of the tuples of several columns that move independently of each other.

        >>> on, room = MarkovChain([[0.9, 0.1], [0.2, 0.8]]), MarkovChain([[0.5, 0.5], [0.5, 0.5]])
        >>> MarkovChain.product(on, room).transition[0][0]
        (0.45, 0.45, 0.05, 0.05)
        """
        for chain in chains:
            instance(
                chain,
                MarkovChain,
                "One of the chains",
                allowed="pf.MarkovChain",
                instead="pf.MarkovChain(…)",
            )
        check_factors([chain.period for chain in chains])
        kernels = product_of_kernels([chain.kernels for chain in chains])
        starts = product_of_starts(
            [chain.initial for chain in chains], [chain.initial_laws[0] for chain in chains]
        )
        source = joint_source([chain.provenance for chain in chains])
        return (
            cls(kernels[0], starts, 1, source)
            if len(kernels) == 1
            else cls(kernels, starts, len(kernels), source)
        )

    def chain(self, positions: Floats, start: float = 0) -> Chain:
        """Return the chain along rows at these positions, counted in steps; its first step is at `start`.

        A periodic chain has phase 0 where the position is a multiple of the period.
        """
        steps, first = self._steps(positions, start)
        turn = len(self.kernels)
        phases = steps[:-1] % turn if self.period is not None else steps[:-1] - first
        distinct, order = _distinct(np.stack([phases, np.diff(steps)], axis=1))
        kernels = [self._over(int(phase), int(gap)) for phase, gap in distinct]
        law = self.initial_laws
        if self.initial == "stationary":
            law = law @ self._over(0, first % turn)
        law = law @ self._over(
            first % turn if self.period is not None else 0, int(steps[0]) - first
        )
        return Chain(np.array(kernels or [np.eye(self.states)]), order, law)

    def along(self, positions: Floats, start: float = 0) -> tuple[Chain, int]:
        return self.chain(positions, start), int(positions[0])

    def _over(self, phase: int, gap: int) -> Floats:
        """Return the kernel over several steps; long gaps use enough decimal digits that no rounding shows."""
        if gap <= _SHORT_GAP or self.period is None:
            return _product(self.kernels, phase, gap, np.eye(self.states))
        with localcontext(Context(prec=_DIGITS)):
            exact = np.array(
                [[[Decimal(x) for x in row] for row in matrix] for matrix in self.kernels.tolist()]
            )
            one = np.array(
                [[Decimal(int(i == j)) for j in range(self.states)] for i in range(self.states)]
            )
            turn = _product(exact, phase, len(self.kernels), one)
            product = _product(exact, phase, gap % len(self.kernels), one)
            for bit in range((gap // len(self.kernels)).bit_length()):
                if gap // len(self.kernels) >> bit & 1:
                    product = turn @ product
                turn = turn @ turn
            power = np.array(product, dtype=np.float64)
            if ((power < _FAINT) & (product > 0)).any():
                raise Refused(
                    f"Over a gap of {gap} steps some transitions are too rare for a float.",
                    allowed="gaps that every possible transition crosses with a probability above 1e-280",
                    instead="fewer or shorter gaps, or pf.AnyCorrelation()",
                )
            return normalised(power)


def _product(
    kernels: npt.NDArray[Any], phase: int, gap: int, one: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Return the product of `gap` kernels from a phase on."""
    for step in range(gap):
        one = one @ kernels[(phase + step) % len(kernels)]
    return one


def _distinct(leaps: Indices) -> tuple[Indices, Indices]:
    """Return the distinct pairs of phase and gap, and the place of each step among them."""
    if len(leaps) == 0:
        return leaps, np.empty(0, dtype=np.intp)
    code = leaps[:, 0] * (int(leaps[:, 1].max()) + 1) + leaps[:, 1]
    _, first, order = np.unique(code, return_index=True, return_inverse=True)
    return leaps[first], order
