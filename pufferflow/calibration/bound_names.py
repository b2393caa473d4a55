"""The bounds that `bound=` names: one by its name, several, those of "auto"; and those a plan is compared with.

Each bound states its name, for which guarantees and when "auto" tries it, whether plans are compared with it, and what
it counts. A new bound is added to the list of kinds.
"""

from typing import Any, Final, Literal, cast, get_args

from pufferflow.calibration.bound import Bound
from pufferflow.calibration.chain_bounds import Messages, Quilt, Windows
from pufferflow.calibration.distance_bounds import GAWM, GWM, Group
from pufferflow.calibration.exact.exact import Exact
from pufferflow.calibration.transport_bounds import DAGWM, Kantorovich
from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import EXAMPLES, did_you_mean, nearest
from pufferflow.core.validate import quoted
from pufferflow.noise.base import Noise
from pufferflow.privacy.guarantee import Guarantee

BoundName = Literal[
    "messages", "windows", "gwm", "gawm", "dagwm", "kantorovich", "quilt", "exact", "group"
]
"""The names of bounds in `bound=`, in job files and on the command line, in the order of error messages."""
_KINDS: Final[tuple[type[Bound], ...]] = (
    Messages,
    Windows,
    Quilt,
    Kantorovich,
    GWM,
    GAWM,
    DAGWM,
    Exact,
    Group,
)
"""All bounds, in the order of reports."""
BOUNDS: Final[dict[str, type[Bound]]] = {
    name: kind for name in get_args(BoundName) for kind in _KINDS if kind.name == name
}
"""Bounds by their names."""


def compared_bounds(guarantee: Guarantee, noise: Noise, own: Bound | None = None) -> list[Bound]:
    """Return the bounds that a plan is compared with; those that take a number from the guarantee come last.

    The plan's own bound is among them, and first if its numbers differ. Group privacy is not: it has a line of its
    own in reports, which is about all rows and not about their laws.
    """
    offered = [
        kind.compared(guarantee, noise)
        for kind in sorted(_KINDS, key=lambda kind: kind.takes_delta)
    ]
    compared = [bound for bound in offered if bound is not None and not bound.supports_only]
    return compared if own is None or own in compared or own.supports_only else [own, *compared]


def named_bound(name: str, guarantee: Guarantee, noise: Noise) -> Bound | None:
    """Return the bound that a name stands for under a guarantee; None where no bound has the name."""
    kind = BOUNDS.get(name.casefold())
    return None if kind is None else kind.named(guarantee, noise)


def read_bounds(bound: Any, guarantee: Guarantee, noise: Noise) -> list[Bound]:
    """Return the bounds to try."""
    if isinstance(bound, Bound):
        return [bound]
    if isinstance(bound, str) and bound == "auto":
        return _automatic(guarantee, noise)
    if isinstance(bound, str) and (named := named_bound(bound, guarantee, noise)) is not None:
        return [named]
    if isinstance(bound, list | tuple) and bound:
        return [
            one for part in cast(list[Any], bound) for one in read_bounds(part, guarantee, noise)
        ]
    raise _no_bound(cast(object, bound))


def _automatic(guarantee: Guarantee, noise: Noise) -> list[Bound]:
    """Return the bounds to try for a guarantee that a slightly wrong prior does not break, quick ones first.

    Group privacy is always among them, so that a noise is found wherever one exists.
    """
    ranked = [
        (kind.rank, kind.automatic(guarantee, noise)) for kind in _KINDS if kind.rank is not None
    ]
    return [bound for _, bounds in sorted(ranked, key=lambda one: one[0]) for bound in bounds]


def _no_bound(given: object) -> UsageError:
    """Return the error for a value that is not a bound: a misspelt name, or a class that was not called."""
    said, near = quoted(given), nearest(given, BOUNDS)
    instead = f'bound="{near[0]}"' if near else 'bound=[pf.DAGWM(), pf.Exact()], or bound="auto"'
    if isinstance(given, type):
        said = f"the class {given.__name__}, not a bound: the class has to be called"
        instead = f"bound={EXAMPLES.get(given.__name__, f'pf.{given.__name__}()')}"
    return UsageError(
        f"bound is {said}.{did_you_mean(given, BOUNDS)}",
        allowed=f"{', '.join(map(repr, ('auto', *BOUNDS)))}, a bound such as pf.GWM(), or a list of bounds",
        instead=instead,
    )
