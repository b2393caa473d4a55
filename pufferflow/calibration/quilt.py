"""Markov quilts: hide the rows near a secret, and bound the influence of all others (M19)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.calibration.bound import Bound, LossCurve
from pufferflow.calibration.dependent_rows import DependentChain
from pufferflow.calibration.law_pairs import Pair, Witness
from pufferflow.calibration.laws import WorkEstimate, as_laws
from pufferflow.calibration.messages import PureLoss
from pufferflow.core.errors import Refused
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.quilts import Quilts, approximate_quilts, exact_quilts
from pufferflow.noise.base import Noise
from pufferflow.privacy.guarantee import Guarantee


@final
@suggests_arguments
@dataclass(frozen=True)
class Quilt(Bound):
    """The Markov quilt mechanism of Song, Wang and Chaudhuri (M19): the published baseline for chains.

    The loss is max over rows of min over quilts of influence + the noise's loss for all rows inside the quilt.
    `approximate=True` bounds influences by the least stationary probability and the spectral gap, as they do for long
    chains. It needs more noise than `pf.Messages`, often several times as much.

    >>> import pufferflow as pf
    >>> chain = pf.MarkovChain([[0.6, 0.4], [0.4, 0.6]])
    >>> scenario = pf.Scenario(secret=pf.Secret("on", domain=[0, 1]), prior=chain, order_by="hour")
    >>> laws = pf.laws(scenario, pf.Statistic.total(100))
    >>> [round(pf.calibrate(laws, pf.Pure(1), bound=b).noise.scale, 3) for b in (Quilt(), Quilt(True), pf.Messages())]
    [3.572, 11.537, 1.467]
    """

    name = "quilt"
    by_movement = False

    approximate: bool = False

    def work(self, sizes: WorkEstimate, guarantee: Guarantee) -> float:
        return sizes.walk

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[LossCurve]:
        return [self._curve(rows) for rows in as_laws(pairs).walks()]

    def _curve(self, rows: object) -> PureLoss:
        if not isinstance(rows, DependentChain) or not isinstance(rows.chain, Chain):
            raise Refused(
                "Markov quilts for rows that do not form one known chain.",
                allowed="a prior that is a pf.MarkovChain, or a list of them",
                instead="bound=pf.Messages()",
            )
        prepare = approximate_quilts if self.approximate else exact_quilts
        return PureLoss(rows.reach, _QuiltedChain(rows, prepare(rows.chain, rows.secrets)).loss)


@final
@dataclass(frozen=True, eq=False)
class _QuiltedChain:
    """The quilts of a chain: the loss is the influence from outside plus the noise's loss for the rows inside."""

    rows: DependentChain
    quilts: Quilts

    def loss(self, noise: Noise) -> tuple[float, Witness]:
        """Return the largest loss of a row; rows inside a quilt are charged one by one, or together for one answer."""
        losses, states = self.rows.exposures(noise), self.rows.secrets.pairs[0].tolist()
        if losses is None:
            return math.inf, self.rows.place(0, states)
        if self.rows.answers == 1:
            leak = self.quilts.loss(lambda sizes: np.asarray(noise.pure(sizes * self.rows.reach)))
        else:
            largest = float(losses.max())
            leak = self.quilts.loss(lambda sizes: sizes * largest * (1 + 1e-12))
        return leak.value, self.rows.place(leak.row, states)
