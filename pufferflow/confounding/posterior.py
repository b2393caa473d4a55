"""The knowledge of an adversary who knows the table: posteriors, Bayes factors, and the best guess.

DCP's Theorem 2 requires posteriors within a factor τ of priors. For δ > 0 its conditions cannot be met, unless δτ ≥ 1.
The corrected statement has two parts. If every posterior is at least prior/τ, then log(1 + (τ−1)/smallest prior) is a
pure loss. If none is above τ·prior either, so is 2·log τ.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast, final

import numpy as np

from pufferflow.confounding.additive import Additive
from pufferflow.confounding.joint_law import (
    Outcomes,
    ProjectedTable,
    Release,
    is_noisy,
    noisy_laws,
    revealing,
    see,
)
from pufferflow.confounding.tied import CopulaNoise
from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import UNIT, float_above, upwards
from pufferflow.core.validate import finite_number, finite_number_at_least_zero
from pufferflow.models.domain import Label
from pufferflow.noise.channel import Channel

_HUGE = 1e300


@final
@dataclass(frozen=True)
class Posterior(InNotebooks):
    """Bounds of the effect of outputs on priors, each the worst of all tables, outputs and values of the secret.

    `ratio` is the least τ with prior/τ ≤ posterior ≤ τ·prior. `bayes_factor` is the largest factor by which odds of two
    secrets change. `guess_before` and `guess_after` are the probabilities that the best guess of the secret is right,
    in the table where it gains most. `gain` is their quotient.

    >>> import pufferflow as pf
    >>> table = pf.Table({"ill": [0, 1], "test": [0, 1], "probability": [0.5, 0.5]})
    >>> fair = pf.confounding.Channel("test", [0, 1], [0, 1], [[0.75, 0.25], [0.25, 0.75]])
    >>> seen = pf.confounding.cost(table, fair).posterior
    >>> round(seen.ratio, 6), round(seen.bayes_factor, 6), round(seen.guess_after, 6), round(seen.gain, 6)
    (2.0, 3.0, 0.75, 1.5)
    """

    ratio: float
    bayes_factor: float
    guess_before: float
    guess_after: float

    @property
    def gain(self) -> float:
        """The factor by which the best guess becomes likelier."""
        return upwards(self.guess_after / self.guess_before, 2 * UNIT)


def posterior_of(seen: ProjectedTable, releases: Sequence[Release], pure: float) -> Posterior:
    """Return the bounds of the effect of releases on priors."""
    factor = upwards(math.exp(pure), 4 * UNIT) if pure < 700 else math.inf
    noisy = any(map(is_noisy, releases))
    found = _from_cells(seen, releases) if noisy else _from_outcomes(seen, releases)
    before, after = max((pair[1:] for pair in found), key=lambda pair: pair[1] / pair[0])
    return Posterior(max(one[0] for one in found), factor, before, after)


def _from_outcomes(
    seen: ProjectedTable, releases: Sequence[Release]
) -> list[tuple[float, float, float]]:
    """Return the ratio and the guesses for every table, from joint laws in whole numbers."""
    given = cast(Sequence[Channel | Additive], releases)
    channels = [revealing(seen, one) if isinstance(one, Additive) else one for one in given]
    masses = Outcomes.of(seen, channels).masses
    found: list[tuple[float, float, float]] = []
    for joint, chances in zip(seen.masses, seen.chances, strict=True):
        together = joint @ masses  # P(s, y), in whole numbers
        total, sums = int(together.sum()), together.sum(axis=0)
        ratio = max(
            _ratio(row, sums, chance)
            for row, chance in zip(together, chances, strict=True)
            if chance > 0
        )
        after = float_above(Fraction(int(together.max(axis=0).sum()), total))
        found.append((ratio, float(max(chances)), after))
    return found


def _ratio(row: Array, sums: Array, chance: Fraction) -> float:
    """Return the largest of posterior/prior and prior/posterior over the outcomes of one value of the secret."""
    there = sums > 0
    row, sums = row[there], sums[there]
    if (row == 0).any():
        return math.inf
    posteriors = [
        Fraction(int(one), int(whole))
        for one, whole in zip(row.tolist(), sums.tolist(), strict=True)
    ]
    return float_above(max(max(posteriors) / chance, chance / min(posteriors)))


def _from_cells(
    seen: ProjectedTable, releases: Sequence[Release]
) -> list[tuple[float, float, float]]:
    """Return the ratio and the guesses from cells, in each of which ratios of likelihoods may move by e^width."""
    noisy = [one for one in releases if isinstance(one, Additive | CopulaNoise) and is_noisy(one)]
    others = [one for one in releases if isinstance(one, Channel | Additive) and not is_noisy(one)]
    channels = [one if isinstance(one, Channel) else revealing(seen, one) for one in others]
    cells = noisy_laws(seen, Outcomes.of(seen, channels), noisy)
    with np.errstate(over="ignore"):
        grown = np.exp(cells.width) * (1 + 4 * cells.off)
    found: list[tuple[float, float, float]] = []
    for law, chances in zip(cells.laws, seen.chances, strict=True):
        priors = np.array([float(one) for one in chances])
        weighed = law * priors[:, None]
        ratio = max(
            _cell_ratio(weighed, at, priors[at], grown)
            for at in np.flatnonzero(priors > 0).tolist()
        )
        limited = np.minimum(weighed.max(axis=0) * np.minimum(grown, _HUGE), weighed.sum(axis=0))
        after = min(upwards(float(limited.sum()) + cells.doubt, 8 * cells.off + 64 * UNIT), 1.0)
        found.append((ratio, float(priors.max()), after))
    return found


def _cell_ratio(weighed: Floats, at: int, prior: float, grown: Floats) -> float:
    """Return the largest of posterior/prior and prior/posterior, the odds against the value moving by `grown`."""
    there = weighed.sum(axis=0) > 0
    own, others = weighed[at][there], (weighed.sum(axis=0) - weighed[at])[there]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        odds = np.where(own > 0, others / own, math.inf)
        wide = np.isinf(grown[there])
        above = np.where(wide, math.inf, odds * grown[there])
        below = np.where(wide, 0.0, odds / grown[there])
        least = float(np.min(1 / (1 + above)))
        most = float(np.max(1 / (1 + below)))
    return upwards(max(most / prior, prior / least if least > 0 else math.inf), 64 * UNIT)


def posterior_ratio(epsilon: float, chance: float) -> float:
    """Return the largest factor between prior and posterior, either way, that a pure ε allows at a prior probability.

    >>> round(posterior_ratio(1.0, 0.5), 6)
    1.859141
    """
    loss = finite_number_at_least_zero(epsilon, "epsilon")
    allowed, instead = "a number with 0 < chance < 1", "chance=0.1"
    p = finite_number(chance, "chance", allowed=allowed, instead=instead, fits=lambda p: 0 < p < 1)
    if loss > 700:
        return math.inf
    return upwards(
        max(1 / (p + (1 - p) * math.exp(-loss)), p + (1 - p) * math.exp(loss)), 16 * UNIT
    )


@final
@dataclass(frozen=True)
class Belief(InNotebooks):
    """The probability of a value of the secret before any output, and its bounds after all of them.

    With several tables `before` is a range as well.
    """

    value: Label
    before: tuple[float, float]
    after: tuple[float, float]


def beliefs_after(table: Any, epsilon: float, *, secret: Any = None) -> list[Belief]:
    """Return bounds of an adversary's posteriors of a row's secret, if a pure ε holds for all its pairs.

    The adversary knows the table. `table` and `secret` are as for `cost`. Bounds are rounded outwards.

    >>> import pufferflow as pf
    >>> table = pf.Table({"ill": ["no", "no", "yes"], "test": [0, 1, 1], "probability": [0.6, 0.1, 0.3]})
    >>> for one in beliefs_after(table, 0.5, secret="ill"):
    ...     print(one.value, one.before[0], [round(end, 4) for end in one.after])
    no 0.7 [0.586, 0.7937]
    yes 0.3 [0.2063, 0.414]
    """
    loss = finite_number_at_least_zero(epsilon, "epsilon")
    seen = see(table, secret, ())
    if len(seen.pairs) < len(seen.values) * (len(seen.values) - 1):
        raise Refused(
            "Some pairs of the secret's values need not be indistinguishable, so posteriors about them have no bound.",
            allowed='a secret with pairs="all"',
            instead="cost(table, releases).posterior, for the effect of given releases",
        )
    found: list[Belief] = []
    for value, chances in zip(seen.values, zip(*seen.chances, strict=True), strict=True):
        low, high = float(min(chances)), float(max(chances))
        after = _moved(low, loss) * (1 - 16 * UNIT), min(_moved(high, -loss) * (1 + 16 * UNIT), 1.0)
        found.append(Belief(value, (low, high), after))
    return found


def _moved(chance: float, loss: float) -> float:
    """Return the probability whose odds are e^{−loss} times those of a chance."""
    weight = math.exp(min(max(loss, -700.0), 700.0))
    return chance / (chance + (1 - chance) * weight) if chance else 0.0


def epsilon_of_ratio(ratio: float, chances: Sequence[float], *, both_sides: bool = True) -> float:
    """Return a pure ε that follows if posteriors stay within a factor of priors, the least one for two secrets.

    With both_sides=False only prior/ratio ≤ posterior is known. (DCP Theorem 2, corrected.)

    >>> round(epsilon_of_ratio(2.0, [0.5, 0.5]), 6), round(epsilon_of_ratio(2.0, [0.2, 0.3, 0.5]), 6)
    (1.098612, 1.386294)
    """
    at_least_one, instead = "a number >= 1", "ratio=2.0"
    tau = finite_number(
        ratio, "ratio", allowed=at_least_one, instead=instead, fits=lambda tau: tau >= 1
    )
    allowed = "the probabilities of at least two secrets, above 0 and with sum 1"
    listed = [
        finite_number(
            one, "A chance", allowed=allowed, instead="[0.5, 0.5]", fits=lambda p: 0 < p < 1
        )
        for one in cast(Sequence[Any], chances)
    ]
    if len(listed) < 2 or abs(math.fsum(listed) - 1) > 1e-9:
        raise UsageError(
            f"chances has {len(listed)} numbers with sum {math.fsum(listed):g}.", allowed=allowed
        )
    one_side = math.log1p((tau - 1) / min(listed))
    if not both_sides:
        return upwards(one_side, 8 * UNIT)
    if len(listed) == 2:
        return upwards(max(_of_two(tau, one) for one in listed), 64 * UNIT)
    return upwards(min(2 * math.log(tau), one_side), 8 * UNIT)


def _of_two(tau: float, weight: float) -> float:
    """Return the largest log ratio of the two posterior/prior quotients, one of them of a secret with this weight."""
    own = min(tau, (1 - (1 - weight) / tau) / weight)
    return math.log(own * (1 - weight) / (1 - weight * own))
