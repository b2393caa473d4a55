"""The movements of an iteration's steps by inputs between two secrets: fixed, as pairs, or along one coupling.

A row moves by a share of the range of each column: the secret row by all of it, others by prior and coupling. Of
independent rows one moves. Gaussian rows are translated, each by its correlation with the secret row. Under any other
prior all rows of a group may move in any way. The `length` of a share is the movement of a statistic or a gradient,
which grows with it. Lengths add over the rows that a step reads.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Final, cast, final

import numpy as np

from pufferflow.core.arrays import Array, Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import UNIT
from pufferflow.core.validate import (
    finite_number_at_least_zero,
    instance,
    quoted,
    set_fields,
    whole_number,
)
from pufferflow.distributions.distances import winf
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.gaussian_law import GaussianLaw
from pufferflow.engines.model_rows import PublicOrder
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.correlations import AR1, Exchangeable
from pufferflow.models.priors.gaussian import GaussianPrior, hidden_direction, shares_of
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Initial

_ALLOWED = "numbers >= 0, of shape (steps,) or (pairs of secrets, steps)"
_INSTEAD = "[[0, 1, 0.5], [0, 0, 1]] for two pairs of secrets and three steps"
_MASS = 1e-9
_MOST = 2**53
Proofs = Mapping[str, tuple[float, int]]
"""The loss by each proof, and the pair of secrets, or the row, that has it."""


@final
@dataclass(frozen=True, eq=False)
class Displacements(InNotebooks):
    """The movement of each step: sup_w ‖ψ_t(w, x_t) − ψ_t(w, x′_t)‖, at most, for each pair of secrets.

    They hold with probability 1, under one coupling of whole trajectories for each pair of secrets. It is a translation
    of Gaussian rows (M15), independent rows of which one is exchanged, or any rows of a group at once (M7). Only steps
    that move are stored: displacement i has sizes `sizes[first[i]:first[i + 1]]` at the steps `at[…]`, in rising order.

    >>> Displacements.of([[0, 2.0, 0], [0, 0, 1.0]], 3).count
    2
    """

    first: Indices
    at: Indices
    sizes: Floats

    def __post_init__(self) -> None:
        parts = [
            read_array(one, "Displacements", _ALLOWED, _INSTEAD)
            for one in (self.first, self.at, self.sizes)
        ]
        kinds = [part.dtype.kind for part in parts]
        if any(part.ndim != 1 for part in parts) or kinds[0] + kinds[1] not in (
            "ii",
            "iu",
            "ui",
            "uu",
        ):
            raise UsageError(
                "The displacements are not arrays.",
                allowed=_ALLOWED,
                instead="pf.learning.Displacements.of",
            )
        first, at, sizes = parts
        whole = (
            len(first)
            and first[0] == 0
            and first[-1] == len(at) == len(sizes)
            and (np.diff(first) >= 0).all()
        )
        if not whole or kinds[2] not in "iuf":
            raise UsageError(
                "The steps, sizes and beginnings of displacements do not fit each other.",
                allowed=_ALLOWED,
                instead="pf.learning.Displacements.of",
            )
        set_fields(
            self, first=first.astype(np.intp), at=at.astype(np.intp), sizes=sizes.astype(np.float64)
        )
        if not (self.sizes >= 0).all():
            raise UsageError(
                "The displacements have a NaN or a number below 0.",
                allowed=_ALLOWED,
                instead=_INSTEAD,
            )
        begins = np.isin(np.arange(1, len(self.at)), self.first)
        if (self.at < 0).any() or not ((np.diff(self.at) > 0) | begins).all():
            raise UsageError(
                "The steps of a displacement do not rise from 0 on.",
                allowed="each step once",
                instead="Displacements.of",
            )

    @property
    def count(self) -> int:
        """The number of displacements."""
        return len(self.first) - 1

    @property
    def owner(self) -> Indices:
        """The displacement to which each size belongs."""
        return np.repeat(np.arange(self.count), np.diff(self.first))

    @classmethod
    def of(cls, given: Any, steps: int) -> "Displacements":
        """Read displacements, one per row, from an array with a column per step."""
        steps = read_count(steps, "steps")
        read = np.atleast_2d(read_sizes(given, "The displacements", _ALLOWED, _INSTEAD))
        if read.ndim != 2 or read.shape[1] != steps or not len(read):
            raise UsageError(
                f"The displacements have shape {read.shape} for {steps} steps.",
                allowed=_ALLOWED,
                instead=_INSTEAD,
            )
        owner, at = np.nonzero(read)
        return cls(np.searchsorted(owner, np.arange(len(read) + 1)), at, read[owner, at])

    @classmethod
    def of_parts(cls, parts: Sequence[tuple[Indices, Floats]]) -> "Displacements":
        """Return displacements that are each given by the steps that move and their movements."""
        first = np.cumsum([0, *(len(at) for at, _ in parts)])
        return cls(
            first,
            np.concatenate([at for at, _ in parts]),
            np.concatenate([sizes for _, sizes in parts]),
        )

    def part(self, which: int) -> tuple[Indices, Floats]:
        """Return the steps that one displacement moves, and their movements."""
        of_it = slice(int(self.first[which]), int(self.first[which + 1]))
        return self.at[of_it], self.sizes[of_it]

    def in_parts(self, at_once: int) -> Iterator["Displacements"]:
        """Yield the displacements, some at a time."""
        for start in range(0, self.count, at_once):
            first = self.first[start : start + at_once + 1]
            held = slice(int(first[0]), int(first[-1]))
            yield Displacements(first - first[0], self.at[held], self.sizes[held])


@final
@dataclass(frozen=True, eq=False, init=False)
class Trajectories(InNotebooks):
    """A coupling of whole trajectories under two secrets: pairs of them, their probabilities, and their movements.

    Row k of `sizes` bounds ‖ψ_t(w, x_t) − ψ_t(w, x′_t)‖ for each step t of the k-th pair (x, x′). Its probability is
    `masses[k]`. The pairs must be those of one coupling of whole trajectories. Steps that are coupled one by one prove
    nothing (`Marginals`).

    >>> sizes = [[0, 1], [0, 1]]  # X₁ = Z and X₂ = Z ⊕ S: whatever Z is, the secret moves the second step
    >>> Trajectories(sizes, [0.5, 0.5]).displacements.count
    2
    """

    displacements: Displacements
    masses: Floats
    steps: int

    def __init__(self, sizes: Any, masses: Any) -> None:
        read = np.atleast_2d(read_sizes(sizes, "The trajectories", _ALLOWED, _INSTEAD))
        weights = read_sizes(
            masses, "The masses", "a probability > 0 for each pair of trajectories", "[0.5, 0.5]"
        )
        if weights.shape != (len(read),) or abs(float(weights.sum()) - 1) > _MASS:
            raise UsageError(
                f"{weights.size} masses for {len(read)} pairs of trajectories, with the sum {float(weights.sum()):g}.",
                allowed="a probability for each pair, 1 in all",
                instead="masses=[0.5, 0.5]",
            )
        possible = weights > 0
        set_fields(
            self, displacements=Displacements.of(read[possible], read.shape[1]), steps=read.shape[1]
        )
        set_fields(self, masses=weights[possible])


@final
@dataclass(frozen=True, eq=False, init=False)
class Marginals(InNotebooks):
    """The laws of each step's input under two secrets, each by itself (RPP Theorem 5.2, as corrected by M33).

    Laws of single steps bound the loss only if the inputs of different steps are independent given the secret.
    `independent_given_secret=True` declares that they are. Correlated inputs can hide the secret at each step and still
    reveal it together (X₁ = Z, X₂ = Z ⊕ S). Step t then moves by `lipschitz` · W_∞ of its two laws.

    >>> import pufferflow as pf
    >>> low, high = pf.Law([0, 1], [0.5, 0.5]), pf.Law([1, 2], [0.5, 0.5])
    >>> Marginals([low, low], [high, low], independent_given_secret=True).sizes
    array([1., 0.])
    """

    sizes: Floats

    def __init__(
        self,
        left: Iterable[Any],
        right: Iterable[Any],
        *,
        independent_given_secret: bool,
        lipschitz: float = 1.0,
    ) -> None:
        if independent_given_secret is not True:
            raise Refused(
                "Laws of single steps bound nothing if inputs may depend on each other given the secret.",
                allowed="inputs that are independent given the secret, or a coupling of whole trajectories",
                instead="pf.learning.Trajectories(sizes, masses), or pf.learning.Trajectories.between(mu, nu)",
            )
        first, second = _laws(left, "left"), _laws(right, "right")
        if len(first) != len(second):
            raise UsageError(
                f"One list has laws of {len(first)} steps, the other of {len(second)}.",
                allowed="two laws for each step",
                instead="[mu], [nu]",
            )
        factor = finite_number_at_least_zero(lipschitz, "lipschitz")
        sizes = [float(cast(float, winf(mu, nu))) for mu, nu in zip(first, second, strict=True)]
        with np.errstate(over="ignore"):
            set_fields(self, sizes=np.array(sizes) * factor)


def _laws(given: object, name: str) -> list[Any]:
    allowed, instead = "a pf.Law or pf.GaussianLaw for each step", "[pf.Law([0, 1], [0.5, 0.5])]"
    laws = listed(given, name, allowed, instead)
    for law in laws:
        if not isinstance(law, GaussianLaw):
            instance(law, Law, "A law of a step's input", allowed=allowed, instead=instead)
    return laws


def listed(given: object, name: str, allowed: str, instead: str) -> list[Any]:
    """Return the items of an iterable."""
    try:
        return list(cast(Iterable[Any], None if isinstance(given, str | bytes) else given))
    except TypeError as error:
        raise UsageError(f"{name} is {quoted(given)}.", allowed=allowed, instead=instead) from error


def read_count(given: object, name: str) -> int:
    """Return a number of steps or rows that floats represent exactly."""
    allowed, instead = "a whole number from 1 to 2^53", f"{name}=100"
    count = whole_number(given, name, allowed=allowed, instead=instead, kind=Integral)
    if count > _MOST:
        raise UsageError(f"{name} is {quoted(count)}.", allowed=allowed, instead=instead)
    return count


def read_size(given: object, name: str, instead: str) -> float:
    """Return one number ≥ 0, or ∞."""
    allowed = "a number >= 0"
    read = read_sizes(given, name, allowed, instead)
    if read.ndim:
        raise UsageError(f"{name} has {read.size} numbers.", allowed=allowed, instead=instead)
    return float(read)


def read_array(given: object, name: str, allowed: str, instead: str) -> Array:
    """Return an array of any type."""
    try:
        return np.asarray(cast(Any, given))
    except ValueError as error:
        raise UsageError(
            f"{name} have rows of different lengths.", allowed=allowed, instead=instead
        ) from error


def read_sizes(given: object, name: str, allowed: str, instead: str) -> Floats:
    """Return an array of numbers ≥ 0, of which none is NaN; ∞ is allowed."""
    read = read_array(given, name, allowed, instead)
    if read.dtype.kind not in "iuf":
        raise UsageError(f"{name} are of type {read.dtype}.", allowed=allowed, instead=instead)
    floats = read.astype(np.float64)
    if np.isnan(floats).any() or (floats < 0).any():
        raise UsageError(
            f"{name} have a NaN or a number below 0.", allowed=allowed, instead=instead
        )
    return floats


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
            part
            for group in _alike(self.prior, order, step_of)
            for part in self._of_group(self.prior, *group, length)
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
            shares = np.maximum(
                *covariance.toward(positions[[0]], np.array([positions[0], positions[0] + 1]))
            )[0, 1]
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
            shares = np.minimum(
                np.maximum(*covariance.toward(places[start : start + width], positions)), 1.0
            )
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
        return (
            np.ones(len(columns))
            if secret.reads is not None and not secret.reads[1].finite
            else None
        )
    if prior.across is None or tuples.finite:
        return None
    direction = hidden_direction(secret, tuples)
    if direction is None:
        return np.ones(len(columns))
    shares = np.maximum(*shares_of(prior.across, direction, tuples))
    return np.array(
        [shares[tuples.columns.index(name)] if name in tuples.columns else 0.0 for name in columns]
    )


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


def _alike(
    prior: GaussianPrior, order: PublicOrder, step_of: Indices
) -> list[tuple[Floats, Indices]]:
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

    If rows are read later, the last iterate moves farther (M34), so that is an upper bound. Their distances count as
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
    beyond = (
        2 * math.fsum(length(np.maximum.accumulate(shares[::-1])[::-1][near:])) * (1 + 8 * UNIT)
    )
    last = steps.max(keepdims=True)
    for row in range(len(positions)):
        low, high = max(row - near, 0), min(row + near + 1, len(positions))
        own = np.minimum(
            np.maximum(*covariance.toward(positions[[row]], positions[low:high]))[0], 1.0
        )
        yield from _added(np.append(steps[low:high], last), np.append(length(own), beyond)[None])
