"""The interface of a bound: losses of pairs of laws under a noise that are never below the true ones."""

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, NamedTuple

from pufferflow.calibration.laws import Laws, Pair, Place, Witness
from pufferflow.core.errors import Refused
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import UNIT, float_above, largest, smallest
from pufferflow.distributions.coupling import Certainty
from pufferflow.noise.base import Family, Noise
from pufferflow.privacy.conversions import DEFAULT_ORDERS, pure_to_gdp, pure_to_zcdp, renyi_to_delta
from pufferflow.privacy.guarantee import Divergence, Guarantee, GuaranteeFamily, Pure

TOLERANCE = 1e-10
EPSILON_TOLERANCE = 1e-9
_LARGEST = 2.0**1000
_MOST_RADII = 1024
"""So many largest radii are cached; plans of one guarantee need one for each number of coordinates and share."""


class Worst(NamedTuple):
    """The largest loss, and the pair that has it, in the order of the laws that gives it."""

    value: float
    witness: Witness


class LossCurve(abc.ABC):
    """The largest losses of some pairs of laws as functions of the scale of the noise; the rest is fixed."""

    sensitivity: float
    """The movement that the noise is measured against: W_∞, Δ_δ or the group's span."""
    certainty: Certainty
    own_delta: float = 0.0
    """The probability that the bound leaves out of its guarantee."""
    tolerance: float = TOLERANCE
    """The relative tolerance of a calibration."""

    @abc.abstractmethod
    def renyi(self, noise: Noise, alpha: float) -> Worst:
        """Return the largest Rényi loss of order alpha."""

    @abc.abstractmethod
    def pure(self, noise: Noise) -> Worst:
        """Return the largest pure loss."""

    def zcdp(self, noise: Noise) -> Worst:
        """Return the largest ρ; by default that of the pure loss (M29), where no bound on all orders is known."""
        worst = self.pure(noise)
        return Worst(pure_to_zcdp(worst.value), worst.witness)

    def gdp(self, noise: Noise) -> Worst:
        """Return the largest μ; by default that of the pure loss (M29), where no bound on the trade-off is known."""
        worst = self.pure(noise)
        return Worst(pure_to_gdp(worst.value), worst.witness)

    def delta(self, noise: Noise, epsilon: float) -> Worst:
        """Return the largest δ at epsilon; by default by the best Rényi order (M29)."""
        worst = self.pure(noise)
        if worst.value <= epsilon:
            return Worst(0.0, worst.witness)
        orders = zip(DEFAULT_ORDERS, self._curve(noise), strict=True)
        deltas = [
            Worst(renyi_to_delta(alpha, loss, epsilon), witness)
            for alpha, (loss, witness) in orders
        ]
        return min(deltas, key=lambda worst: worst.value)

    def _curve(self, noise: Noise) -> list[Worst]:
        """Return the Rényi losses of all orders; those of the last noise are cached, for a search tries many ε."""
        cached: tuple[Noise, list[Worst]] | None = getattr(self, "_last_curve", None)
        if cached is None or cached[0] != noise:
            cached = noise, [self.renyi(noise, alpha) for alpha in DEFAULT_ORDERS]
            object.__setattr__(self, "_last_curve", cached)  # a curve may be a frozen dataclass
        return cached[1]

    def excess(self, noise: Noise, guarantee: Guarantee) -> float:
        """Return the largest log(loss / allowed loss): it is at most 0 exactly if the guarantee is kept."""
        return max(_log_ratio(loss, allowed) for loss, allowed, _ in self.losses(noise, guarantee))

    def excess_drawn(self, noise: Noise, guarantee: Guarantee) -> float:
        """Return the excess of noise at its drawn scale, slightly larger: the two differ only where a loss jumps."""
        return self.excess(noise, guarantee)

    def losses(self, noise: Noise, guarantee: Guarantee) -> list[tuple[float, float, Witness]]:
        """Return every loss that the guarantee limits, its limit, and the pair that has it."""
        rows: list[tuple[float, float, Witness]] = []
        for one in guarantee.singles:
            match one.divergence:
                case Divergence.LOG_RATIO:
                    worst, allowed = self.pure(noise), one.loss
                case Divergence.RENYI:
                    worst, allowed = self.renyi(noise, one.alpha), one.loss
                case Divergence.CONCENTRATED:
                    worst, allowed = self.zcdp(noise), one.loss
                case Divergence.GAUSSIAN:
                    worst, allowed = self.gdp(noise), one.loss
                case Divergence.HOCKEY_STICK:
                    worst, allowed = self.delta(noise, one.epsilon), one.delta
            rows.append((worst.value, allowed, worst.witness))
        return rows

    def least_loss(
        self, noise: Noise, kind: GuaranteeFamily, at_most: float | None = None
    ) -> float:
        """Return the least loss with which a guarantee of a kind is kept; with `at_most` it is known to be."""
        example = kind.example
        if example.divergence is not Divergence.HOCKEY_STICK:
            ((value, _, _),) = self.losses(noise, example)
            return value
        if any(self.delta(noise, one.epsilon).value > one.delta for one in example.singles[1:]):
            return math.inf
        delta = example.delta
        if self.delta(noise, 0.0).value <= delta:
            return 0.0
        high = self.pure(noise).value if at_most is None else at_most
        if high == math.inf:
            high = 1.0
            while self.delta(noise, high).value > delta:
                high *= 4
                if high > 1e15:
                    return math.inf
        if self.delta(noise, high).value > delta:
            return high  # only rounding raises it above: it is the pure loss, or was checked
        return smallest(
            lambda epsilon: _log_ratio(self.delta(noise, epsilon).value, delta),
            high,
            EPSILON_TOLERANCE,
        )

    def least_scale(self, family: Family, guarantee: Guarantee) -> float:
        """Return a scale that keeps the guarantee, at most `tolerance` above the least one that this bound proves."""
        self.check(guarantee)
        if self.excess(family(0.0), guarantee) <= 0:
            return 0.0
        return smallest(
            lambda scale: self.excess(family(scale), guarantee),
            self.enough(family, guarantee),
            self.tolerance,
        )

    def scale_above(self, family: Family, guarantee: Guarantee, above: float) -> float:
        """Return the least scale ≥ above for which this bound proves the guarantee.

        Losses fall as noise grows, unless a transport plan is not optimal: then the search takes growing steps.
        """
        scale, step = self.least_scale(family, guarantee), EPSILON_TOLERANCE
        if scale >= above:
            return scale
        scale = above
        while self.excess(family(scale), guarantee) > 0:
            scale, step = scale * (1 + step), 2 * step
        return scale

    def enough(self, family: Family, guarantee: Guarantee) -> float:
        """Return a scale that keeps the guarantee, found by doubling."""
        scale = (
            2.0 ** math.floor(math.log2(self.sensitivity))
            if 0 < self.sensitivity < math.inf
            else 1.0
        )
        while self.excess(family(scale), guarantee) > 0:
            if scale > _LARGEST:
                raise impossible(family(1.0), guarantee)
            scale *= 4
        return scale

    def check(self, guarantee: Guarantee) -> None:
        """Refuse a guarantee whose δ is smaller than the share that the bound leaves out."""
        if self.own_delta > guarantee.delta:
            raise Refused(
                f"pf.GAWM leaves out a share {self.own_delta:g}, and {guarantee!r} allows {guarantee.delta:g}.",
                allowed=f"a guarantee with delta >= {self.own_delta:g}: pf.Approx or pf.ApproxRenyi",
                instead=f"pf.Approx(epsilon, {self.own_delta:g}), or a smaller delta for pf.GAWM",
            )


