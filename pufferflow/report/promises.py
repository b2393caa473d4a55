"""Promises in words, for somebody who reads the answers."""

from pufferflow.guarantees import Approx, ApproxRenyi, Guarantee, Pure, Renyi, RenyiCurve
from pufferflow.report.numbers import at_most, fold

_DIGITS = 6
_FOR_ALL = "for all answers together"


def promise_in_words(guarantee: Guarantee) -> str:
    """Say how strong a promise is, and what it means.

    >>> print(promise_in_words(Pure(0.5)))
    epsilon 0.5 for all answers together: whoever sees the answers changes the odds between two such secrets at most
    1.65-fold
    """
    match guarantee:
        case Pure(epsilon):
            odds = f"whoever sees the answers changes the odds between two such secrets at most {fold(epsilon)}-fold"
            return f"epsilon {at_most(epsilon, _DIGITS)} {_FOR_ALL}: {odds}"
        case Approx(epsilon, delta):
            strength = f"epsilon {at_most(epsilon, _DIGITS)} with delta {at_most(delta, _DIGITS)}"
            odds = f"the odds between two such secrets change at most {fold(epsilon)}-fold"
            return f"{strength} {_FOR_ALL}: {odds}, up to a probability of {at_most(delta, _DIGITS)}"
        case Renyi(alpha, epsilon):
            divergence = f"the Rényi divergence of order {alpha:g} between the answers under two such secrets"
            return f"Rényi privacy {_FOR_ALL}: {divergence} is at most {at_most(epsilon, _DIGITS)}"
        case RenyiCurve(alphas, _):
            divergences = f"the Rényi divergences of {len(alphas)} orders between the answers under two such secrets"
            return f"Rényi privacy {_FOR_ALL}: {divergences} are bounded"
        case ApproxRenyi(alpha, epsilon, delta):
            divergence = f"the Rényi divergence of order {alpha:g} between the answers under two such secrets"
            most = f"is at most {at_most(epsilon, _DIGITS)}, outside of a probability of {at_most(delta, _DIGITS)}"
            return f"approximate Rényi privacy {_FOR_ALL}: {divergence} {most}"
        case _:
            return repr(guarantee)
