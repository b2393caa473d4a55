"""The exact loss: the divergence of the two noisy laws themselves (M6)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast, final

import numpy as np

from pufferflow.calibration.bound import Bound, LossCurve, Worst
from pufferflow.calibration.distance_bounds import GWM
from pufferflow.calibration.exact import cauchy, gaussian, laplace, quadrature, staircase
from pufferflow.calibration.exact.quadrature import Field, LineField, PairAtoms
from pufferflow.calibration.laws import Laws, Pair, as_laws
from pufferflow.calibration.transport_bounds import HAIR, TransportLoss, ball_of
from pufferflow.core.errors import InternalError, Refused
from pufferflow.core.rounding import UNIT
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.distributions.coupling import Certainty
from pufferflow.distributions.distances import winf
from pufferflow.distributions.gaussian_law import GaussianLaw
from pufferflow.noise.base import Family, Noise
from pufferflow.noise.cauchy import GeneralizedCauchy
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.noise.staircase import Staircase
from pufferflow.privacy.guarantee import Divergence, Guarantee, Pure

_TOLERANCE = 1e-8
_FARTHEST = 1e12
"""Beyond ranges of this many scales the transport bound is used."""
_FIELDS: dict[type[Noise], type[Field]] = {
    Laplace: laplace.LaplaceField,
    Gaussian: gaussian.GaussianField,
    GeneralizedCauchy: cauchy.CauchyField,
}


@final
@suggests_arguments
@dataclass(frozen=True)
class Exact(Bound):
    """The loss of the noisy answer itself, with its computation error added (M6): no bound can be smaller.

    It counts the adversary's own uncertainty as noise, so it is the first to fail if the prior is wrong. Therefore
    `bound="auto"` never chooses it. Rényi losses are integrals with a proven error. Pure losses with Laplace noise are
    a maximum over atoms. (ε, δ) on R is exact up to 1e-7 of δ and about 1e-12. Gaussian laws with Gaussian noise have
    closed forms; only the (ε, δ) of vectors with different covariances is an upper bound. Ranges of more than 1e12
    scales use the transport bound. Pairs that keep the guarantee without noise get scale 0.

    >>> import pufferflow as pf
    >>> pair = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])
    >>> c = pf.calibrate([pair], pf.Pure(1.0), noise=pf.Laplace, bound=Exact())
    >>> c.noise.scale < 49, c.certainty.value
    (True, 'exact')
    >>> same = pf.Law([0, 9], [0.5, 0.5]), pf.Law([0, 9], [0.4, 0.6])
    >>> pf.calibrate([same], pf.Pure(0.3), noise=pf.Laplace, bound=Exact()).noise
    Laplace(scale=0.0)
    """

    name = "exact"
    robust = False

    def count(self, laws: Laws, guarantee: Guarantee) -> float:
        """Return the count of all integrals; those of hockey sticks are most of it."""
        if isinstance(guarantee, Pure):
            return super().count(laws, guarantee)
        each = 2e5 if guarantee.divergence is Divergence.HOCKEY_STICK else 1.5e4
        return laws.size.pairs * (1e6 + each * laws.size.atoms)

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[LossCurve]:
        """Return one curve per pair; the ball's where only a movement of the answer is known."""
        if not isinstance(noise, (*_FIELDS, Staircase)):
            raise Refused(
                f"pf.Exact cannot compute the loss of {type(noise).__name__} noise.",
                allowed="pf.Laplace, pf.Gaussian, pf.GeneralizedCauchy or pf.Staircase",
                instead="bound=pf.GWM()",
            )
        if as_laws(pairs).movement_only:
            return [*GWM().parts(pairs, noise)]
        return [
            GaussianLoss(pair, noise)
            if isinstance(pair.mu, GaussianLaw)
            else FiniteLoss(pair, noise)
            for pair in pairs
        ]


