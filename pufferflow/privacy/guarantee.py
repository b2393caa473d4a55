"""The guarantee of a release, and the two guarantees about odds, pure and approximate, to which all others convert.

Each bounds a divergence between the laws of the output under the two secrets of any pair, in both orders. The
result of a conversion is rounded up.
"""
# a guarantee's own number stands in for the base's property:
# pyright: reportIncompatibleMethodOverride=false

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, Union, final

import msgspec
from msgspec.structs import force_setattr

from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import Card, InNotebooks
from pufferflow.core.rounding import UNIT, float_above
from pufferflow.core.suggestions import make_struct
from pufferflow.core.validate import (
    finite_number_at_least_zero,
    order_above_one,
    probability_below_one,
)
from pufferflow.privacy.between_rows import delta_growth, epsilon_between, epsilon_within
from pufferflow.privacy.conversions import (
    pure_to_gdp,
    pure_to_zcdp,
    spare_delta,
    two_point_epsilon,
    two_point_renyi,
)

_READERS: Final[Mapping[str, Callable[[object], float]]] = {
    "alpha": order_above_one,
    "delta": lambda given: probability_below_one(given, "delta"),
}
"""How numbers of guarantees with more conditions than being at least 0 are read, by their names."""


class Divergence(Enum):
    """What a guarantee bounds between the laws of the output under two secrets.

    It is a log ratio, a mass, a divergence of one order, those of all orders in proportion, or a trade-off of errors.
    """

    LOG_RATIO = auto()
    HOCKEY_STICK = auto()
    RENYI = auto()
    CONCENTRATED = auto()
    GAUSSIAN = auto()

    @property
    def about_odds(self) -> bool:
        """Whether it says by which factor odds may change."""
        return self in (Divergence.LOG_RATIO, Divergence.HOCKEY_STICK)


class _AbstractStruct(msgspec.StructMeta, abc.ABCMeta):
    """The metaclass of structs that have abstract methods."""

    if not TYPE_CHECKING:  # which knows what each struct takes

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return make_struct(cls, super().__call__, args, kwargs)


