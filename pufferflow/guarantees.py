"""What a release promises: pure, approximate, Rényi and approximate Rényi Pufferfish privacy.

Each bounds a divergence between the laws of the output under the two secrets of any pair, in both orders. Conversions
are M29 and the tight two-point bounds behind it; every converted number is rounded up.

A promise about errors: how far noise may take an answer.
"""

import abc
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast, final

import msgspec
from msgspec.structs import force_setattr

from pufferflow.arguments import finite_number, finite_number_at_least_zero, order_above_one, probability_below_one
from pufferflow.errors import Misuse, Refused
from pufferflow.rounding import SMALLEST, UNIT
from pufferflow.suggestions import explained, made

DEFAULT_ORDERS: tuple[float, ...] = (
    *(1.0 + n / 64 for n in range(1, 64)),
    *(2.0 + n / 4 for n in range(32)),
    *(float(n) for n in range(10, 64)),
    *(64.0 * 2 ** (n / 4) for n in range(25)),
)
"""The Rényi orders tried where none are named: 1 + 1/64 to 4096, densest where everyday promises convert best."""


Kind = Callable[[float], "Guarantee"]
"""A promise without its ε: `Pure` itself, `Renyi.of(alpha=4)`, `Approx.of(delta=1e-6)`; given an ε it is a promise."""

_SHOWN = 6


class _AbstractStruct(msgspec.StructMeta, abc.ABCMeta):
    """The metaclass of structs that have abstract methods."""

    if not TYPE_CHECKING:  # which knows what each struct takes

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return made(cls, super().__call__, args, kwargs)


class Guarantee(msgspec.Struct, frozen=True, tag_field="promise", tag=True, metaclass=_AbstractStruct):
    """Base of the promises: convert one with `to_approx`, compare two with `implies`, store one with `to_json`."""

    def approx_epsilon(self, delta: float) -> float:
        """Return an ε for which (ε, delta)-privacy follows, the least one known; infinite where none follows."""
        return self._approx(probability_below_one(delta, "delta"))

    def renyi_epsilon(self, alpha: float, delta: float = 0.0) -> float:
        """Return an ε for which (alpha, ε, delta)-approximate Rényi privacy follows; infinite where none follows."""
        return self._renyi(order_above_one(alpha), probability_below_one(delta, "delta"))

    @abc.abstractmethod
    def follows_from(self, other: "Guarantee") -> bool:
        """Say whether `other` is strong enough for this promise."""

    @abc.abstractmethod
    def _approx(self, delta: float) -> float:
        """Return `approx_epsilon` for a valid delta."""

    @abc.abstractmethod
    def _renyi(self, alpha: float, delta: float) -> float:
        """Return `renyi_epsilon` for a valid order and delta."""

    def to_approx(self, delta: float) -> "Approx":
        """Return the (ε, delta) promise that follows from this one, with the least ε known (M29).

        `delta` is that of the result, so it is at least the promise's own; a promise of one or more finite Rényi
        orders gives no ε for delta 0.

        >>> Renyi(alpha=8, epsilon=1).to_approx(1e-3)
        Approx(epsilon=1.556227712704..., delta=0.001)
        """
        delta = probability_below_one(delta, "delta")
        epsilon = self.approx_epsilon(delta)
        if epsilon == math.inf:
            raise Refused(
                f"{self!r} gives no finite epsilon at delta={delta:g}.",
                allowed="a delta above 0, and not below the promise's own",
                instead=f"to_approx({self._enough_delta():g})",
            )
        return Approx(epsilon, delta)

    def _enough_delta(self) -> float:
        """Return a delta for which some ε follows."""
        return 1e-6

    def implies(self, other: "Guarantee") -> bool:
        """Say whether everything that keeps this promise provably keeps the other, by the conversions known here.

        >>> Pure(1).implies(Renyi(alpha=2, epsilon=1)), Renyi(alpha=2, epsilon=1).implies(Pure(1))
        (True, False)
        """
        if not isinstance(other, Guarantee):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise Misuse(
                f"A promise is compared with {type(other).__name__}.", allowed="another promise", instead="pf.Pure(1.0)"
            )
        return self == other or other.follows_from(self)

    def to_json(self) -> str:
        """Return the promise as JSON text, which `from_json` reads back unchanged."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the promise that `to_json` wrote; called on one kind, it takes only that kind.

        >>> Guarantee.from_json(Pure(1).to_json())
        Pure(epsilon=1.0)
        """
        try:
            guarantee = msgspec.json.decode(text, type=Pure | Approx | Renyi | RenyiCurve | ApproxRenyi)
        except (ValueError, TypeError, RecursionError) as error:
            raise Misuse(
                f"The text is no stored promise: {str(error).splitlines()[0]}",
                allowed="what to_json wrote",
                instead="pf.Pure(1.0).to_json()",
            ) from error
        if not isinstance(guarantee, cls):
            raise Misuse(
                f"The text stores a promise of kind {type(guarantee).__name__}.",
                allowed=f"a stored {cls.__name__}",
                instead="pf.Guarantee.from_json, which takes every kind",
            )
        return guarantee


