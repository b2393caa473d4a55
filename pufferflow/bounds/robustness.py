"""What a promise is still worth if the prior is wrong (M30)."""

import math
from fractions import Fraction
from typing import Any, Protocol

from pufferflow.arguments import finite_number_at_least_zero, instance
from pufferflow.bounds.bound import BallPart
from pufferflow.bounds.calibrate import Calibration
from pufferflow.bounds.proofs import least_epsilon_of
from pufferflow.errors import Refused
from pufferflow.guarantees import Approx, ApproxRenyi, Guarantee, Pure, Renyi, RenyiCurve
from pufferflow.noise import Noise
from pufferflow.rounding import UNIT, float_above

_ROUNDING = 4 * UNIT


class Planned(Protocol):
    """A plan, as far as it matters here: noise for sums that were weighted before they were calibrated together."""

    @property
    def calibration(self) -> Calibration:
        """The noise of the weighted sums."""
        ...

    @property
    def largest_weight(self) -> float:
        """How far the weighted sums move if the answers move by 1, at most."""
        ...


def robustness(promised: Calibration | Planned, prior_error: float = 0.0, *, ratio: float = 0.0) -> Guarantee:
    """Return the promise that holds although the true prior is not in Θ, but near one member of it (M30).

    `prior_error` is Δ': under every secret, a movement of at most Δ' takes the answer's true law to the law under that
    member (W_∞). `ratio` is Δ: under every secret, no event of the data is more than e^Δ times as likely under one of
    the two as under the other (D_∞, both directions). Both errors may be present. For a plan Δ' is a movement of all
    its sums together, in the norm of its noise.

    >>> import pufferflow as pf
    >>> c = pf.calibrate([(pf.Law.point(0), pf.Law.point(1))], pf.Renyi(4, 2.0), noise=pf.Gaussian)
    >>> round(c.noise.scale, 9), round(robustness(c, 0.5).epsilon, 9)
    (1.0, 8.0)
    >>> pure = pf.calibrate([(pf.Law.point(0), pf.Law.point(1))], pf.Pure(1.0))
    >>> robustness(pure, ratio=0.25)
    Pure(epsilon=1.5)
    """
    moved = finite_number_at_least_zero(prior_error, "prior_error")
    factor = finite_number_at_least_zero(ratio, "ratio")
    if not isinstance(promised, Calibration) and hasattr(promised, "largest_weight"):
        moved = float_above(Fraction(moved) * Fraction(promised.largest_weight))
        promised = promised.calibration
    allowed = "a noise with its promise, as pf.calibrate returns it, or a plan"
    instead = "pf.robustness(pf.calibrate(laws, pf.Pure(1.0)), 0.5)"
    promised = instance(promised, Calibration, "The first argument", allowed=allowed, instead=instead)
    found = promised.guarantee if moved == 0 else _moved(promised, moved)
    return found if factor == 0 else stretched(found, factor)


def stretched(guarantee: Guarantee, ratio: float) -> Guarantee:
    """Return what is left of a promise if all likelihoods may be off by a factor e^ratio, either way (M30).

    >>> stretched(Renyi(alpha=2, epsilon=1), 0.5)
    Renyi(alpha=2.0, epsilon=2.5)
    """
    match guarantee:
        case Pure(epsilon):
            return Pure(_sum(epsilon, 2 * ratio))
        case Approx(epsilon, delta):
            return Approx(_sum(epsilon, 2 * ratio), _delta(delta, ratio))
        case Renyi(alpha, epsilon):
            return Renyi(alpha, _sum(epsilon, _renyi_cost(alpha, ratio)))
        case RenyiCurve(alphas, epsilons):
            costs = [_sum(e, _renyi_cost(alpha, ratio)) for alpha, e in zip(alphas, epsilons, strict=True)]
            return RenyiCurve(alphas, costs)
        case _:
            raise Refused(
                f"What is left of {type(guarantee).__name__} if likelihoods are off by a factor.",
                allowed="pf.Pure, pf.Approx, pf.Renyi or pf.RenyiCurve",
                instead="prior_error, a movement, which keeps every promise of a calibration",
            )


def _moved(promised: Calibration, moved: float) -> Guarantee:
    """Return what a longer movement is worth; where no movement was used, the noise's own loss of the error, twice."""
    if promised.by_movement and math.isfinite(promised.sensitivity):
        return _farther(promised, _sum(promised.sensitivity, 2 * moved))
    own = promised.noise.pure_within(moved, promised.witness.dimension)
    if math.isinf(own) or isinstance(promised.guarantee, ApproxRenyi):
        raise Refused(
            f"A wrong prior for {promised.guarantee!r} proven by {type(promised.bound).__name__}.",
            allowed="a bound that speaks of a movement, or a noise with a pure loss",
            instead="bound=pf.GWM()",
        )
    return stretched(promised.guarantee, own)


def _farther(promised: Calibration, radius: float) -> Guarantee:
    """Return the promise that the noise keeps for a longer movement."""
    noise = promised.noise
    part = BallPart(radius, promised.certainty, promised.witness, promised.own_delta)

    def epsilon(kind: Any) -> float:
        return least_epsilon_of(part, noise, kind)

    match promised.guarantee:
        case Pure():
            return Pure(_finite(epsilon(Pure), noise))
        case Approx(_, delta):
            return Approx(_finite(epsilon(Approx.of(delta)), noise), delta)
        case Renyi(alpha, _):
            return Renyi(alpha, _finite(epsilon(Renyi.of(alpha)), noise))
        case ApproxRenyi(alpha, _, delta):
            return ApproxRenyi(alpha, _finite(epsilon(Renyi.of(alpha)), noise), delta)
        case RenyiCurve(alphas, _):
            return RenyiCurve(alphas, [_finite(epsilon(Renyi.of(alpha)), noise) for alpha in alphas])
        case _:
            raise Refused(f"A promise of kind {type(promised.guarantee).__name__}.", allowed="the promises at the door")


def _finite(epsilon: float, noise: Noise) -> float:
    if math.isinf(epsilon):
        raise Refused(
            f"{type(noise).__name__} noise keeps no such promise for so wrong a prior.",
            allowed="a smaller prior_error, or a promise with a delta",
            instead="pf.Approx",
        )
    return epsilon


def _renyi_cost(alpha: float, ratio: float) -> Fraction:
    order = Fraction(alpha)
    return Fraction(ratio) * (2 * order - 1) / (order - 1)


def _delta(delta: float, ratio: float) -> float:
    grown = delta * math.exp(min(ratio, 700.0)) * (1 + _ROUNDING)
    if grown >= 1:
        raise Refused(
            "The delta of the promise grows to 1: nothing is left of it.",
            allowed="a smaller ratio",
            instead="a promise with a smaller delta",
        )
    return grown


def _sum(left: float, right: float | Fraction) -> float:
    """Return a sum rounded up."""
    return float_above(Fraction(left) + Fraction(right))
