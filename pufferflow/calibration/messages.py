"""Messages along chains and trees: the loss of noisy sums for one row when rows are correlated (M20)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.calibration.bound import Bound, LossCurve, Worst, impossible
from pufferflow.calibration.law_pairs import Pair, Witness
from pufferflow.calibration.laws import WorkEstimate, as_laws
from pufferflow.core.errors import Refused
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.distributions.coupling import Certainty
from pufferflow.noise.base import Family, Noise
from pufferflow.privacy.conversions import two_point_delta
from pufferflow.privacy.guarantee import Guarantee, Pure

_LOUD = 2.0**40
"""Times the movement: a scale that hides all but what the secret's own value reveals about a class."""


@final
@suggests_arguments
@dataclass(frozen=True)
class Messages(Bound):
    """Lipschitz messages (M20): a pure loss for chains of any length, and the guarantees that follow from it (M29).

    What the outputs before and after a row can reveal about its state travels to it along the chain, and the kernel
    limits how much of it each step passes on. The prior has to be a chain or a tree; pairs of laws alone are not
    enough. For one count on a positively correlated chain of two states it needs no more noise than `pf.Exact`. With
    `coarse` a step uses only the largest of the differences that arrive, not the states they are between: that is
    quick for chains of many states, and needs up to about twice the noise.

    >>> import pufferflow as pf
    >>> chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    >>> scenario = pf.Scenario(secret=pf.Secret("on", domain=[0, 1]), prior=chain, order_by="hour")
    >>> laws = pf.laws(scenario, pf.Statistic.total(24))
    >>> round(pf.loss(laws, pf.Laplace(10.0), pf.Pure, bound=Messages()), 6)
    0.822639
    """

    name = "messages"
    rank = 0
    by_movement = False
    coarse: bool = False

    @classmethod
    def automatic(cls, guarantee: Guarantee, noise: Noise) -> Sequence[Bound]:
        return [cls(), cls(coarse=True)]

    def work(self, sizes: WorkEstimate, guarantee: Guarantee) -> float:
        return sizes.coarse if self.coarse else sizes.walk

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[LossCurve]:
        walks = (rows.coarse() if self.coarse else rows for rows in as_laws(pairs).walks())
        return [PureLoss(rows.reach, rows.loss, rows.renyi, rows.given_away) for rows in walks]

    def __repr__(self) -> str:
        return "Messages(coarse=True)" if self.coarse else "Messages()"


@final
class PureLoss(LossCurve):
    """A loss curve of pure losses, from which all others follow; the loss of the last noise is cached.

    Where `renyi` gives a tighter bound, it is used too, also for noise without a pure loss.
    """

    certainty = Certainty.UPPER_BOUND
    tolerance = 1e-6

    def __init__(
        self,
        sensitivity: float,
        loss: Callable[[Noise], tuple[float, Witness]],
        renyi: Callable[[Noise, float], tuple[float, Witness] | None] = lambda _noise, _alpha: None,
        given_away: str = "",
    ) -> None:
        self.sensitivity = sensitivity
        self._loss, self._renyi, self._given_away = loss, renyi, given_away
        self._last: tuple[Noise, Worst] | None = None

    def pure(self, noise: Noise) -> Worst:
        if self._last is None or self._last[0] != noise:
            self._last = noise, Worst(*self._loss(noise))
        return self._last[1]

    def enough(self, family: Family, guarantee: Guarantee) -> float:
        """Return a scale that keeps the guarantee; refuse noise without a pure loss."""
        if math.isinf(float(np.max(family(1.0).pure(1.0)))):
            if not self._given_away:
                raise impossible(family(1.0), guarantee)
            if self.excess(family(_LOUD * max(self.sensitivity, 1.0)), guarantee) > 0:
                raise Refused(
                    self._given_away,
                    allowed="pairs of values that lie nearer each other, or noise with a pure loss",
                    instead="pairs=pf.WithinDistance(distance) with a smaller distance, or noise=pf.Laplace",
                )
        return super().enough(family, guarantee)

    def renyi(self, noise: Noise, alpha: float) -> Worst:
        """Return the Rényi loss of randomised response, which no pair with this pure loss exceeds (M29)."""
        worst, known = self.pure(noise), self._renyi(noise, alpha)
        if worst.value < math.inf:
            worst = Worst(Pure(worst.value).renyi_epsilon(alpha), worst.witness)
        return worst if known is None or known[0] >= worst.value else Worst(*known)

    def delta(self, noise: Noise, epsilon: float) -> Worst:
        """Return the δ of randomised response (M29), rounded up."""
        worst = self.pure(noise)
        if worst.value == math.inf and self._given_away:
            return super().delta(noise, epsilon)
        return Worst(two_point_delta(worst.value, epsilon), worst.witness)
