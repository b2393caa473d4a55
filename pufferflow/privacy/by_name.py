"""The guarantee that has some numbers, each given by its name, as job files give them."""

from typing import TYPE_CHECKING

from pufferflow.core.errors import UsageError
from pufferflow.privacy.guarantee import Approx, Guarantee, Pure, all_guarantees
from pufferflow.privacy.renyi import ApproxRenyi, Renyi, Zcdp
from pufferflow.privacy.tradeoff import Gdp, TradeOff, Tv

if TYPE_CHECKING:
    StoredGuarantee = Guarantee
else:  # msgspec has to be given every struct that it may decode
    StoredGuarantee = all_guarantees()


def guarantee_of(  # noqa: PLR0913 - the numbers of guarantees
    epsilon: float | None = None,
    delta: float | None = None,
    alpha: float | None = None,
    *,
    rho: float | None = None,
    mu: float | None = None,
    tv: float | None = None,
) -> Guarantee:
    """Return the guarantee with exactly these numbers.

    >>> guarantee_of(0.5, delta=1e-6), guarantee_of(rho=0.1), guarantee_of(tv=0.1)
    (Approx(epsilon=0.5, delta=1e-06), Zcdp(rho=0.1), Approx(epsilon=0.0, delta=0.1))
    >>> guarantee_of(0.5, rho=0.1)
    Traceback (most recent call last):
    pufferflow.UsageError: A guarantee with epsilon, rho.
      allowed: epsilon, alone or with delta, alpha, both, tv, or delta and tv; rho, mu or tv alone
      try: epsilon = 0.5, or epsilon = 0.5 with delta = 1e-6
    """
    named = {"epsilon": epsilon, "delta": delta, "alpha": alpha, "rho": rho, "mu": mu, "tv": tv}
    match {name: number for name, number in named.items() if number is not None}:
        case {"rho": rho, **others} if not others:
            return Zcdp(rho)
        case {"mu": mu, **others} if not others:
            return Gdp(mu)
        case {"tv": tv, **others} if not others:
            return Tv(tv)
        case {"epsilon": epsilon, "tv": tv, **others} if others.keys() <= {"delta"}:
            return TradeOff(epsilon, others.get("delta", 0.0), tv)
        case {"epsilon": epsilon, **others} if others.keys() <= {"delta", "alpha"}:
            return _of_epsilon(epsilon, **others)
        case given:
            raise UsageError(
                f"A guarantee with {', '.join(given) or 'no numbers'}.",
                allowed="epsilon, alone or with delta, alpha, both, tv, or delta and tv; rho, mu or tv alone",
                instead="epsilon = 0.5, or epsilon = 0.5 with delta = 1e-6",
            )


def _of_epsilon(
    epsilon: float, delta: float | None = None, alpha: float | None = None
) -> Guarantee:
    if alpha is None:
        return Pure(epsilon) if delta is None else Approx(epsilon, delta)
    return Renyi(alpha, epsilon) if delta is None else ApproxRenyi(alpha, epsilon, delta)