@final
class FiniteLoss(LossCurve):
    """One pair of finite laws; the field of the last noise is cached."""

    def __init__(self, pair: Pair, noise: Noise) -> None:
        self.pair = pair
        self.certainty = Certainty.EXACT
        self.ceiling = TransportLoss(pair, noise) if pair.dimension == 1 else ball_of(pair, noise)
        self.sensitivity = self.ceiling.sensitivity
        self._atoms = PairAtoms(pair, self.sensitivity)
        self._noise: Noise | None = None
        self._field: Field | None = None

    def pure(self, noise: Noise) -> Worst:
        def on_field(field: Field) -> tuple[float, float]:
            if isinstance(field, laplace.LaplaceField):
                return laplace.pure(field)
            if isinstance(field, gaussian.GaussianField):
                return (
                    math.inf,
                    math.inf,
                )  # the ratio has no limit far out, except for special pairs
            return _both(field, _supremum)

        if noise.scale == 0:
            return _of_both_orders(self.pair, staircase.pure_without_noise)
        if isinstance(noise, Staircase):
            return staircase.worst_order(self.pair, lambda one: one.pure(noise))
        return self._on_field(noise, on_field, lambda: self.ceiling.pure(noise))

    def zcdp(self, noise: Noise) -> Worst:
        """Return the ρ that follows from the exact pure loss, at most the ball's: no better bound is known."""
        return min(super().zcdp(noise), self.ceiling.zcdp(noise), key=lambda worst: worst.value)

    def gdp(self, noise: Noise) -> Worst:
        """Return the μ that follows from the exact pure loss, at most the ball's."""
        return min(super().gdp(noise), self.ceiling.gdp(noise), key=lambda worst: worst.value)

    def renyi(self, noise: Noise, alpha: float) -> Worst:
        if noise.scale == 0:
            return _of_both_orders(
                self.pair, lambda pair: staircase.without_noise(pair).renyi(alpha)
            )
        if isinstance(noise, Staircase):
            return staircase.worst_order(self.pair, lambda one: one.renyi(noise, alpha))
        return self._on_field(
            noise,
            lambda field: _both(field, lambda one: quadrature.divergence(one, alpha)),
            lambda: self.ceiling.renyi(noise, alpha),
        )

    def delta(self, noise: Noise, epsilon: float) -> Worst:
        def of_order(field: Field) -> float:
            if isinstance(field, laplace.LaplaceField):
                return (
                    laplace.hockey_stick(field, epsilon)
                    if max(laplace.pure(field)) > epsilon
                    else 0.0
                )
            return quadrature.hockey_stick(
                cast(LineField, field), epsilon, *cast(LineField, field).horizon()
            )

        def on_field(field: Field) -> tuple[float, float]:
            if field.dimension > 1:
                raise Refused(
                    f"pf.Exact cannot compute an (epsilon, delta) loss for an answer of {field.dimension} coordinates.",
                    allowed="answers of one coordinate; Rényi guarantees with Laplace or Gaussian noise",
                    instead="bound=pf.DAGWM()",
                )
            return _both(field, of_order)

        if noise.scale == 0:
            return _of_both_orders(
                self.pair, lambda pair: staircase.without_noise(pair).delta(epsilon)
            )
        if isinstance(noise, Staircase):
            return staircase.worst_order(self.pair, lambda one: one.delta(noise, epsilon))
        return self._on_field(noise, on_field, lambda: self.ceiling.delta(noise, epsilon))

    def least_scale(self, family: Family, guarantee: Guarantee) -> float:
        """Return the least scale; for staircase noise, whose loss may rise with its scale, the least one found."""
        if isinstance(family(1.0), Staircase):
            return self.scale_above(family, guarantee, 0.0)
        self.tolerance = _TOLERANCE / 100 if isinstance(guarantee, Pure) else _TOLERANCE
        return super().least_scale(family, guarantee)

    def scale_above(self, family: Family, guarantee: Guarantee, above: float) -> float:
        if not isinstance(family(1.0), Staircase):
            return super().scale_above(family, guarantee, above)
        self.check(guarantee)
        if above == 0 and self.excess(family(0.0), guarantee) <= 0:
            return 0.0
        ball = ball_of(self.pair, family(1.0))
        return staircase.least_scale(
            self.pair, family, guarantee, above, ball.least_scale(family, guarantee)
        )

    def excess_drawn(self, noise: Noise, guarantee: Guarantee) -> float:
        """Return the larger excess of staircase noise at the scale and slightly above: losses may drop at a turn."""
        excess = self.excess(noise, guarantee)
        if not isinstance(noise, Staircase) or noise.scale == 0 or excess > 0:
            return excess
        return max(excess, self.excess(noise.at(noise.scale * (1 + HAIR)), guarantee))

    def enough(self, family: Family, guarantee: Guarantee) -> float:
        return self.ceiling.least_scale(family, guarantee)

    def _on_field(
        self,
        noise: Noise,
        losses: Callable[[Field], tuple[float, float]],
        ceiling: Callable[[], Worst],
    ) -> Worst:
        """Return the larger loss of both orders, at most the transport bound."""
        if (
            self._atoms.range / noise.scale > _FARTHEST
        ):  # floats do not resolve the positions of the atoms
            self.certainty = Certainty.UPPER_BOUND
            return ceiling()
        self.certainty = Certainty.EXACT
        if self._field is None or self._noise != noise:
            self._noise, self._field = noise, _FIELDS[type(noise)](self._atoms, noise)
        forth, back = losses(self._field)
        if math.isnan(forth) or math.isnan(back):
            raise InternalError(
                "An exact loss is not a number.", instead="reporting it to the maintainers"
            )
        worst = Worst(forth, self.pair) if forth >= back else Worst(back, self.pair.swapped())
        return Worst(min(worst.value, ceiling().value), worst.witness)


