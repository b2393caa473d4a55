"""Messages on a star: the losses of a hidden class shared by rows, and of one row, from outputs of rows (M20, M21).

Rows are independent given the class, so their losses about it add up: D(c, c') = Σ_r g_rows(ℓ_r)(c, c'). A row whose
value is a or b adds ℓ(a, b). The others add g_post(D)(a, b), where post are the laws of the class given a and given b.
Everything is rounded up.

Rates per touch bound the loss of the class whichever rows the releases have in common (M20, M21).

A row leaks g(L) about the class, L being the sum of the exposures ℓ_k of the releases that touch it. These releases are
not known. So rates ρ_k are computed with g(Σ_{k∈S} ℓ_k) ≤ Σ_{k∈S} ρ_k for every set S of releases. Then all rows
together leak at most ρ_k for every touch of every release, however touches are spread over rows. Such rates are

- the most that a release adds to any others: max ℓ_k · tanh(Ω/4) for two classes with laws p and q of a row. Ω is the
  largest log p/q less the smallest. Let u be the best potential for L + ℓ, and w the largest one below it that L
  allows. Then 0 ≤ u − w ≤ max ℓ. On the way from w to u both laws are tilted by the same function. That keeps Ω, so
  their distance in total variation is at most tanh(Ω/4);
- shares by a measure h of touches: ρ_k = h_k · sup_{s ≥ h_k} G(s)/s, where no sum of exposures of measure s leaks more
  than G(s). For a set of measure s every share is at least h_k·G(s)/s. With h = 1 touches are counted, with h = max ℓ
  they are weighed;
- shares of some releases by a measure, and what each of the others adds at most;
- the least by a linear program, whose dual is the worst way to spread touches, where there are few sets S.

Every one of them grows with every release, and so does the smallest of the bounds they give.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.rounding import SMALLEST, UNIT
from pufferflow.distributions.markov.law_regions import (
    LawRegions,
    largest_log_ratio,
    region_log_ratio,
)


def padded_log_ratio(top: Floats, bottom: Floats, limits: Floats) -> Floats:
    """Return M20's g, raised by the rounding error of computed laws of k states: a few units for each state.

    >>> padded_log_ratio(np.array([[0.9, 0.1]]), np.array([[0.1, 0.9]]), np.array([[0, 1.0], [1.0, 0]])).round(6)
    array([0.776137])
    """
    widest = float(limits.max(initial=0.0))
    return np.minimum(largest_log_ratio(top, bottom, limits) + 8 * (len(limits) + 4) * UNIT, widest)


RowLaws = Floats | LawRegions
"""The laws of a row given each class, of shape (C, k), or the regions in which they lie."""


def class_leak(rows: RowLaws, losses: Floats) -> Floats:
    """Return g_rows(ℓ), the loss of the class from one row of each kind: of shape (kinds, C, C), for laws (C, k).

    For laws in regions it is at least that of all their members.

    >>> class_leak(np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([[[0, 1.0], [1.0, 0]]])).round(6)[0, 0]
    array([0.      , 0.776137])
    """
    size = len(rows)
    leaks = np.zeros((len(losses), size, size))
    first, second = np.nonzero(~np.eye(size, dtype=np.bool_))
    for kind, limits in enumerate(losses):
        if isinstance(rows, LawRegions):
            leaks[kind, first, second] = region_log_ratio(
                rows.some(first), rows.some(second), limits
            )
        else:
            leaks[kind, first, second] = padded_log_ratio(rows[first], rows[second], limits)
    return leaks


def total_class_leak(leaks: Floats, counts: Indices) -> Floats:
    """Return the loss of the class from all rows: D, of shape (C, C)."""
    return (leaks * counts[:, None, None]).sum(axis=0) * (1 + (len(counts) + 2) * UNIT)


def others_class_leak(leaks: Floats, counts: Indices) -> Floats:
    """Return the loss of the class from all rows but one of each kind: of shape (kinds, C, C).

    It adds sums from both ends, without a difference, so that infinite rows are left out correctly.
    """
    totals = leaks * counts[:, None, None]
    before, after = np.zeros_like(totals), np.zeros_like(totals)
    before[1:] = np.cumsum(totals[:-1], axis=0)
    after[:-1] = np.cumsum(totals[:0:-1], axis=0)[::-1]
    rest = np.multiply(
        leaks, counts[:, None, None] - 1, out=np.zeros_like(leaks), where=counts[:, None, None] > 1
    )
    return (before + after + rest) * (1 + (len(counts) + 4) * UNIT)


_COUNTED = 16
_GROWTH = 1.1
_FINER_GROWTH = 1.05
_MOST_DIRECTIONS = 8
_MOST_SETS = 128
_MOST_ENTRIES = 6_000
_MOST_KNOWN = 4096
_MOST_LADDERS = 256
_SATURATED = 1e9
_WIDEST = 4096.0


@final
@dataclass(frozen=True, eq=False)
class Touches:
    """Kinds of releases that touch rows of a group: exposures of shape (kinds, k, k), each above 0 somewhere.

    There are `times` releases of every kind, with at most `rows` touches altogether.
    """

    exposures: Floats
    times: Indices
    rows: Indices

    @cached_property
    def sizes(self) -> Floats:
        """The largest exposure of every kind."""
        return self.exposures.max(axis=(1, 2))

    @cached_property
    def whole(self) -> Floats:
        """The exposure of a row that every release touches."""
        return self.sum(self.times)

    @cached_property
    def combinations(self) -> int:
        """The number of different sets of releases, the empty set included."""
        return math.prod(int(count) + 1 for count in self.times)

    def sum(self, own: Indices) -> Floats:
        """Return the exposure of a row that `own` releases of each kind touch; rounded up."""
        with np.errstate(over="ignore"):
            total = np.tensordot(own.astype(np.float64), self.exposures, 1)
        return total if own.sum() == 1 else total * (1 + (len(own) + 1) * UNIT)

    def at_most(self, times: int) -> Floats:
        """Return the largest exposure of a row that a number of releases of any kinds touch."""
        return np.minimum(self.exposures.max(axis=0) * times * (1 + UNIT), self.whole)

    def sets(self) -> Indices:
        """Return all sets of releases, by the number of each kind; the first is empty."""
        return np.array(list(product(*(range(int(count) + 1) for count in self.times))))

    def some(self, flags: Flags) -> "Touches":
        return Touches(self.exposures[flags], self.times[flags], self.rows[flags])


@final
@dataclass(frozen=True, eq=False)
class Rates:
    """Several `ways` to charge every touch for its loss of the class, of shape (ways, kinds, C, C).

    The largest addition of a release to others, `increments`, is at least each of them.
    """

    touches: Touches
    laws: RowLaws
    increments: Floats
    ways: Floats

    @classmethod
    def of(cls, touches: Touches, laws: RowLaws) -> "Rates":
        """Return all rates for classes with these laws of a row, of shape (C, k)."""
        increments = touches.sizes[:, None, None] * slopes(laws)
        ways = [increments]
        for flags in _sharing_sets(touches):
            part = touches.some(flags)
            for weighed in (False, True)[: 1 + int(part.sizes.max() <= _WIDEST * part.sizes.min())]:
                way = increments.copy()
                way[flags] = np.minimum(
                    increments[flags], _share_rates(part, laws, weighed=weighed)
                )
                ways.append(way)
        return cls(touches, laws, increments * (1 + 8 * UNIT), np.array(ways) * (1 + 8 * UNIT))

    def of_others(self, own: Indices) -> Floats:
        """Return the loss of the class from all touches but `own`, for each choice of these: (choices, C, C)."""
        left = (self.touches.rows - own).astype(np.float64)
        bounds = np.tensordot(left, self.ways, (1, 1)).min(axis=1) * (
            1 + (len(self.touches.rows) + 1) * UNIT
        )
        return np.minimum(bounds, _optimal_charge(self, left))

    def without_least(self, count: int) -> Floats:
        """Return the loss of the class from all touches without those of `count` releases, for any choice of these."""
        left = (self.touches.rows - self.touches.times).astype(np.float64)
        largest = np.sort(np.repeat(self.ways, self.touches.times, axis=1), axis=1)[:, count:]
        totals = np.tensordot(self.ways, left, (1, 0)) + largest.sum(axis=1)
        return totals.min(axis=0) * (1 + (self.touches.times.sum() + 2) * UNIT)


def slopes(laws: RowLaws) -> Floats:
    """Return the largest slope of a row's loss of two classes in its exposures: tanh(Ω/4), of shape (C, C).

    >>> slopes(np.array([[0.75, 0.25], [0.25, 0.75]])).round(6)
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    low, high = (laws.low, laws.high) if isinstance(laws, LawRegions) else (laws, laws)
    with np.errstate(divide="ignore", invalid="ignore"):
        least, most = np.log(low), np.log(high)
        widths = np.nanmax(most[:, None] - least[None], axis=2) - np.nanmin(
            least[:, None] - most[None], axis=2
        )
    size = max(np.abs(logs[np.isfinite(logs)]).max(initial=0.0) for logs in (least, most))
    bounds = np.tanh(widths / 4 + 8 * UNIT * (1 + widths + size)) * (1 + 4 * UNIT)
    return np.minimum(bounds, 1.0) * (1 - np.eye(len(laws)))