@final
class Pure(Guarantee, frozen=True, forbid_unknown_fields=True):
    """ε-Pufferfish privacy: no event is more than e^ε times as likely under one secret as under the other.

    >>> Pure(1.0)
    Pure(epsilon=1.0)
    """

    epsilon: float

    def __post_init__(self) -> None:
        force_setattr(self, "epsilon", finite_number_at_least_zero(self.epsilon, "epsilon"))

    def _approx(self, delta: float) -> float:
        """Return log(e^ε − δ(1+e^ε)), the loss of randomised response, which no ε-private pair exceeds."""
        return _two_point_epsilon(self.epsilon, delta)

    def _renyi(self, alpha: float, delta: float) -> float:
        """Return the Rényi divergence of randomised response, below min(ε, αε²/2) (M29); δ is not needed."""
        del delta
        return _two_point_renyi(self.epsilon, alpha)

    def follows_from(self, other: Guarantee) -> bool:
        """Say whether `other` is strong enough, by its best conversion to this kind."""
        return other.approx_epsilon(0.0) <= self.epsilon


@final
class Approx(Guarantee, frozen=True, forbid_unknown_fields=True):
    """(ε, δ)-Pufferfish privacy: P(S) ≤ e^ε·Q(S) + δ for every event S, in both orders.

    >>> Approx(1.0, 1e-6)
    Approx(epsilon=1.0, delta=1e-06)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        force_setattr(self, "epsilon", finite_number_at_least_zero(self.epsilon, "epsilon"))
        force_setattr(self, "delta", probability_below_one(self.delta, "delta"))

    @classmethod
    def of(cls, delta: float) -> Kind:
        """Return the kind of promise with this δ and an ε yet to be found, for `pf.loss`.

        >>> Approx.of(delta=1e-6)(1.0)
        Approx(epsilon=1.0, delta=1e-06)
        """
        return partial(cls, delta=cls(0.0, delta).delta)

    def _approx(self, delta: float) -> float:
        """Spend what `delta` exceeds the promise's own on a smaller ε, by the dominating pair of (ε, δ)."""
        spare = _spare_delta(delta, self.delta)
        return math.inf if spare is None else _two_point_epsilon(self.epsilon, spare)

    def _enough_delta(self) -> float:
        return self.delta

    def _renyi(self, alpha: float, delta: float) -> float:
        """Return the divergence left after cutting off δ: an (ε, δ) pair is a mixture of an ε pair and the rest."""
        return _two_point_renyi(self.epsilon, alpha) if delta >= self.delta else math.inf

    def follows_from(self, other: Guarantee) -> bool:
        """Say whether `other` is strong enough, by its best conversion to this kind."""
        return other.approx_epsilon(self.delta) <= self.epsilon


@final
class Renyi(Guarantee, frozen=True, forbid_unknown_fields=True):
    """(α, ε)-Rényi Pufferfish privacy: the Rényi divergence of order α is at most ε, in both orders.

    >>> Renyi(alpha=4, epsilon=0.5)
    Renyi(alpha=4.0, epsilon=0.5)
    """

    alpha: float
    epsilon: float

    def __post_init__(self) -> None:
        force_setattr(self, "alpha", order_above_one(self.alpha))
        force_setattr(self, "epsilon", finite_number_at_least_zero(self.epsilon, "epsilon"))

    @classmethod
    def of(cls, alpha: float) -> Kind:
        """Return the kind of promise of this order with an ε yet to be found, for `pf.loss`.

        >>> Renyi.of(alpha=4)(0.5)
        Renyi(alpha=4.0, epsilon=0.5)
        """
        return partial(cls, cls(alpha, 0.0).alpha)

    def _approx(self, delta: float) -> float:
        """Return ε + log((α−1)/α) − (log δ + log α)/(α−1), clipped at 0 (M29)."""
        return _renyi_to_approx(self.alpha, self.epsilon, delta)

    def _renyi(self, alpha: float, delta: float) -> float:
        """Return ε for every order up to α, where the divergence can only be smaller."""
        del delta
        return self.epsilon if alpha <= self.alpha else math.inf

    def follows_from(self, other: Guarantee) -> bool:
        """Say whether `other` is strong enough, by its best conversion to this kind."""
        return other.renyi_epsilon(self.alpha) <= self.epsilon


