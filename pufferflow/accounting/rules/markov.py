"""Releases along one Markov chain: exposures add step by step and travel along the chain as messages (M20)."""

import math
import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast, final

import numpy as np

from pufferflow.accounting.rules.base import CompositionRule, UnitReleases
from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import InternalError, Refused, UsageError
from pufferflow.core.validate import finite_number_above, whole_number
from pufferflow.distributions.markov.chain import LONG, Chain, stationary, tile
from pufferflow.distributions.markov.hidden_chain import HiddenChain
from pufferflow.distributions.markov.state_loss import (
    AnyChain,
    Exposures,
    Secrets,
    Window,
    continued_leak,
    endless_leak,
    exposures_of,
    leak,
)
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.hidden_markov import read_emission
from pufferflow.models.priors.markov import SequencePrior
from pufferflow.models.priors.transition_kernels import read_initial, read_kernels
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Derived, Initial, Secret
from pufferflow.published.cost import Cost
from pufferflow.sensitivity.hidden_markov import secrets_of

_MOST_LOSS = 1e6
_MOST_STEPS = 8_000_000


def along_one_chain(scenario: Scenario, prior: Prior, costs: Sequence[Cost]) -> bool:
    """Return whether all costs lie along one chain, with losses that are known step by step."""
    if (
        not isinstance(prior, SequencePrior)
        or not isinstance(scenario.secret, Secret | Initial | Derived)
        or not costs
    ):
        return False
    shapes = {id(one.shape): one.shape for one in costs}.values()
    placed = all(
        shape.rows and shape.rows.runs is not None and shape.values is not None for shape in shapes
    )
    starts, clocks = {one.start for one in costs}, {one.clock for one in costs}
    known = (
        placed and None not in {one.steps_seen for one in costs} and len(starts) == len(clocks) == 1
    )
    return known and (None not in starts or prior.repeats is not None)


def chain_of(prior: Prior, steps: Floats, begin: float) -> tuple[AnyChain, int]:
    """Return the chain along consecutive steps, or a little before them, and its first step."""
    if not isinstance(prior, SequencePrior):
        raise InternalError(
            "A chain was requested under a prior that has none.", instead="reporting it"
        )
    return prior.along(steps, begin)


def exposed(costs: Sequence[Cost], span: tuple[int, int] | None = None) -> Exposures:
    """Return the exposures of every step of a span, or of the windows' own, to all windows together."""
    shapes: dict[int, int] = {}
    windows = list[Window]()
    which = np.empty(len(costs), dtype=np.intp)
    for place, cost in enumerate(costs):
        which[place] = shapes.setdefault(id(cost.shape), len(windows))
        if which[place] == len(windows):
            spans = dict.fromkeys((low, high) for low, high, _ in cost.shape.runs)
            windows.append(Window(cost.shape.exposure, tuple(spans)))
    starts: Indices = np.fromiter((cost.offset for cost in costs), dtype=np.int64, count=len(costs))
    return exposures_of(windows, which, starts, span)[1]


