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
from pufferflow.reports.numbers import at_most, downwards

RATIO = 0.1
_EPSILON: Final = "epsilon"
_MOST_EPSILON: Final = 10.0
"""A larger epsilon counts as no protection: an answer can change the odds by a factor above 22,000."""
_NOTHING: Final = "practically no protection"


def what_if(plan: CalibratedNoise, ratios: Sequence[float] = (RATIO,), shares: Sequence[float] = ()) -> list[WhatIf]:
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
        return WhatIf("nothing was assumed of how rows depend on each other", "so that no such assumption can be wrong")
    return WhatIf(_whatever_rows_do(within), "the guarantee holds as it is")


def _dependent_groups(plan: CalibratedNoise) -> list[WhatIf]:
    """State the assumption of every prior within groups: different groups are independent (M7)."""
    within = plan.request.scenario.group_in_words
    if not within:
        return []
    return [WhatIf(f"if rows of different {within} depend on each other", "nothing is guaranteed about that")]


def _whatever_rows_do(within: str) -> str:
    whose = f"of one {within}" if within else "of the whole frame"
    return f"if the rows {whose} depend on each other in any way"


def _other_correlation(plan: CalibratedNoise) -> WhatIf | None:
    group = under_group(plan)
    if group is None:
        return None
    delta, measure = plan.guarantee.delta, plan.guarantee.measure
    kept = f"{measure} {at_most(group)}" + (f" with delta {at_most(delta, 6)}" if delta else "")
    protects = _protects(measure, group)
    words = f"the same noise still keeps {kept}" if protects else f"the same noise keeps {_NOTHING} ({kept})"
    return WhatIf(_whatever_rows_do(plan.request.scenario.group_in_words), words, group, measure)


def _beliefs_off(plan: CalibratedNoise, ratio: float) -> WhatIf | None:
    factor = downwards(math.exp(ratio), 3)  # the guarantee holds up to e^ratio, and so up to a smaller factor
    wrong = f"if priors are off by a factor of up to {factor:g} either way"
    return _case_of(wrong, lambda: under_model_error(plan.guarantee, ratio))


def _laws_moved(plan: CalibratedNoise, share: float) -> WhatIf | None:
    promised = plan.calibration
    errors = [float_above(Fraction(share) * Fraction(one.sensitivity)) for one in plan.calibrations]
    if errors[0] == 0:
        return None
    what = "the movement that the noise was made for" if promised.by_movement else "what one row alone moves the answer"
    wrong = f"if the answer's laws are up to {share:.0%} of {what} away from those under the prior"
    each = zip(plan.calibrations, errors, strict=True)
    return _case_of(wrong, lambda: with_keys(weakest([robustness(one, error) for one, error in each]), plan.key_delta))


def _case_of(wrong: str, promise: Callable[[], Guarantee]) -> WhatIf | None:
    try:
        guarantee = promise()
    except PufferflowError:
        return None
    left, words = None if guarantee.kind is None else guarantee.loss, _promise_in_words(guarantee)
    protects = left is None or _protects(guarantee.measure, left)
    said = f"{words} is left" if protects else f"{_NOTHING} is left ({words})"
    return WhatIf(wrong, f"{said} (M30)", left, guarantee.measure)


def _protects(measure: str, loss_left: float) -> bool:
    return measure != _EPSILON or loss_left <= _MOST_EPSILON


def _promise_in_words(guarantee: Guarantee) -> str:
    if guarantee.kind is None:
        return repr(guarantee)
    beside = [
        f"{name} {at_most(guarantee.numbers()[name])}" for name in ("delta", "tv") if guarantee.numbers().get(name)
    ]
    with_others = f" with {' and '.join(beside)}" if beside else ""
    return f"{guarantee.measure} {at_most(guarantee.loss)}{with_others}"
