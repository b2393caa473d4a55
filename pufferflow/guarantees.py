"""What a release promises: pure, approximate, Rényi and approximate Rényi Pufferfish privacy.

Each bounds a divergence between the laws of the output under the two secrets of any pair, in both orders. What
a promise is converted to is rounded up.
"""
# a promise's own number stands in for the base's property:
# pyright: reportIncompatibleMethodOverride=false

import abc
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, cast, final

import msgspec
from msgspec.structs import force_setattr

from pufferflow.arguments import finite_number_at_least_zero, order_above_one, probability_below_one
from pufferflow.conversions import DEFAULT_ORDERS, renyi_to_approx, spare_delta, two_point_epsilon, two_point_renyi
from pufferflow.errors import Misuse, Refused
from pufferflow.rounding import UNIT, float_above
from pufferflow.suggestions import make_struct

_READERS: Final[Mapping[str, Callable[[object], float]]] = {
    "alpha": order_above_one,
    "epsilon": lambda given: finite_number_at_least_zero(given, "epsilon"),
    "delta": lambda given: probability_below_one(given, "delta"),
}
"""How the numbers of promises are read, by their names."""


class Divergence(Enum):
    """What a promise bounds between the laws of the output under two secrets: a log ratio, a mass, or of one order."""

    LOG_RATIO = auto()
    HOCKEY_STICK = auto()
    RENYI = auto()


class _AbstractStruct(msgspec.StructMeta, abc.ABCMeta):
    """The metaclass of structs that have abstract methods."""

    if not TYPE_CHECKING:  # which knows what each struct takes

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return make_struct(cls, super().__call__, args, kwargs)


class Guarantee(msgspec.Struct, frozen=True, tag_field="promise", tag=True, metaclass=_AbstractStruct):
    """Base of the promises: convert one with `to_approx`, compare two with `implies`, store one with `to_json`.

    To add one, write a final struct with numbers, divergence, words and conversions, and name it in `Promise`.
    """

    divergence: ClassVar[Divergence]
    words: ClassVar[str]
    """What the promise means, with places for its numbers."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            force_setattr(self, name, _READERS[name](getattr(self, name)))

    @property
    def epsilon(self) -> float:
        """The promise's ε; infinite if it has several."""
        return math.inf

    @property
    def delta(self) -> float:
        """The promise's δ, the probability that it leaves out; 0 if it has none."""
        return 0.0

    @property
    def alpha(self) -> float:
        """The promise's Rényi order; infinite if it is not about a single one."""
        return math.inf

    @property
    def kind(self) -> "Kind | None":
        """The promise without its ε; None if it has several.

        >>> Renyi(alpha=4, epsilon=0.5).kind.at(1.0)
        Renyi(alpha=4.0, epsilon=1.0)
        """
        return Kind(self.with_epsilons([0.0]))

    @property
    def singles(self) -> "Sequence[Guarantee]":
        """The promises with a single ε that are promised together: the promise itself, if it has one ε."""
        return (self,)

    def with_epsilons(self, epsilons: Sequence[float]) -> "Guarantee":
        """Return a promise like this one with an ε for each of its `singles`."""
        (epsilon,) = epsilons
        return msgspec.structs.replace(self, epsilon=epsilon)

    def stretched(self, ratio: float) -> "Guarantee | None":
        """Return what is left if all likelihoods may be off by e^ratio either way (M30); None if that is not known."""
        return None

    def in_words(self, number: Callable[[float], str], fold: Callable[[float], str]) -> str:
        """Say what the promise means; `number` writes a number, `fold` writes e to the power of one."""
        odds = "" if self.divergence is Divergence.RENYI else fold(self.epsilon)
        epsilon, delta = number(self.epsilon), number(self.delta)
        return self.words.format(
            epsilon=epsilon, delta=delta, alpha=f"{self.alpha:g}", orders=len(self.singles), odds=odds
        )

    def approx_epsilon(self, delta: float) -> float:
        """Return an ε for which (ε, delta)-privacy follows, the least one known; infinite where none follows."""
        return self._approx(probability_below_one(delta, "delta"))

    def renyi_epsilon(self, alpha: float, delta: float = 0.0) -> float:
        """Return an ε for which (alpha, ε, delta)-approximate Rényi privacy follows; infinite where none follows."""
        return self._renyi(order_above_one(alpha), probability_below_one(delta, "delta"))

    def follows_from(self, other: "Guarantee") -> bool:
        """Say whether `other` is strong enough for this promise, by its best conversions."""
        return all(Kind(one).epsilon_from(other) <= one.epsilon for one in self.singles)

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
            guarantee = msgspec.json.decode(text, type=Promise)
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
@dataclass(frozen=True)
class Kind:
    """A promise without its ε, as `Renyi.of(alpha=4)`, shown by an `example`; called with an ε it gives the promise."""

    example: Guarantee

    def at(self, epsilon: float) -> Guarantee:
        """Return the promise with this ε."""
        return self.example.with_epsilons([epsilon])

    __call__ = at

    def with_delta(self, delta: float) -> "Kind":
        """Return the kind with another δ."""
        return Kind(msgspec.structs.replace(self.example, delta=delta))

    def epsilon_from(self, guarantee: Guarantee) -> float:
        """Return the least ε known with which a promise of this kind follows from another promise; ∞ if none does."""
        own = self.example
        if own.divergence is Divergence.RENYI:
            return guarantee.renyi_epsilon(own.alpha, own.delta)
        return guarantee.approx_epsilon(own.delta)


