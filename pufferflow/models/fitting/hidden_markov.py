"""Fitting hidden chains to public references in which the state of every row is a column.

Transitions of states are counted as for a chain, and how often each state shows each symbol. Where the column is known
and the state is not, several hidden chains may fit equally well: no bound on the error of a fitted one is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.suggestions import did_you_mean
from pufferflow.models.domain import Domain, Label, listed_values
from pufferflow.models.fitting.markov import fit_chain, second_step
from pufferflow.models.fitting.sequences import (
    Sequences,
    TransitionCounts,
    read_sequences,
    read_units,
)
from pufferflow.models.fitting.table import smoothed
from pufferflow.models.reference import Provenance, Reference, digest_of, read_reference

_INSTEAD = 'pf.HiddenMarkov.fit(reference, "level", "home", order_by="hour")'
_STATES = "a list of two or more hidden states, each by its value in the column"
_FEW, _SOME = 30, 6


@final
@dataclass(frozen=True, eq=False)
class FittedHiddenChain:
    """The transitions of states, of shape (period, states, states), and the laws of what they show."""

    transitions: Floats
    emission: Floats
    states: tuple[Label, ...]
    points: tuple[Label, ...]
    provenance: Provenance


def fit_hidden_chain(  # noqa: PLR0913 - a reference, its columns, and how they are read
    reference: Reference,
    column: str,
    state: str | None,
    order_by: str,
    within: str | Sequence[str] | None = None,
    *,
    domain: object = None,
    states: object = None,
    period: int = 1,
    step: object = 1,
) -> FittedHiddenChain:
    """Return the counted transitions and symbols of a public reference, with half a draw added to each count.

    A row without a state or without a symbol counts for neither of the laws that need it.
    """
    if state is None:
        raise Refused(
            "No column of the reference has the hidden state, so several hidden chains may fit it equally well.",
            allowed="a reference in which the state of every row is a column",
            instead=f"{_INSTEAD}, or pf.HiddenMarkov(transition, emission) with laws that you know",
        )
    if state == column:
        raise UsageError(
            f"The column {column!r} is both the hidden state and what it shows.",
            allowed="two different columns of the reference",
            instead=_INSTEAD,
        )
    columns = [("order_by", order_by), ("column", column), ("state", state)]
    units = read_units(() if within is None else within, columns, _INSTEAD)
    frame = read_reference(reference).read([*units, order_by, column, state])
    _check_states(states, frame[state])
    chain = fit_chain(reference, state, order_by, within, domain=states, period=period, step=step)
    shown, hidden = (
        read_sequences(frame, name, order_by, units, domain=points, step=step)
        for name, points in ((column, domain), (state, states))
    )
    counts = _counts(shown, hidden)
    few = int((counts.sum(axis=1) < _FEW).sum())
    notes = (
        *chain.provenance.notes,
        *shown.notes,
        *([f"less than {_FEW} rows reveal what {few} of {len(counts)} states show"] if few else []),
        *_beyond_states(shown, hidden),
    )
    provenance = replace(
        chain.provenance, digest=digest_of(frame), notes=tuple(dict.fromkeys(notes))
    )
    return FittedHiddenChain(
        chain.transitions,
        smoothed(counts),
        tuple(hidden.domain.points),
        tuple(shown.domain.points),
        provenance,
    )


def _check_states(states: object, values: pl.Series) -> None:
    """Refuse a single state, and the name of a state without rows while the column has labels without a name."""
    if states is None or isinstance(states, Domain):
        return
    if isinstance(states, list | tuple) and len(cast(Sequence[object], states)) < 2:
        raise UsageError(
            f"states has {len(cast(Sequence[object], states))} of the hidden states of a chain.",
            allowed=_STATES,
            instead=_instead_of_states(values),
        )
    names = listed_values(cast(object, states), "states").points
    if not isinstance(values.dtype, pl.String | pl.Categorical | pl.Enum):
        return
    seen = values.drop_nulls().cast(pl.String).unique().sort().to_list()
    absent = [name for name in names if isinstance(name, str) and name not in seen]
    others = [label for label in seen if label not in names]
    if absent and others:
        raise UsageError(
            f"The state {absent[0]!r} has no row in {values.name!r}.{did_you_mean(absent[0], others)}",
            allowed=_STATES,
            instead=_instead_of_states(values),
        )


def _instead_of_states(values: pl.Series) -> str:
    some = values.drop_nulls().unique().sort().head(_SOME).to_list()
    return f"states={some}" if len(some) > 1 else "states=['away', 'home']"


def _counts(shown: Sequences, hidden: Sequences) -> Floats:
    """Return how often each state shows each symbol."""
    states, symbols = len(hidden.domain.points), len(shown.domain.points)
    known = (hidden.states >= 0) & (shown.states >= 0)
    places = hidden.states[known] * symbols + shown.states[known]
    counts = np.bincount(places, minlength=states * symbols).reshape(states, symbols)
    return counts.astype(np.float64)


def _beyond_states(shown: Sequences, hidden: Sequences) -> tuple[str, ...]:
    """Return a note if a row's symbol depends on the symbol before it, given the state: the prior denies it."""
    before, here, after = shown.states[:-1], hidden.states[1:], shown.states[1:]
    steps = (np.diff(shown.positions) == 1) & ~shown.starts[1:]
    known = steps & (before >= 0) & (here >= 0) & (after >= 0)
    places = np.stack([before[known], here[known], after[known]])
    (before, here, after), times = np.unique(places, axis=1, return_counts=True)
    phase = np.zeros(len(times), dtype=np.intp)
    many = max(len(shown.domain.points), len(hidden.domain.points))
    found = second_step(TransitionCounts(phase, before, here, after, times), many)
    if not found.present:
        return ()
    effect = f"{found.effect:.2f} in total variation on average"
    return (f"a row depends on more than its state; the row before it changes its law by {effect}",)
