"""Releases along one Markov chain whose sums have known laws inside their windows, with messages between (M62).

The windows are cut out of the sequence: those that overlap form one part. A part has a way for each pattern of groups:
the rows of a group that its releases select, with their cells. The law of the noisy sums of these rows is known
exactly. It often reveals far less than their exposures add up to. Parts without such laws have exposures alone.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple, final

import numpy as np

from pufferflow.accounting.rules.base import CompositionRule, UnitReleases
from pufferflow.accounting.rules.markov import (
    along_one_chain,
    chain_along,
    secrets_along,
    span_of,
)
from pufferflow.core.arrays import Floats, Indices
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.chain_parts import (
    ChainPart,
    Way,
    endless_leak_of_parts,
    leak_of_parts,
)
from pufferflow.distributions.markov.hidden_chain import HiddenChain
from pufferflow.distributions.markov.state_loss import Exposures, Window, exposures_of
from pufferflow.distributions.markov.window_sums import NoisySum, WindowSums, lattice_of
from pufferflow.models.priors.markov import ChainPrior
from pufferflow.models.secret import Secret
from pufferflow.noise.laplace import Laplace
from pufferflow.published.cost import Cost, Runs, Shape

_MOST_WINDOWS = 4_000
"""The most windows that are examined one by one."""
_MOST_ROWS = 8_000_000
_MOST_LOSS = 1e6
_MOST_WAYS = 64
"""The most ways of a group in windows that overlap; of more, each row counts as in the loudest."""
_MOST_SUMS = 12
"""More sums have too many values together, even if each has two."""
_MARGIN = 1e-9
"""Where row exposures say as much as laws, as for two states that stay, the simpler rule is to carry the total."""


@final
class WindowsRule(CompositionRule):
    """Windows of one sequence whose groups differ in known ways: by the noise of their cells, or their selected rows.

    Windows may overlap, and each may be chosen after seeing earlier answers. A group that a release does not select
    loses no more than one that it does: its outputs are those of others, with one output left out.
    """

    name = "windows, with messages between them (M20, M62)"
    why = "only pure totals, which bound the ratio of likelihoods on each path (M62)"

    def pure(self, releases: UnitReleases) -> float:
        """Return the largest loss about any row of any part."""
        if not _has_ways(releases.costs) or not _along(releases, releases.costs):
            return math.inf
        first, last = span_of(releases)
        if last - first >= _MOST_ROWS:
            return math.inf
        chain, begin = chain_along(releases, first, last)
        parts = parts_of(releases.costs, begin, last)
        if parts is None or isinstance(chain, HiddenChain):
            return math.inf
        rows = parts[-1].end - parts[0].first
        secrets = secrets_along(releases, begin, rows)
        return leak_of_parts(chain, parts, secrets).value * (1 + _MARGIN)

    def endless(self, releases: UnitReleases) -> float | None:
        """Return the loss of windows that are repeated without end, from a fixed point of their messages."""
        schedule, spent = releases.schedule, list(releases.costs)
        if schedule is None or not _has_ways([schedule.cost]):
            return None
        costs, every = [*spent, schedule.cost], schedule.steps
        low, high = schedule.cost.window
        period = releases.prior.period if isinstance(releases.prior, ChainPrior) else None
        if not (_along(releases, costs) and _repeats(releases)):
            return None
        if period is None or not every or high - low > every:
            return math.inf
        turns = math.lcm(every, period) // every
        ahead = max(
            [cost.window[1] for cost in spent if math.isfinite(cost.window[1])], default=low
        )
        before = max(math.ceil((ahead - low) / every), 0)
        head = [*spent, *(schedule.turn(turn) for turn in range(before))]
        repeated = [schedule.turn(before + turn) for turn in range(turns)]
        begin, _ = span_of(replace(releases, costs=costs))
        begin, start = min(begin, int(low)), int(repeated[0].window[0])
        chain, first = chain_along(replace(releases, costs=costs), begin, begin + period)
        if first != begin or not isinstance(chain, Chain) or start - begin >= _MOST_ROWS:
            return math.inf
        parts = parts_of(head, begin, start - 1) if start > begin else []
        turn = parts_of(repeated, start, start + every * turns - 1)
        if parts is None or turn is None:
            return math.inf
        moved = [ChainPart(part.first + start - begin, part.ways) for part in turn]
        total = endless_leak_of_parts(
            replace(chain, order=chain.order[:period]),
            parts,
            moved,
            secrets_along(releases, begin, 0),
        )
        return total * (1 + _MARGIN)


def _repeats(releases: UnitReleases) -> bool:
    """Return whether every row is a secret, and laws repeat from the first row on, as later turns need."""
    settled = isinstance(releases.prior, ChainPrior) and releases.prior.repeats is not None
    return settled and isinstance(releases.scenario.secret, Secret)


def _along(releases: UnitReleases, costs: Sequence[Cost]) -> bool:
    """Return whether releases lie along one chain of the rows' own values."""
    return isinstance(releases.prior, ChainPrior) and along_one_chain(
        releases.scenario, releases.prior, costs
    )


def _has_ways(costs: Sequence[Cost]) -> bool:
    """Return whether it is known of some release in which ways groups are in it."""
    shapes = {id(cost.shape): cost.shape for cost in costs}.values()
    return len(costs) <= _MOST_WINDOWS and any(
        _lawful(shape) or (shape.rows is not None and shape.rows.parts) for shape in shapes
    )