AnyKind = Callable[[float], Guarantee]
"""What the door takes for a kind of promise: a `Kind`, or `Pure` itself."""


@final
class Pure(Guarantee, frozen=True, forbid_unknown_fields=True):
    """ε-Pufferfish privacy: no event is more than e^ε times as likely under one secret as under the other.

    >>> Pure(1.0)
    Pure(epsilon=1.0)
    """

    divergence = Divergence.LOG_RATIO
    words = (
        "epsilon {epsilon} for all answers together: whoever sees the answers changes the odds between two such "
        "secrets at most {odds}-fold"
    )
    epsilon: float

    def _approx(self, delta: float) -> float:
        """Return log(e^ε − δ(1+e^ε)), the loss of randomised response, which no ε-private pair exceeds."""
        return two_point_epsilon(self.epsilon, delta)

    def _renyi(self, alpha: float, delta: float) -> float:
        """Return the Rényi divergence of randomised response, below min(ε, αε²/2) (M29); δ is not needed."""
        return two_point_renyi(self.epsilon, alpha)

    def stretched(self, ratio: float) -> Guarantee:
        return Pure(_sum_above(self.epsilon, 2 * ratio))


PURE: Final = Kind(Pure(0.0))


@final
class Approx(Guarantee, frozen=True, forbid_unknown_fields=True):
    """(ε, δ)-Pufferfish privacy: P(S) ≤ e^ε·Q(S) + δ for every event S, in both orders.

    >>> Approx(1.0, 1e-6)
    Approx(epsilon=1.0, delta=1e-06)
    """

    divergence = Divergence.HOCKEY_STICK
    words = (
        "epsilon {epsilon} with delta {delta} for all answers together: the odds between two such secrets change at "
        "most {odds}-fold, up to a probability of {delta}"
    )
    epsilon: float
    delta: float

    @classmethod
    def of(cls, delta: float) -> Kind:
        """Return the kind of promise with this δ and an ε yet to be found, for `pf.loss`.

        >>> Approx.of(delta=1e-6)(1.0)
        Approx(epsilon=1.0, delta=1e-06)
        """
        return Kind(cls(0.0, delta))

    def _approx(self, delta: float) -> float:
        """Spend what `delta` exceeds the promise's own on a smaller ε, by the dominating pair of (ε, δ)."""
        spare = spare_delta(delta, self.delta)
        return math.inf if spare is None else two_point_epsilon(self.epsilon, spare)

    def _enough_delta(self) -> float:
        return self.delta

    def _renyi(self, alpha: float, delta: float) -> float:
        """Return the divergence left after cutting off δ: an (ε, δ) pair is a mixture of an ε pair and the rest."""
        return two_point_renyi(self.epsilon, alpha) if delta >= self.delta else math.inf

    def stretched(self, ratio: float) -> Guarantee:
        delta = self.delta * math.exp(min(ratio, 700.0)) * (1 + 4 * UNIT)
        if delta >= 1:
            raise Refused(
                "The delta of the promise grows to 1: nothing is left of it.",
                allowed="a smaller ratio",
                instead="a promise with a smaller delta",
            )
        return Approx(_sum_above(self.epsilon, 2 * ratio), delta)