def _sharing_sets(touches: Touches) -> list[Flags]:
    """Return sets of kinds with shared rates: the largest, down to some power of 4, and multiples of one kind."""
    levels = np.floor(np.log2(touches.sizes) / 2)
    sets = [levels >= level for level in np.unique(levels)]
    directions = np.round(touches.exposures / touches.sizes[:, None, None], 6).reshape(
        len(levels), -1
    )
    _, labels = np.unique(directions, axis=0, return_inverse=True)
    if labels.max() < _MOST_DIRECTIONS:
        sets += [labels.reshape(-1) == direction for direction in range(int(labels.max()) + 1)]
    return list({flags.tobytes(): flags for flags in sets}.values())


def _share_rates(touches: Touches, laws: RowLaws, *, weighed: bool) -> Floats:
    """Return h_k · sup G(s)/s over all s from h_k on that sums have, by a ladder, for every kind.

    Touches are counted or weighted by their sizes. G is the loss of the exposure s·`unit`, and at most that of all
    touches of a row, entry by entry.
    """
    measure = touches.sizes if weighed else np.ones(len(touches.sizes))
    unit = (touches.exposures / measure[:, None, None]).max(axis=0) * (1 + UNIT)
    total = float((measure * touches.times).sum()) * (1 + 2 * UNIT)
    last = next(
        high for _, high, _ in _rungs(total / _FINER_GROWTH, weighed=weighed) if high >= total
    )
    span = float(measure.min()), float(measure.max()), last
    ladder = _ladder(_Known.of(laws), unit.tobytes(), span, weighed=weighed)
    limits, most = ladder.highs[:, None, None] * unit, _leak(laws, touches.whole)
    exact = (limits <= touches.whole).all(axis=(1, 2)) | (limits >= touches.whole).all(axis=(1, 2))
    capped = np.minimum(ladder.leak, most)
    rungs = np.searchsorted(ladder.highs, measure)
    while True:
        bounds = ladder.bounds(capped)
        above = np.maximum.accumulate(bounds[::-1])[::-1]
        worst = [bounds[rung:].argmax(axis=0).ravel() + rung for rung in np.unique(rungs)]
        unknown = np.unique(np.concatenate([rungs, *worst]))
        unknown = unknown[~exact[unknown]]
        if not len(unknown):
            break
        for rung in unknown:
            capped[rung] = _leak(laws, np.minimum(limits[rung], touches.whole))
            exact[rung] = True
    own = ladder.bounds(capped, rungs, measure)
    after = np.zeros_like(most) if ladder.highs[-1] >= total else most / ladder.highs[-1]
    beyond = np.concatenate([np.maximum(above, after), after[None]])[rungs + 1]
    return np.maximum(own, beyond) * measure[:, None, None]


