"""Guarantees about the two errors of a test between two secrets, and their trade-off: TradeOff, Tv, Gdp (M26)."""
# a guarantee's own number stands in for the base's property:
# pyright: reportIncompatibleMethodOverride=false

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, final

import msgspec
from msgspec.structs import force_setattr

from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import UNIT, float_above
from pufferflow.core.validate import finite_number_above, finite_number_at_least_zero
from pufferflow.privacy.between_rows import delta_growth
from pufferflow.privacy.conversions import (
    gdp_to_approx,
    gdp_to_zcdp,
    three_point_epsilon,
    three_point_renyi,
    tv_limit,
)
from pufferflow.privacy.guarantee import (
    Approx,
    Divergence,
    Guarantee,
    GuaranteeFamily,
    multiplied,
    stretched_delta,
    sum_above,
)

_LOUD: Final = 100.0
"""An ε from which only a total variation of 1 follows in floats."""


@final
class TradeOff(Guarantee, frozen=True, forbid_unknown_fields=True):
    """(ε, δ)-Pufferfish privacy with total variation at most tv: `Approx(epsilon, delta)` and `Approx(0, tv)`, both.

    A tv above the largest that (ε, δ) allows is lowered to that, so tv = 1 means unknown. A δ above tv is lowered to
    tv. At other δ the best guarantee is that of the trade-off curve with three pieces (M26).

    >>> TradeOff(1.0, 1e-6, tv=0.3).to_approx(0.1)
    Approx(epsilon=0.7633..., delta=0.1)
    >>> TradeOff(1.0, 0.0, tv=1.0)
    TradeOff(epsilon=1.0, delta=0.0, tv=0.4621...)
    """

    divergence = Divergence.HOCKEY_STICK
    words = (
        "epsilon {epsilon} with delta {delta} for all answers together: the odds between two such secrets change at "
        "most {odds}-fold, up to a probability of {delta}. No event is more probable under one of them than under "
        "the other by more than {tv}"
    )
    epsilon: float
    delta: float
    tv: float

    def __post_init__(self) -> None:
        epsilon = finite_number_at_least_zero(self.epsilon, "epsilon")
        delta, tv = _probability(self.delta, "delta"), _probability(self.tv, "tv")
        delta = min(delta, tv)
        if delta >= 1:
            raise UsageError(
                "delta and tv are both 1, which guarantees nothing.",
                allowed="0 <= delta <= 1 and 0 <= tv <= 1, not both 1",
                instead="pf.TradeOff(1.0, 1e-6, tv=0.3)",
            )
        for name, value in (
            ("epsilon", epsilon),
            ("delta", delta),
            ("tv", min(tv, tv_limit(epsilon, delta))),
        ):
            force_setattr(self, name, value)

    @classmethod
    def of(cls, delta: float, tv: float) -> GuaranteeFamily:
        """Return the kind of guarantee with this δ and total variation, and an ε yet to be found, for `pf.loss`.

        >>> TradeOff.of(delta=1e-6, tv=0.3)(1.0)
        TradeOff(epsilon=1.0, delta=1e-06, tv=0.3)
        """
        return GuaranteeFamily(cls(_LOUD, delta, tv))

    @property
    def kind(self) -> GuaranteeFamily:
        return self.of(self.delta, self.tv)

    @property
    def singles(self) -> Sequence[Guarantee]:
        """The two guarantees; the first alone if the second follows from it."""
        first = Approx(self.epsilon, self.delta)
        follows = self.tv >= min(tv_limit(self.epsilon, self.delta), 1.0)
        return (first,) if follows else (first, Approx(0.0, self.tv))

    def with_losses(self, losses: Sequence[float]) -> Guarantee:
        """Return the guarantee with another ε, and with the total variation that (a second ε, tv) leaves."""
        epsilon, *others = losses
        tv = self.tv if not others or self.tv >= 1 else min(tv_limit(others[0], self.tv), 1.0)
        return TradeOff(epsilon, self.delta, tv)

    def portion(self, share: float) -> Guarantee:
        return TradeOff(self.epsilon * share, self.delta * share, self.tv * share)

    def reserve_delta(self, share: float) -> Guarantee:
        delta = max(math.nextafter(self.delta - share, 0.0), 0.0)
        tv = self.tv if self.tv >= 1 else max(math.nextafter(self.tv - share, 0.0), 0.0)
        return msgspec.structs.replace(self, delta=delta, tv=tv)

    def loss_from(self, other: Guarantee) -> float:
        """Return the least ε known that follows from another guarantee; ∞ if the total variation does not follow."""
        epsilon = other.approx_epsilon(self.delta)
        follows = tv_limit(epsilon, self.delta) <= self.tv or other.approx_epsilon(self.tv) == 0
        return epsilon if follows else math.inf

    def _approx(self, delta: float) -> float:
        """Return the ε of the curve with three pieces at delta (M26)."""
        return three_point_epsilon(self.epsilon, self.delta, self.tv, delta)

    def _renyi(self, alpha: float, delta: float) -> float:
        """Return the divergence left after cutting off δ: of randomised response, mixed with no answer at all."""
        return (
            three_point_renyi(self.epsilon, self.delta, self.tv, alpha)
            if delta >= self.delta
            else math.inf
        )

    def _enough_delta(self) -> float:
        return self.delta

    def under_model_error(self, ratio: float) -> Guarantee:
        epsilon, delta = sum_above(self.epsilon, 2 * ratio), stretched_delta(self.delta, ratio)
        grown = multiplied(self.tv, ratio)
        return TradeOff(epsilon, delta, tv_limit(2 * ratio, grown) if grown < 1 else 1.0)

    def between_rows(self, least: float) -> Guarantee:
        own = Approx(self.epsilon, self.delta).between_rows(least)
        return TradeOff(own.epsilon, own.delta, min(self.tv * delta_growth(0.0, least), 1.0))

    def within_rows(self, least: float) -> Guarantee:
        own = Approx(self.epsilon, self.delta).within_rows(least)
        tv = self.tv / delta_growth(0.0, least) * (1 - 4 * UNIT)
        return TradeOff(own.epsilon, min(own.delta, tv), tv)


