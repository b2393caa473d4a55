"""Reading a correlation: one number, or a pair of bounds that stands for all numbers between them."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from pufferflow.errors import Misuse
from pufferflow.reading import finite_number, refuse_belief

Span = float | tuple[float, float]
Given = float | Sequence[float]


def read_span(given: object, name: str, *, allowed: str, instead: str) -> Span:
    """Return one correlation or both bounds, each above −1 and below 1: at ±1 two rows would fix each other."""
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        return _one(given, name, allowed, instead)
    both = list(cast(Sequence[object], given))
    if len(both) != 2:
        raise Misuse(f"{name} has {len(both)} entries.", allowed=allowed, instead=instead)
    low, high = (_one(bound, f"{name}[{place}]", allowed, instead) for place, bound in enumerate(both))
    if low > high:
        raise Misuse(f"{name} goes from {low:g} down to {high:g}.", allowed=allowed, instead=instead)
    return low if low == high else (low, high)


def spanned(span: Span) -> tuple[float, float]:
    """Return both bounds."""
    return span if isinstance(span, tuple) else (span, span)


def _one(given: object, name: str, allowed: str, instead: str) -> float:
    number = finite_number(given, name, allowed=allowed, instead=instead) + 0.0
    if abs(number) == 1:
        refuse_belief(fixed(f"{name} is {number:g}", "two rows", allowed))
    elif not -1 < number < 1:
        raise Misuse(f"{name} is {number:g}.", allowed=allowed, instead=instead)
    return number


def fixed(what: str, rows: str, allowed: str) -> Misuse:
    """Return the error for a correlation of 1 or −1: one row's value would leave the other none to hide among."""
    return Misuse(
        f"{what}: {rows} with the correlation 1 or -1 fix each other.",
        allowed=allowed,
        instead="pf.AnyCorrelation() as the prior, under which rows may fix each other",
    )
