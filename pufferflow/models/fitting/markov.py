"""Fitting Markov chains to public references: transitions are counted, none is impossible, defects are noted.

Defects of a fitted chain: cycles that it misses, memory that fades too fast or too slowly, memory of two steps.

The autocorrelation of the reference is compared with that of the chain from the same starts. A prior that misses a
dependence guarantees too much, so every defect becomes a note on the prior.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import UsageError
from pufferflow.core.validate import finite_number
from pufferflow.distributions.markov.chain import stationary
from pufferflow.models.domain import Label
from pufferflow.models.fitting.sequences import (
    Sequences,
    TransitionCounts,
    read_sequences,
    read_units,
    with_tuples,
)
from pufferflow.models.fitting.table import (
    CONFIDENCE,
    HALF,
    Slack,
    clopper_pearson,
    outwards,
    read_confidence,
    read_slack,
)
from pufferflow.models.reference import Provenance, Reference, digest_of, read_reference, zoned

FLOOR = 0.05
"""A difference of autocorrelations that is no larger is not reported."""
BLURRED = 0.3
"""If chance alone makes differences of this size at every lag, the diagnosis is not conclusive."""
_FALSE_ALARM = 0.01
_LEAST_LAGS = 48
_MOST_LAGS = 2016
_FEWEST_PAIRS = 30
_MOST_WORK = 10**9
_SMALL = 500
_MOST_PLACES = 2**22
_MOST_MEMORY = 1e12
_FADED = 1e-12
_NEARLY_HIGHEST = 0.8


@final
@dataclass(frozen=True)
class Diagnosis:
    """Autocorrelations of a reference and those of a chain, at `lags`; `misses` are lags where they truly differ.

    For labels it is the correlation of indicators, summed over the states. A difference counts if it exceeds .05 and
    `margins`, what chance may make of it: a true chain has a miss, at whatever lag, in at most one reference of a
    hundred or so.
    """

    lags: tuple[int, ...]
    observed: tuple[float, ...]
    implied: tuple[float, ...]
    margins: tuple[float, ...]
    misses: tuple[int, ...]
    text: str

    @property
    def conclusive(self) -> bool:
        """Whether the reference has enough rows to show a chain that does not fit."""
        return min(self.margins, default=np.inf) <= BLURRED


def diagnose(sequences: Sequences, kernels: Floats) -> Diagnosis:
    """Compare the autocorrelation of sequences with that of a chain, whose kernels take turns, one per phase.

    Of very long references the first few million rows count.
    """
    domain = sequences.domain
    features = (
        domain.numbers[:, None] if domain.numeric else np.eye(len(domain.points))
    )  # or indicators of labels
    lags = _lags(sequences, kernels)
    places = _places(sequences, lags, features.shape[1])
    laws = _laws(sequences, places, kernels.shape, lags)
    centred = features - laws[0].sum(axis=0) @ features
    size = float(laws[0].sum(axis=0) @ (centred**2).sum(axis=1))
    if lags < 1 or size <= 0:
        return Diagnosis(
            (),
            (),
            (),
            (),
            (),
            "the reference is too short, or too constant, to compare autocorrelations",
        )
    centred /= np.sqrt(size)
    observed, pairs = _observed(sequences, places, centred, lags)
    implied, spread, largest = _implied(kernels, laws, centred @ centred.T)
    frequent = pairs[1:] >= _FEWEST_PAIRS
    rate = 2 * np.log(2 * lags / _FALSE_ALARM) / np.maximum(pairs[1:], 1)
    margins = np.sqrt(rate * spread[1:]) + rate * largest / 3
    comparison = _Comparison(
        np.arange(1, lags + 1)[frequent],
        observed[1:][frequent],
        implied[1:][frequent],
        margins[frequent],
        len(kernels),
    )
    return comparison.diagnosis()


def _lags(sequences: Sequences, kernels: Floats) -> int:
    """Return the number of lags: a fortnight of steps or a quarter of the rows, and some in any case."""
    period, states, _ = kernels.shape
    opening = np.flatnonzero(sequences.starts)
    closing = np.append(opening[1:], sequences.rows) - 1
    longest = int((sequences.positions[closing] - sequences.positions[opening]).max(initial=0))
    wanted = max(min(sequences.clock.fortnight, sequences.rows // 4), _LEAST_LAGS, 2 * period)
    return min(wanted, longest, _MOST_LAGS, max(_MOST_WORK // (period * (states**3 + _SMALL)), 8))


def _places(sequences: Sequences, lags: int, width: int) -> Indices:
    """Return places on a grid of steps, of the rows that fit; other sequences and long gaps lie out of reach."""
    moved = np.diff(sequences.positions, prepend=0)
    moved[sequences.starts] = lags + 1
    places = np.cumsum(np.minimum(moved, lags + 1))
    return places[: int(np.searchsorted(places, _MOST_PLACES // width, side="right"))]


def _laws(sequences: Sequences, places: Indices, shape: tuple[int, ...], lags: int) -> Floats:
    """Return how often each state is seen at each phase among rows that have a row 0, 1, … lags later, if none is lost.

    In many short sequences these are early rows, whose states need not be those of all rows.
    """
    period, states, _ = shape
    gone = np.flatnonzero(np.diff(places, append=places[-1] + lags + 1) > lags)
    left = places[gone[np.searchsorted(gone, np.arange(len(places)))]] - places
    seen = sequences.states[: len(places)]
    cell = (
        np.minimum(left, lags) * period + sequences.positions[: len(places)] % period
    ) * states + seen
    times = np.bincount(cell[seen >= 0], minlength=(lags + 1) * period * states).reshape(
        lags + 1, period, states
    )
    laws = np.cumsum(times[::-1], axis=0)[::-1].astype(np.float64)
    return laws / np.maximum(laws.sum(axis=(1, 2), keepdims=True), 1)


def _observed(
    sequences: Sequences, places: Indices, centred: Floats, lags: int
) -> tuple[Floats, Floats]:
    """Return the autocorrelation at lags 0, 1, …, and the number of pairs of rows that each comes from."""
    from scipy import fft

    states = sequences.states[: len(places)]
    places = places[states >= 0]
    length = int(fft.next_fast_len(int(places[-1]) + lags + 1, real=True))
    grid = np.zeros((centred.shape[1] + 1, length))
    grid[:-1, places] = centred[states[states >= 0]].T
    grid[-1, places] = 1.0
    power = np.abs(fft.rfft(grid, axis=1)) ** 2
    sums: Floats = fft.irfft(np.stack([power[:-1].sum(axis=0), power[-1]]), n=length, axis=1)[
        :, : lags + 1
    ]
    products, pairs = sums[0], np.rint(sums[1])
    return products / np.maximum(pairs, 1), pairs


def _implied(kernels: Floats, laws: Floats, gram: Floats) -> tuple[Floats, Floats, float]:
    """Return the autocorrelation that the chain gives, the variance of n times its error over n, and the largest error.

    The mean over rows of x_t·x_{t+h} − E[x_t·x_{t+h} | x_t] errs by what x_{t+h} adds to x_t. If these terms were
    independent, Bernstein's inequality would bound their sum by two numbers. These are their variance E[Var(x_t·x_{t+h}
    | x_t)] and the largest of them, which counts rare bursts as few. Both are raised by 1 + 2Σ|r_j|, with the chain's
    own correlations r_j around its cycle: that is above Bartlett's 1 + 2Σr_j².
    """
    lags, law = len(laws) - 1, laws[0]
    power, turns = np.broadcast_to(np.eye(law.shape[1]), kernels.shape), np.arange(len(kernels))
    implied, spread, around = np.empty((3, lags + 1))
    phase = law.sum(axis=1)[:, None]
    mean = np.divide(law, phase, out=np.zeros_like(law), where=phase > 0)
    for lag in range(lags + 1):
        expected = (power * gram).sum(axis=2)
        implied[lag] = (laws[lag] * expected).sum()
        spread[lag] = (laws[lag] * ((power * gram**2).sum(axis=2) - expected**2)).sum()
        later = (mean[:, None, :] @ power)[:, 0]
        around[lag] = (law * expected).sum() - (law @ gram * later).sum()
        power = power @ kernels[(turns + lag) % len(kernels)]
    seen = law.sum(axis=0) > 0
    memory = _memory(np.abs(around))
    return (
        implied,
        np.maximum(spread, 0) * memory,
        float(np.abs(gram[np.ix_(seen, seen)]).max()) * memory,
    )


def _memory(around: Floats) -> float:
    """Return 1 + 2Σ|r_j|; what lies beyond the lags continues geometrically."""
    if around[0] <= 0:
        return 1.0
    ratios = around[1:] / around[0]
    half = ratios[len(ratios) // 2 :]
    # periodic states never forget, so no bound follows for them
    fading = min(
        (ratios[-1] / max(half.max(), _FADED)) ** (1 / max(len(half) - 1, 1)), 1 - 1 / _MOST_MEMORY
    )
    return 1 + 2 * float(ratios.sum() + ratios[-1] * fading / (1 - fading))


@final
@dataclass(frozen=True, eq=False)
class _Comparison:
    """The autocorrelations at the lags, and the differences that chance allows."""

    lags: Indices
    observed: Floats
    implied: Floats
    margins: Floats
    period: int

    def diagnosis(self) -> Diagnosis:
        """Return the lags that the chain misses, with a text for people."""
        allowed = np.maximum(self.margins, FLOOR)
        missed = np.abs(self.observed - self.implied) > allowed
        return Diagnosis(
            tuple(self.lags.tolist()),
            tuple(self.observed.tolist()),
            tuple(self.implied.tolist()),
            tuple(self.margins.tolist()),
            tuple(self.lags[missed].tolist()),
            self._text(missed, allowed),
        )

    def _text(self, missed: npt.NDArray[np.bool_], allowed: Floats) -> str:
        chain = "a one-step chain" if self.period == 1 else f"a chain of period {self.period}"
        if not len(self.lags):
            return "too few pairs of rows to compare autocorrelations"
        if not missed.any():
            if self.margins.min() > BLURRED:
                return f"the reference is too short, or too seldom changes, to decide whether {chain} fits"
            unseen = f"differences below {min(allowed.max(), 2):.2f} would not show"
            return f"{chain} reproduces the autocorrelation at lags {self.lags[0]} to {self.lags[-1]} ({unseen})"
        cycle, strong = self._cycle(missed, allowed)
        excess = np.abs(self.observed - self.implied) - allowed
        at = int(excess.argmax()) if cycle is None or not strong else cycle
        figures = (
            f"at lag {self.lags[at]} the reference has autocorrelation {self.observed[at]:.2f}, "
            f"the chain {self.implied[at]:.2f}"
        )
        where = f"{int(missed.sum())} of {len(missed)} lags differ"
        if cycle is not None and strong:
            return f"{chain} misses a cycle: {figures}; try period={self.lags[cycle]} ({where})"
        weaker = "" if cycle is None else f"; a weaker cycle returns after {self.lags[cycle]} steps"
        return f"{chain} {self._memory(at, allowed)}: {figures}{weaker} ({where})"

    def _memory(self, at: int, allowed: Floats) -> str:
        if abs(self.observed[at]) <= abs(self.implied[at]):
            return "remembers more than the reference"
        end = slice(-(len(self.lags) // 4 + 1), None)
        lasting = float((self.observed - self.implied - allowed)[end].mean()) > 0
        return (
            "misses lasting differences of level"
            if lasting
            else "remembers less than the reference"
        )

    def _cycle(self, missed: npt.NDArray[np.bool_], allowed: Floats) -> tuple[int | None, bool]:
        """Return the least lag to which correlation falls and returns, nearly as high as anywhere, or None.

        The cycle is strong if the return is most of what the chain misses. For a chain with a period only multiples of
        it are compared: in between it has a cycle of its own.
        """
        same = np.flatnonzero(self.lags % self.period == 0)
        height = self.observed[same]
        if len(same) < 2:
            return None, False
        back = height - np.minimum.accumulate(np.append(height[0], height[:-1]))
        excess = height - self.implied[same]
        peak = (height >= np.append(-1.0, height[:-1])) & (height >= np.append(height[1:], -1.0))
        returns = peak & missed[same] & (back > allowed[same]) & (excess > 0)
        if not returns.any():
            return None, False
        at = int(np.flatnonzero(returns & (height >= _NEARLY_HIGHEST * height[returns].max()))[0])
        return int(same[at]), bool(back[at] >= excess[at] / 2)


MOST_CHANCE = 1e-3
LEAST_EFFECT = 0.05


@final
@dataclass(frozen=True)
class SecondStep:
    """A test of a memory of two steps: `chance` of that much dependence if there is none, and its `effect`.

    The effect compares the law of the next state given the last two states with that given the last one alone. It is
    their mean total variation, less what counting alone would cause.
    """

    chance: float
    effect: float

    @property
    def present(self) -> bool:
        """Whether the dependence is there, and large enough to matter."""
        return self.chance < MOST_CHANCE and self.effect >= LEAST_EFFECT


def second_step(counts: TransitionCounts, states: int) -> SecondStep:
    """Return the likelihood ratio test (G) of independence of next and before given here, phase by phase."""
    from scipy.stats import chi2

    known = counts.before >= 0
    times = counts.times[known].astype(np.float64)
    if not len(times):
        return SecondStep(1.0, 0.0)
    table = np.unique(counts.phase[known] * states + counts.here[known], return_inverse=True)[1]
    row = np.unique(table * states + counts.before[known], return_inverse=True)[1]
    column = np.unique(table * states + counts.following[known], return_inverse=True)[1]
    in_table, in_row, in_column = (np.bincount(place, times) for place in (table, row, column))
    statistic = 2 * float(
        (times * np.log(times * in_table[table] / (in_row[row] * in_column[column]))).sum()
    )
    rows, columns = (np.bincount(_owner(place, table)) for place in (row, column))
    freedom = int(((rows - 1) * (columns - 1)).sum())
    share = in_column[column] / in_table[table]
    # a state that never followed differs by its whole share
    variation = 0.5 * (np.bincount(row, np.abs(times / in_row[row] - share) - share) + 1)
    width = np.bincount(
        _owner(column, table), _deviations(in_column, in_table[_owner(column, table)])
    )
    owner = _owner(row, table)
    noise = np.sqrt(np.maximum(1 / in_row - 1 / in_table[owner], 0) / (2 * np.pi)) * width[owner]
    effect = float((in_row * (variation - noise)).sum() / in_row.sum())
    return SecondStep(float(chi2.sf(statistic, freedom)) if freedom else 1.0, effect)


def _owner(place: Indices, table: Indices) -> Indices:
    """Return the table that each row or column belongs to."""
    owner = np.empty(int(place.max()) + 1, dtype=np.intp)
    owner[place] = table
    return owner


def _deviations(times: npt.NDArray[Any], total: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the standard deviations of whether one transition goes to each state."""
    share = times / total
    return np.sqrt(np.maximum(share * (1 - share), 0))