class Guarantee(
    InNotebooks,
    msgspec.Struct,
    frozen=True,
    tag_field="promise",
    tag=True,
    metaclass=_AbstractStruct,
):
    """Base class of all guarantees: convert one with `to_approx`, compare two with `implies`, store one with `to_json`.

    To add one, write a final struct with numbers, divergence, words and conversions, and import it in the package's
    `__init__`.
    """

    divergence: ClassVar[Divergence]
    words: ClassVar[str]
    """What the guarantee means, with places for its numbers."""
    measure: ClassVar[str] = "epsilon"
    """The name of its `loss`, the number that accounts add up and plans are made for."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            given = getattr(self, name)
            read = _READERS.get(name)
            force_setattr(
                self,
                name,
                finite_number_at_least_zero(given, name) if read is None else read(given),
            )

    @property
    def loss(self) -> float:
        """The loss that the guarantee allows, such as its ε, ρ or μ; infinite if it has several.

        >>> Approx(1.0, 1e-6).loss
        1.0
        """
        return float(getattr(self, self.measure))

    @property
    def epsilon(self) -> float:
        """The guarantee's ε; infinite if it has none, or several."""
        return math.inf

    @property
    def delta(self) -> float:
        """The guarantee's δ, the probability that it leaves out; 0 if it has none."""
        return 0.0

    @property
    def alpha(self) -> float:
        """The guarantee's Rényi order; infinite if it is not about a single one."""
        return math.inf

    @property
    def kind(self) -> "GuaranteeFamily | None":
        """The guarantee without its `loss`; None if it has several.

        >>> Approx(0.5, 1e-6).kind.at(1.0)
        Approx(epsilon=1.0, delta=1e-06)
        """
        return GuaranteeFamily(self.with_losses([0.0]))

    @property
    def singles(self) -> "Sequence[Guarantee]":
        """The guarantees with a single loss that are guaranteed together: the guarantee itself, if it has one loss."""
        return (self,)

    def with_losses(self, losses: Sequence[float]) -> "Guarantee":
        """Return a guarantee like this one with a loss for each of its `singles`."""
        (loss,) = losses
        return msgspec.structs.replace(self, **{self.measure: loss})

    def portion(self, share: float) -> "Guarantee":
        """Return the guarantee for one of several releases: releases whose shares sum to 1 together keep this one.

        >>> Approx(1.0, 1e-6).portion(0.25)
        Approx(epsilon=0.25, delta=2.5e-07)
        """
        rate = math.sqrt(share) if self.divergence is Divergence.GAUSSIAN else share
        part = self.with_losses([one.loss * rate for one in self.singles])
        return msgspec.structs.replace(part, delta=part.delta * share) if part.delta else part

    def reserve_delta(self, share: float) -> "Guarantee":
        """Return the guarantee that has to hold outside an event of a probability, so that this one holds."""
        if not self.delta:
            return self
        return msgspec.structs.replace(
            self, delta=max(math.nextafter(self.delta - share, 0.0), 0.0)
        )

    def under_model_error(self, ratio: float) -> "Guarantee | None":
        """Return the guarantee left if likelihoods are wrong by a factor of up to e^ratio (M30); None if unknown."""
        return None

    def between_rows(self, least: float) -> "Guarantee | None":
        """Return what follows about two rows, X_i = a against X_j = b, if this holds for any values of one (M60 (i)).

        `least` is at most the probability of each possible value. None if nothing is known.
        """
        return None

    def within_rows(self, least: float) -> "Guarantee | None":
        """Return the guarantee about any values of one row from which this one between rows follows; None if none."""
        return None

    def numbers(self) -> dict[str, float]:
        """Return the guarantee's single numbers by their names, its loss first."""
        names = sorted(
            self.__struct_fields__, key=lambda name: (name != self.measure, name == "alpha")
        )
        return {name: value for name in names if isinstance(value := getattr(self, name), float)}

    def in_words(self, number: Callable[[float], str], fold: Callable[[float], str]) -> str:
        """Say what the guarantee means; `number` writes a number, `fold` writes e to the power of one."""
        odds = fold(self.epsilon) if self.divergence.about_odds else ""
        own = {
            name: number(value)
            for name, value in {"epsilon": self.epsilon, **self.numbers()}.items()
        }
        return self.words.format(
            **{**own, "alpha": f"{self.alpha:g}"}, orders=len(self.singles), odds=odds
        )

    def _card(self) -> Card:
        means = self.in_words("{:.6g}".format, _factor)
        return Card("Guarantee", lines=[f"{means[:1].upper()}{means[1:]}."], code=repr(self))

    def approx_epsilon(self, delta: float) -> float:
        """Return an ε for which (ε, delta)-privacy follows, the least one known; infinite where none follows."""
        return self._approx(probability_below_one(delta, "delta"))

    def renyi_epsilon(self, alpha: float, delta: float = 0.0) -> float:
        """Return an ε for which (alpha, ε, delta)-approximate Rényi privacy follows; infinite where none follows."""
        return self._renyi(order_above_one(alpha), probability_below_one(delta, "delta"))

    def zcdp_rho(self) -> float:
        """Return a ρ for which ρ-zero-concentrated privacy follows, the least one known; infinite where none follows.

        >>> round(Pure(1.0).zcdp_rho(), 4)
        0.4621
        """
        return pure_to_zcdp(self._approx(0.0))

    def gdp_mu(self) -> float:
        """Return a μ for which μ-Gaussian privacy follows, the least one known; infinite where none follows.

        >>> round(Pure(1.0).gdp_mu(), 4)
        1.232
        """
        return pure_to_gdp(self._approx(0.0))

    def loss_from(self, other: "Guarantee") -> float:
        """Return the least loss known with which a guarantee of this one's kind follows from another.

        ∞ if none does.
        """
        if self.divergence is Divergence.RENYI:
            return other.renyi_epsilon(self.alpha, self.delta)
        return other.approx_epsilon(self.delta)

    def follows_from(self, other: "Guarantee") -> bool:
        """Return whether this guarantee follows from `other`, by its best conversions."""
        return all(one.loss_from(other) <= one.loss for one in self.singles)

    @abc.abstractmethod
    def _approx(self, delta: float) -> float:
        """Return `approx_epsilon` for a valid delta."""

    @abc.abstractmethod
    def _renyi(self, alpha: float, delta: float) -> float:
        """Return `renyi_epsilon` for a valid order and delta."""

    def to_approx(self, delta: float) -> "Approx":
        """Return the (ε, delta) guarantee that follows from this one, with the least ε known (M29).

        `delta` belongs to the result, and must be at least the guarantee's own. Guarantees of finitely many Rényi
        orders give no ε for delta 0.

        >>> Pure(1.0).to_approx(0.01)
        Approx(epsilon=0.98622...
        """
        delta = probability_below_one(delta, "delta")
        epsilon = self.approx_epsilon(delta)
        if epsilon == math.inf:
            raise Refused(
                f"{self!r} gives no finite epsilon at delta={delta:g}.",
                allowed="a delta above 0, and not below the guarantee's own",
                instead=f"to_approx({self._enough_delta():g})",
            )
        return Approx(epsilon, delta)

    def _enough_delta(self) -> float:
        """Return a delta for which some ε follows."""
        return 1e-6

    def implies(self, other: "Guarantee") -> bool:
        """Return whether this guarantee provably implies the other one, by the conversions known here.

        >>> Pure(1).implies(Approx(0.9, 0.1)), Approx(0.9, 0.1).implies(Pure(1))
        (True, False)
        """
        if not isinstance(other, Guarantee):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise UsageError(
                f"A guarantee is compared with {type(other).__name__}.",
                allowed="another guarantee",
                instead="pf.Pure(1.0)",
            )
        return self == other or other.follows_from(self)

    def to_json(self) -> str:
        """Return the guarantee as JSON text, which `from_json` reads back unchanged."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the guarantee that `to_json` wrote; called on one kind, it takes only that kind.

        >>> Guarantee.from_json(Pure(1).to_json())
        Pure(epsilon=1.0)
        """
        try:
            guarantee = msgspec.json.decode(text, type=all_guarantees())
        except (ValueError, TypeError, RecursionError) as error:
            raise UsageError(
                f"The text is no stored guarantee: {str(error).splitlines()[0]}",
                allowed="what to_json wrote",
                instead="pf.Pure(1.0).to_json()",
            ) from error
        if not isinstance(guarantee, cls):
            raise UsageError(
                f"The text stores a guarantee of kind {type(guarantee).__name__}.",
                allowed=f"a stored {cls.__name__}",
                instead="pf.Guarantee.from_json, which takes every kind",
            )
        return guarantee