def _lawful(shape: Shape) -> bool:
    """Return whether a release adds Laplace noise to sums of rows that are known for every group."""
    rows, plain = (
        shape.rows,
        not (shape.row_by_row or shape.exact_sums or shape.kinds or shape.key_delta),
    )
    return bool(rows and rows.patterns and plain) and isinstance(shape.noise, Laplace)


def parts_of(costs: Sequence[Cost], first: int, last: int) -> list[ChainPart] | None:
    """Return the parts of a sequence from its first to its last row: windows, and the rows between them.

    None if no window has several ways or known laws, there are too many, or one reveals a row up to rounding.
    """
    selecting = [cost for cost in costs if math.isfinite(cost.window[0])]
    if not _has_ways(selecting):
        return None
    known, parts = dict[tuple[object, ...], list[Way]](), list[ChainPart]()
    at = first
    for some, low, high in _together(selecting):
        if low < first or high > last + 1:
            return None
        if low > at:
            parts.append(ChainPart(at - first, _silent(at, low, selecting[0], known)))
        key = tuple((id(cost.shape), cost.offset - low) for cost in some)
        if key not in known:
            known[key] = _ways(some, low, high)
        parts.append(ChainPart(low - first, known[key]))
        at = high
    if at <= last:
        parts.append(ChainPart(at - first, _silent(at, last + 1, selecting[0], known)))
    quiet = all(
        (way.exposures.losses < _MOST_LOSS).all() for ways in known.values() for way in ways
    )
    return parts if quiet else None


def _together(costs: Sequence[Cost]) -> list[tuple[list[Cost], int, int]]:
    """Return the windows that overlap, together, with their first row and the row after their last."""
    found = list[tuple[list[Cost], int, int]]()
    for cost in sorted(costs, key=lambda one: one.window):
        low, high = int(cost.window[0]), int(cost.window[1])
        if found and low < found[-1][2]:
            some, start, end = found[-1]
            found[-1] = [*some, cost], start, max(end, high)
        else:
            found.append(([cost], low, high))
    return found


def _silent(
    low: int, high: int, cost: Cost, known: dict[tuple[object, ...], list[Way]]
) -> list[Way]:
    """Return the one way of rows without a release."""
    if (high - low,) not in known:
        nothing = np.zeros((1, *cost.shape.exposure.shape))
        known[high - low,] = [Way(Exposures(nothing, np.zeros(high - low, dtype=np.intp)))]
    return known[high - low,]


class Selection(NamedTuple):
    """The rows of a group that a release may select: their stretches, what each is exposed to, and their cells.

    The cells are None where the law of the sums is not used.
    """

    spans: tuple[tuple[int, int], ...]
    exposure: Floats
    cells: Runs | None = None


def _ways(costs: Sequence[Cost], low: int, high: int) -> list[Way]:
    """Return the ways in which a group may be in some windows that overlap: in each of them in one of its ways."""
    selections = [_selections(cost.shape) for cost in costs]
    if math.prod(map(len, selections)) > _MOST_WAYS:
        selections = [[Selection(_spans(cost.shape.runs), cost.shape.exposure)] for cost in costs]
    return [_way(costs, chosen, low, high) for chosen in product(*selections)]


def _selections(shape: Shape) -> list[Selection]:
    """Return the ways in which a group may be in one window."""
    rows = shape.rows
    if rows is not None and _lawful(shape):
        return [Selection(_spans(runs), shape.exposure, runs) for runs in rows.patterns]
    by_noise = [
        Selection(part.runs, shape.exposure_to(shape.noise.at(part.scale)))
        for part in (() if rows is None else rows.parts)
    ]
    return by_noise or [Selection(_spans(shape.runs), shape.exposure)]


def _way(costs: Sequence[Cost], chosen: Sequence[Selection], low: int, high: int) -> Way:
    """Return the way of a group whose rows in every window are known."""
    windows = [Window(one.exposure, one.spans) for one in chosen]
    starts: Indices = np.array([cost.offset - low for cost in costs], dtype=np.int64)
    exposures = exposures_of(windows, np.arange(len(costs)), starts, (0, high - low - 1))[1]
    sums = list[NoisySum]()
    for cost, one in zip(costs, chosen, strict=True):
        found = (
            None
            if one.cells is None
            else _sums(cost.shape, one.cells, cost.offset - low, high - low)
        )
        if found is None or len(sums) > _MOST_SUMS:
            return Way(exposures)
        sums += found
    return Way(exposures, WindowSums(tuple(sums)) if sums else None)


def _spans(runs: Runs) -> tuple[tuple[int, int], ...]:
    """Return the stretches of steps, in whatever cells."""
    return tuple(dict.fromkeys((first, end) for first, end, _ in runs))


def _sums(shape: Shape, runs: Runs, offset: int, rows: int) -> list[NoisySum] | None:
    """Return the sums of a window that move with some row; None if their terms are on no common lattice."""
    found = list[NoisySum]()
    for values in shape.table:
        lattice = lattice_of(values)
        if lattice is None:
            return None
        steps, unit = lattice
        for cell in dict.fromkeys(cell for _, _, cell in runs) if unit else ():
            terms = np.zeros((rows, len(values)), dtype=np.int64)
            for first, end, own in runs:
                if own == cell:
                    terms[first + offset : end + offset] = steps
            found.append(NoisySum(terms, float(shape.noise.pure(np.array(unit)))))
    return found
