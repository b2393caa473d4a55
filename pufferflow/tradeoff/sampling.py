"""Releases on a random part of the rows: Poisson and fixed-size samples, and private training with them.

Sampling amplifies privacy for independent rows only. Where rows are correlated the drawn rows reveal the others (X₁ = …
= X_n: no gain at all, M26), so it is refused. Sampling may instead be part of the mechanism. Then the loss about each
row can be an exposure of M35, and the total of exposures counts.
"""

import math
from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT, upwards
from pufferflow.core.validate import finite_number, instance, number_above, whole_number
from pufferflow.noise.gaussian import Gaussian
from pufferflow.tradeoff.composed import Composed, compose
from pufferflow.tradeoff.dominating_pairs import of_deltas
from pufferflow.tradeoff.losses import Atoms, ThreePoint
from pufferflow.tradeoff.profile import Profile

_STEEP = 700.0
"""Losses up to here have an e^ℓ among the floats."""


def erased(profile: Profile, share: float) -> Profile:
    """Return the profile of a release that is withheld with probability `share`, whatever it is.

    Withholding any release lowers its total variation, and its delta in proportion (TV VII-C).

    >>> round(erased(Profile(1.0, tv=0.4), 0.25).tv, 6)
    0.3
    """
    kept = 1 - _probability(share, "share")
    loss, tv = _read(profile).loss, _share_of(kept, profile)
    if isinstance(loss, ThreePoint):
        return Profile(profile.epsilon, min(upwards(kept * loss.out, 2 * UNIT), 1.0), tv)
    atoms = loss.discretised()
    first, second = kept * atoms.first, kept * atoms.second
    losses = atoms.losses
    if not (losses == 0).any():
        place = int(np.searchsorted(losses, 0.0))
        losses, first, second = (np.insert(array, place, 0.0) for array in (losses, first, second))
    still = losses == 0
    first, second = (
        np.where(still, first + (1 - kept), first),
        np.where(still, second + (1 - kept), second),
    )
    alone = upwards(kept * atoms.first_alone), upwards(kept * atoms.second_alone)
    return Profile.with_loss(Atoms(losses, first, second, *alone), tv)


def poisson(profile: Profile, rate: float, *, prior: Any) -> Profile:
    """Return the profile of a release on a sample that each row is in with probability `rate`, independently.

    `profile` is that of the release on all rows, if one row is added or removed. The result differs between the orders:
    its first law is that of the data with the row. Let (P, Q) be the pair of the profile. Then the result is ((1 −
    rate)·Q + rate·P, Q), by joint convexity over the other rows in the sample. Both orders are counted. `prior` is the
    prior about the rows, which have to be independent.

    >>> import pufferflow as pf
    >>> step = poisson(Profile.of(pf.Gaussian(1.0)), 0.01, prior=pf.Independent())
    >>> round(step.tv, 6), round(compose(step, 1000).epsilon(1e-6), 2)
    (0.003829, 2.12)
    """
    independent(prior)
    return poisson_profile(profile, rate)


def poisson_profile(profile: Profile, rate: float) -> Profile:
    """Return the profile of a release on a Poisson sample of independent rows."""
    kept = _probability(rate, "rate")
    base = _read(profile).loss.discretised()
    if kept in (0, 1):
        return profile if kept else Profile(0.0)
    losses = _sampled(base.losses, kept)
    first = (1 - kept) * base.second + kept * base.first
    second = base.second
    if base.second_alone > 0:
        losses = np.append(math.log1p(-kept), losses)
        first, second = (
            np.append((1 - kept) * base.second_alone, first),
            np.append(base.second_alone, second),
        )
    told = min(upwards(kept * base.first_alone), 1.0)
    return Profile.with_loss(Atoms(losses, first, second, told), _share_of(kept, profile))


def fixed_size(profile: Profile, drawn: int, rows: int, *, prior: Any) -> Profile:
    """Return the profile of a release on `drawn` of `rows` rows, all subsets being equally likely.

    `profile` is that of the release if one row is replaced by another; so is the result. Let p = drawn/rows. The
    result's δ at log(1 + p(e^ε − 1)) is p·δ(ε), and its total variation is p times as large (TV Prop. 1). This cannot
    be improved.

    >>> import pufferflow as pf
    >>> tenth = fixed_size(Profile(1.0, 0.01, 0.3), 10, 100, prior=pf.Independent())
    >>> round(tenth.epsilon, 6), round(tenth.delta, 6), round(tenth.tv, 6)
    (0.158565, 0.001, 0.03)
    """
    independent(prior)
    return fixed_size_profile(profile, drawn, rows)


