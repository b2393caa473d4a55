"""Task 2 of DCP: the joint cost of existing releases, the worst of all pairs of secrets, on a joint law (M31).

DCP's Theorems 1(iii), 3 and 5 and Proposition 4 say that the product of the releases' own laws underestimates the cost.
That is false: two copies of one release cost less than the product says. The two halves of an exclusive or cost more
(M23). So the joint law itself is enumerated here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pufferflow.confounding.additive import Additive
from pufferflow.confounding.dependence import Dependence, dependence_of, independent_pairs
from pufferflow.confounding.joint_law import (
    Pairs,
    ProjectedTable,
    Release,
    as_releases,
    columns_read,
    pairs_of,
    see,
)
from pufferflow.confounding.latent import CopulaBySecret
from pufferflow.confounding.posterior import Posterior, posterior_of
from pufferflow.confounding.tied import CopulaNoise
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import float_below
from pufferflow.core.validate import (
    finite_number,
    finite_number_at_least_zero,
    instance,
    probability_below_one,
)
from pufferflow.distributions.coupling import Certainty
from pufferflow.models.domain import Label
from pufferflow.models.priors.table import Table
from pufferflow.noise.gaussian import Gaussian
from pufferflow.privacy.guarantee import Approx, Guarantee, Pure


@dataclass(frozen=True, eq=False, repr=False)
class Losses(InNotebooks):
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
        """Return whether the numbers are exact or bounds: those of every δ or, with delta=0, the pure loss alone."""
        each = [pair.pure_certainty if delta == 0 else pair.certainty for _, pair in self.laws]
        return (
            Certainty.EXACT
            if all(one is Certainty.EXACT for one in each)
            else Certainty.UPPER_BOUND
        )

    def tradeoff(self, levels: npt.ArrayLike) -> Floats:
        """Return the least error of the second kind of any attack with an error of the first kind of at most a level.

        Errors are rounded down, so the true attack is no better.
        """
        allowed, instead = "numbers from 0 to 1", "tradeoff([0.01, 0.05, 0.1])"
        at = np.atleast_1d(np.asarray(levels, dtype=object))
        read = [
            finite_number(
                one, "A level", allowed=allowed, instead=instead, fits=lambda x: 0 <= x <= 1
            )
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
        return max(self.laws, key=lambda one: one[1].epsilon(delta) if delta else one[1].pure)[0]


def read_target(guarantee: object) -> tuple[float, float]:
    """Return ε and δ of a guarantee that M31 and M32 cover."""
    if not isinstance(guarantee, Pure | Approx):
        raise Refused(
            f"The guarantee is {guarantee!r}."
            if isinstance(guarantee, Guarantee)
            else "The guarantee is not a pf.Pure or pf.Approx.",
            allowed="pf.Pure or pf.Approx",
            instead="pf.Pure(1.0), or pf.Approx(1.0, 1e-6)",
        )
    return guarantee.epsilon, guarantee.delta


@final
@dataclass(frozen=True, eq=False, repr=False)
class Cost(Losses):
    """The losses of several releases about a secret of a table: together, alone, in sequence, and as if independent.

    >>> import pufferflow as pf
    >>> bits = {"secret": [0, 0, 1, 1], "first": [0, 1, 0, 1], "second": [0, 1, 1, 0], "probability": [0.25] * 4}
    >>> kept = [[0.75, 0.25], [0.25, 0.75]]
    >>> coins = [pf.confounding.Channel(name, [0, 1], [0, 1], kept) for name in ("first", "second")]
    >>> together = pf.confounding.cost(pf.Table(bits), coins)
    >>> [one.pure for one in together.alone], together.as_if_independent.pure, round(together.pure, 6)
    ([0.0, 0.0], 0.0, 0.510826)
    """

    releases: tuple[Release, ...]
    seen: ProjectedTable

    @cached_property
    def alone(self) -> "tuple[Cost, ...]":
        """The cost of each release by itself."""
        return tuple(_cost(self.seen, (one,)) for one in self.releases)

    @cached_property
    def prefixes(self) -> "tuple[Cost, ...]":
        """The cost of the first release, of the first two, and so on; the last is the cost itself."""
        firsts = [_cost(self.seen, self.releases[:count]) for count in range(1, len(self.releases))]
        return (*firsts, self)

    def added(self, delta: float = 0.0) -> list[float]:
        """Return what each release adds to ε at a δ, given those before it; ∞ for the first without a limit.

        >>> import pufferflow as pf
        >>> table = pf.Table({"ill": [0, 0, 1, 1], "test": [0, 1, 0, 1], "probability": [0.3, 0.2, 0.2, 0.3]})
        >>> plain = pf.confounding.Channel.revealing("test", [0, 1])
        >>> [round(one, 6) for one in pf.confounding.cost(table, [plain, plain]).added()]
        [0.405465, 0.0]
        """
        totals = [0.0, *(one.epsilon(delta) for one in self.prefixes)]
        return [
            0.0 if before == after else max(after - before, 0.0)
            for before, after in pairwise(totals)
        ]

    def summed(self, delta: float = 0.0) -> float:
        """Return the sum of the ε of all releases alone, each at its share of δ; no bound of the true loss (M23)."""
        share = probability_below_one(delta, "delta") / len(self.releases)
        losses = [one.epsilon(share) for one in self.alone]
        return math.nextafter(math.fsum(losses), math.inf) if any(losses) else 0.0

    @cached_property
    def as_if_independent(self) -> Losses:
        """The cost if the releases were independent given the secret; it does not bound the true loss (M23)."""
        return Losses(independent_pairs(self.seen, self.releases))

    @cached_property
    def dependence(self) -> Dependence:
        """The parts of the loss: of the releases' own laws, of tied noises, and of dependence through the data."""
        return dependence_of(self.seen, self.releases)

    @cached_property
    def posterior(self) -> Posterior:
        """How far releases can move the posterior of an adversary who knows the table."""
        return posterior_of(self.seen, self.releases, self.pure)

    def __repr__(self) -> str:
        loss = (
            f"pure epsilon {self.pure:.6g}"
            if math.isfinite(self.pure)
            else f"epsilon {self.epsilon(1e-6):.6g} at 1e-6"
        )
        return f"<Cost of {len(self.releases)} releases about {self.seen.secret!r}: {loss}>"


