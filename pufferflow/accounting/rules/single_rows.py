"""Releases about rows of a chain, by what they reveal about each row while all others are fixed (M35, M37, M38).

Messages of M20 carry pure losses of sums. Gaussian noise has none, and a fitted model is no sum. But each is μ-Gaussian
in every row, whatever the other rows are, and several releases are so with the root of the sum of squares. From single
rows that bound is carried to the chain. Releases whose positions are unknown count as being about every row.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import final

import numpy as np

from pufferflow.accounting.rules.additive import squared_deviations, squares_of_one_row
from pufferflow.accounting.rules.base import CompositionRule, UnitReleases, added
from pufferflow.accounting.rules.markov import span_of
from pufferflow.calibration.chain_bounds import ChainedRows
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.hidden_chain import HiddenChain
from pufferflow.distributions.markov.state_loss import Secrets, Window, exposures_of
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.hidden_markov import HiddenMarkov
from pufferflow.models.priors.markov import ChainPrior, SequencePrior
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Derived, Initial, Secret
from pufferflow.noise.gaussian import Gaussian
from pufferflow.privacy.guarantee import GuaranteeFamily
from pufferflow.published.cost import Cost, Shape
from pufferflow.sensitivity.hidden_markov import secrets_of

_LONGEST = 1024
_TURNS = 8
_FINE_STATES = 4
"""Up to this number of states messages have a distance for each two states, beyond it one for all, with more noise."""


@final
class SingleRowsRule(CompositionRule):
    """Losses of releases about any one row, if all others are fixed, are carried along the chain."""

    name = "single rows, carried along the chain (M37, M38)"
    why = (
        "for each row the squared movements of the releases that touch it are added. "
        "The largest sum on a path is carried along a chain whose length no answer decides (M37). "
        "Pure totals bound the ratio on each path (M35)"
    )

    def pure(self, releases: UnitReleases) -> float:
        if not any(shape.row_movement is not None for shape in releases.shapes):
            return math.inf  # messages give a tighter bound for sums
        rows = rows_of(releases)
        return (
            math.inf
            if rows is None
            else rows.pure_loss(added(map(_pure_row, releases.shapes), releases.times))
        )

    def by_own(self, releases: UnitReleases, kind: GuaranteeFamily) -> float:
        if not (beyond_laplace(releases) or _is_quick(releases.prior)):
            return math.inf  # messages suit Laplace noise better
        rows = rows_of(releases)
        row = math.inf if rows is None else deviations_of(releases)
        if rows is None or not math.isfinite(row):
            return math.inf
        return rows.loss(kind, row)[0] if row else 0.0


def beyond_laplace(releases: UnitReleases) -> bool:
    """Return whether a release has Gaussian noise or is a fitted model, for which rows have no pure losses."""
    return any(
        shape.row_movement is not None or isinstance(shape.noise, Gaussian)
        for shape in releases.shapes
    )


def _is_quick(prior: Prior) -> bool:
    """Return whether rows are counted within milliseconds: along chains of two states that repeat one kernel."""
    return isinstance(prior, ChainPrior) and prior.states == 2 and prior.repeats == 1


def turns_until_endless(costs: Sequence[Cost], cost: Cost, every: int, prior: Prior) -> int | None:
    """Return after how many turns of a schedule, `every` so many steps, further ones raise no total of single rows.

    By then windows of the schedule overlap as they always will, after all other windows. None if that is unknown.
    """
    windows = [one.window for one in (*costs, cost)]
    if (
        not isinstance(prior, SequencePrior)
        or prior.repeats is None
        or not every
        or not cost.shape.runs
    ):
        return None
    if not all(math.isfinite(low) and math.isfinite(high) for low, high in windows):
        return None
    last = max(high for _, high in windows)
    return math.ceil(2 * (last - cost.window[0]) / every) + 1


def chained_rows(
    scenario: Scenario, prior: Prior, steps: tuple[int, int] | None, start: float | None
) -> ChainedRows:
    """Return the rows of a chain from the first to the last of some steps, of sequences that began at `start`.

    If laws repeat, an unknown start does not matter, and many or unknown steps count as endless. All rows of the steps
    are read, and there are no others. But a first value may come before them; then any two values of any row count.
    """
    secret = scenario.secret
    if not isinstance(prior, ChainPrior) or not isinstance(secret, Secret | Initial):
        raise _no_chain()
    known = secret if isinstance(secret, Secret) else None
    if prior.repeats is None:
        if steps is None or start is None or steps[0] < start:
            raise _no_chain()
        return _chained(prior, known, int(start), steps, endless=False)
    if (
        steps is None
        or steps[1] - steps[0] >= _LONGEST
        or (secret.pairs != "all" and known is None)
    ):
        return _endless(prior, secret)
    first = steps[0] % prior.repeats
    return _chained(prior, known, first, (first, first + steps[1] - steps[0]), endless=False)


def _endless(prior: SequencePrior, secret: Secret | Initial | Derived) -> ChainedRows:
    """Return the rows of a chain whose laws repeat, from any row to any other."""
    return _chained(
        prior, secret, 0, (0, max(_LONGEST, _TURNS * (prior.repeats or 1))), endless=True
    )


@lru_cache(maxsize=64)
def _chained(
    prior: SequencePrior,
    secret: Secret | Initial | Derived | None,
    begin: int,
    steps: tuple[int, int],
    *,
    endless: bool,
) -> ChainedRows:
    """Return the rows of a chain; without a secret any two states have to be indistinguishable."""
    chain, _ = prior.along(np.arange(steps[0], steps[1] + 1, dtype=np.float64), float(begin))
    if isinstance(chain, Chain | HiddenChain) and chain.states > _FINE_STATES:
        chain = replace(chain, coarse=True)
    pairs = (
        Secrets(np.argwhere(~np.eye(chain.states, dtype=np.bool_)))
        if secret is None
        else secrets_of(prior, secret)
    )
    return ChainedRows(chain, pairs, endless)


def rows_of(releases: UnitReleases) -> ChainedRows | None:
    """Return the rows that releases of one unit are about; None if they are along no chain.

    Which rows there are must not depend on earlier answers, but the span of releases may. So the whole sequence counts,
    without end if laws repeat. Other chains count as far as their matrices go, or up to a fixed length.
    """
    prior, secret = releases.prior, releases.scenario.secret
    if not isinstance(prior, SequencePrior) or not isinstance(secret, Secret | Initial | Derived):
        return None
    if isinstance(prior, HiddenMarkov) and not isinstance(secret, Derived):
        return None  # of what hidden states show only pure losses are known
    if prior.repeats is not None:
        return _endless(prior, secret)
    costs, starts = releases.costs, {cost.start for cost in releases.costs}
    placed = (
        all(cost.steps_seen is not None for cost in costs)
        and len({cost.clock for cost in costs}) == 1
    )
    begin = starts.pop() if len(starts) == 1 else None
    if begin is None or not placed:
        return None
    first, last = int(begin), int(begin) + min(prior.steps_known, _LONGEST)
    inside = first <= span_of(releases)[0] and span_of(releases)[1] <= last
    named = secret if isinstance(secret, Derived) else None
    return _chained(prior, named, first, (first, last), endless=False) if inside else None


def deviations_of(releases: UnitReleases) -> float:
    """Return the most deviations that all answers move with one row, rounded up."""
    known = [_squares(shape, releases.prior) for shape in releases.shapes]
    if any(one is None for one in known):
        return math.inf
    squares = {
        id(shape): one for shape, one in zip(releases.shapes, known, strict=True) if one is not None
    }
    clocks = {cost.clock for cost in releases.costs}
    placed = [cost for cost in releases.costs if cost.shape.runs and len(clocks) == 1]
    everywhere = [cost for cost in releases.costs if not cost.shape.runs or len(clocks) > 1]
    total = _densest(placed, squares) + sum(
        (squares[id(cost.shape)] for cost in everywhere), np.zeros((1, 1))
    )
    return math.sqrt(float(total.max())) * (1 + (len(everywhere) + 4) * UNIT)


def _densest(costs: Sequence[Cost], squares: dict[int, Floats]) -> Floats:
    """Return the largest sum of squares of a step, for every two states: of all windows that touch it."""
    if not costs:
        return np.zeros((1, 1))
    places = dict[int, int]()
    windows = list[Window]()
    for cost in costs:
        if id(cost.shape) not in places:
            places[id(cost.shape)] = len(windows)
            spans = dict.fromkeys((low, high) for low, high, _ in cost.shape.runs)
            windows.append(Window(squares[id(cost.shape)], tuple(spans)))
    which = np.array([places[id(cost.shape)] for cost in costs], dtype=np.intp)
    starts = np.array([cost.offset for cost in costs], dtype=np.int64)
    return np.asarray(exposures_of(windows, which, starts)[1].losses.max(axis=0))


def _squares(shape: Shape, prior: Prior) -> Floats | None:
    """Return the square of the deviations that a row moves a release between every two states; None if unknown."""
    if not isinstance(prior, SequencePrior) or shape.row_by_row or shape.exact_sums is not None:
        return None
    if shape.row_movement is not None:
        return squared_deviations(shape, shape.row_movement) * (1 - np.eye(prior.row_values))
    if shape.values is None or shape.table.shape[1] != prior.row_values:
        return None
    return squares_of_one_row(shape)


def _pure_row(shape: Shape) -> float:
    """Return the pure loss of a release about a row, if all others are fixed."""
    if shape.row_movement is not None:
        return shape.noise.pure_within(shape.row_movement, shape.dimension)
    known = shape.values is not None and not shape.row_by_row and shape.exact_sums is None
    return float(shape.exposure.max(initial=0.0)) if known else math.inf


def _no_chain() -> Refused:
    return Refused(
        "The rows are not on a chain.",
        allowed="a chain whose steps are known",
        instead="pf.MarkovChain",
    )
