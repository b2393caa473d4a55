"""The largest Gaussian shift or pure loss under a guarantee: the budget that noise is calibrated for.

The last iterate of a descent amounts to one Gaussian shift (M34), and so do sums with Gaussian noise (M10).
"""

from functools import cache
from typing import Final

from pufferflow.core.errors import Refused
from pufferflow.core.roots import largest
from pufferflow.privacy.guarantee import Guarantee, Pure
from pufferflow.privacy.tradeoff import Gdp

_MOST = 1e6
FINE: Final = 2.0**24
"""The steps of a grid in the scale of its noise, or half as many: finer ones would take long to draw."""
DRAWN: Final = 1 + 2.0**-27
"""The relative increase of noise over the charged one, so that roundings of many releases never exceed a limit."""


@cache
def deviations_of(promise: Guarantee) -> float:
    """Return the largest shift of one Gaussian under a guarantee, in standard deviations.

    >>> import pufferflow as pf
    >>> round(deviations_of(pf.Zcdp(0.5)), 6), round(deviations_of(pf.Approx(1.0, 1e-6)), 3)
    (1.0, 0.237)
    """
    if isinstance(promise, Pure):
        raise Refused(
            "A pure guarantee, and Gaussian noise keeps none.",
            allowed="guarantees with a delta, pf.Zcdp, pf.Gdp or Rényi orders",
            instead=f"epsilon={promise.epsilon:g}, delta=1e-6, which is pf.Approx({promise.epsilon:g}, 1e-6); or "
            "pf.learning.PrivateRidge, of sums with Laplace noise",
        )
    return _not_zero(largest(lambda shift: promise.follows_from(Gdp(shift)), _MOST), promise)


@cache
def pure_of(promise: Guarantee) -> float:
    """Return the largest pure loss from which a guarantee follows (M29).

    >>> import pufferflow as pf
    >>> pure_of(pf.Pure(1.5))
    1.5
    """
    if isinstance(promise, Pure):
        return _not_zero(promise.epsilon, promise)
    return _not_zero(largest(lambda epsilon: promise.follows_from(Pure(epsilon)), _MOST), promise)


def _not_zero(budget: float, promise: Guarantee) -> float:
    if budget > 0:
        return budget
    raise Refused(
        f"The guarantee {promise!r} allows no loss: a model would be noise alone.",
        allowed="guarantees with an epsilon above 0",
        instead="pf.Approx(1.0, 1e-6)",
    )
