"""Rows of a group that are jointly Gaussian in each of several hidden classes (M54)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import finite_number, set_fields
from pufferflow.distributions.markov.law_regions import LawRegions
from pufferflow.models.domain import Interval
from pufferflow.models.priors.base import Prior, wrong_secret
from pufferflow.models.priors.covariance import Covariance, Matrix
from pufferflow.models.priors.gaussian import GaussianPrior
from pufferflow.models.probabilities import as_list, read_law
from pufferflow.models.secret import AnySecret, Initial, Secret, ValueSecret
from pufferflow.models.secret_pairs import WithinDistance

_MOST_CLASSES = 5
_CELLS_OF_A_PAIR = 16
_MOST_CELLS = 600
_LEAST_WEIGHT = 1e-12
_ALLOWED = f"2 to {_MOST_CLASSES} classes: a weight, a mean and a covariance for each, and a variance or none for all"
_INSTEAD = "pf.GaussianMixture([0.6, 0.4], means=[0, 2], covariances=[pf.AR1(0.8), pf.AR1(0.3)])"


class PosteriorPairs(NamedTuple):
    """Pairs of values at one distance, in both orders, and the class given each: one law for every pair."""

    distance: float
    values: Sequence[tuple[float, float]]
    tops: LawRegions
    bottoms: LawRegions


@final
@suggests_arguments
@dataclass(frozen=True)
class GaussianMixture(Prior, kind="gaussian mixture"):
    """A group has class c with probability `weights[c]`; given it, its rows are as in `pf.GaussianPrior` (M54).

    `means` and `covariances` have an entry for each class. So has `variances` (1 by default), for covariances without
    variances of their own. A changed row acts in two ways: given the class it translates the others, and its value
    makes one class more likely than another. One Gaussian with the same covariance moves answers in another way, and
    would guarantee too much.

    The domain must be an Interval, with listed pairs or pf.WithinDistance: all differences are then bounded. The nearer
    two values are, the less they reveal about the class. With Gaussian noise, values that reveal too much are refused.

    >>> from pufferflow.models.priors.correlations import AR1
    >>> GaussianMixture([0.6, 0.4], means=[0, 2], covariances=[AR1(0.8), AR1(0.3)]).describe()
    'rows are jointly Gaussian in each of 2 hidden classes of a group, with the weights 0.6, 0.4 and means 0, 2'
    """

    weights: tuple[float, ...]
    members: tuple[GaussianPrior, ...]

    def __init__(self, weights: Any, means: Any, covariances: Any, variances: Any = None) -> None:
        shares = tuple(float(one) for one in read_law(weights, "weights"))
        centres, given = as_list(means, "means"), as_list(covariances, "covariances")
        spreads = [None] * len(given) if variances is None else as_list(variances, "variances")
        sizes = {len(shares), len(centres), len(given), len(spreads)}
        if len(sizes) != 1 or not 2 <= len(shares) <= _MOST_CLASSES:
            found = (
                f"{len(shares)} weights, {len(centres)} means, {len(given)} "
                f"covariances and {len(spreads)} variances"
            )
            raise UsageError(f"A mixture with {found}.", allowed=_ALLOWED, instead=_INSTEAD)
        if min(shares) < _LEAST_WEIGHT:
            raise UsageError(
                "A class of the mixture has the weight 0.",
                allowed="weights above 0",
                instead="a mixture without that class",
            )
        numbers = [
            finite_number(mean, f"means[{c}]", allowed="a number", instead="0.0")
            for c, mean in enumerate(centres)
        ]
        members = tuple(map(GaussianPrior, given, spreads, numbers))
        set_fields(self, weights=shares, members=members)
        if (
            len(
                {
                    len(one.covariance.entries)
                    for one in members
                    if isinstance(one.covariance, Matrix)
                }
            )
            > 1
        ):
            raise UsageError(
                "The covariance matrices have different sizes.",
                allowed="matrices of one size: the rows of a group are the same ones in every class",
                instead="a matrix of each class for all rows",
            )

    @property
    def ordered(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return any(one.ordered for one in self.members)

    @property
    def repeats(self) -> int | None:
        return 1 if all(one.repeats == 1 for one in self.members) else None

    def check(self, secret: AnySecret) -> None:
        allowed = "pf.Secret or pf.Initial with a pf.Interval, and pairs that are named or pf.WithinDistance"
        instead = "pf.Secret(column, domain=pf.Interval(0, 10), pairs=pf.WithinDistance(1))"
        if not isinstance(secret, Secret | Initial):
            raise wrong_secret("pf.GaussianMixture", secret, allowed=allowed, instead=instead)
        if not isinstance(secret.domain, Interval):
            # a value that is read as another is a mixture of those that are, each with classes of its own
            raise UsageError(
                "The prior pf.GaussianMixture with values in classes.",
                allowed=allowed,
                instead=instead,
            )

    def describe(self) -> str:
        weights, means = (
            ", ".join(f"{one:g}" for one in part)
            for part in (self.weights, [one.mean for one in self.members])
        )
        count = len(self.weights)
        classes = f"each of {count} hidden classes of a group, with the weights {weights} and means {means}"
        return f"rows are jointly Gaussian in {classes}"

    def stored(self) -> dict[str, Any]:
        covariances = [one.covariance.stored() for one in self.members]
        return self._plain(covariances)

    def fingerprint(self) -> Any:
        return self._plain([one.covariance.fingerprint() for one in self.members])

    def _plain(self, covariances: list[Any]) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "weights": list(self.weights),
            "means": [one.mean for one in self.members],
            "covariances": covariances,
            "variances": [one.variance for one in self.members],
        }

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> "GaussianMixture":
        covariances = [Covariance.from_stored(one) for one in stored["covariances"]]
        return cls(stored["weights"], stored["means"], covariances, stored["variances"])

    @cached_property
    def _variances(self) -> Floats:
        """The variances of a row in each class, for all places where they differ: of shape (places, classes)."""
        columns = [
            one.covariance.entries.diagonal()
            if isinstance(one.covariance, Matrix)
            else np.array([one.variance])
            for one in self.members
        ]
        return np.unique(np.stack(np.broadcast_arrays(*columns), axis=1).astype(np.float64), axis=0)

    def pairs(self, secret: ValueSecret) -> list[PosteriorPairs]:
        """Return the class given the values of all pairs of a secret; for pf.WithinDistance cell by cell.

        Listed pairs at the same distance are taken together.
        """
        if isinstance(secret.pairs, tuple):
            named = [(float(a), float(b)) for a, b in secret.pairs]
            apart = sorted({abs(a - b) for a, b in named})
            return [
                self._named([pair for pair in named if abs(pair[0] - pair[1]) == far], far)
                for far in apart
            ]
        return [self._near(secret)]

    def _named(self, pairs: Sequence[tuple[float, float]], distance: float) -> PosteriorPairs:
        both = [order for a, b in pairs for order in ((a, b), (b, a))]
        first, second = (np.array([pair[side] for pair in both]) for side in (0, 1))
        return PosteriorPairs(
            distance, both, self._given(first, first), self._given(second, second)
        )

    def _near(self, secret: ValueSecret) -> PosteriorPairs:
        """Return all cells of an interval, each with the cells that have values within the distance of it."""
        domain = cast(Interval, secret.domain)
        low, width = float(domain.low), float(domain.high) - float(domain.low)
        distance = (
            min(secret.pairs.distance, width) if isinstance(secret.pairs, WithinDistance) else width
        )
        cells = min(int(np.ceil(width / distance * _CELLS_OF_A_PAIR)), _MOST_CELLS)
        edges = np.linspace(low, float(domain.high), cells + 1)
        reach = int(np.ceil(distance / (width / cells) * (1 + 1e-9))) + 1
        first, second = np.nonzero(np.abs(np.arange(cells)[:, None] - np.arange(cells)) <= reach)
        of_cells = self._given(edges[:-1], edges[1:])
        per_place = len(of_cells) // cells
        places = np.arange(per_place)[:, None] * cells
        tops, bottoms = (of_cells.some((places + side).ravel()) for side in (first, second))
        here = edges[first]
        aim = np.where(second >= first, edges[second + 1], edges[second])
        there = np.clip(
            aim, np.maximum(here - distance, edges[0]), np.minimum(here + distance, edges[-1])
        )
        values = list(zip(here.tolist(), there.tolist(), strict=True))
        return PosteriorPairs(distance, values, tops, bottoms)

    def _given(self, low: Floats, high: Floats) -> LawRegions:
        """Return the regions of the class given a value between two numbers, one after the other for each place.

        The log odds of two classes are a quadratic in the value, largest and least at an end or where it turns.
        """
        parts = [self._of_place(low, high, variances) for variances in self._variances]
        return LawRegions(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _of_place(
        self, low: Floats, high: Floats, variances: Floats
    ) -> tuple[Floats, Floats, Floats, Floats]:
        means = np.array([one.mean for one in self.members])
        # log ω_c·N(a; μ_c, s_c²) = constant + linear·a + square·a², but for what is common to all
        square = -0.5 / variances
        linear = means / variances
        constant = np.log(self.weights) - 0.5 * np.log(variances) - 0.5 * means**2 / variances
        squares, linears = square[:, None] - square, linear[:, None] - linear
        with np.errstate(divide="ignore", invalid="ignore"):
            turn = np.nan_to_num(-linears / (2 * squares), nan=0.0, posinf=0.0, neginf=0.0)
        at = np.stack(
            np.broadcast_arrays(
                low[:, None, None],
                high[:, None, None],
                np.clip(turn, low[:, None, None], high[:, None, None]),
            )
        )
        odds = (constant[:, None] - constant) + linears * at + squares * at**2
        size = (
            np.abs(constant).max()
            + np.abs(linear).max() * np.abs(at).max()
            + np.abs(square).max() * np.abs(at).max() ** 2
        )
        error = 2.0**-48 * (1 + size)  # what the odds are rounded by, outwards
        with np.errstate(over="ignore"):
            least = 1 / np.exp(-odds.min(axis=0) + error).sum(axis=2)
            most = 1 / np.exp(-odds.max(axis=0) - error).sum(axis=2)
        np.minimum(most, 1.0, out=most)
        middle = (least + most) / 2
        middle /= middle.sum(axis=1, keepdims=True)
        regions = LawRegions.of(middle, np.minimum(least, middle), np.maximum(most, middle))
        return regions.centre, regions.low, regions.high, regions.radius
