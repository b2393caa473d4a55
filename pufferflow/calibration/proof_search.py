"""The search for the least scale or ε that bounds prove: in a fixed order, then those that may lower it enough.

Of several laws those with the largest scale or ε decide, so only these are improved further. The sizes of laws decide
which bounds are tried, the same on every machine and under any load. Only a deadline reads a clock.
"""

import math
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Protocol, cast, final

from pufferflow.calibration.bound import EPSILON_TOLERANCE, Bound, LossCurve
from pufferflow.calibration.laws import LARGE, SMALL, Laws, ListedLaws, Witness
from pufferflow.core.errors import Refused
from pufferflow.core.parallel import Workers
from pufferflow.core.progress import OutOfTimeError, check_time, doing, until
from pufferflow.distributions.coupling import Certainty
from pufferflow.noise.base import Family, Noise
from pufferflow.noise.laplace import Laplace
from pufferflow.privacy.guarantee import Guarantee, GuaranteeFamily, Pure

LOWER = 1e-6
"""The relative reduction of the scale for which a later bound is preferred: earlier ones are exact more often."""
LITTLE = 0.05
"""The relative reduction of the noise that a bound of more than a small count has to offer."""
NEGLIGIBLE = 1e-200
"""Below this a scale counts as no noise, and its inverse is too large to compute with."""
_HALVINGS = 12


@final
@dataclass(frozen=True, eq=False)
class AppliedBound:
    """A bound applied to laws: loss curves, all of which have to keep the guarantee."""

    bound: Bound
    laws: Laws
    parts: Sequence[LossCurve]

    @classmethod
    def of(cls, bound: Bound, laws: Laws, noise: Noise, guarantee: Guarantee) -> "AppliedBound":
        """Apply a bound to some laws; refuse a guarantee whose δ is below the share that the bound leaves out."""
        applied = cls(bound, laws, bound.parts(laws, noise))
        for part in applied.parts:
            part.check(guarantee)
        return applied

    def keeps(self, noise: Noise, guarantee: Guarantee) -> bool:
        """Return whether the noise provably keeps the guarantee."""
        return self.worst(noise, guarantee)[0] <= 0

    @property
    def sensitivity(self) -> float:
        """The largest movement of a part."""
        return max(part.sensitivity for part in self.parts)

    @property
    def own_delta(self) -> float:
        """The largest share that a part leaves out."""
        return max(part.own_delta for part in self.parts)

    @property
    def certainty(self) -> Certainty:
        """Whether all distances used are exact."""
        return least_certain([self.laws.certainty, *(part.certainty for part in self.parts)])

    def worst(self, noise: Noise, guarantee: Guarantee) -> tuple[float, LossCurve]:
        """Return the largest log ratio of loss to guarantee, and the curve that has it."""
        excesses = [part.excess_drawn(noise, guarantee) for part in self.parts]
        place = max(range(len(excesses)), key=excesses.__getitem__)
        return excesses[place], self.parts[place]

    def least_scale(self, family: Family, guarantee: Guarantee) -> float:
        """Calibrate to the part that moves farthest, then to others while one of them exceeds the guarantee."""
        return self._until_kept(family, guarantee, self._farthest.least_scale(family, guarantee))

    def scale_above(self, family: Family, guarantee: Guarantee, above: float) -> float:
        """Return a scale ≥ above that keeps the guarantee."""
        return self._until_kept(
            family, guarantee, self._farthest.scale_above(family, guarantee, above)
        )

    @property
    def _farthest(self) -> LossCurve:
        return max(self.parts, key=lambda part: part.sensitivity)

    def _until_kept(self, family: Family, guarantee: Guarantee, scale: float) -> float:
        while True:
            excess, part = self.worst(family(scale), guarantee)
            if excess <= 0:
                return scale
            scale = part.scale_above(family, guarantee, scale * (1 + EPSILON_TOLERANCE))


def looked_at(
    every: Sequence[AppliedBound], noise: Noise, guarantee: Guarantee, workers: Workers
) -> list[tuple[float, AppliedBound]]:
    """Return the largest log ratio of loss to guarantee of each bound, and the bounds, whose loss is cached."""
    looked = list[tuple[float, AppliedBound]]()
    for place, applied in enumerate(every):
        began = time.thread_time()
        looked.append((applied.worst(noise, guarantee)[0], applied))
        if workers.pay(time.thread_time() - began, len(every) - place - 1):
            break
    tasks = [
        workers.give(_looked_at, applied, noise, guarantee) for applied in every[len(looked) :]
    ]
    return looked + [task.result() for task in tasks]


