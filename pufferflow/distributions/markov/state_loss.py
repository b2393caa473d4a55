"""The loss of a row's state from outputs along a chain, B_t + ℓ_t + F_t, and windows of releases along it (M20).

An infinite sequence has the exposures of a head, then a periodic turn of others. Messages about the future have no last
row to begin at. They begin with a message that a turn does not raise, and go back through the head. So they are never
below those of any finite sequence. Messages about the past begin at row 0. Once the laws of rows repeat, so do the
steps, and a bound on all further messages is checked in the same way.

Windows of releases along a sequence may overlap in any way; their losses at a step add up. Steps with the same numbers
of open windows of each kind share one sum. So the work grows with the starts and ends of windows, not with steps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.markov.chain import LONG, Chain, tile
from pufferflow.distributions.markov.chain_class import Chains
from pufferflow.distributions.markov.hidden_chain import HiddenChain
from pufferflow.distributions.markov.messages import Run, SomeSteps, run, settle

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_TURNS = 16
_QUIET = np.errstate(over="ignore", invalid="ignore")
"""Losses beyond the largest float become infinite."""


AnyChain = Chain | Chains | HiddenChain


@final
@dataclass(frozen=True)
class Leak:
    """The largest log-likelihood ratio of two states of a row, that row and the states; `tight` as in `Run`."""

    value: float
    row: int
    states: tuple[int, int]
    tight: bool = True


@final
@dataclass(frozen=True, eq=False)
class Secrets:
    """Pairs of states to be indistinguishable, of shape (S, 2), in both orders, and the secret rows; all if None."""

    pairs: Indices
    rows: Flags | None = None
    hidden: bool = False
    """Whether they are the hidden states of a hidden chain, not the symbols that its rows show."""

    def possible(self, chain: AnyChain) -> Flags:
        """Return for each pair whether some secret row can have both its states."""
        chain = chain.hidden if self.hidden and isinstance(chain, HiddenChain) else chain
        rows = chain.mask_of if self.rows is None else chain.mask_of[self.rows]
        return np.asarray(chain.masks[np.unique(rows)][:, self.pairs].all(axis=2).any(axis=0))

    def largest(self, losses: Floats, possible: Flags) -> tuple[float, int, int]:
        """Return the largest loss among matrices of shape (U, k, k), with the places of the matrix and of the pair.

        A state that a row cannot have is no secret there.
        """
        values = losses[:, self.pairs[:, 0], self.pairs[:, 1]]
        values = np.where(possible[:, self.pairs].all(axis=2), values, 0.0)
        place, pair = np.unravel_index(int(values.argmax()), values.shape)
        return float(values[place, pair]), int(place), int(pair)


@final
@dataclass(frozen=True, eq=False)
class Exposures:
    """The largest losses of outputs about each row's state, given all other rows: `losses[kinds[t]]` at row t (ℓ_t)."""

    losses: Floats
    kinds: Indices


@_QUIET
def leak(chain: AnyChain, exposures: Exposures, secrets: Secrets) -> Leak:
    """Return max B_t(a,b) + ℓ_t(a,b) + F_t(a,b) over the rows t and pairs (a, b) of the secrets, rounded up.

    Exposures along a hidden chain are those of its symbols.

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(8, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> steps = Exposures(0.5 * (1 - np.eye(2))[None], np.zeros(9, dtype=np.intp))
    >>> worst = leak(chain, steps, Secrets(np.array([[0, 1], [1, 0]])))
    >>> round(worst.value, 6), worst.row
    (2.635461, 4)
    """
    along, felt = _felt_along(chain, exposures.losses)
    future = run(along.forward, felt, exposures.kinds[::-1])
    past = run(along.backward, felt, exposures.kinds)
    return _largest_leak(chain, past, future.backwards(), exposures, secrets)


def endless_leak(chain: AnyChain, exposures: Exposures, secrets: Secrets) -> Leak:
    """Return the leak of an infinite sequence; ∞ if its losses do not converge.

    `chain` gives one turn of the kernels and the laws of row 0; `exposures` one turn of the exposures.

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(1, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> steps = Exposures(0.1 * (1 - np.eye(2))[None], np.zeros(1, dtype=np.intp))
    >>> round(endless_leak(chain, steps, Secrets(np.array([[0, 1], [1, 0]]))).value, 4)
    0.8724
    """
    return continued_leak(
        chain, Exposures(exposures.losses, exposures.kinds[:0]), exposures, secrets
    )


