"""Releases about columns that are independent of each other given the secret: their losses add (M25).

Given the secret one part of a row then tells nothing of another, so every part's answers are as likely as they are
without the others, on every path of queries: D_α of all is at most the sum over parts of what each loses to queries
chosen adaptively.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple, final

import numpy as np

from pufferflow.composition.cost import Promise
from pufferflow.composition.coupling import Coupling
from pufferflow.composition.draws import Draws
from pufferflow.composition.joint import pure_loss
from pufferflow.composition.rule import Asked, Rule, added
from pufferflow.guarantees import Pure
from pufferflow.rounding import UNIT, float_above

_SAME = Fraction(1, 2**44)
_MOST_CELLS = 200_000


class Parts(NamedTuple):
    """Releases part by part, what each reads of a row, and how far (D_∞) the table is from the product of its parts."""

    releases: list[Asked]
    draws: list[Draws]
    apart: float


@final
class Conditional(Rule):
    """Parts of a row that are independent given the secret, as a table says.

    What a part loses is what `Joint` finds, or for a release alone its promise.
    """

    name = "answers that are independent given the secret (M25)"

    def pure(self, asked: Asked) -> float:
        """Return the sum of the pure losses of all parts."""
        found = _parts(asked)
        if found is None:
            return math.inf
        losses = [_pure(*part) for part in zip(found.releases, found.draws, strict=True)]
        return added([2 * found.apart, *losses])

    def renyi(self, asked: Asked, alpha: float) -> float:
        """Return the sum of the Rényi losses of all parts."""
        found = _parts(asked)
        if found is None:
            return math.inf
        losses = [_renyi(*part, alpha) for part in zip(found.releases, found.draws, strict=True)]
        return added([found.apart * (2 * alpha - 1) / (alpha - 1), *losses])  # M30


def _pure(asked: Asked, draws: Draws) -> float:
    """Return the pure loss of one part."""
    own = _promise(asked)
    return min(pure_loss(draws), math.inf if own is None else own.approx_epsilon(0.0))


def _renyi(asked: Asked, draws: Draws, alpha: float) -> float:
    """Return a Rényi loss of one part that holds for queries chosen adaptively."""
    own, pure = _promise(asked), pure_loss(draws)
    return min(
        math.inf if own is None else own.renyi_epsilon(alpha),
        math.inf if math.isinf(pure) else Pure(pure).renyi_epsilon(alpha),
        Coupling().renyi(asked, alpha),
    )


def _promise(asked: Asked) -> Promise | None:
    """Return the promise of a release that is alone, if it was made for this belief."""
    if len(asked.costs) != 1 or asked.digest not in asked.costs[0].shape.priors:
        return None
    return asked.costs[0].shape.promise


def _parts(asked: Asked) -> Parts | None:
    """Return the finest parts found; None if there is only one."""
    draws = Draws.of(asked)
    if draws is None or len(draws.columns) < 2:
        return None
    together = _joined(draws)
    if len(together) < 2:
        return None
    apart, rest = 0.0, list(draws.columns)
    for part in together[:-1]:
        rest = [name for name in rest if name not in part]
        distance = _apart(draws, part, rest)
        if distance is None:
            return None
        apart += distance
    some = [draws.about(part) for part in together]
    digests = [{one.shape.digest for one in part.readings} for part in some]
    costs = [[cost for cost in asked.costs if cost.shape.digest in known] for known in digests]
    return Parts([Asked(asked.scenario, asked.prior, one) for one in costs], some, apart * (1 + len(together) * UNIT))


def _joined(draws: Draws) -> list[list[str]]:
    """Return the columns in parts none of which depends on all others; those that do are one part."""
    parts: list[list[str]] = []
    for name in draws.columns:
        near = [part for part in parts if any(_apart(draws, [name], [other]) is None for other in part)]
        parts = [part for part in parts if part not in near] + [[*(other for part in near for other in part), name]]
    free = [
        part for part in parts if _apart(draws, part, [one for one in draws.columns if one not in part]) is not None
    ]
    rest = [name for part in parts if part not in free for name in part]
    return [*free, *([rest] if rest else [])]


def _apart(draws: Draws, part: Sequence[str], rest: Sequence[str]) -> float | None:
    """Return how far two parts are from being independent given the secret; None if they are not, or may not be.

    Of rational tables 0; of floats a bound of the log ratio, for what rounding alone can have done.
    """
    if not rest:
        return 0.0
    (left, right), joint = draws.laws(part, rest)
    if len(left) * len(right) * len(joint) > _MOST_CELLS:
        return None
    joint = joint[np.unique(draws.pairs)]
    product = joint.sum(axis=2)[:, :, None] * joint.sum(axis=1)[:, None, :]
    possible = joint > 0
    if (possible != (product > 0)).any():
        return None
    ratios = joint[possible] / product[possible]
    farthest = max(ratios.max() - 1, 1 / ratios.min() - 1)
    return None if farthest > (0 if draws.exact else _SAME) else float_above(farthest)
