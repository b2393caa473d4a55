"""Nearness certified by draws from a simulation (M8); draws certify no other distance, such as W_∞."""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import NoReturn, final

import numpy as np

from pufferflow.calibration.laws import Laws, Place, Reach
from pufferflow.core.errors import InternalError, Refused
from pufferflow.core.rounding import UNIT, float_below
from pufferflow.core.validate import decimal_reading, probability_below_one
from pufferflow.distributions.coupling import Certainty
from pufferflow.distributions.distances import near
from pufferflow.distributions.finite_law import Law
from pufferflow.models.domain import Label
from pufferflow.models.priors.simulator import Simulator
from pufferflow.models.secret import AnySecret, Derived, Secret
from pufferflow.queries.statistic import Kinds, Statistic
from pufferflow.sensitivity.cells import row_by_row
from pufferflow.sensitivity.implied_laws import implied


@implied.register(Simulator)
@row_by_row
def _(prior: Simulator, statistic: Statistic, secret: AnySecret) -> Laws:
    prior.check(secret)
    if isinstance(secret, Derived):
        pairs = secret.value_pairs(secret.values or ())
        return SampledLaws(prior, statistic, pairs, [None])
    if not isinstance(secret, Secret):
        raise InternalError(
            "A simulator was given a secret that it had refused.", instead="reporting it"
        )
    rows = (
        sorted(Kinds.of(statistic.weights).first.tolist())
        if prior.exchangeable
        else range(statistic.size)
    )
    return SampledLaws(prior, statistic, secret.value_pairs(), rows)


def slack(draws: int, confidence: float, pairs: int) -> float:
    """Return by how much δ grows from empirical laws to true ones, for all pairs at once, rounded up (M8).

    √(ln(1/β)·(1/n + 1/n)/2) with β = (1 − confidence)/pairs: McDiarmid's inequality, for one order of each pair; the
    unmatched mass of couplings is the same for the other order.

    >>> round(slack(100_000, 0.999, pairs=1), 5)
    0.00831
    """
    share = float_below(1 - decimal_reading(confidence)) / pairs
    return math.sqrt(-math.log(share) / draws) * (1 + 8 * UNIT)


@final
class SampledLaws(Laws):
    """Laws known by draws only. They give one number, once: how near all pairs are for one δ.

    M8 holds for a δ that was fixed before the draws. So the draws are made when δ is given, and another δ (or norm)
    for the same laws is refused: a choice among several results would lower the stated confidence.
    """

    def __init__(
        self,
        prior: Simulator,
        statistic: Statistic,
        pairs: Sequence[tuple[Label, Label]],
        rows: Sequence[int | None],
    ) -> None:
        self._prior, self._statistic, self._pairs, self._rows = prior, statistic, pairs, rows
        self._drawn: tuple[Fraction, float, Reach] | None = None
        """The δ and norm for which draws were made, and their result."""
        self.dimension, self.certainty = statistic.answers, Certainty.UPPER_BOUND

    def near(self, delta: float, norm: float) -> Reach:
        """Return the largest z at which the empirical laws of a pair are (z, delta − slack)-near: true ones are too."""
        probability_below_one(delta, "delta")
        share = decimal_reading(delta)
        if self._drawn is None:
            self._drawn = share, norm, self._reach(share, norm)
        drawn, in_norm, reach = self._drawn
        if (drawn, in_norm) != (share, norm):
            raise Refused(
                f"The draws were made for delta={float(drawn):g} in one norm; a certificate by draws holds "
                "for what was fixed before them.",
                allowed="one delta and one norm for each set of draws",
                instead="pf.laws(scenario, query) once more, for new draws",
            )
        return reach

    def winf(self, norm: float) -> NoReturn:
        raise _no_list()

    span = winf

    @cached_property
    def pairs(self) -> NoReturn:
        raise _no_list()

    def __len__(self) -> int:
        return len(self._pairs) * len(self._rows)

    def _reach(self, delta: Fraction, norm: float) -> Reach:
        """Draw under every value of the secret, and compare; refuse a δ that this number of draws cannot certify."""
        prior, draws = self._prior, self._prior.draws
        left = delta - Fraction(slack(draws, prior.confidence, len(self)))
        if left < 0:
            single_slack = slack(1, prior.confidence, len(self))
            needed = (
                "no number is enough for delta=0"
                if not delta
                else f"more than {(single_slack / float(delta)) ** 2:.2g}"
            )
            raise Refused(
                f"{draws} draws for each value of the secret cannot certify delta={float(delta):g} for "
                f"{len(self)} pairs with confidence {prior.confidence:g}.",
                allowed=f"as many draws as it takes: {needed}",
                instead="a larger delta, or a prior whose laws can be worked out",
            )
        rng = np.random.default_rng(prior.seed)
        reaches: list[Reach] = []
        for row in self._rows:
            values = dict.fromkeys(value for pair in self._pairs for value in pair)
            laws = {value: self._draw(value, row, rng) for value in values}
            for a, b in self._pairs:
                place = Place(self.dimension, prior, (a, b), row or 0)
                reaches.append(
                    Reach(float(near(laws[a], laws[b], left, norm)), Certainty.UPPER_BOUND, place)
                )
        return max(reaches, key=lambda reach: reach.length)

    def _draw(self, value: Label, row: int | None, rng: np.random.Generator) -> Law:
        drawn = self._prior.sample(value, row, self._statistic, rng)
        points, counts = np.unique(
            drawn[:, 0] if self.dimension == 1 else drawn, axis=0, return_counts=True
        )
        return Law.empirical(points, counts=counts)


def _no_list() -> Refused:
    return Refused(
        "Laws of a pf.Simulator are known by draws only: W_∞, spans and losses of samples bound nothing.",
        allowed="bound=pf.GAWM(delta), for a guarantee with at least this delta",
        instead="pf.Approx(epsilon, delta=0.05) with bound=pf.GAWM(0.05), or a prior whose laws can be worked out",
    )