@final
class MessagesRule(CompositionRule):
    """Windows of one sequence may overlap, have any weights, and be chosen after seeing earlier answers.

    The loss about one step decays along the chain, so windows that lie far apart hardly add up. For every group, the
    queried steps are among those of the windows. Messages grow with exposures, so the bound holds for every group.
    """

    name = "messages along the chain (M20)"
    why = "only pure totals, which bound the ratio of likelihoods on each path (M20)"

    def pure(self, releases: UnitReleases) -> float:
        """Return the largest of B_t + ℓ_t + F_t over all steps and pairs."""
        if not along_one_chain(releases.scenario, releases.prior, releases.costs):
            return math.inf
        begin, last = span_of(releases)
        if last - begin >= _MOST_STEPS:
            return math.inf
        try:
            chain, first = chain_along(releases, begin, last)
            exposures = exposed(releases.costs, (first, last))
        except Refused:  # too many steps
            return math.inf
        if not (exposures.losses < _MOST_LOSS).all():
            return math.inf  # so little noise reveals a row's value, up to rounding
        return leak(chain, exposures, secrets_along(releases, first, len(exposures.kinds))).value

    def endless(self, releases: UnitReleases) -> float | None:
        """Return the fixed point of the messages, or more; ∞ if they do not converge."""
        prior, spent, schedule = releases.prior, releases.costs, releases.schedule
        if schedule is None or not along_one_chain(
            releases.scenario, prior, [*spent, schedule.cost]
        ):
            return None
        every, (low, high) = schedule.steps, schedule.cost.window
        if math.isinf(low):  # no query
            return self.pure(replace(releases, costs=[*spent, schedule.cost]))
        period = prior.period if isinstance(prior, SequencePrior) else None
        if period is None or not every:  # the schedule repeats the same steps
            return math.inf
        steady = int(
            max([high, *(cost.window[1] for cost in spent if math.isfinite(cost.window[1]))])
        )
        costs = [
            *spent,
            *(schedule.turn(turn) for turn in range(-(-(steady + every - int(low)) // every) + 1)),
        ]
        releases = replace(releases, costs=costs)
        _, base = chain_along(releases, span_of(releases)[0], span_of(releases)[0])
        chain, first = chain_along(releases, base, base + period)
        if first != base or len(chain.order) != period:
            raise InternalError(
                "A turn of a chain has too many steps.", instead="reporting it, with the prior"
            )
        known = exposed(costs, (base, int(max(cost.window[1] for cost in costs))))
        if not (known.losses < _MOST_LOSS).all():  # as `pure` does not count it
            return math.inf
        head, after = (
            known.kinds[: steady - base],
            known.kinds[steady - base : steady - base + every],
        )
        turn, secrets = (
            np.roll(after, (steady - base) % every),
            secrets_along(releases, base, len(known.kinds)),
        )
        return continued_leak(
            chain, Exposures(known.losses, head), Exposures(known.losses, turn), secrets
        ).value


def span_of(releases: UnitReleases) -> tuple[int, int]:
    """Return the first and the last step at which a group has a row; the first one is that of `pf.Initial`."""
    spans = [
        one for one in [*(cost.steps_seen for cost in releases.costs), releases.steps_seen] if one
    ]
    ends, start = np.array(spans, dtype=np.int64), releases.costs[0].start
    first = int(ends[:, 0].min())
    if isinstance(releases.scenario.secret, Initial) and start is not None:
        first = int(start)
    return first, int(ends[:, 1].max())


def chain_along(releases: UnitReleases, first: int, last: int) -> tuple[AnyChain, int]:
    """Return the chain along all steps up to the last, and the first step that it has."""
    start = releases.costs[0].start
    begin = float(first) if start is None else start
    return chain_of(releases.prior, np.arange(first, last + 1, dtype=np.float64), begin)


def secrets_along(releases: UnitReleases, first: int, steps: int) -> Secrets:
    """Return which two states of which rows must be indistinguishable."""
    secret = releases.scenario.secret
    rows = (
        np.arange(first, first + steps) == releases.costs[0].start
        if isinstance(secret, Initial)
        else None
    )
    return secrets_of(releases.prior, secret, rows)


_STEPS = "a whole number of steps from 1 on, or None"
_EXPOSURE = "a finite loss >= 0 for each step, or a matrix of them with zeros on its diagonal, or one of these per step"


def temporal_leakage(
    transition: Any,
    exposure: Any,
    initial: Any = "stationary",
    steps: int | None = None,
    *,
    emission: Any = None,
) -> float:
    """Return the pure loss of releases along a Markov chain about one step's state, rounded up (M20).

    `exposure` bounds the loss of step t's releases alone, if all other states are known. It is the sum of their ε, or a
    matrix ℓ(e, f) for each two states. It may also list one of these for every step of a turn. Let step t have the
    states a or b, and let y be any output. Then log P(y | X_t = a) / P(y | X_t = b) ≤ B_t(a, b) + ℓ_t(a, b) + F_t(a,
    b). B and F are messages from the past and from the future. The largest sum is returned; releases may be chosen
    adaptively. `transition` is one matrix, or several that take turns. `initial` is the first step's law, "stationary",
    or "free" for any law. If several laws are stationary, "stationary" means any law. With steps=None releases never
    end: the result then satisfies g(D + ℓ) ≤ D, and is infinite if messages do not converge.

    With `emission` the states are hidden, as in `pf.HiddenMarkov`. The exposures are then about what a step shows, and
    the loss is about its hidden state (M58).

    >>> stay = [[0.9, 0.1], [0.1, 0.9]]
    >>> round(temporal_leakage(stay, 0.1), 4), round(temporal_leakage(stay, 0.1, steps=1), 4)
    (0.8724, 0.1)
    >>> temporal_leakage([[1, 0], [0, 1]], 0.1)
    inf
    >>> round(temporal_leakage(stay, 0.5, emission=stay), 8)
    2.69920096
    """
    kernels, _ = read_kernels(transition)
    chain: Chain | HiddenChain = Chain(kernels, np.arange(len(kernels)), _laws(initial, kernels))
    secrets = Secrets(np.argwhere(~np.eye(chain.states, dtype=np.bool_)), hidden=True)
    if emission is not None:
        chain = HiddenChain(chain, np.array(read_emission(emission, chain.states)))
    exposures = _exposures(exposure, chain.states)
    if steps is None:
        return endless_leak(chain, exposures, secrets).value
    instead = "steps=None, which holds for all of them"
    length = whole_number(steps, "steps", allowed=_STEPS, instead=instead, kind=numbers.Integral)
    if length > _MOST_STEPS:
        raise Refused(
            f"Releases along {length} steps.",
            allowed=f"at most {_MOST_STEPS}",
            instead="steps=None",
        )
    whole = Exposures(exposures.losses, tile(exposures.kinds, length))
    finite = leak(chain.repeated(length - 1), whole, secrets).value
    if length < LONG:
        return finite
    return min(
        finite, endless_leak(chain, exposures, secrets).value
    )  # both are bounds, each padded in its own way


def _laws(initial: Any, kernels: Floats) -> Floats:
    """Return the laws of the first step, or the extreme ones of them."""
    read = read_initial(initial, kernels.shape[1])
    law = stationary(kernels) if read == "stationary" else None
    if law is not None:
        return law[None]
    return np.eye(kernels.shape[1]) if isinstance(read, str) else np.array([read])


def _exposures(exposure: Any, states: int) -> Exposures:
    """Return one turn of exposures."""
    given = _plain(exposure)
    entries = cast(list[Any], given) if isinstance(given, list) else [given]
    matrix = isinstance(given, list) and len(entries) > 0 and all(_flat(row) for row in entries)
    turn = [_matrix(one, states) for one in ([entries] if matrix else entries)]
    if not turn:
        raise _wrong("exposure is empty.")
    return Exposures(np.array(turn), np.arange(len(turn)))


def _plain(given: Any) -> Any:
    """Return lists for whatever holds several entries."""
    if isinstance(given, np.ndarray | np.generic):
        return cast(Any, given).tolist()
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return [_plain(entry) for entry in cast(Sequence[Any], given)]
    return given


def _flat(given: Any) -> bool:
    """Return whether a value is a list of numbers: the row of a matrix."""
    return isinstance(given, list) and not any(
        isinstance(entry, list) for entry in cast(list[Any], given)
    )


def _matrix(given: Any, states: int) -> Floats:
    """Return ℓ: a number counts for every two states that differ."""
    if not isinstance(given, list):
        return _entry(given) * (1 - np.eye(states))
    rows = cast(list[Any], given)
    if len(rows) != states or not all(_flat(row) and len(row) == states for row in rows):
        raise _wrong(f"A matrix of exposures does not have {states} rows of {states} numbers.")
    matrix = np.array([[_entry(entry) for entry in row] for row in rows])
    if np.diagonal(matrix).any():
        raise _wrong("A matrix of exposures has a diagonal that is not zero.")
    return matrix


def _entry(given: Any) -> float:
    instead = "exposure=0.1"
    return finite_number_above(
        given, "exposure", allowed=_EXPOSURE, instead=instead, fits=lambda number: number >= 0
    )


def _wrong(problem: str) -> UsageError:
    return UsageError(problem, allowed=_EXPOSURE, instead="exposure=0.1")