@final
class RenyiCurve(Guarantee, frozen=True, forbid_unknown_fields=True):
    """Rényi Pufferfish privacy of several orders at once; `to_approx` uses the order that converts best.

    >>> RenyiCurve.of(lambda alpha: alpha / 8).to_approx(1e-6)
    Approx(epsilon=2.4..., delta=1e-06)
    """

    alphas: Sequence[float]
    epsilons: Sequence[float]

    def __post_init__(self) -> None:
        orders, epsilons = _members(self.alphas), _members(self.epsilons)
        if not orders or len(orders) != len(epsilons):
            raise Misuse(
                f"{len(orders)} orders and {len(epsilons)} epsilons.",
                allowed="as many epsilons as orders, at least one",
                instead="RenyiCurve([2, 4], [0.5, 1.0])",
            )
        pairs = sorted(
            zip(
                map(order_above_one, orders),
                (finite_number_at_least_zero(value, "epsilon") for value in epsilons),
                strict=True,
            )
        )
        force_setattr(self, "alphas", tuple(alpha for alpha, _ in pairs))
        force_setattr(self, "epsilons", tuple(epsilon for _, epsilon in pairs))

    @classmethod
    def of(cls, loss: Callable[[float], float], alphas: Iterable[float] = DEFAULT_ORDERS) -> "RenyiCurve":
        """Return the curve of a loss function, ε = loss(α), at the given orders."""
        orders = tuple(alphas)
        return cls(orders, tuple(loss(alpha) for alpha in orders))

    def _approx(self, delta: float) -> float:
        """Return the least ε over the orders (M29)."""
        return min(_renyi_to_approx(alpha, epsilon, delta) for alpha, epsilon in self._orders())

    def _renyi(self, alpha: float, delta: float) -> float:
        """Return the least ε among the orders not below alpha."""
        del delta
        return min((epsilon for order, epsilon in self._orders() if alpha <= order), default=math.inf)

    def follows_from(self, other: Guarantee) -> bool:
        """Say whether `other` is strong enough, by its best conversion to this kind."""
        return all(other.renyi_epsilon(alpha) <= epsilon for alpha, epsilon in self._orders())

    def __repr__(self) -> str:
        """Show a short curve as it could be typed, a long one by its range."""
        if len(self.alphas) <= _SHOWN:
            return f"RenyiCurve(alphas={self.alphas!r}, epsilons={self.epsilons!r})"
        return f"<RenyiCurve of {len(self.alphas)} orders, {self.alphas[0]:g} to {self.alphas[-1]:g}>"

    def _orders(self) -> Iterable[tuple[float, float]]:
        return zip(self.alphas, self.epsilons, strict=True)


@final
class ApproxRenyi(Guarantee, frozen=True, forbid_unknown_fields=True):
    """(α, ε, δ)-approximate Rényi privacy: outside an event of probability δ under each secret, (α, ε)-Rényi privacy.

    >>> ApproxRenyi(alpha=10, epsilon=0.5, delta=1e-3).to_approx(2e-3)
    Approx(epsilon=0.9062..., delta=0.002)
    """

    alpha: float
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        force_setattr(self, "alpha", order_above_one(self.alpha))
        force_setattr(self, "epsilon", finite_number_at_least_zero(self.epsilon, "epsilon"))
        force_setattr(self, "delta", probability_below_one(self.delta, "delta"))

    @classmethod
    def of(cls, alpha: float, delta: float) -> Kind:
        """Return the kind of promise of this order and δ with an ε yet to be found, for `pf.loss`.

        >>> ApproxRenyi.of(alpha=10, delta=1e-3)(0.5)
        ApproxRenyi(alpha=10.0, epsilon=0.5, delta=0.001)
        """
        example = cls(alpha, 0.0, delta)
        return partial(cls, example.alpha, delta=example.delta)

    def _approx(self, delta: float) -> float:
        """Return ε'(δ') for the δ' with δ + (1−δ)δ' = delta (M29)."""
        spare = _spare_delta(delta, self.delta)
        return math.inf if spare is None else _renyi_to_approx(self.alpha, self.epsilon, spare)

    def _renyi(self, alpha: float, delta: float) -> float:
        """Return ε for every order up to α, if as much may be cut off as the promise cuts off."""
        return self.epsilon if alpha <= self.alpha and delta >= self.delta else math.inf

    def _enough_delta(self) -> float:
        return float(f"{self.delta + (1 - self.delta) / 2:.3g}")

    def follows_from(self, other: Guarantee) -> bool:
        """Say whether `other` is strong enough, by its best conversion to this kind."""
        return other.renyi_epsilon(self.alpha, self.delta) <= self.epsilon


