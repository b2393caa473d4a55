"""What makes two plans one, on whichever machine: the name that a ledger keeps, and noise that another one reserved.

The last digits of scales, movements and losses are those of one processor and one version of NumPy. So a plan's name
covers what was asked and what is public of the rows, and no number that was worked out. A release that was reserved and
not finished is completed with the noise that was paid for, where that is this machine's own but for such digits, and
this machine's own proof accepts it.
"""

import hashlib
from dataclasses import replace
from fractions import Fraction
from typing import Final, cast

from pufferflow.bounds import BOUNDS, Bound, Bounds, proof_of
from pufferflow.composition import Cost
from pufferflow.errors import Misuse
from pufferflow.noise import Noise
from pufferflow.planning.decide import SURELY, Planned
from pufferflow.planning.floor import ROW
from pufferflow.planning.public_facts import PublicFacts
from pufferflow.rounding import agree

SCHEME: Final = "2:"
"""What names begin with that have no float in them that was worked out; older ones are digests of certificates."""


def name_of(plan: Planned, public: PublicFacts) -> str:
    """Return a text that plans share which ask the same of the same rows, on every machine."""
    terms, request = plan.terms, plan.request
    promise = plan.calibration.guarantee if terms.accuracy is None else (terms.accuracy, terms.kind.at(1.0))
    asked = (
        *(request.scenario.fingerprint, request.digest, promise, _noise_in_words(plan.calibration.noise)),
        *(_bounds_in_words(terms.bound), ROW if plan.floor else None, _shares_in_words(plan), public.digest),
    )
    return SCHEME + hashlib.sha256(repr(asked).encode()).hexdigest()


def as_reserved(plan: Planned, own: Cost, reserved: Cost) -> Planned:
    """Return the plan with the noise that was reserved, perhaps by another machine; refuse it if it proves nothing.

    Noise is drawn a little above what is charged, so it is the charged noise that has to keep the promise.
    """
    if not agree(own, reserved):
        raise _refused("its cost is not that of this plan, not even but for rounding")
    noise, promise = reserved.shape.noise, reserved.shape.promise
    alone = [] if plan.row_laws is None or plan.row_laws is plan.laws or not plan.floor else [plan.row_laws]
    bounds = cast(Bounds, [plan.calibration.bound, plan.terms.bound])  # the one that was best is tried first
    proof = proof_of([(plan.laws, bounds), *((laws, "auto") for laws in alone)], promise, noise)
    if proof is None:
        raise _refused("the proof that is made here asks for more noise")
    return replace(plan, calibration=replace(proof, noise=noise.at(noise.scale / SURELY)))


def _noise_in_words(noise: Noise) -> str:
    """Return a noise but for its scale; names of plans begin with these parameters, `gamma` may be worked out."""
    known: dict[str, float | str | None] = {"k": None, "epsilon": None, "gamma": None, **noise.parameters}
    if gamma := known["gamma"]:
        known["gamma"] = f"{gamma:.6g}"
    return repr((type(noise).__name__, *known.values()))


def _bounds_in_words(bound: Bounds) -> str:
    if isinstance(bound, str):
        return repr(BOUNDS.get(bound.casefold(), bound))
    return repr(bound) if isinstance(bound, Bound) else repr([_bounds_in_words(one) for one in bound])


def _shares_in_words(plan: Planned) -> list[str]:
    """Return the shares of the queries as they were asked for, in lowest terms."""
    names, shares = [query.name for query in plan.request.queries], plan.terms.shares
    given = [Fraction(1) if shares is None else Fraction(float(shares[name])) for name in names]
    return [str(one / sum(given)) for one in given]


def _refused(why: str) -> Misuse:
    return Misuse(
        f"The release was reserved with noise that cannot be used here: {why}. Nothing was drawn or charged.",
        allowed="the plan that was reserved, or the same on another machine, whose noise differs by at most 1e-9",
        instead="releasing on the machine that reserved it; or another id (a job has --revision 2), which costs again",
    )
