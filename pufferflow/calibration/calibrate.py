"""The least noise that keeps a guarantee, for one output or two, and the least guarantee that a noise keeps."""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast, final

import numpy as np

from pufferflow.calibration.bound import EPSILON_TOLERANCE, Bound, LossCurve
from pufferflow.calibration.bound_names import read_bounds
from pufferflow.calibration.laws import Laws, Pair, Witness, finite_laws, read_laws
from pufferflow.calibration.proof_search import (
    AppliedBound,
    Epsilons,
    Scales,
    Untried,
    accepted,
    least_certain,
    looked_at,
    search,
)
from pufferflow.core.arrays import Array
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import Card, InNotebooks
from pufferflow.core.parallel import Workers
from pufferflow.core.suggestions import did_you_mean, nearest
from pufferflow.core.validate import instance, quoted
from pufferflow.distributions.coupling import Certainty, all_differences
from pufferflow.distributions.finite_law import Law
from pufferflow.noise.base import Family, Noise
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.joint_gaussian import JointGaussian, best_rho
from pufferflow.noise.laplace import Laplace
from pufferflow.noise.names import NOISES
from pufferflow.noise.staircase import StaircaseFamily
from pufferflow.privacy.guarantee import AnyGuaranteeFamily, Divergence, Guarantee, GuaranteeFamily
from pufferflow.privacy.renyi import RenyiCurve
from pufferflow.privacy.tradeoff import Tv


def read_family(noise: Any, guarantee: Guarantee) -> Family:
    """Return the noise family that `noise=` names, if it can keep such a guarantee."""
    given = noise
    if isinstance(given, str):
        noise = NOISES.get(given.casefold())
        near = nearest(given, NOISES)
        if noise is None:
            raise UsageError(
                f"noise is {quoted(given)}.{did_you_mean(given, NOISES)}",
                allowed=f"{', '.join(map(repr, ('auto', *NOISES)))}, or a family such as pf.GeneralizedCauchy.of(k=4)",
                instead=f'noise="{near[0] if near else "laplace"}"',
            )
    if noise is JointGaussian or isinstance(noise, JointGaussian):
        raise Refused(
            "Joint noise is calibrated for the sums of a batch together, not for one answer.",
            allowed='noise="joint" in a plan, or pf.calibrate_joint for laws of two outputs',
            instead="noise=pf.Gaussian",
        )
    if isinstance(noise, StaircaseFamily) or (isinstance(noise, type) and issubclass(noise, Noise)):
        return noise.family(guarantee)
    allowed = "a family of noises, whose scale is to be found"
    if isinstance(noise, Noise) or not callable(cast(object, noise)):
        kind = type(cast(object, noise)).__name__
        raise UsageError(
            f"noise is {noise!r}." if isinstance(noise, Noise) else f"noise is of type {kind}.",
            allowed=allowed,
            instead=f"noise=pf.{kind if isinstance(noise, Noise) else 'Laplace'}, without a scale",
        )
    made: object = None
    with suppress(TypeError, ValueError):
        made = noise(1.0)
    if not isinstance(made, Noise):
        instead = "noise=pf.Laplace, or pf.GeneralizedCauchy.of(k=4)"
        raise UsageError(
            "noise returns no noise when called with a scale.", allowed=allowed, instead=instead
        )
    return cast(Family, noise)


def read_kind(kind: Any) -> GuaranteeFamily:
    """Return the kind of guarantee: a function from an ε to a guarantee, as `pf.Pure` or `pf.Renyi.of(alpha=4)`."""
    allowed, instead = (
        "a guarantee without its epsilon",
        "pf.Pure, pf.Renyi.of(alpha=4) or pf.Approx.of(delta=1e-6)",
    )
    if isinstance(kind, Guarantee):
        raise UsageError(
            f"kind is {kind!r}, a guarantee with its epsilon.", allowed=allowed, instead=instead
        )
    if kind is RenyiCurve or kind is Tv or not callable(kind):
        name = kind.__name__ if callable(kind) else f"of type {type(kind).__name__}"
        raise UsageError(f"kind is {name}.", allowed=allowed, instead=instead)
    if isinstance(kind, GuaranteeFamily):
        return kind
    try:
        example = kind(0.0)
    except TypeError as error:
        raise UsageError(
            f"kind is {getattr(kind, '__name__', 'a function')}, which needs more than an epsilon.",
            allowed=allowed,
            instead=instead,
        ) from error
    if not isinstance(example, Guarantee):
        raise UsageError("kind returns no guarantee.", allowed=allowed, instead=instead)
    return GuaranteeFamily(example)


