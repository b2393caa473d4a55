"""The guarantee that remains if the prior is wrong (M30)."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

from msgspec import structs

from pufferflow.calibration.bound import BallLoss
from pufferflow.calibration.calibrate import Calibration
from pufferflow.calibration.prior_divergence import (
    approx_under,
    read_divergence,
    renyi_under,
)
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import float_above
from pufferflow.core.validate import finite_number_at_least_zero, instance
from pufferflow.privacy.guarantee import Guarantee, GuaranteeFamily
from pufferflow.privacy.renyi import Renyi, RenyiCurve, Zcdp


class Planned(Protocol):
    """The part of a plan that robustness needs: noise for sums that are weighted, then calibrated together."""

    @property
    def calibrations(self) -> Sequence[Calibration]:
        """The noise of the weighted sums; for several sets of laws, the same noise with the movements of each."""
        ...

    @property
    def largest_weight(self) -> float:
        """The most that the weighted sums move if the answers move by 1."""
        ...

    @property
    def key_delta(self) -> float:
        """The part of the guarantee's δ that is spent on keys chosen by the data, not on the noise."""
        ...


def robustness(  # noqa: PLR0913 - a promise, and how far priors may be off, in three ways
    promised: Calibration | Planned,
    prior_error: float = 0.0,
    *,
    ratio: float = 0.0,
    divergence: Renyi | RenyiCurve | Zcdp | None = None,
    order: float | None = None,
    delta: float | None = None,
) -> Guarantee:
    """Return the guarantee that is left if the true prior is not in the scenario, but near one of its priors (M30).

    `prior_error` is Δ': under every secret, a movement of at most Δ' takes the answer's true law to the law under that
    prior (W_∞). `ratio` is Δ: under every secret, both priors give any event of the data probabilities within a factor
    e^Δ (D_∞, both directions). Both errors may be present. For a plan Δ' is a movement of all its sums together, in the
    norm of its noise.

    `divergence` bounds the Rényi divergences of the data's laws under both priors instead, in both directions, of one
    order or of several: pf.Renyi(8, 0.1). Then Rényi privacy of lower orders is left: of the `order`, or of a curve's
    orders for which something is known. With `delta` the result is the ε that is left at this δ.

    >>> import pufferflow as pf
    >>> c = pf.calibrate([(pf.Law.point(0), pf.Law.point(1))], pf.Renyi(4, 2.0), noise=pf.Gaussian)
    >>> round(c.noise.scale, 9), round(robustness(c, 0.5).epsilon, 9)
    (1.0, 8.0)
    >>> pure = pf.calibrate([(pf.Law.point(0), pf.Law.point(1))], pf.Pure(1.0))
    >>> robustness(pure, ratio=0.25)
    Pure(epsilon=1.5)
    >>> robustness(c, divergence=pf.Renyi(20, 0.05), order=2)
    Renyi(alpha=2.0, epsilon=2.22...)
    """
    moved = finite_number_at_least_zero(prior_error, "prior_error")
    factor = finite_number_at_least_zero(ratio, "ratio")
    every: Sequence[object] = [promised]
    keys = 0.0
    if not isinstance(promised, Calibration) and hasattr(promised, "largest_weight"):
        keys = promised.key_delta
        moved = float_above(Fraction(moved) * Fraction(promised.largest_weight))
        every = promised.calibrations
    allowed = "a noise with its guarantee, as pf.calibrate returns it, or a plan"
    instead = "pf.robustness(pf.calibrate(laws, pf.Pure(1.0)), 0.5)"
    read = [
        instance(one, Calibration, "The first argument", allowed=allowed, instead=instead)
        for one in every
    ]
    guarantee = read[0].guarantee if moved == 0 else weakest([_moved(one, moved) for one in read])
    guarantee = with_keys(guarantee, keys)
    guarantee = guarantee if factor == 0 else under_model_error(guarantee, factor)
    if divergence is None:
        _check_no_order(order, delta)
        return guarantee
    return _under_divergence(guarantee, read_divergence(divergence), order, delta)


