"""The loss of outputs about a secret: the worst of all pairs of secrets, in every table that may be true."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from pufferflow.confounding.joint_law import Pairs
from pufferflow.confounding.law_pair import LawPair
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import float_below
from pufferflow.core.validate import finite_number, finite_number_at_least_zero, probability_below_one
from pufferflow.distributions.coupling import Certainty
from pufferflow.models.domain import Label
from pufferflow.privacy.guarantee import Approx, Guarantee, Pure


@dataclass(frozen=True, eq=False, repr=False)
class Losses:
    """The losses of the laws of all outputs under any two secrets of a pair; every number is rounded up.

    >>> import pufferflow as pf
    >>> table = pf.Table({"ill": [0, 0, 1, 1], "test": [0, 1, 0, 1], "probability": [0.4, 0.1, 0.1, 0.4]})
    >>> coin = pf.confounding.Channel("test", [0, 1], ["no", "yes"], [[0.75, 0.25], [0.25, 0.75]])
    >>> losses = pf.confounding.cost(table, coin)
    >>> round(losses.pure, 6), round(losses.delta(0.3), 6), round(losses.tv, 6), losses.certainty().value
    (0.619039, 0.177549, 0.3, 'exact')
    """

    laws: Pairs
    """The ordered pairs of secrets, and the laws of all outputs under them."""

    @property
    def pure(self) -> float:
        """The least ε at δ = 0; ∞ if there is none."""
        return max(pair.pure for _, pair in self.laws)

    def delta(self, epsilon: float) -> float:
        """Return the least δ at ε (M31)."""
        at = float_below(Fraction(finite_number_at_least_zero(epsilon, "epsilon")))
        return max(pair.delta(at) for _, pair in self.laws)

    def epsilon(self, delta: float) -> float:
        """Return the least ε at δ, or ∞."""
        if delta == 0:
            return self.pure
        at = probability_below_one(delta, "delta")
        return max(pair.epsilon(at) for _, pair in self.laws)

    @property
    def tv(self) -> float:
        """The total variation of the laws of all outputs: δ at ε = 0."""
        return self.delta(0.0)

    def certainty(self, delta: float | None = None) -> Certainty:
        """Return whether the numbers are exact or bounds: those of every δ, or, with delta=0, the pure loss alone."""
        each = [pair.pure_certainty if delta == 0 else pair.certainty for _, pair in self.laws]
        return Certainty.EXACT if all(one is Certainty.EXACT for one in each) else Certainty.UPPER_BOUND

    def tradeoff(self, levels: npt.ArrayLike) -> Floats:
        """Return the least error of the second kind of any attack with an error of the first kind of at most a level.

        The true attack is no better: errors are rounded down.
        """
        allowed, instead = "numbers from 0 to 1", "tradeoff([0.01, 0.05, 0.1])"
        at = np.atleast_1d(np.asarray(levels, dtype=object))
        read = [
            finite_number(one, "A level", allowed=allowed, instead=instead, fits=lambda x: 0 <= x <= 1)
            for one in at.ravel().tolist()
        ]
        return np.min([pair.attack.second_error(np.array(read)) for _, pair in self.laws], axis=0)

    @property
    def attack_auc(self) -> float:
        """The area under the receiver operating curve of the best attack: 1 less that under the trade-off curve."""
        return max(1 - pair.attack.area_below for _, pair in self.laws)

    def keeps(self, guarantee: Guarantee) -> bool:
        """Return whether a pure or (ε, δ) guarantee holds.

        >>> import pufferflow as pf
        >>> table = pf.Table({"ill": [0, 1], "test": [0, 1], "probability": [0.5, 0.5]})
        >>> fair = pf.confounding.Channel("test", [0, 1], [0, 1], [[0.6, 0.4], [0.4, 0.6]])
        >>> pf.confounding.cost(table, fair).keeps(pf.Pure(0.41)), pf.confounding.cost(table, fair).keeps(pf.Pure(0.4))
        (True, False)
        """
        delta = read_target(guarantee)[1]
        return self.epsilon(delta) <= guarantee.epsilon

    def worst_pair(self, delta: float = 0.0) -> tuple[Label, Label]:
        """Return the pair of secrets that is easiest to distinguish at this δ."""
        return self._worst(lambda pair: pair.epsilon(delta) if delta else pair.pure)

    def _worst(self, loss: Callable[[LawPair], float]) -> tuple[Label, Label]:
        return max(self.laws, key=lambda one: loss(one[1]))[0]


def read_target(guarantee: object) -> tuple[float, float]:
    """Return ε and δ of a guarantee that M31 and M32 cover."""
    if not isinstance(guarantee, Pure | Approx):
        raise Refused(
            f"The guarantee is {guarantee!r}." if isinstance(guarantee, Guarantee) else "That is no guarantee.",
            allowed="pf.Pure or pf.Approx",
            instead="pf.Pure(1.0), or pf.Approx(1.0, 1e-6)",
        )
    return guarantee.epsilon, guarantee.delta


def added_losses(losses: Sequence[float]) -> float:
    """Return a sum of losses, rounded up."""
    return math.nextafter(math.fsum(losses), math.inf) if any(losses) else 0.0
