"""The decision: everything about a release that is settled before a private row is read.

A ledger stores its name. The last digits of scales, movements and losses are those of one processor and one version of
NumPy, so the name covers the request, the terms and the public facts, and no computed number. A release that was
reserved and not finished is completed with the reserved noise, where it agrees with this machine's own up to such
digits, and this machine's proof accepts it.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final, cast, final

from pufferflow.arrays import Floats
from pufferflow.bounds import BOUNDS, Bound, Bounds, Calibration, Laws, loss, proof_of
from pufferflow.composition import Cost
from pufferflow.engine import Measure
from pufferflow.errors import Misuse
from pufferflow.guarantees import Guarantee
from pufferflow.noise import Family, Noise
from pufferflow.planning.certificate import Certificate
from pufferflow.planning.facts import PublicFacts, SourceDigest
from pufferflow.planning.sum_tables import Tables, free_tables
from pufferflow.planning.terms import ROW, Terms
from pufferflow.queries import Query, Request
from pufferflow.rounding import UNIT, agree, upwards

_ROUNDINGS = 64 * UNIT
SURELY: Final = 1 + 56 * UNIT
"""The factor by which the noise of every sum exceeds that of the weighted sums, division by weights included."""
SCHEME: Final = "2:"
"""The prefix of names without computed floats; older names are digests of certificates."""


@final
@dataclass(frozen=True, eq=False)
class AnswerColumn:
    """A column of the answer: its query, the sum that it is made of (the first of several), and the sum's noise."""

    name: str
    query: Query
    measure: Measure | None
    noise: Noise
    """In the unit of the answer."""


