"""Which bounds `bound=` stands for: one by its name, several, or those that "auto" tries; all that pages know of them.

The room's `__init__` offers the bounds of the house; each says of itself what it is called, for which promises "auto"
tries it and when, whether plans are compared with it, and what it counts.
"""

from collections.abc import Iterable
from typing import Any, Final, cast

from pufferflow.arguments import shown
from pufferflow.bounds.bound import Bound
from pufferflow.errors import Misuse
from pufferflow.guarantees import Guarantee
from pufferflow.habits import EXAMPLES
from pufferflow.noise import Noise
from pufferflow.suggestions import nearest

BOUNDS: Final[dict[str, Bound]] = {}
"""Bounds that need no number, by the names that they have in `bound=` and in job files."""
_KINDS: Final[list[type[Bound]]] = []


def offer(kinds: Iterable[type[Bound]], names: Iterable[str]) -> None:
    """Offer bounds, in the order of pages, and the names of those that need no number, in the order of errors."""
    _KINDS.extend(kinds)
    named = {kind.name: kind for kind in _KINDS}
    BOUNDS.update({name: named[name]() for name in names})


def explanations() -> dict[str, str]:
    """Return one plain sentence for each bound, by the name of its class."""
    return {kind.__name__: kind.explanation for kind in _KINDS}


def compared_bounds(guarantee: Guarantee) -> list[Bound]:
    """Return the bounds that a plan is compared with, those that take a number from the promise last.

    Group privacy is not among them: it has a row of its own, which is about all rows and not about their laws.
    """
    bounds = [kind.compared(guarantee) for kind in sorted(_KINDS, key=lambda kind: kind.name is None)]
    return [bound for bound in bounds if bound is not None and not bound.supports_only]


def read_bounds(bound: Any, guarantee: Guarantee, noise: Noise) -> list[Bound]:
    """Return the bounds to try."""
    if isinstance(bound, Bound):
        return [bound]
    if isinstance(bound, str) and bound == "auto":
        return _automatic(guarantee, noise)
    if isinstance(bound, str) and bound.casefold() in BOUNDS:
        return [BOUNDS[bound.casefold()]]
    if isinstance(bound, str) and (named := _with_number(bound, guarantee)) is not None:
        return [named]
    if isinstance(bound, list | tuple) and bound:
        return [one for part in cast(list[Any], bound) for one in read_bounds(part, guarantee, noise)]
    raise _no_bound(cast(object, bound))


def _with_number(name: str, guarantee: Guarantee) -> Bound | None:
    """Return the bound of a name that needs a number, with the number that fits the promise; None if there is none."""
    kinds = (kind for kind in _KINDS if kind.name is None and kind.__name__.casefold() == name.casefold())
    kind = next(kinds, None)
    if kind is None:
        return None
    bound = kind.compared(guarantee)
    if bound is None:
        raise Misuse(
            f"bound is {shown(name)}, and {guarantee!r} has no δ that it could leave out.",
            allowed="a promise with a δ: pf.Approx or pf.ApproxRenyi",
            instead=f'pf.Approx(epsilon, 1e-6), or bound="{next(iter(BOUNDS))}"',
        )
    return bound


def _automatic(guarantee: Guarantee, noise: Noise) -> list[Bound]:
    """Return the bounds worth trying for a promise that a slightly wrong prior does not break, the quick ones first.

    Group privacy is always among them, so that there is an answer wherever there can be one.
    """
    ranked = [(kind.rank, kind.automatic(guarantee, noise)) for kind in _KINDS if kind.rank is not None]
    return [bound for _, bounds in sorted(ranked, key=lambda one: one[0]) for bound in bounds]


def _no_bound(given: object) -> Misuse:
    """Return the error for what is no bound: a name that is near one, or a class that was not called."""
    said, near = shown(given), nearest(given, (*BOUNDS, "gawm"))
    instead = 'bound=[pf.DAGWM(), pf.Exact()], or bound="auto"'
    if near:
        instead = f'bound="{near[0]}"'
    if isinstance(given, type):
        said = f"the class {given.__name__}, which is no bound yet"
        instead = f"bound={EXAMPLES.get(given.__name__, f'pf.{given.__name__}()')}"
    return Misuse(
        f"bound is {said}.",
        allowed=f"{', '.join(map(repr, ('auto', *BOUNDS, 'gawm')))}, a bound such as pf.GWM(), or a list of bounds",
        instead=instead,
    )
