"""Which states a chain may be in at all: a value that is impossible under a prior is hidden from nobody by it.

Only supports matter: `high` > 0 says that some member of a class of chains may take a step, `low` > 0 that all may. A
single chain is the class whose bounds are equal.
"""

from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from pufferflow.errors import Misuse
from pufferflow.priors.kernels import Floats
from pufferflow.reading import refuse_belief
from pufferflow.secrets import AnySecret, Initial
from pufferflow.secrets.domain import Label
from pufferflow.secrets.secret import ValueSecret

Flags = npt.NDArray[np.bool_]
_MOST_TURNS = 4096


@final
class Possible:
    """The states that are possible at the `first` step, at `some` step, and at `every` step."""

    def __init__(self, reached: Sequence[Flags]) -> None:
        self.first = reached[0]
        self.some: Flags = np.any(reached, axis=0)
        self.every: Flags = np.all(reached, axis=0)


def possible_from(laws: Floats, high: Floats, *, repeated: bool) -> Possible:
    """Return the states that steps lead to from some laws of the first; steps that are `repeated` go round for ever.

    >>> possible_from(np.array([[1.0, 0.0]]), np.array([[[0.9, 0.1], [0.0, 1.0]]]), repeated=True).every
    array([ True, False])
    """
    reached: list[Flags] = [np.any(laws > 0, axis=0)]
    known, links = {(0, reached[0].tobytes())}, high > 0
    for step in range(_MOST_TURNS * len(links) if repeated else len(links)):
        following = links[step % len(links)][reached[-1]].any(axis=0)
        place = (step + 1) % len(links), following.tobytes()
        if repeated and place in known:
            break
        known.add(place)
        reached.append(following)
    return Possible(reached)


def possible_at_rest(low: Floats, high: Floats) -> Possible:
    """Return the states that a stationary law of some member gives a probability, phase by phase.

    These are the states to which all roads lead back: a set that some member never leaves, and in which it may come
    from every state to this one.

    >>> possible_at_rest(*[np.array([[[0.9, 0.1], [0.0, 1.0]]])] * 2).some
    array([False,  True])
    """
    found = np.zeros(high.shape[:2], dtype=np.bool_)
    for phase, state in np.ndindex(*found.shape):
        if not found[phase, state]:
            found |= _recurring_with((phase, state), low, high)
    return Possible(list(found))


def _recurring_with(place: tuple[int, int], low: Floats, high: Floats) -> Flags:
    """Return the states to which a member may come back from everywhere, if one state at a phase is among them."""
    inside = np.ones(high.shape[:2], dtype=np.bool_)
    while inside[place]:
        stays = _may_stay(inside, low, high) & _leading_to(place, inside, high)
        if (stays == inside).all():
            return _led_to(place, inside, high)  # all of these lead back to it
        inside = stays
    return np.zeros_like(inside)


def _may_stay(inside: Flags, low: Floats, high: Floats) -> Flags:
    """Return from where the next step may stay within a set: none has to leave it, and there is room in it for all."""
    following = np.roll(inside, -1, axis=0)
    leaves = ((low > 0) & ~following[:, None, :]).any(axis=2)
    room = np.where(following[:, None, :], high, 0.0).sum(axis=2)
    return inside & ~leaves & (room > 1 - len(high[0]) * 1e-9)


def _leading_to(place: tuple[int, int], inside: Flags, high: Floats) -> Flags:
    """Return from where steps within a set may lead to a place."""
    reach = np.zeros_like(inside)
    reach[place] = True
    while True:
        before = np.roll(reach, -1, axis=0)
        wider = reach | (inside & ((high > 0) & before[:, None, :]).any(axis=2))
        if (wider == reach).all():
            return reach
        reach = wider


def _led_to(place: tuple[int, int], inside: Flags, high: Floats) -> Flags:
    """Return where steps within a set may lead from a place."""
    reach = np.zeros_like(inside)
    reach[place] = True
    while True:
        stepped = ((high > 0) & reach[:, :, None]).any(axis=1)
        wider = reach | (inside & np.roll(stepped, 1, axis=0))
        if (wider == reach).all():
            return reach
        reach = wider


def check_possible(possible: Possible, secret: AnySecret, chain: str) -> None:
    """Refuse a secret with a value that has no probability wherever it is a secret."""
    if not isinstance(secret, ValueSecret):
        return
    first = isinstance(secret, Initial)
    occurs = possible.first if first else possible.some
    for value, may_be in zip(secret.domain.points, occurs.tolist(), strict=True):
        if not may_be:
            where = "the first step" if first else "any step"
            refuse_belief(
                Misuse(
                    f"The prior {chain} gives {secret.column} = {value!r} no probability at {where}, so that it would "
                    "be hidden from nobody.",
                    allowed="values with a probability above 0: of the first step for pf.Initial, else of some step",
                    instead="initial='free', initial=[…] with a share for it, or a domain and a transition without it",
                )
            )


def values_not_at_every_step(possible: Possible, secret: AnySecret) -> tuple[Label, ...]:
    """Return the values of a secret that are impossible at some step."""
    if not isinstance(secret, ValueSecret) or isinstance(secret, Initial):
        return ()
    always = possible.every.tolist()
    return tuple(value for value, may_be in zip(secret.domain.points, always, strict=True) if not may_be)