_FEW = 30
_SETTLED = 0.05
_MOST_CELLS = 4 * 10**6


@final
@dataclass(frozen=True, eq=False)
class FittedChain:
    """A chain fitted to a reference: `transitions[p]` leads from phase p to p + 1, state i is `points[i]`.

    `initial` is the stationary law at phase 0, or the law of the states seen there if there is none. `low` and `high`
    bound each transition if slack was given. `diagnosis` and `second_step` say what the chain does not reproduce; the
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

    `step` is a number, or a duration such as "1h" if `order_by` is a time. Positions count steps from 0, or from
    1970-01-01; phases are positions modulo `period`. Rows without a value and gaps are left out. `domain` is a list of
    values or pf.Bins, by default the values that occur. For several columns the states are tuples of values, and
    `domain` is a list of domains. `smoothing` is added to every count.

    `slack` as a number allows every transition that much more or less. With "confidence" the bounds are simultaneous
    Clopper–Pearson intervals, each at (1 − confidence)/cells. If the reference is a chain of this kind, all its
    transitions lie between them with that confidence (nearly: how often a state is left is taken as given). They cover
    chance only, not the distance of the reference from the private data.
    """
    _check(period, smoothing)
    columns = [column] if isinstance(column, str) else list(column)
    if not columns:
        raise UsageError(
            "No column is named.", allowed="a column, or a list of several", instead='"level"'
        )
    others = [("order_by", order_by), *(("column", name) for name in columns)]
    units = read_units(
        () if within is None else within,
        others,
        'fit(reference, "level", order_by="hour", within="meter")',
    )
    frame = read_reference(reference).read([*units, order_by, *columns])
    digest, name = digest_of(frame), columns[0]
    if len(columns) > 1:
        frame, name, domain = with_tuples(frame, columns, domain)
    if 0 < frame.height < period:
        raise UsageError(
            f"period is {period}, and the reference has {frame.height} rows: some phases have no row.",
            allowed="a period of no more steps than the reference has rows",
            instead="period=24, if rows are hours that repeat each day, or a longer reference",
        )
    sequences = read_sequences(
        frame, name, order_by, units, domain=domain, period=period, step=step
    )
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
    origin = replace(reference.origin, zoned=zoned(frame.schema[order_by]) if period > 1 else None)
    provenance = Provenance(reference.name, sequences.rows, digest, notes, origin)
    return FittedChain(transitions, initial, points, low, high, provenance, diagnosis, memory)


def _check(period: object, smoothing: object) -> None:
    if isinstance(period, bool) or not isinstance(period, int) or period < 1:
        raise UsageError(
            f"period is {period!r}.", allowed="a whole number of steps >= 1", instead="period=24"
        )
    allowed, instead = "a finite number >= 0, added to every count", "smoothing=0.5"
    if finite_number(smoothing, "smoothing", allowed=allowed, instead=instead) < 0:
        raise UsageError("smoothing is below 0.", allowed=allowed, instead=instead)


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
            f"Without smoothing nothing is known about {_count_below(left, 1)}.",
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
    low, high = clopper_pearson(
        times, others, (1 - read_confidence(confidence)) / (2 * counts.size)
    )
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
        notes.append(
            f"there is no transition from {_count_below(left, 1)}: any state may follow, equally likely"
        )
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
