"""Guarantees about Rényi divergences: of one order, of several, but for a probability, and of all orders (zCDP)."""
# a guarantee's own number stands in for the base's property:
# pyright: reportIncompatibleMethodOverride=false

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import cast, final

from msgspec.structs import force_setattr

from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import UNIT, float_above
from pufferflow.core.validate import finite_number_at_least_zero, order_above_one
from pufferflow.privacy.conversions import (
    DEFAULT_ORDERS,
    renyi_to_approx,
    spare_delta,
    zcdp_to_approx,
)
from pufferflow.privacy.guarantee import Divergence, Guarantee, GuaranteeFamily, sum_above


@final
class Renyi(Guarantee, frozen=True, forbid_unknown_fields=True):
    """(α, ε)-Rényi Pufferfish privacy: the Rényi divergence of order α is at most ε, in both orders.

    >>> Renyi(alpha=4, epsilon=0.5)
    Renyi(alpha=4.0, epsilon=0.5)
    """

    divergence = Divergence.RENYI
    words = (
        "Rényi privacy for all answers together: the Rényi divergence of order {alpha} between the answers under two "
        "such secrets is at most {epsilon}"
    )
    alpha: float
    epsilon: float

    @classmethod
    def of(cls, alpha: float) -> GuaranteeFamily:
        """Return the kind of guarantee of this order with an ε yet to be found, for `pf.loss`.

        >>> Renyi.of(alpha=4)(0.5)
        Renyi(alpha=4.0, epsilon=0.5)
        """
        return GuaranteeFamily(cls(alpha, 0.0))

    def _approx(self, delta: float) -> float:
        """Return ε + log((α−1)/α) − (log δ + log α)/(α−1), clipped at 0 (M29)."""
        return renyi_to_approx(self.alpha, self.epsilon, delta)

    def _renyi(self, alpha: float, delta: float) -> float:
        """Return ε for every order up to α, where the divergence can only be smaller."""
        return self.epsilon if alpha <= self.alpha else math.inf

    def under_model_error(self, ratio: float) -> Guarantee:
        order = Fraction(self.alpha)
        return Renyi(
            self.alpha, sum_above(self.epsilon, Fraction(ratio) * (2 * order - 1) / (order - 1))
        )


@final
class RenyiCurve(Guarantee, frozen=True, forbid_unknown_fields=True):
    """Rényi Pufferfish privacy of several orders at once; `to_approx` uses the order that converts best.

    >>> RenyiCurve.of(lambda alpha: alpha / 8).to_approx(1e-6)
    Approx(epsilon=2.4..., delta=1e-06)
    """

    divergence = Divergence.RENYI
    words = (
        "Rényi privacy for all answers together: the Rényi divergences of {orders} orders between the answers under "
        "two such secrets are bounded"
    )
    alphas: Sequence[float]
    epsilons: Sequence[float]

    def __post_init__(self) -> None:
        given = cast(tuple[object, object], (self.alphas, self.epsilons))
        orders, epsilons = (
            tuple(cast(Iterable[object], one)) if isinstance(one, Iterable) else () for one in given
        )
        if not orders or len(orders) != len(epsilons):
            raise UsageError(
                f"{len(orders)} orders and {len(epsilons)} epsilons.",
                allowed="as many epsilons as orders, at least one",
                instead="RenyiCurve([2, 4], [0.5, 1.0])",
            )
        losses = [finite_number_at_least_zero(one, "epsilon") for one in epsilons]
        pairs = sorted(zip(map(order_above_one, orders), losses, strict=True))
        force_setattr(self, "alphas", tuple(alpha for alpha, _ in pairs))
        force_setattr(self, "epsilons", tuple(epsilon for _, epsilon in pairs))

    @classmethod
    def of(
        cls, loss: Callable[[float], float], alphas: Iterable[float] = DEFAULT_ORDERS
    ) -> "RenyiCurve":
        """Return the curve of a loss function, ε = loss(α), at the given orders."""
        orders = tuple(alphas)
        return cls(orders, tuple(loss(alpha) for alpha in orders))

    @property
    def loss(self) -> float:
        return math.inf

    @property
    def kind(self) -> None:
        return None

    @property
    def singles(self) -> "Sequence[Renyi]":
        return tuple(map(Renyi, self.alphas, self.epsilons))

    def with_losses(self, losses: Sequence[float]) -> Guarantee:
        return RenyiCurve(self.alphas, losses)

    def _approx(self, delta: float) -> float:
        """Return the least ε over the orders (M29)."""
        return min(
            renyi_to_approx(alpha, epsilon, delta)
            for alpha, epsilon in zip(self.alphas, self.epsilons, strict=True)
        )

    def _renyi(self, alpha: float, delta: float) -> float:
        orders = zip(self.alphas, self.epsilons, strict=True)
        return min((epsilon for order, epsilon in orders if alpha <= order), default=math.inf)

    def under_model_error(self, ratio: float) -> Guarantee:
        return RenyiCurve(
            self.alphas, [one.under_model_error(ratio).epsilon for one in self.singles]
        )

    def __repr__(self) -> str:
        if len(self.alphas) <= 6:
            return f"RenyiCurve(alphas={self.alphas!r}, epsilons={self.epsilons!r})"
        return (
            f"<RenyiCurve of {len(self.alphas)} orders, {self.alphas[0]:g} to {self.alphas[-1]:g}>"
        )