_CLOSE = 1e-9
_NO_NOISE = "no noise is needed: the guarantee holds without it"
Pairs = Laws | Iterable[Laws | Pair | tuple[object, object]]
Bounds = Bound | Sequence[Bound] | str


@final
@dataclass(frozen=True, eq=False)
class Calibration(InNotebooks):
    """A noise that keeps a guarantee, with its proof.

    `loss` is the ε (of `pf.Zcdp` ρ, of `pf.Gdp` μ) that `bound` proves; of a curve, at the order that binds.
    `sensitivity` is the movement that the noise was measured against. `witness` is the pair of laws with the largest
    loss, in that order. `certainty` says whether sensitivity and loss are exactly what the bound defines, or upper
    bounds of it.

    >>> import pufferflow as pf
    >>> pf.calibrate([(pf.Law.point(0), pf.Law.point(3))], pf.Pure(1.5), noise=pf.Laplace)
    Calibration(noise=Laplace(scale=2.0), loss=1.5, sensitivity=3.0, bound=GWM(norm=None), certainty='exact')
    """

    noise: Noise
    guarantee: Guarantee
    loss: float
    sensitivity: float
    witness: Witness
    certainty: Certainty
    bound: Bound
    note: str = field(default="")
    by_movement: bool = field(default=True, repr=False)
    """Whether `sensitivity` is a movement between the laws of all pairs, which `pf.robustness` can lengthen."""
    own_delta: float = field(default=0.0, repr=False)
    """The probability that a bound leaves out of this movement."""
    untried: tuple[Untried, ...] = field(default=(), repr=False)
    """Bounds that were not tried: too much to compare for the possible gain, or no time left."""
    deciding: tuple[Laws, ...] = field(default=(), repr=False)
    """The laws, among those given, that need this much noise: the witness belongs to one of them."""

    def _card(self) -> Card:
        facts = [
            ("guarantee", repr(self.guarantee)),
            ("noise", repr(self.noise)),
            ("loss that is proven", f"{self.loss:.6g}"),
            ("movement that is hidden", f"{self.sensitivity:.6g}"),
            ("bound", f"{self.bound!r}, {self.certainty.value.replace('_', ' ')}"),
        ]
        return Card(
            "Calibration: the least noise that keeps a guarantee",
            facts=facts,
            notes=[self.note] * bool(self.note),
        )

    def __repr__(self) -> str:
        note = f", note={self.note!r}" if self.note else ""
        return (
            f"Calibration(noise={self.noise!r}, loss={self.loss!r}, sensitivity={self.sensitivity!r}, "
            f"bound={self.bound!r}, certainty={self.certainty.value!r}{note})"
        )


def calibrate(
    pairs: Pairs,
    guarantee: Guarantee,
    noise: Family = Laplace,
    bound: Bounds = "auto",
) -> Calibration:
    """Return the least noise of a family with which an answer keeps a guarantee, for every pair in both orders.

    `pairs` are the laws of the answer under two values of a secret: a list of `(mu, nu)` or `pf.Pair`, or the result of
    `pf.laws`. `noise` is a family: `pf.Laplace`, `pf.Gaussian`, `pf.GeneralizedCauchy.of(k=4)`, `pf.Staircase`. `bound`
    is one bound, several (the least scale wins), or "auto". "auto" tries every bound that a slightly wrong prior does
    not break, so not `pf.Exact`. It also skips bounds that compare many numbers to lower the scale by less than 5 %;
    `untried` lists them. The scale is never below the least that the bound allows, and above it by at most a relative
    1e-8 (messages and quilts: 1e-6).

    >>> import pufferflow as pf
    >>> mu, nu = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])
    >>> c = pf.calibrate([(mu, nu)], pf.Pure(1.0), noise=pf.Laplace, bound=pf.GWM())
    >>> c.noise, c.loss, c.sensitivity
    (Laplace(scale=49.0), 1.0, 49.0)
    >>> round(pf.calibrate([(mu, nu)], pf.Renyi(4, 1.0), noise=pf.GeneralizedCauchy, bound=pf.DAGWM()).noise.scale, 3)
    9.735
    """
    (calibration,) = calibrate_each([(pairs, bound)], guarantee, noise)
    return calibration


