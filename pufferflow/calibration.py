"""The least noise that keeps a promise, and the least promise that a noise keeps."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast, final

from pufferflow.bounds import DAGWM, GAWM, GWM, Bound, Kantorovich, Pair, Part, read_pairs
from pufferflow.errors import Misuse, Refused
from pufferflow.guarantees import Approx, ApproxRenyi, Guarantee, Kind, Pure, RenyiCurve
from pufferflow.noise import Family, Laplace, Noise
from pufferflow.roots import smallest
from pufferflow.transport import Certainty

_EPSILON_TOLERANCE = 1e-9
_NO_NOISE = "no noise is needed: without any the promise holds already"
Pairs = Iterable[Pair | tuple[object, object]]


@final
@dataclass(frozen=True, eq=False)
class Calibration:
    """A noise that keeps a promise, and why.

    `loss` is the ε that `bound` proves for it (of a curve: at the order that binds), `sensitivity` the movement the
    noise was measured against, `witness` the pair, in the order, that costs most, and `certainty` whether sensitivity
    and loss are what the bound is about, or upper bounds of it.

    >>> import pufferflow as pf
    >>> pf.calibrate([(pf.Law.point(0), pf.Law.point(3))], pf.Pure(1.5), noise=pf.Laplace)
    Calibration(noise=Laplace(scale=2.0), loss=1.5, sensitivity=3.0, bound=GWM(norm=None), certainty='exact')
    """

    noise: Noise
    guarantee: Guarantee
    loss: float
    sensitivity: float
    witness: Pair
    certainty: Certainty
    bound: Bound
    note: str = field(default="")

    def __repr__(self) -> str:
        """Show what was found, without the laws."""
        note = f", note={self.note!r}" if self.note else ""
        return (
            f"Calibration(noise={self.noise!r}, loss={self.loss!r}, sensitivity={self.sensitivity!r}, "
            f"bound={self.bound!r}, certainty={self.certainty.value!r}{note})"
        )


def calibrate(
    pairs: Pairs,
    guarantee: Guarantee,
    noise: Family = Laplace,
    bound: Bound | Sequence[Bound] | str = "auto",
) -> Calibration:
    """Return the least noise of a family with which an answer keeps a promise, whatever the pair and its order.

    `pairs` are the laws of the answer under two values of a secret, `(mu, nu)` or `pf.Pair`; each is taken in both
    orders. `noise` is a family: `pf.Laplace`, `pf.Gaussian`, `pf.GeneralizedCauchy.of(k=4)`, `pf.Staircase`. `bound` is
    one bound, several (the least scale wins), or "auto": every bound that a slightly wrong prior does not break, which
    leaves out `pf.Exact`. The scale is never below the least that the bound allows, and above it by no more than a
    relative 1e-8.

    >>> import pufferflow as pf
    >>> mu, nu = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])
    >>> c = pf.calibrate([(mu, nu)], pf.Pure(1.0), noise=pf.Laplace, bound=pf.GWM())
    >>> c.noise, c.loss, c.sensitivity
    (Laplace(scale=49.0), 1.0, 49.0)
    >>> round(pf.calibrate([(mu, nu)], pf.Renyi(4, 1.0), noise=pf.GeneralizedCauchy, bound=pf.DAGWM()).noise.scale, 3)
    9.735
    """
    read = read_pairs(pairs)
    if not isinstance(guarantee, Guarantee):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        raise Misuse(
            f"The promise is of type {type(guarantee).__name__}.",
            allowed="pf.Pure, pf.Approx, pf.Renyi, pf.RenyiCurve or pf.ApproxRenyi",
            instead="pf.Pure(1.0)",
        )
    family = _read_family(noise, guarantee)
    found: list[Calibration] = []
    refusals: list[Refused] = []
    for one in _read_bounds(bound, guarantee):
        try:
            found.append(_with_bound(one, read, guarantee, family))
        except Refused as refusal:
            refusals.append(refusal)
    if not found:
        raise refusals[0]
    return min(found, key=lambda calibration: calibration.noise.scale)


def loss(pairs: Pairs, noise: Noise, kind: Kind, bound: Bound | Sequence[Bound] | str = "auto") -> float:
    """Return the least ε for which an answer with this noise provably keeps a promise of this kind; ∞ if none does.

    `kind` is a promise without its ε: `pf.Pure`, `pf.Renyi.of(alpha=4)`, `pf.Approx.of(delta=1e-6)` or
    `pf.ApproxRenyi.of(alpha=4, delta=1e-6)`. `pairs` and `bound` are as for `calibrate`.

    >>> import pufferflow as pf
    >>> mu, nu = pf.Law([1, 2], [0.375, 0.625]), pf.Law([0, 1], [0.625, 0.375])
    >>> pf.loss([(mu, nu)], pf.Laplace(1.0), pf.Pure, bound=pf.GWM())
    2.0
    >>> round(pf.loss([(mu, nu)], pf.Laplace(1.0), pf.Pure, bound=pf.Exact()), 6)
    1.232095
    >>> round(pf.loss([(mu, nu)], pf.Laplace(1.0), pf.Renyi.of(alpha=4), bound=pf.DAGWM()), 6)
    1.397795
    """
    read = read_pairs(pairs)
    if not isinstance(noise, Noise):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        raise Misuse(
            "The noise is no noise with a scale.", allowed="a noise, as pf.Laplace(1.0)", instead="pf.Laplace(1.0)"
        )
    example = _read_kind(kind)
    found: list[float] = []
    refusals: list[Refused] = []
    for one in _read_bounds(bound, example):
        try:
            parts = one.parts(read, noise)
            for part in parts:
                part.check(example)
            found.append(max(_epsilon(part, noise, kind) for part in parts))
        except Refused as refusal:
            refusals.append(refusal)
    if not found:
        raise refusals[0]
    return min(found)


def _with_bound(bound: Bound, pairs: list[Pair], guarantee: Guarantee, family: Family) -> Calibration:
    """Calibrate to the part that moves farthest, then as often as another part still costs too much."""
    parts = sorted(bound.parts(pairs, family(1.0)), key=lambda part: -part.sensitivity)
    scale = parts[0].least_scale(family, guarantee)
    while True:
        noise = family(scale)
        excesses = [part.excess(noise, guarantee) for part in parts]
        worst = max(range(len(parts)), key=excesses.__getitem__)
        if excesses[worst] <= 0:
            break
        scale = max(parts[worst].least_scale(family, guarantee), scale * (1 + _EPSILON_TOLERANCE))
    part = parts[worst]
    cost, _, witness = max(part.losses(noise, guarantee), key=lambda row: row[0] / row[1] if row[1] else math.inf)
    if isinstance(guarantee, Approx):
        cost = _epsilon(part, noise, Approx.of(guarantee.delta), at_most=guarantee.epsilon)
    certain = all(part.certainty == Certainty.EXACT for part in parts)
    return Calibration(
        noise=noise,
        guarantee=guarantee,
        loss=cost,
        sensitivity=max(part.sensitivity for part in parts),
        witness=witness,
        certainty=Certainty.EXACT if certain else Certainty.UPPER_BOUND,
        bound=bound,
        note=_NO_NOISE if scale == 0 else "",
    )


def _epsilon(part: Part, noise: Noise, kind: Kind, at_most: float | None = None) -> float:
    """Return the least ε with which a part keeps the promise."""
    example = kind(0.0)
    if not isinstance(example, Approx):
        ((value, _, _),) = part.losses(noise, example)
        return value
    delta = example.delta
    if part.delta(noise, 0.0).value <= delta:
        return 0.0
    high = at_most
    if high is None:
        high = part.pure(noise).value
        if high == math.inf:
            high = 1.0
            while part.delta(noise, high).value > delta:
                high *= 4
                if high > 1e15:
                    return math.inf
    if part.delta(noise, high).value > delta:
        return high  # by rounding alone: it is the pure loss, or was checked
    return smallest(lambda epsilon: _excess(part.delta(noise, epsilon).value, delta), high, _EPSILON_TOLERANCE)


def _excess(value: float, allowed: float) -> float:
    if value <= allowed:
        return -math.inf if value == 0 or allowed == 0 else math.log(value) - math.log(allowed)
    return math.inf if allowed == 0 else max(math.log(value) - math.log(allowed), 5e-324)


def _read_family(noise: Any, guarantee: Guarantee) -> Family:
    if isinstance(noise, type) and issubclass(noise, Noise):
        return noise.family(guarantee)
    if isinstance(noise, Noise) or not callable(cast(object, noise)):
        kind = type(cast(object, noise)).__name__
        raise Misuse(
            f"noise is {noise!r}." if isinstance(noise, Noise) else f"noise is of type {kind}.",
            allowed="a family of noises, whose scale is to be found",
            instead=f"noise=pf.{kind if isinstance(noise, Noise) else 'Laplace'}, without a scale",
        )
    return cast(Family, noise)


def _read_bounds(bound: Any, guarantee: Guarantee) -> list[Bound]:
    if isinstance(bound, Bound):
        return [bound]
    if isinstance(bound, str) and bound == "auto":
        return _every_robust(guarantee)
    if isinstance(bound, list | tuple) and bound and all(isinstance(one, Bound) for one in cast(list[Any], bound)):
        return list(cast(list[Bound], bound))
    given = repr(bound) if isinstance(bound, str) else f"of type {type(cast(object, bound)).__name__}"
    if isinstance(bound, type):
        given = f"the class {bound.__name__}, which is no bound yet"
    raise Misuse(
        f"bound is {given}.",
        allowed='"auto", a bound such as pf.GWM(), or a list of bounds',
        instead='bound=[pf.DAGWM(), pf.Exact()], or bound="auto"',
    )


def _every_robust(guarantee: Guarantee) -> list[Bound]:
    """Return the bounds worth trying for a promise that a slightly wrong prior does not break."""
    if isinstance(guarantee, Pure):
        return [GWM(), Kantorovich()]
    if isinstance(guarantee, Approx | ApproxRenyi) and guarantee.delta > 0:
        return [DAGWM(), GAWM(guarantee.delta)]
    return [DAGWM()]


def _read_kind(kind: Any) -> Guarantee:
    allowed, instead = "a promise without its epsilon", "pf.Pure, pf.Renyi.of(alpha=4) or pf.Approx.of(delta=1e-6)"
    if isinstance(kind, Guarantee):
        raise Misuse(f"kind is {kind!r}, a promise with its epsilon.", allowed=allowed, instead=instead)
    if kind is RenyiCurve or not callable(kind):
        name = "RenyiCurve" if kind is RenyiCurve else f"of type {type(kind).__name__}"
        raise Misuse(f"kind is {name}.", allowed=allowed, instead=instead)
    try:
        example = kind(0.0)
    except TypeError as error:
        raise Misuse(
            f"kind is {getattr(kind, '__name__', 'a function')}, which needs more than an epsilon.",
            allowed=allowed,
            instead=instead,
        ) from error
    if not isinstance(example, Guarantee):
        raise Misuse("kind makes no promise.", allowed=allowed, instead=instead)
    return example