@final
@dataclass(frozen=True, eq=False)
class Decision:
    """One noise for all sums of a request, weighted into units of their own, and the promise that it keeps."""

    facts: PublicFacts
    terms: Terms
    values: Floats
    """The functions of all sums at the points of the domain."""
    tables: list[list[Tables]]
    """For each prior the representations of all sums."""
    weights: Floats
    family: Family
    laws: Laws
    """The laws of the weighted sums."""
    row_laws: Laws | None
    """The laws of the weighted sums if the secret's row is independent of all others; None if no sum reads it."""
    calibration: Calibration
    certify: Callable[["Decision"], Certificate]
    """It writes the certificate, with the sentences of the explanations."""
    reserved: Cost | None = None
    """The cost that an account has reserved, perhaps from another machine."""

    @property
    def request(self) -> Request:
        """The batch."""
        return self.facts.request

    @property
    def floor(self) -> bool:
        """Whether the noise also suffices for a single row."""
        return self.terms.floor is not None

    @cached_property
    def noises(self) -> tuple[Noise, ...]:
        """The noise of each sum in whole steps, its scale rounded up; none where no row moves the sum."""
        return noises_at(self.calibration.noise, self.weights)

    @cached_property
    def noises_in_units(self) -> tuple[Noise, ...]:
        """The same noises in the units of the answers."""
        return self._in_units(self.noises)

    @cached_property
    def outputs(self) -> tuple[AnswerColumn, ...]:
        """The columns of the answer."""
        return self._outputs(self.noises_in_units)

    def outputs_with(self, noise: Noise) -> tuple[AnswerColumn, ...]:
        """Return the columns of the answer for another noise of the weighted sums."""
        return self._outputs(self._in_units(noises_at(noise, self.weights)))

    def _outputs(self, noises: Sequence[Noise]) -> tuple[AnswerColumn, ...]:
        measures = self.request.measures
        return tuple(
            AnswerColumn(name, query, measures[place], noises[place])
            for query, places in self.request.reads
            for name, place in zip(query.outputs, places, strict=False)
        )

    def _in_units(self, noises: Sequence[Noise]) -> tuple[Noise, ...]:
        pairs = zip(noises, self.request.units, strict=True)
        return tuple(noise.at(noise.scale * float(unit)) for noise, unit in pairs)

    @cached_property
    def certificate(self) -> Certificate:
        """The facts that are published with the answers."""
        return self.certify(self)

    @property
    def cost(self) -> Cost:
        """The release as composition sees it."""
        return self.certificate.cost

    @cached_property
    def ordinary(self) -> Guarantee | None:
        """The ordinary differential privacy of a single row under this noise, over the pairs of the secret."""
        kind = self.calibration.guarantee.kind
        if self.row_laws is None:
            return None
        if kind is None:
            return self.calibration.guarantee if self.floor else None
        epsilon = loss(self.row_laws, self.calibration.noise, kind)
        return kind.at(epsilon) if math.isfinite(epsilon) else None

    @property
    def free_tables(self) -> Tables:
        """The functions of all sums if rows may depend on each other in any way."""
        return free_tables(self.request.scenario.secret, self.request.column, self.values)

    @cached_property
    def group_laws(self) -> Laws:
        """The laws if the rows of a group may depend on each other in any way: group privacy."""
        return self.facts.laws([[self.free_tables]], self.weights)

    @cached_property
    def source(self) -> SourceDigest:
        """The public facts that noise and cost rest on, to be compared with the source at a release."""
        return self.facts.digest(self.tables)

    @cached_property
    def name(self) -> str:
        """A name that is the same on every machine for the same queries, terms and public facts."""
        terms, request, noise = self.terms, self.request, self.calibration.noise
        promise = self.calibration.guarantee if terms.accuracy is None else (terms.accuracy, terms.kind.at(1.0))
        parameters: dict[str, float | str | None] = {"k": None, "epsilon": None, "gamma": None, **noise.parameters}
        if gamma := parameters["gamma"]:
            parameters["gamma"] = f"{gamma:.6g}"  # it may be computed
        shares = [
            Fraction(1) if terms.shares is None else Fraction(float(terms.shares[query.name]))
            for query in request.queries
        ]
        parts = (
            *(request.scenario.fingerprint, request.digest, promise),
            *(repr((type(noise).__name__, *parameters.values())), _bounds_in_words(terms.bound)),
            ROW if self.floor else None,
            [str(share / sum(shares)) for share in shares],
            self.source.digest,
        )
        return SCHEME + hashlib.sha256(repr(parts).encode()).hexdigest()

    def at(self, reserved: Cost) -> "Decision":
        """Return the decision with the noise of a reserved cost, perhaps another machine's; refuse one without proof.

        Noise is drawn a little above what is charged, so it is the charged noise that has to keep the promise.
        """
        if reserved == self.cost:
            return self
        if not agree(self.cost, reserved):
            raise _refused("its cost is not that of this plan, not even but for rounding")
        noise, promise = reserved.shape.noise, reserved.shape.promise
        of_row = [] if self.row_laws is None or self.row_laws is self.laws or not self.floor else [self.row_laws]
        bounds = cast(Bounds, [self.calibration.bound, self.terms.bound])  # the best one is tried first
        proof = proof_of([(self.laws, bounds), *((laws, "auto") for laws in of_row)], promise, noise)
        if proof is None:
            raise _refused("the proof that is made here asks for more noise")
        return replace(self, calibration=replace(proof, noise=noise.at(noise.scale / SURELY)), reserved=reserved)


def noises_at(noise: Noise, weights: Floats) -> tuple[Noise, ...]:
    """Return the noise of every sum for one of the weighted sums, larger by a few roundings than necessary.

    So the loss stays below a promise that is no short binary fraction, and ten times .1 fit into 1.
    """
    scales = [upwards(noise.scale / weight, _ROUNDINGS) if weight > 0 else 0.0 for weight in weights.tolist()]
    return tuple(noise.at(scale) for scale in scales)


def _bounds_in_words(bound: Bounds) -> str:
    if isinstance(bound, str):
        return repr(BOUNDS.get(bound.casefold(), bound))
    return repr(bound) if isinstance(bound, Bound) else repr([_bounds_in_words(one) for one in bound])


def _refused(why: str) -> Misuse:
    return Misuse(
        f"The release was reserved with noise that cannot be used here: {why}. Nothing was drawn or charged.",
        allowed="the plan that was reserved, or the same on another machine, whose noise differs by at most 1e-9",
        instead="releasing on the machine that reserved it; or another id (a job has --revision 2), which costs again",
    )
