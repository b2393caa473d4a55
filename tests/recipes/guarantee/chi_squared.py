"""χ²-privacy, which bounds the variance of the likelihood ratio."""
# a guarantee's own number stands in for the base's property:
# pyright: reportIncompatibleMethodOverride=false

import math
from collections.abc import Sequence
from typing import final

from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT
from pufferflow.privacy.conversions import renyi_to_approx
from pufferflow.privacy.guarantee import Divergence, Guarantee


@final
class ChiSquared(Guarantee, frozen=True, forbid_unknown_fields=True):
    """χ²-Pufferfish privacy: E_Q[(P/Q − 1)²] is at most chi2 for the laws of the output, in both orders.

    >>> ChiSquared(0.5).renyi_epsilon(2)
    0.40546510810816...
    """

    divergence = Divergence.RENYI
    words = (
        "chi-squared privacy for all answers together: a Rényi divergence "
        "of order {alpha} of at most log(1 + {chi2})"
    )
    chi2: float

    @property
    def loss(self) -> float:
        """D_2 = log(1 + χ²), rounded down: what a loss of order 2 may be."""
        return math.log1p(self.chi2) * (1 - 4 * UNIT)

    @property
    def alpha(self) -> float:
        return 2.0

    def with_losses(self, losses: Sequence[float]) -> Guarantee:
        """Return the guarantee whose ε is not below this one."""
        (epsilon,) = losses
        if epsilon > 700:
            raise Refused(
                f"Of order 2 {epsilon:g} is too much.",
                allowed="up to 700",
                instead="pf.Renyi(2, epsilon)",
            )
        return ChiSquared(math.expm1(epsilon) * (1 + 16 * UNIT * (1 + epsilon)))

    def _approx(self, delta: float) -> float:
        return renyi_to_approx(2.0, self.renyi_epsilon(2.0), delta)

    def _renyi(self, alpha: float, delta: float) -> float:
        """Return log(1 + χ²), rounded up, for every order up to 2."""
        return math.log1p(self.chi2) * (1 + 4 * UNIT) if alpha <= 2 else math.inf