@_QUIET
def continued_leak(chain: AnyChain, head: Exposures, turn: Exposures, secrets: Secrets) -> Leak:
    """Return the leak of an infinite sequence: a head of rows with their own exposures, then a repeated turn.

    Row t has `head.kinds[t]`, and from row len(head.kinds) on `turn.kinds[t % len(turn.kinds)]`: the turn is aligned
    with the number of the row. The secrets are those of all rows. ∞ if the losses do not converge.

    >>> stay = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> chain = Chain(stay, np.zeros(1, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> steps = Exposures((1 - np.eye(2))[None] * np.array([0.1, 0.5])[:, None, None], np.zeros(1, dtype=np.intp))
    >>> first = Exposures(steps.losses, np.ones(3, dtype=np.intp))
    >>> round(continued_leak(chain, first, steps, Secrets(np.array([[0, 1], [1, 0]]))).value, 4)
    1.5893
    """
    along, first = _felt_along(chain, head.losses)
    schedule = _HeadAndTurns(
        along, first, head.kinds, _felt_along(chain, turn.losses)[1], turn.kinds
    )
    start, resting = along.settling(), schedule.resting()
    past = (
        None
        if start is None or resting is None
        else schedule.past(max(len(head.kinds), start), resting)
    )
    if resting is None or past is None:
        a, b = secrets.pairs[0].tolist()
        return Leak(math.inf, 0, (a, b), tight=True)
    rows = len(past.index)
    exposures = Exposures(np.concatenate([head.losses, turn.losses]), schedule.kinds(rows))
    return _largest_leak(
        chain.repeated(rows - 1), past, schedule.future(resting, rows), exposures, secrets
    )


def _felt_along(chain: AnyChain, losses: Floats) -> tuple[Chain | Chains, Floats]:
    """Return the chain of states that messages go along, and the exposures of its states."""
    if isinstance(chain, HiddenChain):
        return chain.along, chain.felt(losses)
    return chain, losses


def _largest_leak(
    chain: AnyChain, past: Run, future: Run, exposures: Exposures, secrets: Secrets
) -> Leak:
    """Return the largest sum of the losses of past, row and future; equal rows are computed once."""
    along, felt = _felt_along(chain, exposures.losses)
    shown = chain.posteriors() if isinstance(chain, HiddenChain) and not secrets.hidden else None
    rows = np.arange(along.length) if secrets.rows is None else np.flatnonzero(secrets.rows)
    labels = [past.index, future.index, exposures.kinds, along.mask_of]
    rows = _distinct_rows(rows, *labels, *(() if shown is None else (shown.order,)))
    before, after = past.pool[past.index[rows]], future.pool[future.index[rows]]
    if shown is None:
        losses = before + felt[exposures.kinds[rows]] + after
        possible = along.masks[along.mask_of[rows]]
    else:
        others = zip(shown.order[rows].tolist(), before + after, strict=True)
        sent = np.array([shown.send(at, limits) for at, limits in others])
        losses = exposures.losses[exposures.kinds[rows]] + sent
        possible = chain.masks[chain.mask_of[rows]]
    value, place, pair = secrets.largest(losses, possible)
    a, b = secrets.pairs[pair].tolist()
    value = math.inf if math.isnan(value) else value  # sums beyond floats
    return Leak(value * (1 + 2 * UNIT), int(rows[place]), (a, b), tight=past.tight and future.tight)


def _distinct_rows(rows: Indices, *labels: Indices) -> Indices:
    """Return the first row of each combination of labels."""
    code = np.zeros(len(rows), dtype=np.int64)
    for label in labels:
        values = label[rows]
        code = code * (int(values.max()) + 1) + values
    candidates = rows[np.concatenate([[True], code[1:] != code[:-1]])]
    _, first = np.unique(code[np.searchsorted(rows, candidates)], return_index=True)
    return candidates[first]


