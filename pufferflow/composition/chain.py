"""Lipschitz messages for Markov chains: exposures of all releases add up step by step, and then travel (M20).

What releases along a Markov chain tell of the state at one step, however many steps there are (M20).
"""

import math
import numbers
from collections.abc import Sequence
from typing import Any, cast, final

import numpy as np

from pufferflow.arguments import finite_number_above, whole_number
from pufferflow.arrays import Floats
from pufferflow.chains import LONG, Chain, Exposures, Secrets, endless, leak, repeated, stationary
from pufferflow.composition.rule import CompositionRule, UnitReleases
from pufferflow.composition.timeline import Timeline
from pufferflow.errors import Misuse, Refused
from pufferflow.scenario.priors import read_initial, read_kernels

MOST = 1e6
_MOST_STEPS = 8_000_000


@final
class MessagesRule(CompositionRule):
    """Windows of one sequence may overlap, weigh what they like, and be chosen after seeing earlier answers.

    What is told of one step travels along the chain, which forgets; so windows that lie far apart hardly add up.
    """

    name = "messages along the chain (M20)"

    def pure(self, asked: UnitReleases) -> float:
        """Return the largest of B_t + ℓ_t + F_t over all steps and pairs."""
        if not Timeline.fits(asked.scenario, asked.prior, asked.costs):
            return math.inf
        line = Timeline(asked.scenario, asked.prior, asked.costs, asked.steps_seen)  # pyright: ignore[reportArgumentType] - it fits
        if line.steps_seen[1] - line.steps_seen[0] >= _MOST_STEPS:
            return math.inf
        try:
            chain, first = line.chain(*line.steps_seen)
            exposures = line.exposures(first, line.steps_seen[1])
        except Refused:  # too many steps
            return math.inf
        if not (exposures.losses < MOST).all():  # so little noise tells a row's value, but for rounding
            return math.inf
        return leak(chain, exposures, line.secrets(first, len(exposures.kinds))).value


_STEPS = "a whole number of steps from 1 on, or None"
_EXPOSURE = "a finite loss >= 0 for each step, or a matrix of them with zeros on its diagonal, or one of these per step"


def temporal_leakage(transition: Any, exposure: Any, initial: Any = "stationary", steps: int | None = None) -> float:
    """Return the most that releases along a Markov chain tell of one step's state: their pure loss, rounded up (M20).

    Step t's releases alone tell at most `exposure` of its state, were all other states known: the sum of their ε, or a
    matrix ℓ(e, f) for each two states, or one of these for every step of a turn. Then for every output y, every step t
    and all states a, b that it can have, log P(y | X_t = a) / P(y | X_t = b) ≤ B_t(a, b) + ℓ_t(a, b) + F_t(a, b), where
    B and F are messages from the past and from the future; releases may be chosen adaptively. The largest sum is
    returned. `transition` is one matrix or several that take turns; `initial` the first step's law, "stationary" or
    "free" (any law; so too where several laws are stationary). With steps=None releases go on for ever: what is
    returned then satisfies g(D + ℓ) ≤ D, and is infinite where messages do not come to rest.

    >>> stay = [[0.9, 0.1], [0.1, 0.9]]
    >>> round(temporal_leakage(stay, 0.1), 4), round(temporal_leakage(stay, 0.1, steps=1), 4)
    (0.8724, 0.1)
    >>> temporal_leakage([[1, 0], [0, 1]], 0.1)
    inf
    """
    kernels, _ = read_kernels(transition)
    exposures = _exposures(exposure, kernels.shape[1])
    chain = Chain(kernels, np.arange(len(kernels)), _laws(initial, kernels))
    secrets = Secrets(np.argwhere(~np.eye(chain.states, dtype=np.bool_)))
    if steps is None:
        return endless(chain, exposures, secrets).value
    length = _length(steps)
    whole = Exposures(exposures.losses, repeated(exposures.kinds, length))
    found = leak(chain.repeated(length - 1), whole, secrets).value
    if length < LONG:
        return found
    return min(found, endless(chain, exposures, secrets).value)  # both are bounds, each padded in its own way


def _laws(initial: Any, kernels: Floats) -> Floats:
    """Return the laws of the first step, or the extreme ones of them."""
    read = read_initial(initial, kernels.shape[1])
    law = stationary(kernels) if read == "stationary" else None
    if law is not None:
        return law[None]
    return np.eye(kernels.shape[1]) if isinstance(read, str) else np.array([read])


def _length(steps: Any) -> int:
    """Return how many steps there are."""
    instead = "steps=None, which holds for all of them"
    length = whole_number(steps, "steps", allowed=_STEPS, instead=instead, kind=numbers.Integral)
    if length > _MOST_STEPS:
        raise Refused(f"Releases along {length} steps.", allowed=f"at most {_MOST_STEPS}", instead="steps=None")
    return length


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
    """Tell whether something is a list of numbers: the row of a matrix."""
    return isinstance(given, list) and not any(isinstance(entry, list) for entry in cast(list[Any], given))


def _matrix(given: Any, states: int) -> Floats:
    """Return ℓ: a number counts for every two states that differ."""
    if not isinstance(given, list):
        return _entry(given) * (1 - np.eye(states))
    rows = cast(list[Any], given)
    if len(rows) != states or not all(_flat(row) and len(row) == states for row in rows):
        raise _wrong(f"A matrix of exposures does not have {states} rows of {states} numbers.")
    found = np.array([[_entry(entry) for entry in row] for row in rows])
    if np.diagonal(found).any():
        raise _wrong("A matrix of exposures has a diagonal that is not zero.")
    return found


def _entry(given: Any) -> float:
    instead = "exposure=0.1"
    return finite_number_above(given, "exposure", allowed=_EXPOSURE, instead=instead, fits=lambda number: number >= 0)


def _wrong(problem: str) -> Misuse:
    return Misuse(problem, allowed=_EXPOSURE, instead="exposure=0.1")
