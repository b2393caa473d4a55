"""Python functions as beliefs: each is known by itself, in this process, since no text tells two of them apart.

Source and byte code do not say what a function closes over or calls, and no sample says what it gives elsewhere.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, final

import numpy as np
import numpy.typing as npt


@final
@dataclass(eq=False)
class Identity:
    """What no other function ever has: a token, drawn anew in every process; and what the function gave so far."""

    function: Callable[[], Any]
    token: str = field(default_factory=lambda: token_hex(16))
    given: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


_KNOWN: dict[int, Identity] = {}


def identity_of(function: Any) -> Identity:
    """Return the identity of a function, the same one as long as the function lives.

    >>> first, second = (lambda lag: lag), (lambda lag: lag)
    >>> identity_of(first).token == identity_of(first).token, identity_of(first).token == identity_of(second).token
    (True, False)
    """
    key = id(function)
    known = _KNOWN.setdefault(key, Identity(_reference(function, key)))
    if known.function() is not function:  # another object has the place of one that is gone
        known = _KNOWN[key] = Identity(_reference(function, key))
    return known


def name_of(function: Any) -> str:
    """Return what a function is called."""
    return str(getattr(function, "__qualname__", type(function).__qualname__)).rpartition(".")[2]


def _reference(function: Any, key: int) -> Callable[[], Any]:
    """Return what leads to a function without keeping it alive, where that can be done."""
    try:
        return weakref.ref(function, lambda _: _KNOWN.pop(key, None))
    except TypeError:
        return lambda: function
