"""Fitting Markov chains to public references: transitions are counted, none is impossible, and defects are noted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import UsageError
from pufferflow.core.validate import finite_number, quoted, read_name
from pufferflow.distributions.markov.chain import stationary
from pufferflow.models.domain import Label
from pufferflow.models.fitting.diagnosis import Diagnosis, SecondStep, diagnose, second_step
from pufferflow.models.fitting.law_counts import (
    CONFIDENCE,
    HALF,
    Slack,
    clopper_pearson,
    outwards,
    read_confidence,
    read_slack,
)
from pufferflow.models.fitting.sequences import Sequences, read_sequences
from pufferflow.models.fitting.tuples import with_tuples
from pufferflow.models.reference import Provenance, Reference, digest_of, read_reference

_FEW = 30
_SETTLED = 0.05
_MOST_CELLS = 4 * 10**6


@final
@dataclass(frozen=True, eq=False)
class FittedChain:
    """A chain fitted to a reference: `transitions[p]` leads from phase p to p + 1, state i is `points[i]`.

    `initial` is the stationary law at phase 0, or the law of the states seen there if there is none. `low` and `high`
    bound each transition if slack was given. `diagnosis` and `second_step` say what a chain does not reproduce; the
    notes of the provenance repeat it in words.
    """

    transitions: Floats
    initial: Floats
    points: tuple[Label, ...]
    low: Floats | None
    high: Floats | None
    provenance: Provenance
    diagnosis: Diagnosis
    second_step: SecondStep


def fit_chain(  # noqa: PLR0913 - a reference, its three columns, and how they are read
    reference: Reference,
    column: str | Sequence[str],
    order_by: str,
    within: str | Sequence[str] | None = None,
    *,
    domain: object = None,
    period: int = 1,
    step: object = 1,
    slack: Slack = None,
    confidence: float = CONFIDENCE,
    smoothing: float = HALF,
) -> FittedChain:
    """Return the chain whose transitions are those of a public reference, counted between rows one step apart.

    `step` is a number, or a duration such as "1h" if `order_by` is a time; phases are positions modulo `period`, and
    positions count steps from 0, or from 1970-01-01. Rows without a value and gaps are left out. `domain` is a list of
    values or pf.Bins; left out, it is the values that occur. Of several columns the states are tuples of values, and
    `domain` is a list of domains. `smoothing` is added to every count.

    `slack` as a number allows every transition that much more or less. With "confidence" the bounds are simultaneous
    Clopper–Pearson intervals, each at (1 − confidence)/cells: if the reference is a chain of this kind, all its
    transitions lie between them with that confidence (nearly: how often a state is left is taken as given). They
    cover chance only, not the distance of the reference from the private data.
    """
    _check(period, smoothing)
    columns = [column] if isinstance(column, str) else list(column)
    if not columns:
        raise UsageError("No column is named.", allowed="a column, or a list of several", instead='"level"')
    units = _units(columns, order_by, within)
    frame = read_reference(reference).read([*units, order_by, *columns])
    digest, name = digest_of(frame), columns[0]
    if len(columns) > 1:
        frame, name, domain = with_tuples(frame, columns, domain)
    sequences = read_sequences(frame, name, order_by, units, domain=domain, period=period, step=step)
    points = sequences.domain.points
    if period * len(points) ** 2 > _MOST_CELLS:
        raise UsageError(
            f"{period} phases of {len(points)} states: too many transitions to fit.",
            allowed=f"at most {_MOST_CELLS} transitions",
            instead="pf.Bins with fewer classes",
        )
    counts = sequences.counts.pairs(period, len(points))
    transitions = _estimated(counts, smoothing, reference.name)
    low, high = _bounds(counts, transitions, slack, confidence)
    diagnosis, memory = diagnose(sequences, transitions), second_step(sequences.counts, len(points))
    initial, settled = _initial(sequences, transitions)
    notes = (*sequences.notes, *_seldom_left(counts), *settled, *_defects(diagnosis, memory))
    provenance = Provenance(reference.name, sequences.rows, digest, notes, reference.origin)
    return FittedChain(transitions, initial, points, low, high, provenance, diagnosis, memory)


def _check(period: object, smoothing: object) -> None:
    if isinstance(period, bool) or not isinstance(period, int) or period < 1:
        raise UsageError(f"period is {period!r}.", allowed="a whole number of steps >= 1", instead="period=24")
    allowed, instead = "a finite number >= 0, added to every count", "smoothing=0.5"
    if finite_number(smoothing, "smoothing", allowed=allowed, instead=instead) < 0:
        raise UsageError("smoothing is below 0.", allowed=allowed, instead=instead)


def _units(columns: Sequence[str], order_by: str, within: str | Sequence[str] | None) -> list[str]:
    """Return the columns whose values separate sequences."""
    if within is not None and not isinstance(cast(object, within), str | Sequence):
        raise UsageError(f"within is {quoted(within)}.", allowed="names of columns", instead='within="meter"')
    units = [read_name(name, "within") for name in ([within] if isinstance(within, str) else within or [])]
    names = [*units, read_name(order_by, "order_by"), *(read_name(column, "column") for column in columns)]
    if len(set(names)) < len(names):
        raise UsageError(
            "Two of column, order_by and within name the same column.",
            allowed="different columns",
            instead='fit(reference, "level", order_by="hour", within="meter")',
        )
    return units


def _estimated(counts: Indices, smoothing: float, name: str) -> Floats:
    if not counts.sum():
        raise UsageError(
            f"No two rows of the reference {name!r} are one step apart, both with a value.",
            allowed="sequences with rows that follow each other",
            instead="a step that is the distance between rows, and within if there are several sequences",
        )
    left = counts.sum(axis=2, keepdims=True)
    if smoothing == 0 and not left.all():
        raise UsageError(
            f"Without smoothing nothing is known of {_count_below(left, 1)}.",
            allowed="a reference that leaves each state at each phase, or smoothing > 0",
            instead="smoothing=0.5",
        )
    shares = (counts + smoothing) / (left + smoothing * counts.shape[2])
    return shares / shares.sum(axis=2, keepdims=True)


def _bounds(
    counts: Indices, transitions: Floats, slack: Slack, confidence: float
) -> tuple[Floats, Floats] | tuple[None, None]:
    """Return bounds on each transition, with the estimate between them; simultaneous for all cells (Bonferroni)."""
    width = read_slack(slack)
    if width is None:
        return None, None
    if width != "confidence":
        return outwards(transitions - width, transitions + width, transitions)
    times = counts.astype(np.float64)
    others = times.sum(axis=2, keepdims=True) - times
    low, high = clopper_pearson(times, others, (1 - read_confidence(confidence)) / (2 * counts.size))
    return outwards(low, high, transitions)


def _initial(sequences: Sequences, transitions: Floats) -> tuple[Floats, tuple[str, ...]]:
    """Return the law at phase 0, and a note if the states seen are not in the chain's own proportions."""
    period, states, _ = transitions.shape
    known = sequences.states >= 0
    places = sequences.positions[known] % period * states + sequences.states[known]
    seen = np.bincount(places, minlength=period * states).reshape(period, states)
    law = stationary(transitions)
    if law is None:
        start = seen[0] if seen[0].any() else seen.sum(axis=0)
        return start / start.sum(), ("the chain has more than one stationary law",)
    expected, at = np.zeros(states), law
    for phase, times in enumerate(seen.sum(axis=1)):
        expected += times * at
        at = at @ transitions[phase]
    variation = float(np.abs(expected - seen.sum(axis=0)).sum() / (2 * seen.sum()))
    words = f"states are not seen in the chain's stationary proportions ({variation:.2f} in total variation)"
    return law, (words,) if variation >= _SETTLED else ()


def _seldom_left(counts: Indices) -> tuple[str, ...]:
    """Return notes on states that have too few transitions to estimate the next state."""
    left = counts.sum(axis=2)
    notes = list[str]()
    if (left == 0).any():
        notes.append(f"there is no transition from {_count_below(left, 1)}: any state may follow, equally likely")
    if ((left > 0) & (left < _FEW)).any():
        notes.append(f"less than {_FEW} transitions reveal about {_count_below(left, _FEW)}")
    return tuple(notes)


def _count_below(left: Indices, fewest: int) -> str:
    """Return in words how many states have fewer transitions, but one at least if `fewest` is above 1."""
    states = "states" if len(left) == 1 else "pairs of phase and state"
    return f"{int(((left < fewest) & (left >= min(fewest - 1, 1))).sum())} of {left.size} {states}"


def _defects(diagnosis: Diagnosis, memory: SecondStep) -> tuple[str, ...]:
    """Return notes on features of the reference that the chain does not reproduce."""
    notes = [diagnosis.text] if diagnosis.misses or not diagnosis.conclusive else []
    if memory.present:
        notes.append(
            "the next state depends on more than the last one; the one before it "
            f"changes its law by {memory.effect:.2f} in total variation on average"
        )
    return tuple(notes)
