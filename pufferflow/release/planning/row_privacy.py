"""Floors of noise: the noise of a single independent row, whatever the prior, and a little where none is needed.

A prior may hide a row by itself: a value has probability 0, or rows cancel each other out. Noise for the prior alone
would then be small, or none at all, and an adversary who knows more than the prior would see the row. So noise is never
below that of the same batch and guarantee under `pf.Independent()`: every release is also differentially private for
the value of one row.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pufferflow.calibration.calibrate import Bounds, Calibration, loss, proof_of
from pufferflow.calibration.laws import Laws
from pufferflow.core.arrays import Floats
from pufferflow.models.domain import Label
from pufferflow.models.priors.simple import Independent
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Initial, ValueSecret
from pufferflow.noise.base import Noise
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.queries.engine_interface import Pattern
from pufferflow.release.planning.public_metadata import PublicMetadata
from pufferflow.release.planning.sum_tables import tables_of

_LOUDEST = 2.0**12
_DOUBLINGS = 16
_HARDLY = "hardly any noise is needed for the guarantee: the little that is added lets an account add releases up"


def row_laws(facts: PublicMetadata, weights: Floats, laws: Laws | None) -> Laws | None:
    """Return the laws of the weighted sums if the secret's row is independent of all others; `laws` if that is so.

    None where no sum reads the secret of the row itself: units that come and go have a floor of their own, derived
    secrets are no values of rows, and the selected rows may have no first values among them.
    """
    secret = facts.request.scenario.secret
    if not isinstance(secret, ValueSecret) or facts.request.column != secret.column:
        return None
    if isinstance(secret, Initial) and not _selects_first_rows(facts):
        return None
    if laws is not None and facts.request.scenario.priors == (Independent(),):
        return laws
    return facts.laws([tables_of(Independent(), secret, facts.functions)], weights)


def _selects_first_rows(facts: PublicMetadata) -> bool:
    """Return whether a sequence's first row may be selected; true if no row is."""
    patterns = [pattern for prior in facts.request.scenario.priors for pattern in facts.patterns(prior).distinct]
    return not patterns or any(map(_selects_first_row, patterns))


def _selects_first_row(pattern: Pattern) -> bool:
    return pattern.positions is None or bool((pattern.cells[pattern.positions == pattern.start] >= 0).any())


def not_silent(calibration: Calibration, laws: Sequence[Laws], bound: Bounds, least: float) -> Calibration:
    """Return a calibration whose noise has at least this scale; its bound is that of the first laws.

    Noise on an answer that needs none is post-processing; other losses fall as noise grows, or it stays as it is. Where
    they may rise again, the noise is the first larger one that is proven for all laws.
    """
    noise, promise = calibration.noise, calibration.guarantee
    if noise.scale >= least:
        return calibration
    louder, kind = noise.at(least), promise.kind
    if not noise.monotone and noise.scale > 0:
        tried = (noise.at(least * 2.0**power) for power in range(_DOUBLINGS))
        louder = next((candidate for candidate in tried if _proven(candidate, promise, laws, bound)), noise)
    proven = calibration.loss if kind is None else min(calibration.loss, loss(laws[0], louder, kind, bound))
    return replace(calibration, noise=louder, loss=proven, note=_HARDLY if louder.scale >= least else calibration.note)


def _proven(noise: Noise, promise: Guarantee, laws: Sequence[Laws], bound: Bounds) -> bool:
    """Return whether a noise is proven to keep a guarantee as it is drawn, at every order of a curve."""
    demands = [(own, bound if place == 0 else "auto") for place, own in enumerate(laws)]
    return proof_of(demands, promise, noise) is not None


def least_scale(facts: PublicMetadata, weights: Floats, promise: Guarantee) -> float:
    """Return a scale not far below one row's movement of the weighted sums, less for guarantees that hide very little.

    Where prior and other rows hide the secret by themselves, hardly any noise would do, and would compose with no other
    release. This least noise is too small to be visible in the answers.
    """
    farthest = float((facts.functions.ranges * weights).max(initial=0.0))
    if facts.request.scenario.priors == (Independent(),) and (own := row_laws(facts, weights, None)) is not None:
        farthest = min(farthest, own.winf(np.inf).length)  # between the secret's own pairs, which may be near
    epsilon = 0.0 if promise.kind is None else promise.loss
    return farthest / max(_LOUDEST, 4 * epsilon)


def impossible_values(scenario: Scenario) -> list[Label]:
    """Return the values of probability 0 at some positions under a prior, which therefore does not hide them there."""
    values = [value for prior in scenario.priors for value in prior.sometimes_impossible(scenario.secret)]
    return list(dict.fromkeys(values))
