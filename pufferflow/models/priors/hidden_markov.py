"""Rows that show what a hidden state gives off, where the hidden states form a Markov chain (M58)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import check_not_masked, set_fields
from pufferflow.distributions.markov.hidden_chain import HiddenChain
from pufferflow.models.domain import Domain, Label, listed_values
from pufferflow.models.priors.base import DECLARED, stored_provenance, wrong_secret
from pufferflow.models.priors.markov import MarkovChain, SequencePrior
from pufferflow.models.priors.transition_kernels import (
    SUM_TOLERANCE,
    Rows,
    check_possible,
    instead_of_sums,
    normalised,
    values_not_at_every_step,
)
from pufferflow.models.reference import Provenance, Reference
from pufferflow.models.secret import AnySecret, Derived, Secret
from pufferflow.models.stored import ADDED

_MOST_STATES = 30
_MOST_SYMBOLS = 256
_EMISSION = "a row for each hidden state, with a probability for each value of the domain, of sum 1"
_EXAMPLE = "pf.HiddenMarkov([[0.9, 0.1], [0.2, 0.8]], emission=[[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])"


@final
@suggests_arguments
@dataclass(frozen=True)
class HiddenMarkov(SequencePrior, kind="hidden markov chain"):
    """Each row depends on a hidden state alone, and the hidden states form a Markov chain.

    Row s of `emission` has the probability of each value of the column's domain, in their order, if the hidden state is
    s. `transition`, `initial` and `period` are those of the hidden states, as in `pf.MarkovChain`. `states` names them
    (0, 1, … by default).

    The secret is the hidden state in every row, `pf.Derived(name, values, column=column, domain=domain)`, or the column
    itself, `pf.Secret(column, domain)`. To hide both, make a scenario for each.

    Given the hidden states, rows have to be independent of each other. Where one value follows from the value before
    it, other than through the state, use `pf.MarkovChain` on pairs of state and value.

    >>> home = HiddenMarkov([[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], states=["away", "home"])
    >>> print(home.describe())
    each row has a hidden state ('away' or 'home'), on which alone its value depends; the states form a Markov chain of
    2 states, which starts from its stationary law
    """

    transition: tuple[Rows, ...]
    emission: Rows
    initial: str | tuple[float, ...] = "stationary"
    period: int | None = 1
    states: tuple[Label, ...] | None = None
    provenance: Provenance = field(default=DECLARED, metadata=ADDED)

    def __init__(  # noqa: PLR0913, PLR0917 - a chain, what it shows, and names
        self,
        transition: Any,
        emission: Any,
        initial: Any = "stationary",
        period: int | None = None,
        states: Sequence[Label] | None = None,
        provenance: Provenance = DECLARED,
    ) -> None:
        chain = _chain_of_states(transition, initial, period)
        if chain.states > _MOST_STATES:
            raise Refused(
                f"The chain has {chain.states} hidden states.",
                allowed=f"at most {_MOST_STATES} hidden states",
                instead="fewer hidden states, each of which stands for several",
            )
        if isinstance(states, list | tuple) and len(states) != chain.states:
            raise _other_names(len(states), chain.states)
        names = None if states is None else listed_values(states, "states").points
        if names is not None and len(names) != chain.states:  # an array, or a range
            raise _other_names(len(names), chain.states)
        set_fields(
            self,
            transition=chain.transition,
            emission=read_emission(emission, chain.states),
            initial=chain.initial,
            period=chain.period,
            states=names,
            provenance=provenance,
        )

    @classmethod
    @suggests_arguments
    def fit(  # noqa: PLR0913 - what to read of the reference, and how
        cls,
        reference: Reference,
        column: str,
        state: str | None,
        order_by: str,
        within: str | Sequence[str] | None = None,
        *,
        domain: object = None,
        states: Sequence[Label] | None = None,
        period: int = 1,
        step: object = 1,
        initial: Any = "stationary",
    ) -> "HiddenMarkov":
        """Return the hidden chain of a named public reference in which the state of every row is a column.

        In the private data the state may be hidden. Symbol i is the i-th value of `domain`, and state i the i-th of
        `states`, by default the sorted values of their columns. Half a draw is added to every count. What the fit
        misses is in `provenance.notes`, such as values that depend on each other beyond their states.

        >>> import polars as pl, pufferflow as pf
        >>> hours = pl.DataFrame({"hour": range(6), "home": list("nnyyyn"), "on": [0, 0, 1, 1, 0, 0]})
        >>> prior = HiddenMarkov.fit(pf.Reference("a study", hours), "on", "home", "hour")
        >>> prior.states, [round(row[0], 3) for row in prior.emission]
        (('n', 'y'), [0.875, 0.375])
        """
        from pufferflow.models.fitting.hidden_markov import fit_hidden_chain

        fitted = fit_hidden_chain(
            reference,
            column,
            state,
            order_by,
            within,
            domain=domain,
            states=states,
            period=period,
            step=step,
        )
        chain = fitted.transitions[0] if period == 1 else fitted.transitions
        turn = None if period == 1 else period
        return cls(chain, fitted.emission, initial, turn, fitted.states, fitted.provenance)

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> "HiddenMarkov":
        given = {**stored, "provenance": stored_provenance(stored)}
        if stored["period"] == 1:
            given["transition"] = stored["transition"][0]
        return super().restored(given)

    @cached_property
    def chain(self) -> MarkovChain:
        """The chain of hidden states."""
        single = self.period == 1
        kernels = self.transition[0] if single else self.transition
        return MarkovChain(kernels, self.initial, self.period)

    @property
    def names(self) -> tuple[Label, ...]:
        """The names of the hidden states."""
        return tuple(range(len(self.emission))) if self.states is None else self.states

    @property
    def repeats(self) -> int | None:
        return self.chain.repeats

    @property
    def row_values(self) -> int:
        return len(self.emission[0])

    @property
    def steps_known(self) -> float:
        return self.chain.steps_known

    def hidden_pairs(self, secret: Derived) -> Indices:
        """Return the pairs of hidden states that must be indistinguishable by their places, of shape (pairs, 2)."""
        occur = self.chain.possible.some.tolist()
        known = [name for name, may_be in zip(self.names, occur, strict=True) if may_be]
        pairs = secret.value_pairs(known)
        return np.array(
            [[self.names.index(name) for name in pair] for pair in pairs], dtype=np.intp
        )

    def check(self, secret: AnySecret) -> None:
        domain = _check_secret(secret)
        if not domain.finite or len(domain.points) != len(self.emission[0]):
            found = f"{len(domain.points)} values" if domain.finite else "all points of an interval"
            skips = domain.finite and domain.skips
            last = ", the last of which is the state for missing values" if skips else ""
            raise UsageError(
                f"The rows of emission have {len(self.emission[0])} entries, and the domain {found}{last}.",
                allowed="a list of values or pf.Bins, with one entry for each value, in their order",
                instead="a last column of emission: how likely each hidden state shows no value"
                if skips
                else f"domain={list(range(len(self.emission[0])))}",
            )
        if isinstance(secret, Derived):
            self.hidden_pairs(secret)
        check_possible(self.chain.possible.shown(np.array(self.emission)), secret, "HiddenMarkov")

    def sometimes_impossible(self, secret: AnySecret) -> tuple[Label, ...]:
        if isinstance(secret, Derived):
            every, some = self.chain.possible.every.tolist(), self.chain.possible.some.tolist()
            named = zip(self.names, every, some, strict=True)
            return tuple(name for name, always, may_be in named if may_be and not always)
        return values_not_at_every_step(self.chain.possible.shown(np.array(self.emission)), secret)

    def describe(self) -> str:
        names = " or ".join(map(repr, self.names))
        chain = self.chain.describe().replace("rows", "the states", 1)
        hidden = f"each row has a hidden state ({names}), on which alone its value depends"
        return f"{hidden}; {chain}{self.source_in_words}"

    def hidden_chain(self, positions: Floats, start: float = 0) -> HiddenChain:
        """Return the hidden chain along rows at these positions, counted in steps; its first step is at `start`."""
        return HiddenChain(self.chain.chain(positions, start), np.array(self.emission))

    def along(self, positions: Floats, start: float = 0) -> tuple[HiddenChain, int]:
        return self.hidden_chain(positions, start), int(positions[0])


def _other_names(names: int, states: int) -> UsageError:
    return UsageError(
        f"states has {names} name{'s' * (names != 1)}, and transition {states} states.",
        allowed="a name for each row of transition, in their order",
        instead=f"states={list(range(states))}",
    )


def _chain_of_states(transition: Any, initial: Any, period: int | None) -> MarkovChain:
    """Return the chain of hidden states; what refuses it speaks of this prior."""
    try:
        return MarkovChain(transition, initial, period)
    except (UsageError, Refused) as error:
        instead = error.instead.replace(
            "pf.MarkovChain(", "pf.HiddenMarkov(emission=emission, transition="
        )
        raise type(error)(error.problem, allowed=error.allowed, instead=instead) from error


def read_emission(given: Any, states: int) -> Rows:
    """Return the laws of the symbols of each hidden state."""
    check_not_masked(given, "emission", allowed=_EMISSION)
    try:
        rows = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            "emission is not made of numbers, or its rows have different lengths.",
            allowed=_EMISSION,
            instead=_EXAMPLE,
        ) from error
    problem, instead = "", _EXAMPLE
    if rows.ndim != 2 or rows.shape[0] != states or rows.shape[1] < 2:
        problem = f"emission has shape {rows.shape}, and transition {states} states."
    elif not (np.isfinite(rows).all() and (rows >= 0).all()):
        problem = "emission has an entry that is not a number from 0 to 1."
    elif (np.abs(rows.sum(axis=1) - 1) > SUM_TOLERANCE).any():
        worst = int(np.abs(rows.sum(axis=1) - 1).argmax())
        problem = f"Row {worst} of emission has sum {math.fsum(rows[worst]):.12g}."
        instead = instead_of_sums(rows.sum(axis=1), "emission", _EXAMPLE)
    if problem:
        raise UsageError(problem, allowed=_EMISSION, instead=instead)
    if rows.shape[1] > _MOST_SYMBOLS:
        raise Refused(
            f"Rows may have {rows.shape[1]} values.",
            allowed=f"at most {_MOST_SYMBOLS} values",
            instead="pf.Bins with fewer classes",
        )
    return tuple(map(tuple, normalised(rows).tolist()))


def _check_secret(secret: AnySecret) -> Domain:
    """Return the domain of the column that a secret names; refuse secrets that are neither state nor value of a row."""
    instead = 'pf.Derived("state", column="level", domain=[0, 1, 2])'
    if not isinstance(secret, Secret | Derived):
        raise wrong_secret(
            "pf.HiddenMarkov",
            secret,
            allowed="pf.Derived (the hidden state of every row) or pf.Secret (its value)",
            instead=instead,
        )
    if secret.reads is None or (isinstance(secret, Derived) and _is_column(secret)):
        named = "no column" if secret.reads is None else "the hidden state as a column of the data"
        raise UsageError(
            f"The secret names {named}, and the prior pf.HiddenMarkov knows what a state shows in one.",
            allowed="a name for the hidden state, and the column that shows it, with its domain",
            instead=instead,
        )
    return secret.reads[1]


def _is_column(secret: Derived) -> bool:
    own = () if secret.tuples is None else secret.tuples.columns
    return secret.name == secret.column or secret.name in own