def calibrate_each(
    demands: Sequence[tuple[Pairs, Bounds]],
    guarantee: Guarantee,
    noise: Family,
    end: float | None = None,
    beat: float = math.inf,
) -> list[Calibration]:
    """Return, for each of several answers, a proof that one shared noise, the least, keeps a guarantee.

    Each answer has bounds of its own. The noise is proven for all of them, even where losses rise with the scale.
    After `end`, on a monotonic clock, no further bound is tried for answers that have a proof. A scale of
    "auto" that is not below `beat` need not be the least.

    >>> import pufferflow as pf
    >>> near, far = ([(pf.Law.point(0), pf.Law.point(length))] for length in (1, 3))
    >>> both = calibrate_each([(near, pf.GWM()), (far, pf.Group())], pf.Pure(1.5), pf.Laplace)
    >>> [(found.noise.scale, found.loss) for found in both]
    [(2.0, 0.5), (2.0, 1.5)]
    """
    allowed = "a guarantee: pf.Pure, pf.Approx, pf.TradeOff, pf.Renyi, pf.RenyiCurve, pf.ApproxRenyi, pf.Zcdp or pf.Gdp"
    instance(guarantee, Guarantee, "The guarantee", allowed=allowed, instead="pf.Pure(1.0)")
    pieces = [read_laws(pairs) for pairs, _ in demands]
    family = read_family(noise, guarantee)
    bounds = [read_bounds(bound, guarantee, family(1.0)) for _, bound in demands]
    aim = Scales(guarantee, family)
    with Workers() as workers:
        least = [
            search(own, tried, aim, workers, thrifty=bound == "auto", end=end, beat=beat)
            for own, tried, (_, bound) in zip(pieces, bounds, demands, strict=True)
        ]
        scale = max(proof.value for proofs, _ in least for proof in proofs)
        every = [proof.applied for proofs, _ in least for proof in proofs]
        while True:  # a loss that is not quite monotone in the scale may need a little more
            noisy = family(scale)
            looked = looked_at(every, noisy, guarantee, workers)
            (excess, worst), every = (
                max(looked, key=lambda pair: pair[0]),
                [applied for _, applied in looked],
            )
            if excess <= 0:
                break
            scale = worst.scale_above(family, guarantee, scale * (1 + EPSILON_TOLERANCE))
    own = iter(every)
    return [
        _calibration([next(own) for _ in proofs], guarantee, noisy, untried)
        for proofs, untried in least
    ]


def proof_of(
    demands: Sequence[tuple[Laws, Bounds]], guarantee: Guarantee, noise: Noise
) -> Calibration | None:
    """Return the proof, for the first of several answers, that a noise keeps a guarantee for all; else None.

    >>> import pufferflow as pf
    >>> laws = read_laws([(pf.Law.point(0), pf.Law.point(3))])[0]
    >>> [proof_of([(laws, pf.GWM())], pf.Pure(1.5), pf.Laplace(scale)) is None for scale in (1.9999999, 2.0, 2.1)]
    [True, False, False]
    """
    proofs = [
        [
            accepted(laws, read_bounds(bound, guarantee, noise), guarantee, noise)
            for laws in read_laws(pairs)
        ]
        for pairs, bound in demands
    ]
    if any(None in own for own in proofs):
        return None
    return _calibration(
        [applied for applied in proofs[0] if applied is not None], guarantee, noise, ()
    )