@final
@dataclass(frozen=True, eq=False)
class _Ladder:
    """Rungs for sums of a measure, each at `least` so much; the loss at upper ends, and the least sum that may have it.

    Between two rungs G grows at most at its largest rate, so G(s)/s is largest where G reaches its upper value.
    """

    highs: Floats
    least: Floats
    leak: Floats
    first: Floats

    def bounds(self, capped: Floats, rungs: Any = slice(None), measure: Any = 0.0) -> Floats:
        """Return an upper bound on G(s)/s on rungs, for s at least a measure."""
        least = np.maximum(self.least[rungs], measure)[:, None, None]
        return np.minimum(
            self.leak[rungs] / np.maximum(self.first[rungs], least), capped[rungs] / least
        )


@lru_cache(maxsize=_MOST_LADDERS)
def _ladder(
    known: "_Known", unit: bytes, span: tuple[float, float, float], *, weighed: bool
) -> _Ladder:
    """Return a ladder from the smallest and the largest measure of one release up to a last rung.

    It ends early where no higher rung can be the worst of any release, even if the class is revealed.
    """
    rows = known.laws
    unit_exposure = np.frombuffer(unit).reshape(known.states, known.states)
    (smallest, largest, last), fastest = (
        span,
        np.maximum(slopes(rows) * unit_exposure.max(), SMALLEST),
    )
    rungs, worst = list[tuple[float, float, Floats, Floats]](), np.zeros_like(fastest)
    saturated = _leak(rows, np.where(unit_exposure > 0, _SATURATED, 0.0))
    for low, high, least in _rungs(smallest, weighed=weighed):
        before = rungs[-1][2] if rungs else _leak(rows, low * unit_exposure)
        leak = _leak(rows, high * unit_exposure)
        first = low + (leak - np.minimum(before, np.minimum(fastest * low, leak))) / fastest
        rungs.append((high, least, leak, first))
        worst = np.maximum(worst, leak / high) if largest <= high else worst
        if high >= last or (largest <= high and (saturated <= worst * high).all()):
            break
    highs, least, leak, first = zip(*rungs, strict=True)
    return _Ladder(np.array(highs), np.array(least), np.array(leak), np.array(first))