def _looked_at(
    applied: AppliedBound, noise: Noise, guarantee: Guarantee
) -> tuple[float, AppliedBound]:
    fresh = AppliedBound(applied.bound, applied.laws, [copy(part) for part in applied.parts])
    return fresh.worst(noise, guarantee)[0], fresh


def accepted(
    laws: Laws, bounds: Sequence[Bound], guarantee: Guarantee, noise: Noise
) -> AppliedBound | None:
    """Return the bound of the least count that proves a guarantee for these laws with this noise; None if none does."""
    for bound in sorted(bounds, key=lambda bound: bound.count(laws, guarantee)):
        with suppress(Refused):
            applied = AppliedBound.of(bound, laws, noise, guarantee)
            if applied.keeps(noise, guarantee):
                return applied
    return None


def least_certain(certainties: Sequence[Certainty]) -> Certainty:
    """Return the weakest of several certainties."""
    order = (Certainty.ESTIMATE, Certainty.UPPER_BOUND, Certainty.EXACT)
    return min(certainties, key=order.index)


@final
@dataclass(frozen=True)
class Untried:
    """A bound that was not tried, and the largest share by which it could lower the noise; `late` if time was up."""

    bound: Bound
    share: float
    late: bool = False


@final
@dataclass(frozen=True, eq=False)
class Proof:
    """The least scale or ε that a bound proves for some laws, and the pair that has the largest loss."""

    value: float
    applied: AppliedBound
    witness: Witness
    rough: bool = False
    """Whether the bound may prove a smaller value."""


class Aim(Protocol):
    """The quantity that a search minimises: a scale or an ε."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee, or one of its kind."""
        ...

    def proof(self, bound: Bound, laws: Laws, enough: float | None = None) -> Proof:
        """Return the least value that a bound proves, or `enough` if the bound proves that."""
        ...

    def proves(self, bound: Bound, laws: Laws, value: float) -> bool:
        """Return whether a bound proves a value."""
        ...

    def least(self, bound: Bound, laws: Laws, best: float) -> float:
        """Return a lower limit of the values that the bound can prove, as far as it is quick to find."""
        ...

    def least_of_any(self, laws: Laws, best: float, witness: Witness) -> float:
        """Return a lower limit of the values that any bound can prove; `best` is proven, and the witness decides it."""
        ...


@final
@dataclass(frozen=True)
class Scales:
    """The least scale of a family with which a guarantee is kept."""

    guarantee: Guarantee
    family: Family

    def proof(self, bound: Bound, laws: Laws, enough: float | None = None) -> Proof:
        applied = AppliedBound.of(bound, laws, self.family(1.0), self.guarantee)
        rough = enough is not None and applied.keeps(self.family(enough), self.guarantee)
        scale = cast(float, enough) if rough else applied.least_scale(self.family, self.guarantee)
        _, part = applied.worst(self.family(scale), self.guarantee)
        return Proof(scale, applied, part.losses(self.family(scale), self.guarantee)[0][2], rough)

    def proves(self, bound: Bound, laws: Laws, value: float) -> bool:
        return AppliedBound.of(bound, laws, self.family(1.0), self.guarantee).keeps(
            self.family(value), self.guarantee
        )

    def least(self, bound: Bound, laws: Laws, best: float) -> float:
        if best >= NEGLIGIBLE and not self._may_be(bound, laws, best * (1 - LITTLE)):
            return best * (1 - LITTLE) if self._may_be(bound, laws, best * (1 - LOWER)) else best
        return bound.least(laws, self.family, self.guarantee)

    def _may_be(self, bound: Bound, laws: Laws, scale: float) -> bool:
        return bound.may_prove(laws, self.family(scale), self.guarantee)

    def least_of_any(self, laws: Laws, best: float, witness: Witness) -> float:
        """Return a scale at which the exact loss breaks a pure guarantee, close to the largest by a few bisections."""
        if (
            not isinstance(self.guarantee, Pure)
            or not isinstance(self.family(1.0), Laplace)
            or best < NEGLIGIBLE
        ):
            return 0.0
        low, high = 0.0, best * (1 - LOWER)
        if laws.least_loss(1 / high, witness) > self.guarantee.epsilon:
            return best
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            broken = laws.least_loss(1 / middle, witness) > self.guarantee.epsilon
            low, high = (middle, high) if broken else (low, middle)
        return low


