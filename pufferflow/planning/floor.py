"""Floors of noise: what one row alone needs, whatever a prior says of its neighbours, and a little where nothing does.

A prior may hide a row by itself: it holds a value to be impossible, or lets rows cancel each other out. Noise made for
the prior alone would then be small, or none at all, and whoever knows more than the prior would see the row. So noise
is never below what the same batch and promise need under `pf.Independent()`: every release is at the same time
differentially private for the value of one row.
"""

from collections.abc import Sequence
from dataclasses import replace

from pufferflow.arrays import Floats
from pufferflow.bounds import Bounds, Calibration, Laws, loss
from pufferflow.engine import Pattern
from pufferflow.guarantees import Guarantee, Kind
from pufferflow.noise import Noise
from pufferflow.planning.facts import PublicFacts
from pufferflow.planning.tables import known_values, tables_of
from pufferflow.scenario import Initial, Label, Scenario, ValueSecret
from pufferflow.scenario.priors import Independent

_LOUDEST = 2.0**12
_DOUBLINGS = 16
_HARDLY = "hardly any noise is needed for the promise: the little that is added lets an account add releases up"


def row_laws(facts: PublicFacts, values: Floats, weights: Floats, laws: Laws) -> Laws | None:
    """Return the laws of the weighted sums if the secret's row tells of itself alone: `laws` if that is all they say.

    None where no sum reads the secret of the row itself: units that come and go have a floor of their own, derived
    secrets are no values of rows, and of first values there may be none among the rows that are asked about.
    """
    secret = facts.request.scenario.secret
    if not isinstance(secret, ValueSecret) or facts.request.column != secret.column:
        return None
    if isinstance(secret, Initial) and not _first_rows_asked(facts):
        return None
    if facts.request.scenario.priors == (Independent(),):
        return laws
    return facts.laws([tables_of(Independent(), secret, facts.request.measures, values)], weights)


def _first_rows_asked(facts: PublicFacts) -> bool:
    """Say whether a sequence's first row may be among those that are asked about; yes, if no row is."""
    patterns = [one for prior in facts.request.scenario.priors for one in facts.patterns(prior).distinct]
    return not patterns or any(map(_asks_first, patterns))


def _asks_first(pattern: Pattern) -> bool:
    return pattern.positions is None or bool((pattern.cells[pattern.positions == pattern.start] >= 0).any())


def not_silent(calibration: Calibration, laws: Sequence[Laws], bound: Bounds, least: float) -> Calibration:
    """Return a calibration whose noise has at least this scale; its bound is that of the first laws.

    More noise than the promise needs is post-processing of an answer that needs none; other losses fall as noise grows,
    or it stays as it is. Where they may rise again, the noise is the first louder one that is proven for all laws.
    """
    noise, promise = calibration.noise, calibration.guarantee
    if noise.scale >= least:
        return calibration
    louder, kind = noise.at(least), promise.kind
    if not noise.monotone and noise.scale > 0:
        tried = (noise.at(least * 2.0**power) for power in range(_DOUBLINGS))
        louder = next((one for one in tried if _kept(one, promise, laws, bound)), noise)
    proven = calibration.loss if kind is None else min(calibration.loss, loss(laws[0], louder, kind, bound))
    return replace(calibration, noise=louder, loss=proven, note=_HARDLY if louder.scale >= least else calibration.note)


def _kept(noise: Noise, promise: Guarantee, laws: Sequence[Laws], bound: Bounds) -> bool:
    """Say whether a noise is proven to keep a promise, at every order of a curve."""
    return all(
        loss(one, noise, Kind(single), bound if place == 0 else "auto") <= single.epsilon
        for place, one in enumerate(laws)
        for single in promise.singles
    )


def least_scale(facts: PublicFacts, weights: Floats, promise: Guarantee) -> float:
    """Return a scale not far below what one row moves the weighted sums, less for promises that hide next to nothing.

    Where prior and other rows hide the secret by themselves, hardly any noise would do, and would compose with no other
    release. More of it costs nothing that anybody could see.
    """
    measures, points = facts.request.measures, facts.request.points
    values = known_values(measures, points, from_nothing=False)
    farthest = float(((values.max(axis=1) - values.min(axis=1)) * weights).max(initial=0.0))
    epsilon = 0.0 if promise.kind is None else promise.epsilon
    return farthest / max(_LOUDEST, 4 * epsilon)


def impossible_values(scenario: Scenario) -> list[Label]:
    """Return the values that a prior holds to be impossible at some positions, where it hides them from nobody."""
    found = [value for prior in scenario.priors for value in prior.sometimes_impossible(scenario.secret)]
    return list(dict.fromkeys(found))