def _rungs(start: float, *, weighed: bool) -> Iterator[tuple[float, float, float]]:
    """Yield rungs (above, up to, at least), the same for all: numbers 1, 2, 3, … in growing steps, or powers.

    Powers begin just below some measure, numbers always at 0.
    """
    step = math.floor(math.log(start) / math.log(_FINER_GROWTH)) - 1 if weighed else 0
    low = _FINER_GROWTH**step if weighed else 0
    while True:
        step += 1
        high = (
            _FINER_GROWTH**step
            if weighed
            else low + 1
            if low < _COUNTED
            else math.ceil(low * _GROWTH)
        )
        yield low, high, low if weighed else low + 1
        low = high


def _optimal_charge(rates: Rates, left: Floats) -> Any:
    """Return the least Σ ρ_k · left_k over all rates, for many numbers of remaining touches; ∞ if it takes long."""
    touches, laws = rates.touches, rates.laws
    entries = touches.combinations * left.size * len(laws) * (len(laws) - 1)
    if touches.combinations > _MOST_SETS or entries > _MOST_ENTRIES:
        return math.inf
    sets = touches.sets()[1:]
    leak = np.array([_leak(laws, touches.sum(times)) for times in sets])
    if sets.shape[1] == 1:  # a single choice
        return left[:, :, None] * (leak / sets[:, :, None]).max(axis=0) * (1 + 4 * UNIT)
    linprog, sparse = _solver()
    off_diagonal = np.nonzero(~np.eye(len(laws), dtype=np.bool_))
    needed, unit = leak[:, *off_diagonal].T, float(rates.increments.max())
    blocks: Any = sparse.kron(
        sparse.identity(len(left) * len(needed)), sets.astype(np.float64), "csr"
    )
    limits = np.tile(
        rates.increments[:, *off_diagonal].T.ravel() / unit, len(left)
    )  # the addition of a release is a sufficient rate
    prices, least = (
        np.repeat(left, len(needed), axis=0).ravel(),
        np.tile(needed.ravel() / unit, len(left)),
    )
    solved = linprog(
        prices, -blocks, -least, bounds=np.column_stack([0 * limits, limits]), method="highs"
    )
    if solved.x is None:
        return math.inf
    optimum = np.zeros((len(left), *leak.shape[1:]))
    chosen: Floats = np.maximum(solved.x, 0.0).reshape(len(left), len(needed), -1) * unit
    optimum[:, *off_diagonal] = _certify(chosen, sets, needed, left)
    return optimum


def _solver() -> tuple[Any, Any]:
    """Return SciPy's linear programs and sparse arrays, which take longer to import than all else here."""
    from scipy import sparse
    from scipy.optimize import linprog

    return linprog, sparse


def _certify(rates: Floats, sets: Indices, needed: Floats, left: Floats) -> Floats:
    """Return Σ ρ_k · left_k for rates raised until no set of releases leaks more than its rates charge."""
    covered = rates @ sets.T
    with np.errstate(divide="ignore", invalid="ignore"):
        short = np.nan_to_num(needed / covered, nan=0.0, posinf=math.inf).max(axis=2)
        total = np.nan_to_num(
            (rates * left[:, None]).sum(axis=2) * short, nan=math.inf, posinf=math.inf
        )
    return total * (1 + (2 * left.shape[1] + 4) * UNIT)


@final
@dataclass(frozen=True)
class _Known:
    """A key for laws by their values, for caches."""

    key: bytes
    classes: int
    states: int
    laws: Any = field(compare=False)

    @classmethod
    def of(cls, laws: RowLaws) -> "_Known":
        if isinstance(laws, LawRegions):
            return cls(laws.key, len(laws), laws.states, laws)
        key = laws.tobytes()
        return cls(key, len(laws), laws.shape[1], np.frombuffer(key).reshape(laws.shape))


def _leak(laws: RowLaws, exposure: Floats) -> Floats:
    """Return g of an exposure, the loss of the class from one row; of shape (C, C)."""
    return _cached_leak(_Known.of(laws), exposure.tobytes())


@lru_cache(maxsize=_MOST_KNOWN)
def _cached_leak(known: _Known, exposure: bytes) -> Floats:
    """Return `_leak`, cached: from one release to the next nearly all exposures stay the same."""
    limits = np.frombuffer(exposure).reshape(known.states, known.states)
    leaks = class_leak(known.laws, limits[None])[0]
    leaks.flags.writeable = False
    return leaks
