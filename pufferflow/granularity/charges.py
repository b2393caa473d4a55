"""Guarantees as charges that add up: ε, (ε, δ), ρ and μ², and how they grow with the distance of two data sets.

Mechanisms of which each reads a part are together as private as the sums of their charges, adaptively (GRAN V.2, VI.4,
VI.13, VI.21). Sums are exact fractions; guarantees and numbers that are made of them are rounded up.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, cast, final

from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT, float_above, upwards
from pufferflow.core.validate import finite_number
from pufferflow.privacy.guarantee import Approx, Guarantee, Pure
from pufferflow.privacy.renyi import Zcdp
from pufferflow.privacy.tradeoff import Gdp

Charge = Fraction | float
"""An exact charge; the only float is ∞, no guarantee at all."""
Charges = tuple[Charge, ...]
Loss = float | Guarantee
NumberKind = Literal["pure", "zcdp", "gdp"]


@final
@dataclass(frozen=True)
class PromiseKind:
    """A kind of guarantee by its additive charges: how one is read, grown with a distance, and made again."""

    name: str
    read: Callable[[Loss], Charges]
    grow: Callable[[Charges, Charge], Charges]
    make: Callable[[Sequence[float]], Loss]
    squared: bool = False
    """Whether the charge is the square of the number."""
    whole_steps: bool = False
    """Whether the charges grow by whole steps only, from neighbour to neighbour."""

    def at(self, charges: Charges, distance: float) -> Charges:
        """Return the charges between two data sets at a distance; at the distance ∞ there is no guarantee."""
        if distance == 0:
            return (Fraction(0),) * len(charges)
        if math.isinf(distance):
            return (math.inf,) * len(charges)
        if self.whole_steps and distance != int(distance):
            raise Refused(
                f"A guarantee with a δ needs distances in whole steps; this one is {distance:g}.",
                allowed="distances in whole steps, by which δ grows",
                instead="a canonical metric, Space.of(databases, neighbours), or a pure guarantee",
            )
        return self.grow(charges, Fraction(distance))

    def made(self, charges: Charges) -> Loss:
        """Return the number or guarantee with these charges, rounded up."""
        numbers = [math.inf if isinstance(one, float) else float_above(one) for one in charges]
        if self.squared:
            numbers = [
                math.inf if isinstance(one, float) else root_above(Fraction(one)) for one in charges
            ]
        return self.make(numbers)


def kind_of(losses: Sequence[object], kind: NumberKind = "pure") -> PromiseKind:
    """Return the kind that all losses have: of guarantees their own, of plain numbers the one that is named."""
    if not losses:
        raise UsageError(
            "No losses are given.",
            allowed="a number or guarantee for each group",
            instead="[0.3, 0.5], or [pf.Pure(0.3)]",
        )
    promised = {type(loss) for loss in losses if isinstance(loss, Guarantee)}
    if not promised:
        return _named(kind)
    if len(promised) > 1 or not all(isinstance(loss, Guarantee) for loss in losses):
        raise UsageError(
            "The losses are of several kinds.",
            allowed="guarantees of one kind, or plain numbers of one kind",
            instead="[pf.Approx(1.0, 0.0), pf.Approx(0.5, 1e-6)]",
        )
    kind_of_promise = next((known for cls, known in _PROMISED.items() if cls in promised), None)
    if kind_of_promise is None:
        raise Refused(
            f"No sum over groups is known for guarantees of the kind {promised.pop().__name__}.",
            allowed=f"{', '.join(f'pf.{cls.__name__}' for cls in _PROMISED)}, or plain numbers",
            instead="guarantee.to_approx(delta), or plain numbers with kind='zcdp' or kind='gdp'",
        )
    return kind_of_promise


def at_distance(loss: Loss, distance: float, kind: NumberKind = "pure") -> Loss:
    """Return the guarantee for data sets `distance` steps apart, such as a unit of k rows, from that for neighbours.

    In k steps ε becomes kε, δ becomes δ·(e^{kε} − 1)/(e^ε − 1), ρ becomes k²ρ, and μ becomes kμ (M27). Plain numbers
    are ε, or ρ or μ by their `kind`.

    >>> import pufferflow as pf
    >>> at_distance(0.5, 3), at_distance(0.5, 3, kind="zcdp")
    (1.5, 4.5)
    >>> at_distance(pf.Approx(1.0, 1e-5), 2), at_distance(pf.Gdp(0.5), 3)
    (Approx(epsilon=2.0, delta=3.718...e-05), Gdp(mu=1.5))
    """
    of_kind = kind_of([loss], kind)
    instead = "distance=2"
    steps = finite_number(
        distance,
        "distance",
        allowed="a number >= 0",
        instead=instead,
        fits=lambda given: given >= 0,
    )
    return of_kind.made(of_kind.at(of_kind.read(loss), steps))


def added(charges: Sequence[Charges], width: int) -> Charges:
    """Return the sums of charges; ∞ if one of them is."""
    return tuple(_sum([one[place] for one in charges]) for place in range(width))


def largest(charges: Sequence[Charges], width: int) -> Charges:
    """Return the largest charges, each by itself."""
    return tuple(
        max((one[place] for one in charges), default=Fraction(0)) for place in range(width)
    )


def _sum(charges: Sequence[Charge]) -> Charge:
    exact = [one for one in charges if isinstance(one, Fraction)]
    return sum(exact, Fraction(0)) if len(exact) == len(charges) else math.inf


def root_above(square: Fraction) -> float:
    """Return the smallest float whose square is not below a fraction.

    >>> root_above(Fraction(1, 4)), root_above(Fraction(0.3) ** 2)
    (0.5, 0.3)
    """
    root = math.sqrt(float_above(square))
    while root > 0 and Fraction(math.nextafter(root, 0.0)) ** 2 >= square:
        root = math.nextafter(root, 0.0)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def number_read(given: object, name: str) -> Fraction:
    """Return a number of a guarantee, which is at least 0."""
    allowed = "a finite number >= 0"
    return Fraction(
        finite_number(given, name, allowed=allowed, instead="0.5", fits=lambda number: number >= 0)
    )


def _linear(charges: Charges, distance: Charge) -> Charges:
    return (charges[0] * distance,)


def _squares(charges: Charges, distance: Charge) -> Charges:
    return (charges[0] * distance * distance,)


def _step_by_step(charges: Charges, distance: Charge) -> Charges:
    """Return (kε, δ·(1 + e^ε + … + e^{(k−1)ε})), the latter rounded up."""
    epsilon, delta = charges
    return epsilon * distance, _grown(delta, float(epsilon), int(distance))


def _grown(delta: Charge, epsilon: float, steps: int) -> Charge:
    if delta == 0 or steps == 1 or epsilon == 0:
        return delta * steps
    try:
        growth = math.expm1(upwards(steps * epsilon)) / math.expm1(epsilon)
    except OverflowError:
        return math.inf
    return delta * Fraction(upwards(growth, (8 + 2 * steps * epsilon) * UNIT))


def _made_approx(numbers: Sequence[float]) -> Loss:
    epsilon, delta = numbers
    if math.isinf(epsilon) or delta >= 1:
        raise nothing_promised()
    return Approx(epsilon, delta)


def _finite(promise: Callable[[float], Guarantee]) -> Callable[[Sequence[float]], Loss]:
    """Return the function that makes a guarantee of one number, which has to be finite."""

    def make(numbers: Sequence[float]) -> Loss:
        if math.isinf(numbers[0]):
            raise nothing_promised()
        return promise(numbers[0])

    return make


def nothing_promised() -> Refused:
    """Return the error for a loss without a guarantee: an infinite ε, or a δ of 1."""
    return Refused(
        "Together these losses guarantee nothing: ε is infinite, or δ is 1 or more.",
        allowed="guarantees that hold for every way in which neighbours may differ in the part that is read",
        instead="guarantees for adding, removing and replacing a row, or smaller ones",
    )


def _named(kind: object) -> PromiseKind:
    if isinstance(kind, str) and kind in _NUMBERS:
        return _NUMBERS[kind]
    raise UsageError(
        f"kind is {kind!r}."
        if isinstance(kind, str)
        else f"kind is of type {type(kind).__name__}.",
        allowed="'pure' for ε, 'zcdp' for ρ, 'gdp' for μ",
        instead="kind='gdp'",
    )


def _read(*names: str) -> Callable[[Loss], Charges]:
    return lambda loss: tuple(Fraction(getattr(cast(Any, loss), name)) for name in names)


def _number(name: str) -> Callable[[Loss], Charges]:
    return lambda loss: (number_read(loss, name),)


def _first(numbers: Sequence[float]) -> Loss:
    return numbers[0]


_NUMBERS: Final = {
    "pure": PromiseKind("pure", _number("epsilon"), _linear, _first),
    "zcdp": PromiseKind("zcdp", _number("rho"), _squares, _first),
    "gdp": PromiseKind(
        "gdp", lambda loss: (number_read(loss, "mu") ** 2,), _squares, _first, squared=True
    ),
}
_PROMISED: Final[dict[type[Guarantee], PromiseKind]] = {
    Pure: PromiseKind("Pure", _read("epsilon"), _linear, _finite(Pure)),
    Approx: PromiseKind(
        "Approx", _read("epsilon", "delta"), _step_by_step, _made_approx, whole_steps=True
    ),
    Zcdp: PromiseKind("Zcdp", _read("rho"), _squares, _finite(Zcdp)),
    Gdp: PromiseKind(
        "Gdp",
        lambda loss: (Fraction(cast(Gdp, loss).mu) ** 2,),
        _squares,
        _finite(Gdp),
        squared=True,
    ),
}
