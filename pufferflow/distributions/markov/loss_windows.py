"""Windows of releases along a sequence, and the sum of their losses at each step (M20).

Windows may overlap in any way; their losses at a step add up. Steps with the same numbers of open windows of each
kind share one sum, so the work grows with the starts and ends of windows, not with steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.markov.state_loss import Exposures

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

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


def _list_spans(windows: Sequence[Window], which: Indices, starts: Indices) -> tuple[Indices, Indices, Indices]:
    """Return the kind, the first step and the end of every span of every window."""
    rows = [(kind, *span) for kind, window in enumerate(windows) for span in window.spans if span[0] < span[1]]
    spans = np.array(rows, dtype=np.int64).reshape(-1, 3)
    offsets = np.searchsorted(spans[:, 0], np.arange(len(windows) + 1))
    counts = np.diff(offsets)[which]
    window = np.repeat(np.arange(len(which)), counts)
    span = np.arange(len(window)) - np.repeat(np.cumsum(counts) - counts, counts) + offsets[which[window]]
    return spans[span, 0], starts[window] + spans[span, 1], starts[window] + spans[span, 2]


def _join_spans(spans: tuple[Indices, Indices, Indices], base: int, end: int) -> _OpenRuns:
    """Join the spans of each kind: one that begins where another one ends continues it."""
    (kind, begins, ends), width = spans, end - base + 1
    (opened, openings), (closed, closings) = (
        np.unique(kind * width + (steps - base), return_counts=True) for steps in (begins, ends)
    )
    place, inverse = np.unique(np.concatenate([opened, closed]), return_inverse=True)
    change = np.bincount(inverse, np.concatenate([openings, -closings]), len(place)).astype(np.int64)
    place, change = place[change != 0], change[change != 0]
    # the changes of a kind add up to 0, so one running sum works for all kinds
    times = np.cumsum(change)
    nonzero = np.flatnonzero(times)
    kinds, steps = np.divmod(place, width)
    return _OpenRuns(kinds[nonzero], steps[nonzero] + base, steps[nonzero + 1] + base, times[nonzero])


def _find_hull(spans: tuple[Indices, Indices, Indices], hull: tuple[int, int] | None) -> tuple[int, int]:
    """Return the first and the last step."""
    _, begins, ends = spans
    inner = (int(begins.min()), int(ends.max()) - 1) if len(begins) else hull
    if inner is None:
        raise UsageError(
            "There are no windows.", allowed="one window at least, or a hull", instead="hull=(first, last)"
        )
    first, last = inner if hull is None else hull
    if first > inner[0] or last < inner[1]:
        raise UsageError("A window lies outside of the hull.", allowed="a hull (first, last) that holds all windows")
    if last - first >= _MOST_STEPS:
        raise Refused(
            f"Releases along {last - first + 1} steps.",
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
    change = np.concatenate([opened.times, -opened.times])[:, None] * np.concatenate([marks[opened.kind]] * 2)
    order = np.argsort(place, kind="stable")
    # integers wrap around: sums are exact modulo 2^64
    running = np.concatenate([np.zeros((1, _MARKS), dtype=np.int64), np.cumsum(change[order], axis=0)])
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
    return csr_matrix((opened.times[run].astype(np.float64), (order[step], opened.kind[run])), shape=shape)