@final
@dataclass(frozen=True, eq=False)
class _HeadAndTurns:
    """Row t has exposures `head[t]` of `first`, then `turn[t % len(turn)]` of `later`; `single_turn` of kernels."""

    single_turn: Chain | Chains
    first: Floats
    head: Indices
    later: Floats
    turn: Indices

    @cached_property
    def losses(self) -> Floats:
        return np.concatenate([self.first, self.later])

    @cached_property
    def period(self) -> int:
        """The number of rows after which both kernels and exposures repeat."""
        return math.lcm(len(self.single_turn.order), len(self.turn))

    def kinds(self, rows: int) -> Indices:
        """Return the index in `losses` for each of the first rows."""
        kinds = len(self.first) + tile(self.turn, rows)
        kinds[: len(self.head)] = self.head[:rows]
        return kinds

    def resting(self) -> Run | None:
        """Return messages about the future far from the head, rows in falling order from a multiple of the period."""
        far = len(self.first) + tile(self.turn, self.period + 1)[:0:-1]
        return settle(self._futurewards(self.period), self.losses, far)

    def future(self, resting: Run, rows: int) -> Run:
        """Return the messages about the future at the first rows."""
        length = len(self.head)
        phases = resting.index[-np.arange(length, rows) % self.period]
        kinds = self.kinds(length + 1)[:0:-1]
        head = run(self._futurewards(length), self.losses, kinds, resting.pool[phases[0]])
        return head.backwards().then(Run(resting.pool, phases, resting.tight))

    def past(self, settled: int, resting: Run) -> Run | None:
        """Return the messages about the past at rows 0, 1, …, if laws repeat from a row on; the last turn is repeated.

        They converge to a limit near that of the messages about the future.
        """
        turn = self.period
        settling = -(-max(2 * LONG, _TURNS * turn) // turn) * turn
        steps = self.single_turn.repeated(settled + settling).backward
        last = steps.order[-turn:]
        # the laws of a class count as repeating when its steps do
        begin = (
            settled
            if np.array_equal(steps.order[settled : settled + turn], last)
            else settled + settling - turn
        )
        kinds = self.kinds(begin + turn)
        first = run(SomeSteps(steps, steps.order[:begin]), self.losses, kinds)
        rest = settle(
            SomeSteps(steps, last),
            self.losses,
            kinds[begin:],
            first.last,
            resting.pool[resting.index[-begin % turn]],
        )
        return None if rest is None else first.then(rest)

    def _futurewards(self, row: int) -> SomeSteps:
        """Return the steps of messages about the future from a row to row 0."""
        return SomeSteps(self.single_turn.forward, tile(self.single_turn.order, row)[::-1])


_MOST_STEPS = 8_000_000
_MARKS = 2


@final
@dataclass(frozen=True, eq=False)
class Window:
    """The largest loss of one release about a step, given all other steps (ℓ), at the steps of its spans.

    A span (first, end) holds the steps first … end − 1, counted from the start of the window; spans may overlap.
    """

    losses: Floats
    spans: tuple[tuple[int, int], ...]


def exposures_of(
    windows: Sequence[Window], which: Indices, starts: Indices, hull: tuple[int, int] | None = None
) -> tuple[int, Exposures]:
    """Return the first step of the hull of all windows, and the summed losses of every step from there to its last.

    Window i is `windows[which[i]]`, from step `starts[i]` on. Sums are rounded up; a step that no window touches has 0.
    A given hull (first, last) must hold all windows.

    >>> day = Window(0.1 * (1 - np.eye(2)), ((0, 24),))
    >>> base, exposures = exposures_of([day], np.zeros(3, dtype=np.intp), np.array([0, 24, 40]))
    >>> base, len(exposures.kinds), exposures.losses[:, 0, 1].round(6).tolist()
    (0, 64, [0.1, 0.2])
    """
    spans = _list_spans(windows, which, starts)
    first, last = _find_hull(spans, hull)
    opened = _join_spans(spans, first, last + 1)
    bounds = np.unique(np.concatenate([opened.first, opened.end, [first, last + 1]]))
    sums, label = _sum_losses(np.array([window.losses for window in windows]), opened, bounds)
    return first, Exposures(sums, np.repeat(label, np.diff(bounds)))


@final
@dataclass(frozen=True, eq=False)
class _OpenRuns:
    """Runs of steps first … end − 1, on which `times` windows of a kind are open at once."""

    kind: Indices
    first: Indices
    end: Indices
    times: Indices


def _list_spans(
    windows: Sequence[Window], which: Indices, starts: Indices
) -> tuple[Indices, Indices, Indices]:
    """Return the kind, the first step and the end of every span of every window."""
    rows = [
        (kind, *span)
        for kind, window in enumerate(windows)
        for span in window.spans
        if span[0] < span[1]
    ]
    spans = np.array(rows, dtype=np.int64).reshape(-1, 3)
    offsets = np.searchsorted(spans[:, 0], np.arange(len(windows) + 1))
    counts = np.diff(offsets)[which]
    window = np.repeat(np.arange(len(which)), counts)
    span = (
        np.arange(len(window))
        - np.repeat(np.cumsum(counts) - counts, counts)
        + offsets[which[window]]
    )
    return spans[span, 0], starts[window] + spans[span, 1], starts[window] + spans[span, 2]


def _join_spans(spans: tuple[Indices, Indices, Indices], base: int, end: int) -> _OpenRuns:
    """Join the spans of each kind: one that begins where another one ends continues it."""
    (kind, begins, ends), width = spans, end - base + 1
    (opened, openings), (closed, closings) = (
        np.unique(kind * width + (steps - base), return_counts=True) for steps in (begins, ends)
    )
    place, inverse = np.unique(np.concatenate([opened, closed]), return_inverse=True)
    change = np.bincount(inverse, np.concatenate([openings, -closings]), len(place)).astype(
        np.int64
    )
    place, change = place[change != 0], change[change != 0]
    # the changes of a kind add up to 0, so one running sum works for all kinds
    times = np.cumsum(change)
    nonzero = np.flatnonzero(times)
    kinds, steps = np.divmod(place, width)
    return _OpenRuns(
        kinds[nonzero], steps[nonzero] + base, steps[nonzero + 1] + base, times[nonzero]
    )


def _find_hull(
    spans: tuple[Indices, Indices, Indices], hull: tuple[int, int] | None
) -> tuple[int, int]:
    """Return the first and the last step."""
    _, begins, ends = spans
    inner = (int(begins.min()), int(ends.max()) - 1) if len(begins) else hull
    if inner is None:
        raise UsageError(
            "There are no windows.",
            allowed="one window at least, or a hull",
            instead="hull=(first, last)",
        )
    first, last = inner if hull is None else hull
    if first > inner[0] or last < inner[1]:
        raise UsageError(
            "A window lies outside of the hull.",
            allowed="a hull (first, last) that holds all windows",
        )
    if last - first >= _MOST_STEPS:
        raise Refused(
            f"The releases span {last - first + 1} steps.",
            allowed=f"at most {_MOST_STEPS} steps from the first to the last",
            instead="a longer step",
        )
    return first, last


def _sum_losses(losses: Floats, opened: _OpenRuns, bounds: Indices) -> tuple[Floats, Indices]:
    """Return the distinct sums, and which of them each stretch between two bounds has."""
    representative, label = _group_stretches(opened, bounds, len(losses))
    counts = _count_open(opened, bounds[representative], len(losses))
    terms = int(np.diff(counts.indptr).max(initial=0))
    # a sum of n products of numbers ≥ 0 is off by (n + 1)/2 units at most: rounded up
    sums = (counts @ losses.reshape(len(losses), -1)) * (1 + (terms + 4) * UNIT)
    distinct, kind = np.unique(sums, axis=0, return_inverse=True)
    return distinct.reshape(-1, *losses.shape[1:]), kind.reshape(-1)[label]


def _group_stretches(opened: _OpenRuns, bounds: Indices, kinds: int) -> tuple[Indices, Indices]:
    """Return one stretch between bounds for each set of open windows, and which set each stretch has.

    A set is identified by the sum of random marks of its windows; 128 bits are enough never to mix up two.
    """
    marks = np.random.default_rng(kinds).integers(-(2**63), 2**63 - 1, (kinds, _MARKS))
    place = np.searchsorted(bounds, np.concatenate([opened.first, opened.end]))
    change = np.concatenate([opened.times, -opened.times])[:, None] * np.concatenate(
        [marks[opened.kind]] * 2
    )
    order = np.argsort(place, kind="stable")
    # integers wrap around: sums are exact modulo 2^64
    running = np.concatenate(
        [np.zeros((1, _MARKS), dtype=np.int64), np.cumsum(change[order], axis=0)]
    )
    mark = running[np.searchsorted(place[order], np.arange(len(bounds) - 1), side="right")]
    _, representative, label = np.unique(mark, axis=0, return_index=True, return_inverse=True)
    return representative, label.reshape(-1)


def _count_open(opened: _OpenRuns, steps: Indices, kinds: int) -> "csr_matrix":
    """Return how many windows of each kind are open at some steps."""
    from scipy.sparse import csr_matrix  # takes longer to import than all else here

    order = np.argsort(steps)
    low, high = (np.searchsorted(steps[order], side) for side in (opened.first, opened.end))
    number = high - low
    run = np.repeat(np.arange(len(number)), number)
    step = np.arange(len(run)) - np.repeat(np.cumsum(number) - number, number) + low[run]
    shape = len(steps), kinds
    return csr_matrix(
        (opened.times[run].astype(np.float64), (order[step], opened.kind[run])), shape=shape
    )
