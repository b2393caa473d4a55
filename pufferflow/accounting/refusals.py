"""The refusals of an account: no total, too much δ for keys, or a design that does not fit."""

from collections.abc import Sequence

from pufferflow.core.errors import Refused
from pufferflow.models.priors.base import Prior
from pufferflow.privacy.guarantee import Guarantee

_COUNTED = {
    "pure": ("pure losses", "pf.Laplace"),
    "gaussian": ("standard deviations of Gaussian noise", "pf.Gaussian"),
    "rows": ("what single rows reveal while all others are fixed", "pf.Laplace or pf.Gaussian"),
    "renyi": ("Rényi losses", "pf.Laplace or pf.Gaussian"),
    "classes": ("Rényi losses within hidden classes", "pf.Laplace or pf.Gaussian"),
    "zcdp": ("Rényi losses of all orders", "pf.Laplace or pf.Gaussian"),
}
"""What each accounting method counts, and the noise for it."""


class TotalVariationPassed(Refused):
    """The releases have an ε, but more than the total variation that was guaranteed with it."""


class KeyDeltaPassed(Refused):
    """The keys that releases chose from the data take more δ than the limit has."""


def keys_pass(taken: float, share: float, limit: Guarantee) -> KeyDeltaPassed:
    """Return the refusal of keys that take so much δ, where the account has a share for them."""
    listed = "listed keys"
    if limit.delta:
        listed += "; or releases with a smaller delta, or an account opened with a larger keys_delta"
    return KeyDeltaPassed(
        f'Keys that the data chooses (keys="discover") take delta {taken:.6g}, and an account of the limit '
        f"{limit!r} has keys_delta {share:g} for them.",
        allowed="limits with a delta, and keys that together take no more than keys_delta, fixed at the opening",
        instead=listed if limit.delta else f"limit=pf.Approx(3.0, 1e-5), or {listed}",
    )


def total_variation_passed(count: int, variation: float) -> TotalVariationPassed:
    """Return the refusal of so many releases that keep some ε, but not the total variation that goes with it."""
    return TotalVariationPassed(
        f"What {count} releases reveal together may pass the total variation {variation:g} of "
        f"the guarantee, whatever its epsilon.",
        allowed="fewer releases or more noise, or a limit with a larger tv",
        instead="a limit of pf.Approx(epsilon, delta), which bounds no total variation",
    )


def designed_elsewhere(limit: Guarantee) -> Refused:
    """Return the refusal of a designed release on an account whose limit bounds more than ε and δ."""
    return Refused(
        f"A designed release on an account of the limit {limit!r}.",
        allowed="designed releases on accounts of pf.Pure or pf.Approx",
        instead="additive noise: batch.plan(…)",
    )


def designed_too_late(meter: str) -> Refused:
    """Return the refusal of a designed release after others that are counted by another method than pure losses."""
    counted, _ = _COUNTED[meter]
    return Refused(
        f"A designed release about rows whose releases the account counts by {counted}, as suits the first.",
        allowed="a designed release as the first about these rows, or after releases counted by pure losses",
        instead="another account, whose first release about these rows is account.design(…)",
    )


def total_unknown(
    priors: Sequence[Prior], count: int, meter: str | None = None, *, all_for_keys: bool = False
) -> Refused:
    """Return the refusal of a total that no rule bounds, with the declaration or the noise that would help."""
    believed = ", ".join(dict.fromkeys(f"pf.{type(prior).__name__}" for prior in priors))
    problem = f"What {count} releases reveal together under {believed}: no rule of composition bounds it"
    if meter is not None:
        counted, noise = _COUNTED[meter]
        problem += f" by {counted}, by which an account counts that its first release began so"
        if all_for_keys:
            problem += ", and keys_delta leaves the sums no delta"
        instead = f"noise={noise} in every plan for this account, or another account for other noise"
    else:
        problem += ", and the losses of single ones do not add"
        instead = "putting all queries in one batch; or pf.AnyCorrelation() as the prior from the first release on"
    return Refused(
        f"{problem}.",
        allowed="answers with noise, about rows whose movements are known under one coupling, or rows of one chain",
        instead=instead,
    )