def _under_divergence(
    guarantee: Guarantee, divergence: Guarantee, order: float | None, delta: float | None
) -> Guarantee:
    if order is not None and delta is not None:
        raise UsageError(
            "order and delta are both given.",
            allowed="the order of a Rényi privacy that is left, or the δ of an ε that is left",
            instead="order=2, or delta=1e-5",
        )
    if delta is not None:
        return approx_under(guarantee, divergence, delta)
    return renyi_under(guarantee, divergence, order)


def _check_no_order(order: float | None, delta: float | None) -> None:
    if order is not None or delta is not None:
        raise UsageError(
            f"{'order' if delta is None else 'delta'} is given without a divergence of the priors.",
            allowed="order or delta together with divergence",
            instead="divergence=pf.Renyi(8, 0.1), order=2",
        )


def with_keys(promise: Guarantee, delta: float) -> Guarantee:
    """Return the guarantee of sums together with keys that spend this much δ, rounded up.

    >>> from pufferflow.privacy.guarantee import Approx
    >>> with_keys(Approx(1.0, 0.25), 0.25)
    Approx(epsilon=1.0, delta=0.5)
    """
    return (
        structs.replace(promise, delta=float_above(Fraction(promise.delta) + Fraction(delta)))
        if delta
        else promise
    )


def weakest(promises: Sequence[Guarantee]) -> Guarantee:
    """Return the guarantee that holds if any one of several guarantees of one kind holds.

    >>> from pufferflow.privacy.guarantee import Pure
    >>> weakest([Pure(1.0), Pure(2.0)])
    Pure(epsilon=2.0)
    """
    first = promises[0]
    return first.with_losses(
        [max(single.loss_from(one) for one in promises) for single in first.singles]
    )


def under_model_error(guarantee: Guarantee, ratio: float) -> Guarantee:
    """Return the guarantee that remains if all likelihoods may be off by a factor e^ratio, either way (M30).

    >>> from pufferflow.privacy.renyi import Renyi
    >>> under_model_error(Renyi(alpha=2, epsilon=1), 0.5)
    Renyi(alpha=2.0, epsilon=2.5)
    """
    weaker = guarantee.under_model_error(ratio)
    if weaker is None:
        raise Refused(
            f"For {type(guarantee).__name__} it is not known what is left if likelihoods are off by a factor (ratio).",
            allowed="pf.Pure, pf.Approx, pf.TradeOff, pf.Renyi, pf.RenyiCurve or pf.Zcdp",
            instead="prior_error, a movement, which works for every guarantee of a calibration",
        )
    return weaker


def _moved(promised: Calibration, moved: float) -> Guarantee:
    """Return the guarantee for a movement that is longer by the prior error.

    Where no movement was used, the noise's loss for the error is added twice.
    """
    if promised.by_movement and math.isfinite(promised.sensitivity):
        return _farther(promised, float_above(Fraction(promised.sensitivity) + Fraction(2 * moved)))
    own = promised.noise.pure_within(moved, promised.witness.dimension)
    weaker = None if math.isinf(own) else promised.guarantee.under_model_error(own)
    if weaker is None:
        raise Refused(
            f"What is left of {promised.guarantee!r} under a wrong prior is not known for a proof by "
            f"pf.{type(promised.bound).__name__}.",
            allowed="a bound by a movement, or a noise with a pure loss",
            instead="bound=pf.GWM()",
        )
    return weaker


def _farther(promised: Calibration, radius: float) -> Guarantee:
    """Return the guarantee that the noise keeps for a longer movement."""
    ball = BallLoss(radius, promised.certainty, promised.witness, promised.own_delta)
    losses = [
        ball.least_loss(promised.noise, GuaranteeFamily(one)) for one in promised.guarantee.singles
    ]
    if math.inf in losses:
        raise Refused(
            f"{type(promised.noise).__name__} noise keeps no guarantee of this kind if the prior is this wrong.",
            allowed="a smaller prior_error, or a guarantee with a delta",
            instead="pf.Approx",
        )
    return promised.guarantee.with_losses(losses)