def _calibration(
    every: Sequence[AppliedBound], guarantee: Guarantee, noisy: Noise, untried: Sequence[Untried]
) -> Calibration:
    """Return the calibration of a noise that applied bounds prove to be sufficient."""
    worst = [applied.worst(noisy, guarantee) for applied in every]
    place = max(range(len(every)), key=lambda i: worst[i][0])
    enough = min(worst[place][0], -_CLOSE)
    part = worst[place][1]
    cost, _, witness = max(
        part.losses(noisy, guarantee), key=lambda row: row[0] / row[1] if row[1] else math.inf
    )
    if guarantee.kind is not None and guarantee.divergence is Divergence.HOCKEY_STICK:
        cost = _least_epsilon(
            [part for applied in every for part in applied.parts], noisy, guarantee, guarantee.kind
        )
    return Calibration(
        noise=noisy,
        guarantee=guarantee,
        loss=cost,
        sensitivity=max(applied.sensitivity for applied in every),
        witness=witness,
        certainty=least_certain([applied.certainty for applied in every]),
        bound=every[place].bound,
        note=_NO_NOISE if noisy.scale == 0 else "",
        by_movement=all(applied.bound.by_movement for applied in every),
        own_delta=max(applied.own_delta for applied in every),
        untried=tuple({repr(one.bound): one for one in untried}.values()),
        deciding=tuple(
            applied.laws
            for applied, (excess, _) in zip(every, worst, strict=True)
            if excess >= enough
        ),
    )


def _least_epsilon(
    parts: Sequence[LossCurve], noise: Noise, guarantee: Guarantee, kind: GuaranteeFamily
) -> float:
    """Return the least ε that all loss curves keep at the δ of a guarantee that they keep.

    The curve with the largest δ at the guaranteed ε need not be the one with the largest ε at the guaranteed δ.
    """
    cost = 0.0
    for part in sorted(parts, key=lambda part: -part.sensitivity):
        if part.delta(noise, cost).value > kind.example.delta:
            cost = max(cost, part.least_loss(noise, kind, at_most=guarantee.epsilon))
    return cost


def loss(
    pairs: Pairs,
    noise: Noise,
    kind: AnyGuaranteeFamily,
    bound: Bounds = "auto",
    end: float | None = None,
) -> float:
    """Return the least loss proven for an answer with this noise and a kind of guarantee; ∞ if there is none.

    `kind` is a guarantee without its ε: `pf.Pure`, `pf.Renyi.of(alpha=4)`, `pf.Approx.of(delta=1e-6)`,
    `pf.TradeOff.of(delta=1e-6, tv=0.3)` or `pf.ApproxRenyi.of(alpha=4, delta=1e-6)`. The loss is ε, of `pf.Zcdp` ρ, and
    of `pf.Gdp` μ. `pairs` and `bound` are as for `calibrate`. No further bound is tried after the time `end` of a
    monotonic clock.

    >>> import pufferflow as pf
    >>> mu, nu = pf.Law([1, 2], [0.375, 0.625]), pf.Law([0, 1], [0.625, 0.375])
    >>> pf.loss([(mu, nu)], pf.Laplace(1.0), pf.Pure, bound=pf.GWM())
    2.0
    >>> round(pf.loss([(mu, nu)], pf.Laplace(1.0), pf.Pure, bound=pf.Exact()), 6)
    1.232095
    >>> round(pf.loss([(mu, nu)], pf.Laplace(1.0), pf.Renyi.of(alpha=4), bound=pf.DAGWM()), 6)
    1.397795
    """
    pieces = read_laws(pairs)
    if not isinstance(noise, Noise):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        raise UsageError(
            "The given noise has no scale.",
            allowed="a noise with its scale",
            instead="pf.Laplace(1.0)",
        )
    known = read_kind(kind)
    bounds = read_bounds(bound, known.example, noise)
    with Workers() as workers:
        proofs, _ = search(
            pieces, bounds, Epsilons(noise, known), workers, thrifty=bound == "auto", end=end
        )
    return max(one.value for one in proofs)


_MOST_SHIFTS: Final = 4_000_000
_WORTHWHILE: Final = 1 - 1e-6


