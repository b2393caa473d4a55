"""Promises, for people in few words and for programs by their parts."""

from typing import Any

import msgspec

from pufferflow.guarantees import Guarantee
from pufferflow.report.numbers import SPENT, downwards, upwards


def in_words(promise: Guarantee) -> str:
    """Return a promise as one would say it, its numbers rounded towards a weaker one.

    >>> from pufferflow.guarantees import Approx
    >>> in_words(Approx(0.5, 1e-6))
    'epsilon 0.5, delta 1e-06'
    """
    parts = _numbers(promise)
    weaker = {name: (downwards if name == "alpha" else upwards)(value, SPENT) for name, value in parts.items()}
    return ", ".join(f"{name} {value:g}" for name, value in weaker.items()) or repr(promise)


def of_limit(epsilon: float | None, limit: Guarantee) -> str:
    """Say how much of a limit is spent, by an epsilon of its kind.

    >>> from pufferflow.guarantees import Approx
    >>> of_limit(0.5, Approx(3.0, 1e-6))
    'epsilon 0.5 of 3, delta 1e-06'
    """
    rest = in_words(limit).removeprefix("epsilon ")
    return f"epsilon {'unknown' if epsilon is None else f'{upwards(epsilon, SPENT):g}'} of {rest}"


def epsilon_of(promise: Guarantee) -> float | None:
    """Return the epsilon of a promise; None if it has several."""
    found = getattr(promise, "epsilon", None)
    return found if isinstance(found, float) else None


def _numbers(promise: Guarantee) -> dict[str, Any]:
    parts = msgspec.to_builtins(promise)
    return {name: parts[name] for name in ("epsilon", "delta", "alpha") if name in parts}