@final
class Renyi(Guarantee, frozen=True, forbid_unknown_fields=True):
    """(α, ε)-Rényi Pufferfish privacy: the Rényi divergence of order α is at most ε, in both orders.

    >>> Renyi(alpha=4, epsilon=0.5)
    Renyi(alpha=4.0, epsilon=0.5)
    """

    divergence = Divergence.RENYI
    words = (
        "Rényi privacy for all answers together: the Rényi divergence of order {alpha} between the answers under two "
        "such secrets is at most {epsilon}"
    )
    alpha: float
    epsilon: float

    @classmethod
    def of(cls, alpha: float) -> Kind:
        """Return the kind of promise of this order with an ε yet to be found, for `pf.loss`.

        >>> Renyi.of(alpha=4)(0.5)
        Renyi(alpha=4.0, epsilon=0.5)
        """
        return Kind(cls(alpha, 0.0))

    def _approx(self, delta: float) -> float:
        """Return ε + log((α−1)/α) − (log δ + log α)/(α−1), clipped at 0 (M29)."""
        return renyi_to_approx(self.alpha, self.epsilon, delta)

    def _renyi(self, alpha: float, delta: float) -> float:
        """Return ε for every order up to α, where the divergence can only be smaller."""
        return self.epsilon if alpha <= self.alpha else math.inf

    def stretched(self, ratio: float) -> Guarantee:
        order = Fraction(self.alpha)
        return Renyi(self.alpha, _sum_above(self.epsilon, Fraction(ratio) * (2 * order - 1) / (order - 1)))


@final
class RenyiCurve(Guarantee, frozen=True, forbid_unknown_fields=True):
    """Rényi Pufferfish privacy of several orders at once; `to_approx` uses the order that converts best.

    >>> RenyiCurve.of(lambda alpha: alpha / 8).to_approx(1e-6)
    Approx(epsilon=2.4..., delta=1e-06)
    """

    divergence = Divergence.RENYI
    words = (
        "Rényi privacy for all answers together: the Rényi divergences of {orders} orders between the answers under "
        "two such secrets are bounded"
    )
    alphas: Sequence[float]
    epsilons: Sequence[float]

    def __post_init__(self) -> None:
        given = cast(tuple[object, object], (self.alphas, self.epsilons))
        orders, epsilons = (tuple(cast(Iterable[object], one)) if isinstance(one, Iterable) else () for one in given)
        if not orders or len(orders) != len(epsilons):
            raise Misuse(
                f"{len(orders)} orders and {len(epsilons)} epsilons.",
                allowed="as many epsilons as orders, at least one",
                instead="RenyiCurve([2, 4], [0.5, 1.0])",
            )
        pairs = sorted(zip(map(_READERS["alpha"], orders), map(_READERS["epsilon"], epsilons), strict=True))
        force_setattr(self, "alphas", tuple(alpha for alpha, _ in pairs))
        force_setattr(self, "epsilons", tuple(epsilon for _, epsilon in pairs))

    @classmethod
    def of(cls, loss: Callable[[float], float], alphas: Iterable[float] = DEFAULT_ORDERS) -> "RenyiCurve":
        """Return the curve of a loss function, ε = loss(α), at the given orders."""
        orders = tuple(alphas)
        return cls(orders, tuple(loss(alpha) for alpha in orders))

    @property
    def kind(self) -> None:
        return None

    @property
    def singles(self) -> "Sequence[Renyi]":
        return tuple(map(Renyi, self.alphas, self.epsilons))

    def with_epsilons(self, epsilons: Sequence[float]) -> Guarantee:
        return RenyiCurve(self.alphas, epsilons)

    def _approx(self, delta: float) -> float:
        """Return the least ε over the orders (M29)."""
        return min(
            renyi_to_approx(alpha, epsilon, delta) for alpha, epsilon in zip(self.alphas, self.epsilons, strict=True)
        )

    def _renyi(self, alpha: float, delta: float) -> float:
        """Return the least ε among the orders not below alpha."""
        orders = zip(self.alphas, self.epsilons, strict=True)
        return min((epsilon for order, epsilon in orders if alpha <= order), default=math.inf)

    def stretched(self, ratio: float) -> Guarantee:
        return RenyiCurve(self.alphas, [one.stretched(ratio).epsilon for one in self.singles])

    def __repr__(self) -> str:
        if len(self.alphas) <= 6:
            return f"RenyiCurve(alphas={self.alphas!r}, epsilons={self.epsilons!r})"
        return f"<RenyiCurve of {len(self.alphas)} orders, {self.alphas[0]:g} to {self.alphas[-1]:g}>"


