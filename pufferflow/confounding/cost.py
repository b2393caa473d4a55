"""Task 2 of DCP: the joint cost of existing releases, on the joint law of a table (M31).

DCP's Theorems 1(iii), 3 and 5 and Proposition 4 say that the product of the releases' own laws underestimates the cost;
that is false: two copies of one release cost less than the product says, and the two halves of an exclusive or cost
more (M23). So the joint law itself is enumerated here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, final

from pufferflow.confounding.dependence import Dependence, dependence_of, independent_pairs
from pufferflow.confounding.joint_law import Release, as_releases, columns_read, pairs_of
from pufferflow.confounding.losses import Losses, added_losses
from pufferflow.confounding.posterior import Posterior, posterior_of
from pufferflow.confounding.reading import ProjectedTable, see
from pufferflow.core.validate import probability_below_one


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
        """Return what each release adds to ε at a δ, given those before it; ∞ where it is the first without a limit.

        >>> import pufferflow as pf
        >>> table = pf.Table({"ill": [0, 0, 1, 1], "test": [0, 1, 0, 1], "probability": [0.3, 0.2, 0.2, 0.3]})
        >>> plain = pf.confounding.Channel.revealing("test", [0, 1])
        >>> [round(one, 6) for one in pf.confounding.cost(table, [plain, plain]).added()]
        [0.405465, 0.0]
        """
        totals = [0.0, *(one.epsilon(delta) for one in self.prefixes)]
        return [0.0 if before == after else max(after - before, 0.0) for before, after in pairwise(totals)]

    def summed(self, delta: float = 0.0) -> float:
        """Return the sum of the ε of all releases alone, each at its share of δ: no bound of the true loss (M23)."""
        share = probability_below_one(delta, "delta") / len(self.releases)
        return added_losses([one.epsilon(share) for one in self.alone])

    @cached_property
    def as_if_independent(self) -> Losses:
        """The cost if the releases were independent given the secret: no bound of the true loss (M23)."""
        return Losses(independent_pairs(self.seen, self.releases))

    @cached_property
    def dependence(self) -> Dependence:
        """The parts of the loss from the releases' own laws, and from their dependence."""
        return dependence_of(self.seen, self.releases)

    @cached_property
    def posterior(self) -> Posterior:
        """The range of the posterior of an adversary who knows the table."""
        return posterior_of(self.seen, self.releases, self.pure)

    def __repr__(self) -> str:
        loss = (
            f"pure epsilon {self.pure:.6g}" if math.isfinite(self.pure) else f"epsilon {self.epsilon(1e-6):.6g} at 1e-6"
        )
        return f"<Cost of {len(self.releases)} releases about {self.seen.secret!r}: {loss}>"


def cost(table: Any, releases: Release | Sequence[Release], *, secret: Any = None) -> Cost:
    """Return the joint cost of releases: exact if all are channels, otherwise never below the true cost (M31).

    `table` is a `pf.Table`, a list of them (the worst counts), or a scenario whose priors are tables. `secret` is a
    column of it, `pf.Secret` or `pf.Derived`; left out, the only column that no release reads. Every release reads the
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


def _cost(seen: ProjectedTable, releases: tuple[Release, ...]) -> Cost:
    return Cost(pairs_of(seen, releases), releases, seen)