@final
@dataclass(frozen=True, eq=False)
class JointCalibration(InNotebooks):
    """Joint noise that keeps a guarantee for two outputs, its proof, and the independent noise for comparison.

    `calibration` holds the proof, in the coordinates in which the noise is independent.

    >>> import pufferflow as pf
    >>> shifts = [(1, 0), (0, 1), (1, 1)]
    >>> pairs = [(pf.Law.point((0, 0)), pf.Law.point(shift)) for shift in shifts]
    >>> joint = pf.calibrate_joint(pairs, pf.Gdp(0.5))
    >>> round(joint.noise.scale, 3), round(joint.alone.scale, 3), round(joint.noise.gdp(shifts), 9)
    (2.309, 2.828, 0.5)
    """

    noise: JointGaussian
    alone: JointGaussian
    """The least independent noise with the same units."""
    calibration: Calibration

    @property
    def loss(self) -> float:
        """The loss proven for the noise."""
        return self.calibration.loss

    @property
    def gain(self) -> float:
        """The share by which joint noise is smaller than independent noise."""
        return 1 - self.noise.scale / self.alone.scale if self.alone.scale else 0.0

    def __repr__(self) -> str:
        return f"JointCalibration(noise={self.noise!r}, loss={self.loss!r}, gain={self.gain!r})"


def calibrate_joint(
    pairs: Pairs,
    guarantee: Guarantee,
    bound: Bounds = "auto",
    units: tuple[float, float] | None = None,
) -> JointCalibration:
    """Return the least Gaussian noise for two outputs of one batch, correlated where that needs less noise.

    The laws have two coordinates. `units` are the standard deviations of both outputs at scale 1, in proportion. By
    default they are how far each output can move. The correlation is the best one for all shifts between the supports.
    For any correlation the proof is that of `pf.calibrate`, in the coordinates in which the noise is independent.

    >>> import pufferflow as pf
    >>> sums = pf.Law([(0, 0), (1, 0), (0, 1), (1, 1)], [0.25] * 4)  # a row may be in either of two sums, or in both
    >>> joint = pf.calibrate_joint([(pf.Law.point((0, 0)), sums)], pf.Renyi(4, 1.0), bound=pf.GWM())
    >>> round(joint.noise.rho, 3), round(joint.gain, 3)
    (0.5, 0.184)
    """
    listed = [pair for laws in read_laws(pairs) for pair in laws]
    shifts = np.concatenate([_shifts_of(pair) for pair in listed])
    ranges = np.abs(shifts).max(axis=0)
    if not (ranges > 0).all():
        raise Refused(
            "One of the two outputs does not move, so joint noise cannot be less than independent noise.",
            allowed="two outputs that the secret moves",
            instead="pf.calibrate for the other output, with noise=pf.Gaussian",
        )
    own = (float(ranges[0]), float(ranges[1])) if units is None else units
    alone = JointGaussian(1.0, own)
    least = _calibrated(listed, guarantee, alone, bound)
    independent = alone.at(least.noise.scale)
    rho = best_rho(shifts, own)
    if rho:
        joint = JointGaussian(1.0, own, rho)
        found = _calibrated(listed, guarantee, joint, bound)
        if found.noise.scale < least.noise.scale * _WORTHWHILE:
            return JointCalibration(joint.at(found.noise.scale), independent, found)
    return JointCalibration(independent, independent, least)


def _calibrated(
    pairs: list[Pair], guarantee: Guarantee, unit: JointGaussian, bound: Bounds
) -> Calibration:
    """Return the calibration of independent noise in the coordinates of a joint noise."""

    def moved(law: Law) -> Law:
        return law.map(unit.transformed)

    laws = (finite_laws(pair) for pair in pairs)
    return calibrate([Pair(moved(mu), moved(nu)) for mu, nu in laws], guarantee, Gaussian, bound)


def _shifts_of(pair: Pair) -> Array:
    """Return the distinct shifts between the supports of two laws."""
    mu, nu = finite_laws(pair)
    if mu.dimension != 2:
        raise Refused(
            f"Joint noise needs an answer of two coordinates, and this one has {mu.dimension}.",
            allowed="laws of two outputs together",
            instead="pf.calibrate, with noise=pf.Gaussian",
        )
    if len(mu) * len(nu) > _MOST_SHIFTS:
        raise Refused(
            "The laws of a pair have too many atoms to list all shifts between them.",
            allowed=f"at most {_MOST_SHIFTS} pairs of atoms",
            instead="pf.calibrate, with noise=pf.Gaussian",
        )
    return np.unique(all_differences(mu, nu).reshape(-1, 2), axis=0)