class Bound(InNotebooks, abc.ABC):
    """Base class of the bounds: `parts` computes everything that does not depend on the scale, as loss curves.

    To add one, write a frozen dataclass with this method, and a `LossCurve`. With the class attributes below,
    `bound=`, "auto", comparisons and reports use it as soon as the package's `__init__` registers it.
    """

    name: ClassVar[str | None] = None
    """The name of the bound in `bound=` and in job files; None if it has none."""
    takes_delta: ClassVar[bool] = False
    """Whether the bound leaves out a share of the probability; named without one, it takes the guarantee's δ."""
    rank: ClassVar[int | None] = None
    """The position at which "auto" tries the bound among equally quick ones; None: "auto" never tries it."""
    robust: ClassVar[bool] = True
    """Whether a slightly wrong prior costs only slightly more; otherwise "auto" must not try the bound."""
    by_movement: ClassVar[bool] = True
    """Whether a part's `sensitivity` is a movement between the laws, whose loss the bound never exceeds."""
    supports_only: ClassVar[bool] = False
    """Whether the bound uses only the supports of the laws: then it is tried after all others."""
    for_constants: ClassVar[bool] = True
    """Whether the bound can improve on another one where both laws of every pair are constants."""

    @classmethod
    def automatic(cls, guarantee: Guarantee, noise: Noise) -> "Sequence[Bound]":
        """Return the bounds of this kind that "auto" tries for a guarantee; none if they do not apply to it."""
        return [cls()]

    @classmethod
    def named(cls, guarantee: Guarantee, noise: Noise) -> "Bound":
        """Return the bound that the name selects; refuse a guarantee that lacks the number it needs."""
        return cls()

    @classmethod
    def compared(cls, guarantee: Guarantee, noise: Noise) -> "Bound | None":
        """Return the bound that a plan is compared with; None if it does not apply to this guarantee."""
        return cls()

    @abc.abstractmethod
    def parts(self, pairs: Sequence[Pair], noise: Noise) -> Sequence[LossCurve]:
        """Return curves whose largest loss is that of all pairs; `noise` gives the family, its scale is not used."""

    def applies(self, laws: Laws) -> bool:
        """Return whether comparisons list the bound for these laws; it may still refuse them."""
        return True

    def count(self, laws: Laws, guarantee: Guarantee) -> float:
        """Return about how many numbers are compared; by default many scales are tried on each pair of laws."""
        return laws.size.pairs * (2e4 + 5 * laws.size.atoms)

    def may_prove(self, laws: Laws, noise: Noise, guarantee: Guarantee) -> bool:
        """Return whether the bound may prove a guarantee for a noise, as far as it is quick to find."""
        return True

    def least(self, pairs: Sequence[Pair], family: Family, guarantee: Guarantee) -> float:
        """Return a lower limit of the scales that this bound can prove, if quick to find: it may rule the bound out."""
        return 0.0


