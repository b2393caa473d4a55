"""What is asked of a plan: a promise or an accuracy, and how to get there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast, final

from pufferflow.accuracy import Within
from pufferflow.calibration import Bounds
from pufferflow.calibration.asked import read_kind
from pufferflow.errors import Misuse
from pufferflow.guarantees import Guarantee, Kind, Pure
from pufferflow.habits import EXAMPLES
from pufferflow.noise import Family
from pufferflow.reading import finite_number, shown


@final
@dataclass(frozen=True)
class Wanted:
    """A promise; or errors, with the kind of promise whose ε is to be found. Noise and bound may be left open."""

    promise: Guarantee | Kind
    noise: Family | str = "auto"
    bound: Bounds = "auto"
    accuracy: Within | None = None
    shares: Mapping[str, float] | None = None
    floor: str | None = "row"
    """Whether noise has to be enough for one row alone ("row"), or for the prior only (None)."""
    seconds: float | None = None
    """After how many seconds no further bound is begun; None if time does not matter."""

    @property
    def example(self) -> Guarantee:
        """A promise of the kind that is asked for."""
        return self.promise if isinstance(self.promise, Guarantee) else self.promise(1.0)

    @property
    def kind(self) -> Kind:
        """The kind of promise, where errors are given."""
        return Pure if isinstance(self.promise, Guarantee) else self.promise


def read_seconds(given: object) -> float | None:
    """Return how long further bounds may be begun."""
    allowed, instead = "a finite number > 0 of seconds, or None", "seconds=10"
    if given is None:
        return None
    seconds = finite_number(given, "seconds", allowed=allowed, instead=instead)
    if not seconds > 0:
        raise Misuse(f"seconds is {seconds:g}.", allowed=allowed, instead=instead)
    return seconds


def read_promise(guarantee: object, epsilon: float | None, accuracy: Within | None) -> Guarantee | Kind:
    """Return the promise that is asked for, or its kind where errors are given."""
    if epsilon is not None:
        if guarantee is not None:
            raise Misuse(
                "Both a promise and an epsilon are given.", allowed="one of them", instead="plan(pf.Pure(1.0))"
            )
        guarantee = Pure(epsilon)
    if accuracy is not None:
        if isinstance(guarantee, Guarantee):
            raise Misuse(
                "Both a promise and an accuracy are given.",
                allowed="an accuracy with a kind of promise (pf.Pure, if left out), or a promise alone",
                instead="plan(pf.Renyi.of(alpha=4), accuracy=pf.Within(5))",
            )
        if not isinstance(accuracy, Within):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise Misuse(
                f"accuracy is of type {type(accuracy).__name__}.", allowed="pf.Within(error)", instead="pf.Within(5)"
            )
        kind = Pure if guarantee is None else guarantee
        read_kind(kind)
        return cast(Kind, kind)
    if not isinstance(guarantee, Guarantee):
        raise _no_promise(guarantee)
    return guarantee


def _no_promise(given: object) -> Misuse:
    """Return the error for what is no promise: a number says how much, and not of which kind."""
    problem = "left out" if given is None else f"{shown(given)}, which does not say of which kind it is"
    if isinstance(given, type) and issubclass(given, Guarantee):
        problem = f"pf.{given.__name__} without its numbers"
        return Misuse(
            f"The promise is {problem}.",
            allowed="a promise, or a kind of promise together with an accuracy",
            instead=f"plan({EXAMPLES.get(given.__name__, 'pf.Pure(1.0)')}), or accuracy=pf.Within(5)",
        )
    epsilon = given if isinstance(given, int | float) and 0 < given < 1e6 else 1.0
    return Misuse(
        f"The promise is {problem}.",
        allowed="pf.Pure, pf.Approx, pf.Renyi, pf.RenyiCurve or pf.ApproxRenyi, or an epsilon",
        instead=f"pf.Pure({float(epsilon):g}), or epsilon={float(epsilon):g}",
    )