def _of_both_orders(pair: Pair, loss: Callable[[Pair], float]) -> Worst:
    return max(
        (Worst(loss(order), order) for order in (pair, pair.swapped())),
        key=lambda worst: worst.value,
    )


def _supremum(field: Field) -> float:
    line = cast(LineField, field)
    return quadrature.supremum(line, *line.horizon())


def _both(field: Field, loss: Callable[[Field], float]) -> tuple[float, float]:
    return loss(field), loss(field.swapped())


@final
class GaussianLoss(LossCurve):
    """One pair of Gaussian laws with Gaussian noise, in closed form (M15)."""

    def __init__(self, pair: Pair, noise: Noise) -> None:
        if not isinstance(noise, Gaussian):
            raise Refused(
                f"pf.Exact cannot compute the loss of Gaussian laws with {type(noise).__name__} noise.",
                allowed="pf.Gaussian noise for Gaussian laws",
                instead="noise=pf.Gaussian, or bound=pf.GWM() where both laws have one covariance",
            )
        self.pair = pair
        self.sensitivity = float(winf(pair.mu, pair.nu, noise.norm))
        mu, nu = _gaussian_laws(pair)
        known = mu.dimension == 1 or np.array_equal(mu.covariance, nu.covariance)
        self.certainty = Certainty.EXACT if known else Certainty.UPPER_BOUND

    def pure(self, noise: Noise) -> Worst:
        return Worst(0.0 if self.pair.mu == self.pair.nu else math.inf, self.pair)

    def renyi(self, noise: Noise, alpha: float) -> Worst:
        return self._largest(lambda mu, nu: gaussian.renyi(mu, nu, noise, alpha))

    def zcdp(self, noise: Noise) -> Worst:
        """Return half of D_2: D_α is α times that if both covariances are equal; otherwise no ρ is known."""
        square, witness = self._square(noise)
        return Worst(square / 2, witness)

    def gdp(self, noise: Noise) -> Worst:
        """Return the root of D_2: the distance of the means in standard deviations."""
        square, witness = self._square(noise)
        return Worst(math.sqrt(square) * (1 + UNIT), witness)

    def _square(self, noise: Noise) -> Worst:
        mu, nu = _gaussian_laws(self.pair)
        return (
            self.renyi(noise, 2.0)
            if np.array_equal(mu.covariance, nu.covariance)
            else Worst(math.inf, self.pair)
        )

    def delta(self, noise: Noise, epsilon: float) -> Worst:
        """Return the hockey stick in closed form; by Rényi orders where vectors have different covariances."""
        if self.certainty != Certainty.EXACT:
            return super().delta(noise, epsilon)
        return self._largest(lambda mu, nu: gaussian.hockey_stick(mu, nu, noise, epsilon))

    def _largest(self, loss: Callable[[GaussianLaw, GaussianLaw], float]) -> Worst:
        return _of_both_orders(self.pair, lambda pair: loss(*_gaussian_laws(pair)))


def _gaussian_laws(pair: Pair) -> tuple[GaussianLaw, GaussianLaw]:
    mu, nu = pair
    return cast(GaussianLaw, mu), cast(GaussianLaw, nu)
