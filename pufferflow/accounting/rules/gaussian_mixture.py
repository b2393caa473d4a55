"""Releases under a mixture of Gaussians: a value's class is revealed and charged once, movements add (M54).

Given the class all rows are translated once, so losses ε_c of releases add, adaptively, as they do under one Gaussian
(M24). The losses of the whole group, which add too (M7), bound what the other rows reveal about the class. The class
given the secret's value is the same in all releases: its ratio is charged once for all of them.

Rényi totals couple data sets within a class, which is revealed first. Group privacy couples them differently, so an
account uses one of the two from its first release on.
"""

import math
from collections.abc import Callable
from typing import final

import numpy as np

from pufferflow.accounting.rules.base import CompositionRule, UnitReleases, added
from pufferflow.core.arrays import Floats
from pufferflow.distributions.markov.law_regions import region_log_ratio_of_few
from pufferflow.models.priors.gaussian_mixture import GaussianMixture
from pufferflow.models.secret import Initial, Secret
from pufferflow.published.cost import Shape
from pufferflow.sensitivity.gaussian_mixture import renyi_of_classes


def class_digest(digest: str, place: int) -> str:
    """Return the name under which a cost keeps the movement of a class.

    >>> class_digest("0a1b", 1)
    '0a1b/1'
    """
    return f"{digest}/{place}"


@final
class MixtureRule(CompositionRule):
    """Translations of each class, and the class given the secret, for any number of releases."""

    name = "one translation in each hidden class, whose law is charged once (M54)"
    why = (
        "pure totals bound the ratio of likelihoods on each path; Rényi totals are a method of their own, which "
        "charges the class once and adds losses along the translation of the class that loses most (M54)"
    )

    def pure(self, releases: UnitReleases) -> float:
        prior, secret = releases.prior, releases.scenario.secret
        gains = _of_classes(releases, lambda shape, moved: shape.noise.pure_within(moved, shape.dimension))
        if gains is None or not isinstance(prior, GaussianMixture) or not isinstance(secret, Secret | Initial):
            return math.inf
        groups = [shape.group_movement for shape in releases.shapes]
        if None in groups:
            return math.inf
        between = added(
            [
                shape.noise.pure_within(moved, shape.dimension)
                for shape, moved in zip(releases.shapes, groups, strict=True)
                if moved is not None
            ],
            releases.times,
        )
        limits = between * (1 - np.eye(len(gains))) if math.isfinite(between) else np.full((len(gains),) * 2, math.inf)
        return max(
            float(region_log_ratio_of_few(pairs.tops, pairs.bottoms, limits, gains).max())
            for pairs in prior.pairs(secret)
        )

    def by_class(self, releases: UnitReleases, alpha: float) -> float:
        """Return the loss of the class alone, and the loss in the class that loses most.

        A mean over classes of the losses on the path of queries would be too small. An answer may reveal the class, and
        the next query may lose much in this class only (M54).
        """
        prior, secret = releases.prior, releases.scenario.secret
        losses = _of_classes(
            releases,
            lambda shape, moved: shape.noise.renyi_within(moved, alpha, shape.dimension),
            with_groups=True,
        )
        if losses is None or not isinstance(prior, GaussianMixture) or not isinstance(secret, Secret | Initial):
            return math.inf
        revealed = max(
            float(renyi_of_classes(pairs.tops, pairs.bottoms, np.zeros(len(losses)), alpha).max())
            for pairs in prior.pairs(secret)
        )
        return added([revealed, float(losses.max())])


def _of_classes(
    releases: UnitReleases, loss: Callable[[Shape, float], float], *, with_groups: bool = False
) -> Floats | None:
    """Return the sum of losses in each class, each a function of the movement of its release; None if unknown.

    Rows that a release did not see may move it farther, unless correlations decay with the distance in every class.
    Losses `with_groups` count by the movement of a whole group where it is shorter, or the only one that is known.
    """
    prior = releases.prior
    if not isinstance(prior, GaussianMixture):
        return None
    known = not _unseen_rows_move_farther(releases, prior)
    losses = list[float]()
    for place in range(len(prior.members)):
        key = class_digest(releases.digest, place)
        moves = list[float]()
        for shape in releases.shapes:
            ways = [shape.coupled_movements.get(key) if known else None, shape.group_movement if with_groups else None]
            moves.append(min((way for way in ways if way is not None), default=math.inf))
        if math.inf in moves:
            return None
        losses.append(added(map(loss, releases.shapes, moves), releases.times))
    return np.array(losses)


def _unseen_rows_move_farther(releases: UnitReleases, prior: GaussianMixture) -> bool:
    """Return whether rows that a release did not see may move it farther than those that it saw."""
    first = isinstance(releases.scenario.secret, Initial)
    alike = first or all(one.covariance.falls_off for one in prior.members)
    return releases.beyond_promises or (releases.wider and not alike)
