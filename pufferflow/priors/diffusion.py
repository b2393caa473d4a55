"""A value that drifts and diffuses from where it started, in a convex potential (M14)."""

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt

from pufferflow.errors import Misuse
from pufferflow.priors.prior import Prior, wrong_secret
from pufferflow.reading import finite_number
from pufferflow.rounding import SMALLEST, UNIT, lifted
from pufferflow.secrets import AnySecret, Bins, Initial
from pufferflow.suggestions import explained

Floats = npt.NDArray[np.float64]


@final
@explained
@dataclass(frozen=True)
class Diffusion(Prior):
    """dX = −∇V(X) dt + √2 dB with ∇²V ⪰ C·I, time counted in steps; the secret is where it started (M14).

    Two such paths with the same noise come nearer each other by the factor e^(−C·t) (RPP Prop. 6.3, corrected: the
    paper prints e^(−2·C·t)). `contraction` is C, or the least C of a class: all potentials at least as convex count.

    >>> Diffusion(0.5).describe()
    'values diffuse in a potential that draws two paths together by at least exp(-0.5 t)'
    """

    contraction: float

    def __post_init__(self) -> None:
        allowed, instead = "a finite number >= 0, for steps of the scenario", "pf.Diffusion(0.5)"
        number = finite_number(self.contraction, "contraction", allowed=allowed, instead=instead)
        if number < 0:
            raise Misuse(f"contraction is {number:g}.", allowed=allowed, instead=instead)
        object.__setattr__(self, "contraction", number + 0.0)

    def describe(self) -> str:
        """Say in words what an adversary may believe."""
        return f"values diffuse in a potential that draws two paths together by at least exp(-{self.contraction:g} t)"

    def stored(self) -> dict[str, Any]:
        """Return the contraction."""
        return {"kind": "diffusion", "contraction": self.contraction}

    @classmethod
    def restored(cls, fields: dict[str, Any]) -> Self:
        """Return the prior that stored fields tell of."""
        return cls(fields["contraction"])

    @property
    def ordered(self) -> bool:
        """Time passes."""
        return True

    def check(self, secret: AnySecret) -> None:
        """Refuse all secrets but the start: two paths through one later value may come from anywhere."""
        allowed = "pf.Initial, where a path started, with a pf.Interval, pf.Bins, or a list of numbers"
        instead = "pf.Initial(column, domain=pf.Interval(0, 10))"
        if not isinstance(secret, Initial):
            raise wrong_secret("pf.Diffusion", secret, allowed=allowed, instead=instead)
        if not (isinstance(secret.domain, Bins) or secret.domain.numeric):
            raise Misuse("The prior pf.Diffusion with a domain of labels.", allowed=allowed, instead=instead)

    def shares(self, positions: Floats) -> Floats:
        """Return which share of a difference at the start is left at each position, e^(−C·t), rounded up.

        >>> Diffusion(1.0).shares(np.array([0.0, 1.0])).round(6)
        array([1.      , 0.367879])
        """
        with np.errstate(over="ignore"):
            exponents = np.minimum(self.contraction * positions, 1000.0)
        with np.errstate(under="ignore"):
            left = np.maximum(np.exp(-exponents) * (1 + 4 * UNIT + 2 * UNIT * exponents), SMALLEST)
        return np.where(exponents == 0, 1.0, np.minimum(lifted(left, 4 * UNIT), 1.0))
