"""Markov quilts: the loss of one row of a chain from a noisy answer, by cutting out a stretch of rows (M19).

A quilt of row t is a row a steps before it, a row b steps after it, or both. The rows within, |X_N| of them with row t,
may move the answer in any way, and cost the noise's loss for that. All others depend on row t only through the quilt,
and add at most its max-influence e. The loss is the largest over rows of the least e + cost(|X_N|) over quilts (Song,
Wang, Chaudhuri: Pufferfish Privacy Mechanisms for Correlated Data, 2017). For Laplace noise of scale b and an answer
that one row moves by L, cost(n) = n·L/b. Then the least scale is L·max_t min |X_N|/(ε − e), as published.

Influences of the two sides are added for one pair of states before the largest is taken. They are never below 0 and
never grow with distance. So rows that share their influences share one table of two-sided quilts, as long as the chain
is: a quilt that would reach past an end is no better than what is left of it, a smaller one without that side.

Distances beyond 512 steps are tried on a grid of relative width 1/256, and sizes are rounded up to it: fewer quilts,
so the loss is never too small.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT, upwards
from pufferflow.distributions.markov.chain import SAME, Chain, stationary
from pufferflow.distributions.markov.state_loss import Secrets

Cost = Callable[[Floats], Floats]
"""The loss of a noise for a movement by n rows: an increasing function, rounded up, of an array of sizes n."""
_FINE = 512
_FORGOTTEN = 2.0**-40
_FAINT = 2.0**-960
_FAINTEST = 2.0**-1000
_LONGEST_PERIOD = 400
_MOST_KINDS = 20_000
_MOST_ENTRIES = 10_000_000
_MOST_WORK = 4_000_000_000


@final
@dataclass(frozen=True)
class QuiltLoss:
    """The largest loss of a row, and that row."""

    value: float
    row: int


@final
@dataclass(frozen=True, eq=False)
class Quilts:
    """The quilts of a chain's rows and their influences: all that does not depend on the noise.

    Kind κ of rows is `rows[first[κ]]`, …, `rows[last[κ]]`. `between` holds the least influence of two-sided quilts of
    each of `sizes`. `before` and `after` hold that of one row at each of `reaches`. All have the shape (kinds, …).

    >>> stay = np.array([[[0.6, 0.4], [0.4, 0.6]]])
    >>> chain = Chain(stay, np.zeros(99, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> quilts = exact_quilts(chain, Secrets(np.array([[0, 1], [1, 0]])))
    >>> round(quilts.loss(lambda sizes: sizes / 3.5718).value, 4)
    1.0
    """

    length: int
    rows: Indices
    first: Indices
    last: Indices
    sizes: Indices
    between: Floats
    reaches: Indices
    before: Floats
    after: Floats

    def loss(self, cost: Cost) -> QuiltLoss:
        """Return max over rows of the least e + cost(|X_N|), rounded up; 0 where no row has secrets."""
        if not len(self.rows):
            return QuiltLoss(0.0, 0)
        whole = float(cost(np.array([float(self.length)]))[0])  # all rows: no influence is left
        inner = (self.between + cost(self.sizes.astype(np.float64))).min(axis=1, initial=whole)
        places, outer = self._outermost(cost)
        losses = np.minimum(inner, outer)
        worst = int(losses.argmax())
        return QuiltLoss(upwards(float(losses[worst]), 4 * UNIT), int(self.rows[places[worst]]))

    def _outermost(self, cost: Cost) -> tuple[Indices, Floats]:
        """Return for each kind the row to which one-sided quilts help least, and what they leave.

        Quilts without a left row cost more at later rows, those without a right row less: the worst row is at their
        crossing.
        """
        low, high = self.first.copy(), self.last.copy()
        while (low < high).any():
            middle = (low + high) // 2
            crossed = self._without_left(cost, middle) >= self._without_right(cost, middle)
            low = np.where(crossed | (low == high), low, middle + 1)
            high = np.where(crossed, middle, high)
        places = np.stack([low, np.maximum(low - 1, self.first)])
        losses = np.stack(
            [
                np.minimum(self._without_left(cost, at), self._without_right(cost, at))
                for at in places
            ]
        )
        worst = losses.argmax(axis=0)[None]
        return np.take_along_axis(places, worst, axis=0)[0], np.take_along_axis(
            losses, worst, axis=0
        )[0]

    def _without_left(self, cost: Cost, places: Indices) -> Floats:
        return self._one_sided(cost, self.after, self.rows[places])

    def _without_right(self, cost: Cost, places: Indices) -> Floats:
        return self._one_sided(cost, self.before, self.length - 1 - self.rows[places])

    def _one_sided(self, cost: Cost, influence: Floats, beyond: Indices) -> Floats:
        """Return the least loss of one-sided quilts with this many rows on the other side; larger ones never help."""
        sizes = np.minimum(beyond[:, None] + self.reaches, self.length)
        return np.asarray(
            (influence + cost(sizes.astype(np.float64))).min(axis=1, initial=math.inf)
        )


def exact_quilts(chain: Chain, secrets: Secrets) -> Quilts:
    """Return the quilts of a chain with their max-influences from its own kernels and marginals, rounded up (M19).

    Of several initial laws the worst mixture counts. States that a row cannot have are no secrets there, and no quilts.
    Quilts stop where influences are below 2^-40. Refused if there are too many different rows.
    """
    steps = chain.kernels[chain.order[: _period(chain.order)]]
    kinds = _sort_rows(chain, steps, secrets)
    windows: list[tuple[int, Floats, Floats]] = []
    entries = kinds.pairs.size
    for reach, window, links in _windows(steps, chain.length - 1):
        before, after = kinds.influences(reach, window, links, secrets.pairs)
        windows.append((reach, before, after))
        _check_work(len(kinds.row), entries * len(windows), entries * len(windows) ** 2)
        if (window.max(axis=1) <= window.min(axis=1) * (1 + _FORGOTTEN)).all():
            break  # the state at the start of a window hardly influences its end
    reaches = np.array([reach for reach, _, _ in windows], dtype=np.intp)
    before, after = (
        np.array([window[side] for window in windows]).reshape(len(reaches), *kinds.pairs.shape)
        for side in (1, 2)
    )
    return _assemble(chain.length, (kinds.rows, kinds.first, kinds.last), reaches, before, after)


def approximate_quilts(chain: Chain, secrets: Secrets) -> Quilts:
    """Return the quilts of a homogeneous chain with max-influences from its least mass and eigengap, rounded up.

    The published Lemma 4.8 (MQMApprox) has Δ_t = e^{−gt/2}/π_min < 1. The quilt (a, b) has an influence of at most
    2·log((1 + Δ_a)/(1 − Δ_a)) + log((1 + Δ_b)/(1 − Δ_b)). An absent row adds nothing. P^t(x,y)/π(y) lies within 1 ± Δ_t
    for g = 2(1 − σ). Here σ is the second singular value of D^½PD^{−½}, with D = diag(π). It is |λ_2| if the chain is
    reversible, as published. For others g is never less than the gap 1 − σ² of PP*, and the bound holds. The left row
    counts twice since P(X_t = x) lies within π(x)(1 ± Δ_a) too: the initial law is free.

    Refused unless the chain is homogeneous, irreducible and aperiodic, and σ < 1.
    """
    rows = np.arange(chain.length) if secrets.rows is None else np.flatnonzero(secrets.rows)
    ends = np.zeros(min(len(rows), 1), dtype=np.intp)
    grid = _grid(chain.length - 1)
    reaches = grid[grid < chain.length]
    after = _mixing_influences(chain, reaches)
    useful = np.arange(len(after)) <= np.argmax(np.append(after, 0.0) <= _FORGOTTEN)
    reaches, after = reaches[useful], after[useful, None, None]
    return _assemble(chain.length, (rows, ends, ends + len(rows) - 1), reaches, 2 * after, after)


def _mixing_influences(chain: Chain, reaches: Indices) -> Floats:
    """Return log((1 + Δ)/(1 − Δ)) for each reach, rounded up; ∞ where Δ ≥ 1."""
    if not len(reaches):
        return np.zeros(0)
    if _period(chain.order) > 1:
        raise _not_mixing("The kernels of the chain change from row to row.")
    kernel = chain.kernels[chain.order[0]]
    links = kernel > 0
    for _ in range(
        2 * chain.states.bit_length()
    ):  # k² steps: a primitive kernel then leads anywhere
        links = (links.astype(np.float64) @ links) > 0
    law = stationary([kernel])
    if law is None or not links.all():
        raise _not_mixing("The chain is reducible or periodic.")
    if law.min() < _FAINT:
        raise _not_mixing("A state of the chain is too rare for its eigengap to be measured.")
    pad = 8 * chain.states**3 * UNIT
    root = np.sqrt(law)
    values = np.linalg.svd(root[:, None] * kernel / root, compute_uv=False)
    gap = 1 - float(values[1:].max(initial=0.0)) - pad
    if gap <= 0:
        raise _not_mixing("The chain and its time reversal together do not mix (eigengap 0).")
    times = reaches * gap * (1 - 2 * UNIT)
    delta = np.exp(-times) * (1 + (8 + 4 * times) * UNIT) / (float(law.min()) * (1 - pad))
    with np.errstate(divide="ignore"):
        return 2 * np.arctanh(np.minimum(delta, 1.0)) * (1 + 8 * UNIT)


def _not_mixing(problem: str) -> Refused:
    return Refused(
        f"{problem} Approximate quilts need a single kernel that mixes.",
        allowed="a homogeneous, irreducible, aperiodic chain",
        instead="exact quilts, or bound=pf.Messages()",
    )


def _check_work(kinds: int, entries: int = 0, work: int = 0) -> None:
    """Refuse chains that take too much memory or time."""
    if kinds > _MOST_KINDS or entries > _MOST_ENTRIES or work > _MOST_WORK:
        raise Refused(
            "This chain has too many quilts: it is long, mixes slowly, and too few of its rows are equal.",
            allowed="long chains with one kernel or a period of kernels, started near their stationary law",
            instead="bound=pf.Messages(), which works for any length",
        )


def _assemble(
    length: int,
    rows: tuple[Indices, Indices, Indices],
    reaches: Indices,
    before: Floats,
    after: Floats,
) -> Quilts:
    """Return quilts from influences of shape (reaches, kinds, pairs): of the left row, and of the right one."""
    # influences do not grow with distance (data processing), so their upper bounds need not
    before, after = (
        np.ascontiguousarray(np.minimum.accumulate(side, axis=0).transpose(2, 1, 0))
        for side in (before, after)
    )
    most = max(min(length - 1, 2 * int(reaches.max(initial=0)) - 1), 1)
    sizes = np.unique(np.minimum(_grid(most), most))
    between = np.full((before.shape[1], len(sizes)), math.inf)
    for at in range(len(reaches)):
        places = np.searchsorted(sizes, int(reaches[at]) + reaches - 1)
        places = places[places < len(sizes)]
        influence = (before[:, :, at, None] + after[:, :, : len(places)]).max(axis=0, initial=0.0)
        # of several with one place the last is kept: the farthest, hence the least
        between[:, places] = np.minimum(between[:, places], influence)
    left, right = (side.max(axis=0, initial=0.0) for side in (before, after))
    return Quilts(
        length, *rows, sizes, np.minimum.accumulate(between, axis=1), reaches, left, right
    )


def _grid(most: int) -> Indices:
    """Return 1, …, 512, then numbers in steps that double with the distance, up to at least `most`."""
    parts, step = [np.arange(1, _FINE + 1)], 2
    while parts[-1][-1] < most:
        parts.append(parts[-1][-1] + step * np.arange(1, _FINE // 2 + 1))
        step *= 2
    return np.concatenate(parts)


def _windows(steps: Floats, most: int) -> Iterator[tuple[int, Floats, Flags]]:
    """Yield each reach of the grid up to `most`, with the products of so many steps from each phase on.

    The third are the links in them, which do not underflow.
    """
    gap = window = np.stack([steps, (steps > 0).astype(np.float64)])
    reach = size = 1
    while reach <= most:
        yield reach, window[0], window[1] > 0
        if reach == _FINE * size:
            gap, size = _concatenate(gap, gap, size), 2 * size
        window, reach = _concatenate(window, gap, reach), reach + size


def _concatenate(window: Floats, then: Floats, reach: int) -> Floats:
    """Return the products of steps, and the links, of windows that follow one another."""
    product = window @ np.roll(then, -reach, axis=1)
    product[1] = product[1] > 0
    return product


def _period(order: Indices) -> int:
    """Return after how many steps the steps repeat, if they do."""
    for period in range(1, min(len(order), _LONGEST_PERIOD + 1)):
        if order[0] == order[period] and np.array_equal(order[period:], order[:-period]):
            return period
    return max(len(order), 1)


def _largest_log_ratio(values: Floats, links: Flags, pairs: Indices) -> Floats:
    """Return the log of the largest values[x, ·]/values[x', ·] for each pair (x, x'), not yet rounded.

    A subnormal numerator is replaced by a larger float, a subnormal denominator by 0.
    """
    top = np.where(links, np.maximum(values, _FAINT), 0.0)[:, pairs[:, 0]]
    bottom = np.where(values < _FAINT, 0.0, values)[:, pairs[:, 1]]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(top > 0, top / bottom, 0.0)
    return np.log(np.maximum(ratios.max(axis=2), _FAINTEST))


def _log_above(logs: Floats, products: int, states: int) -> Floats:
    """Return logs of quotients of products of kernels, rounded up.

    A sum of k products of floats has a relative error of k/2 units, and products add the errors of their factors.
    """
    return logs + np.abs(logs) * 4 * UNIT + 2 * (products + 1) * (states + 1) * UNIT


@final
@dataclass(frozen=True, eq=False)
class _Kinds:
    """Rows with secrets, sorted by kind, and what the rows of each kind share.

    A kind has a phase of the steps, a row (the only one where `single_row`), and the pairs that are secrets. Each pair
    has its largest log P(X_t = x')/P(X_t = x). States before a row are those of `masks[mask_of]` if the row is known,
    and else the `phase_masks` of their phase.
    """

    rows: Indices
    first: Indices
    last: Indices
    row: Indices
    single_row: Flags
    pairs: Flags
    prior: Floats
    masks: Flags
    mask_of: Indices
    phase_masks: Flags

    def influences(
        self, reach: int, window: Floats, links: Flags, pairs: Indices
    ) -> tuple[Floats, Floats]:
        """Return the influences of the rows at these distances before and after, for each kind and pair."""
        states, phases = self.phase_masks.shape[1], len(self.phase_masks)
        phase, phase_before = self.row % phases, (self.row - reach) % phases
        known = self.masks[self.mask_of[np.maximum(self.row - reach, 0)]]
        sources = np.where(
            (self.single_row & (self.row >= reach))[:, None], known, self.phase_masks[phase_before]
        )
        back = (links[phase_before] & sources[:, :, None]).swapaxes(1, 2)
        left = self.prior + _log_above(
            _largest_log_ratio(window[phase_before].swapaxes(1, 2), back, pairs), reach, states
        )
        right = _log_above(_largest_log_ratio(window[phase], links[phase], pairs), reach, states)
        # two laws have a ratio of 1 or more somewhere; logs below 0 belong to rows before the first
        return np.where(self.pairs, np.maximum(left, 0.0), 0.0), np.where(
            self.pairs, np.maximum(right, 0.0), 0.0
        )


def _sort_rows(chain: Chain, steps: Floats, secrets: Secrets) -> _Kinds:
    """Group the rows with secrets by the data that their quilts share."""
    period, (laws, supports) = max(len(steps), 1), _marginal_laws(chain, steps)
    masks, mask_of, times = chain.masks, chain.mask_of, np.arange(chain.length)
    start = len(laws) - period if len(laws) < chain.length else chain.length
    label = np.where(times < start, times, start + (times - start) % period)
    allowed: Flags = np.logical_and.reduce(masks[:, secrets.pairs], axis=2)
    rows = times if secrets.rows is None else np.flatnonzero(secrets.rows)
    rows = rows[np.logical_or.reduce(allowed, axis=1)[mask_of[rows]]]
    _, firsts, kind = np.unique(
        label[rows] * len(masks) + mask_of[rows], return_index=True, return_inverse=True
    )
    row, ends = rows[firsts], np.cumsum(np.bincount(kind, minlength=len(firsts)))
    usual = np.zeros((period, chain.states), dtype=np.bool_)
    occurring = np.unique(times % period * len(masks) + mask_of)
    np.logical_or.at(usual, occurring // len(masks), masks[occurring % len(masks)])
    prior = _largest_log_ratio(
        laws[label[row]].swapaxes(1, 2), supports[label[row]].swapaxes(1, 2), secrets.pairs[:, ::-1]
    )
    return _Kinds(
        rows[np.argsort(kind, kind="stable")],
        np.concatenate([[0], ends[:-1]]).astype(np.intp)[: len(firsts)],
        ends - 1,
        row,
        row < start,
        allowed[mask_of[row]],
        _log_above(prior, chain.length, chain.states) + 8 * SAME,
        masks,
        mask_of,
        usual,
    )


def _marginal_laws(chain: Chain, steps: Floats) -> tuple[Floats, Flags]:
    """Return the laws of the rows and their supports, until those of one period repeat."""
    period, links = len(steps), (steps > 0).astype(np.float64)
    rest = stationary(steps) if period < chain.length - 1 else None
    laws, supports = [chain.initial], [chain.initial > 0]
    while len(laws) < chain.length:
        at = len(laws) - 1
        turn = slice(at - period, None, period)
        if at >= period and at % period == 0 and _has_settled(laws[turn], supports[turn], rest):
            return np.array(laws[:at]), np.array(supports[:at])
        _check_work(at)
        laws.append(laws[at] @ steps[at % period])
        supports.append((supports[at] @ links[at % period]) > 0)
    return np.array(laws), np.array(supports)


def _has_settled(laws: list[Floats], supports: list[Flags], rest: Floats | None) -> bool:
    """Return whether laws one period apart are equal, or near the stationary law, and so stay near it."""
    if not all(np.array_equal(laws[0] > 0, support) for support in supports):
        return False
    near = rest is not None and bool((np.abs(laws[0] - rest) <= SAME * rest).all())
    return near or np.array_equal(laws[0], laws[1])