def cost(table: Any, releases: Release | Sequence[Release], *, secret: Any = None) -> Cost:
    """Return the joint cost of releases: exact if all are channels, otherwise never below the true cost (M31).

    `table` is a `pf.Table`, a list of them (the worst counts), or a scenario whose priors are tables. `secret` is a
    column of it, `pf.Secret` or `pf.Derived`, by default the only column that no release reads. Every release reads the
    same row, with randomness of its own, and was fixed before the others' outputs were seen.

    Laplace noise on finitely many answers is a channel of knots: its pure loss is exact, its δ an upper bound. Gaussian
    noise is reduced to the coordinates that its answers span, so repeated releases of one query are one.

    >>> import pufferflow as pf
    >>> table = pf.Table({"ill": [0, 0, 1, 1], "test": [0, 1, 0, 1], "probability": [0.3, 0.2, 0.2, 0.3]})
    >>> twice = cost(table, [pf.confounding.Additive("test", pf.Laplace(1.0))] * 2)
    >>> round(twice.pure, 6), round(twice.summed(), 6), twice.keeps(pf.Approx(0.1, 0.2))
    (0.307027, 0.370752, True)
    """
    listed = as_releases(releases)
    return _cost(see(table, secret, columns_read(listed)), listed)


def copula_cost(copula: CopulaBySecret) -> Cost:
    """Return what a copula by itself reveals about the secret: its (ε_c, δ_c), never below the true one (M28).

    That is the cost of its two latent numbers. Where correlations are equal it is that of Gaussian noise of deviation 1
    on the means. It is no bound of what two releases cost with this copula. It can be added to what they cost with the
    copula of one value.

    >>> import pufferflow as pf
    >>> own = copula_cost(pf.confounding.CopulaBySecret("ill", 0.5, means={"no": 0.0, "yes": 0.3}))
    >>> round(own.delta(0.0), 4), own.delta(0.5) < 0.01
    (0.1192, True)
    """
    instance(
        copula,
        CopulaBySecret,
        "copula",
        allowed="a pf.confounding.CopulaBySecret",
        instead='pf.confounding.CopulaBySecret("ill", {"no": 0.2, "yes": 0.6})',
    )
    values = copula.values
    latent = next(name for name in ("latent", "latent number") if name != copula.column)
    table = Table(
        {
            copula.column: list(values),
            latent: [0.0] * len(values),
            "probability": [Fraction(1, len(values))] * len(values),
        }
    )
    bell = Additive(latent, Gaussian(1.0))
    return cost(table, CopulaNoise(bell, bell, copula), secret=copula.column)


def _cost(seen: ProjectedTable, releases: tuple[Release, ...]) -> Cost:
    return Cost(pairs_of(seen, releases), releases, seen)
