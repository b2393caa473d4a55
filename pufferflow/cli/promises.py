"""Promises, for people in few words and for programs by their parts."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any

import msgspec

from pufferflow.guarantees import Guarantee


def in_words(promise: Guarantee) -> str:
    """Return a promise as one would say it, its numbers rounded towards a weaker one.

    >>> from pufferflow.guarantees import Approx
    >>> in_words(Approx(0.5, 1e-6))
    'epsilon 0.5, delta 1e-06'
    """
    parts = _numbers(promise)
    weaker = {name: (down if name == "alpha" else up)(value) for name, value in parts.items()}
    return ", ".join(f"{name} {value:g}" for name, value in weaker.items()) or repr(promise)


def of_limit(epsilon: float | None, limit: Guarantee) -> str:
    """Say how much of a limit is spent, by an epsilon of its kind.

    >>> from pufferflow.guarantees import Approx
    >>> of_limit(0.5, Approx(3.0, 1e-6))
    'epsilon 0.5 of 3, delta 1e-06'
    """
    rest = in_words(limit).removeprefix("epsilon ")
    return f"epsilon {'unknown' if epsilon is None else f'{up(epsilon):g}'} of {rest}"


def up(value: float, digits: int = 6) -> float:
    """Return a number in a few digits, never below what it is; its shortest decimal is what it is.

    >>> up(14.9999991), up(0.1), up(0.12341, 4)
    (15.0, 0.1, 0.1235)
    """
    return float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(value))))


def down(value: float, digits: int = 6) -> float:
    """Return a number in a few digits, never above what it is.

    >>> down(14.9999991), down(0.1)
    (14.9999, 0.1)
    """
    return float(Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(repr(float(value))))


def epsilon_of(promise: Guarantee) -> float | None:
    """Return the epsilon of a promise; None if it has several."""
    found = getattr(promise, "epsilon", None)
    return found if isinstance(found, float) else None


def _numbers(promise: Guarantee) -> dict[str, Any]:
    parts = msgspec.to_builtins(promise)
    return {name: parts[name] for name in ("epsilon", "delta", "alpha") if name in parts}
