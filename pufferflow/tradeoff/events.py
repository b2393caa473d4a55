"""dp-accounting's events, read by the names of their classes and attributes: the library itself is not needed.

An event is about ordinary differential privacy of independent rows. Its guarantee depends on the notion of neighbours:
if rows are added or removed, answers with values of norm C move by C; if one is replaced, by 2C.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, cast

import numpy as np

from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.core.validate import finite_number, number_above, whole_number
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.tradeoff.composed import Composed, compose
from pufferflow.tradeoff.profile import Profile, as_profile
from pufferflow.tradeoff.sampling import fixed_size_profile, poisson_profile

Neighbours = Literal["add_remove", "replace"]
_MOST_OUTPUTS: Final = 2_000
_INSTEAD: Final = "pf.tradeoff.compose of profiles, such as pf.tradeoff.Profile(epsilon, delta, tv)"


def from_dp_event(event: Any, neighbours: Neighbours = "add_remove") -> Composed:
    """Return the composition of an event of dp-accounting, if rows are independent.

    It reads Gaussian, Laplace and discrete Laplace noise, randomised response, (ε, δ), and compositions of these. It
    also reads Poisson samples (`neighbours="add_remove"`) and fixed-size samples without replacement (`"replace"`). All
    other events are refused by name.

    >>> from types import SimpleNamespace
    >>> GaussianDpEvent = type("GaussianDpEvent", (SimpleNamespace,), {})
    >>> round(from_dp_event(GaussianDpEvent(noise_multiplier=2.0)).tv, 6)
    0.197413
    """
    if neighbours not in ("add_remove", "replace"):  # pyright: ignore[reportUnnecessaryContains]
        raise UsageError(
            "neighbours is neither 'add_remove' nor 'replace'.",
            allowed="'add_remove' or 'replace', as in dp-accounting's NeighboringRelation",
            instead='pf.tradeoff.from_dp_event(event, neighbours="replace")',
        )
    return _Reader(2.0 if neighbours == "replace" else 1.0).read(event)


class _Reader:
    """Reads events for one notion of neighbours; `reach` is by how many norms of a value an answer moves."""

    def __init__(self, reach: float) -> None:
        self.reach = reach
        self._kinds: Mapping[str, Callable[[Any], Composed]] = {
            "NoOpDpEvent": lambda _: compose(Profile(0.0)),
            "NonPrivateDpEvent": lambda _: compose(Profile(0.0, 1.0)),
            "EpsilonDeltaDpEvent": lambda event: compose(
                Profile(_attribute(event, "epsilon"), _attribute(event, "delta"))
            ),
            "GaussianDpEvent": lambda event: compose(
                Profile.of(Gaussian(_multiplier(event)), self.reach)
            ),
            "LaplaceDpEvent": lambda event: compose(
                Profile.of(Laplace(_multiplier(event)), self.reach)
            ),
            "DiscreteLaplaceDpEvent": self._discrete_laplace,
            "RandomizedResponseDpEvent": self._randomised_response,
            "ComposedDpEvent": self._composed,
            "SelfComposedDpEvent": self._repeated,
            "PoissonSampledDpEvent": self._poisson,
            "SampledWithoutReplacementDpEvent": self._fixed_size,
        }

    def read(self, event: Any) -> Composed:
        """Return the composition of an event."""
        kind = type(event).__name__
        if kind not in self._kinds:
            raise Refused(
                f"There is no profile for a {kind}.",
                allowed=", ".join(self._kinds),
                instead=_INSTEAD,
            )
        return self._kinds[kind](event)

    def _composed(self, event: Any) -> Composed:
        given = _attribute(event, "events")
        if not isinstance(given, Iterable):
            raise UsageError(
                f"The events of a {type(event).__name__} are of type {type(given).__name__}.",
                allowed="a list of events",
                instead=_INSTEAD,
            )
        events = list(cast(Iterable[Any], given))
        return compose([self.read(one) for one in events]) if events else compose(Profile(0.0))

    def _repeated(self, event: Any) -> Composed:
        count = _attribute(event, "count")
        if count == 0:
            return compose(Profile(0.0))
        return compose(self.read(_attribute(event, "event")), count)

    def _discrete_laplace(self, event: Any) -> Composed:
        """Return the profile of tanh(a/2)·e^(−a|x|) on whole numbers, moved by the sensitivity.

        Outputs up to one centre, and from the other on, are each merged: their ratio is constant.
        """
        steepness = number_above(
            _attribute(event, "noise_parameter"), "noise_parameter", 0.0, _INSTEAD
        )
        moved = round(self.reach) * whole_number(
            _attribute(event, "sensitivity"),
            "sensitivity",
            allowed="a whole number >= 1",
            instead=_INSTEAD,
        )
        if moved > _MOST_OUTPUTS:
            return compose(Profile(steepness * moved * (1 + 4 * UNIT)))
        between = math.tanh(steepness / 2) * np.exp(-steepness * np.arange(1, moved))
        near = 1 / (1 + math.exp(-steepness))
        first = np.array([near, *between, math.exp(-steepness * moved) * near])
        return compose(Profile.of_outputs(first, first[::-1]))

    def _randomised_response(self, event: Any) -> Composed:
        if self.reach == 1:
            raise _refused(
                event,
                "rows are added or removed: each row answers for itself",
                'neighbours="replace"',
            )
        buckets = whole_number(
            _attribute(event, "num_buckets"),
            "num_buckets",
            allowed="a whole number >= 1",
            instead=_INSTEAD,
        )
        noise = finite_number(
            _attribute(event, "noise_parameter"),
            "noise_parameter",
            allowed="a number from 0 to 1",
            instead=_INSTEAD,
            fits=lambda number: 0 <= number <= 1,
        )
        if buckets == 1:
            return compose(Profile(0.0))
        other = noise / buckets
        own, rest = 1 - noise + other, (buckets - 2) * other
        return compose(Profile.of_outputs([own, other, rest], [other, own, rest]))

    def _poisson(self, event: Any) -> Composed:
        if self.reach == 2:
            raise _refused(event, "a row is replaced", 'neighbours="add_remove"')
        inner = _once(self.read(_attribute(event, "event")))
        rate = _attribute(event, "sampling_probability")
        return compose(poisson_profile(inner, rate))

    def _fixed_size(self, event: Any) -> Composed:
        if self.reach == 1:
            raise _refused(event, "rows are added or removed", 'neighbours="replace"')
        inner = _once(self.read(_attribute(event, "event")))
        sizes = _attribute(event, "sample_size"), _attribute(event, "source_dataset_size")
        return compose(fixed_size_profile(inner, *sizes))


def _once(together: Composed) -> Profile:
    """Return the composition of the event on a sample, as one release."""
    if len(together.profiles) == 1 and set(together.profiles.values()) == {1}:
        return next(iter(together.profiles))
    return as_profile(together)


def _multiplier(event: Any) -> float:
    """Return a noise multiplier; 0 is no noise."""
    return finite_number(
        _attribute(event, "noise_multiplier"),
        "noise_multiplier",
        allowed="a number >= 0",
        instead=_INSTEAD,
        fits=lambda number: number >= 0,
    )


def _attribute(event: Any, name: str) -> Any:
    """Return an attribute of an event."""
    try:
        return getattr(event, name)
    except AttributeError as error:
        raise UsageError(
            f"A {type(event).__name__} has no {name}.",
            allowed="an event as dp-accounting makes it",
            instead=_INSTEAD,
        ) from error


def _refused(event: Any, why: str, instead: str) -> Refused:
    return Refused(
        f"A {type(event).__name__} where {why}.",
        allowed="the other notion of neighbours",
        instead=instead,
    )
