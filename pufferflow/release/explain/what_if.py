"""Compute what is left of a guarantee if an assumption is wrong: on correlation (M7), or on the prior (M30)."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from pufferflow.calibration.calibrate import loss
from pufferflow.calibration.robustness import robustness, under_model_error, weakest, with_keys
from pufferflow.core.errors import PufferflowError
from pufferflow.core.rounding import float_above
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.release.planning.calibrated_noise import CalibratedNoise
from pufferflow.reports.evidence import WhatIf
from pufferflow.reports.numbers import CERTAIN, at_most, downwards, right_guesses
from pufferflow.reports.text import phrase

RATIO = 0.1
_DELTAS: Final = (0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97)
"""Where a guarantee that is not about odds is converted: one δ that shows a limit of right guesses is enough."""


def what_if(
    plan: CalibratedNoise, ratios: Sequence[float] = (RATIO,), shares: Sequence[float] = ()
) -> list[WhatIf]:
    """Return what is left if rows depend on each other in another way, or if a prior is wrong by a small amount.

    Likelihoods are off by factors e^ratio, or the answer's laws by shares of the movement that noise was made for.
    """
    if nothing_assumed(plan):
        return [_any_correlation(plan), *_dependent_groups(plan)]
    cases = [
        _other_correlation(plan),
        *(_beliefs_off(plan, ratio) for ratio in ratios),
        *(_laws_moved(plan, share) for share in shares),
    ]
    return [*(case for case in cases if case is not None), *_dependent_groups(plan)]


def nothing_assumed(plan: CalibratedNoise) -> bool:
    """Return whether the scenario allows any correlation within a group already."""
    return all(prior.any_correlation for prior in plan.request.scenario.priors)


def under_group(plan: CalibratedNoise) -> float | None:
    """Return the loss that the noise keeps if rows depend on each other in any way, in the guarantee's kind."""
    kind = plan.calibration.guarantee.kind
    if kind is None:
        return None
    try:
        epsilon = max(loss(plan.group_laws(own.sizes), own.noise, kind) for own in plan.blocks)
    except PufferflowError:
        return None
    return epsilon if math.isfinite(epsilon) else None


def _any_correlation(plan: CalibratedNoise) -> WhatIf:
    within = plan.request.scenario.group_in_words
    if not within:
        return WhatIf(
            "nothing was assumed of how rows depend on each other",
            "so that no such assumption can be wrong",
        )
    return WhatIf(phrase("any_way", within), "the guarantee holds as it is")


def _dependent_groups(plan: CalibratedNoise) -> list[WhatIf]:
    """State the assumption of every prior within groups: different groups are independent (M7)."""
    within = plan.request.scenario.group_in_words
    if not within:
        return []
    return [WhatIf(phrase("groups_depend", within), "nothing is guaranteed about that")]


def _other_correlation(plan: CalibratedNoise) -> WhatIf | None:
    group = under_group(plan)
    if group is None:
        return None
    kind = plan.guarantee.kind
    kept = plan.guarantee if kind is None else kind.at(group)
    words = phrase("still_kept", loss_in_words(kept), _protects(kept))
    wrong = phrase("any_way", plan.request.scenario.group_in_words)
    return WhatIf(wrong, words, group, plan.guarantee.measure)


def _beliefs_off(plan: CalibratedNoise, ratio: float) -> WhatIf | None:
    factor = downwards(
        math.exp(ratio), 3
    )  # the guarantee holds up to e^ratio, and so up to a smaller factor
    return _case_of(
        phrase("priors_off", f"{factor:g}"), lambda: under_model_error(plan.guarantee, ratio)
    )


def _laws_moved(plan: CalibratedNoise, share: float) -> WhatIf | None:
    promised = plan.calibration
    errors = [float_above(Fraction(share) * Fraction(one.sensitivity)) for one in plan.calibrations]
    if errors[0] == 0:
        return None
    wrong = phrase("laws_off", f"{share:.0%}", promised.by_movement)
    each = zip(plan.calibrations, errors, strict=True)
    return _case_of(
        wrong,
        lambda: with_keys(weakest([robustness(one, error) for one, error in each]), plan.key_delta),
    )


def _case_of(wrong: str, promise: Callable[[], Guarantee]) -> WhatIf | None:
    try:
        guarantee = promise()
    except PufferflowError:
        return None
    left = None if guarantee.kind is None else guarantee.loss
    words = phrase("left", loss_in_words(guarantee), _protects(guarantee))
    return WhatIf(wrong, words, left, guarantee.measure)


def _protects(guarantee: Guarantee) -> bool:
    """Return whether a guess between two secrets is right in at most 99 % of cases, as far as that is known."""
    if guarantee.divergence.about_odds:
        return right_guesses(guarantee.epsilon, guarantee.delta) <= CERTAIN
    if guarantee.kind is None:
        return True
    deltas = [delta for delta in _DELTAS if delta > guarantee.delta]
    return any(right_guesses(guarantee.approx_epsilon(one), one) <= CERTAIN for one in deltas)


def loss_in_words(guarantee: Guarantee) -> str:
    """Return a loss with the numbers that it means nothing without: its order, δ and total variation."""
    if guarantee.kind is None:
        return repr(guarantee)
    numbers = guarantee.numbers()
    beside = [
        (name, at_most(numbers[name])) for name in ("alpha", "delta", "tv") if numbers.get(name)
    ]
    return phrase("loss", guarantee.measure, at_most(guarantee.loss), beside)