@final
class ApproxRenyi(Guarantee, frozen=True, forbid_unknown_fields=True):
    """(α, ε, δ)-approximate Rényi privacy: outside an event of probability δ under each secret, (α, ε)-Rényi privacy.

    >>> ApproxRenyi(alpha=10, epsilon=0.5, delta=1e-3).to_approx(2e-3)
    Approx(epsilon=0.9062..., delta=0.002)
    """

    divergence = Divergence.RENYI
    words = (
        "approximate Rényi privacy for all answers together: the Rényi divergence of order {alpha} between the answers "
        "under two such secrets is at most {epsilon}, outside of a probability of {delta}"
    )
    alpha: float
    epsilon: float
    delta: float

    @classmethod
    def of(cls, alpha: float, delta: float) -> Kind:
        """Return the kind of promise of this order and δ with an ε yet to be found, for `pf.loss`.

        >>> ApproxRenyi.of(alpha=10, delta=1e-3)(0.5)
        ApproxRenyi(alpha=10.0, epsilon=0.5, delta=0.001)
        """
        return Kind(cls(alpha, 0.0, delta))

    def _approx(self, delta: float) -> float:
        """Return ε'(δ') for the δ' with δ + (1−δ)δ' = delta (M29)."""
        spare = spare_delta(delta, self.delta)
        return math.inf if spare is None else renyi_to_approx(self.alpha, self.epsilon, spare)

    def _renyi(self, alpha: float, delta: float) -> float:
        """Return ε for every order up to α, if as much may be cut off as the promise cuts off."""
        return self.epsilon if alpha <= self.alpha and delta >= self.delta else math.inf

    def _enough_delta(self) -> float:
        return float(f"{self.delta + (1 - self.delta) / 2:.3g}")


if TYPE_CHECKING:
    Promise = Guarantee
else:  # msgspec has to be given every struct that it may decode
    Promise = Pure | Approx | Renyi | RenyiCurve | ApproxRenyi


def promise_of(epsilon: float, delta: float | None = None, alpha: float | None = None) -> Guarantee:
    """Return the promise that has these numbers and no others.

    >>> promise_of(0.5, delta=1e-6)
    Approx(epsilon=0.5, delta=1e-06)
    """
    if alpha is None:
        return Pure(epsilon) if delta is None else Approx(epsilon, delta)
    return Renyi(alpha, epsilon) if delta is None else ApproxRenyi(alpha, epsilon, delta)


def _sum_above(left: float, right: float | Fraction) -> float:
    """Return a sum rounded up."""
    return float_above(Fraction(left) + Fraction(right))