@dataclass(frozen=True)
class BallLoss(LossCurve):
    """Movements of a norm up to `radius`: the losses are those of the noise over a ball."""

    radius: float
    certainty: Certainty
    witness: Witness
    own_delta: float = 0.0
    extra: float = 0.0
    """The term that RPP's looser statement adds to a Rényi or pure loss (times α/(α−1))."""

    @property
    def sensitivity(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The radius."""
        return self.radius

    def renyi(self, noise: Noise, alpha: float) -> Worst:
        loss = noise.renyi_within(self.radius, alpha, self.witness.dimension)
        return Worst(loss + self.extra * alpha / (alpha - 1), self.witness)

    def pure(self, noise: Noise) -> Worst:
        return Worst(
            noise.pure_within(self.radius, self.witness.dimension) + self.extra, self.witness
        )

    def zcdp(self, noise: Noise) -> Worst:
        """Return the noise's own ρ; infinite if a share is left out or a term added: only single orders allow that."""
        whole = self.own_delta == 0 and self.extra == 0
        return Worst(
            noise.zcdp_within(self.radius, self.witness.dimension) if whole else math.inf,
            self.witness,
        )

    def gdp(self, noise: Noise) -> Worst:
        """Return the noise's own μ, as for ρ."""
        whole = self.own_delta == 0 and self.extra == 0
        return Worst(
            noise.gdp_within(self.radius, self.witness.dimension) if whole else math.inf,
            self.witness,
        )

    def delta(self, noise: Noise, epsilon: float) -> Worst:
        """Return own_delta + (1 − own_delta)·δ(ε): what is left out, and the hockey stick of the rest."""
        if self.extra:  # the looser statement gives (ε, own_delta), or nothing
            return Worst(self.own_delta if self.pure(noise).value <= epsilon else 1.0, self.witness)
        rest = noise.delta_within(self.radius, epsilon, self.witness.dimension)
        if rest is None:
            rest = super().delta(noise, epsilon).value
        total = self.own_delta + (1 - self.own_delta) * rest
        return Worst(total * (1 + 4 * UNIT) if rest else self.own_delta, self.witness)

    def least_scale(self, family: Family, guarantee: Guarantee) -> float:
        """Return radius / u for the largest radius u that keeps the guarantee at scale 1; u depends on no pair."""
        self.check(guarantee)
        if self.radius == 0 and self.excess(family(0.0), guarantee) <= 0:
            return 0.0
        unit = family(1.0)
        reach = _farthest(unit, guarantee, self.witness.dimension, self.own_delta, self.extra)
        if reach == 0:
            raise impossible(unit, guarantee)
        scale = float_above(Fraction(self.radius) / Fraction(reach))
        if scale == math.inf:
            raise Refused(
                f"{type(unit).__name__} noise for {guarantee!r} and movements as long as {self.radius:g}: its scale is "
                "beyond all floats.",
                allowed="answers and guarantees whose noise scale fits a float",
                instead="a larger epsilon, or the answer in larger units",
            )
        while self.excess(family(scale), guarantee) > 0:  # rounding inside the noise's own formula
            scale = math.nextafter(scale, math.inf) * (1 + UNIT)
        return scale


@lru_cache(maxsize=_MOST_RADII)
def _farthest(
    unit: Noise, guarantee: Guarantee, dimension: int, own_delta: float, extra: float
) -> float:
    """Return the largest radius for which a noise of scale 1 keeps a guarantee; 0 if there is none."""
    anywhere = Place(dimension, None, (None, None), 0)

    def keeps(radius: float) -> bool:
        return (
            BallLoss(radius, Certainty.EXACT, anywhere, own_delta, extra).excess(unit, guarantee)
            <= 0
        )

    return largest(keeps) if keeps(0.0) else 0.0


def impossible(noise: Noise, guarantee: Guarantee) -> Refused:
    """Return the refusal of a guarantee that no scale of a noise keeps."""
    instead = "a larger epsilon or delta, such as pf.Pure(1.0), or another noise"
    if isinstance(guarantee, Pure) and guarantee.epsilon > 0:
        instead = "noise=pf.Laplace, or pf.Approx(epsilon, delta) or pf.Renyi(alpha, epsilon) with this noise"
    return Refused(
        f"No scale of {type(noise).__name__} noise keeps {guarantee!r} here.",
        allowed="a guarantee that this noise can keep at some scale",
        instead=instead,
    )


def _log_ratio(loss: float, allowed: float) -> float:
    """Return log(loss / allowed), with the sign of loss − allowed."""
    if loss == allowed:
        return 0.0
    if 0 in (loss, allowed) or loss == math.inf:
        return -math.inf if loss < allowed else math.inf
    ratio = math.log(loss) - math.log(allowed)
    return min(ratio, 0.0) if loss < allowed else max(ratio, 5e-324)