@final
@dataclass(frozen=True)
class Epsilons:
    """The least ε that a noise provably keeps."""

    noise: Noise
    kind: GuaranteeFamily

    @property
    def guarantee(self) -> Guarantee:
        """A guarantee of the kind."""
        return self.kind.at(1.0)

    def proof(self, bound: Bound, laws: Laws, enough: float | None = None) -> Proof:
        applied = AppliedBound.of(bound, laws, self.noise, self.kind.example)
        if enough is not None and math.isfinite(enough):
            excess, part = applied.worst(self.noise, self.kind.at(enough))
            if excess <= 0:
                return Proof(
                    enough, applied, part.losses(self.noise, self.kind.at(enough))[0][2], rough=True
                )
        epsilons = [part.least_loss(self.noise, self.kind) for part in applied.parts]
        worst = max(range(len(epsilons)), key=epsilons.__getitem__)
        return Proof(
            epsilons[worst], applied, applied.parts[worst].losses(self.noise, self.guarantee)[0][2]
        )

    def proves(self, bound: Bound, laws: Laws, value: float) -> bool:
        return AppliedBound.of(bound, laws, self.noise, self.kind.example).keeps(
            self.noise, self.kind.at(value)
        )

    def least(self, bound: Bound, laws: Laws, best: float) -> float:
        return 0.0

    def least_of_any(self, laws: Laws, best: float, witness: Witness) -> float:
        if (
            not isinstance(self.guarantee, Pure)
            or not isinstance(self.noise, Laplace)
            or self.noise.scale < NEGLIGIBLE
        ):
            return 0.0
        return laws.least_loss(1 / self.noise.scale, witness)


def search(  # noqa: PLR0913 - what is proven, by what, and how long it may take
    pieces: Sequence[Laws],
    bounds: Sequence[Bound],
    aim: Aim,
    workers: Workers,
    *,
    thrifty: bool,
    end: float | None = None,
    beat: float = math.inf,
) -> tuple[list[Proof], list[Untried]]:
    """Return a proof for each of the laws; the largest value is the least that the bounds prove, or near it.

    `thrifty` skips bounds that compare many numbers for little gain. After `end`, on a monotonic clock, the search
    stops and the best proofs hold; laws without a proof still get one. Values that are not below `beat` are of no use:
    no bound that compares many numbers is tried for them.
    """
    tried = _first_proofs(pieces, bounds, aim, workers, beat if thrifty else math.inf)
    while (worst := max(tried, key=lambda piece: (piece.best.value, not piece.best.rough))).open:
        try:
            with until(end):
                check_time()
                worst.advance(thrifty=thrifty)
        except OutOfTimeError as over:
            worst.stop(over.args)
    return [piece.best for piece in tried], [one for piece in tried for one in piece.untried]


@contextmanager
def _naming(bound: Bound) -> Generator[None]:
    """Name the running bound in an error if its time is over."""
    try:
        yield
    except OutOfTimeError:
        raise OutOfTimeError(bound) from None


def _first_proofs(
    pieces: Sequence[Laws], bounds: Sequence[Bound], aim: Aim, workers: Workers, beat: float
) -> "list[_Piece]":
    """Return all laws, each with a first proof: of the value that the laws before it need, or of the least one.

    A process may have used an outdated value of the scale that is enough. Then the proof is repeated, so that the
    result does not depend on the number of processes.
    """
    left = sorted(
        pieces, key=lambda laws: -laws.size.laws * laws.size.atoms
    )  # large laws often need the largest value
    tried, enough = list[_Piece](), None
    while left:
        began = time.thread_time()
        tried.append(_Piece(left.pop(0), bounds, aim, beat, enough))
        enough = max(tried[-1].best.value, -math.inf if enough is None else enough)
        if len(tried) > 1 and workers.pay(time.thread_time() - began, len(left)):
            break
    tasks = [workers.give(_Piece, laws, bounds, aim, beat, enough) for laws in left]
    for place in range(len(left)):
        piece = tasks[place].result()
        doing(f"{piece.best.applied.bound!r}, {len(tried)} of {len(pieces)}")
        tried.append(piece)
        if enough is None or piece.best.value > enough:
            enough = piece.best.value
            for task in tasks[place + 1 :]:
                task.cancel()
            tasks[place + 1 :] = [
                workers.give(_Piece, laws, bounds, aim, beat, enough) for laws in left[place + 1 :]
            ]
    return tried


