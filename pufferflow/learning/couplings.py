"""The movements of a group's rows between two secrets, along one coupling of whole data sets (M7, M15, M33).

A row moves by a share of the range of each column: the secret row by all of it, others by prior and coupling. Of
independent rows one moves; Gaussian rows are translated, each by its correlation with the secret row; otherwise all
rows of a group may move in any way. The `length` of a share is the movement of a statistic or a gradient, which grows
with it; lengths add over the rows that a step reads.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.rounding import UNIT
from pufferflow.engines.model_rows import PublicOrder
from pufferflow.learning.displacements import Displacements
from pufferflow.models.priors.across import shares_of_column
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.correlations import AR1, Exchangeable
from pufferflow.models.priors.gaussian import GaussianPrior
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Derived, Initial

Length = Callable[[Floats], Floats]
"""A function from shares in [0, 1] of the range to the movement of what is computed of a row; it grows."""
_MOST_PAIRS: Final = 1 << 25
"""The most pairs of a secret row and another one to examine; of larger groups the farthest rows count together."""
_FAR: Final = 2.0**-12
GROUP: Final = "all rows of a group (M7)"


@final
@dataclass(frozen=True, eq=False)
class Coupling:
    """The coupling under one prior: `columns` are the shares by which each column follows, `proof` names it."""

    prior: GaussianPrior | None
    """A Gaussian prior; None if all rows of a group move in any way."""
    columns: Floats
    proof: str
    exact: bool = True
    """Whether the coupling is the best known one of the prior."""
    single: bool = False
    """Whether one row moves, and no other."""

    def displacements(self, order: PublicOrder, step_of: Indices, length: Length) -> Displacements:
        """Return the movement of each step for the secrets that lose most: the sum of lengths of the rows it reads."""
        if self.single:  # the row that is read last loses most
            return Displacements.of_parts([(step_of.max(keepdims=True), length(np.ones(1)))])
        if self.prior is None:
            return _of_groups(order, step_of, float(length(np.ones(1))[0]))
        parts = [
            part for group in _alike(self.prior, order, step_of) for part in self._of_group(self.prior, *group, length)
        ]
        return Displacements.of_parts(parts)

    def _of_group(
        self, prior: GaussianPrior, positions: Floats, steps: Indices, length: Length
    ) -> Iterator[tuple[Indices, Floats]]:
        """Yield the displacements of each secret row of a group."""
        covariance = prior.covariance
        covariance.check(positions)
        if isinstance(covariance, Exchangeable):
            # all others move equally: of the secret rows the one that is read last loses most
            shares = np.maximum(*covariance.toward(positions[[0]], np.array([positions[0], positions[0] + 1])))[0, 1]
            moved = np.full(len(steps), length(np.array([min(shares, 1.0)]))[0])
            moved[steps.argmax()] = length(np.ones(1))[0]
            yield from _added(steps, moved[None])
            return
        if len(positions) ** 2 > _MOST_PAIRS and isinstance(covariance, AR1):
            yield from _of_sequence(covariance, positions, steps, length)
            return
        places = covariance.places(positions)
        width = max(_MOST_PAIRS // max(len(positions), 1), 1)
        for start in range(0, len(places), width):
            shares = np.minimum(np.maximum(*covariance.toward(places[start : start + width], positions)), 1.0)
            yield from _added(steps, length(shares.ravel()).reshape(shares.shape))


def coupling_of(prior: Prior, scenario: Scenario, columns: Sequence[str]) -> Coupling:
    """Return the coupling under a prior; public ones of the `columns` do not move."""
    hidden = np.array([float(name in scenario.sensitive) for name in columns])
    if prior.independent_rows:
        return Coupling(None, hidden, "one row of independent ones", single=True)
    if isinstance(prior, GaussianPrior):
        shares = _shares(prior, scenario, columns)
        if shares is not None:
            return Coupling(prior, shares * hidden, "translation of Gaussian rows (M15)")
    return Coupling(None, hidden, GROUP, exact=prior.any_correlation)


def _shares(prior: GaussianPrior, scenario: Scenario, columns: Sequence[str]) -> Floats | None:
    """Return the shares by which each column follows the secret; None if columns follow in another way."""
    secret = scenario.secret
    tuples = secret.tuples
    if isinstance(secret, Initial):  # its row need not be among those that are read
        return None
    if tuples is None:
        return np.ones(len(columns)) if secret.reads is not None and not secret.reads[1].finite else None
    if prior.across is None or tuples.finite:
        return None
    if not isinstance(secret, Derived):
        return np.ones(len(columns))
    shares = np.maximum(*shares_of_column(prior.across, tuples.columns.index(secret.name), tuples))
    return np.array([shares[tuples.columns.index(name)] if name in tuples.columns else 0.0 for name in columns])


def _of_groups(order: PublicOrder, step_of: Indices, length: float) -> Displacements:
    """Return the displacements if all rows of a group move over the whole range, without duplicates."""
    sizes = np.diff(order.first)
    group = np.repeat(np.arange(len(sizes)), sizes)
    steps = int(step_of.max()) + 1
    keys, counts = np.unique(group * steps + step_of, return_counts=True)
    owners, at = keys // steps, keys % steps
    first = np.searchsorted(owners, np.arange(len(sizes) + 1))
    rounding = 1 + (int(sizes.max()) + 4) * UNIT
    return Displacements(first, at, np.asarray(counts * length * rounding, dtype=np.float64))


def _alike(prior: GaussianPrior, order: PublicOrder, step_of: Indices) -> list[tuple[Floats, Indices]]:
    """Return positions and steps of each group, once for those that share both."""
    found: dict[bytes, tuple[Floats, Indices]] = {}
    stands = prior.covariance.stationary
    for low, high in zip(order.first[:-1].tolist(), order.first[1:].tolist(), strict=True):
        positions, steps = order.positions[low:high], step_of[low:high]
        if stands and (positions == np.rint(positions)).all():
            positions = positions - positions[0]  # exact: correlations depend on lags
        if not prior.covariance.ordered:
            positions = np.arange(high - low, dtype=np.float64)
        found.setdefault(positions.tobytes() + steps.tobytes(), (positions, steps))
    return list(found.values())


def _added(steps: Indices, moved: Floats) -> Iterator[tuple[Indices, Floats]]:
    """Yield the steps that move, and how far, from the rows that they read; `moved` has a row for each secret."""
    at, place = np.unique(steps, return_inverse=True)
    reads = np.zeros((len(steps), len(at)))
    reads[np.arange(len(steps)), place] = 1.0
    sizes = moved @ reads * (1 + (len(steps) + 4) * UNIT)
    return ((at, own) for own in sizes)


def _of_sequence(
    covariance: AR1, positions: Floats, steps: Indices, length: Length
) -> Iterator[tuple[Indices, Floats]]:
    """Yield the displacements in a long sequence: rows far from the secret count as if they were read last of all.

    If they are read later, the last iterate moves farther (M34), so that is an upper bound. Their distances count as
    multiples of the smallest gap between rows, so their lengths are upper bounds too.
    """
    gap = float(np.diff(positions).min())
    if gap <= 0:  # rows that share a position are all the secret row's neighbours
        yield from _added(steps, np.full((1, len(steps)), float(length(np.ones(1))[0])))
        return
    lags = np.asarray(np.arange(1, len(positions)) * gap, dtype=np.float64)
    shares = np.minimum(np.maximum(*covariance.toward(np.zeros(1), lags))[0], 1.0)
    near = int(np.searchsorted(-shares, -_FAR)) if (np.diff(shares) <= 0).all() else len(lags)
    near = min(max(near, 1), max(_MOST_PAIRS // len(positions), 1))
    beyond = 2 * math.fsum(length(np.maximum.accumulate(shares[::-1])[::-1][near:])) * (1 + 8 * UNIT)
    last = steps.max(keepdims=True)
    for row in range(len(positions)):
        low, high = max(row - near, 0), min(row + near + 1, len(positions))
        own = np.minimum(np.maximum(*covariance.toward(positions[[row]], positions[low:high]))[0], 1.0)
        yield from _added(np.append(steps[low:high], last), np.append(length(own), beyond)[None])
