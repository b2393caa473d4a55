"""Trade-off accounting: the exact loss of several releases with an (ε, δ) and a total variation (M26).

It holds if the secret with the prior fixes the data, as in ordinary and group differential privacy. It holds if
releases are independent given the secret. Or profiles are those of one (x, x') of a coupling, and are averaged
afterwards.

>>> import pufferflow as pf
>>> for tv in (1.0, 0.02):
...     print(round(pf.tradeoff.compose(pf.tradeoff.Profile(0.1, tv=tv), 100).epsilon(1e-6), 3))
4.775
2.901
"""

from pufferflow.tradeoff.composed import Composed, compose
from pufferflow.tradeoff.curve import TradeOffCurve
from pufferflow.tradeoff.events import from_dp_event
from pufferflow.tradeoff.profile import Mixture, Profile, as_profile, intersection, mixture, union
from pufferflow.tradeoff.sampling import dp_sgd, erased, fixed_size, poisson

__all__ = [
    "Composed",
    "Mixture",
    "Profile",
    "TradeOffCurve",
    "as_profile",
    "compose",
    "dp_sgd",
    "erased",
    "fixed_size",
    "from_dp_event",
    "intersection",
    "mixture",
    "poisson",
    "union",
]