def kind_of(guarantee: Guarantee) -> Kind | None:
    """Return a promise without its ε; None if it has several.

    >>> kind_of(Renyi(alpha=4, epsilon=0.5))(1.0)
    Renyi(alpha=4.0, epsilon=1.0)
    """
    match guarantee:
        case Pure():
            return Pure
        case Approx(_, delta):
            return Approx.of(delta)
        case Renyi(alpha, _):
            return Renyi.of(alpha)
        case ApproxRenyi(alpha, _, delta):
            return ApproxRenyi.of(alpha, delta)
        case _:
            return None


def _members(numbers: object) -> tuple[object, ...]:
    return tuple(cast(Iterable[object], numbers)) if isinstance(numbers, Iterable) else ()


def _spare_delta(delta: float, own: float) -> float | None:
    """Return δ' with own + (1−own)·δ' ≤ delta, rounded down; None if delta is below own."""
    if delta < own:
        return None
    return max(0.0, (delta - own) / (1 - own) * (1 - 2 * UNIT)) if own else delta


def _rounded_up(terms: tuple[float, ...]) -> float:
    """Return the sum of terms that each err by a few units in the last place, not below the exact sum nor below 0."""
    return max(0.0, math.fsum(terms) + 4 * UNIT * sum(map(abs, terms)))


def _two_point_epsilon(epsilon: float, delta: float) -> float:
    """Return the ε' at which randomised response of loss ε has hockey-stick divergence δ: log(e^ε − δ(1+e^ε))."""
    if delta == 0:
        return epsilon
    small = math.exp(-epsilon)
    if delta < 0.5:
        return min(epsilon, _rounded_up((epsilon, math.log1p(-delta * (1 + small)))))
    kept = (1 - delta) - delta * small + 4 * UNIT * (1 - delta + delta * small)  # rounded up before the logarithm
    return min(epsilon, _rounded_up((epsilon, math.log(kept)))) if kept > 0 else 0.0


def _two_point_renyi(epsilon: float, alpha: float) -> float:
    """Return D_α of randomised response, log((e^{αε}+e^{(1−α)ε})/(1+e^ε))/(α−1), if rounding leaves it below M29's."""
    if epsilon == 0:
        return 0.0
    head, tail = math.log1p(math.exp((1 - 2 * alpha) * epsilon)), math.log1p(math.exp(-epsilon))
    tight = _rounded_up((epsilon, head / (alpha - 1), -tail / (alpha - 1)))
    square = alpha * epsilon * epsilon / 2 * (1 + 4 * UNIT)
    return max(min(epsilon, square, tight), SMALLEST)


def _renyi_to_approx(alpha: float, epsilon: float, delta: float) -> float:
    if delta == 0:
        return math.inf
    reciprocal = 1 / (alpha - 1)
    shrinking = math.log(alpha - 1), -math.log(alpha)
    return _rounded_up((epsilon, *shrinking, -math.log(delta) * reciprocal, -math.log(alpha) * reciprocal))


@final
@explained
@dataclass(frozen=True)
class Within:
    """Each answer, by itself, is within `error` of what it would be without noise, with probability `confidence`.

    >>> Within(5, confidence=0.95)
    Within(error=5.0, confidence=0.95)
    """

    error: float
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Read both numbers."""
        error = finite_number(self.error, "error", allowed="a finite number > 0", instead="pf.Within(5)")
        allowed, instead = "a number between 0 and 1", "pf.Within(5, confidence=0.95)"
        confidence = finite_number(self.confidence, "confidence", allowed=allowed, instead=instead)
        if error <= 0:
            raise Misuse(f"error is {error:g}.", allowed="a finite number > 0", instead="pf.Within(5)")
        if not 0 < confidence < 1:
            raise Misuse(f"confidence is {confidence:g}.", allowed=allowed, instead=instead)
        object.__setattr__(self, "error", error)
        object.__setattr__(self, "confidence", confidence)