def Tv(eta: float) -> Approx:  # noqa: N802 - the name of a guarantee in the public API
    """Return the guarantee of a total variation of at most eta: no event gains or loses more probability than eta.

    It is `Approx(0, eta)`, and that is what is stored and shown.

    >>> Tv(0.1)
    Approx(epsilon=0.0, delta=0.1)
    """
    allowed, instead = "a number with 0 <= eta < 1", "pf.Tv(0.1)"
    return Approx(
        0.0,
        finite_number_above(
            eta, "eta", allowed=allowed, instead=instead, fits=lambda tv: 0 <= tv < 1
        ),
    )


@final
class Gdp(Guarantee, frozen=True, forbid_unknown_fields=True):
    """μ-Gaussian Pufferfish privacy: distinguishing two secrets is no easier than N(0, 1) from N(μ, 1).

    The trade-off curve of the two errors lies above that of two normal laws μ standard deviations apart. Gaussian noise
    of standard deviation σ that hides a movement z has μ = z/σ (M10).

    >>> Gdp(1.0).to_approx(1e-5)
    Approx(epsilon=4.377..., delta=1e-05)
    """

    divergence = Divergence.GAUSSIAN
    measure = "mu"
    words = (
        "Gaussian privacy with mu {mu} for all answers together: distinguishing two such secrets by the answers is no "
        "easier than distinguishing two normal laws whose means are {mu} standard deviations apart"
    )
    mu: float

    def _approx(self, delta: float) -> float:
        """Return the ε at which two normal laws have the hockey stick delta (M10)."""
        return gdp_to_approx(self.mu, delta)

    def _renyi(self, alpha: float, delta: float) -> float:
        """Return αμ²/2; δ is not needed."""
        return float_above(Fraction(self.mu) ** 2 * Fraction(alpha) / 2)

    def zcdp_rho(self) -> float:
        return gdp_to_zcdp(self.mu)

    def gdp_mu(self) -> float:
        return self.mu

    def between_rows(self, least: float) -> Guarantee:
        return Gdp(2 * self.mu)

    def within_rows(self, least: float) -> Guarantee:
        return Gdp(self.mu / 2)

    def loss_from(self, other: Guarantee) -> float:
        return other.gdp_mu()


def _probability(given: object, name: str) -> float:
    """Return a number from 0 to 1, both included."""
    allowed = f"a number with 0 <= {name} <= 1"
    instead = "pf.TradeOff(1.0, 1e-6, tv=0.3)"
    return finite_number_above(
        given, name, allowed=allowed, instead=instead, fits=lambda number: 0 <= number <= 1
    )
