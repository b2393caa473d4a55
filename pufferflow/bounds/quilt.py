"""Markov quilts: hide the rows near a secret, and bound what those beyond tell of it (M19)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.bounds.bound import Bound, Part
from pufferflow.bounds.dependent_rows import DependentChain
from pufferflow.bounds.law_pairs import Pair
from pufferflow.bounds.laws import WorkEstimate, as_laws
from pufferflow.bounds.messages import Found, PurePart
from pufferflow.chains import Chain, Quilts, approximate_quilts, exact_quilts
from pufferflow.errors import Refused
from pufferflow.guarantees import Guarantee
from pufferflow.noise import Noise
from pufferflow.suggestions import explained


@final
@explained
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
    explanation = (
        "Hides a stretch of rows around the secret with noise, and adds what the rows beyond its ends still tell of "
        "it: the published method for chains, which mostly needs more noise than Messages (M19)."
    )
    by_movement = False

    approximate: bool = False

    def work(self, sizes: WorkEstimate, guarantee: Guarantee) -> float:
        return sizes.walk

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[Part]:
        return [self._part(walk) for walk in as_laws(pairs).walks()]

    def _part(self, walk: object) -> PurePart:
        if not isinstance(walk, DependentChain) or not isinstance(walk.chain, Chain):
            raise Refused(
                "Markov quilts for rows that do not form one known chain.",
                allowed="a prior that is a pf.MarkovChain, or a list of them",
                instead="bound=pf.Messages()",
            )
        prepare = approximate_quilts if self.approximate else exact_quilts
        return PurePart(walk.reach, _Charges(walk, prepare(walk.chain, walk.secrets)).loss)


@final
@dataclass(frozen=True, eq=False)
class _Charges:
    """Quilts, and what the noise charges for the rows inside them."""

    walk: DependentChain
    quilts: Quilts

    def loss(self, noise: Noise) -> Found:
        """Return the largest loss of a row; rows inside a quilt change one by one, or move one answer all at once."""
        losses = self.walk.exposures(noise)
        if losses is None:
            return math.inf, self.walk.place(0, self.walk.secrets.pairs[0].tolist())
        if self.walk.answers == 1:
            found = self.quilts.loss(lambda sizes: np.asarray(noise.pure(sizes * self.walk.reach)))
        else:
            each = float(losses.max())
            found = self.quilts.loss(lambda sizes: sizes * each * (1 + 1e-12))
        return found.value, self.walk.place(found.row, self.walk.secrets.pairs[0].tolist())