def all_guarantees() -> Any:
    """Return the union of all guarantees, the type as which stored ones are read."""
    return Union[*Guarantee.__subclasses__()]


def _factor(epsilon: float) -> str:
    """Return e^ε, rounded up to two decimals; of a large ε the power itself."""
    return f"{math.ceil(100 * math.exp(epsilon)) / 100:g}" if epsilon < 9 else f"e^{epsilon:g}"


@final
@dataclass(frozen=True)
class GuaranteeFamily:
    """A guarantee without its loss, as `Renyi.of(alpha=4)`, shown by an `example`.

    Called with one, it is the guarantee.
    """

    example: Guarantee

    def at(self, loss: float) -> Guarantee:
        """Return the guarantee with this loss."""
        return self.example.with_losses([loss])

    __call__ = at

    def reserve_delta(self, share: float) -> "GuaranteeFamily":
        """Return the kind that has to hold outside an event of a probability, so that this one holds."""
        return GuaranteeFamily(self.example.reserve_delta(share))

    def loss_from(self, guarantee: Guarantee) -> float:
        """Return the least loss known with which a guarantee of this kind follows from another; ∞ if none does."""
        return self.example.loss_from(guarantee)


AnyGuaranteeFamily = Callable[[float], Guarantee]
"""A kind of guarantee in the public API: a `GuaranteeFamily`, or `Pure` itself."""


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

    def under_model_error(self, ratio: float) -> Guarantee:
        return Pure(sum_above(self.epsilon, 2 * ratio))

    def between_rows(self, least: float) -> Guarantee:
        return Pure(epsilon_between(self.epsilon, least))

    def within_rows(self, least: float) -> Guarantee:
        return Pure(epsilon_within(self.epsilon, least))


PURE: Final = GuaranteeFamily(Pure(0.0))


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
    def of(cls, delta: float) -> GuaranteeFamily:
        """Return the kind of guarantee with this δ and an ε yet to be found, for `pf.loss`.

        >>> Approx.of(delta=1e-6)(1.0)
        Approx(epsilon=1.0, delta=1e-06)
        """
        return GuaranteeFamily(cls(0.0, delta))

    def _approx(self, delta: float) -> float:
        """Spend what `delta` exceeds the guarantee's own on a smaller ε, by the dominating pair of (ε, δ)."""
        spare = spare_delta(delta, self.delta)
        return math.inf if spare is None else two_point_epsilon(self.epsilon, spare)

    def _enough_delta(self) -> float:
        return self.delta

    def _renyi(self, alpha: float, delta: float) -> float:
        """Return the divergence left after cutting off δ: an (ε, δ) pair is a mixture of an ε pair and the rest."""
        return two_point_renyi(self.epsilon, alpha) if delta >= self.delta else math.inf

    def under_model_error(self, ratio: float) -> Guarantee:
        return Approx(sum_above(self.epsilon, 2 * ratio), stretched_delta(self.delta, ratio))

    def between_rows(self, least: float) -> Guarantee:
        delta = below_one(self.delta * delta_growth(self.epsilon, least))
        return Approx(epsilon_between(self.epsilon, least), delta)

    def within_rows(self, least: float) -> Guarantee:
        epsilon = epsilon_within(self.epsilon, least)
        return Approx(epsilon, self.delta / delta_growth(epsilon, least) * (1 - 4 * UNIT))


def sum_above(left: float, right: float | Fraction) -> float:
    """Return a sum rounded up."""
    return float_above(Fraction(left) + Fraction(right))


def multiplied(probability: float, ratio: float) -> float:
    """Return a probability times e^ratio, rounded up; at least 1 where that is beyond all floats.

    >>> multiplied(0.0, 2000.0), multiplied(1e-310, 720.0) > 1
    (0.0, True)
    """
    half = math.exp(min(ratio, 1400.0) / 2)  # a probability above 0 is above e^-745
    grown = probability * half * half * (1 + 8 * UNIT)
    return math.nextafter(grown, math.inf) if probability else 0.0


def stretched_delta(delta: float, ratio: float) -> float:
    """Return e^ratio times a δ; refuse a δ that grows to 1."""
    return below_one(multiplied(delta, ratio), "a smaller ratio")


def below_one(grown: float, allowed: str = "a smaller delta") -> float:
    """Return a δ that has grown; refuse one that is 1 or more."""
    if not grown < 1:
        raise Refused(
            "The delta of the guarantee grows to 1, so no guarantee remains.",
            allowed=allowed,
            instead="a guarantee with a smaller delta",
        )
    return grown
