"""The priors of one number or none: independent rows, any correlation (M7), weak dependence (M17), diffusion (M14)."""

from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import SMALLEST, UNIT, lifted
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import finite_number, finite_number_at_least_zero, set_fields
from pufferflow.models.domain import Bins
from pufferflow.models.priors.base import Prior, wrong_secret
from pufferflow.models.priors.population import IndependentGiven
from pufferflow.models.secret import AnySecret, Initial, Secret


@final
@suggests_arguments
@dataclass(frozen=True)
class Independent(Prior, kind="independent"):
    """Every row is independent of all others: the assumption under which differential privacy is usually read.

    >>> Independent().describe()
    'rows are independent of each other'
    """

    independent_rows = True
    any_law = True
    allows_presence = True
    allows_tuples = True
    allows_missing = True

    def describe(self) -> str:
        return "rows are independent of each other"

    def of_population(self) -> Prior:
        return IndependentGiven()


@final
@suggests_arguments
@dataclass(frozen=True)
class AnyCorrelation(Prior, kind="any correlation"):
    """No assumption: the rows of a group may determine each other, and all of them may change with a secret.

    It costs the most noise, never fails, and its releases always add up.

    >>> AnyCorrelation().describe()
    'the rows of a group may depend on each other in any way'
    """

    coupled = True
    any_correlation = True
    allows_presence = True
    allows_weights = True
    allows_tuples = True
    allows_functions = True
    allows_missing = True

    def describe(self) -> str:
        return "the rows of a group may depend on each other in any way"

    def of_population(self) -> Prior:
        return self


@final
@suggests_arguments
@dataclass(frozen=True)
class WeaklyDependent(Prior, kind="weakly dependent"):
    """Given any value of one row, all rows lie within `distance` of independent rows (RPP Prop. 6.1; M17).

    You declare the following. Take an ideal data set: all rows are independent, each with the law it has when nothing
    is known, and one row is fixed at a value a. Then the true data set, given that value, can be coupled with the ideal
    one. All rows together differ by at most `distance`, the sum of |x_r − y_r|. This must hold always, not on average,
    and for every row and every a. Distances are in the unit of the column, after values are read into the domain.

    For another value b of the row this is a second step of up to `distance`. So an answer moves as far as the row
    itself moves it, and by up to twice `distance` more.

    >>> WeaklyDependent(0.5).describe()
    'given one row, all rows together lie within 0.5 of independent ones'
    """

    distance: float
    coupled = True

    def __post_init__(self) -> None:
        set_fields(self, distance=finite_number_at_least_zero(self.distance, "distance"))

    def describe(self) -> str:
        return f"given one row, all rows together lie within {self.distance:g} of independent ones"

    def check(self, secret: AnySecret) -> None:
        allowed = "pf.Secret or pf.Initial with a domain of numbers"
        instead = "pf.Secret(column, domain=pf.Interval(0, 10))"
        if not isinstance(secret, Secret | Initial):
            raise wrong_secret("pf.WeaklyDependent", secret, allowed=allowed, instead=instead)
        if not secret.domain.numeric:
            raise UsageError(
                "The prior pf.WeaklyDependent with a domain of labels.",
                allowed=allowed,
                instead=instead,
            )


@final
@suggests_arguments
@dataclass(frozen=True)
class Diffusion(Prior, kind="diffusion"):
    """dX = −∇V(X) dt + √2 dB with ∇²V ⪰ C·I, time counted in steps; the secret is where it started (M14).

    Two such paths with the same noise approach each other by the factor e^(−C·t). This is RPP Prop. 6.3, corrected: the
    paper prints e^(−2·C·t). `contraction` is C, or the least C of a class: all potentials at least as convex count.

    >>> Diffusion(0.5).describe()
    'values diffuse in a potential that draws two paths together by at least exp(-0.5 t)'
    """

    contraction: float
    ordered = True
    coupled = True

    def __post_init__(self) -> None:
        allowed, instead = "a finite number >= 0, for steps of the scenario", "pf.Diffusion(0.5)"
        number = finite_number(
            self.contraction,
            "contraction",
            allowed=allowed,
            instead=instead,
            fits=lambda number: number >= 0,
        )
        set_fields(self, contraction=number + 0.0)

    def describe(self) -> str:
        return f"values diffuse in a potential that draws two paths together by at least exp(-{self.contraction:g} t)"

    def check(self, secret: AnySecret) -> None:
        # two paths through one later value may come from anywhere
        allowed = (
            "pf.Initial, where a path started, with a pf.Interval, pf.Bins, or a list of numbers"
        )
        instead = "pf.Initial(column, domain=pf.Interval(0, 10))"
        if not isinstance(secret, Initial):
            raise wrong_secret("pf.Diffusion", secret, allowed=allowed, instead=instead)
        if not (isinstance(secret.domain, Bins) or secret.domain.numeric):
            raise UsageError(
                "The prior pf.Diffusion with a domain of labels.", allowed=allowed, instead=instead
            )

    def shares(self, positions: Floats) -> Floats:
        """Return the share of a difference at the start that is left at each position, e^(−C·t), rounded up.

        >>> Diffusion(1.0).shares(np.array([0.0, 1.0])).round(6)
        array([1.      , 0.367879])
        """
        with np.errstate(over="ignore"):
            exponents = np.minimum(self.contraction * positions, 1000.0)
        with np.errstate(under="ignore"):
            left = np.maximum(np.exp(-exponents) * (1 + 4 * UNIT + 2 * UNIT * exponents), SMALLEST)
        return np.where(exponents == 0, 1.0, np.minimum(lifted(left, 4 * UNIT), 1.0))
