"""Python functions as priors: simulators, whose draws certify bounds with a confidence (M8), and their identity.

A function is identified by the object itself, in its process. Neither source nor byte code contain its closure or the
functions that it calls, and a sample of its values does not determine the others.
"""

import numbers
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, cast, final

import numpy as np
import numpy.typing as npt

from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import confidence_level, set_fields
from pufferflow.models.domain import Label
from pufferflow.models.priors.base import Prior, wrong_secret
from pufferflow.models.secret import AnySecret, Derived, Secret


@final
@dataclass(eq=False)
class Identity:
    """The identity of a function: a token that no other one has, in any process; and the values it has returned."""

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
    """Return the short name of a function."""
    return str(getattr(function, "__qualname__", type(function).__qualname__)).rpartition(".")[2]


def _reference(function: Any, key: int) -> Callable[[], Any]:
    """Return a weak reference to a function, or a strong one where Python has no weak one."""
    try:
        return weakref.ref(function, lambda _: _KNOWN.pop(key, None))
    except TypeError:
        return lambda: function


Draw = Callable[[Label, int | None, Any, int, np.random.Generator], Any]


@final
@suggests_arguments
@dataclass(frozen=True)
class Simulator(Prior):
    """A function that draws answers from their law under one value of the secret.

    `fn(value, row, statistic, draws, rng)` returns `draws` independent draws of the statistic of one group, given the
    value of the secret. The array has the shape (draws,) or (draws, answers). For a `pf.Secret` the value is that in
    row `row`; for a `pf.Derived`, `row` is None. `statistic.positions` may be below 0. `exchangeable=True` declares
    that rows of equal weight are interchangeable: then only one of them is drawn.

    Draws can certify only that two laws are near (M8). So a bound with a delta holds with the given confidence, and
    other bounds are refused. The operating system seeds the draws; `seed` is for tests.

    A function is identified by the object itself, in its own process. No two share a fingerprint, and accounts, jobs
    and JSON refuse it. The data that it reads must not change.

    >>> def heights(value, row, statistic, draws, rng):
    ...     return rng.normal(0.3 * value, 1.0, draws)
    >>> Simulator(heights, draws=10_000, confidence=0.999).describe()
    "what 'heights' draws: bounds hold with confidence 0.999 over 10000 draws for each value of the secret"
    """

    fn: Draw
    draws: int = 10_000
    confidence: float = 0.999
    exchangeable: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        if not callable(cast(object, self.fn)):
            raise UsageError(
                f"fn is of type {type(self.fn).__name__}.",
                allowed="a function fn(value, row, statistic, draws, rng) that returns an array of answers",
                instead="lambda value, row, statistic, draws, rng: rng.normal(value, 1.0, draws)",
            )
        draws = cast(object, self.draws)
        if isinstance(draws, bool) or not isinstance(draws, numbers.Integral) or draws < 1:
            raise UsageError(
                f"draws is {draws!r}.", allowed="a whole number >= 1", instead="draws=100_000"
            )
        set_fields(
            self, draws=int(draws), confidence=confidence_level(self.confidence, "confidence=0.999")
        )

    @property
    def repeats(self) -> int | None:
        return None  # the function is given the positions of rows

    def check(self, secret: AnySecret) -> None:
        if not isinstance(secret, Secret | Derived):
            allowed = "pf.Secret(column, domain) or pf.Derived(name, values): what fn is given as its value"
            raise wrong_secret(
                "Simulator", secret, allowed=allowed, instead="pf.Derived(name, values=[0, 1])"
            )
        if isinstance(secret, Derived) and secret.values is None:
            raise UsageError(
                f"The secret {secret.name!r} has no values, and a simulator does not know them either.",
                allowed="a derived secret with its values",
                instead=f"pf.Derived({secret.name!r}, values=[0, 1])",
            )
        if isinstance(secret, Secret) and not secret.domain.finite:
            raise UsageError(
                f"The domain of {secret.column!r} is an interval: its ends need not be the worst two values.",
                allowed="a list of values, or pf.Bins",
                instead=f"pf.Secret({secret.column!r}, domain=[0, 1, 2])",
            )

    def sample(
        self, value: Label, row: int | None, statistic: Any, rng: np.random.Generator
    ) -> npt.NDArray[Any]:
        """Return draws under one value of the secret, of shape (draws, answers), checked."""
        allowed = f"finite numbers of shape ({self.draws},) or ({self.draws}, {statistic.answers})"
        try:
            drawn = np.asarray(self.fn(value, row, statistic, self.draws, rng), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"{self.name} failed, or returned no array of numbers ({error}).".replace(
                    "\n", " "
                ),
                allowed=allowed,
                instead="fn(value, row, statistic, draws, rng)",
            ) from error
        if drawn.ndim == 1 and statistic.answers == 1:
            drawn = drawn[:, None]
        if drawn.shape != (self.draws, statistic.answers) or not np.isfinite(drawn).all():
            problem = (
                f"the shape {drawn.shape}"
                if np.isfinite(drawn).all()
                else "NaN or infinite answers"
            )
            raise UsageError(
                f"{self.name} returned {problem}.",
                allowed=allowed,
                instead="one answer for each draw",
            )
        return drawn

    @property
    def name(self) -> str:
        """The short name of the function."""
        return name_of(self.fn)

    def fingerprint(self) -> dict[str, Any]:
        return {
            "kind": "simulator",
            "function": self.name,
            "only": identity_of(self.fn).token,
            "draws": self.draws,
            "confidence": self.confidence,
            "exchangeable": self.exchangeable,
        }

    def describe(self) -> str:
        sure = f"bounds hold with confidence {self.confidence:g} over {self.draws} draws for each value of the secret"
        return f"what {self.name!r} draws: {sure}"

    def stored(self) -> dict[str, Any]:
        raise Refused(
            "A prior with a pf.Simulator cannot be stored: it is a Python function.",
            allowed="any other prior; a Python function is known in its own process only",
            instead="pf.Table, pf.LatentClass or pf.AnyCorrelation(); or releases without an account",
        )