@final
@dataclass
class _Piece:
    """Some laws, the best proof so far, and the bounds not tried yet."""

    laws: Laws
    bounds: Sequence[Bound]
    aim: Aim
    beat: float = math.inf
    enough: float | None = None
    """A value that other laws need: if these need no more, their exact value does not matter."""
    untried: list[Untried] = field(default_factory=list[Untried])
    _limit: tuple[float, float] = (math.nan, 0.0)
    """A best value, and a lower limit of what any bound proves that was found for it."""

    def __post_init__(self) -> None:
        """Put the bounds in order, and make the first proof: those with small counts as given, then by their counts."""
        self.counts = {bound: bound.count(self.laws, self.aim.guarantee) for bound in self.bounds}

        def rank(bound: Bound) -> tuple[bool, float]:
            last = (
                bound.supports_only and self.beat == math.inf
            )  # else it is the first proof that is always quick
            return last, self.counts[bound] if self.counts[bound] > SMALL else 0.0

        self.left = sorted(self.bounds, key=rank)
        self.best = self._first()

    @property
    def open(self) -> bool:
        """Whether a smaller value may be proven."""
        return bool(self.left) or self.best.rough

    def advance(self, *, thrifty: bool) -> None:
        """Replace a rough proof by the least that its bound proves, or consider the next bound."""
        bound = self.best.applied.bound if self.best.rough else self.left.pop(0)
        with _naming(bound):
            if self.best.rough:
                doing(repr(bound), long=self.counts[bound] > LARGE)
                self.best = self.aim.proof(bound, self.laws)
            elif (
                bound.for_constants or not self.laws.constant
            ):  # else no bound is below that of the movement
                with suppress(Refused):
                    self._consider(bound, thrifty=thrifty)

    def stop(self, begun: Sequence[Bound]) -> None:
        """Stop at the best proof so far, since time is up; a rough one proves its value too."""
        late = [bound for bound in self.left if not bound.supports_only]
        self.untried += [Untried(bound, 1.0, late=True) for bound in (*late, *begun)]
        self.left.clear()
        self.best = replace(self.best, rough=False)

    def _consider(self, bound: Bound, *, thrifty: bool) -> None:
        """Try a bound unless it is known to gain nothing, or compares many numbers for a little gain."""
        best = self.best.value
        least = self.aim.least(bound, self.laws, best)
        if least >= best or (least := max(least, self._least_of_any())) >= best:
            return
        if thrifty and self.counts[bound] > SMALL:
            little = min(best * (1 - LITTLE), self.beat)
            least = max(least, self._least_at_worst(bound, little))
            if least >= little or self.counts[bound] > LARGE:
                self.untried.append(Untried(bound, 1 - least / best))
                return
        doing(repr(bound), long=self.counts[bound] > LARGE)
        proof = self.aim.proof(bound, self.laws)
        if proof.value < best * (1 - LOWER):
            self.best = proof

    def _least_of_any(self) -> float:
        """Return a lower limit of what any bound proves, found once for each best proof."""
        if self._limit[0] != self.best.value:
            best, witness = self.best.value, self.best.witness
            self._limit = best, self.aim.least_of_any(self.laws, best, witness)
        return self._limit[1]

    def _least_at_worst(self, bound: Bound, value: float) -> float:
        """Return the value if a bound does not prove it for the worst pair so far; 0 if it may prove less.

        A bound that needs more than pairs is tried on all laws: once, not for each scale of a calibration.
        """
        count = self.counts[bound]
        pair = self.laws.at(self.best.witness) if count < math.inf else None
        worst = [] if pair is None else [ListedLaws([pair])]
        for laws in [*worst, self.laws] if count <= LARGE else worst:
            with suppress(Refused):
                return 0.0 if self.aim.proves(bound, laws, value) else value
        return value if worst else 0.0

    def _first(self) -> Proof:
        """Return the first proof that a bound gives.

        Where all refuse, the refusal of the last bound given is shown, since quick bounds of narrow use come first.
        Group privacy comes after all of them; its refusal is shown only where nothing else was tried.
        """
        refusals: list[tuple[Bound, Refused]] = []
        while self.left:
            bound = self.left.pop(0)
            doing(repr(bound), long=self.counts[bound] > LARGE)
            try:
                with _naming(bound):
                    return self.aim.proof(bound, self.laws, self.enough)
            except Refused as refusal:
                refusals.append((bound, refusal))
        raise max(refusals, key=lambda one: (not one[0].supports_only, self.bounds.index(one[0])))[
            1
        ]
