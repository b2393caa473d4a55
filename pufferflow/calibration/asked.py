"""Reading what is asked for: the family of noises, the bounds, the kind of promise."""

import math
from typing import Any, cast

from pufferflow.bounds import BOUNDS, DAGWM, GAWM, GWM, Bound, Group, Kantorovich, Messages
from pufferflow.errors import Misuse
from pufferflow.guarantees import Approx, ApproxRenyi, Guarantee, Pure, RenyiCurve
from pufferflow.habits import EXAMPLES
from pufferflow.noise import NOISES, Family, Noise
from pufferflow.reading import shown
from pufferflow.suggestions import nearest


def read_family(noise: Any, guarantee: Guarantee) -> Family:
    """Return the family of noises asked for, if it can keep such a promise."""
    if isinstance(noise, str):
        noise = _named_family(noise)
    if isinstance(noise, type) and issubclass(noise, Noise):
        return noise.family(guarantee)
    if callable(cast(object, noise)) and not isinstance(cast(object, _made(noise)), Noise):
        raise Misuse(
            "noise makes no noise of a scale.",
            allowed="a family of noises, whose scale is to be found",
            instead="noise=pf.Laplace, or pf.GeneralizedCauchy.of(k=4)",
        )
    if isinstance(noise, Noise) or not callable(cast(object, noise)):
        kind = type(cast(object, noise)).__name__
        raise Misuse(
            f"noise is {noise!r}." if isinstance(noise, Noise) else f"noise is of type {kind}.",
            allowed="a family of noises, whose scale is to be found",
            instead=f"noise=pf.{kind if isinstance(noise, Noise) else 'Laplace'}, without a scale",
        )
    return cast(Family, noise)


def _named_family(name: str) -> Family:
    if name.casefold() in NOISES:
        return NOISES[name.casefold()]
    near = nearest(name, NOISES)
    raise Misuse(
        f"noise is {shown(name)}.",
        allowed=f"{', '.join(map(repr, ('auto', *NOISES)))}, or a family such as pf.GeneralizedCauchy.of(k=4)",
        instead=f'noise="{near[0] if near else "laplace"}"',
    )


def _made(noise: Any) -> Any:
    """Return what a family gives for a scale of 1; None if it gives nothing."""
    try:
        return noise(1.0)
    except (TypeError, ValueError):
        return None


def read_bounds(bound: Any, guarantee: Guarantee, noise: Noise) -> list[Bound]:
    """Return the bounds to try."""
    if isinstance(bound, Bound):
        return [bound]
    if isinstance(bound, str) and bound == "auto":
        return _every_robust(guarantee, noise)
    if isinstance(bound, str) and bound.casefold() in BOUNDS:
        return [BOUNDS[bound.casefold()]]
    if isinstance(bound, list | tuple) and bound:
        return [one for part in cast(list[Any], bound) for one in read_bounds(part, guarantee, noise)]
    raise _no_bound(cast(object, bound))


def _no_bound(given: object) -> Misuse:
    """Return the error for what is no bound: a name that is near one, or a class that was not called."""
    said, near = shown(given), nearest(given, (*BOUNDS, "gawm"))
    instead = 'bound=[pf.DAGWM(), pf.Exact()], or bound="auto"'
    if near:
        instead = "bound=pf.GAWM(1e-3), with its delta" if near == ["gawm"] else f'bound="{near[0]}"'
    if isinstance(given, type):
        said = f"the class {given.__name__}, which is no bound yet"
        instead = f"bound={EXAMPLES.get(given.__name__, f'pf.{given.__name__}()')}"
    return Misuse(
        f"bound is {said}.",
        allowed=f"{', '.join(map(repr, ('auto', *BOUNDS)))}, a bound such as pf.GWM(), or a list of bounds",
        instead=instead,
    )


def _every_robust(guarantee: Guarantee, noise: Noise) -> list[Bound]:
    """Return the bounds worth trying for a promise that a slightly wrong prior does not break, the quick ones first.

    Group privacy is always among them, so that there is an answer wherever there can be one.
    """
    if isinstance(guarantee, Pure):
        return [Messages(), GWM(), Kantorovich(), Group()]
    if isinstance(guarantee, Approx | ApproxRenyi) and guarantee.delta > 0:
        return [Messages(), DAGWM(), GAWM(_left_out(guarantee, noise)), GWM(), Group()]
    return [Messages(), DAGWM(), GWM(), Group()]


def _left_out(guarantee: Approx | ApproxRenyi, noise: Noise) -> float:
    """Return the share that GAWM may leave out: all of δ, or half where the noise itself needs some of it."""
    needs = isinstance(guarantee, Approx) and math.isinf(noise.pure(1.0))
    return guarantee.delta / 2 if needs else guarantee.delta


def read_kind(kind: Any) -> Guarantee:
    """Return the promise of a kind whose ε is 0."""
    allowed, instead = "a promise without its epsilon", "pf.Pure, pf.Renyi.of(alpha=4) or pf.Approx.of(delta=1e-6)"
    if isinstance(kind, Guarantee):
        raise Misuse(f"kind is {kind!r}, a promise with its epsilon.", allowed=allowed, instead=instead)
    if kind is RenyiCurve or not callable(kind):
        name = "RenyiCurve" if kind is RenyiCurve else f"of type {type(kind).__name__}"
        raise Misuse(f"kind is {name}.", allowed=allowed, instead=instead)
    try:
        example = kind(0.0)
    except TypeError as error:
        raise Misuse(
            f"kind is {getattr(kind, '__name__', 'a function')}, which needs more than an epsilon.",
            allowed=allowed,
            instead=instead,
        ) from error
    if not isinstance(example, Guarantee):
        raise Misuse("kind makes no promise.", allowed=allowed, instead=instead)
    return example