@final
class ApproxRenyi(Guarantee, frozen=True, forbid_unknown_fields=True):
    """(α, ε, δ)-approximate Rényi privacy: outside an event of probability δ under each secret, (α, ε)-Rényi privacy.

    >>> ApproxRenyi(alpha=10, epsilon=0.5, delta=1e-3).to_approx(2e-3)
    Approx(epsilon=0.9062..., delta=0.002)
    """

    divergence = Divergence.RENYI
    words = (
        "approximate Rényi privacy for all answers together: the Rényi divergence of order {alpha} between the answers "
        "under two such secrets is at most {epsilon}, outside of a probability of {delta}"
    )
    alpha: float
    epsilon: float
    delta: float

    @classmethod
    def of(cls, alpha: float, delta: float) -> GuaranteeFamily:
        """Return the kind of guarantee of this order and δ with an ε yet to be found, for `pf.loss`.

        >>> ApproxRenyi.of(alpha=10, delta=1e-3)(0.5)
        ApproxRenyi(alpha=10.0, epsilon=0.5, delta=0.001)
        """
        return GuaranteeFamily(cls(alpha, 0.0, delta))

    def _approx(self, delta: float) -> float:
        """Return ε'(δ') for the δ' with δ + (1−δ)δ' = delta (M29)."""
        spare = spare_delta(delta, self.delta)
        return math.inf if spare is None else renyi_to_approx(self.alpha, self.epsilon, spare)

    def _renyi(self, alpha: float, delta: float) -> float:
        """Return ε for every order up to α, if as much may be cut off as the guarantee cuts off."""
        return self.epsilon if alpha <= self.alpha and delta >= self.delta else math.inf

    def _enough_delta(self) -> float:
        return float(f"{self.delta + (1 - self.delta) / 2:.3g}")


@final
class Zcdp(Guarantee, frozen=True, forbid_unknown_fields=True):
    """ρ-zero-concentrated Pufferfish privacy: the Rényi divergence of every order α > 1 is at most ρα, in both orders.

    Gaussian noise of standard deviation σ that hides a movement z has ρ = z²/(2σ²) (M10).

    >>> Zcdp(0.5).renyi_epsilon(4)
    2.0
    >>> Zcdp(0.5).to_approx(1e-6)
    Approx(epsilon=5.2..., delta=1e-06)
    """

    divergence = Divergence.CONCENTRATED
    measure = "rho"
    words = (
        "zero-concentrated privacy with rho {rho} for all answers together: the Rényi divergence of every order "
        "between the answers under two such secrets is at most {rho} times the order"
    )
    rho: float

    def _approx(self, delta: float) -> float:
        """Return the least ε over all orders (M29), and 0 where the total variation is at most delta."""
        return zcdp_to_approx(self.rho, delta)

    def _renyi(self, alpha: float, delta: float) -> float:
        """Return ρα; δ is not needed."""
        return float_above(Fraction(self.rho) * Fraction(alpha))

    def zcdp_rho(self) -> float:
        return self.rho

    def between_rows(self, least: float) -> Guarantee:
        return Zcdp(4 * self.rho)

    def within_rows(self, least: float) -> Guarantee:
        return Zcdp(self.rho / 4)

    def loss_from(self, other: Guarantee) -> float:
        return other.zcdp_rho()

    def under_model_error(self, ratio: float) -> Guarantee:
        """Return (√ρ + √Δ)² + Δ: the least over α of M30's ρα + Δ(2α−1)/(α−1).

        Divided by that α it bounds D/order at all larger orders too, and at smaller ones D itself is no larger.
        """
        root = Fraction(math.sqrt(self.rho) * math.sqrt(ratio)) * Fraction(1 + 8 * UNIT)
        return Zcdp(sum_above(self.rho, 2 * Fraction(ratio) + 2 * root))