def fixed_size_profile(profile: Profile, drawn: int, rows: int) -> Profile:
    """Return the profile of a release on a sample of fixed size of independent rows."""
    allowed, instead = "whole numbers with 1 <= drawn <= rows", "drawn=256, rows=60_000"
    total = whole_number(rows, "rows", allowed=allowed, instead=instead)
    part = whole_number(drawn, "drawn", allowed=allowed, instead=instead)
    if part > total:
        raise UsageError(f"{part} of {total} rows.", allowed=allowed, instead=instead)
    kept = upwards(part / total) if part < total else 1.0
    tv = _share_of(kept, _read(profile))
    if kept >= 1:
        return profile
    if isinstance(profile.loss, ThreePoint):
        epsilon = (
            upwards(math.log1p(kept * math.expm1(profile.epsilon)), 4 * UNIT)
            if profile.epsilon < 700
            else math.inf
        )
        return Profile(epsilon, upwards(kept * profile.delta, 2 * UNIT), tv)
    ways = [profile.loss.discretised()]
    ways += [] if ways[0].symmetric else [ways[0].swapped()]
    epsilons = np.unique(
        np.concatenate([[0.0], *(atoms.losses[atoms.losses > 0] for atoms in ways)])
    )
    deltas = (
        np.max([atoms.hockey_sticks(epsilons) for atoms in ways], axis=0) * kept * (1 + 4 * UNIT)
    )
    smaller = _sampled(epsilons, kept) * (1 + 8 * UNIT)
    return Profile.with_loss(of_deltas(smaller, deltas), tv)


def dp_sgd(noise_multiplier: float, steps: int, *, rate: float, prior: Any) -> Composed:
    """Return the composition of private training: noisy sums of clipped gradients of Poisson samples.

    `noise_multiplier` is the standard deviation of the Gaussian noise over the norm to which gradients are clipped;
    rows may be added or removed. For batches of fixed size compose `fixed_size` of `Profile.of(pf.Gaussian(...), 2.0)`:
    a replaced row moves the sum by up to twice the norm.

    >>> import pufferflow as pf
    >>> round(dp_sgd(1.3, 3516, rate=256 / 60_000, prior=pf.Independent()).epsilon(1e-5), 2)
    0.86
    """
    instead = "pf.tradeoff.dp_sgd(1.1, 1000, rate=0.01, prior=pf.Independent())"
    scale = number_above(noise_multiplier, "noise_multiplier", 0.0, instead)
    number = whole_number(steps, "steps", allowed="a whole number >= 1", instead=instead)
    return compose(poisson(Profile.of(Gaussian(scale)), rate, prior=prior), number)


def independent(prior: Any) -> None:
    """Refuse rows that are not known to be independent: a prior, a list of priors, or a scenario's."""
    priors = getattr(prior, "priors", prior)
    listed: list[Any] = (
        list(cast(Iterable[Any], priors)) if isinstance(priors, Iterable) else [priors]
    )
    known = [getattr(one, "independent_rows", None) for one in listed]
    if not known or not all(isinstance(one, bool) for one in known):
        raise UsageError(
            f"The prior of sampled rows is of type {type(prior).__name__}.",
            allowed="the prior about the rows, whose rows are independent",
            instead="prior=pf.Independent()",
        )
    if not all(known):
        raise Refused(
            "Sampling correlated rows: drawn rows reveal something about the others (M26).",
            allowed="prior=pf.Independent(), if the rows are independent",
            instead="the release without sampling, or the loss of each row, sampling included, as an exposure (M35)",
        )


def _sampled(losses: Floats, kept: float) -> Floats:
    """Return log(1 + kept·(e^ℓ − 1)), also for losses whose e^ℓ overflows; those rounded up."""
    near = np.log1p(kept * np.expm1(np.minimum(losses, _STEEP)))
    far = np.logaddexp(math.log1p(-kept), math.log(kept) + losses) + 4 * UNIT * np.abs(losses)
    return np.where(losses < _STEEP, near, far)


def _share_of(kept: float, profile: Profile) -> float:
    """Return a share of a profile's total variation, rounded up."""
    return min(upwards(kept * profile.tv, 4 * UNIT), 1.0)


def _read(profile: object) -> Profile:
    instead = "pf.tradeoff.Profile(1.0, tv=0.3)"
    return instance(
        profile, Profile, "The profile", allowed="a pf.tradeoff.Profile", instead=instead
    )


def _probability(given: object, name: str) -> float:
    allowed, instead = "a number from 0 to 1", f"{name}=0.01"
    return finite_number(
        given, name, allowed=allowed, instead=instead, fits=lambda number: 0 <= number <= 1
    )
